//! Owns how a snapshot's bytes become a `Dump`: what is no snapshot is refused, and nothing in one is ever run.

use std::fmt;
use std::io::BufRead;

use super::Dump;

/// Whether a file that begins with these bytes (up to 1 KiB) is to be read as a snapshot.
pub fn is_snapshot(_head: &[u8]) -> bool {
    false
}

/// Why a file is not read as a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where in the file, in bytes from its start.
    pub offset: u64,
    /// Why, as the end of a sentence: "it would run code".
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no PyTorch memory snapshot: {} at byte {}", self.why, self.offset)
    }
}

/// Reads a snapshot: a pickle of protocol 2 to 5 or JSON of the same shape, whole or a bare list of segments.
pub fn read(_input: impl BufRead) -> Result<Dump, Refusal> {
    Err(Refusal { offset: 0, why: "it begins like nothing known".into() })
}
