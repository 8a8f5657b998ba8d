//! Owns a GPU's compute buffer in llama.cpp: masks and logits beside the largest phase, for builds before and since June
//! 2026, alone and among several GPUs. Held against what two versions (of May 2026, and 0.6.0) reserve for 27 models
//! without a GPU (2026-11-21): with all layers on one GPU 288 of 288 settings within a tenth or 64 MiB today and 682 of
//! 700 before; with layers or experts in system memory 93 % and 89 %, the others mostly too high. Two logs of early 2026
//! printed more for Qwen2.5-7B than is computed here: 382 MiB at 32K and 422 at 64K instead of 304 (`named.jsonl`, V24 and
//! V29). In bytes.

use super::graph::{Graph, Place, WIDE, scratch, times};
use super::phases::largest;
use crate::memory::settings::{Outputs, Settings};

/// Bytes of the compute buffer on this GPU for a padded context; `None` past u64.
pub(super) fn buffer(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    let build = settings.outputs;
    let tokens = settings.tokens_at_once(context);
    let cells = settings.cells(context, graph.window)?;
    let flash = settings.flash_attention;
    let windowed = if graph.window > 0 { cells.windowed } else { 0 };
    let seen = if graph.attends { cells.full.checked_add(windowed)?.checked_mul(tokens)? } else { 0 };
    // An indexer has a mask of its own, and while it attends one score for each token and cell.
    let of_indexer = if graph.indexed { seen.checked_mul(WIDE)? } else { 0 };
    let seen = seen.checked_mul(if graph.indexed { 2 } else { 1 })?;
    let hidden = graph.embedding.checked_mul(tokens)?.checked_mul(WIDE)?;
    let scores = match (graph.attends, flash, build) {
        (false, ..) | (_, true, Outputs::MicroBatch) => 0,
        (_, true, Outputs::Slots) => scratch(graph, settings, context)?,
        _ => graph.heads.checked_mul(cells.full)?.checked_mul(tokens)?.checked_mul(WIDE)?,
    };
    let phase = largest(graph, tokens, scores.checked_add(of_indexer)?, flash)?;
    // Masks are halves with flash attention.
    let width = if flash { 2 } else { WIDE };
    let rows = if build == Outputs::MicroBatch { tokens } else { settings.parallel.max(1).min(tokens) };
    let logits = graph.vocab.checked_mul(rows)?.checked_mul(WIDE)?;
    if settings.devices > 1 {
        return piped(graph.place, build, flash, seen, [hidden, phase, logits]);
    }
    let sizes = Sizes { hidden, phase, logits, seen, width };
    let phases = phases(graph, build, flash, &sizes)?;
    let logits = at_the_end(graph, build, &sizes)?;
    let cast = cast(graph, build, flash, &sizes)?;
    let pair = pair(graph, build, &sizes)?;
    Some(phases.max(logits).max(cast).max(pair))
}

/// What the parts of a buffer are made of, in bytes.
struct Sizes {
    /// The states of one layer.
    hidden: u64,
    /// The largest phase, see [`super::phases`].
    phase: u64,
    logits: u64,
    /// Entries of the masks.
    seen: u64,
    /// Bytes of one of them: masks are halves with flash attention.
    width: u64,
}

/// Whether matrices in system memory come over to this GPU.
fn comes_over(graph: &Graph) -> bool {
    graph.passing > 0 && matches!(graph.place, Place::Only | Place::First)
}

/// The largest phase beside its masks.
fn phases(graph: &Graph, build: Outputs, flash: bool, sizes: &Sizes) -> Option<u64> {
    let Sizes { hidden, phase, seen, width, .. } = *sizes;
    match (graph.place, build) {
        // Where the rest lies elsewhere, fewer states are kept.
        (Place::Middle | Place::Last, _) => times(width, seen)?.checked_add(phase.saturating_sub(times(2, hidden)?)),
        // With a cache on the host the wide mask stays beside its copy.
        (_, Outputs::MicroBatch) if flash && comes_over(graph) && graph.passing_cache > 0 => {
            times(6, seen)?.checked_add(phase)
        }
        _ => times(width, seen)?.checked_add(phase),
    }
}

/// Logits beside the states they are made from.
fn at_the_end(graph: &Graph, build: Outputs, sizes: &Sizes) -> Option<u64> {
    let Sizes { hidden, logits, seen, width, .. } = *sizes;
    match build {
        Outputs::Slots => times(width, seen)?.checked_add(logits)?.checked_add(times(4, hidden)?),
        _ if !matches!(graph.place, Place::Only | Place::Last) => Some(0),
        // The output's matrix comes over as well, if no layer is on the GPU.
        Outputs::MicroBatch => {
            let states = times(if graph.output_passing > 0 || graph.place == Place::Last { 3 } else { 1 }, hidden)?;
            logits.checked_add(states)?.checked_add(graph.output_passing)
        }
    }
}

/// The mask beside its copy in halves.
fn cast(graph: &Graph, build: Outputs, flash: bool, sizes: &Sizes) -> Option<u64> {
    if build != Outputs::MicroBatch || !flash {
        return Some(0);
    }
    let states = times(if graph.gated { 7 } else { 4 }, sizes.hidden)?;
    times(6, sizes.seen)?.checked_add(states)?.checked_add(if comes_over(graph) { graph.passing } else { 0 })
}

/// Two matrices that come over: beside recurrent layers and indexers the room of the last one is not found again.
fn pair(graph: &Graph, build: Outputs, sizes: &Sizes) -> Option<u64> {
    if !comes_over(graph) || graph.experts_used == 0 {
        return Some(0);
    }
    match build {
        Outputs::Slots if graph.gated => {
            times(2, graph.passing)?.checked_add(times(6, sizes.hidden)?)?.checked_add(times(sizes.width, sizes.seen)?)
        }
        _ if graph.gated || graph.indexed => graph.passing_pair.checked_add(times(2, sizes.hidden)?),
        _ => Some(0),
    }
}

/// Where the GPUs work as a pipeline, what goes into a GPU's part of the graph is there four times and stays.
fn piped(place: Place, build: Outputs, flash: bool, seen: u64, [hidden, phase, logits]: [u64; 3]) -> Option<u64> {
    let width = if flash { 2 } else { WIDE };
    let masks = times(4 * width, seen)?;
    let further = masks.checked_add(times(7, hidden)?)?.checked_add(phase)?;
    match (place, build) {
        (Place::First | Place::Only, Outputs::MicroBatch) => {
            let masks = times(if flash { 18 } else { 16 }, seen)?;
            masks.checked_add(times(12, hidden)?)?.checked_add(phase.saturating_sub(times(8, hidden)?))
        }
        (Place::First | Place::Only, Outputs::Slots) => masks.checked_add(times(12, hidden)?)?.checked_add(phase),
        (Place::Last, Outputs::MicroBatch) => {
            Some(masks.checked_add(logits)?.checked_add(times(9, hidden)?)?.max(further))
        }
        _ => Some(further),
    }
}
