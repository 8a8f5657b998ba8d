//! Owns the signals of a program that runs a command in its place: which of them the command got as well, and which it must
//! be sent; and stopping and ending as the command did.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, setrlimit};

use super::witness::Witness;
use crate::platform::unix::output::{ignored_pipes, was_closed};

/// `si_code` of a signal that the kernel sent by itself, such as that of Ctrl-C.
const BY_THE_KERNEL: i32 = 0x80;
/// The bytes of a `signalfd_siginfo`.
const INFO: usize = 128;

/// What a signal means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The command ended or stopped.
    Child,
    /// Another signal.
    Other(Sent),
}

/// A signal that somebody sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) number: c_int,
    /// The kernel sends its signals to a whole group.
    is_by_the_kernel: bool,
}

/// Signals wait here until they are read, in every thread.
pub(super) struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
    ignored_children: bool,
    /// `None` where the system had no process left.
    witness: Option<Witness>,
}

impl Signals {
    /// Takes over all signals that can be taken over, but for those that are ignored: the command ignores them, too.
    #[allow(unsafe_code, reason = "signal masks and signalfd have no other interface")]
    pub(super) fn take() -> io::Result<Signals> {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let mut ignored = ignored();
        // Who ignores it is not told how a command ended.
        let ignored_children = ignored.contains(&libc::SIGCHLD);
        ignored.retain(|signal| *signal != libc::SIGCHLD);
        if ignored_children {
            // SAFETY: takes two numbers. The handler is the system's own.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        // SAFETY: the sets are written by the first call on each, and read after it.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in taken().filter(|signal| !ignored.contains(signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            check(libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()))?;
            let descriptor = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            let descriptor = OwnedFd::from_raw_fd(descriptor);
            let witness = Witness::start(&descriptor).ok();
            Ok(Signals { descriptor, before: before.assume_init(), ignored_children, witness })
        }
    }

    /// Lets the command begin with the signals and streams that this program began with. It ends when this program is
    /// killed, so that killing this program is killing the command.
    #[allow(unsafe_code, reason = "the mask is inherited, and only the child may change its own")]
    pub(super) fn give_back_in(&self, command: &mut Command) {
        let (before, parent) = (self.before, getpid());
        let ignored = [(libc::SIGPIPE, ignored_pipes()), (libc::SIGCHLD, self.ignored_children)];
        let closed = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO].map(was_closed);
        let begin = move || {
            set_mask(&before)?;
            for (signal, was_ignored) in ignored {
                if was_ignored {
                    // SAFETY: takes two numbers.
                    unsafe { libc::signal(signal, libc::SIG_IGN) };
                }
            }
            for (descriptor, was_closed) in (0..).zip(closed) {
                if was_closed {
                    // SAFETY: nothing in this copy of the process uses that descriptor.
                    unsafe { libc::close(descriptor) };
                }
            }
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // This program may have been killed before that.
            if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
        };
        // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(begin) };
    }

    pub(super) fn give_back(&self) -> io::Result<()> {
        set_mask(&self.before)
    }

    /// Waits for the next signal.
    pub(super) fn next(&self) -> io::Result<Received> {
        let mut info = [0; INFO];
        loop {
            match rustix::io::read(&self.descriptor, &mut info) {
                Ok(_) => return Ok(meaning(&info)),
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the command did not get it: it was sent to this process alone.
    pub(super) fn is_for_us_alone(&mut self, sent: Sent) -> bool {
        let got = self.witness.as_mut().and_then(|witness| witness.got(sent.number));
        // The same signal once more, which came while the witness was asked, is that signal.
        self.take_waiting(sent.number);
        !got.unwrap_or(sent.is_by_the_kernel)
    }

    #[allow(unsafe_code, reason = "see `take`")]
    fn take_waiting(&self, signal: c_int) {
        let (set, at_once) = (set_of(signal), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        // SAFETY: reads a set and a time that were written.
        while unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const at_once) } > 0 {}
    }

    /// Stops this program by this signal, as if nobody had taken it over. Returns when it goes on. Other signals wait.
    #[allow(unsafe_code, reason = "see `take`")]
    pub(super) fn stop_by(&mut self, signal: c_int) -> io::Result<()> {
        raise(signal);
        let set = set_of(signal);
        // SAFETY: reads a set that was written.
        unsafe {
            // A signal that waits takes effect once nothing holds it back.
            check(libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()))?;
            if taken().any(|taken| taken == signal) {
                check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
            }
        }
        // The witness got it as well, and nobody will ask about it.
        let _ = self.witness.as_mut().and_then(|witness| witness.got(signal));
        Ok(())
    }
}

/// What is taken over: not what cannot be, what a fault of this program raises, and what stops a program that reads or
/// writes in the background, which is for the whole group.
fn taken() -> impl Iterator<Item = c_int> {
    const LEFT: [c_int; 13] = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGSYS,
        libc::SIGPIPE,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
    ];
    let usual = (1..32).filter(|signal| !LEFT.contains(signal));
    usual.chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// The signals that this program was told to ignore, as `nohup` does.
fn ignored() -> Vec<c_int> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

fn meaning(info: &[u8; INFO]) -> Received {
    let (number, code) = (field(info, 0), field(info, 8));
    if number == libc::SIGCHLD {
        return Received::Child;
    }
    Received::Other(Sent { number, is_by_the_kernel: code == BY_THE_KERNEL })
}

fn field(info: &[u8; INFO], at: usize) -> i32 {
    let bytes = info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, i32::from_ne_bytes)
}

/// Ends this program by a signal, as it ended the command. No core of this program is left. Returns if the signal has no
/// effect.
#[allow(unsafe_code, reason = "the default action of a signal has no other interface")]
pub(super) fn end_by(signal: c_int) {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // SAFETY: takes two numbers. The handler is the system's own.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let set = set_of(signal);
    // SAFETY: reads a set that was written.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
    raise(signal);
}

#[allow(unsafe_code, reason = "see `Signals::take`")]
fn set_of(signal: c_int) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is written by the first call, and read after it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        set.assume_init()
    }
}

fn raise(signal: c_int) {
    send(getpid(), signal);
}

/// Sends a signal of any number. `pid`: this process, or the command, whose PID is its own until it was waited for.
#[allow(unsafe_code, reason = "rustix has no signals by number, which real-time signals are")]
pub(super) fn send(pid: Pid, signal: c_int) {
    // SAFETY: takes two numbers.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

#[allow(unsafe_code, reason = "see `Signals::take`")]
fn set_mask(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: reads a set that was written.
    unsafe { check(libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut())) }
}

fn check(error: c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}
