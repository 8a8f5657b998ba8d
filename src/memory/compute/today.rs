//! Owns the compute buffer in today's builds of llama.cpp: what is alive at once beside the masks, phase by phase, as
//! its allocator lays it out for a whole micro-batch. Held against llama.cpp 0.6.0's own reservation for 20 models,
//! without a card (2026-11-21): within 2 % for dense models and 20 % for mixtures of experts with all layers on the
//! card; where layers or experts are in system memory up to 20 % low or twice too high, by how its pieces fall.
//! Against five logs of cards it was 0 % to 11 % off, and 25 % low with 1024 tokens at once and layers on the host.
//! In bytes.

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
    let width = if settings.flash_attention { 2 } else { WIDE };
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
    let attention = if graph.attends {
        let scores = if settings.flash_attention {
            scratch(graph, settings, context)?
        } else {
            bytes(graph.heads.checked_mul(cells.full)?)?
        };
        bytes(attending(graph)?)?.checked_add(scores)?
    } else {
        0
    };
    let masks = masks(graph, settings, cells, tokens)?;
    let comes_over = graph.passing > 0 && tokens >= FEWEST_PASSING;
    // A pipeline over several cards has all that goes into the graph four times; with anything on the host there is none.
    let piped = settings.devices > 1 && graph.passing == 0;
    let (masks, inputs) = if piped { (masks.checked_mul(4)?, hidden.checked_mul(12)?) } else { (masks, 0) };
    if !comes_over {
        return masks.checked_add(inputs)?.checked_add(logits.max(computing).max(attention));
    }
    // What is computed lies where the K or the V that was brought over did, if there is room; else behind them.
    let cache = graph.passing_cache;
    let attention = attention.checked_add(cache)?;
    let computing = if computing > cache / 2 { computing.checked_add(cache)? } else { computing };
    let passing = passing(graph, bytes(states(graph)?)?, hidden)?;
    masks.checked_add(logits.max(computing).max(attention).max(passing))
}

/// Matrices in system memory pass through the card's buffer while a batch is computed. Of experts two may be there at a
/// time. Seen on cards: 5388 MiB where two are 5040 (GLM-5.2), 497 where two are 420 (Qwen3.6-35B-A3B).
fn passing(graph: &Graph, computing: u64, hidden: u64) -> Option<u64> {
    let with_experts = graph.experts_used > 0;
    let matrices = graph.passing.checked_mul(if with_experts { 2 } else { 1 })?;
    matrices.checked_add(if with_experts { hidden.checked_mul(8)? } else { computing })
}
