//! Owns the parts of a sentence that several causes share: which GPU it was, and what was asked for when how much was free.

use super::case::Case;
use super::figures::{contradiction, is_commit_limit_likely, run_had};
use super::machine::place::Place;
use super::naming::{apart, name_of_device};
use crate::knowledge::{Diagnosis, Facts, FixId, MemoryKind};
use crate::units::Bytes;

/// What stands behind a number that the run gave: it counts from 0 what it may see.
pub(crate) const AS_NUMBERED: &str = " as the job numbered it";

/// The decisive line, to put behind evidence: " (line 12)".
pub(crate) fn line_of(diagnosis: &Diagnosis) -> String {
    diagnosis.matches.first().map_or_else(String::new, |found| format!(" (line {})", found.line))
}

/// The GPU in words: by name where it is here, else as the log printed it.
pub(crate) fn gpu_in_words(place: &Place<'_>, facts: &Facts) -> String {
    match (place.device_here(), facts.device) {
        (Some(device), _) => name_of_device(device),
        (None, Some(index)) if !place.candidates.is_empty() => format!("GPU {index}{AS_NUMBERED}"),
        (None, Some(index)) => format!("GPU {index}"),
        (None, None) => "The GPU".to_owned(),
    }
}

/// Whether CUDA's failure was to lock RAM: VRAM may be free.
pub(crate) fn is_about_pinning(diagnosis: &Diagnosis) -> bool {
    let asks_to_unpin = diagnosis.signs.iter().any(|sign| sign.fixes.contains(&FixId::UNPINNED_BATCHES));
    asks_to_unpin && diagnosis.facts.requested_bytes.is_none() && diagnosis.facts.free_bytes.is_none()
}

/// What ran out, what the run asked for and what was free, without a cause.
pub(crate) fn plain(case: &Case<'_>) -> String {
    let facts = &case.log.facts;
    let what = match case.log.memory {
        Some(MemoryKind::Unified) => "The memory that CPU and GPU share ran out".to_owned(),
        Some(MemoryKind::Gpu) if is_about_pinning(case.log) => "RAM could not be pinned".to_owned(),
        Some(MemoryKind::Gpu) => format!("{} ran out of VRAM", gpu_in_words(&case.place, facts)),
        _ => "Memory ran out".to_owned(),
    };
    // A figure that cannot be true is not repeated.
    let free = if contradiction(facts).is_none() { facts.free_bytes } else { None };
    match (facts.requested_bytes, free) {
        (Some(requested), Some(free)) if free >= requested && is_commit_limit_likely(case.log) => format!(
            "{what}: your run did not get {requested} although {free} was free. Windows' commit limit (RAM and page file) is the usual reason."
        ),
        (Some(requested), Some(free)) if free >= requested => format!(
            "{what}: your run did not get {requested} although {free} was free, in pieces too small or gone a moment later."
        ),
        (Some(requested), Some(free)) => {
            let (requested, free) = apart(requested, free);
            format!("{what}: your run asked for {requested} when {free} was free.")
        }
        (Some(requested), None) => match free_now(case) {
            Some(now) => format!("{what}: {}; {now} is free now.", had_and_requested(case, requested)),
            None => format!("{what}: {} and did not get it.", had_and_requested(case, requested)),
        },
        (None, _) => format!("{what}; this log doesn't say how much was asked for."),
    }
}

/// What ran out, and more about it.
pub(crate) fn plain_and(case: &Case<'_>, more: Option<String>) -> String {
    and(plain(case), more)
}

/// A text and what follows it, if anything does.
pub(crate) fn and(said: String, more: Option<String>) -> String {
    match more {
        Some(more) => format!("{said} {more}"),
        None => said,
    }
}

/// What is free on this machine now.
fn free_now(case: &Case<'_>) -> Option<Bytes> {
    let ledger = case.ledger.as_ref()?;
    if ledger.is_now { ledger.available_bytes } else { None }
}

fn had_and_requested(case: &Case<'_>, requested: Bytes) -> String {
    match run_had(case.log).filter(|had| *had > Bytes::ZERO) {
        Some(had) => format!("your run had {had} and asked for {requested} more"),
        None => format!("your run asked for {requested}"),
    }
}
