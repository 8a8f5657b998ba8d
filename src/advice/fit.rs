//! Owns whether the run's model fits the card that is free now, and which change makes it fit: the model and its
//! settings from the log, the memory arithmetic, choices best first, the sizes of this model by quantisation. Pure.
//! What can't be known is said. Bytes and tokens; weights and caches as exact as `memory` has them, the rest "about".

mod after;
mod answer;
mod basis;
pub(crate) mod effect;
pub(crate) mod holders;
mod kind;
mod model;
mod offers;
mod pool;
mod room;
mod setup;
#[cfg(test)]
mod tests;
mod trained;
pub(crate) mod trial;
pub(crate) mod words;

use std::sync::Arc;

use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom, Stage};
use crate::knowledge::{EntryId, FixId};
use crate::memory::options::{self, Card};
use crate::memory::spare::SPARE;
use crate::memory::{Engine, Is, Part};
use crate::units::Bytes;
pub use after::changed;
pub use answer::{FitAdvice, FitChoice, FitModel, Parts};
use basis::Basis;
use kind::Kind;
pub use room::{Machine, Room, Vram, room};
pub use trial::Trial;

/// More choices are not read under stress.
const MOST_CHOICES: usize = 6;

/// Why a training run's activations are not known.
const UNKNOWN_LENGTH: &str = "the log does not show how long the sequences are";

/// The failed run, as far as its fit is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub diagnosis: &'a Diagnosis,
    /// The model, as the person names it; `None` for what the log says.
    pub model: Option<&'a str>,
    /// What the run used when it failed.
    pub had: Option<Bytes>,
}

/// Whether the run's model fits, and which changes make it fit. `None` where memory of another kind ran out or neither
/// the model nor the engine's own figures are known.
pub fn fit(question: Question<'_>, room: Room) -> Option<FitAdvice> {
    let diagnosis = question.diagnosis;
    let of_card = matches!(diagnosis.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache));
    // What lies on one of the cards that share all of it is not told.
    if diagnosis.oom == Oom::No || !of_card || diagnosis.run.sharded.is_some() {
        return None;
    }
    let kind = Kind::of(diagnosis)?;
    if let Some(pool) = pool::advice(diagnosis).filter(|_| kind == Kind::Vllm) {
        return Some(pool);
    }
    let mut share = pool::share(diagnosis, room.failed_gpu).filter(|_| kind == Kind::Vllm);
    let Some(mut known) = model::known(question.model, &diagnosis.run, kind.is_torch()) else {
        let share = share.map(|effect| FitAdvice { effects: vec![effect], ..FitAdvice::of("vLLM") });
        return trained::advice(diagnosis).filter(|_| kind == Kind::Train).or(share);
    };
    let (engine, notes) = setup::engine(kind, diagnosis, &known.shape, &room);
    let room = room.of(&engine, &known.shape);
    let engine = engine.over(room.each.len());
    hold_to_the_log(&mut known, diagnosis, &engine);
    if let Some(effect) = &mut share {
        effect.hold_against(&engine, &known.shape, &room);
    }
    let mut advice = advice(known, engine, notes, room, question);
    advice.effects.extend(share);
    Some(advice)
}

/// Puts what the log printed of sizes in the place of ours.
fn hold_to_the_log(known: &mut model::Known, diagnosis: &Diagnosis, engine: &Engine) {
    let run = &diagnosis.run;
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => {
            let refused =
                diagnosis.matches.first().is_some_and(|found| found.entry == EntryId::LLAMA_CPP_KV_CACHE_ALLOCATION);
            let refused = diagnosis.facts.requested_bytes.filter(|_| refused && settings.devices == 1);
            // A context that was only assumed says nothing about a buffer.
            let cache = setup::context(diagnosis).and(run.kv_cache_bytes.or(refused)).map(|bytes| bytes.0);
            model::hold_to_the_log(&mut known.shape, run, settings, cache);
        }
        Engine::Vllm(_) | Engine::Sglang(_) => {
            let own = known.quantization.as_str();
            let printed = run.weights_bytes.map(|bytes| bytes.0.saturating_mul(engine.ranks()));
            known.shape.weights = match (known.shape.weights.as_ref(), printed, &run.quantisation) {
                (Ok(sums), Some(printed), _) => Ok(sums.scaled(printed, sums.in_file())),
                // Of a quantisation that is not known by name nothing follows.
                (_, None, Some(quantised)) if ["bfloat16", "float16", "float32"].contains(&own) => {
                    Err(format!("the log does not say how large its {quantised} weights are"))
                }
                (sums, ..) => sums.cloned().map_err(Clone::clone),
            };
        }
        Engine::Transformers(_) | Engine::Train(_) => {}
    }
}

fn advice(
    known: model::Known,
    engine: Engine,
    mut notes: Vec<String>,
    room: Room,
    question: Question<'_>,
) -> FitAdvice {
    let Question { diagnosis, had, .. } = question;
    let shape = &known.shape;
    let has_share = matches!(engine, Engine::Vllm(_) | Engine::Sglang(_));
    let card = room.free.zip(room.capacity.or(room.free)).map(|(free, total)| Card {
        index: 0,
        uuid: None,
        name: String::new(),
        total,
        free,
        each: room.each.iter().map(|(free, _)| *free).collect(),
    });
    let is_assumed = setup::context(diagnosis).is_none();
    // Activations grow with the sequences: without their length nothing is known but weights and states.
    let is_blind = is_assumed && matches!(engine, Engine::Train(..));
    // What is known all the same may be too much already.
    let least = |engine: &Engine| engine.estimate(shape).total();
    let most = card.as_ref().filter(|_| is_blind && !diagnosis.run.is_spread()).map(|card| card.free.less(SPARE));
    let too_much = |engine: &Engine| least(engine).zip(most).is_some_and(|(least, most)| least > most);
    // A utilisation is a share of the whole card.
    let card = card.filter(|_| (room.capacity.is_some() || !has_share) && !is_blind);
    let mut estimate = engine.estimate(shape);
    let fits = options::fits(&engine, shape, card.as_ref());
    let mut all = options::options(engine, shape, card.as_ref(), &[]);
    options::hold_against_ram(&mut all, &estimate, room.ram);
    let fitting = if fits == Some(false) { offers::ranked(&all, &engine, shape) } else { Vec::new() };
    let mut choices: Vec<FitChoice> = fitting
        .iter()
        .take(MOST_CHOICES)
        .map(|choice| offers::said(choice, &estimate, room.free, &engine, shape))
        .collect();
    let instead = if fits == Some(false) && offers::is_poor(&fitting, shape) {
        offers::instead(&known, engine, card.as_ref())
    } else {
        Vec::new()
    };
    if let Some(several) = diagnosis.run.devices.filter(|count| *count > 1 && room.each.is_empty()) {
        notes.push(format!("the run was spread over {several} GPUs; each also holds buffers of its own, which differ"));
    }
    let mut effects = effect::effects(&all, &engine, shape, &estimate, card.as_ref(), room.ram);
    let on_card = diagnosis.run.layers_offloaded.map(|(on, _)| on);
    effects.extend(effect::tries(
        setup::context(diagnosis),
        on_card,
        &engine,
        shape,
        &estimate,
        card.as_ref(),
        room.ram,
    ));
    if is_assumed {
        effects.iter_mut().filter_map(|effect| effect.frees.as_mut()).for_each(|(_, is)| *is = Is::About);
        choices.iter_mut().filter_map(|choice| choice.frees_is.as_mut()).for_each(|is| *is = Is::About);
    }
    // Where the optimizer is made all else is there: no more comes back than the run had.
    let had = had.filter(|_| diagnosis.run.stage == Some(Stage::Optimizer));
    for (fix, changed) in effect::alone(&engine) {
        let Some(effect) = effects.iter_mut().find(|effect| effect.fix == fix) else { continue };
        effect.fits = effect.fits.or(too_much(&changed).then_some(false));
        let held = had.map(|had| had.less(least(&changed).unwrap_or(Bytes::ZERO)));
        let bound = |(frees, is): (Bytes, Is)| (held.map_or(frees, |held| frees.min(held)), is);
        effect.frees = effect.frees.map(bound).filter(|(frees, _)| *frees > Bytes::ZERO);
    }
    let beyond = least(&engine).filter(|_| too_much(&engine));
    if let Some(least) = beyond {
        notes
            .push(format!("weights, gradients and optimizer alone take about {least}, whatever the sequences' length"));
    }
    let fits = fits.or(beyond.map(|_| false));
    if is_blind {
        estimate.compute = Part::unknown(UNKNOWN_LENGTH);
        let of_length = [FixId::SMALLER_BATCH, FixId::GRADIENT_CHECKPOINTING];
        effects.iter_mut().filter(|effect| of_length.contains(&effect.fix)).for_each(|effect| effect.frees = None);
    }
    let why_not = estimate.why_not().map(str::to_owned);
    let why_not_known = why_not.or_else(|| (fits.is_none()).then(|| room.why_not.to_owned()));
    FitAdvice {
        effects,
        engine: engine.name(),
        context_tokens: engine.context(shape).filter(|_| !is_blind),
        parts: Some(Parts::of(&estimate)),
        total_bytes: estimate.total(),
        free_now_bytes: room.free,
        card_bytes: room.capacity,
        headroom_bytes: engine
            .wanted(&estimate)
            .zip(estimate.total())
            .map_or(SPARE, |(wanted, total)| wanted.less(total)),
        fits,
        why_not_known: why_not_known.filter(|_| fits.is_none()),
        choices,
        sizes: offers::sizes(engine, shape, card.as_ref()),
        instead,
        notes,
        is_now: room.is_now,
        each: card.map(|card| card.each).unwrap_or_default(),
        basis: (!is_blind).then(|| Arc::new(Basis::new(known.name.clone(), &known.quantization, shape, engine))),
        model: Some(FitModel {
            layers: Some(shape.layer_count()).filter(|count| *count > 0),
            parameters: shape.parameters,
            name: known.name,
            quantization: Some(known.quantization),
            how: known.how,
        }),
    }
}
