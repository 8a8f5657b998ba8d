//! Owns the sampler's output: standard output for the readings alone.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, getpid};

use crate::platform::unix::output::check_output_open;

/// What was standard output, for the readings alone: a driver's library prints there, too, and what it prints goes nowhere
/// from now on. A process that the library forks off finds it closed once it runs a program, and writes nothing to it as
/// a copy of this one.
pub(super) struct Stream {
    file: File,
    owner: Pid,
}

/// Above what any library takes for its own standard output.
const LEAST_DESCRIPTOR: i32 = 64;

impl Stream {
    /// Standard output from now on.
    pub(super) fn new() -> io::Result<Stream> {
        check_output_open()?;
        let stdout = io::stdout();
        // A low limit on descriptors may leave only the lower ones.
        let file = fcntl_dupfd_cloexec(stdout.as_fd(), LEAST_DESCRIPTOR)
            .or_else(|_| fcntl_dupfd_cloexec(stdout.as_fd(), 3))?;
        rustix::stdio::dup2_stdout(File::options().read(true).write(true).open("/dev/null")?)?;
        Ok(Stream { file: file.into(), owner: getpid() })
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if getpid() != self.owner {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
