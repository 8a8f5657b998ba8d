//! Owns fragmentation: PyTorch's allocator has enough unused memory, in pieces too small for the request.

use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::figures::in_pieces;
use crate::advice::naming::amount;
use crate::advice::phrases::{gpu_in_words, line_of};

pub(super) fn find(case: &Case<'_>) -> Evidence {
    let (unused, requested) = (in_pieces(case.log)?, case.log.facts.requested_bytes?);
    Some(vec![format!(
        "PyTorch had {unused} reserved but unallocated, more than the {requested} requested{}, but not in one piece",
        line_of(case.log)
    )])
}

pub(super) fn say(case: &Case<'_>) -> String {
    format!(
        "{} ran out of VRAM for {} although PyTorch had more than that unallocated: its free memory is in pieces too small.",
        gpu_in_words(&case.place, &case.log.facts),
        amount(case.log.facts.requested_bytes)
    )
}
