//! Holds a short list of banned phrases against the comments and docs of the files that have been rewritten in plain
//! English. Each phrase is roundabout for a standard term: process, PID, VRAM, free, in use, exit.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// The beginnings of the paths that have been rewritten. The list only grows.
const REWRITTEN: [&str; 15] = [
    "src/advice",
    "src/cli",
    "src/effort",
    "src/gpu",
    "src/ids",
    "src/knowledge",
    "src/log",
    "src/memory",
    "src/packed",
    "src/platform",
    "src/report",
    "src/runtime",
    "src/text",
    "src/units",
    "tests",
];

pub(super) static BANNED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(holders?|lets? go|letting go|(?:give|gives|giving|gave|given) back|(?:come|comes|came) back|by whom|in the way|the cards?|found no room|must be found|has ended|asked to close|in its sight|that which)\b",
    )
    .unwrap()
});

/// The banned phrases in the comments of a file, with their lines. Names in backticks are not prose.
fn banned_phrases(text: &str) -> Vec<String> {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^\s*//[/!]? (.*)$").unwrap());
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").unwrap());
    let mut found = Vec::new();
    for comment in COMMENT.captures_iter(text) {
        if let Some(phrase) = BANNED.find(&NAME.replace_all(&comment[1], "")) {
            found.push(format!("{:?} in {:?}", phrase.as_str(), &comment[1]));
        }
    }
    found
}

#[test]
fn rewritten_files_contain_no_banned_phrase() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    super::papers::rust_files(&root.join("src"), &mut files);
    super::papers::rust_files(&root.join("tests"), &mut files);
    files.retain(|file| {
        let relative = file.strip_prefix(root).unwrap().to_str().unwrap();
        REWRITTEN.iter().any(|beginning| relative.starts_with(beginning))
    });
    assert!(files.len() > 50, "{}", files.len());
    let mut found = Vec::new();
    for file in &files {
        let phrases = banned_phrases(&fs::read_to_string(file).unwrap());
        found.extend(phrases.iter().map(|phrase| format!("{}: {phrase}", file.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_banned_phrase_is_found_in_comments_only() {
    let comments = ["//! Whose memory comes back.", "    /// The holder of it.", "// It lets go."];
    assert!(comments.iter().all(|comment| banned_phrases(comment).len() == 1));
    let harmless = ["let holder = 1;", "/// The fix `end-holder`.", "// The process exits.", "x(); // \"holder\""];
    assert!(harmless.iter().all(|line| banned_phrases(line).is_empty()));
}
