//! Owns which smaller or larger share of a GPU is worth a step for a serving engine (vLLM's `--gpu-memory-utilization`,
//! SGLang's `--mem-fraction-static`), and how much of its weights to keep in system memory. A share is in thousandths of
//! the GPU; bytes.

use super::template::with_model;
use super::values::{available_ram, gpu_bytes};
use crate::advice::case::Case;
use crate::advice::engine::{self, BESIDE_WEIGHTS, VLLM_SHARE, as_option, engine_of, holds_weights, set_share};
use crate::advice::rerun::Changes;
use crate::knowledge::diagnosis::Phase;
use crate::memory::vllm;
use crate::units::Bytes;

/// What a share is lowered or raised by where the log does not tell how much is short: for vLLM, and for SGLang
/// by its own advice.
const VLLM_STEP: u64 = 50;
const SGLANG_STEP: u64 = 80;
/// What a share is set above the least one that SGLang names: at that one no cache would be left.
const SGLANG_CACHE: u64 = 20;
/// The most that leaves something to the driver and to what else shows on a screen.
const LARGEST_SHARE: u64 = 950;
/// A smaller share is no guess where the weights are not known.
const LEAST_SHARE: u64 = 200;

/// A share that is smaller than the one that was used and holds the weights, where they are known; as the option takes
/// it. `None` where there is none, or where a smaller one cannot help.
pub(crate) fn smaller(case: &Case<'_>) -> Option<String> {
    let capacity = case.capacity()?;
    if has_no_cache_yet(case) {
        return None;
    }
    let used = engine::used_share(case.log, Some(capacity))?;
    let share = wanted_share(case, used, capacity)? / 10 * 10;
    let weights = weights(case);
    let is_possible = if weights.is_some() { holds_weights(share, capacity, weights) } else { share >= LEAST_SHARE };
    (share < used && is_possible).then(|| as_option(share))
}

/// While weights are loaded and in the trial run nothing of the engine's share is a cache: a smaller one leaves no more.
fn has_no_cache_yet(case: &Case<'_>) -> bool {
    case.log.phase == Phase::Load || engine::is_in_trial_run(case.log)
}

/// Whether a smaller share may help, though no figure tells which.
pub(crate) fn may_be_smaller(case: &Case<'_>) -> bool {
    let is_unknown = case.capacity().and_then(|capacity| engine::used_share(case.log, Some(capacity))).is_none();
    is_unknown && !has_no_cache_yet(case)
}

fn wanted_share(case: &Case<'_>, used: u64, capacity: Bytes) -> Option<u64> {
    let possible = case.available().map(|available| vllm::possible_utilization(available, capacity));
    if engine::more_than_is_free(case.log) {
        return possible;
    }
    let step = if engine_of(case.log) == Some("vllm") { VLLM_STEP } else { SGLANG_STEP };
    let lower = used.saturating_sub(short_share(case, capacity).unwrap_or(0).max(step));
    match possible {
        Some(possible) if case.ledger.as_ref().is_some_and(|ledger| ledger.is_now) => Some(lower.min(possible)),
        _ => Some(lower),
    }
}

/// What the request was short by, and a quarter more, as a share.
fn short_share(case: &Case<'_>, capacity: Bytes) -> Option<u64> {
    let facts = &case.log.facts;
    let short = facts.requested_bytes?.less(facts.free_bytes.unwrap_or(Bytes::ZERO));
    Some(vllm::possible_utilization(Bytes(short.0.saturating_mul(5) / 4), capacity))
}

/// What a smaller share leaves to the rest of the GPU, by its option's value; of an engine that ran out beside its share.
pub(crate) fn leaves(case: &Case<'_>, value: &str) -> Option<Bytes> {
    if engine::more_than_is_free(case.log) {
        return None;
    }
    let capacity = case.capacity()?;
    let used = vllm::allowed(capacity, engine::used_share(case.log, Some(capacity))?);
    Some(used.less(vllm::allowed(capacity, thousandths(value)?)))
}

/// Whether the share of this option's value holds the weights and the KV cache of one request by the model's own sums;
/// `None` where they are not known.
pub(crate) fn holds_the_model(case: &Case<'_>, value: &str) -> Option<bool> {
    let parts = case.fit_ahead()?.parts.as_ref()?;
    let wanted = parts.weights.bytes?.plus(parts.kv_cache.bytes?);
    Some(wanted <= vllm::allowed(case.capacity()?, thousandths(value)?))
}

/// Whether the share that the engine had is known.
pub(crate) fn is_known(case: &Case<'_>) -> bool {
    engine::used_share(case.log, gpu_bytes(case)).is_some()
}

/// A larger share as a step proposes it: SGLang's leaves room for what it computes with, so that it grows a little
/// at a time (docs/advanced_features/hyperparameter_tuning.md).
pub(crate) fn larger_to_try(case: &Case<'_>) -> Option<String> {
    let larger = larger(case)?;
    let (Some("sglang"), Some(set)) = (engine_of(case.log), set_share(case.log)) else { return Some(larger) };
    let wanted = match engine::least_share(case.log) {
        Some(least) => least.saturating_add(SGLANG_CACHE),
        None => set.saturating_add(SGLANG_STEP),
    };
    let possible = thousandths(&larger)?;
    if engine::least_share(case.log).is_some_and(|least| least >= possible) {
        return None;
    }
    Some(as_option(possible.min(wanted / 10 * 10)))
}

/// A larger share that is free on the GPU: what was used already is no step.
fn larger(case: &Case<'_>) -> Option<String> {
    let capacity = gpu_bytes(case);
    let free = case.place.device_unless_elsewhere().and_then(|device| device.memory.free_bytes.value());
    let possible = free.zip(capacity).map_or(1000, |(free, capacity)| vllm::possible_utilization(free, capacity));
    let share = possible.min(LARGEST_SHARE) / 10 * 10;
    (share > engine::used_share(case.log, capacity)?).then(|| as_option(share))
}

/// An option's value of two digits in thousandths.
fn thousandths(value: &str) -> Option<u64> {
    Some(value.strip_prefix("0.")?.parse::<u64>().ok()?.saturating_mul(10))
}

/// A share that was set too small for the weights, and the command with a larger one.
pub(crate) struct TooSmall {
    pub set: String,
    pub command: String,
}

/// Where the share that was set does not hold the weights and a larger one would.
pub(crate) fn too_small(case: &Case<'_>) -> Option<TooSmall> {
    let (engine, set) = (engine_of(case.log)?, set_share(case.log)?);
    let capacity = case.place.capacity().or(case.log.facts.total_bytes)?;
    let value = larger(case)?;
    let weights = engine::weights_per_gpu(case.log, None);
    if holds_weights(set, capacity, weights) || !holds_weights(thousandths(&value)?, capacity, weights) {
        return None;
    }
    let command = match engine {
        "vllm" => format!("vllm serve MODEL --gpu-memory-utilization {value}"),
        _ => format!("python -m sglang.launch_server --model-path MODEL --mem-fraction-static {value}"),
    };
    let command = match (in_own_command(case, &command), &case.log.run.model) {
        (Some(own), _) => own,
        (None, Some(model)) => with_model(&command, model),
        (None, None) => command,
    };
    Some(TooSmall { set: as_option(set), command })
}

/// The person's own command line with the change made.
fn in_own_command(case: &Case<'_>, command: &str) -> Option<String> {
    Changes::of(command)?.apply(case.command?, case.situation.form())
}

fn weights(case: &Case<'_>) -> Option<Bytes> {
    let estimated = case.fit_ahead().and_then(|fit| fit.parts.as_ref()?.weights.bytes);
    engine::weights_per_gpu(case.log, estimated)
}

/// The GiB of weights that must stay in system memory so that the rest and one request fit the share. `None` where that
/// is not known, none need to, or this machine has not so much.
pub(crate) fn offload(case: &Case<'_>) -> Option<String> {
    let (capacity, weights) = (case.capacity()?, weights(case)?);
    let cache = case.fit_ahead().and_then(|fit| fit.parts.as_ref()?.kv_cache.bytes).unwrap_or(Bytes::gib(1));
    // What a larger share would hold need not leave the GPU.
    let share = vllm::allowed(capacity, engine::used_share(case.log, Some(capacity))?.max(VLLM_SHARE));
    let over = weights.plus(cache).plus(BESIDE_WEIGHTS).less(share);
    let gib = over.0.div_ceil(1 << 30);
    let has_enough_ram = available_ram(case).is_none_or(|available| available > Bytes::gib(gib));
    // With next to nothing of it on the GPU, the GPU no longer does the computing.
    (gib > 0 && over < weights && has_enough_ram).then(|| gib.to_string())
}
