//! Owns the compute buffer on the processor: within 1 % for most models, 13 % low for latent attention. Source: what
//! llama.cpp 0.5.0 reserves without a GPU, and published logs of 2024 to 2026, read on 2026-11-20. In bytes.

use super::graph::Graph;
use super::phases::bytes_of;
use crate::memory::settings::Settings;

/// Bytes of the compute buffer for a padded context; `None` past u64.
pub(super) fn buffer(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    let tokens = settings.tokens_at_once(context);
    // A row of logits for each token beside two copies of its states.
    let logits = bytes_of(tokens, graph.vocab.checked_add(graph.embedding.checked_mul(2)?)?)?;
    if !graph.attends {
        return Some(logits);
    }
    let latent = if graph.mla { bytes_of(tokens, graph.heads.checked_mul(2 * 512 + 64)?)? } else { 0 };
    let attention = if settings.flash_attention {
        latent
    } else {
        // Each head's scores and the mask, and eleven halves of copies of the hidden states.
        let scores = bytes_of(tokens, graph.heads.checked_add(1)?.checked_mul(context)?)?;
        let states = graph.embedding.checked_mul(tokens)?.checked_mul(22)?;
        scores.checked_add(states)?.checked_add(latent)?
    };
    Some(logits.max(attention))
}
