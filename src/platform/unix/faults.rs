//! Owns restoring the terminal when a fault ends the program: nothing but this handler can run then.

use std::os::raw::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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
    if let Some(before) = BEFORE.get()
        && TAKEN.swap(false, Ordering::SeqCst)
    {
        // SAFETY: both read what is never changed.
        unsafe {
            libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, &raw const before.modes);
            libc::write(libc::STDOUT_FILENO, before.farewell.as_ptr().cast(), before.farewell.len());
        }
    }
    // SAFETY: takes a number. The signal may have been sent by somebody, and then nothing would raise it again.
    unsafe { libc::raise(signal) };
}
