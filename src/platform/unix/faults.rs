//! Owns restoring the terminal when the session can't: a fault ends the program, or the terminal takes nothing any more.

use std::fs::File;
use std::io::Write;
use std::os::raw::c_int;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// True while the terminal is in this program's modes.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The terminal as it was at the start.
static BEFORE: OnceLock<Before> = OnceLock::new();

/// What a signal handler needs to restore the terminal: it may neither allocate nor lock.
struct Before {
    modes: libc::termios,
    farewell: Vec<u8>,
}

/// Remembers the current modes, and the `farewell` that reverts what is printed from now on. Only the first call counts.
pub(crate) fn remember_terminal(farewell: Vec<u8>) {
    if let Some(before) = Before::now(farewell) {
        BEFORE.get_or_init(|| before);
    }
}

pub(crate) fn note_terminal_taken(is_taken: bool) {
    TAKEN.store(is_taken, Ordering::SeqCst);
}

impl Before {
    #[allow(unsafe_code, reason = "the handler takes the same structure")]
    fn now(farewell: Vec<u8>) -> Option<Before> {
        // SAFETY: all zero is a value of this structure of plain numbers, and it is written before it is read.
        let mut modes: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: writes to the structure alone.
        let read = unsafe { libc::tcgetattr(libc::STDOUT_FILENO, &raw mut modes) };
        (read == 0).then_some(Before { modes, farewell })
    }
}

/// Restores the modes of a terminal that is in this program's; gives what else there is to restore.
#[allow(unsafe_code, reason = "a signal handler calls it")]
fn restore_modes() -> Option<&'static Before> {
    let before = BEFORE.get()?;
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return None;
    }
    // SAFETY: reads what is never changed.
    unsafe { libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, &raw const before.modes) };
    Some(before)
}

/// Ends this program by a signal although the session does not: the terminal takes nothing any more. It is restored as
/// far as that waits for nothing.
pub(crate) fn end_at_once(signal: c_int) {
    if let Some(before) = restore_modes() {
        say_farewell(&before.farewell);
    }
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // Some signals are not known there.
    signal_hook::low_level::exit(128 + signal);
}

/// Prints it if that waits for nothing.
fn say_farewell(farewell: &[u8]) {
    let stdout = rustix::stdio::stdout();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut output = [PollFd::new(&stdout, PollFlags::OUT)];
    if poll(&mut output, Some(&at_once)) == Ok(1) {
        // Opened anew: the shell's own way to the terminal keeps waiting for it.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let terminal = File::options().write(true).custom_flags(flags).open("/dev/fd/1");
        let _ = terminal.and_then(|mut terminal| terminal.write_all(farewell));
    }
}

/// The signals of a fault. They can't be handled on a thread, because the program must not continue.
const FAULTS: [c_int; 7] =
    [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGSYS, libc::SIGTRAP];

/// Makes a fault restore the terminal before it ends the program.
#[allow(unsafe_code, reason = "signal handlers have no other interface")]
pub(crate) fn give_back_on_fault() {
    for signal in FAULTS {
        // SAFETY: all zero is a valid value; the handler makes only calls that POSIX allows in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
            // Once: the second time is the default, which ends the program.
            action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

#[allow(unsafe_code, reason = "see `give_back_on_fault`")]
extern "C" fn on_fault(signal: c_int) {
    if let Some(before) = restore_modes() {
        // SAFETY: reads what is never changed.
        unsafe { libc::write(libc::STDOUT_FILENO, before.farewell.as_ptr().cast(), before.farewell.len()) };
    }
    // SAFETY: takes a number. The signal may have been sent by somebody, and then nothing would raise it again.
    unsafe { libc::raise(signal) };
}
