//! Owns the failures of which the log does not tell the cause, and those that the program's own mistake caused.

use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::figures::{buffers, live_need, run_had, used_by_others_at_crash};
use crate::advice::phrases::line_of;
use crate::advice::verdict::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase, Stage};
use crate::units::Bytes;

/// One request of so much is an overflow, or a shape by mistake.
const BEYOND_ANY_GPU: Bytes = Bytes::gib(16 << 10);

pub(super) fn mistake(case: &Case<'_>) -> Evidence {
    (case.log.run.told == Some(CauseKind::Unknown) || is_beyond_any_gpu(case.log))
        .then(|| vec![format!("no machine has so much: the size is a mistake of the program{}", line_of(case.log))])
}

/// Whether no GPU has room for what was requested.
pub(crate) fn is_beyond_any_gpu(log: &Diagnosis) -> bool {
    let is_of_gpu = matches!(log.memory, Some(MemoryKind::Gpu | MemoryKind::Unified));
    is_of_gpu && log.facts.requested_bytes.is_some_and(|asked| asked >= BEYOND_ANY_GPU)
}

/// The plain arithmetic, where nothing shows who or what used the rest.
pub(super) fn what_is_sure(case: &Case<'_>) -> Evidence {
    let log = case.log;
    let known = short_at_start(log).or_else(|| short_at_failure(log)).or_else(|| of_metal(log));
    Some(known.or_else(|| while_loading(log)).into_iter().collect())
}

/// Before any batch, cache or image there are only weights and, in training, what belongs to them.
fn while_loading(log: &Diagnosis) -> Option<String> {
    if log.run.stage != Some(Stage::Weights) {
        return None;
    }
    let line = line_of(log);
    Some(match log.phase {
        Phase::Training => format!("it failed while the training state was created, before the first step{line}"),
        _ => format!("it failed while the weights were being loaded, before anything else was in VRAM{line}"),
    })
}

fn short_at_start(log: &Diagnosis) -> Option<String> {
    let (needed, run) = (live_need(log)?, &log.run);
    let free = run.free_at_start_bytes?;
    let is_short = needed > free && run.devices.is_none_or(|many| many == 1);
    let line = line_of(log);
    is_short.then(|| {
        format!(
            "it needed ≥ {needed}{line}, and {free} was free when it began; the log does not say what used the rest"
        )
    })
}

/// What Metal was known to have given out, where that is less than it lets graphics use: other programs use it, too.
fn of_metal(log: &Diagnosis) -> Option<String> {
    let (had, most) = (buffers(log)?, log.run.working_set_bytes?);
    (had <= most).then(|| {
        format!(
            "its weights, KV cache and work area take {had} of the {most} that Metal lets graphics use for all programs"
        )
    })
}

fn short_at_failure(log: &Diagnosis) -> Option<String> {
    let facts = &log.facts;
    let (requested, free, line) = (facts.requested_bytes?, facts.free_bytes?, line_of(log));
    if requested <= free || live_need(log)? == Bytes::ZERO {
        return None;
    }
    let own = if used_by_others_at_crash(log).is_some() { run_had(log).zip(facts.total_bytes) } else { None };
    Some(match own {
        Some((had, all)) => format!("it used {had} of {all} itself and asked for {requested} more{line}"),
        None => format!("it asked for {requested}{line}, and {free} was free; the log does not say what used the rest"),
    })
}
