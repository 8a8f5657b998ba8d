//! Owns size: the run needs more than the GPU has, or fills it with weights alone.

use super::evidence::line_of;
use super::growth;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::figures::{buffers, is_share_of, live_need, run_had};
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::advice::weights::{ShownBy, Widened, widened};
use crate::knowledge::diagnosis::{MemoryKind, Phase, Stage};
use crate::units::Bytes;

pub(crate) const ABOUT: About = About {
    id: CauseKind::TooBig,
    name: "too big",
    blames: Blames::TheRun,
    speaks_of_size: SpeaksOfSize::Always,
    is_solved_by_another_gpu: true,
    say,
    prevent,
};

pub(crate) const NEEDS_MORE_THAN_THERE_IS: Rule = Rule {
    about: &ABOUT,
    name: "the run needs more than there is in all",
    strength: Strength::Proven,
    find: |case| if is_cache_for_the_context(case) { None } else { exceeds_capacity(case) },
};

/// A cache for the full context that no GPU has room for: the context is what is too long, so that this one comes later.
pub(crate) const CACHE_EXCEEDS_THE_GPU: Rule = Rule {
    about: &ABOUT,
    name: "the cache for the full context exceeds the GPU",
    strength: Strength::Likely,
    find: exceeds_capacity,
};

pub(crate) const WIDENED_WEIGHTS_FILL_THE_GPU: Rule = Rule {
    about: &ABOUT,
    name: "weights were widened and fill the GPU",
    strength: Strength::Proven,
    find: |case| if weights_fill(case).is_some() { widened_evidence(case) } else { None },
};

pub(crate) const WEIGHTS_FILL_THE_GPU: Rule =
    Rule { about: &ABOUT, name: "the weights alone fill the GPU", strength: Strength::Proven, find: weights_fill };

pub(crate) const BUFFERS_EXCEED_WHAT_WAS_FREE: Rule = Rule {
    about: &ABOUT,
    name: "its buffers take more than was free at the start",
    strength: Strength::Likely,
    find: buffers_exceed_free,
};

pub(crate) const ESTIMATE_EXCEEDS_THE_GPU: Rule = Rule {
    about: &ABOUT,
    name: "the model with its settings takes more than the GPU has",
    strength: Strength::Likely,
    find: estimate_exceeds,
};

pub(crate) const WIDENED_WEIGHTS: Rule =
    Rule { about: &ABOUT, name: "weights were widened", strength: Strength::Likely, find: widened_evidence };

pub(crate) const OPTIMIZER_OR_SAVING: Rule = Rule {
    about: &ABOUT,
    name: "it failed in the optimizer's first step or while saving",
    strength: Strength::Likely,
    find: optimizer_or_saving,
};

/// Weights that take so much of the GPU leave no room for anything else.
const FILLED_PERCENT: u64 = 88;

fn is_cache_for_the_context(case: &Case<'_>) -> bool {
    case.log.run.told == Some(CauseKind::Context)
}

fn exceeds_capacity(case: &Case<'_>) -> Option<Vec<String>> {
    let (needed, capacity) = need_beyond_capacity(case)?;
    Some(vec![format!("it needed at least {needed}{}; there is {capacity} in all", line_of(case.log))])
}

/// What the run needed and what there is, where it needed more. Of system memory that says nothing that "RAM ran out" does
/// not: swap and other programs are in it, too. An engine that fills its share of any GPU is not too big for it.
fn need_beyond_capacity(case: &Case<'_>) -> Option<(Bytes, Bytes)> {
    if matches!(case.log.memory, Some(MemoryKind::Host | MemoryKind::Shm | MemoryKind::KvCache)) {
        return None;
    }
    let (needed, capacity) = (live_need(case.log)?, case.capacity()?);
    (needed > capacity && case.requested_beside_share.is_none()).then_some((needed, capacity))
}

fn buffers_exceed_free(case: &Case<'_>) -> Option<Vec<String>> {
    let (had, free) = (buffers(case.log)?, case.log.run.free_at_start_bytes?);
    (had > free)
        .then(|| vec![format!("its weights, KV cache and work area take {had}, and {free} was free when it began")])
}

fn estimate_exceeds(case: &Case<'_>) -> Option<Vec<String>> {
    if case.log.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let (total, capacity) = case.fit.as_ref()?.beyond()?;
    Some(vec![format!("it takes about {total} with its settings, and there is {capacity} in all")])
}

/// The weights fill the GPU, or the engine's share of it, before anything else comes.
fn weights_fill(case: &Case<'_>) -> Option<Vec<String>> {
    let (facts, run) = (&case.log.facts, &case.log.run);
    let total = facts.total_bytes.or(case.place.capacity())?;
    let weights = match case.log.memory? {
        MemoryKind::KvCache => run.weights_bytes?,
        MemoryKind::Gpu if case.log.phase == Phase::Load && run.notebook.is_none() => {
            facts.process_bytes.or(facts.allocated_bytes)?
        }
        _ => return None,
    };
    is_share_of(weights, FILLED_PERCENT, total)
        .then(|| vec![format!("the weights alone took {weights} of {total}{}", line_of(case.log))])
}

fn widened_evidence(case: &Case<'_>) -> Option<Vec<String>> {
    let widened = widened(case.log)?;
    Some(vec![match widened.shown_by {
        ShownBy::Log(data_type) => format!(
            "its weights were widened to {data_type} while loading, which takes two to four times what their file has"
        ),
        ShownBy::Bytes { had, model, billions, bits, bits_in_file } => {
            let why = match widened.to_bits {
                32 => "loaders before transformers 5 take float32 unless they are told the type",
                _ => "what can't be calculated with as it is, on this card or with what is installed, is made 16 bits",
            };
            format!(
                "while loading it held {had} for the {billions} billion parameters of {model}: {bits:.0} bits each or more, where its file has {bits_in_file:.0}; {why}"
            )
        }
    }])
}

/// The optimizer's state appears at its first step and grows with the parameters trained, not with the batch. For a file
/// of the whole model the ranks' parts are put together.
fn optimizer_or_saving(case: &Case<'_>) -> Option<Vec<String>> {
    let evidence = match case.log.run.stage? {
        Stage::Optimizer if growth::progress(case.log).is_none() => {
            "it died where the optimizer's state is made: that grows with the parameters trained, not with the batch"
        }
        Stage::Saving => "it died while saving, where the ranks' parts of the model are put together on one card",
        _ => return None,
    };
    (case.log.memory == Some(MemoryKind::Gpu)).then(|| vec![evidence.to_owned()])
}

fn say(case: &Case<'_>) -> String {
    let widened = widened(case.log).map(|widened| widened_in_words(&widened));
    if need_beyond_capacity(case).is_some() {
        let said = beyond_capacity_in_words(case);
        return match widened {
            Some(widened) => format!("{said} {widened}"),
            None => said,
        };
    }
    let plain = plain(case);
    if let Some(widened) = widened {
        return format!("{plain} {widened}");
    }
    match weights_fill(case).or_else(|| optimizer_or_saving(case)).and_then(|evidence| evidence.into_iter().next()) {
        Some(because) => format!("{plain} It does not fit as it is: {because}."),
        None => plain,
    }
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

fn prevent(_is_training: bool) -> &'static str {
    "Before the next model: oomdoctor fit MODEL says what it takes, and the largest context that fits."
}
