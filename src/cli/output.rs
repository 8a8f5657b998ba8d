//! Owns what goes to standard output: whether all of it was written. A reader that has gone (`| head`) wanted no more;
//! a full disk or a closed output is an error, since whoever reads the exit code must not think that there is an answer.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed when the program was started. By the time `main` runs it is /dev/null.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the loader, before the standard library opens /dev/null in the place of what is closed.
#[used]
#[allow(unsafe_code, reason = "nothing else runs early enough")]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[allow(unsafe_code, reason = "see `LOOK`")]
extern "C" fn look() {
    // SAFETY: asks for the flags of a descriptor, which may be closed; nothing of the standard library is used.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Fails where there is no standard output.
pub fn check_open() -> io::Result<()> {
    if WAS_CLOSED.load(Ordering::Relaxed) { Err(io::Error::other("standard output is closed")) } else { Ok(()) }
}

/// Writes an answer.
pub fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // What is buffered is not written yet, and at the program's end nobody would hear of an error.
    match check_open().and_then(|()| out.write_all(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes an answer; the exit code is this one, or 2 where it could not be written.
pub fn answer(text: &str, code: ExitCode) -> ExitCode {
    match write(text.as_bytes()) {
        Ok(()) => code,
        Err(error) => super::refuse(&format!("the answer could not be written: {error}")),
    }
}
