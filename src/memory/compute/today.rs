//! Owns the compute buffer in today's builds of llama.cpp: what is alive at once beside the masks, phase by phase, as
//! its allocator lays it out for a whole micro-batch. Held against llama.cpp 0.6.0's own reservation for 27 models in 489
//! settings, without a card (2026-11-21): with all layers on the card 288 of 288 within a tenth or 64 MiB; with layers or
//! experts in system memory 186 of 201, 4 of the others too low, by at most 21 %. Builds of the months before took up to
//! a quarter more with layers on the host. In bytes.

use super::{FEWEST_PASSING, Graph, scratch};
use crate::memory::settings::{Cells, Settings};

/// Bytes of a number while it is computed.
const WIDE: u64 = 4;

/// Numbers for each token: the largest phase, without masks.
fn states(graph: &Graph) -> Option<u64> {
    let times = |count: u64, width: u64| width.checked_mul(count);
    let hidden = graph.embedding;
    // Gate, up and their product beside the hidden states.
    let forward = times(3, graph.feed_forward)?.checked_add(times(4, hidden)?)?;
    // What each expert gives back, and its share of the sum.
    let experts = times(graph.experts_used.checked_mul(2)?, hidden)?;
    let experts = if graph.experts_used > 0 { experts.checked_add(times(5, hidden)?)? } else { 0 };
    Some(forward.max(experts).max(times(8, hidden)?))
}

/// Numbers for each token while it attends, without scores.
fn attending(graph: &Graph) -> Option<u64> {
    let hidden = graph.embedding;
    if graph.indexed {
        return hidden.checked_mul(46);
    }
    if graph.mla {
        return hidden.checked_mul(8)?.checked_add(graph.heads.checked_mul(2 * 512 + 64)?);
    }
    let query = if graph.query > 0 { graph.query } else { hidden };
    let queries = query.checked_mul(if graph.gated { 6 } else { 3 })?;
    queries.checked_add(hidden.checked_mul(2)?)?.checked_add(graph.widest.0.checked_mul(2)?)
}

/// The masks of whole and windowed layers: halves with flash attention, else four bytes.
fn masks(graph: &Graph, settings: &Settings, cells: Cells, tokens: u64) -> Option<u64> {
    if !graph.attends {
        return Some(0);
    }
    let windowed = if graph.window > 0 { cells.windowed } else { 0 };
    // An indexer has a mask of its own, and its scores beside it.
    let width = if settings.flash_attention { 2 } else { WIDE } * if graph.indexed { 4 } else { 1 };
    cells.full.checked_add(windowed)?.checked_mul(tokens)?.checked_mul(width)
}

pub(super) fn buffer(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    let tokens = settings.tokens_at_once(context);
    let cells = settings.cells(context, graph.window)?;
    let bytes = |numbers: u64| numbers.checked_mul(tokens)?.checked_mul(WIDE);
    let hidden = bytes(graph.embedding)?;
    let rows = settings.parallel.max(1).min(tokens);
    let logits = graph.vocab.checked_mul(rows)?.checked_mul(WIDE)?.checked_add(hidden.checked_mul(4)?)?;
    let computing = bytes(states(graph)?)?;
    let scores = match (graph.attends, settings.flash_attention) {
        (false, _) => 0,
        (_, true) => scratch(graph, settings, context)?,
        _ => bytes(graph.heads.checked_mul(cells.full)?)?,
    };
    let attention = if graph.attends { bytes(attending(graph)?)?.checked_add(scores)? } else { 0 };
    let masks = masks(graph, settings, cells, tokens)?;
    // A pipeline over several cards has all that goes into the graph four times; with anything on the host there is none.
    let piped = settings.devices > 1 && graph.passing == 0;
    let (masks, inputs) = if piped { (masks.checked_mul(4)?, hidden.checked_mul(12)?) } else { (masks, 0) };
    let phases = logits.max(computing);
    if graph.passing == 0 || tokens < FEWEST_PASSING {
        return masks.checked_add(inputs)?.checked_add(phases.max(attention));
    }
    let (attention, forward) = beside_what_comes_over(graph, attention, scores, bytes)?;
    masks.checked_add(phases.max(attention).max(forward))
}

/// Attention and the feed-forward part where weights and caches in system memory come over for a batch, one matrix at a
/// time, into the room that the one before left, or behind all if that is too small.
fn beside_what_comes_over(
    graph: &Graph,
    attention: u64,
    scores: u64,
    bytes: impl Fn(u64) -> Option<u64>,
) -> Option<(u64, u64)> {
    let (matrix, hidden, forward) = (graph.passing, graph.embedding, graph.feed_forward);
    // Of a latent cache, K comes over and the part of it that serves as V.
    let cache = graph.passing_cache.checked_mul(if graph.mla { 2 } else { 1 })?;
    let behind = match cache.checked_add(scores)? {
        _ if graph.gated && cache > 0 => matrix.max(cache / 2),
        room if room < matrix => matrix,
        _ => 0,
    };
    let attention = attention.checked_add(cache)?.checked_add(behind)?;
    let times = |count: u64, width: u64| width.checked_mul(count);
    let forward = if graph.experts_used > 0 {
        let given = times(graph.experts_used.checked_add(4)?, hidden)?;
        let one = matrix.checked_add(bytes(forward.checked_add(given)?)?)?;
        // Between recurrent layers the room of the last matrix is lost.
        let two = matrix.checked_mul(2)?.checked_add(bytes(times(6, hidden)?)?)?;
        if graph.gated && cache == 0 { one.max(two) } else { one }
    } else {
        let hidden = times(5, hidden)?;
        let with_matrix = matrix.checked_add(bytes(times(2, forward)?.checked_add(hidden)?)?)?;
        with_matrix.max(bytes(times(3, forward)?.checked_add(hidden)?)?)
    };
    Some((attention, forward))
}
