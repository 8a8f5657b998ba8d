//! Owns reading the terminal's bytes as they come: what they mean, and when, is the keyboard's decoder's part.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::platform::contract::{Input, Typed};
use crate::platform::unix::pipe::timespec;

#[derive(Debug)]
pub(crate) struct Bytes(File);

/// The terminal on standard input; where a log comes in there, the one that controls this session.
pub(crate) fn input() -> io::Result<Bytes> {
    let stdin = io::stdin();
    let own = stdin.is_terminal().then(|| stdin.as_fd().try_clone_to_owned().map(File::from));
    own.unwrap_or_else(|| File::open("/dev/tty")).map(Bytes)
}

impl Input for Bytes {
    fn next(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Typed> {
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], patience.map(timespec).as_ref()) {
            Ok(0) => Ok(Typed::Nothing),
            Err(Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            _ => self.0.read(block).map(Typed::Bytes),
        }
    }
}
