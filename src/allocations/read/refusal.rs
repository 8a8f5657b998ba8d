//! Owns why a file is refused, and at which byte.

use std::fmt;

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

pub(super) fn unreadable(offset: u64, error: &std::io::Error) -> Refusal {
    Refusal { offset, why: format!("it can't be read ({error})") }
}
