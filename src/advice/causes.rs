//! Owns the weighing of causes: a table of rules, each with the evidence that it looks for, in the order in which they
//! lead. One file a cause.

mod batch;
mod context;
mod fragmentation;
mod growth;
mod host_memory;
mod limit;
mod other_process;
mod rule;
mod same_session;
mod too_big;
mod unknown;
mod wrong_device;

use std::sync::LazyLock;

use self::rule::Evidence;
pub(crate) use self::rule::{About, Blames, SpeaksOfSize};
pub(crate) use self::unknown::is_beyond_any_gpu;
use super::case::Case;
use super::phrases::plain;
use super::verdict::{Cause, CauseKind, Strength};
use crate::knowledge::diagnosis::Oom;
use crate::packed;
use CauseKind::{
    Batch, Context, Fragmentation, Growth, HostMemory, Limit, OtherProcess, SameSession, TooBig, Unknown, WrongDevice,
};

/// What each cause is: one row a cause.
static ABOUT: LazyLock<Vec<About>> = LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/causes.ron")));

/// A cause, a rule's name and what looks for its evidence.
type Rule = (CauseKind, &'static str, fn(&Case<'_>) -> Evidence);

/// Each rule with its cause, its name for `diagnose --why`, and what looks for its evidence. The first that finds any leads,
/// from the strongest to the weakest.
const RULES: &[(Strength, &[Rule])] = &[
    (
        Strength::Proven,
        &[
            (Unknown, "the size is a mistake of the program", unknown::mistake),
            (TooBig, "the run needs more than there is in all", too_big::exceeds_capacity_without_a_cache),
            (TooBig, "the model's weights alone take more than the GPU has", too_big::weights_exceed),
            (Limit, "the log shows a limit that was set", limit::find),
            (WrongDevice, "a rank ran on GPU 0 beside other processes", wrong_device::ranks_share_a_gpu),
            (OtherProcess, "a process that the log names still runs", other_process::named_and_alive),
            (TooBig, "weights were widened and fill the GPU", too_big::widened_weights_fill),
            (TooBig, "the weights alone fill the GPU", too_big::weights_fill),
            (HostMemory, "the message is about system memory", host_memory::find),
            (Context, "the engine's KV cache ran out", context::cache_ran_out),
            (SameSession, "the notebook's kernel still runs with what the run had", same_session::kernel_still_runs),
            (Fragmentation, "the snapshot shows enough free in pieces too small", fragmentation::shown_by_snapshot),
        ],
    ),
    (
        Strength::Strong,
        &[
            (Growth, "the snapshot shows what grew", growth::shown_by_snapshot),
            (WrongDevice, "the snapshots show a rank with memory on another's GPU", wrong_device::shown_by_snapshots),
            (Fragmentation, "the snapshot shows free memory that is locked", fragmentation::locked),
            (Fragmentation, "the allocator has more unused than was requested", fragmentation::find),
            (OtherProcess, "the log names a process that used memory", other_process::named),
            (
                SameSession,
                "the notebook's process had much when it began to load",
                same_session::had_much_while_loading,
            ),
            (OtherProcess, "by the log's sums others used memory of the GPU", other_process::used_at_the_failure),
            (Context, "the log says that the KV cache was not allocated", context::cache_not_allocated),
            (Batch, "the log says that the work area was not allocated", batch::work_area),
        ],
    ),
    (
        Strength::Likely,
        &[
            (OtherProcess, "others use as much now as is short", other_process::uses_what_is_short),
            (Fragmentation, "the memory summary shows much in pieces", fragmentation::in_summary),
            // A cache for the full context that no GPU has room for: the context is what is too long, so this one is later.
            (TooBig, "the cache for the full context exceeds the GPU", too_big::exceeds_capacity),
            (TooBig, "its buffers take more than was free at the start", too_big::buffers_exceed_free),
            (TooBig, "the model with its settings takes more than the GPU has", too_big::estimate_exceeds),
            (TooBig, "weights were widened", too_big::widened_weights),
            (SameSession, "the failed program goes on and keeps its models", same_session::program_keeps_models),
            (Context, "the log prints the context's length", context::length_is_printed),
            (TooBig, "the snapshot shows a request for the optimizer's state", too_big::optimizer_state),
            (Batch, "the snapshot shows a request for a large part of the GPU", batch::large_request),
            (Growth, "training steps fitted before", growth::find),
            (TooBig, "it failed in the optimizer's first step or while saving", too_big::optimizer_or_saving),
            (Batch, "it failed in the backward pass or while decoding", batch::backward_or_decode),
            (Batch, "the request comes on top of the share that the engine fills", batch::beside_share),
            (SameSession, "the notebook's process had much when it failed", same_session::had_much_at_work),
            (Batch, "what it was doing grows with the batch", batch::works_in_batches),
        ],
    ),
    (
        Strength::Hint,
        &[
            (OtherProcess, "others use some of the GPU now", other_process::evidence),
            (WrongDevice, "another GPU has room and is unused", wrong_device::other_gpu_has_room),
            (WrongDevice, "a rank ran on GPU 0 alone", wrong_device::evidence),
            (SameSession, "the notebook's first cell had much", same_session::first_cell_had_much),
            (Unknown, "no other rule applies", unknown::what_is_sure),
        ],
    ),
];

/// The causes that find evidence, the leading one first, each by its strongest rule. None where no memory ran out.
pub(crate) fn weigh(case: &Case<'_>) -> Vec<Cause> {
    if case.log.oom == Oom::No {
        return Vec::new();
    }
    let rules = RULES.iter().flat_map(|(strength, rules)| rules.iter().map(move |rule| (*strength, rule)));
    let mut found: Vec<Cause> = Vec::new();
    for (strength, (cause, rule, find)) in rules {
        // "Unknown" stands alone: what the log cannot tell is no cause beside others, and where the program's own
        // mistake is the cause, nothing else is.
        let is_excluded = found.iter().any(|other| [*cause, Unknown].contains(&other.cause));
        if is_excluded || *cause == Unknown && !found.is_empty() {
            continue;
        }
        if let Some(evidence) = find(case) {
            found.push(Cause { cause: *cause, strength, weight: strength.weight(), evidence, rule });
        }
    }
    found
}

/// What ran out and why, by the leading cause, in a sentence or two.
pub(crate) fn say(cause: CauseKind, case: &Case<'_>) -> String {
    match cause {
        OtherProcess => other_process::say(case),
        Fragmentation => fragmentation::say(case),
        TooBig => too_big::say(case),
        Context => context::say(case),
        Batch => batch::say(case),
        Growth => growth::say(case),
        SameSession => same_session::say(case),
        Limit => limit::say(case),
        WrongDevice => wrong_device::say(case),
        HostMemory => host_memory::say(case),
        Unknown => plain(case),
    }
}

/// What keeps a failure of this cause from happening again, in a sentence.
pub(crate) fn prevention(cause: CauseKind, is_training: bool) -> &'static str {
    about(cause).map_or("", |about| about.prevention(is_training))
}

/// A cause in words.
pub(crate) fn name(cause: CauseKind) -> &'static str {
    about(cause).map_or("", |about| about.name)
}

pub(crate) fn about(cause: CauseKind) -> Option<&'static About> {
    ABOUT.iter().find(|about| about.cause == cause)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, Situation, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{GpuProcess, Reading, Snapshot};
    use crate::knowledge::diagnosis::{Diagnosis, Phase};
    use crate::units::Bytes;

    #[test]
    fn the_rules_are_listed_from_the_strongest_to_the_weakest() {
        let strengths: Vec<Strength> = RULES.iter().map(|(strength, _)| *strength).collect();
        assert_eq!(strengths, [Strength::Proven, Strength::Strong, Strength::Likely, Strength::Hint]);
    }

    #[test]
    fn each_cause_is_described_once_and_has_a_rule() {
        let described: HashSet<CauseKind> = ABOUT.iter().map(|about| about.cause).collect();
        assert_eq!((described.len(), ABOUT.len()), (11, 11), "causes.ron");
        let rules: Vec<&Rule> = RULES.iter().flat_map(|(_, rules)| *rules).collect();
        let found: HashSet<CauseKind> = rules.iter().map(|(cause, ..)| *cause).collect();
        assert_eq!(described, found);
        let names: HashSet<&str> = rules.iter().map(|(_, name, _)| *name).collect();
        assert_eq!(names.len(), rules.len(), "a rule's name says which rule it was");
    }

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
    fn a_named_process_that_still_runs_leads() {
        let mut kernel = process(4242, held());
        kernel.recognised_as = Some("notebook sweep.ipynb".into());
        let advice = advice(&torch_oom(&[(4242, held())]), vec![kernel, process(8, Bytes::gib(4))]);
        assert_eq!(leading(&advice), OtherProcess);
        assert_eq!(
            advice.verdict.sentence,
            "Another process uses the VRAM that the run needs: notebook sweep.ipynb (4242) has 11.2 GiB."
        );
    }

    #[test]
    fn other_processes_are_not_blamed_once_enough_vram_is_free() {
        // Named, and of another size than what is missing: 12.2 GiB is free, 9.3 is needed.
        let named = advice(&torch_oom(&[(4242, held())]), vec![process(4242, held())]);
        assert!(named.verdict.sentence.contains("retry"), "{}", named.verdict.sentence);
        assert!(named.plan.iter().all(|planned| planned.target.is_none()), "{:?}", named.plan);
        // Named by nobody: 66 GiB is free, 5.3 was asked for.
        let mut bare = torch_oom(&[]);
        let facts = &mut bare.facts;
        (facts.process_bytes, facts.allocated_bytes, facts.reserved_unallocated_bytes) = (None, None, None);
        (facts.requested_bytes, facts.free_bytes) = (Some(Bytes::mib(5427)), None);
        let unnamed = advice(&bare, vec![process(7, Bytes::mib(500))]);
        assert!(!unnamed.verdict.sentence.contains("of it now"), "some is free: {}", unnamed.verdict.sentence);
        facts_of(&mut bare, Bytes::gib(12));
        let short = advice(&bare, vec![process(7, Bytes::gib(14))]);
        assert!(short.verdict.sentence.contains("of it now"), "{}", short.verdict.sentence);
    }

    fn facts_of(diagnosis: &mut Diagnosis, asked: Bytes) {
        diagnosis.facts.requested_bytes = Some(asked);
    }

    #[test]
    fn a_named_process_that_has_exited_is_said_to_be_gone() {
        let advice = advice(&torch_oom(&[(4242, held())]), vec![]);
        assert!(advice.verdict.sentence.contains("has exited since. 23.4 GiB is free"), "{}", advice.verdict.sentence);
    }

    #[test]
    fn for_a_log_from_another_machine_no_process_is_offered() {
        let mut diagnosis = torch_oom(&[(4242, held())]);
        diagnosis.facts.total_bytes = Some(Bytes::mib(81_000));
        let advice = advice(&diagnosis, vec![process(4242, held())]);
        assert_eq!(advice.verdict.same_machine, Some(false));
        assert!(advice.verdict.sentence.starts_with("This log looks like another machine's"));
        assert!(!advice.verdict.sentence.contains("uses the VRAM"), "{}", advice.verdict.sentence);
    }

    #[test]
    fn a_run_alone_on_its_gpu_is_not_blamed_on_other_processes() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.process_bytes = Some(Bytes::mib(17_500));
        diagnosis.facts.free_bytes = Some(Bytes::mib(6_700));
        let advice = advice(&diagnosis, vec![process(7, Bytes::gib(2))]);
        assert!(advice.verdict.causes.iter().all(|cause| cause.cause != OtherProcess));
    }

    #[test]
    fn fragmentation_needs_as_much_unused_as_was_asked_for() {
        for (unused, expected) in [(Bytes::gib(10), true), (Bytes::gib(1), false)] {
            let mut diagnosis = torch_oom(&[]);
            diagnosis.facts.reserved_unallocated_bytes = Some(unused);
            let advice = advice(&diagnosis, vec![]);
            let found = advice.verdict.causes.iter().any(|cause| cause.cause == Fragmentation);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_never_fits_is_too_big() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(40));
        let advice = advice(&diagnosis, vec![]);
        assert_eq!(leading(&advice), TooBig);
        assert_eq!(
            advice.verdict.sentence,
            "Your run had 200 MiB in use and asked for 40.0 GiB more, and there is 24.0 GiB in all: it does not fit as it is."
        );
    }

    #[test]
    fn a_run_that_exceeds_the_gpu_is_too_big_also_below_a_limit() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.limit_bytes = Some(Bytes::gib(8));
        assert_eq!(leading(&advice(&diagnosis, vec![])), Limit);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(40));
        assert_eq!(leading(&advice(&diagnosis, vec![])), TooBig, "without the limit it would fail as well");
    }

    #[test]
    fn what_the_allocator_has_reserved_does_not_make_a_run_too_big() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.requested_bytes = Some(Bytes::gib(2));
        diagnosis.facts.allocated_bytes = Some(Bytes::gib(14));
        diagnosis.facts.reserved_unallocated_bytes = Some(Bytes::gib(8));
        diagnosis.facts.process_bytes = Some(Bytes::gib(23));
        assert_eq!(leading(&advice(&diagnosis, vec![])), Fragmentation);
        diagnosis.facts.allocated_bytes = Some(Bytes::mib(22_600));
        assert_eq!(leading(&advice(&diagnosis, vec![])), TooBig);
    }

    #[test]
    fn after_one_process_freed_memory_the_next_is_not_blamed_if_the_need_is_unknown() {
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
            advice.verdict.causes.iter().any(|cause| cause.cause == OtherProcess)
        };
        assert!(blames(false) && !blames(true));
    }

    #[test]
    fn a_process_started_after_the_crash_is_named_and_not_offered() {
        let mut late = process(7, Bytes::gib(16));
        late.started_at = Reading::Known(noon_plus(60));
        let mut diagnosis = torch_oom(&[]);
        diagnosis.facts.process_bytes = None;
        let advice = advice(&diagnosis, vec![late]);
        let said = advice.verdict.notes.join(" ");
        assert!(said.contains("started after your run failed and uses 16.0 GiB"), "{said}");
        assert!(advice.plan.iter().all(|planned| planned.target.is_none()));
        assert!(advice.verdict.causes.iter().all(|cause| cause.cause != OtherProcess));
    }

    /// How strongly a log alone speaks for a cause.
    fn strength(diagnosis: &Diagnosis, cause: CauseKind) -> Option<Strength> {
        let causes = advise(&Situation::alone(diagnosis)).verdict.causes;
        causes.iter().find(|found| found.cause == cause).map(|found| found.strength)
    }

    #[test]
    fn a_notebook_that_has_much_while_loading_keeps_an_earlier_run() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.run.notebook = Some("Cell In[7]".into());
        diagnosis.phase = Phase::Load;
        assert_eq!(strength(&diagnosis, SameSession), None, "0.3 of 24 GiB is a context");
        diagnosis.facts.process_bytes = Some(Bytes::gib(14));
        assert_eq!(strength(&diagnosis, SameSession), Some(Strength::Strong));
        diagnosis.run.notebook = Some("Cell In[1]".into());
        assert_eq!(strength(&diagnosis, SameSession), Some(Strength::Hint), "nothing ran before it");
    }

    #[test]
    fn a_rank_on_gpu_0_among_others_is_on_the_wrong_device() {
        let judged = |rank, device, others: &[(u32, Bytes)]| {
            let mut diagnosis = torch_oom(others);
            (diagnosis.run.rank, diagnosis.facts.device) = (rank, device);
            strength(&diagnosis, WrongDevice)
        };
        let three = [(1, Bytes::gib(5)), (2, Bytes::gib(5)), (3, Bytes::gib(5))];
        assert_eq!(judged(Some(3), Some(0), &three), Some(Strength::Proven));
        assert_eq!(judged(Some(3), Some(0), &[]), Some(Strength::Hint), "each rank may see its own GPU as 0");
        assert_eq!(judged(Some(0), Some(0), &three), Some(Strength::Proven), "the others are its own ranks");
        assert_eq!(judged(Some(0), Some(0), &[(1, Bytes::gib(5)), (900, Bytes::gib(2))]), None);
        assert_eq!(judged(Some(3), Some(3), &three), None);
    }
}
