//! Owns passing one stream of output on, byte for byte, as it comes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::terminal::Modes;
use crate::platform::unix::pipe::timespec;

/// What is read at once: all that a pipe holds.
const BLOCK: usize = 64 << 10;
/// What was written before the command's end is at most this: the most that a pipe can hold. What others write after it
/// may never end.
const LAST: usize = 1 << 20;
/// A smaller piece is copied, so that a queue of short lines does not hold a block for each.
const SMALL: usize = 16 << 10;
/// Keys that are passed on at once; a terminal holds no more of a line.
const KEYS: usize = 4 << 10;
/// How long the modes of a pager that ended may stay on the real terminal. Nothing tells of a change of modes.
const MODES_LAST: Duration = Duration::from_millis(50);

/// A stream of a command's output, and where it goes.
pub(super) struct Stream {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    /// Of a terminal: the modes that a program sets on it belong to the real one.
    pub(super) modes: Option<Modes>,
}

/// How a stream ended.
pub(super) struct Ended {
    pub(super) ended_with_a_line: bool,
    /// The stream itself, if somebody still has it open.
    pub(super) left: Option<Left>,
}

/// A stream that goes on after the command: a process that the command left behind has it open.
pub(super) struct Left {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
}

impl Stream {
    /// Passes on what comes until its writers are gone; after `stop` is closed, only what is there. `copy` gets each piece
    /// after it went on.
    pub(super) fn relay(mut self, stop: &OwnedFd, copy: impl Fn(Vec<u8>)) -> Ended {
        let mut block = Vec::with_capacity(BLOCK);
        let mut ended_with_a_line = true;
        let mut is_over = false;
        let mut last = 0;
        // Only what is there is read, so that one look finds all of it.
        let reads_on = self.modes.is_some() && set_waits(&self.from, false).is_ok();
        loop {
            match self.wait(stop, &mut is_over) {
                Ready::Output if last < LAST => {}
                Ready::End => {
                    self.follow_modes();
                    return Ended { ended_with_a_line, left: None };
                }
                Ready::Output | Ready::Nothing => {
                    self.follow_modes();
                    let _ = set_waits(&self.from, true);
                    return Ended { ended_with_a_line, left: Some(Left { from: self.from, to: self.to }) };
                }
            }
            block.clear();
            let length = match rustix::io::read(&self.from, spare_capacity(&mut block)) {
                // A terminal without a writer reads as an error.
                Ok(0) | Err(Errno::IO) => 0,
                Ok(length) => length,
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(_) => 0,
            };
            if reads_on {
                read_on(&self.from, &mut block);
            }
            // A mode that was set before this output was meant for it.
            self.follow_modes();
            if length == 0 || write_all(&self.to, &block).is_err() {
                // The reader is gone. Closing our end tells the command, as it would have been told.
                return Ended { ended_with_a_line, left: None };
            }
            ended_with_a_line = block.last() == Some(&b'\n');
            if is_over {
                last += block.len();
            }
            if block.len() < SMALL {
                copy(block.clone());
            } else {
                copy(std::mem::replace(&mut block, Vec::with_capacity(BLOCK)));
            }
        }
    }

    /// Waits for output, or for the command's end, which it notes in `is_over`.
    fn wait(&mut self, stop: &OwnedFd, is_over: &mut bool) -> Ready {
        loop {
            let takes_keys = self.modes.as_ref().is_some_and(Modes::keys_are_awaited);
            let patience = if *is_over {
                Some(Timespec { tv_sec: 0, tv_nsec: 0 })
            } else if takes_keys {
                Some(timespec(MODES_LAST))
            } else {
                None
            };
            let keys = if takes_keys { PollFlags::IN } else { PollFlags::empty() };
            // Where no event is asked for, an error or a hang-up is reported all the same.
            let mut watched = [
                PollFd::new(&self.from, PollFlags::IN),
                PollFd::new(stop, PollFlags::empty()),
                PollFd::new(&self.to, keys),
            ];
            match poll(&mut watched, patience.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return Ready::End,
            }
            let [output, stopped, reader] = watched.each_ref().map(PollFd::revents);
            if !reader.difference(PollFlags::IN).is_empty() {
                // Closing our end tells the command that its reader is gone, as it would have been told.
                return Ready::End;
            }
            if output.contains(PollFlags::IN) {
                return Ready::Output;
            }
            if !output.is_empty() {
                return Ready::End;
            }
            if *is_over {
                return Ready::Nothing;
            }
            if takes_keys {
                // A pager that ended took its modes back without a word.
                self.follow_modes();
                if reader.contains(PollFlags::IN) {
                    self.pass_keys();
                }
            }
            // What was written before the end is looked for once more.
            *is_over = !stopped.is_empty();
        }
    }

    /// Types at the command's terminal what was typed at the real one, if somebody still waits for it there.
    fn pass_keys(&mut self) {
        let Some(modes) = &mut self.modes else { return };
        if !modes.keys_are_awaited() {
            return;
        }
        let mut keys = [0; KEYS];
        match rustix::io::read(&self.to, &mut keys) {
            Ok(length) if length > 0 => {
                // What finds no room is lost, as it is at a terminal whose program does not read.
                let _ = rustix::io::write(&self.from, keys.get(..length).unwrap_or_default());
            }
            // Keys are not for this job, or the terminal is gone.
            Ok(_) | Err(_) => modes.await_no_keys(),
        }
    }

    fn follow_modes(&mut self) {
        if let Some(modes) = &mut self.modes {
            modes.follow(&self.from);
        }
    }
}

enum Ready {
    Output,
    /// Nobody can write any more, or nobody reads.
    End,
    /// The command exited and nothing is there, but others can still write.
    Nothing,
}

/// Reads what else is there, as far as it fits: a terminal gives 4 KiB at a time, and each write to one is dear. The end is
/// found by the next wait.
fn read_on(from: &OwnedFd, block: &mut Vec<u8>) {
    while block.len() < BLOCK && rustix::io::read(from, spare_capacity(block)).is_ok_and(|length| length > 0) {}
}

/// Whether a read waits until something is there.
fn set_waits(file: &OwnedFd, waits: bool) -> rustix::io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::NONBLOCK, !waits);
    fcntl_setfl(file, flags)
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Somebody made the terminal non-blocking for all who share it.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
