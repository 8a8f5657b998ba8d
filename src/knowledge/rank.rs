//! Owns the answer: which match leads (the cause before its consequences), what was recovered from, and the rest of a
//! diagnosis.

use std::cmp::Reverse;

use super::clock;
use super::diagnosis::{CauseKind, Diagnosis, Match, MemoryKind, Oom, Phase};
use super::entry::{Entry, Recovered, Tells};
use super::facts::Facts;
use super::figures::{self, Figures};
use super::matching::Hit;
use super::recognize::{PhaseTable, ProgramTable};
use super::run::{self, Run, RunRule};
use crate::log::{PastedLog, View};

/// A headline stands at most so many lines above the message that it tells of.
const HEADLINE: usize = 4;

/// The failures of more ranks than that are not read.
const RANKS: usize = 64;

/// What a log is recognized by beside the entries.
#[derive(Debug)]
pub(crate) struct Tables {
    pub programs: ProgramTable,
    pub phases: PhaseTable,
    pub runs: Vec<RunRule>,
}

/// An entry's best hit.
struct Finding<'a> {
    entry: &'a Entry,
    hit: Hit,
    oom: Oom,
    figures: Figures,
    remark: Option<String>,
}

/// Puts the hits in order and reads the leading one.
pub(crate) fn diagnosis(
    entries: &[Entry],
    tables: &Tables,
    log: &PastedLog,
    hits: Vec<Hit>,
    now: Option<&jiff::Zoned>,
) -> Diagnosis {
    let mut findings = findings(entries, log, &hits);
    withhold_fallbacks(&mut findings, entries, &hits);
    let masked: Vec<bool> = findings.iter().map(|one| findings.iter().any(|other| explains(other, one))).collect();
    let mut order: Vec<(bool, Finding)> = masked.into_iter().zip(findings.drain(..)).collect();
    order.sort_by_key(|(masked, finding)| {
        (*masked, class(finding.oom), Reverse(finding.entry.certainty), finding.hit.line, finding.hit.column)
    });
    let (unmasked, ordered): (Vec<bool>, Vec<Finding>) =
        order.into_iter().map(|(masked, finding)| (!masked, finding)).unzip();
    match ordered.first() {
        None => nothing(),
        Some(leading) => {
            let mut diagnosis = answer(tables, log, leading, &ordered, now);
            if diagnosis.run.rank.is_some() {
                diagnosis.run.ranks = other_ranks(log, leading, &hits);
            }
            diagnosis.run.also = unmasked
                .iter()
                .zip(&ordered)
                .filter(|(own, _)| **own)
                .find_map(|(_, finding)| other_memory(leading, finding));
            diagnosis
        }
    }
}

/// The figures of the same message on other cards, of those that name other processes.
fn other_ranks(log: &PastedLog, leading: &Finding, hits: &[Hit]) -> Vec<Facts> {
    let mut ranks: Vec<Facts> = Vec::new();
    let same = |(_, hit): &(usize, &Hit)| hit.entry == leading.hit.entry && hit.line > leading.hit.line;
    for (index, _) in hits.iter().enumerate().filter(same).take(RANKS) {
        let mut facts = figures::read(leading.entry, log, hits, index).facts;
        facts.discard_impossible();
        let known = std::iter::once(&leading.figures.facts).chain(&ranks).any(|one| one.device == facts.device);
        if !known && !facts.other_processes.is_empty() {
            ranks.push(facts);
        }
    }
    ranks
}

/// Leaves out what speaks only where nobody else does: beside an entry that knows of memory that ran out, or near one
/// that knows what the line is.
fn withhold_fallbacks(findings: &mut Vec<Finding>, entries: &[Entry], hits: &[Hit]) {
    const NEAR: usize = 10;
    let known = |hit: &&Hit| entries.get(hit.entry).is_some_and(|entry| !entry.fallback);
    let told = findings.iter().any(|one| !one.entry.fallback && one.entry.oom == Oom::Yes);
    findings.retain(|one| {
        let near = || hits.iter().filter(known).any(|hit| hit.line.abs_diff(one.hit.line) <= NEAR);
        !one.entry.fallback || !told && !near()
    });
}

/// A yes explains its consequences; what was only a maybe because it was recovered from explains none.
fn explains(cause: &Finding, consequence: &Finding) -> bool {
    let refined = cause.entry.refines.contains(&consequence.entry.id) && cause.hit.line == consequence.hit.line;
    refined
        || cause.entry.id != consequence.entry.id
            && cause.entry.masks(consequence.entry)
            && (cause.oom == cause.entry.oom || consequence.oom != Oom::Yes)
}

fn class(oom: Oom) -> u8 {
    match oom {
        Oom::Yes => 0,
        Oom::Maybe => 1,
        Oom::No => 2,
    }
}

/// One finding an entry: its first hit that was not recovered from, else its first.
fn findings<'a>(entries: &'a [Entry], log: &PastedLog, hits: &[Hit]) -> Vec<Finding<'a>> {
    let mut findings: Vec<Finding<'a>> = Vec::new();
    for (index, hit) in hits.iter().enumerate() {
        let Some(entry) = entries.get(hit.entry) else { continue };
        if let Some(last) = findings.last_mut().filter(|last| last.hit.entry == hit.entry && last.oom == entry.oom) {
            // A headline without figures above the message itself.
            if last.figures.facts == Facts::default() && hit.line.abs_diff(last.hit.line) <= HEADLINE {
                last.figures.complete_from(figures::read(entry, log, hits, index));
            }
            continue;
        }
        let finding = finding(entry, log, hits, index);
        match findings.last_mut() {
            Some(last) if last.hit.entry == hit.entry => {
                if finding.oom == entry.oom {
                    *last = finding;
                }
            }
            _ => findings.push(finding),
        }
    }
    findings
}

fn finding<'a>(entry: &'a Entry, log: &PastedLog, hits: &[Hit], index: usize) -> Finding<'a> {
    let figures = figures::read(entry, log, hits, index);
    let hit = hits.get(index).cloned().unwrap_or(Hit { entry: 0, line: 1, column: 0, wording: 0 });
    let mut oom = entry.oom;
    let line = if entry.remarks.is_empty() { String::new() } else { log.shown_around(hit.line, hit.column) };
    let own = entry.remarks.iter().find(|one| one.pattern.is_match(&line)).map(|one| one.remark.clone());
    let mut remark = own.or_else(|| entry.remark.clone());
    if oom == Oom::Yes {
        if let Some(recovered) = entry.recovered.iter().find(|recovered| applies(recovered, log, &hit)) {
            oom = Oom::Maybe;
            remark = Some(recovered.because.clone());
        } else if figures.absurd {
            oom = Oom::Maybe;
            remark = Some("The size it asked for is one that no machine could have: more likely a bug or a broken file than too little memory.".into());
        }
    }
    Finding { entry, hit, oom, figures, remark }
}

fn applies(recovered: &Recovered, log: &PastedLog, hit: &Hit) -> bool {
    let (before, after) = recovered.reach;
    let line = hit.line;
    let own = log.around(line, hit.column);
    let view = |number| if number == line { View::single(line, &own) } else { log.single(number) };
    let mut lines = line.saturating_sub(before).max(1)..=(line + after).min(log.line_count());
    lines.any(|number| recovered.pattern.is_match(view(number).text()))
        || recovered.pattern.is_match(log.joined(line, (line + after).min(line + 8), line, own).text())
}

/// The machine's memory that ran out beside a card's, or the other way round, where neither follows from the other.
fn other_memory(leading: &Finding, finding: &Finding) -> Option<(MemoryKind, usize)> {
    let memory = finding.entry.memory.filter(|memory| matches!(memory, MemoryKind::Gpu | MemoryKind::Host))?;
    let both = leading.oom == Oom::Yes && finding.oom == Oom::Yes && !finding.entry.fallback;
    let apart = matches!(leading.entry.memory, Some(MemoryKind::Gpu | MemoryKind::Host))
        && leading.entry.memory != Some(memory);
    (both && apart).then_some((memory, finding.hit.line))
}

fn nothing() -> Diagnosis {
    Diagnosis {
        oom: Oom::No,
        memory: None,
        raised_by: None,
        program: None,
        phase: Phase::Unknown,
        facts: Facts::default(),
        figures: Vec::new(),
        matches: Vec::new(),
        remark: None,
        crashed_at: None,
        crashed_at_if_utc: None,
        run: Run::default(),
        is_shortened: false,
    }
}

fn answer(
    tables: &Tables,
    log: &PastedLog,
    leading: &Finding,
    ordered: &[Finding],
    now: Option<&jiff::Zoned>,
) -> Diagnosis {
    let entry = leading.entry;
    let mut facts = leading.figures.facts.clone();
    let mut places = leading.figures.places.clone();
    for other in ordered.iter().filter(|other| entry.draws_on.contains(&other.entry.id)) {
        facts.complete_from(&other.figures.facts);
        places.extend(other.figures.places.iter().cloned());
    }
    let discarded = facts.discard_impossible();
    places.retain(|place| !discarded.contains(&place.key));
    let recognised = || tables.programs.recognize(log, leading.hit.line).map(|program| program.to_string());
    // A fallback does not know who prints it; the line or the log may tell.
    let unsigned = entry.fallback && entry.raised_by.is_none();
    let signed = || leading.figures.program.clone().filter(|name| is_name(name)).or_else(recognised);
    let raised_by = unsigned.then(signed).flatten().unwrap_or_else(|| entry.raiser().to_string());
    let named = || {
        let told = |finding: &Finding| finding.figures.program.clone().filter(|name| is_name(name));
        let drawn = || ordered.iter().filter(|other| entry.draws_on.contains(&other.entry.id)).find_map(told);
        told(leading).or_else(drawn)
    };
    let (phase, stage) = tables.phases.recognize(log, leading.hit.line, leading.hit.column);
    let ran = || recognised().filter(|program| !cannot_run(&raised_by, program));
    let program = entry.program.clone().or_else(named).or_else(ran).unwrap_or_else(|| raised_by.clone());
    Diagnosis {
        oom: leading.oom,
        memory: entry.memory,
        raised_by: Some(raised_by),
        program: Some(program),
        phase: entry.phase.unwrap_or(phase),
        facts,
        figures: places,
        matches: ordered.iter().map(|finding| matched(finding, log)).collect(),
        remark: leading.remark.clone(),
        crashed_at: clock::crashed_at(log, leading.hit.line, now),
        crashed_at_if_utc: clock::crashed_at_if_utc(log, leading.hit.line, now),
        run: Run {
            stage,
            told: told(entry, log, &leading.hit),
            ..run::read(&tables.runs, log, leading.hit.line, leading.hit.column)
        },
        is_shortened: log.is_shortened(),
    }
}

/// The cause that the message itself names.
fn told(entry: &Entry, log: &PastedLog, hit: &Hit) -> Option<CauseKind> {
    let (before, after) = entry.reach;
    let (line, own) = (hit.line, log.around(hit.line, hit.column));
    let around = || log.joined(line.saturating_sub(before).max(1), log.end_of_wrap(line, line + after), line, own);
    let says = |tells: &&Tells| tells.pattern.as_ref().is_none_or(|pattern| pattern.is_match(around().text()));
    entry.tells.iter().find(says).map(|tells| tells.cause)
}

/// Whether a failure that this one raised is not one of that program. Keras also runs on JAX, and a start-up line of
/// TensorFlow stands in many logs of JAX's.
fn cannot_run(raised_by: &str, program: &str) -> bool {
    (raised_by, program) == ("jax", "tensorflow")
}

/// Whether a word before a colon may be a program's name, and not the kind of the message.
fn is_name(word: &str) -> bool {
    const KINDS: &[&str] = &[
        "error",
        "fatal",
        "exception",
        "panic",
        "warning",
        "failed",
        "failure",
        "message",
        "reason",
        "status",
        "note",
        "abort",
        "aborted",
        "stderr",
        "traceback",
        "output",
        "what",
    ];
    !KINDS.contains(&word) && !word.ends_with("error") && !word.ends_with("exception")
}

fn matched(finding: &Finding, log: &PastedLog) -> Match {
    Match {
        entry: finding.entry.id,
        certainty: finding.entry.certainty,
        line: finding.hit.line,
        text: log.shown_at(finding.hit.line, finding.hit.column),
    }
}
