//! Owns a text as it was before it was wrapped or escaped: without line ends of a terminal, `\\n` and `\\"` of
//! JSON, `%3D` of URLs, and colors. Secrets are searched in it once more, and each place is mapped back to the
//! text as it stands.

use std::collections::BTreeSet;
use std::ops::Range;

use super::kinds;

/// Lines at least this wide may have been wrapped by a terminal, even within a token.
const WRAPPED: usize = 60;
/// Lines before and after a wrapped line; where a terminal wrapped it, none of them is wider.
const LINES: usize = 8;
/// Usual widths of terminals, at which a line is taken to be wrapped even beside wider ones.
const CUT: &[usize] = &[79, 80, 100, 119, 120, 131, 132, 160];

/// The text, and the place from which each of its bytes came.
pub(super) struct Folded {
    pub(super) text: String,
    from: Vec<usize>,
}

impl Folded {
    /// `None` where nothing was wrapped or escaped.
    pub(super) fn of(text: &str) -> Option<Folded> {
        let mut folded = Folded { text: String::with_capacity(text.len()), from: Vec::with_capacity(text.len() + 1) };
        let wraps = wraps(text);
        let mut wraps = wraps.iter().copied().peekable();
        let mut at = 0;
        let mut changed = false;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if wraps.next_if_eq(&at).is_some() {
                at += rest.len() - rest.trim_start_matches('\r').strip_prefix('\n').map_or(rest.len(), str::len);
                changed = true;
                continue;
            }
            let (put, length) = unescaped(rest);
            changed |= length != put.map_or(0, char::len_utf8);
            if let Some(put) = put {
                folded.text.push(put);
                folded.from.extend(std::iter::repeat_n(at, put.len_utf8()));
            }
            at += length.max(1);
        }
        folded.from.push(text.len());
        changed.then_some(folded)
    }

    /// The range in the original text.
    pub(super) fn back(&self, place: &Range<usize>, text: &str) -> Option<Range<usize>> {
        let start = *self.from.get(place.start)?;
        let last = *self.from.get(place.end.checked_sub(1)?)?;
        let end = *self.from.get(place.end)?;
        // Characters that were left out after the last one do not belong to the range.
        let own = unescaped(text.get(last..)?).1;
        Some(start..end.min(last + own.max(1)))
    }
}

/// The next character without its escape, and the bytes that it takes in the text; a color has no character.
fn unescaped(rest: &str) -> (Option<char>, usize) {
    let bytes = rest.as_bytes();
    match bytes {
        [b'\\', b'n', ..] => (Some('\n'), 2),
        [b'\\', b'r' | b't', ..] => (Some(' '), 2),
        [b'\\', sign @ (b'"' | b'\'' | b'/' | b'\\'), ..] => (Some(char::from(*sign)), 2),
        [b'\\', b'u', b'0', b'0', high, low, ..] => match number(*high, *low) {
            Some(sign) => (Some(sign), 6),
            None => (Some('\\'), 1),
        },
        [b'%', high, low, ..] => match number(*high, *low) {
            Some(sign) => (Some(sign), 3),
            None => (Some('%'), 1),
        },
        [0x1b, b'[', color @ ..] => (None, 2 + of_a_color(color)),
        // A color whose escape character was replaced by a dot.
        [0xc2, 0xb7, b'[', color @ ..] if of_a_color(color) > 0 => (None, 3 + of_a_color(color)),
        _ => {
            let first = rest.chars().next();
            (first, first.map_or(1, char::len_utf8))
        }
    }
}

/// The printable character with this hexadecimal code.
fn number(high: u8, low: u8) -> Option<char> {
    let [high, low] = [high, low].map(|byte| char::from(byte).to_digit(16));
    let code = u8::try_from(high? * 16 + low?).ok()?;
    (code.is_ascii_graphic() || code == b' ').then(|| char::from(code))
}

/// The length of a color behind its `[`.
fn of_a_color(bytes: &[u8]) -> usize {
    let figures = bytes.iter().take(24).take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    match bytes.get(figures) {
        Some(b'm' | b'K') => figures + 1,
        _ => 0,
    }
}

fn is_inside(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-+/=.%~".contains(c)
}

/// The ends of lines that a terminal may have wrapped within a word: wide ones without a wider one near them.
fn wraps(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    let tokens_end: BTreeSet<usize> = ends_of_tokens(text);
    let mut ends = Vec::new();
    let mut at = 0;
    for (number, (whole, pair)) in text.split_inclusive('\n').zip(lines.windows(2)).enumerate() {
        let [line, next] = pair else { continue };
        let width = widths.get(number).copied().unwrap_or(0);
        let near = widths.get(number.saturating_sub(LINES)..(number + LINES).min(widths.len())).unwrap_or_default();
        if width >= WRAPPED
            && line.ends_with(is_inside)
            && next.starts_with(is_inside)
            && (near.iter().all(|other| *other <= width)
                || CUT.contains(&width) && tokens_end.contains(&(at + line.len())) && is_a_rest(next))
        {
            ends.push(at + line.len());
        }
        at += whole.len();
    }
    ends
}

/// The ends of tokens with a known beginning.
fn ends_of_tokens(text: &str) -> BTreeSet<usize> {
    let mut places = Vec::new();
    kinds::find(text, &mut places);
    places.into_iter().map(|place| place.end).collect()
}

/// Whether a line begins with what may be the rest of a token: a word alone on its line, or one with digits.
fn is_a_rest(line: &str) -> bool {
    let end = line.find(|c: char| !is_inside(c)).unwrap_or(line.len());
    let rest = line.get(..end).unwrap_or_default();
    end == line.len() && !rest.ends_with('.') || rest.bytes().any(|byte| byte.is_ascii_digit())
}
