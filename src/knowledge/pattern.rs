//! Owns the pattern language of entries: regular expressions in which `{requested_bytes}` captures a figure and a
//! space may be missing (wraps). Matching takes linear time. A pattern is compiled on first use, and only if a text
//! contains the words that each of its matches contains.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use regex::bytes::{Captures, Regex, RegexBuilder};
use regex_automata::meta;
use regex_automata::util::syntax;
use serde::{Deserialize, Deserializer};

use super::facts::FACT_KEYS;
use crate::effort;
use crate::log::needle::Needles;

/// Shorter texts are searched by an engine that is quick to build, longer ones by an engine that is quick to run.
pub(super) const SHORT: usize = 2048;

/// One pattern; compiled when it is first tried.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub struct Pattern {
    source: String,
    needles: OnceLock<Needles>,
    short: OnceLock<Option<meta::Regex>>,
    regex: OnceLock<Option<Regex>>,
}

/// The patterns with a name (`knowledge/patterns.ron`).
static NAMED: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut named: BTreeMap<String, Vec<String>> = ron::from_str(NAMED_TEXT).unwrap_or_default();
    for pattern in named.values_mut().flatten() {
        *pattern = pattern.lines().map(str::trim_start).collect();
    }
    named
});

/// The file that names patterns, as the program was built with it.
pub const NAMED_TEXT: &str = include_str!("../../knowledge/patterns.ron");

fn named(name: &str) -> Option<&'static [String]> {
    NAMED.get(name).map(Vec::as_slice)
}

/// The patterns that the whole of this source names.
fn named_by(source: &str) -> Option<&'static [String]> {
    named(source.strip_prefix('{')?.strip_suffix('}')?)
}

/// Reads a list of patterns in which each member that is a name stands for all of its patterns, in their order.
pub fn each<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pattern>, D::Error> {
    let sources = Vec::<String>::deserialize(deserializer)?;
    let each = sources.into_iter().flat_map(|source| match named_by(&source) {
        Some(patterns) => patterns.to_vec(),
        None => vec![source],
    });
    Ok(each.map(Pattern::from).collect())
}

impl From<String> for Pattern {
    fn from(source: String) -> Pattern {
        let source = named_by(&source).map_or(source, |patterns| patterns.join("|"));
        Pattern { source, needles: OnceLock::new(), short: OnceLock::new(), regex: OnceLock::new() }
    }
}

/// Whether the text has a match of the pattern of this name, one of those that the program itself uses.
pub(super) fn shows(name: &str, text: &str) -> bool {
    static PATTERNS: LazyLock<BTreeMap<&str, Pattern>> =
        LazyLock::new(|| NAMED.iter().map(|(name, sources)| (name.as_str(), sources.join("|").into())).collect());
    PATTERNS.get(name).is_some_and(|pattern| pattern.is_match(text))
}

/// What the first of the patterns of this name captures as `key`.
pub(super) fn captured(name: &str, text: &str, key: &str) -> Option<String> {
    static PATTERNS: LazyLock<BTreeMap<&str, Vec<Pattern>>> = LazyLock::new(|| {
        let each = |sources: &Vec<String>| sources.iter().cloned().map(Pattern::from).collect();
        NAMED.iter().map(|(name, sources)| (name.as_str(), each(sources))).collect()
    });
    PATTERNS.get(name)?.iter().find_map(|pattern| group(&pattern.captures(text).next()?, key))
}

impl Pattern {
    /// As written in the entry.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches somewhere.
    pub fn is_match(&self, text: &str) -> bool {
        self.find_map(text, |_| Some(())).is_some()
    }

    /// The first result of `make` for the offsets at which matches begin.
    pub fn find_map<T>(&self, text: &str, mut make: impl FnMut(usize) -> Option<T>) -> Option<T> {
        if text.len() > SHORT {
            return self.thorough(text)?.find_iter(text.as_bytes()).find_map(|found| make(found.start()));
        }
        if !self.may_match(text) {
            return None;
        }
        let short = self.short.get_or_init(|| compile_short(&self.source)).as_ref()?;
        effort::count(text.len());
        short.find_iter(text.as_bytes()).find_map(|found| make(found.start()))
    }

    /// All matches with their groups.
    pub fn captures<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        self.thorough(text).into_iter().flat_map(move |regex| regex.captures_iter(text.as_bytes()))
    }

    /// The last match with its groups.
    pub fn last_captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        let regex = self.thorough(text)?;
        let last = regex.find_iter(text.as_bytes()).last()?;
        regex.captures_at(text.as_bytes(), last.start())
    }

    /// The names of its groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.compiled().into_iter().flat_map(|regex| regex.capture_names().flatten())
    }

    /// The expression, where this text may hold a match.
    fn thorough(&self, text: &str) -> Option<&Regex> {
        if !self.may_match(text) {
            return None;
        }
        effort::count(text.len());
        self.compiled()
    }

    /// `None` where it can't be compiled, which the loader's check refuses.
    fn compiled(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| compile(&self.source).ok()).as_ref()
    }

    fn may_match(&self, text: &str) -> bool {
        self.needles().may_match(text)
    }

    /// The words that every match contains.
    pub(super) fn needles(&self) -> &Needles {
        self.needles.get_or_init(|| Needles::of(&self.source))
    }

    /// What is wrong with it, if anything: syntax, an unknown figure.
    pub fn check(&self) -> Result<(), String> {
        let regex = compile(&self.source)?;
        for name in regex.capture_names().flatten() {
            if Capture::of(name).is_none() {
                return Err(format!(
                    "{{{name}}} is no figure and no named pattern; figures are {}",
                    FACT_KEYS.join(", ")
                ));
            }
        }
        Ok(())
    }
}

fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&expand(source))
        .unicode(false)
        .multi_line(true)
        .size_limit(4 << 20)
        .build()
        .map_err(|error| error.to_string())
}

/// The same pattern without what is worth its cost only in long texts: a search for literals first, lazy automata.
fn compile_short(source: &str) -> Option<meta::Regex> {
    let config = meta::Config::new().auto_prefilter(false).hybrid(false).dfa(false).onepass(false).utf8_empty(false);
    meta::Builder::new()
        .configure(config)
        .syntax(syntax::Config::new().unicode(false).utf8(false).multi_line(true))
        .build(&expand(source))
        .ok()
}

/// The text of a group, where it took part in the match.
pub(super) fn group(found: &Captures<'_>, name: &str) -> Option<String> {
    Some(String::from_utf8_lossy(found.name(name)?.as_bytes()).into_owned())
}

/// What a named group captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    /// The fact's key: `requested_bytes`, `device`, …
    pub key: &'static str,
    /// How it is printed.
    pub form: Form,
}

/// How a figure is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A number with its unit.
    Sized,
    /// A bare number, to be multiplied.
    Times(u64),
    /// A whole number that is no size.
    Count,
    Word,
}

impl Capture {
    /// What a group of this name captures: `program` or a fact's key. The name of a size that is printed without a unit
    /// has its unit instead of `_bytes`.
    pub(crate) fn of(name: &str) -> Option<Capture> {
        const UNITS: &[(&str, Form)] = &[
            ("_bytes", Form::Sized),
            ("_raw", Form::Times(1)),
            ("_kib", Form::Times(1 << 10)),
            ("_mib", Form::Times(1 << 20)),
            ("_gib", Form::Times(1 << 30)),
            ("_pages", Form::Times(4096)),
        ];
        if name == "program" {
            return Some(Capture { key: "program", form: Form::Word });
        }
        if let Some(key) = FACT_KEYS.iter().find(|key| **key == name && !name.ends_with("_bytes")) {
            let form = if *key == "victim_name" { Form::Word } else { Form::Count };
            return Some(Capture { key, form });
        }
        let (stem, form) = UNITS.iter().find_map(|(unit, form)| Some((name.strip_suffix(unit)?, *form)))?;
        let key = FACT_KEYS.iter().find(|key| key.strip_suffix("_bytes") == Some(stem))?;
        Some(Capture { key, form })
    }

    /// The expression behind `{name}`.
    fn expression(self) -> &'static str {
        match self.form {
            Form::Sized => r"\d[\d,]*(?:\.\d+)?\s*(?:[KMGTPEkmgtpe][iI]?(?:[Bb]|o\b)|[Bb]ytes?|B\b|[KMGTkmgt]i?\b)",
            Form::Times(_) => r"\d[\d,]*(?:\.\d+)?",
            Form::Count if self.key == "exit_code" => r"-?\d+",
            Form::Count => r"\d[\d,]*",
            Form::Word => r"[^\s)(,]+",
        }
    }
}

/// Writes figures out and lets any space outside a class be missing or several.
pub(super) fn expand(source: &str) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut chars = source.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
            }
            '[' if !in_class => {
                in_class = true;
                out.push(c);
                // A `]` right after `[` or `[^` belongs to the class.
                out.extend(chars.next_if_eq(&'^'));
                out.extend(chars.next_if_eq(&']').map(|_| "\\]"));
            }
            ']' => {
                in_class = false;
                out.push(c);
            }
            ' ' if !in_class => out.push_str(r"\s*"),
            '{' if !in_class && chars.peek().is_some_and(char::is_ascii_lowercase) => {
                let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
                match named(&name) {
                    Some(patterns) => out.push_str(&format!("(?:{})", expand(&patterns.join("|")))),
                    None => {
                        let body = Capture::of(&name).map_or(r"\S+", Capture::expression);
                        out.push_str(&format!("(?P<{name}>{body})"));
                    }
                }
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pattern: &str, text: &str, name: &str) -> Option<String> {
        let pattern = Pattern::from(pattern.to_string());
        pattern.check().unwrap();
        let captures = pattern.captures(text).next()?;
        Some(String::from_utf8_lossy(captures.name(name)?.as_bytes()).into_owned())
    }

    #[test]
    fn figures_are_captured_with_their_unit() {
        let pattern = "allocate {requested_bytes}[.]";
        assert_eq!(captured(pattern, "allocate 2.00 GiB.", "requested_bytes").as_deref(), Some("2.00 GiB"));
        assert_eq!(captured(pattern, "allocate 512 bytes.", "requested_bytes").as_deref(), Some("512 bytes"));
        assert_eq!(captured("size {requested_raw}", "size 12345", "requested_raw").as_deref(), Some("12345"));
        assert_eq!(captured("rss:{victim_rss_kib}kB", "rss:77kB", "victim_rss_kib").as_deref(), Some("77"));
    }

    #[test]
    fn a_space_may_be_lost_to_a_wrap() {
        assert_eq!(
            captured("total of {total_bytes} of", "totalof9.92 GiBof", "total_bytes").as_deref(),
            Some("9.92 GiB")
        );
    }

    #[test]
    fn words_and_the_quick_engine_agree_with_the_thorough_one() {
        let base = crate::knowledge::KnowledgeBase::built_in_with_examples().unwrap();
        let mut matched = 0;
        for entry in &base.entries {
            for pattern in entry.patterns() {
                let thorough = compile(pattern.source()).unwrap();
                let examples = entry.matches.iter().map(|one| &one.log).chain(entry.rejects.iter().map(|one| &one.log));
                for line in examples.flat_map(|log| log.lines()) {
                    let expected = thorough.find(line.as_bytes()).map(|found| found.start());
                    assert_eq!(
                        pattern.find_map(line, Some),
                        expected,
                        "{}: {:?} in {line:?}",
                        entry.id,
                        pattern.source()
                    );
                    matched += usize::from(expected.is_some());
                }
            }
        }
        assert!(matched > 1000, "{matched}");
    }

    #[test]
    fn every_named_pattern_is_a_regular_expression() {
        assert!(NAMED.len() > 30);
        for (name, patterns) in NAMED.iter() {
            assert!(patterns.iter().all(|pattern| compile(pattern).is_ok()), "{name}");
        }
    }

    #[test]
    fn every_name_in_the_code_is_one_of_a_pattern() {
        for code in [include_str!("quotation.rs"), include_str!("document.rs"), include_str!("rank.rs")] {
            for (name, _) in code.split("shows(\"").skip(1).filter_map(|rest| rest.split_once('"')) {
                assert!(named(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn unknown_figures_and_bad_syntax_are_refused() {
        assert!(Pattern::from("{wanted_bytes}".to_string()).check().is_err());
        assert!(Pattern::from("(".to_string()).check().is_err());
        assert!(Pattern::from("a{2,3} [ ]x".to_string()).check().is_ok());
    }
}
