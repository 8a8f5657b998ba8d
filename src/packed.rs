//! Owns unpacking what `build.rs` has packed into the program. What can't be unpacked is empty: tests hold that nothing is.

use ron::extensions::Extensions;
use serde::Deserialize;

/// A text that was packed alone.
pub(crate) fn text(packed: &[u8]) -> String {
    String::from_utf8(bytes(packed)).unwrap_or_default()
}

/// The files of a folder, as path and text, in the order of their paths.
pub(crate) fn files(packed: &[u8]) -> Vec<(String, String)> {
    let all = bytes(packed);
    let mut from = 0;
    let mut parts = memchr::memchr_iter(0, &all).filter_map(|zero| {
        let part = all.get(from..zero).and_then(|part| std::str::from_utf8(part).ok());
        from = zero + 1;
        part
    });
    let mut files = Vec::new();
    while let (Some(path), Some(text)) = (parts.next(), parts.next()) {
        files.push((path.to_owned(), text.to_owned()));
    }
    files
}

/// A table in RON that is built into the program as it stands in its file. One that cannot be read fails every test, with
/// its place.
pub(crate) fn table<T: Deserialize<'static> + Default>(text: &'static str) -> T {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    let table = options.from_str(text);
    debug_assert!(table.is_ok(), "{:?} in the table that begins {:.80}", table.as_ref().err(), text);
    table.unwrap_or_default()
}

fn bytes(packed: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(packed).unwrap_or_default()
}
