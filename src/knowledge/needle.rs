//! Owns the words that every match of a pattern holds, read off its source. Looking for them costs next to nothing;
//! most patterns are ruled out by them and never compiled.

use memchr::memchr2_iter;
use memchr::memmem;

use crate::effort;

/// Runs shorter than this rule nothing out.
const SHORTEST: usize = 3;

/// What a text must hold: all words of at least one alternative. No alternative: nothing is known, any text may match.
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
        let mut depth = 0_usize;
        while let Some(c) = chars.next() {
            let literal = match c {
                // Escapes that go on after their letter are beyond this reading.
                '\\' if chars.peek().is_some_and(|c| "xuUpPkQ".contains(*c)) => return Needles::default(),
                '\\' => chars.next().filter(|escaped| !escaped.is_ascii_alphanumeric()),
                '[' => {
                    chars.next_if_eq(&'^');
                    chars.next_if_eq(&']');
                    while let Some(inner) = chars.next().filter(|inner| *inner != ']') {
                        if inner == '\\' {
                            chars.next();
                        }
                    }
                    None
                }
                '(' => {
                    depth += 1;
                    None
                }
                ')' => {
                    depth = depth.saturating_sub(1);
                    None
                }
                '{' => {
                    let repeats = chars.peek().is_some_and(char::is_ascii_digit);
                    chars.by_ref().take_while(|c| *c != '}').for_each(drop);
                    if repeats {
                        reading.drop_last();
                    }
                    None
                }
                '?' | '*' => {
                    reading.drop_last();
                    None
                }
                '|' if depth == 0 => {
                    reading.next_alternative();
                    None
                }
                // A space is a blank that may be missing.
                '|' | '+' | '.' | '^' | '$' | ' ' => None,
                literal => Some(literal),
            };
            match literal.filter(|_| depth == 0) {
                Some(literal) => reading.run.push(literal),
                None => reading.end_run(),
            }
        }
        reading.next_alternative();
        // One alternative of which nothing is known lets any text through.
        if reading.alternatives.iter().any(Vec::is_empty) {
            return Needles::default();
        }
        Needles { alternatives: reading.alternatives, ignore_case: source.contains("(?i") }
    }

    /// Whether the text holds what a match needs; a yes promises nothing.
    pub(super) fn may_match(&self, text: &str) -> bool {
        let holds = |word: &String| {
            effort::count(text.len());
            match self.ignore_case {
                true => holds_ignoring_case(text.as_bytes(), word.as_bytes()),
                false => memmem::find(text.as_bytes(), word.as_bytes()).is_some(),
            }
        };
        self.alternatives.is_empty() || self.alternatives.iter().any(|words| words.iter().all(holds))
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
}

impl Reading {
    /// What a repetition that may be none follows is not in every match.
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
            (r"\x1bwords", vec![]),
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
