//! Owns the verdict's one sentence: the likeliest cause in words a beginner understands, with its figures.

use super::others::{blamed, holders, largest_foreign, others_held};
use super::{Cause, CauseKind, story, too_big};
use crate::advice::ledger::run_had;
use crate::advice::{Fate, Ledger, Place, Situation, amount, name_of, name_of_device, plan, words};
use crate::gpu::GpuProcess;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom};
use crate::knowledge::facts::Facts;
use crate::knowledge::{EntryId, FixId};
use crate::units::Bytes;

pub fn sentence(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, causes: &[Cause]) -> String {
    let diagnosis = situation.diagnosis;
    match diagnosis.oom {
        Oom::Maybe => return format!("Perhaps out of memory: {}", remark(diagnosis)),
        Oom::Yes | Oom::No => {}
    }
    let mut said = because(situation, place, ledger, causes);
    if let Some(which) = which_of_several(situation, place, &said) {
        said = format!("{said} {which}");
    }
    match (&place.because, place.same_machine) {
        (Some(because), Some(false)) => format!(
            "This log seems to come from another machine ({because}), so I read it alone and touch nothing here. {said}"
        ),
        _ => said,
    }
}

pub fn not_oom(situation: &Situation<'_>) -> String {
    let diagnosis = situation.diagnosis;
    let consequence = situation.fixes.iter().any(|fix| fix.id == FixId::SEE_THE_FULLER_LOG);
    match (&diagnosis.remark, diagnosis.matches.is_empty()) {
        // A consequence without its cause tells nothing about memory.
        (Some(remark), _) if consequence => remark.clone(),
        (Some(remark), _) => format!("No memory ran out: {}", remark.trim_end_matches("No memory ran out.").trim_end()),
        (None, false) => "This is a known message, but no memory ran out.".to_owned(),
        (None, true) => {
            "I know no line of this log that says memory ran out. Paste more of it, above all the last error."
                .to_owned()
        }
    }
}

/// Which of this machine's GPUs the log may mean, where nothing ties it to one: no figure of any of them is the run's.
fn which_of_several(situation: &Situation<'_>, place: &Place<'_>, said: &str) -> Option<String> {
    let candidates = place.candidates_in_words()?;
    let printed = situation.diagnosis.facts.device;
    let is_from_here = place.same_machine == Some(true);
    // Of a log that may be from anywhere only a number could be mistaken.
    let number = printed.map(|index| format!("GPU {index}{AS_NUMBERED}"));
    if !is_from_here && number.is_none() {
        return None;
    }
    let it = match number {
        Some(number) if !said.contains(AS_NUMBERED) => number,
        Some(_) => "That number".to_owned(),
        None => "It".to_owned(),
    };
    Some(match is_from_here {
        true => format!("{it} may be {candidates} here: the log does not tell which."),
        false => format!("{it} may be any GPU here, if your run was on this machine."),
    })
}

/// What stands behind a number that the run gave: it counts from 0 what it may see.
const AS_NUMBERED: &str = " as the job numbered it";

fn remark(diagnosis: &Diagnosis) -> String {
    let default = "the message fits, but other causes print it too.";
    diagnosis.remark.clone().unwrap_or_else(|| default.to_owned())
}

fn because(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, causes: &[Cause]) -> String {
    let facts = &situation.diagnosis.facts;
    match causes.first().map(|cause| cause.cause) {
        Some(CauseKind::OtherProcess) => others(situation, place, ledger),
        Some(CauseKind::TooBig) if too_big(situation.diagnosis, ledger).is_some() => {
            let said = too_big_words(situation.diagnosis, ledger.and_then(|ledger| ledger.capacity_bytes));
            match story::widened(situation.diagnosis) {
                Some(widened) => format!("{said} {}", widened.said()),
                None => said,
            }
        }
        Some(CauseKind::Fragmentation) => format!(
            "{} ran out of VRAM for {} although PyTorch held more than that unused: its free memory is in pieces too small.",
            device_words(place, facts),
            amount(facts.requested_bytes)
        ),
        Some(CauseKind::Limit) if situation.diagnosis.memory != Some(MemoryKind::KvCache) => {
            limit_words(situation.diagnosis)
        }
        Some(CauseKind::Limit) => format!(
            "{} Its limit is low: {}.",
            kv(situation.diagnosis),
            story::limit_set(situation.diagnosis).unwrap_or_else(|| "one was set for it".into())
        ),
        Some(CauseKind::Context) if situation.diagnosis.memory == Some(MemoryKind::KvCache) => kv(situation.diagnosis),
        Some(CauseKind::HostMemory) => host_words(situation.diagnosis),
        Some(cause) => {
            let plain = plain(situation.diagnosis, place, ledger);
            match story::sentence(cause, situation, place, ledger) {
                Some(more) => format!("{plain} {more}"),
                None => plain,
            }
        }
        None => plain(situation.diagnosis, place, ledger),
    }
}

fn limit_words(diagnosis: &Diagnosis) -> String {
    let whose = match diagnosis.run.manager().or(diagnosis.raised_by.as_deref()) {
        Some("slurm" | "pbs" | "lsf" | "sge") => "Your job",
        Some("kubernetes" | "docker") => "Your container",
        Some("systemd") => "Your service",
        _ => "Your run",
    };
    let (what, whole) = match diagnosis.memory {
        Some(MemoryKind::Host) => ("system memory", "the machine's"),
        _ => ("memory", "the card's"),
    };
    if diagnosis.raised_by.as_deref() == Some("llama.cpp") {
        let asked = diagnosis.facts.requested_bytes.map(|asked| format!(" of {asked}")).unwrap_or_default();
        return format!("The card's driver allows no single buffer{asked}; that is not the end of its memory.");
    }
    let said = match diagnosis.facts.limit_bytes {
        Some(limit) => format!("{whose} hit a limit of {limit} of {what} that was set for it."),
        None => format!("{whose} hit a limit on its {what} that was set for it; that is not {whole} end."),
    };
    match story::held_most(diagnosis) {
        Some(most) => format!("{said} {most}"),
        None => said,
    }
}

fn too_big_words(diagnosis: &Diagnosis, capacity: Option<Bytes>) -> String {
    let facts = &diagnosis.facts;
    let live = facts.allocated_bytes.or_else(|| run_had(diagnosis)).filter(|live| *live > Bytes::ZERO);
    match (live, facts.requested_bytes, capacity) {
        (Some(live), Some(asked), Some(capacity)) => format!(
            "Your run had {live} in use and asked for {asked} more, and there is {capacity} in all: it does not fit as it is."
        ),
        (None, Some(asked), Some(capacity)) => {
            format!("Your run asked for {asked} at once and there is {capacity} in all: it does not fit as it is.")
        }
        _ => "Your run does not fit as it is.".to_owned(),
    }
}

fn others(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> String {
    let mut alive: Vec<(&GpuProcess, Bytes)> = blamed(situation, place)
        .filter_map(|named| match named.fate {
            Fate::Alive(row, _) => Some((row, row.used_bytes.value().unwrap_or(named.bytes))),
            _ => None,
        })
        .collect();
    alive.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let gone = blamed(situation, place).find(|named| matches!(named.fate, Fate::Gone));
    let room = ledger.is_some_and(|ledger| ledger.is_now && ledger.missing_bytes == Some(Bytes::ZERO));
    // Once there is room, what still runs is no longer in the way.
    match alive.as_slice() {
        _ if gone.is_some() && room => {}
        [(row, bytes), ..] if ledger.is_some_and(Ledger::has_room_now) => {
            let free = amount(ledger.and_then(|ledger| ledger.available_bytes));
            return format!(
                "Other programs held the memory your run needed when it failed ({} has {bytes}); {free} is free now, so the same run may simply work.",
                name_of(row)
            );
        }
        [(first, one), (second, two), ..] => {
            return format!(
                "Other programs hold the memory your run needs: {} has {one}, {} has {two}.",
                name_of(first),
                name_of(second)
            );
        }
        [(row, bytes), ..] => {
            return format!("Another program holds the memory your run needs: {} has {bytes}.", name_of(row));
        }
        [] => {}
    }
    if let Some(gone) = gone {
        return gone_words(gone.pid, gone.bytes, place, ledger);
    }
    if let Some(named) = blamed(situation, place).max_by_key(|named| named.bytes) {
        return format!(
            "Another program held the memory your run needed: process {} had {} when it failed.",
            named.pid, named.bytes
        );
    }
    let then = others_held(situation.diagnosis, place);
    if let (Some((then, when)), true) = (then, room) {
        let free = amount(ledger.and_then(|ledger| ledger.available_bytes));
        return format!(
            "Other programs held {then} of the card {when}; {free} is free now, so the same run may simply work."
        );
    }
    let foreign = largest_foreign(situation, place);
    let perhaps = |who: String, held: Option<Bytes>| {
        format!(
            "{} ran out of VRAM; right now {who} holds {} of the {} on the card here. If your run was on it, that is in its way.",
            device_words(place, &situation.diagnosis.facts),
            amount(held),
            amount(place.device.and_then(|device| device.memory.total_bytes.value()))
        )
    };
    match (holders(situation, place).first(), foreign) {
        (Some((row, _)), _) if place.same_machine.is_none() => perhaps(name_of(row), row.used_bytes.value()),
        (None, Some((row, bytes, user))) if place.same_machine.is_none() => {
            perhaps(format!("{user}'s {}", name_of(row)), Some(bytes))
        }
        (Some((row, _)), _) => format!(
            "{} ran out of VRAM; right now {} holds {} of it.",
            device_words(place, &situation.diagnosis.facts),
            name_of(row),
            amount(row.used_bytes.value())
        ),
        (None, foreign) => {
            let several = situation.snapshot.is_some_and(|here| here.devices.len() > 1);
            let card = match place.device.filter(|_| several) {
                Some(device) => name_of_device(device),
                None if place.candidates.is_empty() => "the card".to_owned(),
                None => device_words(place, &situation.diagnosis.facts),
            };
            let (held, when) = then.map_or((None, "when your run failed"), |(held, when)| (Some(held), when));
            let then = format!("Other programs held {} of {card} {when}", amount(held));
            match foreign {
                Some((row, bytes, user)) => format!("{then}; right now {user}'s {} has {bytes}.", name_of(row)),
                None => format!("{then}."),
            }
        }
    }
}

fn gone_words(pid: u32, bytes: Bytes, place: &Place<'_>, ledger: Option<&Ledger>) -> String {
    let said = format!("Process {pid} held {bytes} when your run failed, and it is gone now");
    let needed = ledger.and_then(|ledger| ledger.needed_bytes);
    if needed.is_some_and(|needed| place.each_candidate_has(needed)) {
        return format!("{said}: there is room again, so the same run may simply work.");
    }
    match ledger
        .filter(|ledger| ledger.is_now)
        .and_then(|ledger| Some((ledger.missing_bytes?, ledger.available_bytes?)))
    {
        Some((Bytes::ZERO, free)) => format!("{said}: {free} is free, so the same run may simply work."),
        Some((missing, free)) => format!("{said}; {free} is free, so at least {missing} must still be found."),
        None => format!("{said}."),
    }
}

/// The device in words: by name where it is here, else as the log printed it.
fn device_words(place: &Place<'_>, facts: &Facts) -> String {
    match (place.device.filter(|_| place.same_machine == Some(true)), facts.device) {
        (Some(device), _) => name_of_device(device),
        (None, Some(index)) if !place.candidates.is_empty() => format!("GPU {index}{AS_NUMBERED}"),
        (None, Some(index)) => format!("GPU {index}"),
        (None, None) => "The GPU".to_owned(),
    }
}

fn kv(diagnosis: &Diagnosis) -> String {
    let facts = &diagnosis.facts;
    if let Some(used_up) = plan::share::used_up(diagnosis) {
        return format!("Nothing is left for the KV cache: {used_up}.");
    }
    match (facts.context_tokens, facts.max_tokens) {
        (Some(asked), Some(room)) if asked > room => {
            format!("The KV cache is too small for the context: {asked} tokens were asked for, it holds {room}.")
        }
        _ => "The engine's KV cache is too small for what it was asked to hold.".to_owned(),
    }
}

fn host_words(diagnosis: &Diagnosis) -> String {
    match story::held_most(diagnosis) {
        Some(most) => format!("{} {most}", host_ran_out(diagnosis)),
        None => host_ran_out(diagnosis),
    }
}

fn host_ran_out(diagnosis: &Diagnosis) -> String {
    let facts = &diagnosis.facts;
    if diagnosis
        .matches
        .first()
        .is_some_and(|found| found.entry.as_str().ends_with("/winerror-1455") || found.text.contains("os error 1455"))
    {
        return "Windows could promise no more memory: RAM and the paging file together were spoken for, not the GPU's memory.".into();
    }
    if is_estimate(diagnosis) {
        let asked = facts.requested_bytes.map_or_else(|| "more".to_owned(), |asked| asked.to_string());
        return format!(
            "LM Studio refused to load the model: it estimates that {asked} is needed, more than it wants to take here. Nothing has run out."
        );
    }
    if diagnosis.memory == Some(MemoryKind::Shm) {
        return "Shared memory (/dev/shm) ran out, not the GPU's memory.".to_owned();
    }
    match (&facts.victim_name, facts.victim_rss_bytes) {
        (Some(name), Some(rss)) => {
            format!("The machine's own memory (RAM) ran out, not the GPU's: the kernel ended {name}, which held {rss}.")
        }
        (Some(name), None) => {
            format!("The machine's own memory (RAM) ran out, not the GPU's: the kernel ended {name}.")
        }
        _ => match (facts.requested_bytes, facts.free_bytes) {
            (Some(asked), Some(free)) => format!(
                "The machine's own memory (RAM) was short, not the GPU's: {asked} was needed and {free} was available."
            ),
            (Some(asked), None) => {
                format!("The machine's own memory (RAM) ran out, not the GPU's: {asked} could not be had.")
            }
            _ => "The machine's own memory (RAM) ran out, not the GPU's.".to_owned(),
        },
    }
}

/// A refusal before anything was loaded.
pub fn is_estimate(diagnosis: &Diagnosis) -> bool {
    diagnosis.matches.first().is_some_and(|found| found.entry == EntryId::LM_STUDIO_INSUFFICIENT_RESOURCES)
}

fn plain(diagnosis: &Diagnosis, place: &Place<'_>, ledger: Option<&Ledger>) -> String {
    let facts = &diagnosis.facts;
    let what = match diagnosis.memory {
        Some(MemoryKind::Unified) => "The memory that CPU and GPU share ran out".to_owned(),
        Some(MemoryKind::Gpu) => format!("{} ran out of VRAM", device_words(place, facts)),
        _ => "Memory ran out".to_owned(),
    };
    // A figure that can't be true is not repeated.
    let free = facts.free_bytes.filter(|_| story::contradiction(facts).is_none());
    let wanted = |asked: Bytes| match run_had(diagnosis).filter(|had| *had > Bytes::ZERO) {
        Some(had) => format!("your run had {had} and asked for {asked} more"),
        None => format!("your run asked for {asked}"),
    };
    match (facts.requested_bytes, free) {
        (Some(asked), Some(free)) if free >= asked => format!(
            "{what}: your run did not get {asked} although {free} was free, in pieces too small or gone a moment later."
        ),
        (Some(asked), Some(free)) => {
            let (asked, free) = words::apart(asked, free);
            format!("{what}: your run asked for {asked} when {free} was free.")
        }
        (Some(asked), None) => match ledger.filter(|ledger| ledger.is_now).and_then(|ledger| ledger.available_bytes) {
            Some(now) => format!("{what}: {}; {now} is free now.", wanted(asked)),
            None => format!("{what}: {} and did not get it.", wanted(asked)),
        },
        (None, _) => format!("{what}; this log doesn't say how much was asked for."),
    }
}
