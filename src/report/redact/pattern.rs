//! Owns how the patterns of names, hosts and addresses are compiled, searched and replaced.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::letters;

/// A pattern that did not compile would find nothing; a test holds that all do.
pub(super) type Pattern = LazyLock<Option<Regex>>;

pub(super) fn pattern(source: &str) -> Option<Regex> {
    Regex::new(&letters::both_cases(source)).ok()
}

pub(super) fn captures<'a>(pattern: &'a Option<Regex>, text: &'a str) -> impl Iterator<Item = Captures<'a>> {
    pattern.iter().flat_map(move |pattern| pattern.captures_iter(text))
}

/// A group of a match; `None` where it took no part in the match.
pub(super) fn group(found: &Captures<'_>, name: &str) -> Option<String> {
    found.name(name).map(|part| part.as_str().to_owned())
}

/// A group of a match; empty where it took no part in the match.
pub(super) fn group_or_empty(found: &Captures<'_>, name: &str) -> String {
    group(found, name).unwrap_or_default()
}

/// Replaces every match for which `with` gives a text.
pub(super) fn replace(pattern: &Option<Regex>, text: &str, with: impl Fn(&Captures<'_>) -> Option<String>) -> String {
    let Some(pattern) = pattern else { return text.to_owned() };
    let text = pattern.replace_all(text, |found: &Captures<'_>| {
        with(found).unwrap_or_else(|| found.get(0).map_or("", |all| all.as_str()).to_owned())
    });
    text.into_owned()
}
