//! Owns the wrong device: several ranks share one GPU, or another GPU has room for all of it.

use super::rule::{Evidence, said};
use crate::advice::case::Case;
use crate::advice::figures::are_ranks;
use crate::advice::naming::name_of_device;
use crate::advice::other_gpu::OtherGpu;
use crate::advice::phrases::{line_of, plain_and};
use crate::allocations::findings::FindingKind;

/// By the snapshots of several ranks.
pub(super) fn shown_by_snapshots(case: &Case<'_>) -> Evidence {
    said(case, FindingKind::StrayRank)
}

pub(super) fn evidence(case: &Case<'_>) -> Evidence {
    if !case.is_short_of_vram() {
        return None;
    }
    let mut evidence = Vec::new();
    if let Some(rank) = misplaced_rank(case) {
        let others = case.log.facts.other_processes.len();
        let company = if others > 0 { format!(", beside {others} other processes") } else { String::new() };
        evidence.push(format!(
            "rank {rank} ran on GPU 0{company}{}: each rank should have a GPU of its own",
            line_of(case.log)
        ));
    }
    if let Some(other) = unused(case) {
        evidence.push(format!("{} has {} free: {}", name_of_device(other.device), other.room.free, other.room.seen));
    }
    (!evidence.is_empty()).then_some(evidence)
}

/// The rank that ran on a GPU which is not its own.
fn misplaced_rank(case: &Case<'_>) -> Option<u64> {
    let rank = case.log.run.rank?;
    (rank > 0 && case.log.facts.device == Some(0) || are_ranks(case.log)).then_some(rank)
}

pub(super) fn ranks_share_a_gpu(case: &Case<'_>) -> Evidence {
    let has_company = !case.log.facts.other_processes.is_empty();
    if has_company && misplaced_rank(case).is_some() { evidence(case) } else { None }
}

pub(super) fn other_gpu_has_room(case: &Case<'_>) -> Evidence {
    unused(case).and_then(|_| evidence(case))
}

/// Another GPU with room that nobody uses: only then was this one the wrong choice.
fn unused<'c, 'a>(case: &'c Case<'a>) -> Option<&'c OtherGpu<'a>> {
    case.other_gpu.as_ref().filter(|other| !other.room.is_shared)
}

pub(super) fn say(case: &Case<'_>) -> String {
    let more = match unused(case) {
        Some(other) if case.log.run.rank.is_none() => format!("{} has room for it.", name_of_device(other.device)),
        _ => "Several ranks share that one GPU.".to_owned(),
    };
    plain_and(case, Some(more))
}
