//! Owns size: the run needs more than the GPU has, or fills it with weights alone.

use super::growth;
use super::rule::{Evidence, said};
use crate::advice::case::Case;
use crate::advice::figures::{buffers, is_share_of, live_need, run_had};
use crate::advice::phrases::{and, gpu_in_words, line_of, plain_and};
use crate::advice::verdict::CauseKind;
use crate::advice::weights::{ShownBy, Widened, widened};
use crate::allocations::findings::FindingKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase, Stage};
use crate::units::Bytes;

/// Weights that take so much of the GPU leave no room for anything else.
const FILLED_PERCENT: u64 = 88;

pub(super) fn exceeds_capacity_without_a_cache(case: &Case<'_>) -> Evidence {
    let is_cache_for_the_context = case.log.run.told == Some(CauseKind::Context);
    if is_cache_for_the_context { None } else { exceeds_capacity(case) }
}

pub(super) fn exceeds_capacity(case: &Case<'_>) -> Evidence {
    let (needed, capacity) = need_beyond_capacity(case)?;
    Some(vec![format!("it needed ≥ {needed}{}; there is {capacity} in all", line_of(case.log))])
}

/// What the run needed and what there is, where it needed more. Of system memory that says nothing that "RAM ran out" does
/// not: swap and other programs are in it, too. An engine that fills its share of any GPU is not too big for it.
fn need_beyond_capacity(case: &Case<'_>) -> Option<(Bytes, Bytes)> {
    if matches!(case.log.memory, Some(MemoryKind::Host | MemoryKind::Shm | MemoryKind::KvCache)) {
        return None;
    }
    // A limit that was set is no capacity.
    let capacity = case.capacity().filter(|capacity| Some(*capacity) != case.log.facts.limit())?;
    let needed = live_need(case.log)?;
    (needed > capacity && case.requested_beside_share.is_none()).then_some((needed, capacity))
}

/// The weights are more than the GPU has: an engine that keeps all of them there never starts on it, whatever its share
/// and whoever else uses the GPU.
pub(super) fn weights_exceed(case: &Case<'_>) -> Evidence {
    // What the log prints of them is better.
    if weights_fill(case).is_some() {
        return None;
    }
    let (weights, capacity) = case.weights_beyond()?;
    Some(vec![format!("the model's weights take about {weights}, and there is {capacity} in all")])
}

pub(super) fn buffers_exceed_free(case: &Case<'_>) -> Evidence {
    let (log, had) = (case.log, buffers(case.log)?);
    let (there, said) = match (log.run.free_at_start_bytes, log.run.working_set_bytes) {
        (Some(free), _) => (free, format!("{free} was free when it began")),
        (None, Some(most)) => (most, format!("Metal lets graphics use {most}")),
        (None, None) => return None,
    };
    (had > there).then(|| vec![format!("its weights, KV cache and work area take {had}, and {said}")])
}

pub(super) fn estimate_exceeds(case: &Case<'_>) -> Evidence {
    if !case.is_short_of_vram() {
        return None;
    }
    let (total, capacity) = case.fit.as_ref()?.beyond()?;
    Some(vec![format!("it takes about {total} with its settings, and there is {capacity} in all")])
}

/// The weights fill the GPU, or the engine's share of it, before anything else comes.
pub(super) fn weights_fill(case: &Case<'_>) -> Evidence {
    let (facts, run) = (&case.log.facts, &case.log.run);
    let total = facts.total_bytes.or(case.place.capacity())?;
    let weights = match case.log.memory? {
        MemoryKind::KvCache => run.weights_bytes?,
        MemoryKind::Gpu if is_loading(case.log) && run.notebook.is_none() => {
            facts.process_bytes.or(facts.allocated_bytes)?
        }
        _ => return None,
    };
    let line = line_of(case.log);
    is_share_of(weights, FILLED_PERCENT, total).then(|| {
        vec![match loaded(case.log) {
            Some((loaded, files)) => {
                format!("{loaded} of {files} files of the weights took {weights} of {total}{line}")
            }
            None => format!("the weights alone took {weights} of {total}{line}"),
        }]
    })
}

/// Whether there are weights and nothing else yet.
fn is_loading(log: &Diagnosis) -> bool {
    log.phase == Phase::Load && matches!(log.run.stage, Some(Stage::Weights | Stage::Restoring))
}

/// How many of the model's files were loaded, and of how many, where it was not all of them.
fn loaded(log: &Diagnosis) -> Option<(u64, u64)> {
    let (loaded, files) = log.run.printed.get("checkpoint_shards")?.split_once('/')?;
    let (loaded, files) = (loaded.parse().ok()?, files.parse().ok()?);
    (loaded < files).then_some((loaded, files))
}

pub(super) fn widened_weights_fill(case: &Case<'_>) -> Evidence {
    weights_fill(case).and_then(|_| widened_weights(case))
}

pub(super) fn widened_weights(case: &Case<'_>) -> Evidence {
    let widened = widened(case.log)?;
    Some(vec![match widened.shown_by {
        ShownBy::Log(data_type) => format!(
            "its weights were widened to {data_type} while loading, which takes two to four times what their file has"
        ),
        ShownBy::Bytes { had, model, billions, bits, bits_in_file } => {
            let why = match widened.to_bits {
                32 => "loaders before transformers 5 take float32 unless they are told the type",
                _ => "formats that this GPU or the installed libraries can't compute with are made 16 bits",
            };
            format!(
                "while loading it used {had} for the {billions} billion parameters of {model}: {bits:.0} bits each or more, where its file has {bits_in_file:.0}; {why}"
            )
        }
    }])
}

/// By a snapshot of a request for the optimizer's state.
pub(super) fn optimizer_state(case: &Case<'_>) -> Evidence {
    said(case, FindingKind::OptimizerState)
}

/// The optimizer's state appears at its first step and grows with the parameters trained, not with the batch. For a file
/// of the whole model the ranks' parts are put together.
pub(super) fn optimizer_or_saving(case: &Case<'_>) -> Evidence {
    let evidence = match case.log.run.stage? {
        Stage::Optimizer if growth::progress(case.log).is_none() => {
            "it died where the optimizer's state is made: that grows with the parameters trained, not with the batch"
        }
        Stage::Saving => "it died while saving, where the ranks' parts of the model are put together on one GPU",
        _ => return None,
    };
    (case.is_short_of_vram()).then(|| vec![evidence.to_owned()])
}

pub(super) fn say(case: &Case<'_>) -> String {
    let widened = widened(case.log).map(|widened| widened_in_words(&widened));
    if need_beyond_capacity(case).is_some() {
        return and(beyond_capacity_in_words(case), widened);
    }
    if let (None, Some((weights, capacity))) = (weights_fill(case), case.weights_beyond()) {
        let gpu = gpu_in_words(&case.place, &case.log.facts);
        return and(format!("{gpu} has {capacity} in all; the model's weights take ≈ {weights}."), widened);
    }
    plain_and(case, widened.or_else(|| because_in_words(case)))
}

fn because_in_words(case: &Case<'_>) -> Option<String> {
    let because = weights_fill(case).or_else(|| optimizer_or_saving(case)).or_else(|| buffers_exceed_free(case))?;
    Some(format!("It does not fit as it is: {}.", because.first()?))
}

fn widened_in_words(widened: &Widened) -> String {
    let file = if widened.to_bits == 32 { "its file has 16" } else { "its file has fewer" };
    format!("Its weights were made {} bits each while loading; {file}.", widened.to_bits)
}

fn beyond_capacity_in_words(case: &Case<'_>) -> String {
    let facts = &case.log.facts;
    let live = facts.allocated_bytes.or_else(|| run_had(case.log)).filter(|live| *live > Bytes::ZERO);
    match (live, facts.requested_bytes, case.capacity()) {
        (Some(live), Some(requested), Some(capacity)) => format!(
            "Your run had {live} in use and asked for {requested} more, and there is {capacity} in all: it does not fit as it is."
        ),
        (None, Some(requested), Some(capacity)) => {
            format!("Your run asked for {requested} at once and there is {capacity} in all: it does not fit as it is.")
        }
        _ => "Your run does not fit as it is.".to_owned(),
    }
}
