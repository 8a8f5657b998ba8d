//! Owns the sentence: what ran out, and why most likely, weighed from evidence. What the log can't tell is said.

use std::time::Duration;

use serde::Serialize;

use super::{Fate, Ledger, Place, Situation, amount, name_of, name_of_device};
use crate::advice::ledger::run_had;
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom, Phase};
use crate::knowledge::facts::Facts;
use crate::units::Bytes;

/// Under this share of the card, what others held at the crash is their contexts, not their models.
const NEGLIGIBLE_PERCENT: u64 = 5;
/// A run that came this far had room for an ordinary step.
const STEPS_THAT_FITTED: u64 = 20;
/// A process that did nothing for so long may be offered although the log doesn't tell whether it is from here.
const WATCHED_ENOUGH: Duration = Duration::from_secs(10);

/// Why memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// Another process held it.
    OtherProcess,
    /// The allocator holds enough, in pieces too small.
    Fragmentation,
    /// More than the device has at all.
    TooBig,
    /// The context is longer than the KV cache has room for.
    Context,
    /// A batch or its activations.
    Batch,
    /// It grew while running.
    Growth,
    /// An earlier run in the same process.
    SameSession,
    /// A limit set below the capacity.
    Limit,
    /// Another device had room.
    WrongDevice,
    /// The machine's own memory, not the GPU's.
    HostMemory,
    /// The log doesn't tell.
    Unknown,
}

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
}

/// Weighs the causes and puts the likeliest into a sentence.
pub fn weigh(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Verdict {
    if situation.diagnosis.oom == Oom::No {
        let sentence = not_oom(situation.diagnosis);
        return Verdict { sentence, same_machine: place.same_machine, causes: Vec::new() };
    }
    let mut causes: Vec<Cause> = [
        other_process(situation, place, ledger),
        too_big(situation.diagnosis, ledger),
        fragmentation(situation.diagnosis),
        limit(situation.diagnosis),
        context(situation.diagnosis),
        host(situation.diagnosis),
        growth(situation.diagnosis).or_else(|| batch(situation.diagnosis)),
    ]
    .into_iter()
    .flatten()
    .collect();
    causes.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    if causes.is_empty() {
        let evidence = vec!["the log prints too few figures to tell why".to_owned()];
        causes.push(Cause { cause: CauseKind::Unknown, weight: 0.1, evidence });
    }
    Verdict { sentence: sentence(situation, place, ledger, &causes), same_machine: place.same_machine, causes }
}

/// The decisive line, for evidence.
fn decisive(diagnosis: &Diagnosis) -> String {
    diagnosis.matches.first().map_or_else(String::new, |found| format!(" (line {})", found.line))
}

/// Living holders that may be offered for ending, those the log names first, then the largest. Each was there before
/// the crash and may be ended by the viewer. Nobody where the log is from elsewhere, where it rules others out, or where
/// the run never fits; of a log that names its holders, only those it names; of one that may be from anywhere, only
/// those seen to do nothing.
pub fn holders<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Vec<(&'a GpuProcess, ProcessKey)> {
    let (Some(device), Some(viewer)) = (place.device, situation.viewer) else { return Vec::new() };
    let facts = &situation.diagnosis.facts;
    let ruled_out = others_then(facts).is_some_and(|others| negligible(others, facts.total_bytes));
    if place.same_machine == Some(false) || (ruled_out && place.named.is_empty()) || never_fits(device, facts) {
        return Vec::new();
    }
    let named = |row: &GpuProcess| {
        place.named.iter().any(|named| matches!(named.fate, Fate::Alive(alive, _) if alive.pid == row.pid))
    };
    let unused = |key: ProcessKey| {
        situation.history.and_then(|history| history.idle_for(key)).is_some_and(|idle| idle >= WATCHED_ENOUGH)
    };
    let mut found: Vec<_> = device
        .processes
        .iter()
        .filter(|row| named(row) || place.named.is_empty())
        .filter(|row| situation.was_there_before(row) == Some(true))
        .filter_map(|row| Some((row, viewer.may_end(row).ok()?)))
        .filter(|(_, key)| place.same_machine == Some(true) || unused(*key))
        .collect();
    found.sort_by_key(|(row, _)| (!named(row), std::cmp::Reverse(row.used_bytes.value())));
    found
}

/// Whether the run needs more than the whole card: then nobody's end makes it fit.
fn never_fits(device: &Device, facts: &Facts) -> bool {
    live_need(facts).zip(device.memory.total_bytes.value()).is_some_and(|(needed, total)| needed > total)
}

/// What others held when it died: capacity − free − what the run had, where the log prints all three.
fn others_then(facts: &Facts) -> Option<Bytes> {
    let had = facts.process_bytes.or(facts.reserved_bytes)?;
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
    for named in &place.named {
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
    let others = others_then(&diagnosis.facts);
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
    let facts = &diagnosis.facts;
    // Of system memory "too big" says nothing that "RAM ran out" does not: swap and other programs are in it too.
    if matches!(diagnosis.memory, Some(MemoryKind::Host | MemoryKind::Shm)) {
        return None;
    }
    let (needed, capacity) = (live_need(facts)?, ledger?.capacity_bytes?);
    let evidence = vec![format!("it needed at least {needed}{}; there is {capacity} in all", decisive(diagnosis))];
    (needed > capacity).then_some(Cause { cause: CauseKind::TooBig, weight: 0.97, evidence })
}

/// What the run needed without what its allocator held in reserve, which it could have used again.
fn live_need(facts: &Facts) -> Option<Bytes> {
    let live = facts.allocated_bytes.or_else(|| run_had(facts)).unwrap_or(Bytes::ZERO);
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
    (idle >= asked).then_some(Cause { cause: CauseKind::Fragmentation, weight: 0.85, evidence })
}

fn limit(diagnosis: &Diagnosis) -> Option<Cause> {
    let limit = diagnosis.facts.limit_bytes?;
    let evidence = vec![format!("a limit of {limit} was set for it{}", decisive(diagnosis))];
    Some(Cause { cause: CauseKind::Limit, weight: 0.9, evidence })
}

fn context(diagnosis: &Diagnosis) -> Option<Cause> {
    let facts = &diagnosis.facts;
    let evidence = match (facts.context_tokens, facts.max_tokens) {
        (Some(asked), Some(room)) => format!("{asked} tokens of context, room for {room}{}", decisive(diagnosis)),
        (Some(asked), None) => format!("{asked} tokens of context{}", decisive(diagnosis)),
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

/// It trained for a while first: the same step fitted before, so something grew.
fn growth(diagnosis: &Diagnosis) -> Option<Cause> {
    let reached = reached(diagnosis)?;
    let evidence = vec![format!(
        "it had reached {reached}, so its steps fitted before: a longer batch came, a validation kept gradients, or something is kept from step to step"
    )];
    let training = diagnosis.phase == Phase::Training && diagnosis.memory == Some(MemoryKind::Gpu);
    training.then_some(Cause { cause: CauseKind::Growth, weight: 0.5, evidence })
}

/// How far it came, where that is far enough to have shown that an ordinary step fits.
fn reached(diagnosis: &Diagnosis) -> Option<String> {
    let run = &diagnosis.run;
    let step = run.step.filter(|step| *step >= STEPS_THAT_FITTED).map(|step| format!("step {step}"));
    step.or_else(|| run.epoch.filter(|epoch| *epoch >= 1).map(|epoch| format!("epoch {epoch}")))
}

fn batch(diagnosis: &Diagnosis) -> Option<Cause> {
    let evidence = vec!["it died while training, where memory grows with the batch".to_owned()];
    (diagnosis.phase == Phase::Training && diagnosis.memory == Some(MemoryKind::Gpu)).then_some(Cause {
        cause: CauseKind::Batch,
        weight: 0.4,
        evidence,
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

fn not_oom(diagnosis: &Diagnosis) -> String {
    match (&diagnosis.remark, diagnosis.matches.is_empty()) {
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
        Some(CauseKind::TooBig) => too_big_words(facts, ledger.and_then(|ledger| ledger.capacity_bytes)),
        Some(CauseKind::Fragmentation) => format!(
            "{} ran out of VRAM for {} although PyTorch held more than that unused: its free memory is in pieces too small.",
            device_words(place, facts),
            amount(facts.requested_bytes)
        ),
        Some(CauseKind::Limit) => {
            format!("Your run hit a memory limit of {} that was set for it.", amount(facts.limit_bytes))
        }
        Some(CauseKind::Context) if situation.diagnosis.memory == Some(MemoryKind::KvCache) => kv(facts),
        Some(CauseKind::HostMemory) => host_words(situation.diagnosis),
        Some(CauseKind::Growth) => {
            let reached = reached(situation.diagnosis).unwrap_or_default();
            format!("{} It had come to {reached}, so it grew.", plain(situation.diagnosis, place, ledger))
        }
        _ => plain(situation.diagnosis, place, ledger),
    }
}

fn too_big_words(facts: &Facts, capacity: Option<Bytes>) -> String {
    let live = facts.allocated_bytes.or_else(|| run_had(facts)).filter(|live| *live > Bytes::ZERO);
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
    let alive = place.named.iter().filter_map(|named| match named.fate {
        Fate::Alive(row, _) => Some((row, row.used_bytes.value().unwrap_or(named.bytes))),
        _ => None,
    });
    let gone = place.named.iter().find(|named| matches!(named.fate, Fate::Gone));
    let room = ledger.is_some_and(|ledger| ledger.is_now && ledger.missing_bytes == Some(Bytes::ZERO));
    // Once there is room, what still runs is no longer in the way.
    if let Some((row, bytes)) = alive.max_by_key(|(_, bytes)| *bytes).filter(|_| gone.is_none() || !room) {
        return format!("Another program holds the memory your run needs: {} has {bytes}.", name_of(row));
    }
    if let Some(gone) = gone {
        return gone_words(gone.pid, gone.bytes, ledger);
    }
    if let Some(named) = place.named.iter().max_by_key(|named| named.bytes) {
        return format!(
            "Another program held the memory your run needed: process {} had {} when it failed.",
            named.pid, named.bytes
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
            amount(others_then(&situation.diagnosis.facts))
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
        (Some(asked), Some(room)) => {
            format!("The KV cache is too small for the context: {asked} tokens were asked for, it holds {room}.")
        }
        _ => "The engine's KV cache is too small for what it was asked to hold.".to_owned(),
    }
}

fn host_words(diagnosis: &Diagnosis) -> String {
    let facts = &diagnosis.facts;
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
    let free = facts.free_bytes;
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
            diagnosis,
            fixes: &[],
            snapshot: Some(&here),
            history: None,
            viewer: Some(&viewer),
            crashed_by: Some(noon_plus(0)),
            zone: None,
            model: None,
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
            "Your run had 0.2 GiB in use and asked for 40.0 GiB more, and there is 24.0 GiB in all: it does not fit as it is."
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
