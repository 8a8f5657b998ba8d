//! Owns what could be changed so that a model fits: each change with what it then takes, whether it fits, and the
//! flags. Order: what costs nothing or little first. Knows the engines' settings, not where a model was found.

mod llama;
mod torch;

use super::engine::Engine;
use super::estimate::Estimate;
use super::inference::Dtype;
use super::search::largest;
use super::settings::CELL_PADDING;
use super::settings::Settings;
use super::shape::ModelShape;
use super::{sglang, split, vllm};
use crate::units::Bytes;
pub use llama::at_mixes;
pub use torch::in_four_bits;

/// What is free for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub index: u32,
    pub uuid: Option<String>,
    pub name: String,
    pub total: Bytes,
    pub free: Bytes,
    /// Several cards as one, over which llama.cpp lays out a model: what is free on each. Empty for one card.
    pub each: Vec<Bytes>,
}

impl Card {
    /// What is free on it, or on each of several.
    pub fn room(&self) -> &[Bytes] {
        if self.each.is_empty() { std::slice::from_ref(&self.free) } else { &self.each }
    }

    /// Several as one, in their order; `None` where there is one only.
    pub fn together(cards: &[Card]) -> Option<Card> {
        let first = cards.first().filter(|_| cards.len() > 1)?;
        let each: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
        let sum = |sizes: &mut dyn Iterator<Item = Bytes>| sizes.fold(Bytes::ZERO, Bytes::plus);
        let (free, total) = (sum(&mut each.iter().copied()), sum(&mut cards.iter().map(|card| card.total)));
        Some(Card { free, total, each, ..first.clone() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another card of the machine.
    OtherCard,
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
    /// vLLM, SGLang: several of these at once, where none is enough alone; this context in tokens.
    Together(u64),
    /// llama.cpp, transformers: over all cards of the machine.
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
    SmallOptimizer,
    /// Training: an adapter, over weights in two bytes or in NF4.
    Adapter,
    /// This context in tokens.
    Context(u64),
}

/// A change and its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub kind: Change,
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
    /// What it would need of system memory, where that is more than there is; then it does not fit.
    pub lacks_ram: Option<Bytes>,
}

/// A change that moves more to system memory than is available there does not fit.
pub fn hold_against_ram(choices: &mut [Choice], before: &Estimate, available: Option<Bytes>) {
    let Some((available, had)) = available.zip(before.on_host()) else { return };
    for choice in choices {
        let needs = choice.estimate.on_host().filter(|needs| *needs > available && *needs > had);
        if let (Some(needs), Some(true)) = (needs, choice.fits) {
            (choice.fits, choice.lacks_ram) = (Some(false), Some(needs));
        }
    }
}

/// Whether an engine's model fits on the card; `None` where something is not known.
pub fn fits(engine: &Engine, shape: &ModelShape, card: Option<&Card>) -> Option<bool> {
    let (estimate, card) = (engine.estimate(shape), card?);
    let total = estimate.total()?;
    if engine.refusal(shape).is_some() {
        return Some(false);
    }
    Some(match engine {
        Engine::Vllm(serving) => {
            let allowed = vllm::allowed(card.total, serving.utilization);
            total <= allowed && allowed <= card.free
        }
        Engine::Sglang(serving) => return sglang::fits(shape, serving, card.free),
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) if !card.each.is_empty() => {
            split::fitting(shape, settings, &card.each).is_some()
        }
        _ => engine.wanted(&estimate)? <= card.free,
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

/// The changes for this engine; where the model fits already, only those that allow more. `cards` are
/// all of the machine's.
pub fn options(engine: Engine, shape: &ModelShape, card: Option<&Card>, cards: &[Card]) -> Vec<Choice> {
    let mut choices = Vec::new();
    let fits_already = fits(&engine, shape, card) == Some(true);
    if !fits_already {
        choices.extend(
            other_card(engine, shape, card, cards)
                .or_else(|| torch::shared(engine, shape, cards))
                .or_else(|| torch::laid_out(engine, shape, cards))
                .or_else(|| llama::split(engine, shape, cards)),
        );
    }
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => {
            llama::llama(engine, settings, shape, card, &mut choices)
        }
        Engine::Vllm(serving) => torch::of_vllm(serving, shape, card, &mut choices),
        Engine::Sglang(serving) => torch::of_sglang(serving, shape, card, &mut choices),
        Engine::Transformers(generating) => torch::of_transformers(generating, shape, card, &mut choices),
        Engine::Train(run) => torch::training(run, shape, card, cards, &mut choices),
    }
    if let (Engine::Vllm(_) | Engine::Sglang(_), Some((_, four)), false) =
        (engine, in_four_bits(engine, shape), fits_already)
    {
        let mut found = choice(Change::FourBits, "a checkpoint in 4 bits (AWQ or GPTQ)", engine, &four, card);
        (found.flags, found.engine) = (None, None);
        choices.push(found);
    }
    let no_more = |tokens: u64| fits_already && engine.context(shape).is_some_and(|asked| asked >= tokens);
    if let Some(tokens) = card.and_then(|card| longest(engine, shape, card)).filter(|tokens| !no_more(*tokens)) {
        let with = engine.with_context(tokens);
        let words = context_in_words(&with, shape).unwrap_or_default();
        let mut context = choice(Change::Context(tokens), &words, with, shape, card);
        context.shortens = engine.context(shape).is_some_and(|asked| asked > tokens);
        context.flags = match (engine, context.flags) {
            // There it is no setting: the sentence says what to do.
            (Engine::Transformers(generating), _) if generating.dtype == Dtype::Checkpoint => None,
            (Engine::Train(_), Some(flags)) => Some(format!("{flags} max_length={tokens}")),
            (_, flags) => flags,
        };
        choices.push(context);
    }
    let larger = card.filter(|_| !fits_already).and_then(|card| torch::longer_with_share(engine, shape, card));
    choices.extend(larger);
    if !fits_already && choices.iter().all(|choice| choice.fits == Some(false)) {
        choices.extend(torch::together(engine, shape, cards));
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
        lacks_ram: None,
    }
}

fn other_card(engine: Engine, shape: &ModelShape, card: Option<&Card>, cards: &[Card]) -> Option<Choice> {
    let other = cards
        .iter()
        .filter(|other| card.is_some_and(|card| card.index != other.index))
        .max_by_key(|other| other.free)?;
    Some(Choice {
        flags: Some(only_on(other, &engine)),
        engine: None,
        ..choice(Change::OtherCard, &format!("GPU {} ({})", other.index, other.name), engine, shape, Some(other))
    })
    .filter(|choice| choice.fits == Some(true))
}

/// What lets a program see those with most free memory alone, where it would take others; empty where it takes them
/// anyway or there are too few.
pub fn only_most_free(count: usize, cards: &[Card]) -> String {
    let mut chosen: Vec<&Card> = cards.iter().collect();
    chosen.sort_by_key(|card| (std::cmp::Reverse(card.free), card.index));
    let mut chosen: Vec<u32> = chosen.into_iter().take(count).map(|card| card.index).collect();
    chosen.sort_unstable();
    if count > cards.len() || cards.iter().map(|card| card.index).take(count).eq(chosen.iter().copied()) {
        return String::new();
    }
    let said: Vec<String> = chosen.iter().map(u32::to_string).collect();
    format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={} ", said.join(","))
}

/// What lets a program see this card alone. vLLM and SGLang read the variable as numbers (vllm-project/vllm#13815); in
/// the order of the bus they are the driver's.
pub fn only_on(card: &Card, engine: &Engine) -> String {
    let uuid = card.uuid.as_ref().filter(|_| !matches!(engine, Engine::Vllm(_) | Engine::Sglang(_)));
    match uuid {
        Some(uuid) => format!("CUDA_VISIBLE_DEVICES={uuid}"),
        None => format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={}", card.index),
    }
}

/// An engine's context in the words of a sentence, of several requests what each has; `None` where it is not known.
pub fn context_in_words(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let tokens = engine.context(shape)?;
    let plain = |tokens: u64| match tokens {
        1 => "1 token of context".to_owned(),
        _ => format!("{} tokens of context", tokens_in_words(tokens)),
    };
    let each = |settings: &Settings| tokens.checked_div(settings.parallel.max(1)).unwrap_or(tokens);
    Some(match engine {
        Engine::Train(_) => format!("sequences of {tokens} tokens"),
        Engine::LlamaCpp(settings) if settings.parallel > 1 && !settings.unified => {
            format!(
                "{} ({} for each of {} requests)",
                plain(tokens),
                tokens_in_words(each(settings)),
                settings.parallel
            )
        }
        Engine::Ollama(settings) if settings.parallel > 1 => {
            format!("{} for each of {} requests", plain(each(settings)), settings.parallel)
        }
        _ => plain(tokens),
    })
}

/// `32K` where it is a whole number of them.
pub fn tokens_in_words(tokens: u64) -> String {
    if tokens >= 1024 && tokens.is_multiple_of(1024) { format!("{}K", tokens / 1024) } else { tokens.to_string() }
}
