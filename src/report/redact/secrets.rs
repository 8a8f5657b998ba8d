//! Owns which words of a text are secrets. Here are those in headers, URLs and the arguments of known commands;
//! `blocks` has keys and certificates, `kinds` tokens with a known beginning, `named` values behind a telling name, and
//! `random` words that look random. In doubt, a word is redacted.

mod blocks;
mod folded;
mod kinds;
mod named;
mod random;

use std::ops::Range;
use std::sync::LazyLock;

use self::folded::Folded;
use self::named::SECRET;
use super::table::{Pattern, table};

/// Patterns whose group `value` is always a secret.
static PATTERNS: LazyLock<Vec<Pattern<true>>> = LazyLock::new(|| table("secrets"));

/// The text without secrets. The number of lines stays the same.
pub(super) fn left_out(text: &str) -> String {
    let mut places = places(text);
    if let Some(folded) = Folded::of(text) {
        places.extend(self::places(&folded.text).iter().filter_map(|place| folded.back(place, text)));
    }
    without(text, places)
}

/// The ranges of the secrets in a text, in no order.
fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    blocks::find(text, &mut places);
    kinds::find(text, &mut places);
    for pattern in PATTERNS.iter() {
        let values = pattern.captures(text).filter_map(|found| found.name("value").map(|value| value.range()));
        places.extend(values);
    }
    named::find(text, &mut places);
    random::find(text, &mut places);
    places
}

/// The text with these ranges replaced, on each line that a range covers.
fn without(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    let mut places = places.into_iter().peekable();
    while let Some(mut place) = places.next() {
        while let Some(next) = places.next_if(|next| next.start <= place.end) {
            place.end = place.end.max(next.end);
        }
        out.push_str(text.get(from..place.start).unwrap_or_default());
        for line in text.get(place.clone()).unwrap_or_default().split_inclusive('\n') {
            let secret = line.trim();
            let (before, behind) = line.split_once(secret).unwrap_or((line, ""));
            out.push_str(before);
            if !secret.is_empty() {
                out.push_str(SECRET);
            }
            out.push_str(behind);
        }
        from = place.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests;
