//! Owns what a terminal pastes when files are dropped onto it: their paths, quoted in one way or another.

use std::path::PathBuf;

/// More words than this are a sentence.
const MOST: usize = 64;
/// No path is longer.
const LONGEST: usize = 64 << 10;

/// A file whose path was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedFile {
    pub path: PathBuf,
    pub kind: DroppedKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedKind {
    Snapshot,
    /// Anything else is read as a log.
    Log,
}

/// The paths in a pasted text, if it is one line of nothing else. Whether such files exist is for the edge to say.
pub(crate) fn paths(text: &str) -> Option<Vec<PathBuf>> {
    let line = text.trim();
    if line.is_empty() || line.len() > LONGEST || line.contains('\n') {
        return None;
    }
    // A Windows path has backslashes of its own, and a name may have blanks without quotes.
    let bare = line.trim_matches(['"', '\'']);
    if is_windows_path(bare) && !bare.contains('"') {
        return Some(vec![PathBuf::from(bare)]);
    }
    let words = shlex::split(line).filter(|words| words.len() <= MOST)?;
    words.iter().map(|word| path(word)).collect()
}

fn is_windows_path(text: &str) -> bool {
    matches!(text.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
}

/// A word as a path: absolute, or relative with a folder or an ending.
fn path(word: &str) -> Option<PathBuf> {
    let word = word.strip_prefix("file://").unwrap_or(word);
    let name = word.rsplit('/').next().unwrap_or_default();
    let has_ending = name.split_once('.').is_some_and(|(name, ending)| !name.is_empty() && !ending.is_empty());
    (word.contains('/') || has_ending).then(|| PathBuf::from(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_paste_for_dropped_files_are_paths() {
        for (text, expected) in [
            ("/jobs/oom_rank0.pickle", vec!["/jobs/oom_rank0.pickle"]),
            ("'/my jobs/oom.pickle' ", vec!["/my jobs/oom.pickle"]),
            ("/my\\ jobs/oom.pickle\n", vec!["/my jobs/oom.pickle"]),
            ("file:///jobs/oom.pickle", vec!["/jobs/oom.pickle"]),
            ("/a/rank0.pickle /a/rank1.pickle", vec!["/a/rank0.pickle", "/a/rank1.pickle"]),
            ("oom.pickle", vec!["oom.pickle"]),
            ("C:\\my jobs\\oom.pickle", vec!["C:\\my jobs\\oom.pickle"]),
        ] {
            let expected: Vec<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(paths(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_error_is_text() {
        for text in ["Killed", "", "/usr/bin/python: out of memory", "line one\n/jobs/oom.pickle", "it's gone"] {
            assert_eq!(paths(text), None, "{text}");
        }
    }
}
