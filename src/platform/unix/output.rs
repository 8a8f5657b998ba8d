//! Owns whether standard output was closed when the program was started.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed when the program was started. By the time `main` runs it is /dev/null.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the loader, before the standard library opens /dev/null in the place of what is closed.
#[used]
#[allow(unsafe_code, reason = "nothing else runs early enough")]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;

#[allow(unsafe_code, reason = "see `LOOK`")]
extern "C" fn look() {
    // SAFETY: asks for the flags of a descriptor, which may be closed; nothing of the standard library is used.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Fails where there is no standard output.
pub(crate) fn check_output_open() -> io::Result<()> {
    if WAS_CLOSED.load(Ordering::Relaxed) { Err(io::Error::other("standard output is closed")) } else { Ok(()) }
}
