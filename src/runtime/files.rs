//! Owns getting logs in from files and pipes without holding all of a huge one: the first and the last part are kept,
//! and of what lies between, the blocks that hold a word some entry looks for. What was dropped is said in the text.
//! Compressed logs are unpacked on the way.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::thread;

use super::unpack::{Unpacked, is_compressed_file};
use crate::log::{LEFT_OUT, LOOKED_AT, what_else};
use crate::platform::here;

/// Kept from the beginning.
const HEAD: usize = 1 << 20;
/// Kept from the end.
const TAIL: usize = 4 << 20;
/// Kept of what lies between, at most.
const MIDDLE: usize = 2 << 20;
/// What is read at once.
const BLOCK: usize = 64 << 10;
/// What is looked at, kept or dropped as one.
const PIECE: usize = 32 << 10;
/// Kept before and behind a piece that is kept: a message begins before its telling word and goes on after it.
const AROUND: usize = 4 << 10;
/// No word of the first pass is longer.
const SEAM: usize = 512;

/// The allocator gives more than 32 MiB pages of their own, which go back when they are freed; of smaller blocks it keeps
/// several for later, and a pipe's text is made anew every moment. Pages that are not written cost nothing.
const OWN_PAGES: usize = 33 << 20;

/// The text that replaces this many bytes.
fn left_out(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!("\n… {} {LEFT_OUT}\n", crate::units::Bytes(bytes)) }
}

/// Takes a log in block by block.
pub struct Keeper<F> {
    telling: F,
    head: Vec<u8>,
    middle: Vec<u8>,
    /// Dropped before the middle's first block.
    before: u64,
    tail: VecDeque<Vec<u8>>,
    tail_bytes: usize,
    /// The end of the last piece, where it was dropped.
    edge: Vec<u8>,
    /// How much more is kept because the piece before was.
    owed: usize,
    /// A block to be filled again: allocating a new one costs more than the copy into it.
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
            edge: Vec::new(),
            owed: 0,
            before: 0,
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
        for piece in block.chunks(PIECE) {
            self.leave_piece(piece);
        }
    }

    fn leave_piece(&mut self, piece: &[u8]) {
        if self.middle.len() < MIDDLE && ((self.telling)(piece) || (self.telling)(&self.seam(piece))) {
            self.dropped -= self.edge.len() as u64;
            self.mark_gap();
            self.middle.extend_from_slice(without_half_a_character(&self.edge));
            self.edge.clear();
            self.middle.extend_from_slice(piece);
            self.owed = AROUND;
            return;
        }
        let (kept, left) = piece.split_at_checked(std::mem::take(&mut self.owed)).unwrap_or((piece, &[]));
        self.middle.extend_from_slice(kept);
        self.dropped += left.len() as u64;
        let (whole, end) = left.split_at(left.len().saturating_sub(AROUND));
        if whole.is_empty() {
            self.edge.extend_from_slice(end);
            let surplus = self.edge.len().saturating_sub(AROUND);
            self.edge.drain(..surplus);
        } else {
            self.edge.clear();
            self.edge.extend_from_slice(end);
        }
    }

    /// The end of the last piece with the beginning of this one: a word may continue from one to the other.
    fn seam(&self, piece: &[u8]) -> Vec<u8> {
        let before = self.edge.get(self.edge.len().saturating_sub(SEAM)..).unwrap_or_default();
        [before, piece.get(..SEAM).unwrap_or(piece)].concat()
    }

    fn mark_gap(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if self.middle.is_empty() {
            self.before = dropped;
        } else {
            end_with_a_character(&mut self.middle);
            self.middle.extend_from_slice(left_out(dropped).as_bytes());
        }
    }

    /// How many bytes are kept.
    pub fn kept(&self) -> usize {
        self.head.len() + self.middle.len() + self.tail_bytes
    }

    /// All that was kept, in order.
    pub fn bytes(&self) -> Vec<u8> {
        let wanted = self.kept() + 128;
        let mut whole = Vec::with_capacity(if wanted > HEAD { wanted.max(OWN_PAGES) } else { wanted });
        whole.extend_from_slice(&self.head);
        gap(&mut whole, self.before);
        whole.extend_from_slice(match self.before {
            0 => &self.middle,
            _ => without_half_a_character(&self.middle),
        });
        gap(&mut whole, self.dropped);
        for (at, block) in self.tail.iter().enumerate() {
            let first = at == 0 && self.dropped > 0;
            whole.extend_from_slice(if first { without_half_a_character(block) } else { block });
        }
        whole
    }
}

/// Notes how much is left out here. The text is cut between characters: half a character would make all of it invalid.
fn gap(text: &mut Vec<u8>, dropped: u64) {
    if dropped > 0 {
        end_with_a_character(text);
        text.extend_from_slice(left_out(dropped).as_bytes());
    }
}

/// The bytes without the rest of a character that began before them.
fn without_half_a_character(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    bytes.get(rest..).unwrap_or_default()
}

/// Removes the beginning of a character that continues after these bytes.
fn end_with_a_character(bytes: &mut Vec<u8>) {
    let end = bytes.len().saturating_sub(4);
    if let Some(Err(error)) = bytes.get(end..).map(str::from_utf8)
        && error.error_len().is_none()
    {
        bytes.truncate(end + error.valid_up_to());
    }
}

/// Reads a file, keeping what `Keeper` keeps; its size says beforehand what that is, so that little is copied and two
/// threads can look through what lies between.
pub fn read_file(mut file: File, telling: impl Fn(&[u8]) -> bool + Sync) -> io::Result<Vec<u8>> {
    let size = file.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
    if size <= (HEAD + TAIL + BLOCK) as u64 || is_compressed_file(&file) {
        return read_all(file, telling);
    }
    let mut whole = Vec::with_capacity(HEAD + MIDDLE + TAIL);
    (&mut file).take(HEAD as u64).read_to_end(&mut whole)?;
    if what_else(&whole).is_some() {
        return Ok(whole);
    }
    // Whole lines: half a character would make all of the text faulty.
    let last = whole.iter().rev().take(BLOCK).position(|byte| *byte == b'\n').unwrap_or(0);
    whole.truncate(whole.len() - last);
    let head = whole.len() as u64;
    let tail = line_start(&file, size - TAIL as u64)?;
    let half = head + (tail - head) / 2;
    let (first, second) = thread::scope(|scope| {
        let other =
            thread::Builder::new().spawn_scoped(scope, || between(&file, half - SEAM as u64..tail, &telling)).ok();
        let own = between(&file, head..half, &telling);
        (
            own,
            other
                .and_then(|other| other.join().ok())
                .unwrap_or_else(|| between(&file, half - SEAM as u64..tail, &telling)),
        )
    });
    let (first, second) = (first?, second?);
    // Where a part kept nothing, all it dropped is one gap with its neighbour's.
    let mut dropped = 0;
    for part in [first, second] {
        dropped += part.before;
        if !part.middle.is_empty() {
            gap(&mut whole, std::mem::take(&mut dropped));
            whole.extend_from_slice(without_half_a_character(&part.middle));
        }
        dropped += part.dropped;
    }
    gap(&mut whole, dropped);
    file.seek(SeekFrom::Start(tail))?;
    file.read_to_end(&mut whole)?;
    Ok(whole)
}

/// The first start of a line from this offset on, within a block; else the offset itself.
fn line_start(file: &File, at: u64) -> io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let count = here::read_at(file, &mut block, at)?;
    let end = block.iter().take(count).position(|byte| *byte == b'\n');
    Ok(end.map_or(at, |end| at + end as u64 + 1))
}

/// A keeper of a part of the middle.
fn between<F: Fn(&[u8]) -> bool>(file: &File, part: Range<u64>, telling: F) -> io::Result<Keeper<F>> {
    let mut keeper = Keeper::new(telling);
    let mut block = vec![0; BLOCK];
    let mut at = part.start;
    while at < part.end {
        let wanted = usize::try_from(part.end - at).map_or(BLOCK, |left| left.min(BLOCK));
        let Some(room) = block.get_mut(..wanted) else { break };
        match here::read_at(file, room, at) {
            Ok(0) => break,
            Ok(count) => {
                keeper.leave(room.get(..count).unwrap_or_default());
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(keeper)
}

/// True if all of a text is kept.
pub fn is_short(text: &str) -> bool {
    text.len() <= HEAD + TAIL
}

/// The part of a text that `Keeper` keeps.
pub fn shortened(text: String, telling: impl Fn(&[u8]) -> bool) -> String {
    if is_short(&text) {
        return text;
    }
    let mut keeper = Keeper::new(telling);
    keeper.push(text.as_bytes());
    drop(text);
    String::from_utf8(keeper.bytes()).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Reads all of the source, unpacked, and keeps what `Keeper` keeps. If the beginning is no text, only that is read:
/// the source may never end.
pub fn read_all(source: impl Read, telling: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut keeper = Keeper::new(telling);
    let mut looked = false;
    each_block(Unpacked::of(source)?, |block| {
        keeper.push(block);
        let looks_now = keeper.head.len() >= LOOKED_AT && !std::mem::replace(&mut looked, true);
        !(looks_now && what_else(&keeper.head).is_some())
    })?;
    Ok(keeper.bytes())
}

/// Hands over all of the source, block by block, until `take` wants no more.
pub(super) fn each_block(mut source: impl Read, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        match source.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) if take(block.get(..count).unwrap_or_default()) => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_that_fits_is_kept_whole() {
        let log = b"one\ntwo\n".repeat(1000);
        assert_eq!(read_all(&log[..], |_| false).unwrap(), log);
    }

    #[test]
    fn what_is_no_text_is_not_read_to_its_end() {
        // Would not end.
        let read = read_all(io::repeat(0), |_| false).unwrap();
        assert!(read.len() >= LOOKED_AT && read.len() < 1 << 20, "{}", read.len());
        let program = [b"\x7fELF".as_slice(), &[b'x'; HEAD + TAIL + 2 * BLOCK]].concat();
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), &program).unwrap();
        assert_eq!(read_file(File::open(path.path()).unwrap(), |_| true).unwrap().len(), HEAD);
        // A wide text has a NUL in every other byte.
        let wide: Vec<u8> = "Killed\n".repeat(40_000).encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(read_all(&wide[..], |_| false).unwrap().len(), wide.len());
    }

    #[test]
    fn a_bomb_takes_neither_memory_nor_time() {
        // 10 GB of zeros, as 10,000 members of a MB each.
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&vec![0; 1 << 20]).unwrap();
        let zeros = packer.finish().unwrap().repeat(10_000);
        let kept = read_all(&zeros[..], |_| true).unwrap();
        assert!(kept.len() <= LOOKED_AT + BLOCK, "{}", kept.len());
        // Of a text, the ends and what tells something are kept.
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&b"step\n".repeat(1 << 19)).unwrap();
        let steps = packer.finish().unwrap().repeat(20);
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), steps).unwrap();
        let kept = read_file(File::open(path.path()).unwrap(), |_| false).unwrap();
        assert!(kept.starts_with(b"step\n") && kept.ends_with(b"step\n") && kept.len() < HEAD + TAIL + 2 * BLOCK);
    }

    #[test]
    fn a_word_across_two_blocks_is_not_missed() {
        let mut log = vec![b'.'; HEAD + TAIL + 20 * BLOCK];
        log[HEAD + 3 * BLOCK - 5..][..18].copy_from_slice(b"CUDA out of memory");
        let telling = |block: &[u8]| block.windows(18).any(|window| window == b"CUDA out of memory");
        let kept = String::from_utf8(read_all(&log[..], telling).unwrap()).unwrap();
        assert!(kept.contains("CUDA out of memory") && kept.matches("of this log left out here").count() == 2);
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
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), &log).unwrap();
        let telling = |block: &[u8]| block.windows(18).any(|window| window == b"CUDA out of memory");
        let kept = String::from_utf8(read_all(&log[..], telling).unwrap()).unwrap();
        assert!(kept.len() < HEAD + TAIL + 4 * BLOCK, "{}", kept.len());
        assert!(kept.starts_with("BEGIN\n") && kept.ends_with("END\n"));
        assert!(kept.contains("CUDA out of memory"));
        assert_eq!(kept.matches("of this log left out here").count(), 2);
        let from_file = String::from_utf8(read_file(File::open(path.path()).unwrap(), telling).unwrap()).unwrap();
        assert!(from_file.len() < HEAD + TAIL + 4 * BLOCK, "{}", from_file.len());
        assert!(from_file.starts_with("BEGIN\n") && from_file.ends_with("END\n"));
        assert!(from_file.contains("CUDA out of memory"));
        assert_eq!(from_file.matches("of this log left out here").count(), 2);
    }
}
