//! Owns finding: one pass over the log for every entry's literals, then the patterns of the entries concerned on the
//! lines concerned, once alone and once with wraps undone.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, Input};

use super::diagnosis::Oom;
use super::document::is_document;
use super::entry::{Entry, When};
use super::needle::holds_ignoring_case;
use super::pattern::Pattern;
use super::quotation::{is_quoted, stands_in_source};
use crate::log::{PastedLog, View};

/// Logs up to this size are searched with all blanks left out, for literals broken by a wrap; of larger ones the end
/// is, and all of them as they stand.
const SQUEEZED_TAIL: usize = 4 << 20;
/// More candidates of one entry than this are not all looked at: the first and the last half are.
const CANDIDATES: usize = 512;
/// How many lines before a literal a message may begin.
const LEAD: usize = 2;

/// A line that is an entry's decisive line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Index into the entries.
    pub entry: usize,
    /// The line's number.
    pub line: usize,
    /// Where in the line the message begins.
    pub column: usize,
    /// Which of the entry's patterns it was: one failure is often told in several lines, each its own wording.
    pub wording: usize,
}

/// The words of the first pass, and a searcher that is slow to build and fast to run: for logs that are worth it.
#[derive(Debug, Default)]
pub struct Words {
    literals: Vec<String>,
    fast: OnceLock<Option<AhoCorasick>>,
}

impl Words {
    /// Whether a block of log holds one of them.
    pub fn stand_in(&self, block: &[u8]) -> bool {
        self.fast().is_none_or(|searcher| searcher.is_match(block))
    }

    fn fast(&self) -> Option<&AhoCorasick> {
        self.fast.get_or_init(|| searcher(self.literals.iter().cloned(), Some(AhoCorasickKind::DFA))).as_ref()
    }
}

/// The first pass over all literals; built when first used.
#[derive(Debug)]
pub struct Finder {
    /// Literal to entry.
    owners: Vec<usize>,
    words: Arc<Words>,
    squeezed: OnceLock<Option<AhoCorasick>>,
}

impl Finder {
    /// A finder for these entries; an empty literal is refused.
    pub fn new(entries: &[Entry]) -> Result<Finder, String> {
        let mut owners = Vec::new();
        let mut literals = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            for literal in &entry.literals {
                if literal.trim().len() < 3 {
                    return Err(format!("{}: the literal {literal:?} is too short", entry.id));
                }
                owners.push(index);
                literals.push(literal.clone());
            }
        }
        let words = Arc::new(Words { literals, fast: OnceLock::new() });
        Ok(Finder { owners, words, squeezed: OnceLock::new() })
    }

    /// The words, to be shared with whoever shortens a log before it is read.
    pub fn words(&self) -> Arc<Words> {
        Arc::clone(&self.words)
    }

    /// All hits, ordered by entry and line.
    pub fn find(&self, entries: &[Entry], log: &PastedLog) -> Vec<Hit> {
        let mut candidates = self.squeezed_candidates(log);
        if log.text().len() > SQUEEZED_TAIL {
            candidates.extend(self.plain_candidates(log));
        }
        let mut by_entry: Vec<Vec<usize>> = vec![Vec::new(); entries.len()];
        for (entry, line) in candidates {
            if let Some(lines) = by_entry.get_mut(entry) {
                lines.push(line);
            }
        }
        let mut hits = BTreeSet::new();
        let document = OnceCell::new();
        for fallback in [false, true] {
            // Where an entry knows of memory that ran out, no fallback is heard (rank.rs): they cost the most.
            let told = |hit: &Hit| entries.get(hit.entry).is_some_and(|entry| entry.oom == Oom::Yes);
            if fallback && hits.iter().any(told) {
                break;
            }
            for (index, (entry, lines)) in entries.iter().zip(&by_entry).enumerate() {
                if entry.fallback == fallback {
                    let found = both_ends(lines).filter_map(|line| decisive(entry, log, *line));
                    let found = found.filter(|_| entry.when.in_source || !*document.get_or_init(|| is_document(log)));
                    hits.extend(found.map(|found| Hit { entry: index, ..found }));
                }
            }
        }
        hits.into_iter().collect()
    }

    /// Every line that holds a literal as it stands.
    fn plain_candidates(&self, log: &PastedLog) -> BTreeSet<(usize, usize)> {
        let mut found = BTreeSet::new();
        let Some(searcher) = self.words.fast() else { return found };
        // Whether a line holds anything is soon found out; what it holds is asked of few lines.
        let mut from = 0;
        while let Some(hit) = searcher.find(Input::new(log.text()).range(from..)) {
            let line = log.line_at(hit.start());
            let Some(range) = log.line_range(line) else { break };
            for hit in searcher.find_overlapping_iter(Input::new(log.text()).range(range.clone())) {
                if let Some(owner) = self.owners.get(hit.pattern().as_usize()) {
                    found.insert((*owner, line));
                }
            }
            from = range.end.max(hit.end());
        }
        found
    }

    /// Literals in the text (its end, where it is large) without its blanks and box borders, so that a wrap breaks none;
    /// within a line only those that it holds as they stand.
    fn squeezed_candidates(&self, log: &PastedLog) -> BTreeSet<(usize, usize)> {
        let squeeze = |literal: &String| literal.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        let searcher = self.squeezed.get_or_init(|| searcher(self.words.literals.iter().map(squeeze), None));
        let mut found = BTreeSet::new();
        let Some(searcher) = searcher else { return found };
        let (text, starts) = squeezed(log);
        let line_of = |offset: usize| {
            let index = starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
            starts.get(index).map(|(_, line)| *line)
        };
        for hit in searcher.find_overlapping_iter(&text) {
            let pattern = hit.pattern().as_usize();
            let (Some(owner), Some(literal)) = (self.owners.get(pattern), self.words.literals.get(pattern)) else {
                continue;
            };
            let (Some(first), last) = (line_of(hit.start()), line_of(hit.end() - 1)) else { continue };
            let as_it_stands =
                || log.line(first).is_some_and(|line| holds_ignoring_case(line.as_bytes(), literal.as_bytes()));
            if Some(first) != last || as_it_stands() {
                found.insert((*owner, first));
            }
        }
        found
    }
}

fn searcher(literals: impl Iterator<Item = String>, kind: Option<AhoCorasickKind>) -> Option<AhoCorasick> {
    AhoCorasickBuilder::new().ascii_case_insensitive(true).kind(kind).build(literals).ok()
}

/// The log's end without blanks and box borders, and where each line begins in it.
fn squeezed(log: &PastedLog) -> (String, Vec<(usize, usize)>) {
    let from = log.text().len().saturating_sub(SQUEEZED_TAIL);
    let mut text = String::with_capacity(log.text().len() - from);
    let mut starts = Vec::new();
    for number in log.line_at(from)..=log.line_count() {
        starts.push((text.len(), number));
        let line = log.line(number).unwrap_or_default();
        if line.is_ascii() {
            line.split_ascii_whitespace().for_each(|word| text.push_str(word));
        } else {
            text.extend(line.chars().filter(|c| !c.is_whitespace() && !matches!(c, '│' | '┃' | '║')));
        }
    }
    (text, starts)
}

fn both_ends(lines: &[usize]) -> impl Iterator<Item = &usize> {
    let half = CANDIDATES / 2;
    let tail = lines.len().saturating_sub(half).max(half.min(lines.len()));
    lines.iter().take(half).chain(lines.iter().skip(tail))
}

/// Whether the line, alone or with wraps undone, is the entry's; then where the message begins.
fn decisive(entry: &Entry, log: &PastedLog, line: usize) -> Option<Hit> {
    let when = &entry.when;
    let alone = log.single(line);
    let found = message(when, &alone, log, line..line + 1).or_else(|| {
        let joined = log.joined(line.saturating_sub(LEAD).max(1), line + entry.reach.1.max(LEAD));
        message(when, &joined, log, line.saturating_sub(LEAD)..line + 1)
    })?;
    surroundings_fit(when, log, found.line).then_some(found)
}

/// Where the message begins, if `any`, `all` and `none` say it is one and it begins on one of `lines`.
fn message(when: &When, view: &View, log: &PastedLog, lines: Range<usize>) -> Option<Hit> {
    let text = view.text();
    if !when.all.iter().all(|pattern| pattern.is_match(text)) {
        return None;
    }
    let patterns = if when.any.is_empty() { &when.all } else { &when.any };
    let found = patterns.iter().enumerate().filter_map(|(wording, pattern)| {
        let (line, column) = first_own(pattern, when, view, log, &lines)?;
        Some(Hit { entry: 0, line, column, wording })
    });
    let first = found.min()?;
    let own = text.get(view.start_of(first.line).unwrap_or(0)..).unwrap_or(text);
    if when.none.iter().any(|pattern| pattern.is_match(own)) {
        return None;
    }
    Some(first)
}

/// The first match that begins on one of `lines` and is no quotation.
fn first_own(
    pattern: &Pattern,
    when: &When,
    view: &View,
    log: &PastedLog,
    lines: &Range<usize>,
) -> Option<(usize, usize)> {
    pattern.find_map(view.text(), |start| {
        let (line, column) = view.locate(start)?;
        let quoted =
            || log.line(line).is_none_or(|text| is_quoted(text, column)) || stands_in_source(log, line, column);
        (lines.contains(&line) && (when.in_source || !quoted())).then_some((line, column))
    })
}

fn surroundings_fit(when: &When, log: &PastedLog, line: usize) -> bool {
    let (before, after) = when.reach;
    let near = |patterns: &[Pattern]| {
        let last = (line + after).min(log.line_count());
        let range = line.saturating_sub(before).max(1)..=last;
        range.clone().any(|number| {
            let view = log.single(number);
            patterns.iter().any(|pattern| pattern.is_match(view.text()))
        })
    };
    (when.near.is_empty() || near(&when.near))
        && (when.not_near.is_empty() || !near(&when.not_near))
        && !when.nowhere.iter().any(|pattern| ends(log).iter().any(|text| pattern.is_match(text)))
}

/// The log's first and last MiB, as one piece where it is no larger.
fn ends(log: &PastedLog) -> Vec<&str> {
    const END: usize = 1 << 20;
    let text = log.text();
    if text.len() <= 2 * END {
        return vec![text];
    }
    vec![
        text.get(..text.floor_char_boundary(END)).unwrap_or_default(),
        text.get(text.ceil_char_boundary(text.len() - END)..).unwrap_or_default(),
    ]
}
