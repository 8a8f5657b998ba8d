//! Owns whether the run's model fits the card that is free now, and which change makes it fit: the model and its
//! settings from the log, the memory arithmetic, choices best first, the sizes of this model by quantisation. Pure.
//! What can't be known is said. Bytes and tokens; weights and caches as exact as `memory` has them, the rest "about".

mod after;
mod effect;
pub mod holders;
mod model;
mod offers;
mod pool;
mod room;
mod setup;
#[cfg(test)]
mod tests;
mod trained;
pub mod trial;
pub mod words;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::plan::FreesIs;
use super::{Ledger, Situation};
use crate::advice::ledger::run_had;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Oom, Stage};
use crate::memory::options::{self, Card};
use crate::memory::spare::SPARE;
use crate::memory::{Engine, Estimate, Is, Part};
use crate::units::Bytes;
pub use after::changed;
pub use effect::Effect;
pub use room::{Room, room};
use setup::Kind;
use trial::Basis;
pub use trial::Trial;

/// More choices are not read under stress.
const MOST_CHOICES: usize = 6;

/// Why a training run's activations are not known.
const UNKNOWN_LENGTH: &str = "the log does not show how long the sequences are";

/// Which model, and how sure that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitModel {
    /// As the table or the log names it.
    pub name: String,
    /// Its quantisation or dtype.
    pub quantization: Option<String>,
    /// How it was found, in words.
    pub how: String,
    /// Its layers, where known.
    pub layers: Option<u64>,
    /// Its parameters, where known.
    pub parameters: Option<u64>,
}

/// What it takes with the log's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parts {
    /// Weights on the card.
    pub weights: Part,
    /// The image encoder on the card; 0 where there is none.
    pub image_encoder: Part,
    /// KV cache on the card.
    pub kv_cache: Part,
    /// Recurrent state on the card.
    pub recurrent_state: Part,
    pub gradients: Part,
    /// The optimizer's states, when training.
    pub optimizer: Part,
    /// Compute buffers and activations.
    pub compute: Part,
    /// The driver's context and a margin for what is only estimated.
    pub overhead: Part,
}

impl Parts {
    fn of(estimate: &Estimate) -> Parts {
        Parts {
            weights: estimate.weights.clone(),
            image_encoder: estimate.projector.clone(),
            kv_cache: estimate.kv_cache.clone(),
            recurrent_state: estimate.recurrent.clone(),
            gradients: estimate.gradients.clone(),
            optimizer: estimate.optimizer.clone(),
            compute: estimate.compute.clone(),
            overhead: estimate.overhead.clone(),
        }
    }
}

/// A change that makes it fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitChoice {
    /// In words that follow "with".
    pub change: String,
    /// What it then takes on the card; of an engine's own pool, what one request takes of it.
    pub total_bytes: Option<Bytes>,
    /// What is then free on the card.
    pub free_after_bytes: Option<Bytes>,
    /// What it gives back.
    pub frees_bytes: Option<Bytes>,
    /// How sure that is.
    pub frees_is: Option<FreesIs>,
    /// Whether it then fits.
    pub fits: Option<bool>,
    /// The change's flags in the engine's own form.
    pub flags: Option<String>,
    /// What must be downloaded for it.
    pub download_bytes: Option<Bytes>,
}

/// One line of the model's sizes by quantisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Size {
    pub quantization: String,
    /// The file, about: what a download takes.
    pub file_bytes: Bytes,
    /// What it takes with the run's other settings.
    pub total_bytes: Option<Bytes>,
    pub fits: Option<bool>,
}

/// Whether it fits, and what would make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitAdvice {
    /// Which model; `None` where only the engine's own pool is spoken of.
    pub model: Option<FitModel>,
    /// The program, as in sentences.
    pub engine: &'static str,
    /// Tokens of context it was held against.
    pub context_tokens: Option<u64>,
    /// What it takes, part by part; `None` where only the engine's own pool is spoken of.
    pub parts: Option<Parts>,
    pub total_bytes: Option<Bytes>,
    /// Free for it: now, else when the run began.
    pub free_now_bytes: Option<Bytes>,
    pub card_bytes: Option<Bytes>,
    /// What a choice must leave free.
    pub headroom_bytes: Bytes,
    /// Whether it fits as it is, with the headroom.
    pub fits: Option<bool>,
    /// Why that is not known.
    pub why_not_known: Option<String>,
    /// Choices that fit, best first.
    pub choices: Vec<FitChoice>,
    /// The model's sizes, from the largest.
    pub sizes: Vec<Size>,
    /// Models or quantisations that would fit, where no choice does.
    pub instead: Vec<String>,
    /// What was assumed, and what can't be known.
    pub notes: Vec<String>,
    /// What each fix of the knowledge base would do.
    #[serde(skip)]
    effects: Vec<Effect>,
    /// What the person can try other settings on, where the model is known.
    #[serde(skip)]
    basis: Option<Arc<Basis>>,
    /// What is free is what is free now, not what was when the log was written.
    #[serde(skip)]
    is_now: bool,
    /// What a choice may take of each card, where the model is laid out over several.
    #[serde(skip)]
    each: Vec<Bytes>,
}

impl FitAdvice {
    /// An engine of which nothing more is known yet.
    fn of(engine: &'static str) -> FitAdvice {
        FitAdvice {
            model: None,
            engine,
            context_tokens: None,
            parts: None,
            total_bytes: None,
            free_now_bytes: None,
            card_bytes: None,
            headroom_bytes: Bytes::ZERO,
            fits: None,
            why_not_known: None,
            choices: Vec::new(),
            sizes: Vec::new(),
            instead: Vec::new(),
            notes: Vec::new(),
            effects: Vec::new(),
            basis: None,
            is_now: false,
            each: Vec::new(),
        }
    }

    /// The settings of the log, to try others from; `None` where the model is not known.
    pub fn trial(&self) -> Option<Trial> {
        Some(Trial::new(self.basis.as_ref()?))
    }

    /// Whether what is free is what is free now, rather than when the log was written.
    pub fn is_now(&self) -> bool {
        self.is_now
    }

    /// Whether the model is laid out over several cards of this machine; its figures are then of all of them.
    pub fn is_on_several(&self) -> bool {
        !self.each.is_empty()
    }

    /// What a fix of the knowledge base would do here; `None` where that can't be told.
    pub fn effect_of(&self, fix: &str) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.fix == fix)
    }

    /// What it takes and what the card has, where that is less: then nobody's end makes it fit as it is.
    pub fn beyond(&self) -> Option<(Bytes, Bytes)> {
        self.total_bytes.zip(self.card_bytes).filter(|(total, card)| self.fits == Some(false) && total > card)
    }

    /// Whether its weights alone are more than the card has: then no setting helps, on however empty a card.
    pub fn has_weights_beyond(&self) -> bool {
        let weights = self.parts.as_ref().and_then(|parts| parts.weights.bytes);
        weights.zip(self.card_bytes).is_some_and(|(weights, card)| weights > card)
    }

    /// What must be found on the card so that it fits as it is. About.
    pub fn missing(&self) -> Option<Bytes> {
        Some(self.total_bytes?.plus(self.headroom_bytes).less(self.free_now_bytes?))
            .filter(|_| self.is_now && !self.is_on_several())
    }
}

/// Whether the run's model fits, and which changes make it fit. `None` where memory of another kind ran out or neither
/// the model nor the engine's own figures are known.
pub fn fit(situation: &Situation<'_>, room: Room, ledger: Option<&Ledger>) -> Option<FitAdvice> {
    let diagnosis = situation.diagnosis;
    let of_card = matches!(diagnosis.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache));
    // What lies on one of the cards that share all of it is not told.
    if diagnosis.oom == Oom::No || !of_card || diagnosis.run.sharded.is_some() {
        return None;
    }
    let kind = Kind::of(diagnosis)?;
    if let Some(pool) = pool::advice(diagnosis).filter(|_| kind == Kind::Vllm) {
        return Some(pool);
    }
    let mut share = pool::share(diagnosis, ledger).filter(|_| kind == Kind::Vllm);
    let Some(mut known) = model::known(situation.model, &diagnosis.run, kind.is_torch()) else {
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
    let mut advice = advice(known, engine, notes, room, diagnosis);
    advice.effects.extend(share);
    Some(advice)
}

/// Puts what the log printed of sizes in the place of ours.
fn hold_to_the_log(known: &mut model::Known, diagnosis: &Diagnosis, engine: &Engine) {
    let run = &diagnosis.run;
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => {
            let refused = diagnosis.matches.first().is_some_and(|found| found.entry == "llama.cpp/kv-cache-allocation");
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

fn advice(known: model::Known, engine: Engine, mut notes: Vec<String>, room: Room, diagnosis: &Diagnosis) -> FitAdvice {
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
        effects.iter_mut().filter_map(|effect| effect.frees.as_mut()).for_each(|(_, is)| *is = FreesIs::About);
        choices.iter_mut().filter_map(|choice| choice.frees_is.as_mut()).for_each(|is| *is = FreesIs::About);
    }
    // Where the optimizer is made all else is there: no more comes back than the run had.
    let had = run_had(diagnosis).filter(|_| diagnosis.run.stage == Some(Stage::Optimizer));
    for (fix, changed) in effect::alone(&engine) {
        let Some(effect) = effects.iter_mut().find(|effect| effect.fix == fix) else { continue };
        effect.fits = effect.fits.or(too_much(&changed).then_some(false));
        let held = had.map(|had| had.less(least(&changed).unwrap_or(Bytes::ZERO)));
        let bound = |(frees, is): (Bytes, FreesIs)| (held.map_or(frees, |held| frees.min(held)), is);
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
        let of_length = ["smaller-batch", "gradient-checkpointing"];
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

/// The estimate's certainty in the plan's words.
fn frees_is(is: Is) -> FreesIs {
    if is == Is::Fact { FreesIs::Fact } else { FreesIs::About }
}
