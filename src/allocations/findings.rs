//! Owns what a snapshot shows of why memory ran out: each finding a rule with its figures. `advice` makes causes and steps
//! of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::told::{Alive, CodeLine, Filled};
use crate::units::Bytes;

/// Pending frees or rounding below this share of what is reserved are usual.
const NOTABLE_PERCENT: u64 = 5;
/// A request of this share of what the GPU must have at least is a spike.
const SPIKE_PERCENT: u64 = 25;
/// Memory beside the allocator that a CUDA context and libraries explain.
const USUAL_OUTSIDE: Bytes = Bytes::gib(2);
/// Functions that compute a loss, whose logits are one number per token and word.
const LOSS: [&str; 5] = ["cross_entropy", "nll_loss", "log_softmax", "compute_loss", "logits"];

/// A rank that has this much of what any other has does more than its share.
const UNEVEN_PERCENT: u64 = 125;
/// What a CUDA context or a few tensors of a rank leave on another GPU explains no failure.
const STRAY: Bytes = Bytes::mib(64);

/// What explains the failure or makes it worse.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub kind: FindingKind,
    /// How much it is about.
    pub bytes: Bytes,
    /// The line of the program's own code that it is about.
    pub at: Option<CodeLine>,
    /// The finding in words, as the end of "the snapshot shows that …".
    pub said: String,
}

/// What kind of finding it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Enough is free where the request could be served from, in pieces too small.
    Fragmentation,
    /// What is free in the pool of a CUDA graph would have been enough.
    LockedPool,
    /// Much was freed while a stream still uses it.
    PendingFree,
    /// What a line allocates rises from step to step.
    Growth,
    /// It failed where the optimizer makes its state, at its first step.
    OptimizerState,
    /// Rounding takes much.
    Rounding,
    /// The process uses much beside PyTorch's allocator.
    Outside,
    /// The request alone is a large part of what the process could get, and was made where a loss is computed.
    Logits,
    /// The request alone is a large part of what the process could get.
    LargeRequest,
    /// The rank that failed has far more allocated than the others.
    UnevenRanks,
    /// A rank that works on another GPU also has memory on this one.
    StrayRank,
}

/// What a snapshot shows, in the order of `FindingKind`.
pub fn find(filled: &Filled) -> Vec<Finding> {
    let found = [fragmentation, locked_pool, pending_free, growth, optimizer_state, rounding, outside, large_request];
    found.into_iter().filter_map(|rule| rule(filled)).collect()
}

/// What the snapshots of several ranks show together, about the first of them, which failed.
pub fn among_ranks(all: &[Filled]) -> Vec<Finding> {
    let Some((leading, others)) = all.split_first() else { return Vec::new() };
    let Some(rank) = leading.rank.filter(|_| leading.request.is_some()) else { return Vec::new() };
    let others: Vec<&Filled> = others.iter().filter(|other| other.rank.is_some_and(|other| other != rank)).collect();
    [uneven_ranks(leading, rank, &others), stray_rank(leading, &others)].into_iter().flatten().collect()
}

fn uneven_ranks(leading: &Filled, rank: u32, others: &[&Filled]) -> Option<Finding> {
    let has = leading.allocated_bytes;
    let most = others.iter().map(|other| other.allocated_bytes).max()?;
    let more = has.less(most);
    if !is_share(has, UNEVEN_PERCENT, most) || more < missing(leading)? {
        return None;
    }
    Some(Finding {
        kind: FindingKind::UnevenRanks,
        bytes: more,
        at: None,
        said: format!("rank {rank} has {has} allocated, and no other rank more than {most}"),
    })
}

/// Only a process that sees several GPUs numbers them as the others do.
fn stray_rank(leading: &Filled, others: &[&Filled]) -> Option<Finding> {
    let has = Filled::reserved_at_least;
    let strays = others.iter().filter(|stray| {
        let works_elsewhere =
            others.iter().any(|own| own.rank == stray.rank && own.device != leading.device && has(own) > has(stray));
        stray.device == leading.device && has(stray) >= STRAY && works_elsewhere
    });
    let strays: Vec<&&Filled> = strays.collect();
    let bytes = strays.iter().fold(Bytes::ZERO, |sum, stray| sum.plus(has(stray)));
    let ranks: Vec<String> = strays.iter().filter_map(|stray| stray.rank).map(|rank| rank.to_string()).collect();
    let (ranks, gpu) = (
        match ranks.as_slice() {
            [] => return None,
            [one] => format!("rank {one}, which works on another GPU, also has"),
            several => format!("ranks {}, which work on other GPUs, also have", several.join(", ")),
        },
        leading.device,
    );
    Some(Finding { kind: FindingKind::StrayRank, bytes, at: None, said: format!("{ranks} {bytes} on GPU {gpu}") })
}

fn is_share(part: Bytes, percent: u64, whole: Bytes) -> bool {
    part > Bytes::ZERO && u128::from(part.0) * 100 >= u128::from(whole.0) * u128::from(percent)
}

/// What the request was short of, beyond what CUDA had free.
fn missing(filled: &Filled) -> Option<Bytes> {
    let request = filled.request.as_ref()?;
    Some(request.bytes.less(request.free_bytes)).filter(|missing| *missing > Bytes::ZERO)
}

/// Whether expandable segments would have served the request: their pages can be moved to where they are needed.
pub fn would_fit_if_expandable(filled: &Filled) -> bool {
    filled.request.as_ref().zip(filled.totals.as_ref()).is_some_and(|(request, totals)| {
        totals.has_expandable_segments != Some(true)
            && totals.largest_usable_bytes < request.bytes
            && totals.movable_bytes.plus(request.free_bytes) >= request.bytes
    })
}

fn fragmentation(filled: &Filled) -> Option<Finding> {
    let (totals, request) = (filled.totals.as_ref()?, filled.request.as_ref()?);
    if !would_fit_if_expandable(filled) || totals.usable_bytes < request.bytes {
        return None;
    }
    let (usable, largest) = (totals.usable_bytes, totals.largest_usable_bytes);
    Some(Finding {
        kind: FindingKind::Fragmentation,
        bytes: usable,
        at: filled.unusable.iter().find(|row| row.why == super::told::WhyUnusable::InPieces)?.beside.clone(),
        said: format!(
            "PyTorch had {usable} free for a request of {}, but the largest piece was {largest}",
            request.bytes
        ),
    })
}

fn locked_pool(filled: &Filled) -> Option<Finding> {
    let locked = filled.totals.as_ref()?.locked_bytes;
    (locked >= missing(filled)?).then(|| Finding {
        kind: FindingKind::LockedPool,
        bytes: locked,
        at: None,
        said: format!(
            "{locked} is free in pools of CUDA graphs or of a MemPool, which nothing else can use; empty_cache() does not free it"
        ),
    })
}

fn pending_free(filled: &Filled) -> Option<Finding> {
    let totals = filled.totals.as_ref()?;
    let pending = totals.pending_free_bytes;
    is_share(pending, NOTABLE_PERCENT, totals.reserved_bytes).then(|| Finding {
        kind: FindingKind::PendingFree,
        bytes: pending,
        at: None,
        said: format!("{pending} was freed but waits for a stream that still uses it (record_stream)"),
    })
}

fn growth(filled: &Filled) -> Option<Finding> {
    let growth = filled.growth.first()?;
    let points = if growth.is_by_step { "steps" } else { "equal parts of the record" };
    Some(Finding {
        kind: FindingKind::Growth,
        bytes: growth.to_bytes.less(growth.from_bytes),
        at: Some(growth.at.clone()),
        said: format!(
            "what {} allocates rose from {} to {} over {} {points}",
            growth.at, growth.from_bytes, growth.to_bytes, growth.points
        ),
    })
}

/// Whether a line is in PyTorch's optimizers, where the state is made.
fn makes_optimizer_state(line: &CodeLine) -> bool {
    let file = line.file.replace('\\', "/");
    file.contains("torch/optim/") || line.function == "_init_group"
}

fn optimizer_state(filled: &Filled) -> Option<Finding> {
    let request = filled.request.as_ref()?;
    let is_making_it = request.stack.iter().any(|line| line.function == "_init_group")
        || request.inner.as_ref().is_some_and(makes_optimizer_state);
    if !is_making_it {
        return None;
    }
    let state = filled.alive.iter().filter(|row| is_optimizer_state(row));
    Some(Finding {
        kind: FindingKind::OptimizerState,
        bytes: state.fold(Bytes::ZERO, |sum, row| sum.plus(row.bytes)),
        at: request.at.clone(),
        said: "the request was for the optimizer's state, which its first step makes".to_owned(),
    })
}

/// Whether what is alive is the optimizer's state, as far as its lines tell.
fn is_optimizer_state(row: &Alive) -> bool {
    row.inner.iter().chain(&row.at).any(makes_optimizer_state)
}

fn rounding(filled: &Filled) -> Option<Finding> {
    let totals = filled.totals.as_ref()?;
    let rounding = totals.rounding_bytes?;
    is_share(rounding, NOTABLE_PERCENT, totals.reserved_bytes).then(|| Finding {
        kind: FindingKind::Rounding,
        bytes: rounding,
        at: None,
        said: format!("rounding of block sizes takes {rounding}"),
    })
}

fn outside(filled: &Filled) -> Option<Finding> {
    let outside = filled.outside_bytes?;
    (outside > USUAL_OUTSIDE).then(|| Finding {
        kind: FindingKind::Outside,
        bytes: outside,
        at: None,
        said: format!(
            "the process uses {outside} beside PyTorch's allocator: CUDA context, NCCL buffers or other libraries"
        ),
    })
}

/// Whether a finding stands now that the GPU's capacity is known: a request may be a large part of what other processes
/// left, and a small one of the GPU.
pub fn stands(finding: &Finding, capacity: Bytes) -> bool {
    !matches!(finding.kind, FindingKind::Logits | FindingKind::LargeRequest)
        || is_share(finding.bytes, SPIKE_PERCENT, capacity)
}

/// The GPU has at least what is reserved and what was free.
fn large_request(filled: &Filled) -> Option<Finding> {
    let request = filled.request.as_ref()?;
    let least_capacity = filled.reserved_at_least().plus(request.free_bytes);
    let is_alone = filled.alive.iter().all(|row| row.at != request.at || row.largest_bytes < request.bytes);
    if !is_alone || !is_share(request.bytes, SPIKE_PERCENT, least_capacity) {
        return None;
    }
    let at = request.at.as_ref().map_or_else(String::new, |at| format!(" of {at}"));
    let is_loss = request.stack.iter().any(|line| LOSS.iter().any(|part| line.function.contains(part)));
    Some(Finding {
        kind: if is_loss { FindingKind::Logits } else { FindingKind::LargeRequest },
        bytes: request.bytes,
        at: request.at.clone(),
        said: format!("one request{at} for {} is a quarter or more of what the process could get", request.bytes),
    })
}
