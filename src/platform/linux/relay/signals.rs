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
use rustix::process::{Pid, Resource, Rlimit, Signal, getpgid, getpgrp, getpid, setrlimit};

/// `si_code` of a signal that the kernel sent by itself, such as that of Ctrl-C.
const BY_THE_KERNEL: i32 = 0x80;
/// The bytes of a `signalfd_siginfo`.
const INFO: usize = 128;
/// Programs that signal every process of a job: the command has got the signal from them already.
const SIGNAL_EVERYBODY: [&str; 2] = ["slurmstepd", "systemd"];

/// What a signal means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The command ended or stopped.
    Child,
    /// The terminal has another size.
    Resized,
    /// The command did not get it.
    ForUsAlone(c_int),
    /// The command got it, too, or it is for nobody.
    ForBoth,
}

/// Signals wait here until they are read, in every thread.
pub(super) struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes over all signals that can be taken over, but for those that are ignored: the command ignores them, too.
    #[allow(unsafe_code, reason = "signal masks and signalfd have no other interface")]
    pub(super) fn take() -> io::Result<Signals> {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let ignored = ignored();
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
            Ok(Signals { descriptor: OwnedFd::from_raw_fd(descriptor), before: before.assume_init() })
        }
    }

    /// Lets the command begin with the signals that this program began with. It ends when this program is killed, so that
    /// killing this program is killing the command.
    #[allow(unsafe_code, reason = "the mask is inherited, and only the child may change its own")]
    pub(super) fn give_back_in(&self, command: &mut Command) {
        let (before, parent) = (self.before, getpid());
        let begin = move || {
            set_mask(&before)?;
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

    /// Stops this program by this signal, as if nobody had taken it over. Returns when it goes on.
    pub(super) fn stop_by(&self, signal: c_int) -> io::Result<()> {
        raise(signal);
        // A signal that waits takes effect once nothing holds it back.
        set_mask(&self.before)?;
        Signals::take_again(self)
    }

    #[allow(unsafe_code, reason = "see `take`")]
    fn take_again(&self) -> io::Result<()> {
        let ignored = ignored();
        let mut set = MaybeUninit::uninit();
        // SAFETY: as in `take`.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in taken().filter(|signal| !ignored.contains(signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            check(libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))
        }
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
    let (number, code, sender) = (field(info, 0), field(info, 8), field(info, 12));
    if number == libc::SIGCHLD {
        return Received::Child;
    }
    if number == libc::SIGWINCH {
        return Received::Resized;
    }
    // The shell continues the whole group, and a stopped command is continued where this program goes on.
    if number == libc::SIGCONT || code == BY_THE_KERNEL || is_sent_to_both(sender) {
        return Received::ForBoth;
    }
    Received::ForUsAlone(number)
}

/// Whether who sent it signals the whole group, or every process of a job.
fn is_sent_to_both(sender: i32) -> bool {
    // A sender in another PID namespace has no PID here: a container runtime signals its first process alone.
    let Some(pid) = Pid::from_raw(sender) else { return false };
    if getpgid(Some(pid)).is_ok_and(|group| group == getpgrp()) {
        return true;
    }
    let name = fs::read_to_string(format!("/proc/{sender}/comm")).unwrap_or_default();
    SIGNAL_EVERYBODY.contains(&name.trim())
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
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is written before it is read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
    raise(signal);
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
