//! Owns what is alive at once in a GPU's compute buffer, phase by phase, beside the masks and without logits: the
//! feed-forward part, attention, and what comes over from system memory. The same in all builds of llama.cpp. In bytes
//! where not said otherwise.

use super::graph::{FEWEST_PASSING, Graph, Place, WIDE, times};

/// Numbers for each token: the largest phase, without masks.
fn states(graph: &Graph) -> Option<u64> {
    let hidden = graph.embedding;
    // Gate, up and their product beside the hidden states.
    let forward = times(3, graph.feed_forward)?.checked_add(times(4, hidden)?)?;
    // Each expert's result, and its share of the sum.
    let experts = times(graph.experts_used.checked_mul(2)?, hidden)?;
    let experts = if graph.experts_used > 0 { experts.checked_add(times(5, hidden)?)? } else { 0 };
    // The inputs of the layers are there twice: seen on Vulkan, in 0.6.0 once.
    forward.max(experts).max(times(8, hidden)?).checked_add(times(2, graph.per_layer)?)
}

/// Numbers for each token while it attends, without scores.
fn attending(graph: &Graph) -> Option<u64> {
    let hidden = graph.embedding;
    if graph.mla {
        let states = match (graph.indexed, graph.place) {
            (false, _) => 8,
            (true, Place::Middle | Place::Last) => 12,
            (true, _) => return hidden.checked_mul(46),
        };
        return hidden.checked_mul(states)?.checked_add(graph.heads.checked_mul(2 * 512 + 64)?);
    }
    let query = if graph.query > 0 { graph.query } else { hidden };
    let queries = query.checked_mul(if graph.gated { 6 } else { 3 })?;
    let rest = hidden.checked_add(graph.widest.0)?.checked_add(graph.per_layer)?;
    queries.checked_add(rest.checked_mul(2)?)
}

/// Bytes of so many numbers for each of so many tokens while they are computed.
pub(super) fn bytes_of(tokens: u64, numbers: u64) -> Option<u64> {
    numbers.checked_mul(tokens)?.checked_mul(WIDE)
}

/// The largest phase of a batch of so many tokens. `scores` are what attention has beside it: each head's scores, or a
/// copy of the cache.
pub(super) fn largest(graph: &Graph, tokens: u64, scores: u64, flash_attention: bool) -> Option<u64> {
    let computing = bytes_of(tokens, states(graph)?)?;
    let attention = if graph.attends { bytes_of(tokens, attending(graph)?)?.checked_add(scores)? } else { 0 };
    if graph.passing == 0 || tokens < FEWEST_PASSING {
        return Some(computing.max(attention));
    }
    let (attention, forward) = beside_what_comes_over(graph, attention, scores, flash_attention, tokens)?;
    Some(computing.max(attention).max(forward))
}

/// Attention and the feed-forward part where weights and caches in system memory come over for a batch, one matrix at a
/// time, into the room that the one before left, or behind all if that is too small.
fn beside_what_comes_over(
    graph: &Graph,
    attention: u64,
    scores: u64,
    flash_attention: bool,
    tokens: u64,
) -> Option<(u64, u64)> {
    let (matrix, hidden, forward) = (graph.passing, graph.embedding, graph.feed_forward);
    // Of a latent cache, K comes over and the part of it that serves as V.
    let cache = graph.passing_cache.checked_mul(if graph.mla { 2 } else { 1 })?;
    let behind = match cache.checked_add(scores)? {
        _ if graph.gated && cache > 0 => matrix.max(cache / 2),
        // An indexer's scores and states leave room for it.
        room if flash_attention && !graph.indexed && room < matrix => matrix,
        _ => 0,
    };
    let attention = attention.checked_add(cache)?.checked_add(behind)?;
    let forward = if graph.experts_used > 0 {
        let given = times(graph.experts_used.checked_add(4)?, hidden)?;
        matrix.checked_add(bytes_of(tokens, forward.checked_add(given)?)?)?
    } else {
        let hidden = times(5, hidden)?;
        let with_matrix = matrix.checked_add(bytes_of(tokens, times(2, forward)?.checked_add(hidden)?)?)?;
        with_matrix.max(bytes_of(tokens, times(3, forward)?.checked_add(hidden)?)?)
    };
    Some((attention, forward))
}
