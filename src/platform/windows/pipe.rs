//! Owns waiting for a pipe where the system has no call for that: a thread reads it, and a channel is waited for.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

const BLOCK: usize = 64 << 10;
/// Blocks that are read before anybody asks for them.
const AHEAD: usize = 4;

/// A pipe, or whatever standard input is.
#[derive(Debug)]
pub(crate) struct Pipe {
    blocks: Receiver<io::Result<Vec<u8>>>,
    /// Of the last block what nobody took yet.
    left: Vec<u8>,
}

impl Pipe {
    /// Reads this one from now on.
    pub(crate) fn new(mut file: File) -> Pipe {
        let (sender, blocks) = sync_channel(AHEAD);
        let reader = thread::Builder::new().name("pipe-blocks".into());
        // Without a thread it reads as ended.
        let _ = reader.spawn(move || {
            loop {
                let mut block = vec![0; BLOCK];
                let read = file.read(&mut block);
                let is_last = !matches!(read, Ok(1..));
                // What the console had after its writer left is an end, too.
                let read = match read {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
                    read => read,
                };
                block.truncate(*read.as_ref().unwrap_or(&0));
                if sender.send(read.map(|_| block)).is_err() || is_last {
                    return;
                }
            }
        });
        Pipe { blocks, left: Vec::new() }
    }

    /// Reads what is there: `Some(0)` at the end of the pipe, `None` if nothing came in time.
    pub(crate) fn read_within(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Option<usize>> {
        if self.left.is_empty() {
            let next = match patience {
                Some(patience) => self.blocks.recv_timeout(patience),
                None => self.blocks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.left = match next {
                Ok(read) => read?,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(0)),
            };
        }
        let count = self.left.len().min(block.len());
        let taken = self.left.drain(..count);
        block.iter_mut().zip(taken).for_each(|(to, byte)| *to = byte);
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn all_of_a_pipe_comes_in_order_and_nothing_is_waited_for_too_long() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut pipe = Pipe::new(File::from(std::os::windows::io::OwnedHandle::from(reader)));
        assert_eq!(pipe.read_within(&mut [0; 4], Some(Duration::from_millis(1))).unwrap(), None);
        let text: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let sent = text.clone();
        let sender = thread::spawn(move || writer.write_all(&sent));
        let (mut read, mut block) = (Vec::new(), [0; 4096]);
        while let Some(count @ 1..) = pipe.read_within(&mut block, None).unwrap() {
            read.extend_from_slice(&block[..count]);
        }
        sender.join().unwrap().unwrap();
        assert!(read == text, "{}", read.len());
    }
}
