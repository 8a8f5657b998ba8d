//! Owns how a snapshot's bytes become a `Dump`: what is no snapshot is refused, and nothing in one is ever run.

mod json;
mod pickle;
mod refusal;
mod shape;
#[cfg(test)]
mod tests;

use std::io::{BufRead, Cursor, Read};

use memchr::memmem;

use super::Dump;
pub use refusal::Refusal;
use refusal::unreadable;
use shape::{Bounds, Shape};

/// Whether a file that begins with these bytes (up to 1 KiB) is to be read as a snapshot. A pickle of anything else is
/// too: `read` refuses it with a better reason than "binary data".
pub fn is_snapshot(head: &[u8]) -> bool {
    is_pickle(head) || is_json(head)
}

fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [pickle::PROTO, 2..=5, ..])
}

fn is_json(head: &[u8]) -> bool {
    let has = |key: &str| memmem::find(head, key.as_bytes()).is_some();
    let begins = head.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_list_or_object = matches!(begins, Some(b'{' | b'['));
    // "segments" alone is also how a transcript of speech begins.
    is_list_or_object
        && (has("\"device_traces\"") || has("\"total_size\"") && (has("\"segments\"") || has("\"address\"")))
}

/// Reads a snapshot: a pickle of protocol 2 to 5 or JSON of the same shape, whole or a bare list of segments.
///
/// # Errors
///
/// If the input is anything else, ends early or can't be read.
pub fn read(input: impl BufRead) -> Result<Dump, Refusal> {
    read_within(input, Bounds::default())
}

fn read_within(mut input: impl BufRead, bounds: Bounds) -> Result<Dump, Refusal> {
    let mut shape = Shape::within(bounds);
    let mut first = [0];
    let count = pickle::read_some(&mut input, &mut first).map_err(|error| unreadable(0, &error))?;
    let whole = Cursor::new(first).chain(input);
    match first {
        _ if count == 0 => Err(Refusal { offset: 0, why: "it is empty".into() }),
        [pickle::PROTO] => pickle::read(whole, &mut shape),
        [b'{' | b'[' | b' ' | b'\n' | b'\r' | b'\t'] => json::read(whole, &mut shape),
        _ => Err(Refusal { offset: 0, why: "it begins like nothing known".into() }),
    }?;
    shape.finish()
}
