//! Owns getting logs in from files and pipes without holding all of a huge one: the first and the last part are kept,
//! and of what lies between, the blocks that hold a word some entry looks for. What was dropped is said in the text.

use std::collections::VecDeque;
use std::io::{self, Read};

/// Kept from the beginning.
const HEAD: usize = 4 << 20;
/// Kept from the end.
const TAIL: usize = 32 << 20;
/// What is looked at, kept or dropped as one.
const BLOCK: usize = 64 << 10;
/// Kept of what lies between, at most.
const MIDDLE: usize = 8 << 20;

/// Takes a log in block by block.
pub struct Keeper<F> {
    telling: F,
    head: Vec<u8>,
    middle: Vec<u8>,
    tail: VecDeque<Vec<u8>>,
    tail_bytes: usize,
    /// A block that was let go, to be filled again: fresh memory costs more than the copy into it.
    spare: Vec<u8>,
    /// Dropped since the last kept block of the middle.
    dropped: u64,
}

impl<F: Fn(&[u8]) -> bool> Keeper<F> {
    /// `telling` says whether a block may hold a decisive line.
    pub fn new(telling: F) -> Keeper<F> {
        Keeper {
            telling,
            head: Vec::new(),
            middle: Vec::new(),
            tail: VecDeque::new(),
            tail_bytes: 0,
            spare: Vec::new(),
            dropped: 0,
        }
    }

    /// More of the log.
    pub fn push(&mut self, mut bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len());
        if let Some((first, rest)) = bytes.split_at_checked(room.min(bytes.len())) {
            self.head.extend_from_slice(first);
            bytes = rest;
        }
        for block in bytes.chunks(BLOCK) {
            match self.tail.back_mut() {
                Some(last) if last.len() + block.len() <= BLOCK => last.extend_from_slice(block),
                _ => {
                    let mut next = std::mem::take(&mut self.spare);
                    next.clear();
                    next.reserve_exact(BLOCK);
                    next.extend_from_slice(block);
                    self.tail.push_back(next);
                }
            }
            self.tail_bytes += block.len();
            while self.tail_bytes > TAIL {
                let Some(block) = self.tail.pop_front() else { break };
                self.tail_bytes -= block.len();
                self.leave(&block);
                self.spare = block;
            }
        }
    }

    fn leave(&mut self, block: &[u8]) {
        if self.middle.len() < MIDDLE && (self.telling)(block) {
            self.mark_gap();
            self.middle.extend_from_slice(block);
        } else {
            self.dropped += block.len() as u64;
        }
    }

    fn mark_gap(&mut self) {
        if self.dropped > 0 {
            let said = format!("\n… {} of this log left out here …\n", crate::units::Bytes(self.dropped));
            self.middle.extend_from_slice(said.as_bytes());
            self.dropped = 0;
        }
    }

    /// How many bytes are kept.
    pub fn kept(&self) -> usize {
        self.head.len() + self.middle.len() + self.tail_bytes
    }

    /// All that was kept, in order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.head.len() + self.middle.len() + self.tail_bytes + 64);
        whole.extend_from_slice(&self.head);
        whole.extend_from_slice(&self.middle);
        if self.dropped > 0 {
            let said = format!("\n… {} of this log left out here …\n", crate::units::Bytes(self.dropped));
            whole.extend_from_slice(said.as_bytes());
        }
        for block in &self.tail {
            whole.extend_from_slice(block);
        }
        whole
    }
}

/// Reads all of it, keeping what `Keeper` keeps.
pub fn read_all(mut source: impl Read, telling: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut keeper = Keeper::new(telling);
    let mut block = vec![0; BLOCK];
    loop {
        match source.read(&mut block) {
            Ok(0) => return Ok(keeper.bytes()),
            Ok(count) => keeper.push(block.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_fits_is_kept_whole() {
        let log = b"one\ntwo\n".repeat(1000);
        assert_eq!(read_all(&log[..], |_| false).unwrap(), log);
    }

    #[test]
    fn of_a_huge_log_the_ends_and_the_telling_blocks_are_kept_and_the_rest_is_said() {
        let filler = b"step 1 loss 2.0\n".repeat(BLOCK / 16);
        let mut log = Vec::new();
        log.extend_from_slice(b"BEGIN\n");
        for block in 0..1000 {
            if block == 300 {
                log.extend_from_slice(b"CUDA out of memory\n");
            }
            log.extend_from_slice(&filler);
        }
        log.extend_from_slice(b"END\n");
        let telling = |block: &[u8]| block.windows(18).any(|window| window == b"CUDA out of memory");
        let kept = String::from_utf8(read_all(&log[..], telling).unwrap()).unwrap();
        assert!(kept.len() < HEAD + TAIL + 4 * BLOCK, "{}", kept.len());
        assert!(kept.starts_with("BEGIN\n") && kept.ends_with("END\n"));
        assert!(kept.contains("CUDA out of memory"));
        assert_eq!(kept.matches("of this log left out here").count(), 2);
    }
}
