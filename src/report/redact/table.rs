//! Owns the tables of `knowledge/redact/`: how their patterns are compiled, searched and replaced, and how their words are
//! looked up. A table is read when it is first used.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::packed;

/// The folder knowledge/redact/, packed by `build.rs`.
static EMBEDDED: LazyLock<Vec<(&str, &str)>> =
    LazyLock::new(|| packed::files(include_str!(concat!(env!("OUT_DIR"), "/redact"))));

/// Named parts of patterns, in the order in which they are replaced.
static PARTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| table("parts"));

/// The table of this name. One that does not parse is empty and would find nothing; a test holds that all parse.
pub(super) fn table<T: DeserializeOwned + Default>(name: &str) -> T {
    parsed(name).unwrap_or_default()
}

/// The table of this name, or what is wrong with it.
pub(super) fn parsed<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    let path = format!("redact/{name}.ron");
    let text = EMBEDDED.iter().find(|(file, _)| *file == path).map_or("", |(_, text)| text);
    ron::from_str(text).map_err(|error| format!("{path}: {error}"))
}

/// A regular expression. In one that is `ASCII`, so are `\w`, `\d` and `\b`.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern<const ASCII: bool = false>(Option<Regex>);

impl<const ASCII: bool> TryFrom<String> for Pattern<ASCII> {
    type Error = regex::Error;

    /// A pattern may go on in the next line, behind blanks that do not belong to it.
    fn try_from(source: String) -> Result<Pattern<ASCII>, regex::Error> {
        let parts = PARTS.iter();
        let source = parts.fold(on_one_line(&source), |source, (name, part)| source.replace(name, &on_one_line(part)));
        let source = if ASCII { in_ascii(&source) } else { source };
        Regex::new(&source).map(|regex| Pattern(Some(regex)))
    }
}

/// Limits `\w`, `\d` and `\b` to ASCII: names of settings are ASCII, and Unicode classes are slow to search.
fn in_ascii(source: &str) -> String {
    source.replace(r"\w", "[0-9A-Za-z_]").replace(r"\d", "[0-9]").replace(r"\b", r"(?-u:\b)")
}

fn on_one_line(source: &str) -> String {
    source.lines().map(str::trim_start).collect()
}

impl<const ASCII: bool> Pattern<ASCII> {
    pub(super) fn captures<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        self.0.iter().flat_map(move |pattern| pattern.captures_iter(text))
    }

    pub(super) fn find_at<'t>(&self, text: &'t str, from: usize) -> Option<regex::Match<'t>> {
        self.0.as_ref()?.find_at(text, from)
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.find_at(text, 0).is_some()
    }

    /// Replaces every match for which `with` gives a text.
    pub(super) fn replace(&self, text: &str, with: impl Fn(&Captures<'_>) -> Option<String>) -> String {
        let Some(pattern) = &self.0 else { return text.to_owned() };
        let text = pattern.replace_all(text, |found: &Captures<'_>| {
            with(found).unwrap_or_else(|| found.get(0).map_or("", |all| all.as_str()).to_owned())
        });
        text.into_owned()
    }
}

/// A group of a match; `None` where it took no part in the match.
pub(super) fn group(found: &Captures<'_>, name: &str) -> Option<String> {
    found.name(name).map(|part| part.as_str().to_owned())
}

/// A group of a match; empty where it took no part in the match.
pub(super) fn group_or_empty(found: &Captures<'_>, name: &str) -> String {
    group(found, name).unwrap_or_default()
}

/// Words, which stand in the table as lines of words with blanks between them.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Vec<String>")]
pub(super) struct Words(HashSet<String>);

impl From<Vec<String>> for Words {
    fn from(lines: Vec<String>) -> Words {
        Words(lines.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect())
    }
}

impl Words {
    pub(super) fn contains(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// Whether the text begins with one of the words.
    pub(super) fn begin(&self, text: &str) -> bool {
        self.0.iter().any(|word| text.starts_with(word))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}
