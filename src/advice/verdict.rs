//! Owns the weighing: what ran out, and why most likely, from evidence. What the log can't tell is said.

mod again;
mod others;
mod sentence;
mod story;

use schemars::JsonSchema;
use serde::Serialize;

use super::{FitAdvice, Ledger, Place, Situation};
use crate::advice::ledger::{self, run_had};
use crate::advice::plan::share;
pub use crate::knowledge::diagnosis::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom};
use crate::units::Bytes;
pub use again::{NextTry, Tried, next_try};
pub use others::{are_ranks, blamed, holders, itself, others_held, others_then, own_context};
pub use story::{weights_by_name, widened};

/// Less than that in pieces is no fragmentation worth the name; nor is less than that share of the card.
const SLIVERS: Bytes = Bytes::mib(200);
const SLIVERS_PERCENT: u64 = 5;

/// Said where line numbers are not the file's.
const SHORTENED: &str =
    "The log is long: parts that say nothing of memory were left out, and line numbers count what was kept.";

/// One cause with what speaks for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    pub cause: CauseKind,
    /// From 0 (ruled out) to 1 (certain). Weights are not probabilities and need not sum to 1.
    pub weight: f64,
    /// In sentences, with line numbers.
    pub evidence: Vec<String>,
}

/// What ran out and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// One sentence a person can act on.
    pub sentence: String,
    /// Whether the log was written on this machine; `None` where it doesn't tell.
    pub same_machine: Option<bool>,
    /// The driver's indices of the GPUs here that it may have failed on, where several fit and nothing in the log ties it
    /// to one of them. Absent where there is no choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_candidates: Vec<u32>,
    pub causes: Vec<Cause>,
    /// What else must be known to read the figures, such as that they contradict each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Weighs the causes and puts the likeliest into a sentence.
pub fn weigh<'a>(
    situation: &Situation<'a>,
    place: &Place<'a>,
    ledger: Option<&Ledger>,
    fit: Option<&FitAdvice>,
) -> Verdict {
    if situation.diagnosis.oom == Oom::No {
        let sentence = sentence::not_oom(situation);
        return Verdict { sentence, same_machine: place.same_machine, ..Verdict::default() };
    }
    let mut causes: Vec<Cause> = [
        others::other_process(situation, place, ledger),
        too_big(situation.diagnosis, ledger),
        overdrawn(situation.diagnosis).or_else(|| beyond(situation.diagnosis, fit)),
        fragmentation(situation.diagnosis),
        limit(situation.diagnosis),
        told(situation.diagnosis),
        story::weights_alone(situation.diagnosis, place),
        context(situation.diagnosis),
        host(situation.diagnosis),
        story::same_session(situation, place),
        story::wrong_device(situation, place, ledger),
        story::widened_weights(situation.diagnosis, place),
        story::optimizer(situation.diagnosis),
        story::beside_its_share(situation.diagnosis, place),
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
        let evidence = short_of(situation.diagnosis).into_iter().collect();
        causes.push(Cause { cause: CauseKind::Unknown, weight: 0.1, evidence });
    }
    let shortened = situation.diagnosis.is_shortened.then(|| SHORTENED.to_owned());
    let notes = [
        shortened,
        story::contradiction(&situation.diagnosis.facts),
        others::on_other_cards(situation),
        story::also(situation.diagnosis),
        story::ended_with(situation.diagnosis),
        again::several(situation, place).or_else(|| others::started_since(situation, place, ledger)),
    ];
    let notes = notes.into_iter().flatten().collect();
    Verdict {
        sentence: sentence::sentence(situation, place, ledger, &causes),
        same_machine: place.same_machine,
        gpu_candidates: place.candidates.iter().map(|device| device.index).collect(),
        causes,
        notes,
    }
}

/// The decisive line, for evidence.
fn decisive(diagnosis: &Diagnosis) -> String {
    diagnosis.matches.first().map_or_else(String::new, |found| format!(" (line {})", found.line))
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
    // An engine that fills its share of any card is not too big for having filled it.
    if share::outside_of_share(diagnosis, Some(capacity)).is_some() {
        return None;
    }
    let evidence = vec![format!("it needed at least {needed}{}; there is {capacity} in all", decisive(diagnosis))];
    // A cache for the full context that no card holds: the context is what is too long.
    let weight = if diagnosis.run.told == Some(CauseKind::Context) { 0.6 } else { 0.97 };
    (needed > capacity).then_some(Cause { cause: CauseKind::TooBig, weight, evidence })
}

/// The plain arithmetic, where nothing tells who or what took the rest.
fn short_of(diagnosis: &Diagnosis) -> Option<String> {
    let (needed, run) = (live_need(diagnosis)?, &diagnosis.run);
    let began = run.free_at_start_bytes.filter(|free| run.devices.is_none_or(|many| many == 1) && needed > *free);
    let line = decisive(diagnosis);
    match (began, diagnosis.facts.free_bytes.filter(|_| needed > Bytes::ZERO)) {
        (Some(free), _) => Some(format!(
            "it needed at least {needed}{line}, and {free} was free when it began; what held the rest the log doesn't say"
        )),
        (None, Some(free)) => {
            let asked = diagnosis.facts.requested_bytes.filter(|asked| *asked > free)?;
            let all = diagnosis.facts.total_bytes;
            Some(match run_had(diagnosis).zip(all).filter(|_| others_then(diagnosis).is_some()) {
                Some((had, all)) => format!("it held {had} of {all} itself and asked for {asked} more{line}"),
                None => {
                    format!("it asked for {asked}{line}, and {free} was free; what held the rest the log doesn't say")
                }
            })
        }
        _ => None,
    }
}

/// Its buffers, as far as it made them, take more than was free when it began.
fn overdrawn(diagnosis: &Diagnosis) -> Option<Cause> {
    let run = &diagnosis.run;
    let (had, free) = (ledger::buffers(diagnosis)?, run.free_at_start_bytes?);
    let evidence = vec![format!("its weights, KV cache and work area take {had}, and {free} was free when it began")];
    (had > free).then_some(Cause { cause: CauseKind::TooBig, weight: 0.6, evidence })
}

/// The model takes more than the card has.
fn beyond(diagnosis: &Diagnosis, fit: Option<&FitAdvice>) -> Option<Cause> {
    let (total, card) = fit?.beyond().filter(|_| diagnosis.memory == Some(MemoryKind::Gpu))?;
    let evidence = vec![format!("it takes about {total} with its settings, and there is {card} in all")];
    Some(Cause { cause: CauseKind::TooBig, weight: 0.6, evidence })
}

/// What the run needed without what its allocator held in reserve, which it could have used again.
fn live_need(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let live = facts.allocated_bytes.or_else(|| run_had(diagnosis)).unwrap_or(Bytes::ZERO);
    facts.requested_bytes.map(|asked| asked.plus(live))
}

fn fragmentation(diagnosis: &Diagnosis) -> Option<Cause> {
    let (idle, asked) = (in_pieces(diagnosis)?, diagnosis.facts.requested_bytes?);
    let evidence = vec![format!(
        "PyTorch held {idle} it was not using, more than the {asked} asked for{}, but not in one piece",
        decisive(diagnosis)
    )];
    Some(Cause { cause: CauseKind::Fragmentation, weight: 0.85, evidence })
}

/// What PyTorch's allocator held unused, where that would have been enough for what was asked, in one piece.
pub fn in_pieces(diagnosis: &Diagnosis) -> Option<Bytes> {
    let facts = &diagnosis.facts;
    let idle = facts.reserved_unallocated_bytes.or_else(|| Some(facts.reserved_bytes?.less(facts.allocated_bytes?)))?;
    // Slivers are in every pool: only where they are more than that do they explain anything.
    let much = facts
        .total_bytes
        .map_or(idle >= SLIVERS, |total| u128::from(idle.0) * 100 >= u128::from(total.0) * u128::from(SLIVERS_PERCENT));
    (idle >= facts.requested_bytes? && much).then_some(idle)
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
        (None, None) => match share::used_up(diagnosis) {
            Some(used_up) => format!("{used_up}{}", decisive(diagnosis)),
            None => format!("the engine's KV cache is what ran out{}", decisive(diagnosis)),
        },
    };
    let weight = if diagnosis.memory == Some(MemoryKind::KvCache) { 0.9 } else { 0.5 };
    let speaks = diagnosis.memory == Some(MemoryKind::KvCache) || facts.context_tokens.is_some();
    speaks.then_some(Cause { cause: CauseKind::Context, weight, evidence: vec![evidence] })
}

fn host(diagnosis: &Diagnosis) -> Option<Cause> {
    let evidence = match (&diagnosis.facts.victim_name, diagnosis.facts.victim_pid) {
        (Some(name), Some(pid)) => format!("the kernel ended {name} ({pid}){}", decisive(diagnosis)),
        _ if diagnosis.memory == Some(MemoryKind::Shm) => {
            format!("the message is about /dev/shm, a piece of system memory{}", decisive(diagnosis))
        }
        _ if sentence::is_estimate(diagnosis) => {
            format!("the message is an estimate, made before the model is loaded{}", decisive(diagnosis))
        }
        _ => format!("the message is about system memory, not VRAM{}", decisive(diagnosis)),
    };
    matches!(diagnosis.memory, Some(MemoryKind::Host | MemoryKind::Shm)).then_some(Cause {
        cause: CauseKind::HostMemory,
        weight: 0.92,
        evidence: vec![evidence],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, advise};
    use crate::gpu::GpuProcess;
    use crate::gpu::guard::Viewer;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Reading, Snapshot};

    fn held() -> Bytes {
        Bytes::mib(11_500)
    }

    fn advice(diagnosis: &Diagnosis, rows: Vec<GpuProcess>) -> Advice {
        let here = Snapshot { devices: vec![device(0, rows)], ..snapshot(0) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
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
        let advice = advice(&torch_oom(&[(4242, held())]), vec![kernel, process(8, Bytes::gib(4))]);
        assert_eq!(leading(&advice), CauseKind::OtherProcess);
        assert_eq!(
            advice.verdict.sentence,
            "Another program holds the memory your run needs: notebook sweep.ipynb (4242) has 11.2 GiB."
        );
    }

    #[test]
    fn whoever_holds_the_rest_is_not_blamed_once_there_is_room() {
        // Named, and of another size than what is missing: 12.2 GiB is free, 9.3 is needed.
        let named = advice(&torch_oom(&[(4242, held())]), vec![process(4242, held())]);
        assert!(named.verdict.sentence.contains("may simply work"), "{}", named.verdict.sentence);
        assert!(named.plan.iter().all(|planned| planned.target.is_none()), "{:?}", named.plan);
        // Named by nobody: 66 GiB is free, 5.3 was asked for.
        let mut bare = torch_oom(&[]);
        let facts = &mut bare.facts;
        (facts.process_bytes, facts.allocated_bytes, facts.reserved_unallocated_bytes) = (None, None, None);
        (facts.requested_bytes, facts.free_bytes) = (Some(Bytes::mib(5427)), None);
        let unnamed = advice(&bare, vec![process(7, Bytes::mib(500))]);
        assert!(!unnamed.verdict.sentence.contains("right now"), "some is free: {}", unnamed.verdict.sentence);
        facts_of(&mut bare, Bytes::gib(12));
        let short = advice(&bare, vec![process(7, Bytes::gib(14))]);
        assert!(short.verdict.sentence.contains("right now"), "{}", short.verdict.sentence);
    }

    fn facts_of(diagnosis: &mut Diagnosis, asked: Bytes) {
        diagnosis.facts.requested_bytes = Some(asked);
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
    fn once_one_let_go_the_next_is_not_blamed_where_nothing_tells_how_much_is_missing() {
        let mut bare = torch_oom(&[]);
        (bare.facts.requested_bytes, bare.facts.process_bytes) = (None, None);
        let here = Snapshot { devices: vec![device(0, vec![process(7, Bytes::gib(6))])], ..snapshot(0) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let blames = |freed: bool| {
            let advice = advise(&Situation {
                snapshot: Some(&here),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                taken: crate::advice::Taken { freed, ..Default::default() },
                ..Situation::alone(&bare)
            });
            advice.verdict.causes.iter().any(|cause| cause.cause == CauseKind::OtherProcess)
        };
        assert!(blames(false) && !blames(true));
    }

    #[test]
    fn a_holder_started_after_the_crash_is_named_and_not_offered() {
        let mut late = process(7, Bytes::gib(16));
        late.started_at = Reading::Known(noon_plus(60));
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.process_bytes = None;
        let advice = advice(&diagnosis, vec![late]);
        let said = advice.verdict.notes.join(" ");
        assert!(said.contains("started after your run failed and holds 16.0 GiB"), "{said}");
        assert!(advice.plan.iter().all(|planned| planned.target.is_none()));
        assert!(advice.verdict.causes.iter().all(|cause| cause.cause != CauseKind::OtherProcess));
    }
}
