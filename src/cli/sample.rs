//! Owns `oomdoctor sample`: the stream of readings on standard output.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

use rustix::process::{Pid, getpid};

use super::Global;
use crate::probe::{self, Options};

/// Runs until the output closes or `count` readings are written. No driver is a reading too, and exits 0. `paced`: the pace
/// is told on standard input.
pub fn run(global: &Global, count: Option<u64>, paced: bool) -> ExitCode {
    let options =
        Options { nvml_library: global.nvml_library.clone(), procfs: global.procfs(), interval: global.interval };
    let written = Stream::new().and_then(|mut out| probe::run(&options, &mut out, count, paced.then(io::stdin)));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::refuse(&format!("the readings could not be written: {error}")),
    }
}

/// What was standard output, for the readings alone: a driver's library prints there, too, and what it prints goes nowhere
/// from now on. A process that the library forks off finds it closed once it runs a program, and writes nothing to it as
/// a copy of this one.
struct Stream {
    file: File,
    owner: Pid,
}

/// Above what any library takes for its own standard output.
const LEAST_DESCRIPTOR: i32 = 64;

impl Stream {
    fn new() -> io::Result<Stream> {
        super::output::check_open()?;
        let stdout = io::stdout();
        let copy = |least| rustix::io::fcntl_dupfd_cloexec(stdout.as_fd(), least);
        // Few descriptors may be allowed.
        let file = copy(LEAST_DESCRIPTOR).or_else(|_| copy(3))?;
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
