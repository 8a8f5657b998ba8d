//! Holds a short list of banned phrases against the comments and docs of the files that have been rewritten in plain
//! English. Each phrase is roundabout for a standard term: process, PID, VRAM, free, in use, exit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::Regex;

/// The beginnings of the paths that have been rewritten. The list only grows.
const REWRITTEN: [&str; 17] = [
    "src/advice",
    "src/app",
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
    "src/ui",
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

/// What a person reads has more to avoid than comments have: labels in the first person and personified processes.
static BANNED_ON_SCREEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(holders?|holds|held|lets? go|letting go|(?:give|gives|giving|gave|given) (?:it |them )?back|(?:come|comes|came|coming) back|by whom|in the way|the cards?|found no room|must be found|has ended|asked to close|in its sight|that which|how much: can't tell|what I ran|it works now|optimiser|quantis\w+|recognis\w+|colou?r-blind theme|I (?:read|say|see|watched)|which model\b)\b",
    )
    .unwrap()
});

/// Keys of the knowledge whose strings quote a log or match one.
const QUOTES: [&str; 4] = ["log", "literals", "when", "pattern"];

/// The string literals of Rust or RON code, each under the key that it stands behind. Comments are none. Both languages
/// have the same tokens.
fn strings(tokens: TokenStream, key: &str, found: &mut Vec<(String, String)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut key = key.to_owned();
    for (number, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) if is_colon(tokens.get(number + 1)) => key = name.to_string(),
            TokenTree::Group(group) if is_attribute(group.delimiter(), number.checked_sub(1).map(|at| &tokens[at])) => {
            }
            TokenTree::Group(group) => strings(group.stream(), &key, found),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.ends_with(['"', '#']) {
                    found.push((key.clone(), text));
                }
            }
            _ => {}
        }
    }
}

fn is_colon(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

/// A doc comment is an attribute to the lexer.
fn is_attribute(delimiter: Delimiter, before: Option<&TokenTree>) -> bool {
    delimiter == Delimiter::Bracket && matches!(before, Some(TokenTree::Punct(punct)) if "#!".contains(punct.as_char()))
}

/// The banned phrases among the strings of a file. A word alone is an id, and what stands in braces is filled in.
fn banned_strings(text: &str) -> Vec<String> {
    static FILLED_IN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`|\{[^}]*\}|\\[nt]").unwrap());
    let mut all = Vec::new();
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    strings(shipped.parse().unwrap(), "", &mut all);
    let mut found = Vec::new();
    for (key, string) in all {
        let prose = FILLED_IN.replace_all(&string, " ");
        if !QUOTES.contains(&key.as_str()) && string.contains(' ') {
            found.extend(
                BANNED_ON_SCREEN.find(&prose).map(|phrase| format!("{:?} in {key}: {string}", phrase.as_str())),
            );
        }
    }
    found
}

fn files_of(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_of(&path, extension, found);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
}

#[test]
fn nothing_a_person_reads_contains_a_banned_phrase() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    files_of(&root.join("src"), "rs", &mut files);
    files_of(&root.join("knowledge"), "ron", &mut files);
    files.retain(|file| !file.iter().any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs"));
    assert!(files.len() > 900, "{}", files.len());
    let mut found = Vec::new();
    for file in &files {
        let phrases = banned_strings(&fs::read_to_string(file).unwrap());
        found.extend(phrases.iter().map(|phrase| format!("{}: {phrase}", file.strip_prefix(root).unwrap().display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What is read outside the program.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "packaging/README.md", "packaging/python/README.md"];

#[test]
fn no_document_contains_a_banned_phrase() {
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").unwrap());
    let mut found = Vec::new();
    for document in DOCUMENTS {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap();
        for paragraph in CODE.replace_all(&text, " ").split("\n\n") {
            let phrases = BANNED_ON_SCREEN.find_iter(paragraph);
            found.extend(phrases.map(|phrase| format!("{document}: {:?} in {paragraph}", phrase.as_str())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
