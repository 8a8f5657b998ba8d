//! Owns regular expressions that the program has of its own, each compiled when it is first tried.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::{Captures, Regex};

use super::needle::Needles;

/// One that does not compile matches nothing: they are fixed, and the tests of whoever uses it would fail.
pub struct Expression {
    source: &'static str,
    needles: OnceLock<Needles>,
    /// For any text, and for one in ASCII.
    any: OnceLock<Option<Regex>>,
    ascii: OnceLock<Option<Regex>>,
}

impl Expression {
    pub const fn new(source: &'static str) -> Expression {
        Expression { source, needles: OnceLock::new(), any: OnceLock::new(), ascii: OnceLock::new() }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex_for(text).is_some_and(|regex| regex.is_match(text))
    }

    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        // Most texts do not match, which is found out without room for the groups.
        let regex = self.regex_for(text).filter(|regex| regex.is_match(text))?;
        regex.captures(text)
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
        let is_ascii = text.is_ascii();
        if is_ascii && !needles.may_match(text) {
            return None;
        }
        let regex = if is_ascii { &self.ascii } else { &self.any };
        regex.get_or_init(|| Regex::new(&in_ascii(self.source, is_ascii)).ok()).as_ref()
    }
}

const BLANKS: &str = r"\t\n\x0B\x0C\r ";
const WORD: &str = "0-9A-Za-z_";

/// The source with classes of ASCII for `\d`, `\w`, `\s` and `\b`: those of Unicode take ten times as long to build. One that
/// switches Unicode off has them already. For texts in `ascii` alone, what is not in a class is ASCII, too, which saves
/// the automata that read UTF-8.
fn in_ascii(source: &str, ascii: bool) -> Cow<'_, str> {
    if source.contains("-u)") || source.contains("-u:") {
        return Cow::Borrowed(source);
    }
    let (beginning, end) = if ascii { (r"[\x00-\x7F&&[^", "]]") } else { ("[^", "]") };
    let (mut out, mut chars) = (String::new(), source.chars().peekable());
    // What ends the class that is read.
    let mut class = None;
    while let Some(c) = chars.next() {
        match (c, chars.peek(), class) {
            ('\\', Some(&escaped), _) => {
                chars.next();
                match (escaped, class.is_some()) {
                    ('d', true) => out.push_str("0-9"),
                    ('w', true) => out.push_str(WORD),
                    ('s', true) => out.push_str(BLANKS),
                    ('d', false) => out.push_str("[0-9]"),
                    ('w', false) => out.extend(["[", WORD, "]"]),
                    ('s', false) => out.extend(["[", BLANKS, "]"]),
                    ('W', false) => out.extend([beginning, WORD, end]),
                    ('S', false) => out.extend([beginning, BLANKS, end]),
                    ('b', false) => out.push_str(r"(?-u:\b)"),
                    (other, _) => out.extend(['\\', other]),
                }
            }
            ('[', Some('^'), None) => {
                chars.next();
                out.push_str(beginning);
                class = Some(end);
            }
            ('[', _, None) => {
                out.push('[');
                class = Some("]");
            }
            (']', _, Some(end)) => {
                out.push_str(end);
                class = None;
            }
            ('.', _, None) if ascii => out.extend([beginning, r"\n", end]),
            _ => out.push(c),
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
        assert!(OTHER.is_match("| -> 12 x") && !OTHER.is_match("| -> x"));
        static ANY: Expression = Expression::new(r"^.[^a-c\]].\W\S$");
        assert!(ANY.is_match("axb-d") && !ANY.is_match("axb-dd") && !ANY.is_match("a]b-d") && !ANY.is_match("\nxb-d"));
        assert!(ANY.is_match("ä中b—d") && !ANY.is_match("äcb—d") && ANY.is_match("a\nb?d"));
        static REST: Expression = Expression::new(r"\bat \S+ [^\w.]\W\\$");
        assert!(REST.is_match("at größe ?!\\") && !REST.is_match("flat x ?!\\"));
        assert_eq!(in_ascii(r"(?-u)\d", true), r"(?-u)\d");
    }

    #[test]
    fn a_text_without_the_words_of_the_expression_is_no_match_and_compiles_nothing() {
        static WORDS: Expression = Expression::new(r"(?i)kelvin \d+");
        assert!(!WORDS.is_match("Celsius 20") && WORDS.ascii.get().is_none());
        assert!(WORDS.is_match("KELVIN 293") && WORDS.is_match("\u{212a}elvin 293"), "the sign of the unit is a K");
    }
}
