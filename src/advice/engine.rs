//! Owns the share of a GPU that a serving engine fills (vLLM's `--gpu-memory-utilization`, SGLang's
//! `--mem-fraction-static`): what the failed run used, and what it asked for beside its share. A share is in thousandths
//! of the GPU; bytes.

use super::figures::run_had;
use super::weights::weights_by_name;
use crate::knowledge::{Diagnosis, EntryId, MemoryKind, Phase, Program, Stage};
use crate::memory::{sglang, vllm};
use crate::units::Bytes;

/// Beside its weights an engine needs a CUDA context and room to work in.
pub(crate) const BESIDE_WEIGHTS: Bytes = Bytes::gib(1);
/// vLLM's default before 0.20; later ones take a little more.
pub(crate) const VLLM_SHARE: u64 = 900;

/// These failures say that the share was more than what is free, before anything was loaded.
const MORE_THAN_IS_FREE: &[EntryId] = &[EntryId::VLLM_FREE_MEMORY_LESS_THAN_DESIRED, EntryId::VLLM_CUMEM_OUT_OF_MEMORY];

/// And these that nothing of it was left for the KV cache.
const NOTHING_LEFT: &[EntryId] = &[EntryId::VLLM_NO_MEMORY_FOR_CACHE_BLOCKS, EntryId::SGLANG_NOT_ENOUGH_MEMORY];

/// The engine whose share it is: one that fills it, however small the model.
pub(crate) fn engine_of(diagnosis: &Diagnosis) -> Option<&'static str> {
    let names = [diagnosis.program.as_deref(), diagnosis.raised_by.as_deref()];
    ["vllm", "sglang"].into_iter().find(|engine| names.contains(&Some(engine)))
}

/// The share that the failed run was given, by its log or command line.
pub(crate) fn set_share(diagnosis: &Diagnosis) -> Option<u64> {
    let engine = engine_of(diagnosis)?;
    let name = if engine == "vllm" { "gpu_memory_utilization" } else { "mem_fraction_static" };
    share_of(diagnosis.run.printed.get(name).or(diagnosis.run.share.as_ref())?)
}

/// The least share that holds the weights, by the engine's own message.
pub(crate) fn least_share(diagnosis: &Diagnosis) -> Option<u64> {
    share_of(diagnosis.run.least_share.as_ref()?)
}

fn share_of(text: &str) -> Option<u64> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    share.map(|share| (share * 1000.0).round() as u64)
}

/// The share that the failed run used: by its log or command line, else its engine's default.
pub(crate) fn used_share(diagnosis: &Diagnosis, capacity: Option<Bytes>) -> Option<u64> {
    set_share(diagnosis).or_else(|| match engine_of(diagnosis)? {
        "vllm" => Some(VLLM_SHARE),
        _ => Some(sglang::Serving::of_card(Some(capacity?), diagnosis.run.tensor_parallel.unwrap_or(1)).fraction),
    })
}

/// The engine's share in words, with the figure where the log has it.
pub(crate) fn in_words(diagnosis: &Diagnosis) -> Option<String> {
    let name = Program::known(engine_of(diagnosis)?)?.title();
    let figure = set_share(diagnosis).map_or_else(String::new, |share| format!(" ({})", as_option(share)));
    Some(format!("{name}'s share of the GPU{figure}"))
}

/// What used up the engine's share before its KV cache came; `None` where that is not how it failed.
pub(crate) fn used_up(diagnosis: &Diagnosis) -> Option<String> {
    if !NOTHING_LEFT.contains(&diagnosis.matches.first()?.entry) {
        return None;
    }
    let share = in_words(diagnosis)?;
    Some(match diagnosis.run.weights_bytes {
        Some(weights) => format!("the weights ({weights}) and what the engine works with used up {share}"),
        None => format!("the weights and what the engine works with used up {share}"),
    })
}

/// Whether the failure is that others left less of the GPU than the engine was told to take.
pub(crate) fn more_than_is_free(diagnosis: &Diagnosis) -> bool {
    diagnosis.matches.first().is_some_and(|found| MORE_THAN_IS_FREE.contains(&found.entry))
}

pub(crate) fn as_option(share: u64) -> String {
    match share.checked_rem(10) {
        Some(0) | None => format!("{}.{:02}", share / 1000, share % 1000 / 10),
        Some(_) => format!("{}.{:03}", share / 1000, share % 1000),
    }
}

/// Whether it failed in the run by which vLLM measures its peak, before the KV cache is there.
pub(crate) fn is_in_trial_run(diagnosis: &Diagnosis) -> bool {
    diagnosis.run.stage == Some(Stage::Profiling)
}

/// What the engine asked for beside its share, where it fills its share by design and the model itself is not known to be
/// too large for it. `capacity` is the GPU's, where the log does not print it.
pub(crate) fn requested_beside_share(diagnosis: &Diagnosis, capacity: Option<Bytes>) -> Option<Bytes> {
    let requested = diagnosis.facts.requested_bytes?;
    let has_no_cache_yet = diagnosis.phase == Phase::Load || is_in_trial_run(diagnosis);
    if diagnosis.memory != Some(MemoryKind::Gpu) || has_no_cache_yet || more_than_is_free(diagnosis) {
        return None;
    }
    let capacity = diagnosis.facts.total_bytes.or(capacity)?;
    let share = used_share(diagnosis, Some(capacity))?;
    let is_filled = run_had(diagnosis)?.0 >= vllm::allowed(capacity, share.saturating_sub(100)).0;
    let is_too_heavy = weights_per_gpu(diagnosis, None).is_some_and(|weights| weights > vllm::allowed(capacity, share));
    (is_filled && !is_too_heavy && requested < vllm::allowed(capacity, 500)).then_some(requested)
}

/// The weights on one GPU: as the log prints them, else as `estimated`, else by the model's name.
pub(crate) fn weights_per_gpu(diagnosis: &Diagnosis, estimated: Option<Bytes>) -> Option<Bytes> {
    let run = &diagnosis.run;
    let ranks = run.tensor_parallel.unwrap_or(1).max(1);
    run.weights_bytes.or(estimated).or_else(|| Some(Bytes(weights_by_name(run.model.as_deref()?)?.0 / ranks)))
}

/// Whether the run was told to keep some of its weights in system memory.
pub(crate) fn offloads_weights(diagnosis: &Diagnosis) -> bool {
    let set = diagnosis.run.printed.get("cpu_offload_gb").and_then(|text| text.parse::<f64>().ok());
    set.is_some_and(|gib| gib > 0.0)
}

/// Whether the weights and the engine's own memory fit such a share; where the weights are not known, nothing says
/// that they do not.
pub(crate) fn holds_weights(share: u64, capacity: Bytes, weights: Option<Bytes>) -> bool {
    weights.is_none_or(|weights| weights.plus(BESIDE_WEIGHTS) <= vllm::allowed(capacity, share))
}
