//! Owns fragmentation: PyTorch's allocator has enough unused memory, in pieces too small for the request.

use super::rule::{Evidence, said};
use crate::advice::case::Case;
use crate::advice::figures::in_pieces;
use crate::advice::naming::{amount, sentence};
use crate::advice::phrases::{gpu_in_words, line_of, plain_and};
use crate::allocations::findings::FindingKind;

/// Memory that PyTorch has and cannot use, whose findings a snapshot shows.
const LOCKED: [FindingKind; 2] = [FindingKind::LockedPool, FindingKind::PendingFree];

/// By a snapshot, which shows the pieces.
pub(super) fn shown_by_snapshot(case: &Case<'_>) -> Evidence {
    said(case, FindingKind::Fragmentation)
}

/// Free memory that belongs to a CUDA graph's pool, or that a stream still uses.
pub(super) fn locked(case: &Case<'_>) -> Evidence {
    let said: Vec<String> = LOCKED.iter().filter_map(|kind| said(case, *kind)).flatten().collect();
    (!said.is_empty()).then_some(said)
}

pub(super) fn find(case: &Case<'_>) -> Evidence {
    // The log's figure also counts what is in pieces that would not be enough together.
    if case.log.recorded_failure().is_some() {
        return None;
    }
    let (unused, requested) = (in_pieces(case.log)?, case.log.facts.requested_bytes?);
    Some(vec![format!(
        "PyTorch had {unused} reserved but unallocated, more than the {requested} requested{}, but not in one piece",
        line_of(case.log)
    )])
}

/// By the table of `torch.cuda.memory_summary()`: what lies between what is in use.
pub(super) fn in_summary(case: &Case<'_>) -> Evidence {
    let table = case.log.summary_of_failure()?;
    let pieces = table.in_pieces()?;
    let is_enough = case.log.facts.requested_bytes.is_none_or(|requested| pieces >= requested);
    is_enough.then(|| {
        vec![format!(
            "the memory summary in line {} shows {pieces} non-releasable: free, in pieces between what is in use",
            table.line
        )]
    })
}

pub(super) fn say(case: &Case<'_>) -> String {
    let is_only_locked = case.log.recorded_failure().is_some() && shown_by_snapshot(case).is_none();
    if is_only_locked {
        return plain_and(case, locked(case).and_then(|said| said.first().map(|first| sentence(first))));
    }
    format!(
        "{} ran out of VRAM for {} although PyTorch had more than that unallocated: its free memory is in pieces too small.",
        gpu_in_words(&case.place, &case.log.facts),
        amount(case.log.facts.requested_bytes)
    )
}
