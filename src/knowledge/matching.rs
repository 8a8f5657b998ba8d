//! Owns finding messages: one pass over the log for the literals of all entries, then the patterns of the entries found
//! on the lines found, once on the line alone and once with wraps undone. A very long line is searched in tiles, each at
//! most once per entry, so the time is linear in the size of the log.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, Input};

use super::diagnosis::Oom;
use super::document::is_document;
use super::entry::{Entry, When};
use super::literals::{Found, Literals};
use super::pattern::Pattern;
use super::quotation::Quotations;
use crate::effort;
use crate::log::needle::holds_ignoring_case;
use crate::log::{PastedLog, View};

/// Logs up to this size are searched with all blanks left out, for literals broken by a wrap; of larger ones the end
/// is, and all of them as they stand.
const SQUEEZED_TAIL: usize = 4 << 20;
/// How many candidates of one entry are examined: of more, the first half and the last half of this number.
const CANDIDATES: usize = 512;
const HALF: usize = CANDIDATES / 2;
/// How much text is searched for one entry from either end of the log.
const TEXT: usize = 256 << 10;
/// After this many quoted matches of one pattern in one tile, the remaining ones are assumed to be quoted too.
const QUOTED: usize = 32;
/// How many lines before a literal a message may begin.
const LEAD: usize = 2;

/// A line that is an entry's decisive line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    /// Index into the entries.
    pub entry: usize,
    pub line: usize,
    /// Where in the line the message begins.
    pub column: usize,
    /// Which of the entry's patterns matched: one failure often prints several lines, each with its own wording.
    pub wording: usize,
}

impl Hit {
    /// Whether both are the same wording of the same entry.
    pub(super) fn is_told_like(&self, other: &Hit) -> bool {
        self.entry == other.entry && self.wording == other.wording
    }
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
        self.fast.get_or_init(|| quick_to_run(&self.literals)).as_ref()
    }
}

/// A searcher that takes long to build and goes over large logs at once.
fn quick_to_run(literals: &[String]) -> Option<AhoCorasick> {
    let kind = Some(AhoCorasickKind::DFA);
    AhoCorasickBuilder::new().ascii_case_insensitive(true).kind(kind).build(literals).ok()
}

/// The first pass over all literals; built when first used.
#[derive(Debug)]
pub(super) struct Finder {
    owners: Vec<usize>,
    words: Arc<Words>,
    squeezed: OnceLock<Literals>,
}

impl Finder {
    /// A finder for these entries; an empty literal is refused.
    pub(super) fn new(entries: &[Entry]) -> Result<Finder, String> {
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
    pub(super) fn words(&self) -> Arc<Words> {
        Arc::clone(&self.words)
    }

    /// All hits, ordered by entry and line.
    pub(super) fn find(&self, entries: &[Entry], log: &PastedLog) -> Vec<Hit> {
        let mut candidates = vec![Candidates::default(); entries.len()];
        if log.text().len() > SQUEEZED_TAIL {
            self.plain_candidates(log, &mut candidates);
        }
        self.squeezed_candidates(log, &mut candidates);
        let mut search = Search::new(log, entries.len());
        let document = OnceCell::new();
        for fallback in [false, true] {
            // If an entry has found an out-of-memory failure, fallbacks do not count (rank.rs). They cost the most time.
            let mut found = search.hits.iter().filter_map(|hit| entries.get(hit.entry));
            if fallback && found.any(|entry| entry.oom == Oom::Yes) {
                break;
            }
            // Ordered by place, so that entries at the same place share its views.
            let mut asked: BTreeSet<(Place, usize)> = BTreeSet::new();
            for (index, (entry, candidates)) in entries.iter().zip(&candidates).enumerate() {
                if entry.fallback == fallback {
                    asked.extend(candidates.places(log).map(|place| (place, index)));
                }
            }
            for (place, index) in asked {
                let Some(entry) = entries.get(index) else { continue };
                if let Some(found) = search.decisive(entry, index, place)
                    && (entry.when.in_source || !*document.get_or_init(|| is_document(log)))
                {
                    search.hits.insert(found);
                }
            }
        }
        search.hits.into_iter().collect()
    }

    /// Every place with a literal, blanks and all.
    fn plain_candidates(&self, log: &PastedLog, candidates: &mut [Candidates]) {
        let Some(searcher) = self.words.fast() else { return };
        effort::count(log.text().len());
        // Most lines have no literal at all, so finding which ones a line has is left for the few that do.
        let mut from = 0;
        while let Some(hit) = searcher.find(Input::new(log.text()).range(from..)) {
            let Some(range) = log.line_range(log.line_at(hit.start())) else { break };
            for hit in searcher.find_overlapping_iter(Input::new(log.text()).range(range.clone())) {
                let owner = self.owners.get(hit.pattern().as_usize());
                if let Some(candidates) = owner.and_then(|owner| candidates.get_mut(*owner)) {
                    let (line, tile) = log.place_at(hit.start());
                    candidates.insert(Place { line, tile });
                }
            }
            from = range.end.max(hit.end());
        }
    }

    /// Literals in the text (its end, where it is large) without its blanks and box borders, so that a wrap breaks none;
    /// within a line only those that it holds as they stand.
    fn squeezed_candidates(&self, log: &PastedLog, candidates: &mut [Candidates]) {
        let searcher = self.squeezed.get_or_init(|| {
            let literals = self.words.literals.iter();
            Literals::new(literals.map(|literal| literal.split_whitespace().collect::<String>().to_ascii_lowercase()))
        });
        let (mut text, mut places) = squeezed(log);
        text.make_ascii_lowercase();
        effort::count(text.len());
        let mut found: Vec<Vec<Squeezed>> = vec![Vec::new(); self.words.literals.len()];
        searcher.find(text.as_bytes(), |Found { word, start, end }| {
            let (Some(first), Some(last)) = (places.of(start), places.of(end - 1)) else { return };
            let one = Squeezed { place: first, is_wrapped: first.line != last.line };
            if let Some(known) = found.get_mut(word).filter(|known| known.last() != Some(&one)) {
                known.push(one);
            }
        });
        for ((found, literal), owner) in found.iter().zip(&self.words.literals).zip(&self.owners) {
            let Some(candidates) = candidates.get_mut(*owner) else { continue };
            let from_start = found.iter().filter(|one| one.stands(log, literal)).take(HALF);
            let from_end = found.iter().rev().filter(|one| one.stands(log, literal)).take(HALF);
            from_start.chain(from_end).for_each(|one| candidates.insert(one.place));
        }
    }
}

/// Where the squeezed text has a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Squeezed {
    place: Place,
    /// Whether it begins on one line and ends on another.
    is_wrapped: bool,
}

impl Squeezed {
    /// Whether the log has the literal there: a wrap may break it, but no blank on the line.
    fn stands(self, log: &PastedLog, literal: &str) -> bool {
        self.is_wrapped || self.place.holds(log, literal)
    }
}

/// A line, or the tile of a very long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: usize,
    tile: usize,
}

impl Place {
    fn holds(self, log: &PastedLog, literal: &str) -> bool {
        log.tile(self.line, self.tile).parts().any(|(_, text)| {
            effort::count(text.len());
            holds_ignoring_case(text.as_bytes(), literal.as_bytes())
        })
    }
}

/// Where each line, or tile of one, begins in the squeezed text.
#[derive(Default)]
struct Places {
    starts: Vec<(usize, Place)>,
    /// The place that was asked for last, with the bytes that it spans: the next one is often the same.
    last: Option<(Range<usize>, Place)>,
}

impl Places {
    /// The place that this offset is in.
    fn of(&mut self, offset: usize) -> Option<Place> {
        if let Some((bytes, place)) = &self.last
            && bytes.contains(&offset)
        {
            return Some(*place);
        }
        let behind = self.starts.partition_point(|(start, _)| *start <= offset);
        let (start, place) = self.starts.get(behind.saturating_sub(1))?;
        let end = self.starts.get(behind).map_or(usize::MAX, |(end, _)| *end);
        self.last = Some((*start..end, *place));
        Some(*place)
    }
}

/// The first and last places with a literal of one entry.
#[derive(Clone, Debug, Default)]
struct Candidates {
    first: BTreeSet<Place>,
    last: BTreeSet<Place>,
}

impl Candidates {
    fn insert(&mut self, place: Place) {
        if self.first.len() < HALF || self.first.last().is_some_and(|last| place <= *last) {
            self.first.insert(place);
            let surplus = if self.first.len() > HALF { self.first.pop_last() } else { None };
            self.last.extend(surplus);
        } else {
            self.last.insert(place);
        }
        if self.last.len() > HALF {
            self.last.pop_first();
        }
    }

    /// The places to search, limited to [`TEXT`] bytes from either end.
    fn places(&self, log: &PastedLog) -> impl Iterator<Item = Place> {
        let all: Vec<Place> = self.first.iter().chain(&self.last).copied().collect();
        let from_start = fitting(all.iter(), log);
        let from_end = fitting(all.iter().rev(), log);
        let middle = from_start..(all.len() - from_end).max(from_start);
        all.into_iter().enumerate().filter(move |(at, _)| !middle.contains(at)).map(|(_, place)| place)
    }
}

/// How many of these places fit into [`TEXT`] bytes.
fn fitting<'p>(places: impl Iterator<Item = &'p Place>, log: &PastedLog) -> usize {
    let lengths = places.map(|place| log.tile_range(place.line, place.tile).map_or(0, |range| range.len()));
    let ends = lengths.scan(0, |text, length| {
        let before = *text;
        *text += length;
        Some(before)
    });
    ends.take_while(|before| *before < TEXT).count()
}

/// The log's end without blanks and box borders, and where each line, or tile of one, begins in it.
fn squeezed(log: &PastedLog) -> (String, Places) {
    let from = log.text().len().saturating_sub(SQUEEZED_TAIL);
    let mut text = String::with_capacity(log.text().len() - from);
    let mut places = Places::default();
    for line in log.line_at(from)..=log.line_count() {
        for (tile, part) in log.tile_texts(line).enumerate() {
            places.starts.push((text.len(), Place { line, tile }));
            if part.is_ascii() {
                part.split_ascii_whitespace().for_each(|word| text.push_str(word));
            } else {
                text.extend(part.chars().filter(|c| !c.is_whitespace() && !matches!(c, '│' | '┃' | '║')));
            }
        }
    }
    (text, places)
}

/// The search of one log and its caches.
struct Search<'l> {
    log: &'l PastedLog,
    quotations: Quotations<'l>,
    hits: BTreeSet<Hit>,
    about: Vec<About>,
    /// The current place, its view alone, and its views joined with other lines by the last line.
    place: Option<Place>,
    alone: View,
    joined: BTreeMap<usize, View>,
}

/// Cached conditions of one entry: by line whether `near` and `not_near` match, and whether `nowhere` does.
#[derive(Clone, Default)]
struct About {
    near: BTreeMap<usize, bool>,
    not_near: BTreeMap<usize, bool>,
    nowhere: Option<bool>,
}

impl<'l> Search<'l> {
    fn new(log: &'l PastedLog, entries: usize) -> Search<'l> {
        Search {
            log,
            quotations: Quotations::new(log),
            hits: BTreeSet::new(),
            about: vec![About::default(); entries],
            place: None,
            alone: View::default(),
            joined: BTreeMap::new(),
        }
    }

    /// Whether the place, alone or with wraps undone, is the entry's; then where the message begins.
    fn decisive(&mut self, entry: &Entry, index: usize, place: Place) -> Option<Hit> {
        let Place { line, tile } = place;
        // Only the first message of a line counts.
        let known = self.hits.range(Hit { entry: index, line, column: 0, wording: 0 }..).next();
        if tile > 0 && known.is_some_and(|hit| hit.entry == index && hit.line == line) {
            return None;
        }
        let excerpt = self.log.tile(line, tile);
        if self.place != Some(place) {
            self.place = Some(place);
            self.alone = View::single(line, &excerpt);
            self.joined.clear();
        }
        let last = line + entry.reach.1.max(LEAD);
        let found = message(&entry.when, &self.alone, &mut self.quotations, line..line + 1).or_else(|| {
            let (log, from) = (self.log, line.saturating_sub(LEAD).max(1));
            let joined = self.joined.entry(last).or_insert_with(|| log.joined(from, last, line, excerpt));
            message(&entry.when, joined, &mut self.quotations, line.saturating_sub(LEAD)..line + 1)
        })?;
        let about = self.about.get_mut(index)?;
        surroundings_fit(&entry.when, self.log, &found, about).then_some(Hit { entry: index, ..found })
    }
}

/// Where the message begins, if `any`, `all` and `none` say it is one and it begins on one of `lines`.
fn message(when: &When, view: &View, quotations: &mut Quotations, lines: Range<usize>) -> Option<Hit> {
    let text = view.text();
    if !when.all.iter().all(|pattern| pattern.is_match(text)) {
        return None;
    }
    let patterns = if when.any.is_empty() { &when.all } else { &when.any };
    let found = patterns.iter().enumerate().filter_map(|(wording, pattern)| {
        let (line, column) = first_own(pattern, when, view, quotations, &lines)?;
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
    quotations: &mut Quotations,
    lines: &Range<usize>,
) -> Option<(usize, usize)> {
    let mut quoted = 0;
    let own = pattern.find_map(view.text(), |start| {
        let place = view.locate(start).filter(|(line, _)| lines.contains(line));
        match place {
            Some((line, column)) if !when.in_source && quotations.holds(line, column) => {
                quoted += 1;
                (quoted == QUOTED).then_some(None)
            }
            Some(place) => Some(Some(place)),
            None => None,
        }
    });
    own.flatten()
}

fn surroundings_fit(when: &When, log: &PastedLog, found: &Hit, about: &mut About) -> bool {
    let (before, after) = when.reach;
    let lines = found.line.saturating_sub(before).max(1)..=(found.line + after).min(log.line_count());
    (when.near.is_empty() || is_near(&when.near, log, found, lines.clone(), &mut about.near))
        && (when.not_near.is_empty() || !is_near(&when.not_near, log, found, lines, &mut about.not_near))
        && !*about
            .nowhere
            .get_or_insert_with(|| when.nowhere.iter().any(|one| ends(log).iter().any(|text| one.is_match(text))))
}

/// Whether one of these patterns matches one of these lines; answers are kept by line but for the hit's own.
fn is_near(
    patterns: &[Pattern],
    log: &PastedLog,
    found: &Hit,
    mut lines: RangeInclusive<usize>,
    known: &mut BTreeMap<usize, bool>,
) -> bool {
    lines.any(|number| {
        if number == found.line {
            return matches_any(patterns, &View::single(number, &log.around(number, found.column)));
        }
        *known.entry(number).or_insert_with(|| matches_any(patterns, &log.single(number)))
    })
}

fn matches_any(patterns: &[Pattern], view: &View) -> bool {
    patterns.iter().any(|pattern| pattern.is_match(view.text()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(candidates: &Candidates, log: &PastedLog) -> Vec<usize> {
        candidates.places(log).map(|place| place.line).collect()
    }

    #[test]
    fn the_first_and_last_candidates_are_searched_once_each() {
        let log = PastedLog::new("x\n".repeat(5_000));
        let mut candidates = Candidates::default();
        for line in [3, 2, 3].into_iter().chain(2..=4_000).chain([3_999, 4_000, 3_998]) {
            candidates.insert(Place { line, tile: 0 });
        }
        let expected: Vec<usize> = (2..2 + CANDIDATES / 2).chain(4_001 - CANDIDATES / 2..=4_000).collect();
        assert_eq!(lines_of(&candidates, &log), expected);
    }

    #[test]
    fn candidates_are_limited_by_their_text() {
        let log = PastedLog::new(format!("{}\n", "x".repeat(8 << 10)).repeat(100));
        let mut candidates = Candidates::default();
        (1..=100).for_each(|line| candidates.insert(Place { line, tile: 0 }));
        let half = TEXT / (8 << 10);
        let expected: Vec<usize> = (1..=half).chain(101 - half..=100).collect();
        assert_eq!(lines_of(&candidates, &log), expected);
    }

    #[test]
    fn a_literal_across_two_tiles_is_found() {
        let base = crate::knowledge::KnowledgeBase::built_in().unwrap();
        let entry = base.entries.iter().position(|entry| entry.id == "pytorch/cuda-out-of-memory").unwrap();
        for at in (16_000..16_800).step_by(7) {
            let mut line = "x".repeat(60_000);
            line.replace_range(at..at + 18, "CUDA out of memory");
            let log = PastedLog::new(line);
            let mut candidates = vec![Candidates::default(); base.entries.len()];
            base.finder.squeezed_candidates(&log, &mut candidates);
            let found: Vec<Place> = candidates[entry].places(&log).collect();
            assert_eq!(found, [Place { line: 1, tile: log.place_at(at).1 }], "{at}");
        }
    }
}
