//! Owns reading figures: an entry's patterns on the decisive message and the lines it allows around it.

use std::ops::{Range, RangeInclusive};

use regex::bytes::Captures;

use super::diagnosis::Figure;
use super::entry::Entry;
use super::facts::{Facts, NamedProcess};
use super::matching::Hit;
use super::pattern::{Capture, Form, Pattern, captured, group};
use crate::log::{PastedLog, View};
use crate::units::{Bytes, UnitBase};

/// What an exit code can be, in any system's way to write it.
const CODES: RangeInclusive<i64> = i32::MIN as i64..=u32::MAX as i64;

/// How many lines behind a failure may say with which code the program ended.
const BEHIND: usize = 30;

/// What a message's figures are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub facts: Facts,
    pub places: Vec<Figure>,
    /// The program's name, where the message itself says it.
    pub program: Option<String>,
    /// Whether a size was printed that no machine could have.
    pub absurd: bool,
}

/// Reads the figures of the message at `hits[index]`; a neighbouring message of the same entry keeps its own.
pub(crate) fn read(entry: &Entry, log: &PastedLog, hits: &[Hit], index: usize) -> Figures {
    let mut figures = Figures::default();
    let Some(hit) = hits.get(index) else { return figures };
    let (earlier, later) = hits.split_at_checked(index).unwrap_or_default();
    let previous = earlier.iter().rev().find(|other| other.is_told_like(hit));
    let next = later.iter().skip(1).find(|other| other.is_told_like(hit));
    let (before, after) = entry.reach;
    let own = log.around(hit.line, hit.column);
    let forward = log.joined(hit.line, log.end_of_wrap(hit.line, hit.line + after), hit.line, own);
    let region = own_region(&forward, hit, previous, next);
    let first = previous.map_or(1, |previous| previous.line + 1).max(hit.line.saturating_sub(before)).max(1);
    // Nearest first; then all of them with wraps undone.
    let mut earlier: Vec<View> = (first..hit.line).rev().map(|number| log.single(number)).collect();
    if first < hit.line {
        earlier.push(log.joined(first, hit.line, hit.line, own));
    }
    for pattern in &entry.figures {
        if figures.take(pattern, &forward, region.clone(), entry.units) {
            continue;
        }
        for view in &earlier {
            if figures.take(pattern, view, 0..view.text().len(), entry.units) {
                break;
            }
        }
    }
    figures.absurd |= figures.facts.requested_bytes.is_some_and(is_absurd);
    figures
}

/// The code with which the program ended, as the line of the failure or one of those behind it prints.
pub(crate) fn exit_code(log: &PastedLog, line: usize) -> Option<i64> {
    let last = line.saturating_add(BEHIND).min(log.line_count());
    (line..=last).find_map(|number| {
        let view = match number == line {
            true => log.joined(line, log.end_of_wrap(line, line), line, log.around(line, log.length(line))),
            false => log.single(number),
        };
        let code = captured("ended_with", view.text(), "exit_code")?;
        code.parse().ok().filter(|code| *code != 0 && CODES.contains(code))
    })
}

/// 0 bytes, or more than 16 TiB: an overflow or a bug in the caller, never a small machine.
fn is_absurd(bytes: Bytes) -> bool {
    !(Bytes(1)..=Bytes::gib(16 << 10)).contains(&bytes)
}

/// "0.0 GB" is some megabytes that a program rounded away: a size, but none that is known.
fn is_rounded_to_zero(text: &str) -> bool {
    let (number, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    number.trim() == "0" && !digits.is_empty() && digits.chars().all(|digit| digit == '0')
}

/// The part of the view that belongs to this message and to no other of the same entry.
fn own_region(view: &View, hit: &Hit, previous: Option<&Hit>, next: Option<&Hit>) -> Range<usize> {
    let line_start = view.start_of(hit.line).unwrap_or(0);
    let shares_line = previous.is_some_and(|previous| previous.line == hit.line);
    let start = if shares_line { view.offset_of(hit.line, hit.column).unwrap_or(line_start) } else { line_start };
    let end = next
        .and_then(|next| view.offset_of(next.line, next.column))
        .filter(|end| *end > start)
        .unwrap_or(view.text().len());
    // What stands on the next message's line before it belongs to that line.
    let end = match next {
        Some(next) if next.line != hit.line => view.start_of(next.line).unwrap_or(end).min(end),
        _ => end,
    };
    start..end
}

impl Figures {
    /// Adds what another message of the same failure prints and this one does not.
    pub(crate) fn complete_from(&mut self, other: Figures) {
        self.facts.complete_from(&other.facts);
        self.places.extend(other.places);
        self.program = self.program.take().or(other.program);
        self.absurd |= other.absurd;
    }

    /// Adds what the pattern captures in that part of the view. Returns whether it matched.
    fn take(&mut self, pattern: &Pattern, view: &View, region: Range<usize>, units: UnitBase) -> bool {
        let Some(text) = view.text().get(region.clone()) else { return false };
        let pairs = pattern.source().contains("{other_");
        let mut matched = false;
        for captures in pattern.captures(text) {
            matched = true;
            if pairs {
                self.take_process(&captures, units);
            }
            for name in pattern.names() {
                self.take_one(name, &captures, view, region.start, units);
            }
            if !pairs {
                break;
            }
        }
        matched
    }

    fn take_process(&mut self, captures: &Captures<'_>, units: UnitBase) {
        let pid = group(captures, "other_pid").and_then(|pid| pid.parse().ok());
        let bytes = group(captures, "other_bytes").and_then(|bytes| Bytes::parse(&bytes, units));
        if let (Some(pid), Some(bytes)) = (pid, bytes) {
            let process = NamedProcess { pid, bytes };
            if !self.facts.other_processes.contains(&process) {
                self.facts.other_processes.push(process);
            }
        }
    }

    fn take_one(&mut self, name: &str, captures: &Captures<'_>, view: &View, offset: usize, units: UnitBase) {
        let (Some(capture), Some(found)) = (Capture::of(name), captures.name(name)) else { return };
        let Some(text) = group(captures, name) else { return };
        if capture.key == "requested_bytes" && is_rounded_to_zero(&text) {
            return;
        }
        let set = match capture.form {
            Form::Sized => self.set_size(capture.key, Bytes::parse(&text, units)),
            Form::Times(multiplier) => self.set_size(capture.key, Bytes::parse_number(&text, multiplier)),
            Form::Count => text.replace(',', "").parse().is_ok_and(|number: i64| self.facts.set(capture.key, number)),
            Form::Word if capture.key == "program" => {
                self.program.get_or_insert_with(|| text.to_ascii_lowercase());
                false
            }
            Form::Word => self.facts.set(capture.key, text),
        };
        let pair = matches!(capture.key, "other_pid" | "other_bytes");
        if let (true, Some((line, span))) = (set || pair, view.span(offset + found.start()..offset + found.end())) {
            self.places.push(Figure { key: capture.key, row: line, span });
        }
    }

    /// Sets a size; one that does not fit into 64 bits is more than any machine has.
    fn set_size(&mut self, key: &str, bytes: Option<Bytes>) -> bool {
        match bytes {
            Some(bytes) => self.facts.set(key, bytes.0),
            None => {
                self.absurd |= key == "requested_bytes";
                false
            }
        }
    }
}
