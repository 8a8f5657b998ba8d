//! Owns regular expressions that the program has of its own, each compiled when it is first tried.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::{Captures, Regex};

/// One that does not compile matches nothing: they are fixed, and the tests of whoever uses it would fail.
pub struct Expression {
    source: &'static str,
    regex: OnceLock<Option<Regex>>,
}

impl Expression {
    pub const fn new(source: &'static str) -> Expression {
        Expression { source, regex: OnceLock::new() }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(text))
    }

    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.regex()?.captures(text)
    }

    /// Where its matches begin.
    pub fn starts<'t>(&'t self, text: &'t str) -> impl Iterator<Item = usize> {
        self.regex().into_iter().flat_map(move |regex| regex.find_iter(text)).map(|found| found.start())
    }

    /// The text with every match replaced; `$0` stands for the match.
    pub fn replaced<'t>(&self, text: &'t str, with: &str) -> Cow<'t, str> {
        self.regex().map_or(Cow::Borrowed(text), |regex| regex.replace_all(text, with))
    }

    fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| Regex::new(self.source).ok()).as_ref()
    }
}
