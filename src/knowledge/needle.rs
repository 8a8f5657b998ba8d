//! Owns the words that every match of a pattern contains, derived from its source. Searching for them is cheap; they
//! rule out most patterns before these are compiled.

use std::iter::Peekable;
use std::str::Chars;

use memchr::memchr2_iter;
use memchr::memmem;

use crate::effort;

/// Words shorter than this are too frequent to rule anything out.
const SHORTEST: usize = 3;

/// A text can match only if it has all words of one alternative. Without alternatives any text may match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needles {
    alternatives: Vec<Vec<String>>,
    ignore_case: bool,
}

impl Needles {
    /// The words of this pattern: what is outside of groups and classes and not optional.
    pub(super) fn of(source: &str) -> Needles {
        let mut reading = Reading::default();
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if chars.peek() == Some(&'x') => match hexadecimal(&mut chars) {
                    Some(escaped) => reading.push(escaped),
                    None => return Needles::default(),
                },
                // Other escapes with an argument are not parsed here.
                '\\' if chars.peek().is_some_and(|c| "uUpPkQ".contains(*c)) => return Needles::default(),
                '\\' => match chars.next() {
                    Some(escaped) if !escaped.is_ascii_alphanumeric() => reading.push(escaped),
                    _ => reading.end_run(),
                },
                '[' => {
                    skip_class(&mut chars);
                    reading.end_run();
                }
                '{' => {
                    let repeats = chars.peek().is_some_and(char::is_ascii_digit);
                    chars.by_ref().take_while(|c| *c != '}').for_each(drop);
                    if repeats {
                        reading.drop_last();
                    }
                    reading.end_run();
                }
                '(' | ')' => {
                    reading.end_run();
                    reading.depth = if c == '(' { reading.depth + 1 } else { reading.depth.saturating_sub(1) };
                }
                '?' | '*' => {
                    reading.drop_last();
                    reading.end_run();
                }
                '|' if reading.depth == 0 => reading.next_alternative(),
                // A space is a blank that may be missing.
                '|' | '+' | '.' | '^' | '$' | ' ' => reading.end_run(),
                literal => reading.push(literal),
            }
        }
        reading.next_alternative();
        // If nothing is known of one alternative, any text may match.
        if reading.alternatives.iter().any(Vec::is_empty) {
            return Needles::default();
        }
        Needles { alternatives: reading.alternatives, ignore_case: source.contains("(?i") }
    }

    /// Whether the text may match. Only "no" is certain.
    pub(super) fn may_match(&self, text: &str) -> bool {
        self.alternatives.is_empty()
            || self.alternatives.iter().any(|words| words.iter().all(|word| self.is_in(text, word)))
    }

    fn is_in(&self, text: &str, word: &str) -> bool {
        effort::count(text.len());
        if self.ignore_case {
            holds_ignoring_case(text.as_bytes(), word.as_bytes())
        } else {
            memmem::find(text.as_bytes(), word.as_bytes()).is_some()
        }
    }
}

/// The ASCII character of an escape such as `x27`; `None` for any other.
fn hexadecimal(chars: &mut Peekable<Chars<'_>>) -> Option<char> {
    let digits: String = chars.skip(1).take(2).collect();
    let code = u8::from_str_radix(&digits, 16).ok()?;
    code.is_ascii().then_some(char::from(code))
}

/// Goes on to the end of a class whose `[` was read.
fn skip_class(chars: &mut Peekable<Chars<'_>>) {
    chars.next_if_eq(&'^');
    chars.next_if_eq(&']');
    while let Some(inner) = chars.next().filter(|inner| *inner != ']') {
        if inner == '\\' {
            chars.next();
        }
    }
}

/// Whether the text holds the word, whatever the case of its ASCII letters.
pub(super) fn holds_ignoring_case(text: &[u8], word: &[u8]) -> bool {
    let Some(first) = word.first() else { return true };
    memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .any(|at| text.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    alternatives: Vec<Vec<String>>,
    words: Vec<String>,
    run: String,
    /// How many groups are open.
    depth: usize,
}

impl Reading {
    /// A character within a group may be one of several alternatives.
    fn push(&mut self, literal: char) {
        if self.depth == 0 {
            self.run.push(literal);
        } else {
            self.end_run();
        }
    }

    /// Removes a character that may be repeated zero times: not every match contains it.
    fn drop_last(&mut self) {
        self.run.pop();
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.len() >= SHORTEST {
            self.words.push(run);
        }
    }

    fn next_alternative(&mut self) {
        self.end_run();
        self.alternatives.push(std::mem::take(&mut self.words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_every_match_are_read_off_the_source() {
        for (source, words) in [
            ("(?:CUDA|HIP) out of memory", vec![vec!["out", "memory"]]),
            (r"Tried to allocate {requested_bytes} \(GPU", vec![vec!["Tried", "allocate", "(GPU"]]),
            (r"a total capaci?ty of", vec![vec!["total", "capac"]]),
            ("abcd{0,3}efg", vec![vec!["abc", "efg"]]),
            ("abc+def", vec![vec!["abc", "def"]]),
            (r"\[rank\d+\]: x", vec![vec!["[rank"]]),
            ("[^a-z]words[]x]*", vec![vec!["words"]]),
            ("(a|b) (?:memory)?", vec![]),
            ("one|twos\nx", vec![vec!["one"], vec!["twos\nx"]]),
            (r"one|\d+", vec![]),
            (r"\x27self own\x22?", vec![vec!["'self", "own"]]),
            (r"\x{e9}words", vec![]),
        ] {
            assert_eq!(Needles::of(source).alternatives, words, "{source}");
        }
    }

    #[test]
    fn case_counts_unless_the_pattern_says_it_does_not() {
        assert!(Needles::of("Out of memory").may_match("Outofmemory"));
        assert!(!Needles::of("Out of memory").may_match("out of memory"));
        assert!(Needles::of("(?i)Out of memory").may_match("OUT OF MEMory"));
        assert!(!Needles::of("(?i)Out of memory").may_match("out of mem"));
        assert!(Needles::of("").may_match(""));
    }
}
