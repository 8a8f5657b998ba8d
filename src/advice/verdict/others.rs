//! Owns what other processes have to do with it: whom the log names, who holds memory here and may be offered for
//! ending, what others held when the run failed.

use super::again;
use super::{Cause, CauseKind, decisive, live_need};
use crate::advice::machine::Named;
use crate::advice::plan::share;
use crate::advice::{Fate, Ledger, Place, Situation, machine, name_of, release};
use crate::gpu::activity::Activity;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::EntryId;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::knowledge::program::{Program, Trait};
use crate::units::Bytes;

/// Under this share of the card, what others held at the crash is their contexts, not their models.
const NEGLIGIBLE_PERCENT: u64 = 5;
/// A process's CUDA context: a few hundred MiB, with libraries loaded up to this.
const CONTEXT: Bytes = Bytes::mib(800);
/// Ranks that come equally far hold about the same, and are started with few others in between.
const RANKS_PERCENT: u64 = 10;
const RANKS_APART: usize = 4;
/// This failure comes before the engine has loaded anything.
const STARTS_EMPTY: EntryId = EntryId::VLLM_FREE_MEMORY_LESS_THAN_DESIRED;

/// The processes that the log names, without those that held next to nothing and the run's own ranks.
pub fn blamed<'p, 'a>(situation: &Situation<'_>, place: &'p Place<'a>) -> impl Iterator<Item = &'p Named<'a>> {
    let total = situation.diagnosis.facts.total_bytes;
    let own = are_ranks(situation.diagnosis);
    place.named.iter().filter(move |named| !own && !negligible(named.bytes, total))
}

/// Whether the processes that the log names are ranks of the run itself: several, started one after the other, that had
/// come as far as each other. On the card that a process gets which names none others may stand between them; on any
/// other their PIDs follow each other without a gap, and it is not the rank's own card.
pub fn are_ranks(diagnosis: &Diagnosis) -> bool {
    let others = &diagnosis.facts.other_processes;
    let (device, rank) = (diagnosis.facts.device.map(u64::from), diagnosis.run.rank);
    let is_of_many = (rank.is_some() || diagnosis.run.is_spread()) && (device == Some(0) || rank != device);
    let Some(first) = others.first().filter(|_| is_of_many && others.len() > 1) else { return false };
    let pids = || others.iter().map(|other| other.pid);
    let apart = pids().max().zip(pids().min()).and_then(|(last, first)| usize::try_from(last.abs_diff(first)).ok());
    let most = match device {
        Some(0) if rank.is_some() => RANKS_APART * others.len(),
        // The run's own PID may stand between.
        _ => others.len() + 1,
    };
    apart.is_some_and(|apart| apart < most)
        && others.iter().all(|other| other.bytes.within_percent(first.bytes, RANKS_PERCENT))
}

/// Living holders that are in the way, those the log names first, then the largest; which of them a step may be about,
/// `offer` tells. Each was there before the crash and may be ended by the viewer, or asked to let go. Nobody where the log is from elsewhere, where it rules others out, or where
/// the run never fits; of a log that names its holders, only those it names; of one that may be from anywhere, only
/// those seen to do nothing, and those whose own program lets go when it is asked and that are not busy.
pub fn holders<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Vec<(&'a GpuProcess, ProcessKey)> {
    let Some(viewer) = situation.viewer else { return Vec::new() };
    // Of several cards that it may be, nobody is offered but whom the log names.
    let devices: Vec<&Device> = place.device.map_or_else(|| place.candidates.clone(), |device| vec![device]);
    let facts = &situation.diagnosis.facts;
    let blames = blamed(situation, place).next().is_some();
    let ruled_out = !blames
        && (!place.named.is_empty()
            || others_then(situation.diagnosis).is_some_and(|others| negligible(others, facts.total_bytes)));
    let never = |device: &&Device| never_fits(device, situation.diagnosis);
    if place.same_machine == Some(false) || ruled_out || devices.iter().all(never) {
        return Vec::new();
    }
    let named = |row: &GpuProcess| {
        blamed(situation, place).any(|named| matches!(named.fate, Fate::Alive(alive, _) if alive.pid == row.pid))
    };
    // The run itself, still there, is no other process.
    let is_run = |row: &GpuProcess| {
        let own = place.own.as_ref().filter(|own| matches!(own.fate, Fate::Alive(..)));
        own.is_some_and(|own| own.pid == row.pid) && itself(situation, place).is_none_or(|own| own.pid != row.pid)
    };
    let activity = |row: &GpuProcess| {
        let lists = |device: &&&Device| device.processes.iter().any(|other| other.pid == row.pid);
        Activity::of(situation.history, devices.iter().find(lists).copied(), row)
    };
    let lets_go = |row: &GpuProcess| release::route(row).is_some() && !activity(row).is_busy();
    let mut found: Vec<_> = devices
        .iter()
        .flat_map(|device| &device.processes)
        .filter(|row| (named(row) || !blames && place.device.is_some()) && !is_run(row))
        .filter(|row| situation.was_there_before(row) == Some(true))
        .filter_map(|row| Some((row, release::reach(viewer, row)?)))
        .filter(|(row, _)| place.same_machine == Some(true) || activity(row).is_idle() || lets_go(row))
        .collect();
    found.sort_by_key(|(row, _)| (!named(row), std::cmp::Reverse(row.used_bytes.value())));
    let mut seen = Vec::new();
    found.retain(|(_, key)| {
        let is_new = !seen.contains(key);
        seen.push(*key);
        is_new
    });
    found
}

/// Whether the run needs more than the whole card: then nobody's end makes it fit.
fn never_fits(device: &Device, diagnosis: &Diagnosis) -> bool {
    let total = device.memory.total_bytes.value();
    let too_big = live_need(diagnosis).zip(total).is_some_and(|(needed, total)| needed > total);
    too_big && share::outside_of_share(diagnosis, total).is_none()
}

/// What others held when it died: capacity − free − what the run had, where the log prints all three. An allocator's
/// own figure leaves out the CUDA context of its process; an engine that is only starting has no more than that.
pub fn others_then(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let without_context = || Some(facts.reserved_bytes.unwrap_or(Bytes::ZERO).plus(own_context(diagnosis)?));
    let had = facts.process_bytes.or_else(without_context)?;
    Some(facts.total_bytes?.less(facts.free_bytes?).less(had))
}

/// What others held, where that is worth a word, and when that was: as the failure itself tells, else what was not free
/// when the run began, where it would have had room with that.
pub fn others_held(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<(Bytes, &'static str)> {
    let total = diagnosis.facts.total_bytes;
    match others_then(diagnosis) {
        Some(then) => Some((then, "when your run failed")).filter(|(then, _)| !negligible(*then, total)),
        None => others_at_start(diagnosis, place).map(|held| (held, "when your run began")),
    }
}

/// What was not free of its one card when it began, less its own CUDA context: about. `None` where the run would not have
/// had room with it either.
fn others_at_start(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<Bytes> {
    let run = &diagnosis.run;
    let here = place.device.filter(|_| place.same_machine == Some(true));
    let capacity = diagnosis.facts.total_bytes.or_else(|| here?.memory.total_bytes.value())?;
    let free = run.free_at_start_bytes.filter(|_| run.devices.is_none_or(|many| many == 1))?;
    let (held, needed) = (capacity.less(free).less(CONTEXT), live_need(diagnosis)?);
    (needed > free && needed <= free.plus(held)).then_some(held)
}

/// What the run's figures leave out of what it had: about its CUDA context. `None` where they are the whole process's,
/// or where it can't be told what they are.
pub fn own_context(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let starting = || diagnosis.matches.first().is_some_and(|found| found.entry == STARTS_EMPTY);
    (facts.process_bytes.is_none() && (facts.reserved_bytes.is_some() || starting())).then_some(CONTEXT)
}

pub fn negligible(part: Bytes, whole: Option<Bytes>) -> bool {
    whole.is_some_and(|whole| u128::from(part.0) * 100 < u128::from(whole.0) * u128::from(NEGLIGIBLE_PERCENT))
}

pub fn other_process(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Option<Cause> {
    let diagnosis = situation.diagnosis;
    if diagnosis.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let mut evidence = Vec::new();
    let mut weight: f64 = 0.0;
    // Once there is room because one has gone, those that still run are no part of the story.
    let room = ledger.is_some_and(|ledger| ledger.is_now && ledger.missing_bytes == Some(Bytes::ZERO));
    let gone = |named: &Named<'_>| matches!(named.fate, Fate::Gone);
    let some_gone = blamed(situation, place).any(gone);
    for named in blamed(situation, place).filter(|named| !room || !some_gone || gone(named)) {
        let (line, bytes) = (decisive(diagnosis), named.bytes);
        match named.fate {
            Fate::Alive(row, key) => {
                let left = if row.has_lost_its_parent() { "; what started it is gone" } else { "" };
                let (pid, rest) = (row.pid, before_and_idle(situation, key) + left);
                evidence.push(match evidence.is_empty() {
                    true => format!("the log names {pid}{line}; it still runs{rest}"),
                    false => format!("{pid} with {bytes} still runs, too"),
                });
                weight = weight.max(0.95);
            }
            Fate::Gone => {
                evidence.push(format!("process {} held {bytes}{line} and no longer holds GPU memory here", named.pid));
                weight = weight.max(0.8);
            }
            Fate::Unknown => {
                evidence.push(format!("process {} held {bytes} when it failed{line}", named.pid));
                weight = weight.max(0.8);
            }
        }
    }
    let others = others_then(diagnosis);
    if let Some((held, when)) = others_held(diagnosis, place).filter(|_| place.named.is_empty()) {
        evidence.push(format!("{held} of the card belonged to others {when}{}", decisive(diagnosis)));
        weight = weight.max(0.7);
    }
    // What the blamed one gave back is no reason to blame the next, where nothing tells how much is missing.
    let next = situation.taken.freed && ledger.is_none_or(|ledger| ledger.missing_bytes.is_none());
    if place.named.is_empty() && !next && others.is_none_or(|others| !negligible(others, diagnosis.facts.total_bytes)) {
        weight = weight.max(living(situation, place, ledger, &mut evidence));
    }
    (weight > 0.0).then_some(Cause { cause: CauseKind::OtherProcess, weight, evidence })
}

/// The program that failed, where it is one that goes on and is here.
pub fn itself<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Option<&'a GpuProcess> {
    let program = situation.diagnosis.program.as_deref()?;
    if !Program::known(program)?.has(Trait::SurvivesFailure) {
        return None;
    }
    let called = |row: &GpuProcess| {
        let name = row.recognised_as.as_deref().unwrap_or_default().to_lowercase();
        name.split(' ').next() == Some(program)
    };
    let before = |row: &GpuProcess| situation.was_there_before(row) != Some(false);
    place.device.filter(|_| place.same_machine != Some(false))?.processes.iter().find(|row| called(row) && before(row))
}

/// Who of another user's holds most of the card now, where the log may be from here: not to be ended, but to be known.
pub fn largest_foreign<'a>(situation: &Situation<'_>, place: &Place<'a>) -> Option<(&'a GpuProcess, Bytes, &'a str)> {
    let device = place.device.filter(|_| place.same_machine != Some(false))?;
    let whole = device.memory.total_bytes.value();
    let foreign = |row: &&GpuProcess| situation.viewer.is_some_and(|viewer| !viewer.owns(row));
    let known = |row: &'a GpuProcess| Some((row, row.used_bytes.value()?, row.user.known()?.as_str()));
    let held = device.processes.iter().filter(foreign).filter_map(known);
    // Of a log that may be from anywhere only who leaves little room for anything is a reason.
    let matters = |bytes: Bytes| match place.same_machine {
        Some(_) => !negligible(bytes, whole),
        None => whole.is_some_and(|whole| bytes.0 >= whole.0 / 2),
    };
    held.filter(|(_, bytes, _)| matters(*bytes)).max_by_key(|(_, bytes, _)| *bytes)
}

/// What the machine shows now, where the log names nobody.
fn living(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, evidence: &mut Vec<String>) -> f64 {
    // Whoever holds the rest now is in nobody's way.
    if ledger.is_some_and(Ledger::has_room_now) {
        return 0.0;
    }
    let holders = holders(situation, place);
    let own = itself(situation, place).map(|row| row.pid);
    let whole = place.device.and_then(|device| device.memory.total_bytes.value());
    let mut sum = Bytes::ZERO;
    for (row, key) in holders.iter().filter(|(row, _)| Some(row.pid) != own) {
        let Some(bytes) = row.used_bytes.value().filter(|bytes| !negligible(*bytes, whole)) else { continue };
        sum = sum.plus(bytes);
        evidence.push(format!("{} holds {bytes} now{}", name_of(row), before_and_idle(situation, *key)));
    }
    if let Some((row, bytes, user)) = largest_foreign(situation, place).filter(|_| place.same_machine.is_none()) {
        evidence.push(format!("{user}'s {} holds {bytes} of the card here now", name_of(row)));
        sum = sum.plus(bytes);
    }
    match ledger.and_then(|ledger| ledger.missing_bytes) {
        _ if sum == Bytes::ZERO => 0.0,
        Some(missing) if missing > Bytes::ZERO && sum >= missing => 0.6,
        _ => 0.35,
    }
}

/// Who of those that other ranks name still holds memory on their cards, in a sentence.
pub fn on_other_cards(situation: &Situation<'_>) -> Option<String> {
    let held = machine::still_held(situation);
    let pids: Vec<String> =
        held.iter().flat_map(|one| &one.facts.other_processes).map(|named| named.pid.to_string()).collect();
    (!pids.is_empty()).then(|| {
        format!("On other ranks' cards those that the log names still hold memory, too: {}. As it is, the run would fail there again.", pids.join(", "))
    })
}

/// Who was started after the failure and is in the way of another try: never offered, since it may be that try.
pub fn started_since(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Option<String> {
    let missing = ledger.filter(|ledger| ledger.is_now)?.missing_bytes.filter(|missing| *missing > Bytes::ZERO)?;
    let device = place.device.filter(|_| place.same_machine == Some(true))?;
    let next = super::next_try(situation, place);
    let since = |row: &&GpuProcess| {
        situation.was_there_before(row) == Some(false)
            && !row.has_lost_its_parent()
            && !next.is_some_and(|next| next.is(row))
    };
    let held = |row: &&GpuProcess| row.used_bytes.value().unwrap_or(Bytes::ZERO);
    let row = device.processes.iter().filter(since).max_by_key(held)?;
    let bytes = held(&row);
    (!negligible(bytes, device.memory.total_bytes.value())).then(|| {
        let own = situation.viewer.is_some_and(|viewer| viewer.owns(row));
        let is_busy = Activity::of(situation.history, Some(device), row).is_busy();
        let why = match again::knows_what_ran(situation) {
            true if own && is_busy => "it came later, so it is not why your run failed, and it is busy: wait for it",
            true if own => "it came later, so it is not why your run failed. You can end it from the list",
            true => "it came later, so it is not why your run failed, and it is another user's: ask them",
            false => "it may be your own next try",
        };
        format!(
            "{} was started after your run failed and holds {bytes} now; {missing} is missing. I don't offer to end it: {why}.",
            name_of(row)
        )
    })
}

/// The rest of a holder's evidence: it was there before the crash, and perhaps did nothing since we watch.
fn before_and_idle(situation: &Situation<'_>, key: ProcessKey) -> String {
    let said = match situation.history.map(|history| history.activity(key)) {
        Some(Activity::Idle(idle)) => format!(
            ", was there before the crash and has used neither GPU nor CPU in the {} s I have watched",
            idle.as_secs()
        ),
        _ => " and was there before the crash".to_owned(),
    };
    said + &stamp(situation)
}

/// Whose time it is that "before the crash" goes by, where it is the log's own.
fn stamp(situation: &Situation<'_>) -> String {
    let Some(crashed_at) = situation.diagnosis.crashed_at else { return String::new() };
    let Some(zone) = situation.zone else { return String::new() };
    format!(" (at {} by the log, taken as local time)", crashed_at.time_of_day(zone))
}
