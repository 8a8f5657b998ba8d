//! Owns what could be changed so that a model fits: each change with what it then takes, whether it fits, and the
//! flags. Order: what costs nothing or little first. Knows the engines' settings, not where a model was found.

use super::engine::Engine;
use crate::memory::ggml::GgmlType;
use crate::memory::inference::Dtype;
use crate::memory::quant::{self, MIXES, Shape};
use crate::memory::search::largest;
use crate::memory::settings::CELL_PADDING;
use crate::memory::training::{Recipe, Step};
use crate::memory::{ModelShape, Settings, best_layers, fewest_host_experts, vllm, weights};
use crate::units::Bytes;

/// What is free for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The driver's index.
    pub index: u32,
    /// `GPU-…`, where known.
    pub uuid: Option<String>,
    /// Product name.
    pub name: String,
    /// Capacity.
    pub total: Bytes,
    /// Free now.
    pub free: Bytes,
}

/// A change and its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// In words.
    pub change: String,
    /// What the model then takes.
    pub total: Option<Bytes>,
    /// Whether it then fits; `None` where that is not known.
    pub fits: Option<bool>,
    /// Only the flags of the change; `None` where it has none.
    pub flags: Option<String>,
    /// The engine with the change, for the whole command line; `None` where another file is needed.
    pub engine: Option<Engine>,
    /// Whether it gives up context that was asked for.
    pub shortens: bool,
}

/// Whether an engine's model fits on the card; `None` where something is not known.
pub fn fits(engine: &Engine, shape: &ModelShape, card: Option<&Card>) -> Option<bool> {
    let (total, card) = (engine.estimate(shape).total()?, card?);
    Some(match engine {
        Engine::Vllm(serving) => {
            let allowed = vllm::allowed(card.total, serving.utilization);
            total <= allowed && allowed <= card.free
        }
        _ => total <= card.free,
    })
}

/// The longest context that fits, in steps of 256 up to what the model was made for.
pub fn longest(engine: Engine, shape: &ModelShape, card: &Card) -> Option<u64> {
    let most = shape.context_trained.or(engine.context(shape))? / CELL_PADDING;
    let fine = |blocks: u64| fits(&engine.with_context(blocks.saturating_mul(CELL_PADDING)), shape, Some(card));
    let tokens = largest(1, most, |blocks| fine(blocks) == Some(true))?.checked_mul(CELL_PADDING)?;
    // People think in thousands.
    Some(if tokens >= 8192 { tokens / 1024 * 1024 } else { tokens })
}

/// The changes for this engine; where the model fits already, only those that allow more. `cards` are all of the
/// machine's.
pub fn options(engine: Engine, shape: &ModelShape, card: Option<&Card>, cards: &[Card]) -> Vec<Choice> {
    let mut choices = Vec::new();
    let fits_already = fits(&engine, shape, card) == Some(true);
    choices.extend(other_card(engine, shape, card, cards).filter(|_| !fits_already));
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => llama(engine, settings, shape, card, &mut choices),
        Engine::Vllm(serving) => of_vllm(serving, shape, card, &mut choices),
        Engine::Transformers(dtype, context, batch) => {
            for (smaller, words) in [(Dtype::Int8, "weights in 8 bits"), (Dtype::Nf4, "weights in NF4")] {
                if dtype != smaller && dtype != Dtype::Nf4 {
                    choices.push(choice(words, Engine::Transformers(smaller, context, batch), shape, card));
                }
            }
        }
        Engine::Train(recipe, step) => training(recipe, step, shape, card, &mut choices),
    }
    if let Some(tokens) = card.and_then(|card| longest(engine, shape, card)) {
        let mut context =
            choice(&format!("{} context", tokens_in_words(tokens)), engine.with_context(tokens), shape, card);
        context.shortens = engine.context(shape).is_some_and(|asked| asked > tokens);
        choices.push(context);
    }
    choices
}

fn choice(change: &str, engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Choice {
    Choice {
        change: change.to_owned(),
        total: engine.estimate(shape).total(),
        fits: fits(&engine, shape, card),
        flags: Some(engine.flags()).filter(|flags| !flags.is_empty()),
        engine: Some(engine),
        shortens: false,
    }
}

fn other_card(engine: Engine, shape: &ModelShape, card: Option<&Card>, cards: &[Card]) -> Option<Choice> {
    let other = cards
        .iter()
        .filter(|other| card.is_some_and(|card| card.index != other.index))
        .max_by_key(|other| other.free)?;
    let name = other.uuid.clone().unwrap_or_else(|| other.index.to_string());
    Some(Choice {
        flags: Some(format!("CUDA_VISIBLE_DEVICES={name}")),
        engine: None,
        ..choice(&format!("GPU {} ({})", other.index, other.name), engine, shape, Some(other))
    })
    .filter(|choice| choice.fits == Some(true))
}

fn llama(engine: Engine, settings: Settings, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let again = |settings: Settings| match engine {
        Engine::Ollama(_) => Engine::Ollama(settings),
        _ => Engine::LlamaCpp(settings),
    };
    let attends = shape.layers.iter().flatten().any(|layer| layer.cache.is_some());
    let eight = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, flash_attention: true, ..settings };
    if attends && !settings.k_type.is_quantised() {
        choices.push(choice("the KV cache in q8_0", again(eight), shape, card));
        let tokens = card.and_then(|card| longest(again(eight), shape, card));
        let asked = engine.context(shape);
        if let Some(tokens) = tokens.filter(|tokens| Some(*tokens) != asked) {
            let words = format!("{} context with the KV cache in q8_0", tokens_in_words(tokens));
            let mut both = choice(&words, again(eight).with_context(tokens), shape, card);
            both.shortens = asked.is_some_and(|asked| asked > tokens);
            choices.push(both);
        }
    }
    let Some(budget) = card.map(|card| card.free) else { return };
    if let Some(count) = fewest_host_experts(shape, &settings, budget).filter(|count| *count > settings.host_experts) {
        let with = again(Settings { gpu_layers: None, host_experts: count, ..settings });
        let mut experts = choice(&format!("the experts of {count} layers in system memory"), with, shape, card);
        if let Engine::Ollama(_) = engine {
            experts.flags = Some(format!("LLAMA_ARG_N_CPU_MOE={count}"));
        }
        choices.push(experts);
    }
    let all = shape.layer_count().saturating_add(1);
    let asked = settings.gpu_layers.unwrap_or(all).min(all);
    if let Some(count) = best_layers(shape, &settings, budget).filter(|count| *count < asked && *count > 0) {
        let with = again(Settings { gpu_layers: Some(count), ..settings });
        let mut layers = choice(&format!("{count} of {all} layers on the card"), with, shape, card);
        if let Engine::Ollama(_) = engine {
            layers.flags = Some(format!("/set parameter num_gpu {count}"));
        }
        choices.push(layers);
    }
    if fits(&engine, shape, card) == Some(false) {
        choices.extend(smaller_mix(engine, shape, card));
    }
}

/// The largest smaller quantisation that fits, or the smallest of all; its size is about.
fn smaller_mix(engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Option<Choice> {
    let now = shape.weights.as_ref().ok()?.in_file();
    let special = shape.tensors.iter().any(|tensor| tensor.kind == GgmlType::MXFP4);
    if special || shape.tensors.is_empty() {
        return None;
    }
    let shapes: Vec<Shape> = shape.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dims.clone())).collect();
    let mut last = None;
    for mix in MIXES.iter().filter(|mix| !["F32", "BF16", "F16"].contains(mix)) {
        let Some(tensors) = quant::mixed(&shapes, mix, shape.layer_count(), shape.experts) else { continue };
        let count = usize::try_from(shape.layer_count()).unwrap_or(0);
        let sums = weights::sums_of(&tensors, count);
        if sums.in_file() >= now / 100 * 97 {
            continue;
        }
        let smaller = ModelShape { weights: Ok(sums), ..shape.clone() };
        let mut found = choice(
            &format!("{mix} instead of {}", shape.quantization.as_deref().unwrap_or("this file")),
            engine,
            &smaller,
            card,
        );
        (found.flags, found.engine) = (None, None);
        let enough = found.fits == Some(true);
        last = Some(found);
        if enough {
            break;
        }
    }
    last
}

fn of_vllm(serving: vllm::Serving, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with =
        |words: &str, serving: vllm::Serving| choices.push(choice(words, Engine::Vllm(serving), shape, card));
    if let Some(card) = card {
        let possible = vllm::possible_utilization(card.free, card.total) / 10 * 10;
        if possible < serving.utilization && possible > 0 {
            with("a utilisation that what is free now allows", vllm::Serving { utilization: possible, ..serving });
        }
    }
    if serving.kv_half_bytes > 2 {
        with("the KV cache in fp8", vllm::Serving { kv_half_bytes: 2, ..serving });
    }
    if !serving.eager {
        with("no CUDA graphs", vllm::Serving { eager: true, ..serving });
    }
}

fn training(recipe: Recipe, step: Step, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with =
        |words: &str, recipe: Recipe, step: Step| choices.push(choice(words, Engine::Train(recipe, step), shape, card));
    let again = Step { checkpointing: true, ..step };
    if !step.checkpointing {
        with("gradient checkpointing", recipe, again);
    }
    if step.batch > 1 {
        with("one sequence at a time and gradient accumulation", recipe, Step { batch: 1, ..again });
    }
    if recipe == Recipe::Mixed {
        with("8-bit Adam and gradient checkpointing", Recipe::Mixed8bit, again);
    }
    if !matches!(recipe, Recipe::Lora(_) | Recipe::Qlora(_)) {
        with("LoRA of rank 16 and gradient checkpointing", Recipe::Lora(16), again);
    }
    if !matches!(recipe, Recipe::Qlora(_)) {
        with("QLoRA of rank 16 and gradient checkpointing", Recipe::Qlora(16), again);
    }
}

/// `32K` where it is a whole number of them.
pub fn tokens_in_words(tokens: u64) -> String {
    if tokens >= 1024 && tokens.is_multiple_of(1024) { format!("{}K", tokens / 1024) } else { tokens.to_string() }
}
