//! Owns the compute buffer in builds of llama.cpp before June 2026, and of programs that keep logits for each token of a
//! micro-batch: within 1 % on CUDA for dense models, up to 7 % low with long f16 contexts, 13 % low for latent attention,
//! 5 % low on Metal for gpt-oss, up to 45 % low with only some of the layers on the card.
//! Source: published logs of 2024 to 2026, read on 2026-11-20. In bytes.

use super::{FEWEST_PASSING, Graph, scratch};
use crate::memory::settings::{Backend, Settings};

/// Bytes of the compute buffer on one device for a padded context; `None` past u64.
pub(super) fn buffer(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    let tokens = settings.tokens_at_once(context);
    let logits = logits_phase(graph, settings.backend, tokens)?;
    let attention = if graph.attends { attention_phase(graph, settings, context, tokens)? } else { 0 };
    let passing = if tokens < FEWEST_PASSING { 0 } else { passing_phase(graph, settings, context, tokens)? };
    Some(logits.max(attention).max(passing))
}

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

/// Logits of a micro-batch beside its hidden states, at four bytes each.
fn logits_phase(graph: &Graph, backend: Backend, tokens: u64) -> Option<u64> {
    let copies = if backend == Backend::Cpu { 2 } else { 1 };
    let states = graph.embedding.checked_mul(copies)?.checked_mul(tokens)?;
    graph.vocab.checked_mul(tokens)?.checked_add(states)?.checked_mul(4)
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
