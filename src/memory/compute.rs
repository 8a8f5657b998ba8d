//! Owns the compute buffer of one device: the largest phase of a graph. About: within 1 % on CUDA for dense models,
//! up to 7 % low with long f16 contexts, 13 % low for latent attention, 5 % low on Metal for gpt-oss, 45 % low on
//! Vulkan with `-ub 2048`, up to 45 % low with only some of the layers on the card; plan with `margin`. Of 19 figures
//! that nothing here was fitted to, 13 lay within a tenth or 64 MiB.
//! Source: graphs of llama.cpp 0.6.0 and published logs, read on 2026-11-21. In bytes. Knows nothing of caches' sizes.

use super::ggml::GgmlType;
use super::settings::{Backend, Outputs, Settings};

/// What the graph's size depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Width of the hidden state.
    pub embedding: u64,
    /// Attention heads.
    pub heads: u64,
    /// Vocabulary.
    pub vocab: u64,
    /// Elements of the widest K and V rows.
    pub widest: (u64, u64),
    /// Latent attention.
    pub mla: bool,
    /// Whether any layer attends at all.
    pub attends: bool,
    /// Bytes of the largest matrix in system memory that is brought over for a batch; 0 where none is.
    pub passing: u64,
}

/// Bytes of the compute buffer on one device for a padded context; `None` past u64.
pub fn buffer(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    let tokens = settings.tokens_at_once(context);
    let rows = match settings.outputs {
        Outputs::MicroBatch => tokens,
        Outputs::Slots => settings.parallel.max(1).min(tokens),
    };
    let logits = logits_phase(graph, settings.backend, tokens, rows)?;
    let attention = if graph.attends { attention_phase(graph, settings, context, tokens)? } else { 0 };
    let passing = if tokens < FEWEST_PASSING { 0 } else { passing_phase(graph, settings, context, tokens)? };
    Some(logits.max(attention).max(passing))
}

/// Fewer tokens are computed where the matrix is.
const FEWEST_PASSING: u64 = 32;

/// Matrices in system memory pass through the card's buffer while a batch is computed, two at a time, beside its mask
/// and states. Seen: 5388 MiB where two are 5040 (GLM-5.2 with experts on the host), 497 where two are 420 and the
/// logits 493 (Qwen3.6-35B-A3B).
fn passing_phase(graph: &Graph, settings: &Settings, context: u64, tokens: u64) -> Option<u64> {
    if graph.passing == 0 || settings.backend == Backend::Cpu {
        return Some(0);
    }
    let mask = context.checked_mul(tokens)?.checked_mul(2)?;
    let states = graph.embedding.checked_mul(tokens)?.checked_mul(32)?;
    graph.passing.checked_mul(2)?.checked_add(mask)?.checked_add(states)
}

/// Logits of `rows` tokens beside the hidden states of a micro-batch, at four bytes each.
fn logits_phase(graph: &Graph, backend: Backend, tokens: u64, rows: u64) -> Option<u64> {
    let copies = if backend == Backend::Cpu { 2 } else { 1 };
    let states = graph.embedding.checked_mul(copies)?.checked_mul(tokens)?;
    graph.vocab.checked_mul(rows)?.checked_add(states)?.checked_mul(4)
}

fn attention_phase(graph: &Graph, settings: &Settings, context: u64, tokens: u64) -> Option<u64> {
    let gpu = settings.backend == Backend::Gpu;
    let scores = if settings.flash_attention {
        // The mask is f16; over several cards each holds four, for the pipeline.
        let masks = if settings.devices > 1 { 4 } else { 1 };
        if gpu { context.checked_mul(tokens)?.checked_mul(2)?.checked_mul(masks)? } else { 0 }
    } else {
        // Each head's scores and the mask in f32, which a pipeline over several cards has four of.
        let masks = if settings.devices > 1 { 4 } else { 1 };
        context.checked_mul(tokens)?.checked_mul(graph.heads.checked_add(masks)?)?.checked_mul(4)?
    };
    // Copies of the hidden states that are alive, in halves: 8 with flash attention, 4 without, 5.5 on the processor.
    let halves = match (settings.flash_attention, gpu) {
        (true, true) => 16,
        (true, false) => 0,
        (false, true) => 8,
        (false, false) => 11,
    };
    let states = graph.embedding.checked_mul(tokens)?.checked_mul(halves)?.checked_mul(2)?;
    let latent = if graph.mla { tokens.checked_mul(graph.heads)?.checked_mul((2 * 512 + 64) * 4)? } else { 0 };
    let scratch = if gpu { scratch(graph, settings, context)? } else { 0 };
    scores.checked_add(states)?.checked_add(latent)?.checked_add(scratch)
}

/// The f16 copy of one layer's K and V that CUDA makes of a quantised cache with flash attention (since b9489, June
/// 2026), in bytes. V of latent attention is a view of K.
pub fn scratch(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    if !settings.flash_attention {
        return Some(0);
    }
    let copied = |kind: GgmlType, elements: u64| if kind.is_quantised() { elements } else { 0 };
    let (k, v) = graph.widest;
    let elements = copied(settings.k_type, k).checked_add(if graph.mla { 0 } else { copied(settings.v_type, v) })?;
    elements.checked_mul(context)?.checked_mul(2)
}

/// What to keep free beside an estimated buffer: a tenth of it, at least 64 MiB.
pub fn margin(buffer: u64) -> u64 {
    (buffer / 10).max(64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA_8B: Graph = Graph {
        embedding: 4096,
        heads: 32,
        vocab: 128_256,
        widest: (1024, 1024),
        mla: false,
        attends: true,
        passing: 0,
    };

    fn mib(settings: Settings, context: u64) -> f64 {
        buffer(&LLAMA_8B, &settings, context).unwrap() as f64 / 1_048_576.0
    }

    #[test]
    fn the_worked_example_comes_out() {
        let all = Settings { backend: Backend::Cpu, ..Settings::default() };
        assert_eq!(mib(all, 32_768), 266.5);
        assert_eq!(mib(Settings { flash_attention: false, ..all }, 8192), 572.0);
        let slots = Settings { outputs: Outputs::Slots, ..Settings::default() };
        assert_eq!(mib(slots, 32_768), 96.0, "a mask of 32 MiB and the states");
        let q8 = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, ..slots };
        assert_eq!(mib(q8, 32_768), 96.0 + 128.0, "with the f16 copy of one layer");
        let experts = Graph { passing: 200 << 20, ..LLAMA_8B };
        assert_eq!(buffer(&experts, &slots, 32_768), Some((2 * 200 + 32 + 64) << 20), "two matrices, mask, states");
        assert_eq!(buffer(&experts, &Settings { micro_batch: 16, ..slots }, 32_768), Some(3 << 20), "too few tokens");
        let three = Settings { devices: 3, ..slots };
        assert_eq!(mib(three, 32_768), 96.0 + 3.0 * 32.0, "four masks on each of several cards");
        let off = Settings { flash_attention: false, ..slots };
        assert!((2090.0..2150.0).contains(&mib(off, 32_768)), "{}", mib(off, 32_768));
    }

    #[test]
    fn sizes_past_all_numbers_are_none() {
        assert_eq!(buffer(&LLAMA_8B, &Settings::default(), u64::MAX), None);
    }
}
