//! Owns recognizing what a person ran and in which phase it was, from tables (`knowledge/programs.ron`,
//! `knowledge/phases.ron`) of paths, banners, module names and traceback frames.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use serde::Deserialize;

use super::diagnosis::{Phase, Stage};
use super::literals::{Found, Literals};
use super::pattern::Pattern;
use super::program::{Program, ProgramRule};
use crate::effort;
use crate::log::{PastedLog, View};

/// How much of a large log is searched: its beginning, its end and what surrounds the decisive line.
const WINDOW: usize = 128 << 10;

/// How many lines behind the decisive one are read for what failed with it.
const CONSEQUENCES: usize = 40;

/// How many lines around the decisive one may show whose message it is.
const BESIDE: usize = 2;

/// Recognizes programs, with one pass for all literals.
#[derive(Debug)]
pub(crate) struct ProgramTable {
    rules: Vec<ProgramRule>,
    owners: Vec<usize>,
    /// Built at the first use, since most logs are not about memory and need none.
    searcher: OnceLock<Literals>,
}

impl ProgramTable {
    pub(crate) fn new(rules: Vec<ProgramRule>) -> ProgramTable {
        let owners = rules.iter().enumerate().flat_map(|(index, rule)| rule.literals.iter().map(move |_| index));
        ProgramTable { owners: owners.collect(), searcher: OnceLock::new(), rules }
    }

    fn searcher(&self) -> &Literals {
        self.searcher.get_or_init(|| {
            let literals = self.rules.iter().flat_map(|rule| &rule.literals);
            Literals::new(literals.map(|literal| literal.to_ascii_lowercase()))
        })
    }

    /// The most specific program that shows.
    pub(crate) fn recognize(&self, log: &PastedLog, line: usize) -> Option<Program> {
        let searcher = self.searcher();
        let mut seen = BTreeSet::new();
        // The last place where each program's patterns failed: one check per tile is enough.
        let mut missed = BTreeMap::new();
        for window in windows(log, line) {
            let text = log.text().get(window.clone()).unwrap_or_default().to_ascii_lowercase();
            effort::count(text.len());
            for Found { word, start, .. } in searcher.find(&text) {
                let Some(owner) = self.owners.get(word).filter(|owner| !seen.contains(*owner)) else { continue };
                let place = log.place_at(window.start + start);
                if missed.get(owner) == Some(&place) {
                    continue;
                }
                if self.fits(*owner, log, place) {
                    seen.insert(*owner);
                } else {
                    missed.insert(*owner, place);
                }
            }
        }
        seen.first().and_then(|index| Some(self.rules.get(*index)?.name))
    }

    /// The program whose own code prints the message on this line, as the line shows, or else the lines beside it.
    pub(crate) fn printer(&self, log: &PastedLog, line: usize, column: usize) -> Option<Program> {
        let joined = |from, to| log.joined(from, log.end_of_wrap(line, to), line, log.around(line, column));
        let own = View::single(line, &log.around(line, column));
        let views = [own, joined(line, line), joined(line.saturating_sub(BESIDE).max(1), line + BESIDE)];
        views.iter().find_map(|view| {
            let prints = |rule: &&ProgramRule| rule.prints.iter().any(|one| one.is_match(view.text()));
            self.rules.iter().find(prints).map(|rule| rule.name)
        })
    }

    fn fits(&self, rule: usize, log: &PastedLog, (line, tile): (usize, usize)) -> bool {
        let Some(rule) = self.rules.get(rule) else { return false };
        let tile = log.tile(line, tile);
        rule.patterns.is_empty() || tile.parts().any(|(_, text)| rule.patterns.iter().any(|one| one.is_match(text)))
    }
}

fn windows(log: &PastedLog, line: usize) -> Vec<std::ops::Range<usize>> {
    let text = log.text();
    if text.len() <= 3 * WINDOW {
        return std::iter::once(0..text.len()).collect();
    }
    let middle = log.line_range(line).map_or(0, |range| range.start);
    let around = text.floor_char_boundary(middle.saturating_sub(WINDOW))
        ..text.ceil_char_boundary((middle + WINDOW).min(text.len()));
    vec![0..text.ceil_char_boundary(WINDOW), around, text.floor_char_boundary(text.len() - WINDOW)..text.len()]
}

/// The last frame of a traceback that follows the line at once, as ComfyUI prints it; else the line.
fn end_of_traceback(log: &PastedLog, line: usize) -> usize {
    if !log.line(line.saturating_add(1)).is_some_and(|below| below.starts_with("Traceback (most")) {
        return line;
    }
    let frames = (line.saturating_add(2)..).take_while(|near| log.line(*near).is_some_and(|row| row.starts_with(' ')));
    frames.take(200).last().unwrap_or(line)
}

/// A phase and what shows it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRule {
    pub phase: Phase,
    /// What was being done in it, where these frames tell.
    pub stage: Option<Stage>,
    /// Frames, banners and bars; any of them.
    pub patterns: Vec<Pattern>,
    /// Whether every other rule comes first: a plain `forward` shows little.
    #[serde(default)]
    pub weak: bool,
    /// Whether it also counts in the lines that follow: a consequence that names what failed, or what a process beside
    /// the failed one prints late.
    #[serde(default)]
    pub after: bool,
    /// One of them must stand near the line, too.
    #[serde(default)]
    pub beside: Vec<Pattern>,
    /// None of them may stand near it.
    #[serde(default)]
    pub lacks: Vec<Pattern>,
}

/// The phase by a strong sign that follows the line and names what failed, else by the nearest strong sign at or before
/// the line, else by the nearest weak one.
pub(crate) fn phase(rules: &[PhaseRule], log: &PastedLog, line: usize, column: usize) -> (Phase, Option<Stage>) {
    let near = Near { log, line, column };
    let following = near.following(rules);
    if let Some(rule) = following.filter(|rule| !rule.weak) {
        return (rule.phase, rule.stage);
    }
    let mut weak = None;
    for number in near.lines().rev() {
        for rule in rules.iter().filter(|rule| near.shows(rule, number)) {
            if !rule.weak {
                return (rule.phase, rule.stage);
            }
            weak = weak.or(Some((rule.phase, rule.stage)));
        }
    }
    weak.or(following.map(|rule| (rule.phase, rule.stage))).unwrap_or_default()
}

/// The lines at and before the decisive one, and the traceback that follows it.
struct Near<'l> {
    log: &'l PastedLog,
    line: usize,
    column: usize,
}

impl Near<'_> {
    fn lines(&self) -> RangeInclusive<usize> {
        let last = end_of_traceback(self.log, self.line);
        last.saturating_sub(150).max(1)..=last.min(self.log.line_count())
    }

    /// The first rule that a line behind the decisive one shows, of those that count there.
    fn following<'r>(&self, rules: &'r [PhaseRule]) -> Option<&'r PhaseRule> {
        let last = self.line.saturating_add(CONSEQUENCES).min(self.log.line_count());
        let mut behind = self.line.saturating_add(1)..=last;
        behind.find_map(|number| rules.iter().find(|rule| rule.after && self.shows(rule, number)))
    }

    fn shows(&self, rule: &PhaseRule, number: usize) -> bool {
        rule.patterns.iter().any(|pattern| self.is_on(pattern, number))
            && (rule.beside.is_empty() || rule.beside.iter().any(|pattern| self.is_near(pattern)))
            && !rule.lacks.iter().any(|pattern| self.is_near(pattern))
    }

    fn is_near(&self, pattern: &Pattern) -> bool {
        self.lines().any(|number| self.is_on(pattern, number))
    }

    fn is_on(&self, pattern: &Pattern, number: usize) -> bool {
        let column = if number == self.line { self.column } else { self.log.length(number) };
        self.log.around(number, column).parts().any(|(_, text)| pattern.is_match(text))
    }
}
