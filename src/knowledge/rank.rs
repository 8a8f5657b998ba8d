//! Owns the diagnosis: which match leads (the cause before its consequences), and whether the program recovered.

use std::cmp::Reverse;

use super::clock;
use super::diagnosis::{CauseKind, Diagnosis, Match, MemoryKind, Oom, Platform};
use super::entry::{Entry, Recovered, Tells};
use super::facts::Facts;
use super::figures::{self, Figures};
use super::first_failure::{FirstFailure, Others, Ranks};
use super::killer;
use super::limit::{self, Limit};
use super::matching::Hit;
use super::own_name;
use super::own_option;
use super::pattern::shows;
use super::program::{Program, Trait};
use super::recognize::{self, PhaseRule, ProgramTable};
use super::run::{self, AlsoRanOut, Run, RunRule};
use super::sign::{self, About, Sign};
use super::stopped;
use super::version::VersionRule;
use crate::effort;
use crate::log::{PastedLog, View, beside};

/// How many lines above its message a headline may stand.
const HEADLINE: usize = 4;

/// How many lines apart two messages of one failure may stand: a traceback is between them.
const TOLD_AGAIN: usize = 60;

/// How many ranks' failures are read.
const RANKS: usize = 64;

/// The tables that a diagnosis needs in addition to the entries.
#[derive(Debug)]
pub(crate) struct Tables {
    pub programs: ProgramTable,
    pub phases: Vec<PhaseRule>,
    pub runs: Vec<RunRule>,
    pub versions: Vec<VersionRule>,
    pub signs: Vec<Sign>,
}

/// An entry's best hit.
struct Finding<'a> {
    entry: &'a Entry,
    hit: Hit,
    oom: Oom,
    figures: Figures,
    remark: Option<String>,
    /// Whether the program recovered from it.
    recovered: bool,
    /// The last line with one of the entry's messages.
    last: usize,
}

/// Puts the hits in order and reads the leading one.
pub(crate) fn diagnosis(
    entries: &[Entry],
    tables: &Tables,
    log: &PastedLog,
    hits: Vec<Hit>,
    ranks: Option<&Ranks>,
    now: Option<&jiff::Zoned>,
) -> Diagnosis {
    let all = hits;
    let hits = killer::unexplained(entries, &all);
    let mut findings = findings(entries, log, &hits);
    withhold_fallbacks(&mut findings, entries, &all);
    let masked: Vec<bool> = findings.iter().map(|one| findings.iter().any(|other| explains(other, one))).collect();
    let mut order: Vec<(bool, Finding)> = masked.into_iter().zip(findings).collect();
    order.sort_by_key(|(is_masked, finding)| {
        (*is_masked, finding.oom, Reverse(finding.entry.certainty), finding.hit.line, finding.hit.column)
    });
    if order.is_empty() {
        return without_a_match(tables, log);
    }
    let first = ranks.and_then(|ranks| lead_by_first_failure(&mut order, ranks, entries, log, &hits));
    let Some((_, leading)) = order.first() else { return Diagnosis::default() };
    let mut diagnosis = answer(tables, log, leading, &order, now);
    if let Some((first, others)) = first {
        diagnosis.run.rank = first.rank.or(diagnosis.run.rank);
        diagnosis.run.others = Some(others);
        diagnosis.facts.first_failure = Some(first);
    }
    if diagnosis.run.rank.is_some() {
        diagnosis.run.ranks = other_ranks(log, leading, &hits);
    }
    let mut unmasked = order.iter().filter(|(is_masked, _)| !is_masked);
    diagnosis.own_options = own_option::in_log(sign::windows(log, leading.hit.line).last().copied(), &diagnosis);
    diagnosis.signs.extend(own_option::signs(&diagnosis));
    diagnosis.run.also = unmasked.find_map(|(_, finding)| other_memory(leading, finding, log, &diagnosis.run));
    diagnosis
}

/// Puts the first failure of several ranks in front of those that are as certain: by time it may stand below them. Where
/// only the server tells of it, the worker's own message, which the server's masks, says which worker that was.
fn lead_by_first_failure<'a>(
    order: &mut Vec<(bool, Finding<'a>)>,
    ranks: &Ranks,
    entries: &'a [Entry],
    log: &PastedLog,
    hits: &[Hit],
) -> Option<(FirstFailure, Others)> {
    let (_, leading) = order.first()?;
    // What the program recovered from stopped nobody.
    if leading.oom != leading.entry.oom {
        return None;
    }
    if leading.oom == Oom::No {
        return Some((ranks.root_cause(log, leading.hit.line)?, Others::default()));
    }
    let (oom, certainty) = (leading.oom, leading.entry.certainty);
    let read = Read { entries, log, hits, oom };
    let as_certain =
        order.iter().filter(|(is_masked, one)| !is_masked && one.oom == oom && one.entry.certainty == certainty);
    let first = ranks.first(log, &places(as_certain, hits), |index| read.facts(index))?;
    if !first.names_a_worker {
        let masked =
            order.iter().filter(|(is_masked, one)| *is_masked && one.oom == oom && leading.entry.masks(one.entry));
        let of_worker = ranks
            .first(log, &places(masked, hits), |index| read.facts(index))
            .filter(|of_worker| of_worker.names_a_worker);
        if let Some(of_worker) = of_worker {
            return Some((of_worker.failure, of_worker.others));
        }
    }
    let hit = hits.get(first.index)?;
    if *hit != leading.hit {
        let finding = finding(entries.get(hit.entry)?, log, hits, first.index);
        order.retain(|(_, one)| one.hit.entry != hit.entry);
        order.insert(0, (false, finding));
    }
    Some((first.failure, first.others))
}

/// What reading the figures of any hit takes.
struct Read<'a> {
    entries: &'a [Entry],
    log: &'a PastedLog,
    hits: &'a [Hit],
    oom: Oom,
}

impl Read<'_> {
    /// The figures of this hit, if it says of memory what the leading one says: the program may have recovered.
    fn facts(&self, index: usize) -> Option<Facts> {
        let entry = self.entries.get(self.hits.get(index)?.entry)?;
        let finding = finding(entry, self.log, self.hits, index);
        (finding.oom == self.oom).then_some(finding.figures.facts)
    }
}

/// The lines of all messages of these findings' entries, in the order of the log, each with the index of its hit.
fn places<'o, 'a: 'o>(findings: impl Iterator<Item = &'o (bool, Finding<'a>)>, hits: &[Hit]) -> Vec<(usize, usize)> {
    let entries: Vec<usize> = findings.map(|(_, finding)| finding.hit.entry).collect();
    let all = hits.iter().enumerate().filter(|(_, hit)| entries.contains(&hit.entry));
    let mut places: Vec<(usize, usize)> = all.map(|(index, hit)| (hit.line, index)).collect();
    places.sort_unstable();
    places
}

/// What is left of a log without a known message: where it ran, if it stops in mid-work.
fn without_a_match(tables: &Tables, log: &PastedLog) -> Diagnosis {
    if log.is_cut_off() || !stopped::just_stops(log) {
        return Diagnosis::default();
    }
    let run = run::read(&tables.runs, &tables.versions, log, log.line_count(), 0);
    Diagnosis { just_stops: true, run: run.only_where_it_ran(), ..Diagnosis::default() }
}

/// The figures of the same message on other GPUs, if they name other processes.
fn other_ranks(log: &PastedLog, leading: &Finding, hits: &[Hit]) -> Vec<Facts> {
    let mut ranks: Vec<Facts> = Vec::new();
    let all = hits.iter().enumerate();
    let others = all.filter(|(_, hit)| hit.entry == leading.hit.entry && hit.line != leading.hit.line);
    for (index, _) in others.take(RANKS) {
        let mut facts = figures::read(leading.entry, log, hits, index).facts;
        facts.discard_impossible();
        let known = std::iter::once(&leading.figures.facts).chain(&ranks).any(|one| one.device == facts.device);
        if !known && !facts.other_processes.is_empty() {
            ranks.push(facts);
        }
    }
    ranks
}

/// Removes fallbacks if another entry has found an out-of-memory failure, or if one has recognized something within a
/// few lines of the fallback.
fn withhold_fallbacks(findings: &mut Vec<Finding>, entries: &[Entry], hits: &[Hit]) {
    const NEAR: usize = 10;
    let is_known_failure = findings.iter().any(|one| !one.entry.fallback && one.entry.oom == Oom::Yes);
    findings.retain(|one| {
        let mut near = hits.iter().filter(|hit| hit.line.abs_diff(one.hit.line) <= NEAR);
        // What only follows a failure explains nothing, nor does who killed another process.
        let recognizes = |hit: &Hit| {
            entries
                .get(hit.entry)
                .is_some_and(|entry| !entry.fallback && entry.explains_kills.is_none() && !one.entry.masks(entry))
        };
        !one.entry.fallback || !is_known_failure && !near.any(recognizes)
    });
}

/// How many lines below its own message a program that went on may still print the failure that it caught.
const CAUGHT: usize = 8;

/// Whether the first failure is the cause of the second. One that the program recovered from causes nothing, and one that
/// may have ended nothing explains no failure that came later.
fn explains(cause: &Finding, consequence: &Finding) -> bool {
    let refined = cause.entry.refines.contains(&consequence.entry.id) && cause.hit.line == consequence.hit.line;
    refined
        || cause.entry.id != consequence.entry.id
            && cause.entry.masks(consequence.entry)
            && (consequence.oom != Oom::Yes
                || !cause.recovered && (cause.entry.oom != Oom::Maybe || consequence.last <= cause.last + CAUGHT))
}

/// One finding per entry: the first hit that the program did not recover from, else the first hit. An impossible size
/// stays the cause of what follows it.
fn findings<'a>(entries: &'a [Entry], log: &PastedLog, hits: &[Hit]) -> Vec<Finding<'a>> {
    let mut findings: Vec<Finding<'a>> = Vec::new();
    for (index, hit) in hits.iter().enumerate() {
        let Some(entry) = entries.get(hit.entry) else { continue };
        if let Some(last) = findings.last_mut().filter(|last| last.hit.entry == hit.entry) {
            last.last = hit.line;
            if !last.recovered {
                continue;
            }
        }
        let finding = finding(entry, log, hits, index);
        match findings.last_mut() {
            Some(last) if last.hit.entry == hit.entry => {
                if !finding.recovered {
                    *last = finding;
                }
            }
            _ => findings.push(finding),
        }
    }
    findings
}

fn finding<'a>(entry: &'a Entry, log: &PastedLog, hits: &[Hit], index: usize) -> Finding<'a> {
    let mut figures = figures::read(entry, log, hits, index);
    let hit = hits.get(index).cloned().unwrap_or(Hit { entry: 0, line: 1, column: 0, wording: 0 });
    let (mut oom, mut is_recovered) = (entry.oom, false);
    let line = if entry.remarks.is_empty() { String::new() } else { log.shown_around(hit.line, hit.column) };
    let own = entry.remarks.iter().find(|one| one.pattern.is_match(&line)).map(|one| one.remark.clone());
    let mut remark = own.or_else(|| entry.remark.clone());
    if oom == Oom::Yes {
        if let Some(recovered) = entry.recovered.iter().find(|recovered| applies(recovered, log, &hit)) {
            (oom, is_recovered) = (Oom::Maybe, true);
            remark = Some(recovered.because.clone());
        } else if entry.memory != Some(MemoryKind::KvCache) && goes_on(log, &hit) {
            (oom, is_recovered) = (Oom::Maybe, true);
            remark = Some("The line itself says that the program went on.".into());
        } else if figures.absurd {
            oom = Oom::Maybe;
            remark = Some("The size it asked for is one that no machine could have: more likely a bug or a broken file than too little memory.".into());
        }
    }
    if !is_recovered {
        // A headline without figures above the message itself.
        let below = hits.iter().enumerate().skip(index + 1);
        for (at, _) in
            below.take_while(|(_, other)| other.entry == hit.entry && other.line.abs_diff(hit.line) <= HEADLINE)
        {
            if figures.facts != Facts::default() {
                break;
            }
            figures.complete_from(figures::read(entry, log, hits, at));
        }
    }
    Finding { entry, last: hit.line, hit, oom, figures, remark, recovered: is_recovered }
}

/// Whether the message's own line says that the program goes on. (llama.cpp says so of a full KV cache, too, until its
/// batch cannot be made smaller.)
fn goes_on(log: &PastedLog, hit: &Hit) -> bool {
    let Some((line, start)) = log.slice_around(hit.line, hit.column) else { return false };
    let rest = line.get(hit.column.saturating_sub(start)..).unwrap_or_default();
    effort::count(rest.len());
    shows("goes_on", rest)
}

fn applies(recovered: &Recovered, log: &PastedLog, hit: &Hit) -> bool {
    let (before, after) = recovered.reach;
    let line = hit.line;
    let own = log.around(line, hit.column);
    let mut views = (line.saturating_sub(before).max(1)..=(line + after).min(log.line_count()))
        .map(|number| if number == line { View::single(line, &own) } else { log.single(number) });
    views.any(|view| recovered.pattern.is_match(view.text()))
        || recovered.pattern.is_match(log.joined(line, (line + after).min(line + 8), line, own).text())
}

/// System memory that ran out as well as a GPU's, or the other way round, if neither is a consequence of the other.
fn other_memory(leading: &Finding, finding: &Finding, log: &PastedLog, run: &Run) -> Option<AlsoRanOut> {
    let memory = finding.entry.memory.filter(|memory| matches!(memory, MemoryKind::Gpu | MemoryKind::Host))?;
    let is_same =
        finding.entry.refines.contains(&leading.entry.id) || leading.entry.refines.contains(&finding.entry.id);
    let both = leading.oom == Oom::Yes && finding.oom == Oom::Yes && !finding.entry.fallback && !is_same;
    let apart = matches!(leading.entry.memory, Some(MemoryKind::Gpu | MemoryKind::Host))
        && leading.entry.memory != Some(memory);
    (both && apart).then(|| AlsoRanOut {
        memory,
        line: log.number_in_file(finding.hit.line),
        limit: limit(tells(finding.entry, log, &finding.hit), finding.entry, run),
    })
}

fn answer(
    tables: &Tables,
    log: &PastedLog,
    leading: &Finding,
    order: &[(bool, Finding)],
    now: Option<&jiff::Zoned>,
) -> Diagnosis {
    let (entry, hit) = (leading.entry, &leading.hit);
    let drawn_on = order.iter().map(|(_, other)| other).filter(|other| entry.draws_on.contains(&other.entry.id));
    let mut facts = leading.figures.facts.clone();
    let mut places = leading.figures.places.clone();
    for other in drawn_on.clone() {
        facts.complete_from(&other.figures.facts);
        places.extend(other.figures.places.iter().cloned());
    }
    if facts.exit_code.is_none() && leading.oom != Oom::No {
        facts.exit_code = figures::exit_code(log, hit.line);
    }
    if !says_how_much(&facts) {
        for other in order.iter().map(|(_, other)| other).filter(|other| is_same_failure(leading, other)) {
            facts.complete_from(&other.figures.facts);
            places.extend(other.figures.places.iter().cloned());
        }
    }
    let discarded = facts.discard_impossible();
    places.retain(|place| !discarded.contains(&place.key));
    let named = leading.named_program().or_else(|| drawn_on.clone().find_map(Finding::named_program));
    let ((whose, phase, stage, standing), run) = effort::both(
        || {
            let whose = whose(tables, log, leading, named);
            let (phase, stage) = recognize::phase(&tables.phases, log, hit.line, hit.column);
            let phase = entry.phase.unwrap_or(phase);
            let failure = About {
                entry: entry.id,
                oom: leading.oom,
                memory: entry.memory,
                program: &whose.program,
                raised_by: &whose.raised_by,
                phase,
                stage,
                facts: &facts,
            };
            let standing = sign::standing(&tables.signs, log, hit.line, &failure);
            (whose, phase, stage, standing)
        },
        || run::read(&tables.runs, &tables.versions, log, hit.line, hit.column),
    );
    if entry.memory == Some(MemoryKind::Unified) {
        facts.total_bytes = facts.total_bytes.or(run.working_set_bytes);
    }
    let tells = tells(entry, log, hit);
    let limit = limit(tells, entry, &run);
    Diagnosis {
        oom: leading.oom,
        memory: entry.memory,
        ran: Some(ran(log, hit, &whose, facts.victim_pid.and(facts.victim_name.as_deref()))),
        raised_by: Some(whose.raised_by),
        program: Some(whose.program),
        phase,
        facts,
        figures: places,
        matches: order.iter().map(|(_, finding)| matched(finding, log)).collect(),
        signs: standing.into_iter().filter_map(|sign| sign.shown(&run)).collect(),
        remark: leading.remark.clone(),
        beside: beside::names(log, hit.line),
        crashed_at: clock::crashed_at(log, hit.line, now),
        crashed_at_if_utc: clock::crashed_at_if_utc(log, hit.line, now),
        run: Run { stage, told: tells.and_then(|tells| tells.cause).or(limit.map(|limit| limit.cause)), limit, ..run },
        ..Diagnosis::default()
    }
}

/// Whether the message has figures of memory.
fn says_how_much(facts: &Facts) -> bool {
    let figures = [
        facts.requested_bytes,
        facts.total_bytes,
        facts.free_bytes,
        facts.allocated_bytes,
        facts.limit_bytes,
        facts.process_bytes,
    ];
    figures.iter().any(Option::is_some)
}

/// Whether the other message is the same failure as the leading one, told by another program or library: the figures that
/// the leading one lacks are in it.
fn is_same_failure(leading: &Finding, other: &Finding) -> bool {
    other.oom == Oom::Yes
        && !other.entry.fallback
        && other.entry.memory == leading.entry.memory
        && leading.entry.masks(other.entry)
        && (1..=TOLD_AGAIN).contains(&other.hit.line.abs_diff(leading.hit.line))
}

/// Whose code printed the message, and what the person ran.
struct Whose {
    raised_by: String,
    program: String,
    /// What people call the program, where the table has another name for it.
    called: Option<String>,
    /// Whether the message, or something else in the log, names the program.
    is_shown: bool,
}

/// `named` is the program that the messages name.
fn whose(tables: &Tables, log: &PastedLog, leading: &Finding, named: Option<String>) -> Whose {
    let (entry, hit) = (leading.entry, &leading.hit);
    let is_anyones = entry.fallback || entry.anyones;
    let printer = if is_anyones { tables.programs.printer(log, hit.line, hit.column) } else { None };
    if let Some(printer) = printer.filter(|printer| !printer.runs_others()) {
        let program = entry.program.clone().unwrap_or_else(|| printer.to_string());
        return Whose { raised_by: printer.to_string(), program, called: None, is_shown: true };
    }
    let printer = printer.map(|printer| printer.to_string());
    // A fallback does not know whose code prints the message, but the line or the log may show it.
    let is_unsigned = printer.is_none() && is_anyones && (entry.raised_by.is_none() || entry.anyones);
    let signature = if is_unsigned { leading.named_program() } else { None };
    // The kernel names the interpreter that it killed, and an encoder's library itself; the log may show what ran it.
    let (inside, named) = if named.as_deref().is_some_and(is_run_by_others) { (named, None) } else { (None, named) };
    let has_program = entry.program.is_some() || named.is_some();
    let recognized = match (is_unsigned && signature.is_none()) || !has_program {
        true => tables.programs.recognize(log, hit.line),
        false => None,
    };
    let as_raiser = if is_unsigned && entry.fallback { recognized.as_ref() } else { None };
    let shown = signature.or_else(|| as_raiser.map(|one| one.program.to_string()));
    let raised_by = printer.or(shown).unwrap_or_else(|| entry.raiser().to_owned());
    let ran = recognized.filter(|one| !has_program && may_have_run(&raised_by, one.program));
    let called = ran.as_ref().and_then(|one| one.called.clone());
    let ran = ran.map(|one| one.program.to_string());
    let shown = entry.program.clone().or(named).or(ran).or(inside);
    let is_shown = shown.is_some();
    let program = shown.unwrap_or_else(|| raised_by.clone());
    Whose { raised_by, program, called, is_shown }
}

/// What people call the program that ran. A library, a scheduler or a service that runs tests is it only where the log
/// has no other name.
fn ran(log: &PastedLog, hit: &Hit, whose: &Whose, victim: Option<&str>) -> String {
    let known = Program::known(&whose.program);
    let is_certain = match known {
        Some(program) => !program.is_a_place() && (whose.is_shown || program.kind().is_some()),
        None => whose.is_shown && !is_run_by_others(&whose.program),
    };
    if is_certain {
        return whose.called.clone().unwrap_or_else(|| whose.program.clone());
    }
    let victim = if known.is_some_and(|program| program.has(Trait::LinuxOnly)) { victim } else { None };
    let own = own_name::of(log, hit).or_else(|| victim.map(str::to_ascii_lowercase));
    own.or_else(|| whose.called.clone()).unwrap_or_else(|| whose.program.clone())
}

impl Finding<'_> {
    /// The program that the message names.
    fn named_program(&self) -> Option<String> {
        self.figures.program.clone().filter(|name| is_name(name))
    }
}

/// What the message itself says about the cause.
fn tells<'e>(entry: &'e Entry, log: &PastedLog, hit: &Hit) -> Option<&'e Tells> {
    let (before, after) = entry.reach;
    let (line, own) = (hit.line, log.around(hit.line, hit.column));
    entry.tells.iter().find(|tells| match &tells.pattern {
        None => true,
        Some(pattern) => {
            let first = line.saturating_sub(before).max(1);
            pattern.is_match(log.joined(first, log.end_of_wrap(line, line + after), line, own).text())
        }
    })
}

/// The kind of limit that the message is about. One of a control group is that of whoever made the group, where its path
/// shows that. A message that names none can still be about a limit of the shell, or about Windows' commit limit: Windows
/// refuses no memory for another reason.
fn limit(tells: Option<&Tells>, entry: &Entry, run: &Run) -> Option<&'static Limit> {
    if let Some(tells) = tells {
        let is_unnamed = tells.cause == Some(CauseKind::Limit) && entry.memory == Some(MemoryKind::Host);
        return match tells.limit {
            Some(named) if named.id != limit::CGROUP => Some(named),
            None if !is_unnamed => None,
            _ => run.group_limit().or_else(|| limit::of(limit::CGROUP)),
        };
    }
    match (entry.oom, entry.memory) {
        (Oom::Yes, Some(MemoryKind::Host)) if run.address_limit_kib.is_some() => limit::of(limit::ADDRESS_SPACE),
        (Oom::Yes, Some(MemoryKind::Host)) if run.platform() == Some(Platform::Windows) => {
            limit::of(limit::COMMIT_LIMIT)
        }
        _ => None,
    }
}

/// Whether this program may have run what raised the failure. Keras also runs on JAX, and many logs of JAX contain a line
/// that TensorFlow prints at start-up. A service that runs tests is not what failed in them where the message has a
/// program or a library of its own.
fn may_have_run(raised_by: &str, program: Program) -> bool {
    let raiser = Program::known(raised_by);
    let says_more = raiser.is_some_and(|raiser| !raiser.has(Trait::LinuxOnly)) && raised_by != "shell";
    (raised_by, program.as_str()) != ("jax", "tensorflow") && !(program.is_ci() && says_more)
}

/// Whether a process of this name may be any Python program, or this is a library that names itself.
fn is_run_by_others(name: &str) -> bool {
    let is_library = Program::known(name).is_some_and(|program| program.has(Trait::Library));
    name.starts_with("python") || name.starts_with("pt_main_thread") || is_library
}

/// Whether a word before a colon may be a program's name, and not the kind of the message.
fn is_name(word: &str) -> bool {
    !shows("message_kind", word)
}

fn matched(finding: &Finding, log: &PastedLog) -> Match {
    Match {
        entry: finding.entry.id,
        certainty: finding.entry.certainty,
        line: log.number_in_file(finding.hit.line),
        row: finding.hit.line,
        text: log.shown_at(finding.hit.line, finding.hit.column),
    }
}
