//! Owns how this program was started, as far as the standard library changes it before `main` runs: which of the standard
//! streams were closed, and whether SIGPIPE was ignored.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which of the standard streams were closed. By the time `main` runs they are /dev/null.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
/// Whether SIGPIPE was ignored, as systemd does for its services. By the time `main` runs it always is.
static IGNORED_PIPES: AtomicBool = AtomicBool::new(false);

/// Run by the loader, before the standard library opens /dev/null in the place of what is closed.
#[used]
#[allow(unsafe_code, reason = "nothing else runs early enough")]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;

#[allow(unsafe_code, reason = "see `LOOK`")]
extern "C" fn look() {
    for (descriptor, was_closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: asks for the flags of a descriptor, which may be closed; nothing of the standard library is used.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        was_closed.store(flags == -1, Ordering::Relaxed);
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks; what all zeros mean is a valid action, which the call replaces.
    let handler = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    IGNORED_PIPES.store(handler == libc::SIG_IGN, Ordering::Relaxed);
}

/// Fails where there is no standard output.
pub(crate) fn check_output_open() -> io::Result<()> {
    if was_closed(libc::STDOUT_FILENO) { Err(io::Error::other("standard output is closed")) } else { Ok(()) }
}

/// Whether this one of the standard streams was closed when the program was started.
pub(crate) fn was_closed(descriptor: i32) -> bool {
    let stream = usize::try_from(descriptor).ok().and_then(|number| WAS_CLOSED.get(number));
    stream.is_some_and(|was_closed| was_closed.load(Ordering::Relaxed))
}

/// Whether SIGPIPE was ignored when the program was started.
#[cfg(target_os = "linux")]
pub(crate) fn ignored_pipes() -> bool {
    IGNORED_PIPES.load(Ordering::Relaxed)
}
