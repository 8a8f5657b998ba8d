//! Owns words that look random: long ones in which letters and digits change so often that no name looks like it, and
//! those that are a secret only beside a word that marks them, such as the 40 hexadecimal digits of a W&B key beside
//! `wandb`. Digests, UUIDs and ids of runs look like the latter, so the nearest telling word decides.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::report::redact::table::{Pattern, Words, table};

/// Shorter words are not checked.
const SHORT: usize = 16;
/// Bytes before and after a word that are searched for a mark, on its own line and on the lines beside it.
const AROUND: usize = 80;

/// Characters of the first part of a key of Baseten.
const FIRST_PART: usize = 8;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    words: Pattern<true>,
    symbol_or_digest: Pattern<true>,
    uuid: Pattern<true>,
    marks: Words,
    keys: Words,
    labels: Words,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| table("random"));

/// Adds the ranges of words that look random or that another word marks.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    for run in TABLE.words.captures(text).filter_map(|found| Some(found.get(0)?.range())) {
        let word = text.get(run.clone()).unwrap_or_default();
        if !TABLE.symbol_or_digest.is_match(word) {
            find_random(word, run.start, places);
            places.extend(first_part(text, &run));
        }
        if word.len() >= SHORT && word.bytes().any(|byte| byte.is_ascii_digit()) {
            marked(text, run, places);
        }
    }
}

/// Adds the parts of a word, between equals signs, that look random. Dashes and underscores do not end a part, since
/// base64 for URLs contains them.
fn find_random(word: &str, start: usize, places: &mut Vec<Range<usize>>) {
    let padded = word.trim_end_matches('=');
    let padding = word.len() - padded.len();
    // Base64 with its padding.
    if (1..=2).contains(&padding) && padded.len() >= 38 && !padded.contains(['_', '-']) && is_mixed(padded.as_bytes()) {
        places.push(start..start + word.len());
        return;
    }
    let mut from = start;
    for value in word.split('=') {
        if has_jumble(value) || has_lower_jumble(value) {
            places.push(from..from + value.len());
        }
        from += value.len() + 1;
    }
}

/// The range of a key of Baseten: eight characters and a full stop before these 32.
fn first_part(text: &str, run: &Range<usize>) -> Option<Range<usize>> {
    let start = run.start.checked_sub(FIRST_PART + 1)?;
    let first = text.get(start..run.start)?.strip_suffix('.')?;
    let is_alone = !text.get(..start)?.ends_with(|c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c));
    let is_key = run.len() == 32 && has_jumble(text.get(run.clone())?);
    (is_key && is_alone && first.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(start..run.end)
}

fn has_jumble(value: &str) -> bool {
    !is_path(value) && value.split(['-', '_', '/', '+']).any(|part| is_jumbled(part.as_bytes(), 20))
}

fn has_lower_jumble(value: &str) -> bool {
    !value.contains('/') && value.split(['-', '_']).any(is_lower_jumble)
}

/// Whether this is a path: random names of files, such as `/blobs/aB3…`, are no secrets.
fn is_path(value: &str) -> bool {
    value.starts_with('/')
        || value.split('/').filter(|part| part.bytes().all(|b| b.is_ascii_lowercase()) && part.len() >= 3).count() >= 2
}

fn is_jumbled(part: &[u8], least: usize) -> bool {
    let [digits, upper, lower] = class_counts(part);
    // Names have one number at most: `MistralNeMoConfig12B`.
    let numbers = part.windows(2).filter(|pair| matches!(pair, [b, b'0'..=b'9'] if !b.is_ascii_digit())).count();
    let share = if numbers >= 2 { 36 } else { 52 };
    let is_mixed = digits >= 1 && upper >= 3 && lower >= 3;
    part.len() >= least && is_mixed && class_changes(part) * 100 >= part.len() * share
}

/// Whether this has only small letters and digits, more than a hash in base 32 has, and is no hexadecimal number.
fn is_lower_jumble(part: &str) -> bool {
    let bytes = part.as_bytes();
    let [digits, _, lower] = class_counts(bytes);
    let no_hex = bytes.iter().filter(|byte| !byte.is_ascii_hexdigit()).count();
    bytes.len() >= 36
        && digits + lower == bytes.len()
        && digits >= 5
        && no_hex >= 8
        && class_changes(bytes) * 4 >= bytes.len()
}

/// The number of digits, capitals and small letters.
fn class_counts(bytes: &[u8]) -> [usize; 3] {
    [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase]
        .map(|is_of_class| bytes.iter().filter(|byte| is_of_class(byte)).count())
}

/// The number of places where a character of one class follows one of another.
fn class_changes(bytes: &[u8]) -> usize {
    bytes.windows(2).filter(|pair| pair.first().map(class) != pair.last().map(class)).count()
}

fn class(byte: &u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// Whether letters and digits, or letters of both cases, are mixed as in no name of a function or a package.
pub(super) fn is_mixed(run: &[u8]) -> bool {
    let counts @ [digits, upper, _] = class_counts(run);
    counts.into_iter().filter(|many| *many >= 2).count() >= 2 && digits + upper >= 3
}

/// Adds the parts of a run that a word beside them marks as a secret.
fn marked(text: &str, run: Range<usize>, places: &mut Vec<Range<usize>>) {
    let mut from = run.start;
    let word = text.get(run.clone()).unwrap_or_default();
    let before = text.get(..run.start).unwrap_or_default();
    if before.ends_with(['/', '@', '~', '.'])
        || ["sha256:", "sha1:", "sha512:", "md5:"].iter().any(|sum| before.ends_with(sum))
    {
        return;
    }
    for value in word.split(['=', '/', '+']) {
        // Between slashes, a value is part of a path.
        let is_whole = value.len() == word.len() || !word.contains('/');
        let place = from..from + value.len();
        if is_whole && may_be_a_key(value) && mark_near(text, place.clone()).unwrap_or_else(|| is_bare_key(value)) {
            places.push(place);
        }
        from += value.len() + 1;
    }
}

/// Whether this is a UUID, or long enough with both letters and digits.
fn may_be_a_key(value: &str) -> bool {
    let is_number = value.starts_with("0x");
    !is_number && (TABLE.uuid.is_match(value) || value.split(['-', '_']).any(may_be_random))
}

fn may_be_random(part: &str) -> bool {
    let [digits, upper, lower] = class_counts(part.as_bytes());
    part.len() >= SHORT && (digits >= 2 && upper + lower >= 2 || digits == 1 && upper >= 1 && lower >= 1)
}

/// Whether this has the form of a key of W&B, which is that of a commit, too: one that no word beside it names is left out.
fn is_bare_key(value: &str) -> bool {
    value.len() == 40 && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the nearest telling word marks this place as a secret.
pub(super) fn is_near_a_mark(text: &str, at: Range<usize>) -> bool {
    mark_near(text, at).unwrap_or(false)
}

/// Whether the nearest telling word, on the same line or on one beside it, marks this place as a secret; `None` where there
/// is no such word.
fn mark_near(text: &str, at: Range<usize>) -> Option<bool> {
    let (before, begins) = line_before(text, at.start);
    let (behind, ends) = line_behind(text, at.end);
    told(before, true)
        .or_else(|| told(behind, false))
        .or_else(|| told(line_before(text, begins?).0, true))
        .or_else(|| told(line_behind(text, ends?).0, false))
}

/// The searched text before a place on its line, and where the line above ends.
fn line_before(text: &str, at: usize) -> (&str, Option<usize>) {
    let from = text.ceil_char_boundary(at.saturating_sub(AROUND));
    let window = text.get(from..at).unwrap_or_default();
    match window.rfind('\n') {
        Some(line) => (window.get(line + 1..).unwrap_or_default(), Some(from + line)),
        None => (window, None),
    }
}

/// The searched text after a place on its line, and where the line below begins.
fn line_behind(text: &str, at: usize) -> (&str, Option<usize>) {
    let window = text.get(at..text.floor_char_boundary(at + AROUND)).unwrap_or_default();
    match window.find('\n') {
        Some(line) => (window.get(..line).unwrap_or_default(), Some(at + line + 1)),
        None => (window, None),
    }
}

/// Whether the nearest telling word marks a secret; `None` where there is no such word.
fn told(line: &str, from_its_end: bool) -> Option<bool> {
    let mut words: Vec<String> = line
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    // `api key` marks a secret, `state_dict key` does not.
    for at in 1..words.len() {
        if let Some([kind, key]) = words.get_mut(at - 1..=at)
            && matches!(key.as_str(), "key" | "keys")
            && TABLE.keys.contains(kind)
        {
            *key = "apikey".to_owned();
        }
    }
    if from_its_end {
        words.reverse();
    }
    let telling = words.iter().find(|word| TABLE.marks.contains(word) || TABLE.labels.contains(word))?;
    Some(TABLE.marks.contains(telling))
}
