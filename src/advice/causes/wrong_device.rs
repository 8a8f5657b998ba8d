//! Owns the wrong device: several ranks share one GPU, or another GPU has room for all of it.

use super::evidence::line_of;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::figures::are_ranks;
use crate::advice::naming::name_of_device;
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::knowledge::diagnosis::MemoryKind;

pub(crate) const ABOUT: About = About {
    id: CauseKind::WrongDevice,
    name: "wrong device",
    // Ranks that share a GPU need GPUs of their own; nobody else has to go.
    blames: Blames::NobodyElse,
    speaks_of_size: SpeaksOfSize::WhileLoading,
    is_solved_by_another_gpu: true,
    say,
    prevent,
};

pub(crate) const RANKS_SHARE_A_GPU: Rule = Rule {
    about: &ABOUT,
    name: "a rank ran on GPU 0 beside other processes",
    strength: Strength::Proven,
    find: |case| if has_company(case) && misplaced_rank(case).is_some() { evidence(case) } else { None },
};

pub(crate) const OTHER_GPU_HAS_ROOM: Rule = Rule {
    about: &ABOUT,
    name: "another GPU has room and is unused",
    strength: Strength::Hint,
    find: |case| if case.other_gpu.is_some() { evidence(case) } else { None },
};

pub(crate) const RANK_ON_GPU_0: Rule =
    Rule { about: &ABOUT, name: "a rank ran on GPU 0 alone", strength: Strength::Hint, find: evidence };

fn evidence(case: &Case<'_>) -> Option<Vec<String>> {
    if case.log.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let mut evidence = Vec::new();
    if let Some(rank) = misplaced_rank(case) {
        let others = case.log.facts.other_processes.len();
        let company = if others > 0 { format!(", beside {others} other processes") } else { String::new() };
        evidence.push(format!(
            "rank {rank} ran on GPU 0{company}{}: each rank should have a card of its own",
            line_of(case.log)
        ));
    }
    if let Some(other) = &case.other_gpu {
        evidence.push(format!("{} has {} free: {}", name_of_device(other.device), other.room.free, other.room.seen));
    }
    (!evidence.is_empty()).then_some(evidence)
}

/// The rank that ran on a GPU which is not its own.
fn misplaced_rank(case: &Case<'_>) -> Option<u64> {
    let rank = case.log.run.rank?;
    (rank > 0 && case.log.facts.device == Some(0) || are_ranks(case.log)).then_some(rank)
}

fn has_company(case: &Case<'_>) -> bool {
    !case.log.facts.other_processes.is_empty()
}

fn say(case: &Case<'_>) -> String {
    match &case.other_gpu {
        Some(other) if case.log.run.rank.is_none() => {
            format!("{} {} has room for it.", plain(case), name_of_device(other.device))
        }
        _ => format!("{} Several ranks share that one card.", plain(case)),
    }
}

fn prevent(_is_training: bool) -> &'static str {
    "Give each rank its own card (torch.cuda.set_device(local_rank)), or name the card with CUDA_VISIBLE_DEVICES."
}
