//! Owns fragmentation: PyTorch's allocator has enough unused memory, in pieces too small for the request.

use super::evidence::line_of;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::figures::in_pieces;
use crate::advice::naming::amount;
use crate::advice::phrases::gpu_in_words;
use crate::advice::verdict::{CauseKind, Strength};

pub(crate) const ABOUT: About = About {
    id: CauseKind::Fragmentation,
    name: "fragmentation",
    blames: Blames::SomethingElse,
    speaks_of_size: SpeaksOfSize::WhileLoading,
    is_solved_by_another_gpu: false,
    say,
    prevent,
};

pub(crate) const UNUSED_IN_PIECES: Rule =
    Rule { about: &ABOUT, name: "the allocator has more unused than was requested", strength: Strength::Strong, find };

fn find(case: &Case<'_>) -> Option<Vec<String>> {
    let (unused, requested) = (in_pieces(case.log)?, case.log.facts.requested_bytes?);
    Some(vec![format!(
        "PyTorch held {unused} it was not using, more than the {requested} asked for{}, but not in one piece",
        line_of(case.log)
    )])
}

fn say(case: &Case<'_>) -> String {
    format!(
        "{} ran out of VRAM for {} although PyTorch held more than that unused: its free memory is in pieces too small.",
        gpu_in_words(&case.place, &case.log.facts),
        amount(case.log.facts.requested_bytes)
    )
}

fn prevent(_is_training: bool) -> &'static str {
    "Have expandable_segments:True in the job's environment (not on Windows), and sizes that don't change from step to step."
}
