//! Owns unpacking what `build.rs` has packed into the program. What a start reads is not
//! compressed: a person waits for it. What can't be unpacked is empty: tests hold that nothing is.

use ron::extensions::Extensions;
use serde::Deserialize;

/// The files of a folder, as path and text, in the order of their paths.
pub(crate) fn files(packed: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut parts = packed.split_terminator('\0');
    let mut files = Vec::new();
    while let (Some(path), Some(text)) = (parts.next(), parts.next()) {
        files.push((path, text));
    }
    files
}

/// The text of what was compressed, kept until the program ends.
pub(crate) fn inflated(compressed: &[u8]) -> &'static str {
    let bytes = miniz_oxide::inflate::decompress_to_vec(compressed).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default().leak()
}

/// A table in RON that is built into the program as it stands in its file. One that cannot be read fails every test, with
/// its place.
pub(crate) fn table<T: Deserialize<'static> + Default>(text: &'static str) -> T {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    let table = options.from_str(text);
    debug_assert!(table.is_ok(), "{:?} in the table that begins {:.80}", table.as_ref().err(), text);
    table.unwrap_or_default()
}
