//! Owns waiting for the next reading: until it is due, or until the reader of our output has gone.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Why the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time has come.
    Due,
    /// Nobody reads what we write any more.
    ReaderGone,
}

/// Waits until `due`. A pipe whose reading end was closed is noticed at once; files and terminals never are.
pub fn wait_until(due: Instant, output: impl AsFd) -> Woken {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Woken::Due;
        }
        // No event is asked for: an error or a hang-up is always reported.
        let mut watched = [PollFd::new(&output, PollFlags::empty())];
        match poll(&mut watched, Some(&timespec(left))) {
            Ok(0) => return Woken::Due,
            Ok(_) => return Woken::ReaderGone,
            Err(Errno::INTR) => {}
            // The output can't be watched: writing to it will tell.
            Err(_) => return Woken::Due,
        }
    }
}

/// For `poll`; never longer than a day.
pub fn timespec(time: Duration) -> Timespec {
    let time = time.min(Duration::from_secs(86_400));
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_ends_when_the_reader_goes_and_not_before() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(wait_until(Instant::now() + Duration::from_millis(20), &writer), Woken::Due);
        drop(reader);
        assert_eq!(wait_until(Instant::now() + Duration::from_secs(60), &writer), Woken::ReaderGone);
    }
}
