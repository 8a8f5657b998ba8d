//! Owns what the console tells a program that it is to end: Ctrl-Break, a window that closes, a user who logs off.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

use crate::platform::contract::Asked;

/// The C library's numbers for these (signal.h of the Universal CRT; learn.microsoft.com, checked 2026-11-22).
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGBREAK: i32 = 21;

/// Windows ends the program as soon as the handler has answered, and 5 s after it asked at the latest.
const LAST_WORDS: Duration = Duration::from_secs(4);

type Tell = Box<dyn Fn(Asked) -> bool + Send>;

/// Whom the handler tells. The first event takes it: a second one ends a program that does not answer.
static TELL: Mutex<Option<Tell>> = Mutex::new(None);

/// Tells of the first such event.
#[allow(unsafe_code, reason = "the console's events have no other interface")]
pub(super) fn listen(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
    if let Ok(mut told) = TELL.lock() {
        *told = Some(Box::new(tell));
    }
    // SAFETY: the handler is a function of this program, and Windows calls it on a thread of its own.
    let is_set = unsafe { SetConsoleCtrlHandler(Some(on_event), 1) };
    if is_set == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Answers whether the event is dealt with; what is not ends the program at once.
#[allow(unsafe_code, reason = "Windows calls it")]
unsafe extern "system" fn on_event(event: u32) -> BOOL {
    let signal = match event {
        CTRL_C_EVENT => SIGINT,
        CTRL_BREAK_EVENT => SIGBREAK,
        _ => SIGTERM,
    };
    let tell = TELL.lock().ok().and_then(|mut tell| tell.take());
    let is_told = tell.is_some_and(|tell| tell(Asked::End(signal)));
    if is_told && signal == SIGTERM {
        // The loop restores the terminal and ends the program, and this thread with it.
        thread::park_timeout(LAST_WORDS);
    }
    BOOL::from(is_told)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "as Windows calls it")]
    fn ctrl_break_asks_to_end_and_a_second_time_ends() {
        let (told, asked) = mpsc::channel();
        listen(move |asked| told.send(asked).is_ok()).unwrap();
        // SAFETY: it takes a number and may be called on any thread.
        assert_eq!(unsafe { on_event(CTRL_BREAK_EVENT) }, 1);
        assert_eq!(asked.try_recv().unwrap(), Asked::End(SIGBREAK));
        // SAFETY: see above.
        assert_eq!(unsafe { on_event(CTRL_BREAK_EVENT) }, 0);
    }
}
