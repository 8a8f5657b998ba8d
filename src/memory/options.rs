//! Owns what could be changed so that a model fits: each change with what it then takes, whether it fits, and the
//! flags. Order: what costs nothing or little first. Knows the engines' settings, not where a model was found.

use super::engine::Engine;
use super::ggml::GgmlType;
use super::inference::Dtype;
use super::quant::{self, MIXES, Shape};
use super::search::largest;
use super::settings::CELL_PADDING;
use super::shape::Is;
use super::training::{Recipe, Step};
use super::{Estimate, ModelShape, Settings, best_layers, fewest_host_experts, vllm, weights};
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

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another card of the machine.
    OtherCard,
    /// Flash attention on.
    FlashAttention,
    /// One slot instead of several.
    OneSlot,
    /// The KV cache in 8 bits.
    KvCache,
    /// The KV cache in 8 bits, and this context in tokens.
    KvCacheAndContext(u64),
    /// The experts of so many layers on the host.
    Experts(u64),
    /// So many layers on the card, the output counts as one.
    Layers(u64),
    /// Another file at this mix.
    Mix(&'static str),
    /// vLLM's share of the card in thousandths.
    Utilization(u64),
    /// vLLM without CUDA graphs.
    NoGraphs,
    /// transformers: weights in fewer bits.
    Dtype(Dtype),
    /// Training: activations computed again.
    Checkpointing,
    /// Training: one sequence at once.
    OneSequence,
    /// Training: 8-bit Adam.
    SmallOptimizer,
    /// Training: an adapter, over weights in two bytes or in NF4.
    Adapter,
    /// This context in tokens.
    Context(u64),
}

/// A change and its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which.
    pub kind: Change,
    /// In words.
    pub change: String,
    /// The parts that the model then takes.
    pub estimate: Estimate,
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
                    let changed = Engine::Transformers(smaller, context, batch);
                    choices.push(choice(Change::Dtype(smaller), words, changed, shape, card));
                }
            }
        }
        Engine::Train(recipe, step) => training(recipe, step, shape, card, &mut choices),
    }
    if let Some(tokens) = card.and_then(|card| longest(engine, shape, card)) {
        let mut context = choice(
            Change::Context(tokens),
            &format!("{} context", tokens_in_words(tokens)),
            engine.with_context(tokens),
            shape,
            card,
        );
        context.shortens = engine.context(shape).is_some_and(|asked| asked > tokens);
        choices.push(context);
    }
    choices
}

fn choice(kind: Change, change: &str, engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Choice {
    let estimate = engine.estimate(shape);
    Choice {
        kind,
        change: change.to_owned(),
        total: estimate.total(),
        estimate,
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
        ..choice(Change::OtherCard, &format!("GPU {} ({})", other.index, other.name), engine, shape, Some(other))
    })
    .filter(|choice| choice.fits == Some(true))
}

fn llama(engine: Engine, settings: Settings, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let again = |settings: Settings| match engine {
        Engine::Ollama(_) => Engine::Ollama(settings),
        _ => Engine::LlamaCpp(settings),
    };
    let attends = shape.layers.iter().flatten().any(|layer| layer.cache.is_some());
    if attends && !settings.flash_attention {
        let on = again(Settings { flash_attention: true, ..settings });
        let mut flash = choice(Change::FlashAttention, "flash attention", on, shape, card);
        flash.flags = Some(if let Engine::Ollama(_) = engine { "OLLAMA_FLASH_ATTENTION=1" } else { "-fa on" }.into());
        choices.push(flash);
    }
    if settings.parallel > 1 {
        let each = engine.context(shape).and_then(|all| all.checked_div(settings.parallel));
        let one = again(Settings { parallel: 1, context: each, ..settings });
        choices.push(choice(Change::OneSlot, "one request at a time", one, shape, card));
    }
    let eight = Settings { k_type: GgmlType::Q8_0, v_type: GgmlType::Q8_0, flash_attention: true, ..settings };
    if attends && !settings.k_type.is_quantised() {
        choices.push(choice(Change::KvCache, "the KV cache in q8_0", again(eight), shape, card));
        let tokens = card.and_then(|card| longest(again(eight), shape, card));
        let asked = engine.context(shape);
        if let Some(tokens) = tokens.filter(|tokens| Some(*tokens) != asked) {
            let words = format!("{} context and the KV cache in q8_0", tokens_in_words(tokens));
            let mut both =
                choice(Change::KvCacheAndContext(tokens), &words, again(eight).with_context(tokens), shape, card);
            both.shortens = asked.is_some_and(|asked| asked > tokens);
            choices.push(both);
        }
    }
    let Some(budget) = card.map(|card| card.free) else { return };
    if let Some(count) = fewest_host_experts(shape, &settings, budget).filter(|count| *count > settings.host_experts) {
        let with = again(Settings { gpu_layers: None, host_experts: count, ..settings });
        let mut experts = choice(
            Change::Experts(count),
            &format!("the experts of {count} layers in system memory"),
            with,
            shape,
            card,
        );
        if let Engine::Ollama(_) = engine {
            experts.flags = Some(format!("LLAMA_ARG_N_CPU_MOE={count}"));
        }
        choices.push(experts);
    }
    let all = shape.layer_count().saturating_add(1);
    let asked = settings.gpu_layers.unwrap_or(all).min(all);
    if let Some(count) = best_layers(shape, &settings, budget).filter(|count| *count < asked && *count > 0) {
        let with = again(Settings { gpu_layers: Some(count), ..settings });
        let mut layers =
            choice(Change::Layers(count), &format!("{count} of {all} layers on the card"), with, shape, card);
        if let Engine::Ollama(_) = engine {
            layers.flags = Some(format!("/set parameter num_gpu {count}"));
        }
        choices.push(layers);
    }
    if fits(&engine, shape, card) == Some(false) {
        choices.extend(smaller_mix(engine, shape, card));
    }
}

/// The model at each mix that files are given out in, from the largest to the smallest; their sizes are about. Empty
/// where its tensors are not known one by one, or are trained in a type of their own (gpt-oss).
pub fn at_mixes(shape: &ModelShape) -> Vec<(&'static str, ModelShape)> {
    let own_type = shape.tensors.iter().any(|tensor| tensor.kind == GgmlType::MXFP4);
    if own_type || shape.architecture == "gpt-oss" {
        return Vec::new();
    }
    let shapes: Vec<Shape> = shape.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dims.clone())).collect();
    let count = usize::try_from(shape.layer_count()).unwrap_or(0);
    let at = |mix: &&'static str| {
        let tensors =
            quant::mixed(&shapes, mix, shape.layer_count(), shape.experts).filter(|found| !found.is_empty())?;
        let weights = Ok(weights::sums_of(&tensors, count));
        Some((*mix, ModelShape { weights, weights_are: Is::About, quantization: Some((*mix).into()), ..shape.clone() }))
    };
    MIXES.iter().filter(|mix| !["F32", "BF16", "F16"].contains(mix)).filter_map(at).collect()
}

/// The largest smaller quantisation that fits, or the smallest of all; its size is about.
fn smaller_mix(engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Option<Choice> {
    let now = shape.weights.as_ref().ok()?.in_file();
    let from = shape.quantization.as_deref().unwrap_or("this file");
    let mut last = None;
    for (mix, smaller) in at_mixes(shape) {
        if smaller.weights.as_ref().is_ok_and(|sums| sums.in_file() >= now / 100 * 97) {
            continue;
        }
        let mut found = choice(Change::Mix(mix), &format!("{mix} instead of {from}"), engine, &smaller, card);
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
    let mut with = |kind: Change, words: &str, serving: vllm::Serving| {
        choices.push(choice(kind, words, Engine::Vllm(serving), shape, card))
    };
    if let Some(card) = card {
        let possible = vllm::possible_utilization(card.free, card.total) / 10 * 10;
        if possible < serving.utilization && possible > 0 {
            with(
                Change::Utilization(possible),
                "a utilisation that what is free now allows",
                vllm::Serving { utilization: possible, ..serving },
            );
        }
    }
    if serving.kv_half_bytes > 2 {
        with(Change::KvCache, "the KV cache in fp8", vllm::Serving { kv_half_bytes: 2, ..serving });
    }
    if !serving.eager {
        with(Change::NoGraphs, "no CUDA graphs", vllm::Serving { eager: true, ..serving });
    }
}

fn training(recipe: Recipe, step: Step, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with = |kind: Change, words: &str, recipe: Recipe, step: Step| {
        choices.push(choice(kind, words, Engine::Train(recipe, step), shape, card))
    };
    let again = Step { checkpointing: true, ..step };
    if !step.checkpointing {
        with(Change::Checkpointing, "gradient checkpointing", recipe, again);
    }
    if step.batch > 1 {
        with(
            Change::OneSequence,
            "one sequence at a time and gradient accumulation",
            recipe,
            Step { batch: 1, ..again },
        );
    }
    if recipe == Recipe::Mixed {
        with(Change::SmallOptimizer, "8-bit Adam and gradient checkpointing", Recipe::Mixed8bit, again);
    }
    if !matches!(recipe, Recipe::Lora(_) | Recipe::Qlora(_)) {
        with(Change::Adapter, "LoRA of rank 16 and gradient checkpointing", Recipe::Lora(16), again);
    }
    if !matches!(recipe, Recipe::Qlora(_)) {
        with(Change::Adapter, "QLoRA of rank 16 and gradient checkpointing", Recipe::Qlora(16), again);
    }
}

/// `32K` where it is a whole number of them.
pub fn tokens_in_words(tokens: u64) -> String {
    if tokens >= 1024 && tokens.is_multiple_of(1024) { format!("{}K", tokens / 1024) } else { tokens.to_string() }
}
