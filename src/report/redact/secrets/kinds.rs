//! Owns the kinds of tokens with a known beginning (`knowledge/redact/kinds.ron`): which characters follow it, and how many
//! make a token certain.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::random::{is_mixed, is_near_a_mark};
use crate::report::redact::table::table;

/// The characters that follow a kind's beginning.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Follows {
    Hex,
    Capitals,
    Letters,
    /// The same and `_`.
    Word,
    /// The same and `-`.
    Dashed,
    /// The same and `.`.
    Dotted,
    /// The characters of base64 and its variants, and the dots between parts.
    Base64,
    /// A hashed password with its settings.
    Crypt,
}

impl Follows {
    pub(super) fn has(self, byte: u8) -> bool {
        let beside_letters = match self {
            Follows::Hex => return byte.is_ascii_hexdigit(),
            Follows::Capitals => return byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Follows::Letters => "",
            Follows::Word => "_",
            Follows::Dashed => "_-",
            Follows::Dotted => "_-.",
            Follows::Base64 => "_-.+/=~%",
            Follows::Crypt => "$./=,+",
        };
        byte.is_ascii_alphanumeric() || beside_letters.as_bytes().contains(&byte)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kind {
    /// Who gives such tokens out, for readers of the table.
    #[serde(rename = "name")]
    _name: IgnoredAny,
    pub(super) begins: String,
    pub(super) follows: Follows,
    /// The number of following characters that make a secret in any case; fewer do if they look random.
    pub(super) sure: usize,
    /// Whether it counts only beside a word that marks a secret.
    #[serde(default)]
    pub(super) marked: bool,
}

impl Kind {
    /// Whether its beginning tells a token behind this character of a word: `TOKENhf_…`, `x_AKIA…`. Two letters and a full
    /// stop are a part of many words.
    fn is_told_behind(&self, before: Option<&u8>) -> bool {
        let is_distinct = match self.follows {
            // A name of capitals goes on behind capitals.
            Follows::Capitals => before.is_none_or(|byte| !byte.is_ascii_uppercase() && !byte.is_ascii_digit()),
            _ => self.begins.len() >= 3 && self.begins.ends_with(['_', '-']) || self.begins_in_both_cases(),
        };
        is_distinct && !self.marked
    }

    /// `AIza`: no word has small and large letters in such an order.
    fn begins_in_both_cases(&self) -> bool {
        let has = |is_one: fn(char) -> bool| self.begins.contains(is_one);
        self.begins.len() >= 4 && has(|c| c.is_ascii_uppercase()) && has(|c| c.is_ascii_lowercase())
    }

    /// Whether what follows the beginning was drawn at random and is no name of a class.
    fn looks_drawn(&self, run: &[u8]) -> bool {
        let count = |is_one: fn(&u8) -> bool| run.iter().filter(|byte| is_one(byte)).count();
        match self.follows {
            Follows::Hex => self.begins.len() >= 6,
            Follows::Capitals => count(u8::is_ascii_digit) >= 2,
            _ => count(u8::is_ascii_uppercase) * 4 >= run.len() && count(u8::is_ascii_lowercase) * 4 >= run.len(),
        }
    }
}

pub(super) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| table("kinds"));

static BEGINNINGS: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(KINDS.iter().map(|kind| &kind.begins)).ok());

/// With fewer following characters it is a name: `hf_hub`, `sk-learn`.
const FEWEST: usize = 10;

/// Adds the ranges of such tokens in a text.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    let Some(beginnings) = BEGINNINGS.as_ref() else { return };
    let bytes = text.as_bytes();
    let mut until = 0;
    for found in beginnings.find_overlapping_iter(text) {
        let Some(kind) = KINDS.get(found.pattern().as_usize()) else { continue };
        let is_within_word = !begins_a_word(text, found.start());
        let before = found.start().checked_sub(1).and_then(|at| bytes.get(at));
        if found.start() < until || is_within_word && !kind.is_told_behind(before) {
            continue;
        }
        let behind = bytes.get(found.end()..).unwrap_or_default();
        // Only the characters that decide are read. Otherwise a text of many beginnings would be read once for each.
        let length = behind.iter().take(kind.sure).take_while(|byte| kind.follows.has(**byte)).count();
        let run = behind.get(..length).unwrap_or_default();
        let is_one = length >= kind.sure || length >= FEWEST && kind.sure < SAFE && is_mixed(run);
        let is_part_of_a_name = is_within_word && !(length >= kind.sure && kind.looks_drawn(run));
        if !is_one || is_part_of_a_name || kind.marked && !is_near_a_mark(text, found.start()..found.end() + length) {
            continue;
        }
        // All that follows without a break belongs to the token.
        let rest = behind.iter().take_while(|byte| kind.follows.has(**byte) || Follows::Dashed.has(**byte)).count();
        let end = found.end() + rest - ends_a_sentence(behind.get(..rest).unwrap_or_default());
        until = end;
        places.push(found.start()..end);
    }
}

/// Kinds with this many certain characters have beginnings too short to be told by fewer.
const SAFE: usize = 48;

/// The number of punctuation marks at the end that belong to the sentence.
fn ends_a_sentence(run: &[u8]) -> usize {
    run.iter().rev().take_while(|byte| matches!(**byte, b'.' | b',' | b'/' | b'%')).count()
}

/// Whether a word begins here. An escape sequence before it (`\n`, `%3D`) does not belong to the word.
fn begins_a_word(text: &str, at: usize) -> bool {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    match before {
        [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., last] => !last.is_ascii_alphanumeric() && *last != b'_',
        [] => true,
    }
}

#[cfg(test)]
mod tests;
