//! Owns other processes: memory that the run needed was used by somebody else on the GPU.

use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::figures::{is_negligible, used_by_others_at_crash};
use crate::advice::machine::place::{Fate, Named};
use crate::advice::naming::{amount, name_of, name_of_device};
use crate::advice::phrases::{gpu_in_words, line_of};
use crate::advice::processes::UsedByOthers;
use crate::gpu::activity::Activity;
use crate::gpu::usage::is_service;
use crate::gpu::{GpuProcess, ProcessKey};
use crate::units::Bytes;

pub(super) fn evidence(case: &Case<'_>) -> Evidence {
    if !case.is_short_of_vram() {
        return None;
    }
    let mut evidence = Vec::new();
    for named in relevant(case) {
        evidence.push(evidence_of(named, evidence.is_empty(), case));
    }
    if let Some(others) = used_by_unnamed(case) {
        let (when, line) = (others.when(), line_of(case.log));
        evidence.push(format!("{} of the GPU belonged to others {when}{line}", others.bytes));
    }
    evidence.extend(users_now(case).into_iter().map(|(said, _)| said));
    (!evidence.is_empty()).then_some(evidence)
}

pub(super) fn named_and_alive(case: &Case<'_>) -> Evidence {
    if relevant(case).any(Named::is_alive) { evidence(case) } else { None }
}

pub(super) fn named(case: &Case<'_>) -> Evidence {
    relevant(case).next().and_then(|_| evidence(case))
}

pub(super) fn used_at_the_failure(case: &Case<'_>) -> Evidence {
    used_by_unnamed(case).and_then(|_| evidence(case))
}

/// The named processes that are part of the story: once there is room because one is gone, those that still run are not.
fn relevant<'c, 'a>(case: &'c Case<'a>) -> impl Iterator<Item = &'c Named<'a>> {
    let only_gone = case.is_nothing_short_now() && case.gone().is_some();
    let blamed = if case.is_short_of_vram() { &case.blamed[..] } else { &[] };
    blamed.iter().filter(move |named| !only_gone || named.is_gone())
}

fn evidence_of(named: &Named<'_>, is_first: bool, case: &Case<'_>) -> String {
    let (pid, bytes, line) = (named.pid, named.bytes, line_of(case.log));
    match named.fate {
        Fate::Alive(row, key) if is_first => {
            let orphaned = if row.has_lost_its_parent() { "; what started it is gone" } else { "" };
            format!("the log names {pid}{line}; it still runs{}{orphaned}", before_and_idle(case, key))
        }
        Fate::Alive(..) => format!("{pid} with {bytes} still runs, too"),
        Fate::Gone => format!("process {pid} used {bytes}{line} and no longer uses VRAM here"),
        Fate::Unknown => format!("process {pid} used {bytes} when it failed{line}"),
    }
}

fn used_by_unnamed(case: &Case<'_>) -> Option<UsedByOthers> {
    let is_asked = case.is_short_of_vram() && case.place.named.is_empty() && !is_short_beside_the_desktop_alone(case);
    if is_asked { case.used_by_others } else { None }
}

/// Whether it is short now by more than all would free that is neither the desktop's nor the driver's own. Then others are
/// not what the run lacks, whatever they used when it failed.
fn is_short_beside_the_desktop_alone(case: &Case<'_>) -> bool {
    let (Some(device), Some(short)) = (case.place.device_here(), case.short_by_ledger()) else { return false };
    let Some(unlisted) = device.unaccounted_bytes.value() else { return false };
    let mut others = device.processes.iter().filter(|row| !is_service(row));
    let used = others.try_fold(unlisted, |sum, row| Some(sum.plus(row.used_bytes.value()?)));
    used.is_some_and(|used| used < short)
}

pub(super) fn uses_what_is_short(case: &Case<'_>) -> Evidence {
    let together = users_now(case).into_iter().fold(Bytes::ZERO, |sum, (_, bytes)| sum.plus(bytes));
    let short = case.short_by_ledger().filter(|short| *short > Bytes::ZERO)?;
    if together >= short { evidence(case) } else { None }
}

/// Who uses the GPU now, where the log names nobody and does not rule others out: each in a sentence, with what it uses.
fn users_now(case: &Case<'_>) -> Vec<(String, Bytes)> {
    // Freed memory is no reason to blame the next process, where nothing tells how much is short.
    let is_unknown_after_freeing = case.situation.taken.freed && case.short_by_ledger().is_none();
    let total = case.log.facts.total_bytes;
    let is_ruled_out = used_by_others_at_crash(case.log).is_some_and(|others| is_negligible(others, total));
    if !case.place.named.is_empty() || is_unknown_after_freeing || is_ruled_out || case.has_enough_vram_now() {
        return Vec::new();
    }
    let whole = case.place.capacity();
    let failed = case.failed_program.map(|row| row.pid);
    let mut users = Vec::new();
    for user in case.users.iter().filter(|user| Some(user.row.pid) != failed) {
        if let Some(bytes) = user.row.used_bytes.value().filter(|bytes| !is_negligible(*bytes, whole)) {
            let said = format!("{} uses {bytes} now{}", name_of(user.row), before_and_idle(case, user.key));
            users.push((said, bytes));
        }
    }
    if let (Some(foreign), None) = (case.largest_foreign, case.place.same_machine) {
        let said = format!("{} uses {} of the GPU here now", foreign.name(), foreign.bytes);
        users.push((said, foreign.bytes));
    }
    users
}

/// The rest of a process's evidence: it was there before the crash, and perhaps idle while it was watched.
fn before_and_idle(case: &Case<'_>, key: ProcessKey) -> String {
    let said = match case.situation.history.map(|history| history.activity(key)) {
        Some(Activity::Idle(idle)) => {
            format!(", was there before the crash and has been idle for {} s", idle.as_secs())
        }
        _ => " and was there before the crash".to_owned(),
    };
    said + &stamp(case)
}

/// Which clock "before the crash" goes by, where it is the log's own.
fn stamp(case: &Case<'_>) -> String {
    match (case.log.crashed_at, case.situation.zone) {
        (Some(crashed_at), Some(zone)) => {
            format!(" (at {} by the log, taken as local time)", crashed_at.time_of_day(zone))
        }
        _ => String::new(),
    }
}

pub(super) fn say(case: &Case<'_>) -> String {
    named_and_running(case)
        .or_else(|| named_and_gone(case))
        .or_else(|| named_and_unknown(case))
        .or_else(|| used_then_and_free_now(case))
        .unwrap_or_else(|| users_in_words(case))
}

/// The named processes that still run, the largest first. Once there is room, they are no longer the cause.
fn named_and_running(case: &Case<'_>) -> Option<String> {
    if case.gone().is_some() && case.is_nothing_short_now() {
        return None;
    }
    let mut running: Vec<(&GpuProcess, Bytes)> = case.blamed.iter().filter_map(running_with_use).collect();
    running.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let (row, bytes) = running.first()?;
    if case.has_enough_vram_now() {
        let free = amount(case.available());
        return Some(format!(
            "Other processes used the VRAM that the run needed when it failed ({} has {bytes}); {free} is free now: retry.",
            name_of(row)
        ));
    }
    Some(match running.get(1) {
        Some((second, two)) => format!(
            "Other processes use the VRAM that the run needs: {} has {bytes}, {} has {two}.",
            name_of(row),
            name_of(second)
        ),
        None => format!("Another process uses the VRAM that the run needs: {} has {bytes}.", name_of(row)),
    })
}

fn running_with_use<'a>(named: &Named<'a>) -> Option<(&'a GpuProcess, Bytes)> {
    match named.fate {
        Fate::Alive(row, _) => Some((row, row.used_bytes.value().unwrap_or(named.bytes))),
        _ => None,
    }
}

fn named_and_gone(case: &Case<'_>) -> Option<String> {
    let gone = case.gone()?;
    let said = format!("Process {} used {} when the run failed, and has exited since", gone.pid, gone.bytes);
    if case.needed().is_some_and(|needed| case.place.each_candidate_has(needed)) {
        return Some(format!("{said}. There is room again: retry."));
    }
    let now = case.ledger.as_ref().filter(|ledger| ledger.is_now);
    let shown = case.shown_need().map(|(_, short)| short);
    Some(match now.and_then(|ledger| shown.zip(ledger.available_bytes)) {
        Some((Bytes::ZERO, free)) => format!("{said}. {free} is free: retry."),
        Some((short, free)) => format!("{said}. Free: {free}. Short: {}.", case.bound(short)),
        None => format!("{said}."),
    })
}

fn named_and_unknown(case: &Case<'_>) -> Option<String> {
    let largest = case.blamed.iter().max_by_key(|named| named.bytes)?;
    Some(format!(
        "Another process used the VRAM that the run needed: process {} had {} when it failed.",
        largest.pid, largest.bytes
    ))
}

fn used_then_and_free_now(case: &Case<'_>) -> Option<String> {
    let then = case.used_by_others?;
    case.is_nothing_short_now().then(|| {
        format!(
            "Other processes used {} of the GPU {}; {} is free now: retry.",
            then.bytes,
            then.when(),
            amount(case.available())
        )
    })
}

/// Who uses the GPU now, where the log names nobody.
fn users_in_words(case: &Case<'_>) -> String {
    let gpu = gpu_in_words(&case.place, &case.log.facts);
    let may_be_anywhere = case.place.same_machine.is_none();
    let user = case.users.first().map(|user| (name_of(user.row), user.row.used_bytes.value()));
    let foreign = case.largest_foreign.map(|foreign| (foreign.name(), Some(foreign.bytes)));
    match (user, foreign) {
        (Some((name, used)), _) | (None, Some((name, used))) if may_be_anywhere => format!(
            "{gpu} ran out of VRAM; {name} uses {} of the {} on the GPU here now. If your run was on it, that is what it lacks.",
            amount(used),
            amount(case.place.capacity())
        ),
        (Some((name, used)), _) => format!("{gpu} ran out of VRAM; {name} uses {} of it now.", amount(used)),
        (None, Some((name, used))) => format!("{}; {name} uses {} now.", used_then(case, gpu), amount(used)),
        (None, None) => format!("{}.", used_then(case, gpu)),
    }
}

fn used_then(case: &Case<'_>, gpu: String) -> String {
    let has_several = case.situation.snapshot.is_some_and(|here| here.devices.len() > 1);
    let card = match case.place.device {
        Some(device) if has_several => name_of_device(device),
        _ if case.place.candidates.is_empty() => "the GPU".to_owned(),
        // Its name opens a sentence elsewhere.
        _ => gpu.replacen("The GPU", "the GPU", 1),
    };
    let when = case.used_by_others.map_or("when your run failed", UsedByOthers::when);
    format!("Other processes used {} of {card} {when}", amount(case.used_by_others.map(|others| others.bytes)))
}
