//! Owns the sentence: what ran out, and why most likely, weighed from evidence. What the log can't tell is said.

mod story;

use std::time::Duration;

use serde::Serialize;

use super::machine::Named;
use super::{Fate, Ledger, Place, Situation, amount, name_of, name_of_device, plan};
use crate::advice::ledger::run_had;
use crate::gpu::{Device, GpuProcess, ProcessKey};
pub use crate::knowledge::diagnosis::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom};
use crate::knowledge::facts::Facts;
use crate::units::Bytes;

/// Under this share of the card, what others held at the crash is their contexts, not their models.
const NEGLIGIBLE_PERCENT: u64 = 5;
/// Less than that in pieces is no fragmentation worth the name.
const SLIVERS: Bytes = Bytes::mib(200);
/// A process's CUDA context: a few hundred MiB, with libraries loaded up to this.
const CONTEXT: Bytes = Bytes::mib(800);
/// This failure comes before the engine has loaded anything.
const STARTS_EMPTY: &str = "vllm/free-memory-less-than-desired";
/// A process that did nothing for so long may be offered although the log doesn't tell whether it is from here.
pub const WATCHED_ENOUGH: Duration = Duration::from_secs(10);

/// One cause with what speaks for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Which.
    pub cause: CauseKind,
    /// From 0 (ruled out) to 1 (certain). Weights are not probabilities and need not sum to 1.
    pub weight: f64,
    /// In sentences, with line numbers.
    pub evidence: Vec<String>,
}

/// What ran out and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// One sentence a person can act on.
    pub sentence: String,
    /// Whether the log was written on this machine; `None` where it doesn't tell.
    pub same_machine: Option<bool>,
    /// The likeliest first.
    pub causes: Vec<Cause>,
    /// What else must be known to read the figures, such as that they contradict each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Weighs the causes and puts the likeliest into a sentence.
pub fn weigh(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Verdict {
    if situation.diagnosis.oom == Oom::No {
        let sentence = not_oom(situation);
        return Verdict { sentence, same_machine: place.same_machine, causes: Vec::new(), notes: Vec::new() };
    }
    let mut causes: Vec<Cause> = [
        other_process(situation, place, ledger),
        too_big(situation.diagnosis, ledger),
        fragmentation(situation.diagnosis),
        limit(situation.diagnosis),
        told(situation.diagnosis),
        story::weights_alone(situation.diagnosis, place),
        context(situation.diagnosis),
        host(situation.diagnosis),
        story::same_session(situation, place),
        story::wrong_device(situation, place, ledger),
        story::widened(situation.diagnosis),
        story::optimizer(situation.diagnosis),
        story::growth(situation.diagnosis).or_else(|| story::batch(situation.diagnosis)),
    ]
    .into_iter()
    .flatten()
    .collect();
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    // A mistake of the program's is nobody else's doing.
    if situation.diagnosis.run.told == Some(CauseKind::Unknown) {
        causes.retain(|cause| cause.cause == CauseKind::Unknown);
    }
    // One way to say a thing is enough.
    let mut seen = Vec::new();
    causes.retain(|cause| {
        !seen.contains(&cause.cause) && {
            seen.push(cause.cause);
            true
        }
    });
    if causes.is_empty() {
        let evidence = vec!["the log prints too few figures to tell why".to_owned()];
        causes.push(Cause { cause: CauseKind::Unknown, weight: 0.1, evidence });
    }
    let notes = story::contradiction(&situation.diagnosis.facts).into_iter().collect();
    Verdict { sentence: sentence(situation, place, ledger, &causes), same_machine: place.same_machine, causes, notes }
}

/// The decisive line, for evidence.
fn decisive(diagnosis: &Diagnosis) -> String {
    diagnosis.matches.first().map_or_else(String::new, |found| format!(" (line {})", found.line))
}

/// The processes that the log names, without those that held next to nothing.
fn blamed<'p, 'a>(situation: &Situation<'_>, place: &'p Place<'a>) -> impl Iterator<Item = &'p Named<'a>> {
    let total = situation.diagnosis.facts.total_bytes;
    place.named.iter().filter(move |named| !negligible(named.bytes, total))
}

/// Living holders that may be offered for ending, those the log names first, then the largest. Each was there before
/// the crash and may be ended by the viewer, or asked to let go. Nobody where the log is from elsewhere, where it rules others out, or where
/// the run never fits; of a log that names its holders, only those it names; of one that may be from anywhere, only
/// those seen to do nothing.
pub fn holders<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Vec<(&'a GpuProcess, ProcessKey)> {
    let (Some(device), Some(viewer)) = (place.device, situation.viewer) else { return Vec::new() };
    let facts = &situation.diagnosis.facts;
    let blames = blamed(situation, place).next().is_some();
    let ruled_out = !blames
        && (!place.named.is_empty()
            || others_then(situation.diagnosis).is_some_and(|others| negligible(others, facts.total_bytes)));
    if place.same_machine == Some(false) || ruled_out || never_fits(device, situation.diagnosis) {
        return Vec::new();
    }
    let named = |row: &GpuProcess| {
        blamed(situation, place).any(|named| matches!(named.fate, Fate::Alive(alive, _) if alive.pid == row.pid))
    };
    let unused = |key: ProcessKey| {
        situation.history.and_then(|history| history.idle_for(key)).is_some_and(|idle| idle >= WATCHED_ENOUGH)
    };
    let mut found: Vec<_> = device
        .processes
        .iter()
        .filter(|row| named(row) || !blames)
        .filter(|row| situation.was_there_before(row) == Some(true))
        .filter_map(|row| Some((row, super::release::reach(viewer, row)?)))
        .filter(|(_, key)| place.same_machine == Some(true) || unused(*key))
        .collect();
    found.sort_by_key(|(row, _)| (!named(row), std::cmp::Reverse(row.used_bytes.value())));
    found
}

/// Whether the run needs more than the whole card: then nobody's end makes it fit.
fn never_fits(device: &Device, diagnosis: &Diagnosis) -> bool {
    live_need(diagnosis).zip(device.memory.total_bytes.value()).is_some_and(|(needed, total)| needed > total)
}

/// What others held when it died: capacity − free − what the run had, where the log prints all three. An allocator's
/// own figure leaves out the CUDA context of its process; an engine that is only starting has no more than that.
pub fn others_then(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let starting = || {
        let before_loading = diagnosis.matches.first().is_some_and(|found| found.entry == STARTS_EMPTY);
        before_loading.then_some(Bytes::ZERO)
    };
    let without_context = || facts.reserved_bytes.or_else(starting).map(|had| had.plus(CONTEXT));
    let had = facts.process_bytes.or_else(without_context)?;
    Some(facts.total_bytes?.less(facts.free_bytes?).less(had))
}

fn negligible(part: Bytes, whole: Option<Bytes>) -> bool {
    whole.is_some_and(|whole| u128::from(part.0) * 100 < u128::from(whole.0) * u128::from(NEGLIGIBLE_PERCENT))
}

fn other_process(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Option<Cause> {
    let diagnosis = situation.diagnosis;
    if diagnosis.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let mut evidence = Vec::new();
    let mut weight: f64 = 0.0;
    for named in blamed(situation, place) {
        let (line, bytes) = (decisive(diagnosis), named.bytes);
        match named.fate {
            Fate::Alive(row, key) => {
                let (pid, rest) = (row.pid, before_and_idle(situation, key));
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
    let unnamed = others.filter(|_| place.named.is_empty());
    if let Some(others) = unnamed.filter(|others| !negligible(*others, diagnosis.facts.total_bytes)) {
        evidence.push(format!("{others} of the card belonged to others when it failed{}", decisive(diagnosis)));
        weight = weight.max(0.7);
    }
    if place.named.is_empty() && others.is_none_or(|others| !negligible(others, diagnosis.facts.total_bytes)) {
        weight = weight.max(living(situation, place, ledger, &mut evidence));
    }
    (weight > 0.0).then_some(Cause { cause: CauseKind::OtherProcess, weight, evidence })
}

/// What the machine shows now, where the log names nobody.
fn living(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, evidence: &mut Vec<String>) -> f64 {
    let holders = holders(situation, place);
    let mut sum = Bytes::ZERO;
    for (row, key) in &holders {
        let Some(bytes) = row.used_bytes.value().filter(|bytes| *bytes >= Bytes::mib(500)) else { continue };
        sum = sum.plus(bytes);
        evidence.push(format!("{} holds {bytes} now{}", name_of(row), before_and_idle(situation, *key)));
    }
    match ledger.and_then(|ledger| ledger.missing_bytes) {
        _ if sum == Bytes::ZERO => 0.0,
        Some(missing) if missing > Bytes::ZERO && sum >= missing => 0.6,
        _ => 0.35,
    }
}

/// The rest of a holder's evidence: it was there before the crash, and perhaps did nothing since we watch.
fn before_and_idle(situation: &Situation<'_>, key: ProcessKey) -> String {
    let idle = situation.history.and_then(|history| history.idle_for(key));
    let said = match idle.filter(|time| *time >= WATCHED_ENOUGH) {
        Some(idle) => format!(
            ", was there before the crash and has used neither GPU nor CPU in the {} s I have watched",
            idle.as_secs()
        ),
        None => " and was there before the crash".to_owned(),
    };
    said + &stamp(situation)
}

/// Whose time it is that "before the crash" goes by, where it is the log's own.
fn stamp(situation: &Situation<'_>) -> String {
    let Some(crashed_at) = situation.diagnosis.crashed_at else { return String::new() };
    let Some(zone) = situation.zone else { return String::new() };
    format!(" (at {} by the log, taken as local time)", crashed_at.time_of_day(zone))
}

fn too_big(diagnosis: &Diagnosis, ledger: Option<&Ledger>) -> Option<Cause> {
    // Of system memory "too big" says nothing that "RAM ran out" does not: swap and other programs are in it too.
    if matches!(diagnosis.memory, Some(MemoryKind::Host | MemoryKind::Shm)) {
        return None;
    }
    if diagnosis.memory == Some(MemoryKind::KvCache) {
        return None;
    }
    let (needed, capacity) = (live_need(diagnosis)?, ledger?.capacity_bytes?);
    let evidence = vec![format!("it needed at least {needed}{}; there is {capacity} in all", decisive(diagnosis))];
    // A cache for the full context that no card holds: the context is what is too long.
    let weight = if diagnosis.run.told == Some(CauseKind::Context) { 0.6 } else { 0.97 };
    (needed > capacity).then_some(Cause { cause: CauseKind::TooBig, weight, evidence })
}

/// What the run needed without what its allocator held in reserve, which it could have used again.
fn live_need(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let live = facts.allocated_bytes.or_else(|| run_had(diagnosis)).unwrap_or(Bytes::ZERO);
    facts.requested_bytes.map(|asked| asked.plus(live))
}

fn fragmentation(diagnosis: &Diagnosis) -> Option<Cause> {
    let facts = &diagnosis.facts;
    let idle = facts.reserved_unallocated_bytes.or_else(|| Some(facts.reserved_bytes?.less(facts.allocated_bytes?)))?;
    let asked = facts.requested_bytes?;
    let evidence = vec![format!(
        "PyTorch held {idle} it was not using, more than the {asked} asked for{}, but not in one piece",
        decisive(diagnosis)
    )];
    // Slivers are in every pool: only where they are more than that do they explain anything.
    let much = idle >= SLIVERS || facts.total_bytes.is_none_or(|total| idle.0 >= total.0 / 50);
    (idle >= asked && much).then_some(Cause { cause: CauseKind::Fragmentation, weight: 0.85, evidence })
}

fn limit(diagnosis: &Diagnosis) -> Option<Cause> {
    let line = decisive(diagnosis);
    let evidence = match (diagnosis.facts.limit_bytes, diagnosis.run.told) {
        (Some(limit), _) => format!("a limit of {limit} was set for it{line}"),
        (None, Some(CauseKind::Limit)) => format!("the message is about a limit that was set for it{line}"),
        (None, _) => story::limit_set(diagnosis)?,
    };
    Some(Cause { cause: CauseKind::Limit, weight: 0.96, evidence: vec![evidence] })
}

/// What the message says of the cause itself.
fn told(diagnosis: &Diagnosis) -> Option<Cause> {
    let cause = diagnosis.run.told.filter(|cause| *cause != CauseKind::Limit)?;
    let evidence = match cause {
        CauseKind::Context => match diagnosis.run.context_tokens {
            Some(tokens) => format!("it is the KV cache of {tokens} tokens that found no room{}", decisive(diagnosis)),
            None => format!("it is the KV cache that found no room{}", decisive(diagnosis)),
        },
        CauseKind::Batch => format!("it is the work area of a batch that found no room{}", decisive(diagnosis)),
        _ => format!("no machine has so much: the size is a mistake of the program{}", decisive(diagnosis)),
    };
    // Known to be no sign of anything else.
    let weight = if cause == CauseKind::Unknown { 1.0 } else { 0.68 };
    Some(Cause { cause, weight, evidence: vec![evidence] })
}

fn context(diagnosis: &Diagnosis) -> Option<Cause> {
    let facts = &diagnosis.facts;
    let evidence = match (facts.context_tokens, facts.max_tokens) {
        (Some(asked), Some(room)) if asked > room => {
            format!("{asked} tokens of context, room for {room}{}", decisive(diagnosis))
        }
        (Some(asked), None) => format!("{asked} tokens of context{}", decisive(diagnosis)),
        (Some(_), Some(room)) => {
            format!("{room} tokens of it were free, not enough for the next step{}", decisive(diagnosis))
        }
        (None, Some(room)) => format!("the KV cache has room for {room} tokens{}", decisive(diagnosis)),
        (None, None) => format!("the engine's KV cache is what ran out{}", decisive(diagnosis)),
    };
    let weight = if diagnosis.memory == Some(MemoryKind::KvCache) { 0.9 } else { 0.5 };
    let speaks = diagnosis.memory == Some(MemoryKind::KvCache) || facts.context_tokens.is_some();
    speaks.then_some(Cause { cause: CauseKind::Context, weight, evidence: vec![evidence] })
}

fn host(diagnosis: &Diagnosis) -> Option<Cause> {
    let evidence = match (&diagnosis.facts.victim_name, diagnosis.facts.victim_pid) {
        (Some(name), Some(pid)) => format!("the kernel ended {name} ({pid}){}", decisive(diagnosis)),
        _ => format!("the message is about system memory, not VRAM{}", decisive(diagnosis)),
    };
    matches!(diagnosis.memory, Some(MemoryKind::Host | MemoryKind::Shm)).then_some(Cause {
        cause: CauseKind::HostMemory,
        weight: 0.85,
        evidence: vec![evidence],
    })
}

fn sentence(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, causes: &[Cause]) -> String {
    let diagnosis = situation.diagnosis;
    match diagnosis.oom {
        Oom::Maybe => return format!("Perhaps out of memory: {}", remark(diagnosis)),
        Oom::Yes | Oom::No => {}
    }
    let said = because(situation, place, ledger, causes);
    match (&place.because, place.same_machine) {
        (Some(because), Some(false)) => format!(
            "This log seems to come from another machine ({because}), so I read it alone and touch nothing here. {said}"
        ),
        _ => said,
    }
}

fn not_oom(situation: &Situation<'_>) -> String {
    let diagnosis = situation.diagnosis;
    let consequence = situation.fixes.iter().any(|fix| fix.id == plan::FULLER_LOG);
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

fn remark(diagnosis: &Diagnosis) -> String {
    let default = "the message fits, but other causes print it too.";
    diagnosis.remark.clone().unwrap_or_else(|| default.to_owned())
}

fn because(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, causes: &[Cause]) -> String {
    let facts = &situation.diagnosis.facts;
    match causes.first().map(|cause| cause.cause) {
        Some(CauseKind::OtherProcess) => others(situation, place, ledger),
        Some(CauseKind::TooBig) if too_big(situation.diagnosis, ledger).is_some() => {
            too_big_words(situation.diagnosis, ledger.and_then(|ledger| ledger.capacity_bytes))
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
            kv(facts),
            story::limit_set(situation.diagnosis).unwrap_or_else(|| "one was set for it".into())
        ),
        Some(CauseKind::Context) if situation.diagnosis.memory == Some(MemoryKind::KvCache) => kv(facts),
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
    let whose = match diagnosis.raised_by.as_deref() {
        Some("slurm" | "pbs" | "lsf" | "sge") => "Your job",
        Some("kubernetes" | "docker") => "Your container",
        _ => "Your run",
    };
    let (what, whole) = match diagnosis.memory {
        Some(MemoryKind::Host) => ("system memory", "the machine's"),
        _ => ("memory", "the card's"),
    };
    match diagnosis.facts.limit_bytes {
        Some(limit) => format!("{whose} hit a limit of {limit} of {what} that was set for it."),
        None => format!("{whose} hit a limit on its {what} that was set for it; that is not {whole} end."),
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
        return gone_words(gone.pid, gone.bytes, ledger);
    }
    if let Some(named) = blamed(situation, place).max_by_key(|named| named.bytes) {
        return format!(
            "Another program held the memory your run needed: process {} had {} when it failed.",
            named.pid, named.bytes
        );
    }
    let then =
        others_then(situation.diagnosis).filter(|then| !negligible(*then, situation.diagnosis.facts.total_bytes));
    if let (Some(then), true) = (then, room) {
        let free = amount(ledger.and_then(|ledger| ledger.available_bytes));
        return format!(
            "Other programs held {then} of the card when your run failed; {free} is free now, so the same run may simply work."
        );
    }
    match holders(situation, place).first() {
        Some((row, _)) => format!(
            "{} ran out of VRAM; right now {} holds {} of it.",
            device_words(place, &situation.diagnosis.facts),
            name_of(row),
            amount(row.used_bytes.value())
        ),
        None => format!(
            "Other programs held {} of the card when your run failed.",
            amount(others_then(situation.diagnosis))
        ),
    }
}

fn gone_words(pid: u32, bytes: Bytes, ledger: Option<&Ledger>) -> String {
    let said = format!("Process {pid} held {bytes} when your run failed, and it is gone now");
    match ledger.and_then(|ledger| Some((ledger.missing_bytes?, ledger.available_bytes?))) {
        Some((Bytes::ZERO, free)) => format!("{said}: {free} is free, so the same run may simply work."),
        Some((missing, free)) => format!("{said}; {free} is free, so at least {missing} must still be found."),
        None => format!("{said}."),
    }
}

/// The device in words: by name where it is here, else as the log printed it.
fn device_words(place: &Place<'_>, facts: &Facts) -> String {
    match (place.device, facts.device) {
        (Some(device), _) => name_of_device(device),
        (None, Some(index)) => format!("GPU {index}"),
        (None, None) => "The GPU".to_owned(),
    }
}

fn kv(facts: &Facts) -> String {
    match (facts.context_tokens, facts.max_tokens) {
        (Some(asked), Some(room)) if asked > room => {
            format!("The KV cache is too small for the context: {asked} tokens were asked for, it holds {room}.")
        }
        _ => "The engine's KV cache is too small for what it was asked to hold.".to_owned(),
    }
}

fn host_words(diagnosis: &Diagnosis) -> String {
    let facts = &diagnosis.facts;
    if diagnosis.matches.first().is_some_and(|found| found.entry.ends_with("/winerror-1455")) {
        return "Windows could promise no more memory: RAM and the paging file together were spoken for, not the GPU's memory.".into();
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

fn plain(diagnosis: &Diagnosis, place: &Place<'_>, ledger: Option<&Ledger>) -> String {
    let facts = &diagnosis.facts;
    let what = match diagnosis.memory {
        Some(MemoryKind::Unified) => "The memory that CPU and GPU share ran out".to_owned(),
        Some(MemoryKind::Gpu) => format!("{} ran out of VRAM", device_words(place, facts)),
        _ => "Memory ran out".to_owned(),
    };
    // A figure that can't be true is not repeated.
    let free = facts.free_bytes.filter(|_| story::contradiction(facts).is_none());
    match (facts.requested_bytes, free) {
        (Some(asked), Some(free)) if free >= asked => format!(
            "{what}: your run did not get {asked} although {free} was free, in pieces too small or gone a moment later."
        ),
        (Some(asked), Some(free)) => format!("{what}: your run asked for {asked} when {free} was free."),
        (Some(asked), None) => match ledger.filter(|ledger| ledger.is_now).and_then(|ledger| ledger.available_bytes) {
            Some(now) => format!("{what}: your run asked for {asked}; {now} is free now."),
            None => format!("{what}: your run asked for {asked} and did not get it."),
        },
        (None, _) => format!("{what}; this log doesn't say how much was asked for."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Reading, Snapshot};

    fn held() -> Bytes {
        Bytes::mib(11_500)
    }

    fn advice(diagnosis: &Diagnosis, rows: Vec<GpuProcess>) -> Advice {
        let here = Snapshot { devices: vec![device(0, rows)], ..snapshot(0) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1] };
        advise(&Situation {
            snapshot: Some(&here),
            viewer: Some(&viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(diagnosis)
        })
    }

    fn leading(advice: &Advice) -> CauseKind {
        advice.verdict.causes[0].cause
    }

    #[test]
    fn a_named_living_holder_leads() {
        let mut kernel = process(4242, held());
        kernel.recognised_as = Some("notebook sweep.ipynb".into());
        let advice = advice(&torch_oom(&[(4242, held())]), vec![kernel]);
        assert_eq!(leading(&advice), CauseKind::OtherProcess);
        assert_eq!(
            advice.verdict.sentence,
            "Another program holds the memory your run needs: notebook sweep.ipynb (4242) has 11.2 GiB."
        );
    }

    #[test]
    fn a_named_holder_that_ended_is_said_to_be_gone() {
        let advice = advice(&torch_oom(&[(4242, held())]), vec![]);
        assert!(advice.verdict.sentence.contains("it is gone now: 23.4 GiB is free"), "{}", advice.verdict.sentence);
    }

    #[test]
    fn a_log_from_elsewhere_says_so_and_offers_nobody() {
        let mut diagnosis = torch_oom(&[(4242, held())]);
        diagnosis.facts.total_bytes = Some(Bytes::mib(81_000));
        let advice = advice(&diagnosis, vec![process(4242, held())]);
        assert_eq!(advice.verdict.same_machine, Some(false));
        assert!(advice.verdict.sentence.starts_with("This log seems to come from another machine"));
        assert!(!advice.verdict.sentence.contains("holds the memory"), "{}", advice.verdict.sentence);
    }

    #[test]
    fn a_run_alone_on_its_card_is_not_blamed_on_others() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.process_bytes = Some(Bytes::mib(17_500));
        diagnosis.facts.free_bytes = Some(Bytes::mib(6_700));
        let advice = advice(&diagnosis, vec![process(7, Bytes::gib(2))]);
        assert!(advice.verdict.causes.iter().all(|cause| cause.cause != CauseKind::OtherProcess));
    }

    #[test]
    fn fragmentation_needs_as_much_unused_as_was_asked_for() {
        for (unused, expected) in [(Bytes::gib(10), true), (Bytes::gib(1), false)] {
            let mut diagnosis = torch_oom(&[]);
            diagnosis.facts.reserved_unallocated_bytes = Some(unused);
            let advice = advice(&diagnosis, vec![]);
            let found = advice.verdict.causes.iter().any(|cause| cause.cause == CauseKind::Fragmentation);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_never_fits_is_too_big() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(40));
        let advice = advice(&diagnosis, vec![]);
        assert_eq!(leading(&advice), CauseKind::TooBig);
        assert_eq!(
            advice.verdict.sentence,
            "Your run had 200 MiB in use and asked for 40.0 GiB more, and there is 24.0 GiB in all: it does not fit as it is."
        );
    }

    #[test]
    fn what_the_allocator_holds_in_reserve_does_not_make_a_run_too_big() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(2));
        diagnosis.facts.allocated_bytes = Some(Bytes::gib(14));
        diagnosis.facts.reserved_unallocated_bytes = Some(Bytes::gib(8));
        diagnosis.facts.process_bytes = Some(Bytes::gib(23));
        assert_eq!(leading(&advice(&diagnosis, vec![])), CauseKind::Fragmentation);
        diagnosis.facts.allocated_bytes = Some(Bytes::mib(22_600));
        assert_eq!(leading(&advice(&diagnosis, vec![])), CauseKind::TooBig);
    }

    #[test]
    fn a_holder_started_after_the_crash_is_not_offered() {
        let mut late = process(7, Bytes::gib(12));
        late.started_at = Reading::Known(noon_plus(60));
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.process_bytes = None;
        let advice = advice(&diagnosis, vec![late]);
        assert!(advice.verdict.causes.iter().all(|cause| cause.cause != CauseKind::OtherProcess));
    }
}
