//! Owns waiting for a pipe: until something comes, until its writer ends, or no longer than somebody wants to wait.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::platform::regular;

/// A pipe, or whatever standard input is.
#[derive(Debug)]
pub(crate) struct Pipe(File);

impl Pipe {
    pub(crate) fn new(file: File) -> Pipe {
        Pipe(file)
    }

    /// Reads what is there: `Some(0)` at the end of the pipe, `None` if nothing came in time.
    pub(crate) fn read_within(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Option<usize>> {
        // A named pipe without a writer reads as ended, so this waits until it has data.
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], patience.map(timespec).as_ref()) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            _ => self.0.read(block).map(Some),
        }
    }
}

/// Opens a named pipe without waiting for its writer.
pub(crate) fn open_named_pipe(path: &Path) -> io::Result<File> {
    let pipe = regular::open_without_waiting(path)?;
    // Only opening must not wait; reading may.
    rustix::fs::fcntl_setfl(&pipe, OFlags::RDONLY)?;
    Ok(pipe)
}

/// A time for `poll`, at most a day.
pub(crate) fn timespec(time: Duration) -> Timespec {
    let time = time.min(Duration::from_secs(86_400));
    Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}
