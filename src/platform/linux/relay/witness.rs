//! Owns finding out whether a signal was sent to this process alone, or to all of its group or job: a witness, a process in
//! the same group that does nothing else, got it as well or did not. The signal itself does not tell.

use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::poll;

use crate::platform::unix::pipe::timespec;

/// A signal to a group reaches its processes one after the other, within microseconds.
const SPREAD: Duration = Duration::from_millis(10);
/// A witness that was stopped does not answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// The process, as long as this lives.
pub(super) struct Witness {
    line: UnixStream,
    /// The signals that it got and this process has not read yet.
    seen: u64,
}

impl Witness {
    /// Starts one. `signals` is where signals that are held back are read. Must be called while there is one thread only.
    #[allow(unsafe_code, reason = "a copy of this process has no other interface")]
    pub(super) fn start(signals: &OwnedFd) -> io::Result<Witness> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let open = open_descriptors();
        let parent = rustix::process::getpid();
        // SAFETY: no other thread holds a lock, and the copy neither returns nor unwinds.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => testify(signals.as_raw_fd(), theirs.as_raw_fd(), &open, parent),
            _ => Ok(Witness { line: ours, seen: 0 }),
        }
    }

    /// Whether the witness got this signal, too. Waits until it must have got it. `None` if it does not answer.
    pub(super) fn got(&mut self, signal: c_int) -> Option<bool> {
        let _ = poll(&mut [], Some(&timespec(SPREAD)));
        let mut answer = [0; 8];
        self.line.write_all(&[0]).ok()?;
        self.line.read_exact(&mut answer).ok()?;
        self.seen |= u64::from_ne_bytes(answer);
        let got = self.seen & bit(signal) != 0;
        self.seen &= !bit(signal);
        Some(got)
    }
}

/// What the witness does. It has no file open, so that nobody waits for its end, and no signal but SIGSTOP and SIGKILL does
/// anything to it. It ends with the process that started it.
#[allow(unsafe_code, reason = "see `Witness::start`")]
fn testify(signals: RawFd, line: RawFd, open: &[RawFd], parent: rustix::process::Pid) -> ! {
    // SAFETY: only system calls, on descriptors that this process has and on blocks of the given size.
    unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
        for descriptor in open {
            if ![signals, line].contains(descriptor) {
                libc::close(*descriptor);
            }
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut asked = [0_u8; 1];
        while rustix::process::getppid() == Some(parent) && libc::read(line, asked.as_mut_ptr().cast(), 1) == 1 {
            let mut seen = 0_u64;
            let mut info = [0_u32; 32];
            while libc::read(signals, info.as_mut_ptr().cast(), size_of_val(&info)) > 0 {
                let [number, ..] = info;
                seen |= bit(number.cast_signed());
            }
            libc::write(line, (&raw const seen).cast(), size_of_val(&seen));
        }
        libc::_exit(0)
    }
}

fn bit(signal: c_int) -> u64 {
    signal.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift.cast_unsigned())).unwrap_or(0)
}

fn open_descriptors() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
