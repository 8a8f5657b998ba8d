//! Owns regular expressions that the program has of its own, each compiled when it is first tried.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::{Captures, Regex};

use super::needle::Needles;

/// One that does not compile matches nothing: they are fixed, and the tests of whoever uses it would fail.
pub struct Expression {
    source: &'static str,
    needles: OnceLock<Needles>,
    regex: OnceLock<Option<Regex>>,
}

impl Expression {
    pub const fn new(source: &'static str) -> Expression {
        Expression { source, needles: OnceLock::new(), regex: OnceLock::new() }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex_for(text).is_some_and(|regex| regex.is_match(text))
    }

    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.regex_for(text)?.captures(text)
    }

    /// Where its matches begin.
    pub fn starts<'t>(&'t self, text: &'t str) -> impl Iterator<Item = usize> {
        self.regex_for(text).into_iter().flat_map(move |regex| regex.find_iter(text)).map(|found| found.start())
    }

    /// The text with every match replaced; `$0` stands for the match.
    pub fn replaced<'t>(&self, text: &'t str, with: &str) -> Cow<'t, str> {
        self.regex_for(text).map_or(Cow::Borrowed(text), |regex| regex.replace_all(text, with))
    }

    /// The expression, where this text may hold a match. Letters beyond ASCII may equal some of ASCII if case is ignored.
    fn regex_for(&self, text: &str) -> Option<&Regex> {
        let needles = self.needles.get_or_init(|| Needles::of(self.source));
        if !needles.may_match(text) && text.is_ascii() {
            return None;
        }
        self.regex.get_or_init(|| Regex::new(&in_ascii(self.source)).ok()).as_ref()
    }
}

const BLANKS: &str = r"\t\n\x0B\x0C\r ";
const WORD: &str = "0-9A-Za-z_";

/// The source with classes of ASCII for `\d`, `\w`, `\s` and `\b`: those of Unicode take ten times as long to build. One that
/// switches Unicode off has them already.
fn in_ascii(source: &str) -> Cow<'_, str> {
    if source.contains("-u)") || source.contains("-u:") {
        return Cow::Borrowed(source);
    }
    let (mut out, mut chars, mut in_class) = (String::new(), source.chars().peekable(), false);
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(&class)) => {
                chars.next();
                match (class, in_class) {
                    ('d', true) => out.push_str("0-9"),
                    ('w', true) => out.push_str(WORD),
                    ('s', true) => out.push_str(BLANKS),
                    ('d', false) => out.push_str("[0-9]"),
                    ('w', false) => out.extend(["[", WORD, "]"]),
                    ('s', false) => out.extend(["[", BLANKS, "]"]),
                    ('W', false) => out.extend(["[^", WORD, "]"]),
                    ('S', false) => out.extend(["[^", BLANKS, "]"]),
                    ('b', false) => out.push_str(r"(?-u:\b)"),
                    (other, _) => out.extend(['\\', other]),
                }
            }
            _ => {
                in_class = match c {
                    '[' => true,
                    ']' => false,
                    _ => in_class,
                };
                out.push(c);
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_ascii_and_the_rest_stays_as_it_is() {
        static OTHER: Expression = Expression::new(r"^[\s│|]*(?:-{1,}>|❱)\s*\d+(?:\s|$)");
        assert!(OTHER.is_match("│ ❱ 12 x") && !OTHER.is_match("│ ❱ ١ x"));
        static REST: Expression = Expression::new(r"\bat \S+ [^\w.]\W\\$");
        assert!(REST.is_match("at größe ?!\\") && !REST.is_match("flat x ?!\\"));
        assert_eq!(in_ascii(r"(?-u)\d"), r"(?-u)\d");
    }

    #[test]
    fn a_text_without_the_words_of_the_expression_is_no_match_and_compiles_nothing() {
        static WORDS: Expression = Expression::new(r"(?i)kelvin \d+");
        assert!(!WORDS.is_match("Celsius 20") && WORDS.regex.get().is_none());
        assert!(WORDS.is_match("KELVIN 293") && WORDS.is_match("\u{212a}elvin 293"), "the sign of the unit is a K");
    }
}
