//! Owns reading a header's little-endian numbers and strings from a source that may lie about its sizes: nothing is
//! read past the length, nothing is allocated that was not read, and a budget ends a header that never ends. Says in words
//! for a person why a header can't be used. Knows nothing of what the numbers mean.

use std::io::{self, BufReader, Read, Seek};

/// The most bytes of header that are read (skipped ones do not count); real headers have 1–20 MiB.
const MOST_READ: u64 = 96 << 20;

const BUFFER: usize = 64 << 10;

/// Where a header is being read.
pub(super) struct Cursor<R: Read + Seek> {
    source: BufReader<R>,
    position: u64,
    length: u64,
    budget: u64,
}

impl<R: Read + Seek> Cursor<R> {
    /// From the start of a source of `length` bytes.
    pub(super) fn new(source: R, length: u64) -> Cursor<R> {
        Cursor { source: BufReader::with_capacity(BUFFER, source), position: 0, length, budget: MOST_READ }
    }

    /// Bytes read or skipped so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that are left.
    pub(super) fn remaining(&self) -> u64 {
        self.length.saturating_sub(self.position)
    }

    fn advance(&mut self, count: u64) -> Result<(), GgufError> {
        if count > self.remaining() {
            return Err(GgufError::Truncated { needed: self.position.saturating_add(count), length: self.length });
        }
        self.position = self.position.saturating_add(count);
        Ok(())
    }

    fn spend(&mut self, count: u64) -> Result<(), GgufError> {
        self.budget = self.budget.checked_sub(count).ok_or(GgufError::HeaderTooLong)?;
        self.advance(count)
    }

    /// The next bytes as they are.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.spend(N as u64)?;
        self.source.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The next number of four bytes.
    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next number of eight bytes.
    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of things of which each takes at least `least` bytes, and at most `most` of them.
    pub(super) fn count(&mut self, what: &'static str, least: u64, most: u64) -> Result<u64, GgufError> {
        let count = self.u64()?;
        let possible = self.remaining().checked_div(least).unwrap_or(0);
        if count > possible.min(most) {
            return Err(GgufError::TooMany(what, count, possible.min(most)));
        }
        Ok(count)
    }

    /// A string of at most `most` bytes, behind its length.
    pub(super) fn string(&mut self, what: &'static str, most: u64) -> Result<String, GgufError> {
        let length = self.count(what, 1, most)?;
        self.text(length)
    }

    /// A text of so many bytes; those that are no UTF-8 are replaced.
    pub(super) fn text(&mut self, length: u64) -> Result<String, GgufError> {
        self.spend(length)?;
        let mut bytes = Vec::new();
        let read = self.source.by_ref().take(length).read_to_end(&mut bytes)?;
        if (read as u64) < length {
            return Err(GgufError::Truncated { needed: self.position, length: self.length });
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Passes over so many bytes. A long way costs as much of the budget as filling the buffer anew.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), GgufError> {
        let cost = count.min(BUFFER as u64);
        self.spend(cost)?;
        self.advance(count.saturating_sub(cost))?;
        let step = i64::try_from(count).map_err(|_| GgufError::Malformed("a length past 2^63".into()))?;
        Ok(self.source.seek_relative(step)?)
    }
}

/// Why a file's header can't be used, in words for a person.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The operating system's refusal.
    #[error("it could not be read: {0}")]
    Io(#[from] io::Error),
    /// Another kind of file.
    #[error("it is no GGUF file: it does not begin with GGUF")]
    NotGguf,
    /// A version of the format that llama.cpp does not read either, or a newer one.
    #[error("it is of GGUF version {0}; versions 2 and 3 can be read")]
    Version(u32),
    /// Made for a machine of the other byte order.
    #[error("it is a GGUF file for big-endian machines")]
    OtherEndian,
    /// The file ends too early, most often because its download did.
    #[error("it ends too early: {length} bytes are there, at least {needed} are needed (an unfinished download?)")]
    Truncated {
        /// Bytes that would be needed, at least.
        needed: u64,
        /// Bytes that are there.
        length: u64,
    },
    /// A count that no file can have: of what, how many it says, and how many could be.
    #[error("its header is damaged: {1} {0} (at most {2} are possible)")]
    TooMany(&'static str, u64, u64),
    /// More header than any real file has.
    #[error("its header is damaged: more than {MOST_READ} bytes of it")]
    HeaderTooLong,
    /// Anything else that can't be.
    #[error("its header is damaged: {0}")]
    Malformed(String),
}
