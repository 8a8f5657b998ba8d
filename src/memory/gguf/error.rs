//! Owns why a GGUF file's header can't be used, in words for a person.

use std::io;

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
    /// A count that no file can have.
    #[error("its header is damaged: {count} {what} (at most {most} are possible)")]
    TooMany {
        what: &'static str,
        /// How many it says.
        count: u64,
        /// How many could be.
        most: u64,
    },
    /// More header than any real file has.
    #[error("its header is damaged: more than {most} bytes of it")]
    HeaderTooLong {
        /// What is read at most.
        most: u64,
    },
    /// Anything else that can't be.
    #[error("its header is damaged: {0}")]
    Malformed(String),
}
