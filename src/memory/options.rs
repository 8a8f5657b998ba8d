//! Owns what could be changed so that a model fits: each change with what it then takes, whether it fits, and the
//! flags. Order: what costs nothing or little first. Knows the engines' settings, not where a model was found.

use super::engine::Engine;
use super::ggml::GgmlType;
use super::inference::{self, Dtype, Generating};
use super::quant::{self, MIXES, Shape};
use super::search::largest;
use super::settings::CELL_PADDING;
use super::shape::Is;
use super::training::{Optimizer, Recipe, Sharing, Step, Training};
use super::{Estimate, ModelShape, Settings, best_layers, fewest_host_experts, sglang, split, vllm, weights};
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
    /// vLLM, SGLang: a checkpoint that was quantised to four bits.
    FourBits,
    /// vLLM, SGLang: the model over so many cards.
    TensorParallel(u64),
    /// SGLang: smaller pieces of a prefill.
    Chunk(u64),
    /// llama.cpp: over all cards of the machine.
    AllCards,
    /// llama.cpp: the image encoder in system memory.
    HostEncoder,
    /// transformers: weights in fewer bits.
    Dtype(Dtype),
    /// transformers: so much of the weights on the card, the rest in system memory.
    MaxMemory(Bytes),
    /// Training: the next stage of ZeRO.
    Stage(u8),
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
        Engine::Sglang(serving) => return sglang::fits(shape, serving, card.free),
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
    if !fits_already {
        choices.extend(other_card(engine, shape, card, cards).or_else(|| shared(engine, shape, cards)));
    }
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => llama(engine, settings, shape, card, &mut choices),
        Engine::Vllm(serving) => of_vllm(serving, shape, card, &mut choices),
        Engine::Sglang(serving) => of_sglang(serving, shape, card, &mut choices),
        Engine::Transformers(generating) => of_transformers(generating, shape, card, &mut choices),
        Engine::Train(run) => training(run, shape, card, &mut choices),
    }
    if let (Engine::Vllm(_) | Engine::Sglang(_), Some((_, four)), false) =
        (engine, in_four_bits(engine, shape), fits_already)
    {
        let mut found = choice(Change::FourBits, "a checkpoint in 4 bits (AWQ or GPTQ)", engine, &four, card);
        (found.flags, found.engine) = (None, None);
        choices.push(found);
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
    if shape.projector > 0 && !settings.host_projector {
        let host = again(Settings { host_projector: true, ..settings });
        let mut encoder = choice(Change::HostEncoder, "the image encoder in system memory", host, shape, card);
        encoder.flags = Some("--no-mmproj-offload".into()).filter(|_| matches!(engine, Engine::LlamaCpp(_)));
        choices.push(encoder);
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

/// The model in 4 bits where weights are not named by mixes: NF4 while loading (transformers), or a checkpoint that was
/// quantised already (vLLM; AWQ and GPTQ take about as much). `None` where it has so few bits already. About.
pub fn in_four_bits(engine: Engine, shape: &ModelShape) -> Option<(Engine, ModelShape)> {
    let sums = shape.weights.as_ref().ok()?;
    let four = inference::weight_bytes(shape, Dtype::Nf4).ok().filter(|four| sums.in_file() / 3 > four / 2)?;
    match engine {
        Engine::Transformers(generating) if generating.dtype != Dtype::Nf4 => {
            Some((Engine::Transformers(Generating { dtype: Dtype::Nf4, ..generating }), shape.clone()))
        }
        Engine::Vllm(_) | Engine::Sglang(_) => {
            let weights = Ok(sums.scaled(four, sums.in_file()));
            Some((engine, ModelShape { weights, weights_are: Is::About, ..shape.clone() }))
        }
        _ => None,
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

fn of_sglang(serving: sglang::Serving, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with = |kind: Change, words: &str, serving: sglang::Serving| {
        choices.push(choice(kind, words, Engine::Sglang(serving), shape, card))
    };
    let small = sglang::Serving { chunk: 2048, ..serving };
    if let Some(card) = card {
        let fraction = sglang::possible_fraction(shape, &serving, card.free);
        if fraction != serving.fraction && fraction > 0 {
            let words = if fraction > serving.fraction {
                "a larger pool, as much as prefills leave"
            } else {
                "a smaller pool, so that prefills have room"
            };
            with(Change::Utilization(fraction), words, sglang::Serving { fraction, ..serving });
        }
        let fraction = sglang::possible_fraction(shape, &small, card.free);
        if serving.chunk > small.chunk && fraction > 0 {
            let words = "prefills of 2K tokens at once and a pool of what they leave";
            with(Change::Chunk(2048), words, sglang::Serving { fraction, ..small });
        }
    }
    if serving.kv_half_bytes > 2 {
        with(Change::KvCache, "the KV cache in fp8", sglang::Serving { kv_half_bytes: 2, ..serving });
    }
}

fn of_transformers(generating: Generating, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with = |kind: Change, words: &str, generating: Generating| {
        choices.push(choice(kind, words, Engine::Transformers(generating), shape, card))
    };
    for (smaller, words) in [(Dtype::Int8, "weights in 8 bits"), (Dtype::Nf4, "weights in NF4")] {
        if generating.dtype != smaller && generating.dtype != Dtype::Nf4 {
            with(Change::Dtype(smaller), words, Generating { dtype: smaller, ..generating });
        }
    }
    // With less than half of them on the card it would crawl.
    let most = card.and_then(|card| inference::largest_max_memory(shape, &generating, card.free));
    let all = generating.max_memory.is_none().then(|| inference::weight_bytes(shape, generating.dtype).ok()).flatten();
    if let Some((most, _)) = most.zip(all).filter(|(most, all)| most.0 < *all && most.0 >= *all / 2) {
        let words = format!("{most} of the weights on the card and the rest in system memory");
        with(Change::MaxMemory(most), &words, Generating { max_memory: Some(most), ..generating });
    }
}

/// The model over several cards of the machine, where one is not enough: the smallest free memory among them decides.
fn shared(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let mut free: Vec<&Card> = cards.iter().collect();
    free.sort_by_key(|card| std::cmp::Reverse(card.free));
    let over = |ranks: u64| match engine {
        Engine::Vllm(serving) => Some(Engine::Vllm(vllm::Serving { tensor_parallel: ranks, ..serving })),
        Engine::Sglang(serving) => Some(Engine::Sglang(sglang::Serving { tensor_parallel: ranks, ..serving })),
        _ => None,
    };
    // Attention heads are shared out evenly.
    let even = |ranks: &u64| shape.heads.checked_rem(*ranks) == Some(0) && *ranks > engine.ranks();
    let choices = [2, 4, 8].into_iter().filter(even).filter_map(|ranks| {
        let least = free.get(usize::try_from(ranks).ok()?.checked_sub(1)?)?;
        let words = format!("the model over {ranks} cards");
        let mut found = choice(Change::TensorParallel(ranks), &words, over(ranks)?, shape, Some(least));
        found.flags = found.engine.map(|_| match engine {
            Engine::Sglang(_) => format!("--tp {ranks}"),
            _ => format!("--tensor-parallel-size {ranks}"),
        });
        Some(found)
    });
    let tensor = choices.into_iter().find(|choice| choice.fits == Some(true));
    tensor.or_else(|| split(engine, shape, cards))
}

/// llama.cpp over all cards, layer by layer.
fn split(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let Engine::LlamaCpp(settings) = engine else { return None };
    let free: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
    if cards.len() < 2 || settings.gpu_layers == Some(0) {
        return None;
    }
    let shares = split::fitting(shape, &settings, &free)?;
    let plain: Vec<u64> = free.iter().map(|free| split::in_hundreds(*free)).collect();
    let taken = split::over(shape, &settings, split::Mode::Layer, &shares, 0).ok()?;
    let several = Engine::LlamaCpp(Settings { devices: cards.len() as u64, ..settings });
    let words: Vec<String> = shares.iter().map(u64::to_string).collect();
    let flags = format!("-sm layer -ts {}", words.join(","));
    let counts: Vec<String> =
        taken.iter().zip(cards).map(|(share, card)| format!("{} on GPU {}", share.total(), card.index)).collect();
    Some(Choice {
        total: Some(taken.iter().fold(Bytes::ZERO, |sum, share| sum.plus(share.total()))),
        fits: Some(true),
        flags: Some(if shares == plain { "-sm layer".into() } else { flags }),
        engine: None,
        ..choice(
            Change::AllCards,
            &format!(
                "{} cards ({})",
                if cards.len() == 2 { "both".into() } else { format!("all {}", cards.len()) },
                counts.join(", ")
            ),
            several,
            shape,
            None,
        )
    })
}

fn training(run: Training, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with =
        |kind: Change, words: &str, run: Training| choices.push(choice(kind, words, Engine::Train(run), shape, card));
    let again = Training { step: Step { checkpointing: true, ..run.step }, ..run };
    if !run.step.checkpointing {
        with(Change::Checkpointing, "gradient checkpointing", again);
    }
    if run.step.batch > 1 {
        let step = Step { batch: 1, ..again.step };
        with(Change::OneSequence, "one sequence at a time and gradient accumulation", Training { step, ..again });
    }
    if run.optimizer == Optimizer::AdamW && !run.recipe.is_adapter() {
        let optimizer = Optimizer::AdamW8bit;
        with(Change::SmallOptimizer, "8-bit Adam and gradient checkpointing", Training { optimizer, ..again });
    }
    if run.sharing.cards > 1 {
        for stage in run.sharing.stage.saturating_add(1)..=3 {
            let sharing = Sharing { stage, ..run.sharing };
            let words = format!("ZeRO stage {stage} and gradient checkpointing");
            with(Change::Stage(stage), &words, Training { sharing, ..again });
        }
    }
    if !run.recipe.is_adapter() {
        let recipe = Recipe::Lora(16);
        with(Change::Adapter, "LoRA of rank 16 and gradient checkpointing", Training { recipe, ..again });
    }
    if !matches!(run.recipe, Recipe::Qlora(_)) {
        let recipe = Recipe::Qlora(16);
        with(Change::Adapter, "QLoRA of rank 16 and gradient checkpointing", Training { recipe, ..again });
    }
}

/// `32K` where it is a whole number of them.
pub fn tokens_in_words(tokens: u64) -> String {
    if tokens >= 1024 && tokens.is_multiple_of(1024) { format!("{}K", tokens / 1024) } else { tokens.to_string() }
}
