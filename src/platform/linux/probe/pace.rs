//! Owns waiting for the next reading: until it is due, until the reader of our output has gone, or wants another pace.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::platform::unix::pipe::timespec;

/// Why the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The time has come.
    Due,
    /// Nobody reads what we write any more.
    ReaderGone,
    /// The reader has set the time between readings.
    Ordered,
}

/// Waits until `due`. A pipe whose reading end was closed is noticed at once; files and terminals never are.
pub(super) fn wait_until(due: Instant, output: impl AsFd, orders: Option<&impl AsFd>) -> Woken {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Woken::Due;
        }
        // No event is asked for: an error or a hang-up is always reported.
        let mut watched = vec![PollFd::new(&output, PollFlags::empty())];
        watched.extend(orders.map(|orders| PollFd::new(orders, PollFlags::IN)));
        match poll(&mut watched, Some(&timespec(left))) {
            Ok(0) => return Woken::Due,
            Ok(_) if watched.first().is_some_and(|output| !output.revents().is_empty()) => return Woken::ReaderGone,
            Ok(_) => return Woken::Ordered,
            Err(Errno::INTR) => {}
            // The output can't be watched: writing to it will tell.
            Err(_) => return Woken::Due,
        }
    }
}

/// The last order that came: a line of seconds. `Err` if no more will come, `Ok(None)` if it is not a valid order.
pub(super) fn order(orders: &mut impl Read) -> io::Result<Option<Duration>> {
    let mut bytes = [0; 256];
    let length = orders.read(&mut bytes)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
    let seconds = text.lines().last().and_then(|line| line.trim().parse::<f64>().ok());
    Ok(seconds.filter(|seconds| (0.01..=86_400.0).contains(seconds)).map(Duration::from_secs_f64))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn the_wait_ends_when_the_reader_goes_and_not_before() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let none = None::<&File>;
        assert_eq!(wait_until(Instant::now() + Duration::from_millis(20), &writer, none), Woken::Due);
        drop(reader);
        assert_eq!(wait_until(Instant::now() + Duration::from_secs(60), &writer, none), Woken::ReaderGone);
    }

    #[test]
    fn the_last_order_counts_and_nonsense_is_none() {
        let (_reader, output) = rustix::pipe::pipe().unwrap();
        let (orders, says) = rustix::pipe::pipe().unwrap();
        let (mut orders, mut says) = (File::from(orders), File::from(says));
        let far = || Instant::now() + Duration::from_secs(60);
        for (said, wanted) in
            [("5\n", Some(5.0)), ("5\n0.5\n", Some(0.5)), ("-1\n", None), ("NaN\n", None), ("x", None)]
        {
            says.write_all(said.as_bytes()).unwrap();
            assert_eq!(wait_until(far(), &output, Some(&orders)), Woken::Ordered);
            assert_eq!(order(&mut orders).unwrap(), wanted.map(Duration::from_secs_f64), "{said}");
        }
        drop(says);
        assert_eq!(wait_until(far(), &output, Some(&orders)), Woken::Ordered);
        assert!(order(&mut orders).is_err());
    }
}
