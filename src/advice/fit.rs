//! Owns whether the run's model fits what is free now, and which change makes it fit: the model and its
//! settings from the log, the memory arithmetic, choices best first, the sizes of this model by quantization. Pure.
//! What can't be known is said. Bytes and tokens; weights and caches as exact as `memory` has them, the rest "about".

mod after;
mod answer;
pub(crate) mod effect;
pub(crate) mod holders;
mod model;
mod offers;
mod printed;
mod room;
mod setup;
#[cfg(test)]
mod tests;
pub(crate) mod together;
pub(crate) mod trial;
pub(crate) mod words;

use std::sync::Arc;

use super::figures::run_had;
use crate::knowledge::EntryId;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom, Stage};
use crate::memory::estimate::SPARE;
use crate::memory::knobs::{batch, checkpointing};
use crate::memory::options::{hold_against_ram, options};
use crate::memory::{Card, Choice, Engine, Estimate, Is, Kind, ModelShape, Part, fits};
use crate::units::Bytes;
pub(crate) use after::{as_started, changed};
pub use answer::FitAdvice;
pub(crate) use answer::{FitChoice, FitModel};
use effect::{Effect, Run};
use model::Known;
pub(crate) use room::{Machine, Room, Vram, room};
pub(crate) use trial::Trial;

/// More choices are not read under stress.
const MOST_CHOICES: usize = 6;

/// Why a training run's activations are not known.
const UNKNOWN_LENGTH: &str = "the log does not show how long the sequences are";

/// Whether the run's model fits, and which changes make it fit. `None` where memory of another kind ran out or neither
/// the model nor the engine's own figures are known. `model` is as the person names it; `None` for what the log says.
pub(crate) fn fit(diagnosis: &Diagnosis, model: Option<&str>, room: Room) -> Option<FitAdvice> {
    let is_of_gpu = matches!(diagnosis.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache));
    // How much of a sharded model lies on one GPU is not told.
    if diagnosis.oom == Oom::No || !is_of_gpu || diagnosis.run.sharded.is_some() {
        return None;
    }
    let kind = setup::kind_of(diagnosis)?;
    let mut smaller_share = None;
    if kind == Kind::Vllm {
        if let Some(pool) = printed::of_cache(diagnosis) {
            return Some(pool);
        }
        smaller_share = printed::smaller_share(diagnosis, room.failed_gpu);
    }
    match model::known(model, &diagnosis.run, kind.is_torch()) {
        Some(known) => Some(of_model(diagnosis, kind, known, room, smaller_share)),
        None if kind == Kind::Train => printed::of_optimizer(diagnosis),
        None => smaller_share.map(|effect| FitAdvice { engine: "vLLM", effects: vec![effect], ..FitAdvice::default() }),
    }
}

/// Puts what the log printed of sizes in the place of ours.
fn hold_to_the_log(known: &mut Known, diagnosis: &Diagnosis, engine: &Engine) {
    let run = &diagnosis.run;
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => {
            let is_cache =
                diagnosis.matches.first().is_some_and(|found| found.entry == EntryId::LLAMA_CPP_KV_CACHE_ALLOCATION);
            let refused = if is_cache && settings.devices == 1 { diagnosis.facts.requested_bytes } else { None };
            // A context that was only assumed says nothing about a buffer.
            let cache = setup::context(diagnosis).and(run.kv_cache_bytes.or(refused)).map(|bytes| bytes.0);
            model::hold_to_the_log(&mut known.shape, run, settings, cache);
        }
        Engine::Vllm(_) | Engine::Sglang(_) => {
            let is_plain = ["bfloat16", "float16", "float32"].contains(&known.quantization.as_str());
            let printed = run.weights_bytes.map(|bytes| bytes.0.saturating_mul(engine.ranks()));
            if let (Ok(sums), Some(printed)) = (&mut known.shape.weights, printed) {
                *sums = sums.scaled(printed, sums.in_file());
            } else if let (None, Some(quantised), true) = (printed, &run.quantisation, is_plain) {
                // Of a quantization that is not known by name nothing follows.
                known.shape.weights = Err(format!("the log does not say how large its {quantised} weights are"));
            }
        }
        Engine::Transformers(_) | Engine::Train(_) => {}
    }
}

/// What a model is compared with.
struct Limits {
    /// The GPU that it must fit; `None` where that is not known, or what the model takes is not.
    card: Option<Card>,
    /// The most that weights and states may take, where the length of the sequences is not known: activations grow
    /// with it, but what is known all the same may be too much already.
    most: Option<Bytes>,
    /// Whether that length is not known.
    is_blind: bool,
}

impl Limits {
    fn of(diagnosis: &Diagnosis, engine: &Engine, room: &Room) -> Limits {
        let is_blind = matches!(engine, Engine::Train(_)) && setup::context(diagnosis).is_none();
        let has_share = matches!(engine, Engine::Vllm(_) | Engine::Sglang(_));
        let card = room.as_card();
        let (card, most) = match card {
            Some(card) if is_blind && !diagnosis.run.is_spread() => (None, Some(card.free.less(SPARE))),
            // A utilisation is a share of the whole GPU.
            Some(_) if is_blind || has_share && room.capacity.is_none() => (None, None),
            card => (card, None),
        };
        Limits { card, most, is_blind }
    }

    /// What this engine takes, where that is more than can be there.
    fn too_much(&self, engine: &Engine, shape: &ModelShape) -> Option<Bytes> {
        let least = engine.estimate(shape).total()?;
        (least > self.most?).then_some(least)
    }
}

/// The model with the run's settings, and what there is for it.
fn of_model(
    diagnosis: &Diagnosis,
    kind: Kind,
    mut known: Known,
    room: Room,
    smaller_share: Option<Effect>,
) -> FitAdvice {
    let (engine, mut notes) = setup::engine(kind, diagnosis, &known.shape, &room);
    let room = room.of(&engine, &known.shape);
    let engine = engine.over(room.each.len());
    hold_to_the_log(&mut known, diagnosis, &engine);
    let limits = Limits::of(diagnosis, &engine, &room);
    let is_assumed = known.is_assumed || !notes.is_empty();
    notes.extend(notes_of(diagnosis, &room, limits.too_much(&engine, &known.shape)));
    FitAdvice { notes, is_assumed, ..compared(diagnosis, known, engine, &room, limits, smaller_share) }
}

/// The model compared with what is free.
fn compared(
    diagnosis: &Diagnosis,
    known: Known,
    engine: Engine,
    room: &Room,
    limits: Limits,
    smaller_share: Option<Effect>,
) -> FitAdvice {
    let (shape, card) = (&known.shape, limits.card.as_ref());
    let mut estimate = engine.estimate(shape);
    let mut all = options(engine, shape, card, &[]);
    hold_against_ram(&mut all, &estimate, room.ram);
    let run = Run { engine: &engine, shape, estimate: &estimate, card, ram: room.ram };
    let mut effects = effects(diagnosis, &run, &all, &limits);
    effects.extend(smaller_share.map(|effect| effect.held_against(&engine, shape, room)));
    let fits_as_it_is = fits(&engine, shape, card);
    let (choices, instead) = match fits_as_it_is {
        Some(false) => choices(diagnosis, &known, &run, &all, room),
        _ => (Vec::new(), Vec::new()),
    };
    let fits = fits_as_it_is.or(limits.too_much(&engine, shape).map(|_| false));
    if limits.is_blind {
        estimate.compute = Part::unknown(UNKNOWN_LENGTH);
    }
    let why_not_known = estimate.why_not().unwrap_or(room.why_not);
    FitAdvice {
        engine: engine.name(),
        effects,
        context_tokens: if limits.is_blind { None } else { engine.context(shape) },
        total_bytes: estimate.total(),
        free_now_bytes: room.free,
        card_bytes: room.capacity,
        headroom_bytes: headroom(&engine, &estimate),
        fits,
        why_not_known: fits.is_none().then(|| why_not_known.to_owned()),
        choices,
        sizes: offers::sizes(engine, shape, card),
        instead,
        notes: Vec::new(),
        is_assumed: false,
        is_now: room.is_now,
        each: limits.card.map(|card| card.each).unwrap_or_default(),
        parts: Some(estimate),
        model: Some(FitModel::of(&known)),
        basis: (!limits.is_blind).then(|| (engine, Arc::new(known.shape))),
    }
}

/// What was assumed of the run, and what is known without the length of its sequences.
fn notes_of(diagnosis: &Diagnosis, room: &Room, too_much: Option<Bytes>) -> Vec<String> {
    let several = diagnosis.run.devices.filter(|count| *count > 1 && room.each.is_empty());
    let spread = several.map(|several| {
        format!("the run was spread over {several} GPUs; each also has buffers of its own, which differ")
    });
    let least = too_much.map(|least| {
        format!("weights, gradients and optimizer alone take about {least}, whatever the sequences' length")
    });
    spread.into_iter().chain(least).collect()
}

/// What a choice must leave free.
fn headroom(engine: &Engine, estimate: &Estimate) -> Bytes {
    match (engine.wanted(estimate), estimate.total()) {
        (Some(wanted), Some(total)) => wanted.less(total),
        _ => SPARE,
    }
}

/// The build of llama.cpp from which `-fa` takes on, off or auto
/// (<https://github.com/ggml-org/llama.cpp/pull/15434>, checked 2026-11-23).
const FLASH_ATTENTION_TAKES_A_VALUE: &str = "6325";

/// Flags as an older build takes them: flash attention is off there unless a bare `-fa` asks for it.
fn as_older(flags: &str) -> String {
    flags.replace("-fa on", "-fa").replace(" -fa off", "").replace("-fa off ", "")
}

/// The choices that fit, best first; and what would fit instead where all of them are poor.
fn choices(
    diagnosis: &Diagnosis,
    known: &Known,
    run: &Run<'_>,
    all: &[Choice],
    room: &Room,
) -> (Vec<FitChoice>, Vec<String>) {
    let fitting = offers::ranked(all, run.engine, run.shape);
    let is_poor = offers::is_poor(&fitting, run.shape);
    let instead = if is_poor { offers::instead(known, *run.engine, run.card) } else { Vec::new() };
    let choices = fitting.iter().take(MOST_CHOICES).map(|choice| offers::said(choice, run, room.free));
    let mut choices: Vec<FitChoice> = choices.collect();
    if diagnosis.run.is_before("llama.cpp", FLASH_ATTENTION_TAKES_A_VALUE) {
        choices.iter_mut().filter_map(|choice| choice.flags.as_mut()).for_each(|flags| *flags = as_older(flags));
    }
    if setup::context(diagnosis).is_none() {
        // What they free follows from an assumption.
        choices.iter_mut().filter_map(|choice| choice.frees_is.as_mut()).for_each(|is| *is = Is::About);
    }
    (choices, instead)
}

/// What each fix would do, as far as the log lets it be told.
fn effects(diagnosis: &Diagnosis, run: &Run<'_>, all: &[Choice], limits: &Limits) -> Vec<Effect> {
    let on_gpu = diagnosis.run.layers_offloaded.map(|(on, _)| on);
    let mut effects = effect::effects(all, run);
    effects.extend(effect::tries(setup::context(diagnosis), on_gpu, run));
    if setup::context(diagnosis).is_none() {
        effects.iter_mut().filter_map(|effect| effect.frees.as_mut()).for_each(|(_, is)| *is = Is::About);
    }
    // Where the optimizer is made all else is there: no more is freed than the run had.
    let had = if diagnosis.run.stage == Some(Stage::Optimizer) { run_had(diagnosis) } else { None };
    for (fix, changed) in effect::steps(run.engine) {
        let Some(effect) = effects.iter_mut().find(|effect| effect.fix == fix) else { continue };
        if effect.fits.is_none() && limits.too_much(&changed, run.shape).is_some() {
            effect.fits = Some(false);
        }
        if let Some(had) = had {
            effect.free_at_most(had.less(changed.estimate(run.shape).total().unwrap_or(Bytes::ZERO)));
        }
    }
    if limits.is_blind {
        let of_length = [batch::KNOB.fixes, checkpointing::KNOB.fixes].concat();
        effects.iter_mut().filter(|effect| of_length.contains(&effect.fix)).for_each(|effect| effect.frees = None);
    }
    effects
}
