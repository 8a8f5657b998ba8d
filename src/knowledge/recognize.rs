//! Owns recognizing what a person ran and in which phase it was, from tables (`knowledge/programs.ron`,
//! `knowledge/phases.ron`) of paths, banners, module names and traceback frames.

use std::collections::BTreeMap;
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

/// A program that shows in a log.
#[derive(Clone, Debug)]
pub(crate) struct Recognized {
    pub program: Program,
    /// What people call it, where the table's own name is another.
    pub called: Option<String>,
}

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
            Literals::new(literals.map(|literal| with_slashes(literal)))
        })
    }

    /// The most specific program that shows.
    pub(crate) fn recognize(&self, log: &PastedLog, line: usize) -> Option<Recognized> {
        let searcher = self.searcher();
        // What shows each of them: the place and the literal.
        let mut seen = BTreeMap::new();
        // The last place where each program's patterns failed: one check per tile is enough.
        let mut missed = BTreeMap::new();
        for window in windows(log, line) {
            let text = with_slashes(log.text().get(window.clone()).unwrap_or_default());
            effort::count(text.len());
            searcher.find(text.as_bytes(), |Found { word, start, end }| {
                let Some(owner) = self.owners.get(word).filter(|owner| !seen.contains_key(*owner)) else { return };
                let place = log.place_at(window.start + start);
                if missed.get(owner) == Some(&place) {
                    return;
                }
                if self.fits(*owner, log, place) {
                    seen.insert(*owner, (place, text.get(start..end).unwrap_or_default().to_owned()));
                } else {
                    missed.insert(*owner, place);
                }
            });
        }
        let (index, (place, literal)) = seen.into_iter().next()?;
        let rule = self.rules.get(index)?;
        let called = if rule.is_group { shown_name(rule, log, place, &literal) } else { rule.called.clone() };
        Some(Recognized { program: rule.name, called })
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

/// The name in the text that shows a rule of several programs: `video2x` in `>video2x -i`, `darts` in `packages/darts/`.
fn shown_name(rule: &ProgramRule, log: &PastedLog, (line, tile): (usize, usize), literal: &str) -> Option<String> {
    let tile = log.tile(line, tile);
    let matched = tile.parts().find_map(|(_, text)| {
        let found = rule.patterns.iter().find_map(|pattern| pattern.captures(text).next())?;
        Some(String::from_utf8_lossy(found.get(0)?.as_bytes()).into_owned())
    });
    let text = with_slashes(matched.as_deref().unwrap_or(literal));
    let mut parts = text.split('/').map(|part| part.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    let name = parts.find(|part| !part.is_empty() && *part != "packages")?;
    Some(name.replace([' ', '_'], "-"))
}

/// Lower case, and paths as they are outside of Windows.
fn with_slashes(text: &str) -> String {
    text.to_ascii_lowercase().replace('\\', "/")
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
