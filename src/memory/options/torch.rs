//! Owns what the settings of vLLM, SGLang, transformers and training offer where a model does not fit. Bytes.

use super::{Card, Change, Choice, choice, fits};
use crate::memory::engine::Engine;
use crate::memory::inference::{self, Dtype, Generating};
use crate::memory::shape::Is;
use crate::memory::training::{Optimizer, Recipe, Sharing, Step, Training};
use crate::memory::{ModelShape, Storage, refusal, sglang, vllm};

/// The model in 4 bits where weights are not named by mixes: NF4 while loading (transformers), or a checkpoint that was
/// quantised already (vLLM; AWQ and GPTQ take about as much). `None` where it has so few bits already. About.
pub fn in_four_bits(engine: Engine, shape: &ModelShape) -> Option<(Engine, ModelShape)> {
    let sums = shape.weights.as_ref().ok()?;
    let four = inference::in_dtype(shape, Dtype::Nf4).ok().filter(|four| sums.in_file() / 3 > four / 2)?;
    match engine {
        Engine::Transformers(generating) if generating.dtype != Dtype::Nf4 && shape.storage == Storage::Plain => {
            Some((Engine::Transformers(Generating { dtype: Dtype::Nf4, ..generating }), shape.clone()))
        }
        Engine::Vllm(_) | Engine::Sglang(_) => {
            let weights = Ok(sums.scaled(four, sums.in_file()));
            let storage = Storage::Quantised;
            Some((engine, ModelShape { weights, weights_are: Is::About, storage, ..shape.clone() }))
        }
        _ => None,
    }
}

pub(super) fn of_vllm(serving: vllm::Serving, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
    let mut with = |kind: Change, words: &str, serving: vllm::Serving| {
        choices.push(choice(kind, words, Engine::Vllm(serving), shape, card))
    };
    if let Some(card) = card {
        let possible = vllm::possible_utilization(card.free, card.total) / 10 * 10;
        let lower = possible < serving.utilization && possible > 0;
        let is_enough = |utilization: u64| {
            fits(&Engine::Vllm(vllm::Serving { utilization, ..serving }), shape, Some(card)) == Some(true)
        };
        // Its usual share, where that is enough.
        let usual = Some(vllm::Serving::default().utilization).filter(|usual| is_enough(*usual));
        let higher = usual.or_else(|| largest_share(card)).filter(|share| *share > serving.utilization);
        let higher = higher.filter(|_| !is_enough(serving.utilization));
        if lower {
            let words = "a utilisation that what is free now allows";
            with(Change::Utilization(possible), words, vllm::Serving { utilization: possible, ..serving });
        } else if let Some(utilization) = higher {
            let words = if usual == Some(utilization) { "vLLM's usual share of the card, 0.92" } else { LARGER };
            with(Change::Utilization(utilization), words, vllm::Serving { utilization, ..serving });
        }
    }
    if serving.kv_half_bytes > 2 {
        with(Change::KvCache, "the KV cache in fp8", vllm::Serving { kv_half_bytes: 2, ..serving });
    }
    if !serving.eager {
        with(Change::NoGraphs, "no CUDA graphs", vllm::Serving { eager: true, ..serving });
    }
}

/// The share of the card that vLLM can be given with what is free now, in thousandths: of a free card not all, since its
/// own driver context takes a part before it counts.
fn largest_share(card: &Card) -> Option<u64> {
    let possible = vllm::possible_utilization(card.free, card.total) / 10 * 10;
    Some(possible.min(950)).filter(|share| *share > 0)
}

/// The engine with the largest share of what is free on the card, where that is larger than its own.
fn with_largest_share(engine: Engine, shape: &ModelShape, card: &Card) -> Option<Engine> {
    match engine {
        Engine::Vllm(serving) => {
            let utilization = largest_share(card).filter(|share| *share > serving.utilization)?;
            Some(Engine::Vllm(vllm::Serving { utilization, ..serving }))
        }
        Engine::Sglang(serving) => {
            let fraction = sglang::possible_fraction(shape, &serving, card.free);
            (fraction > serving.fraction).then_some(Engine::Sglang(sglang::Serving { fraction, ..serving }))
        }
        _ => None,
    }
}

pub(super) fn of_sglang(serving: sglang::Serving, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
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

pub(super) fn of_transformers(
    generating: Generating,
    shape: &ModelShape,
    card: Option<&Card>,
    choices: &mut Vec<Choice>,
) {
    let mut with = |kind: Change, words: &str, generating: Generating| {
        choices.push(choice(kind, words, Engine::Transformers(generating), shape, card))
    };
    let narrower = [(Dtype::Int8, "weights in 8 bits"), (Dtype::Nf4, "weights in NF4")];
    let half = [(Dtype::Half, "weights in bfloat16")];
    let narrower: &[(Dtype, &str)] = match (shape.storage, generating.dtype) {
        (Storage::Plain, Dtype::Float32 | Dtype::Half | Dtype::Checkpoint) => &narrower,
        (Storage::Plain, Dtype::Int8) => narrower.get(1..).unwrap_or_default(),
        (Storage::Gguf, dtype) if dtype != Dtype::Half => &half,
        _ => &[],
    };
    for (smaller, words) in narrower.iter().copied() {
        with(Change::Dtype(smaller), words, Generating { dtype: smaller, ..generating });
    }
    // With less than half of them on the card it would crawl.
    let most = card.and_then(|card| inference::largest_max_memory(shape, &generating, card.free));
    let all = generating.max_memory.is_none().then(|| inference::weight_bytes(shape, generating.dtype).ok()).flatten();
    if let Some((most, _)) = most.zip(all).filter(|(most, all)| most.0 < *all && most.0 >= *all / 2) {
        let words = format!("{most} of the weights on the card and the rest in system memory");
        with(Change::MaxMemory(most), &words, Generating { max_memory: Some(most), ..generating });
    }
}

/// With what of the card the weights and their cache get.
const LARGER: &str = "a larger share of the card";

/// A larger share than SGLang's own rule gives (it leaves a third of a card of 24 GB) or than vLLM was given, and the
/// context that then fits, where that is longer by half than without.
pub(super) fn longer_with_share(engine: Engine, shape: &ModelShape, card: &Card) -> Option<Choice> {
    if matches!(engine, Engine::Vllm(serving) if serving.utilization >= vllm::Serving::default().utilization) {
        return None;
    }
    let larger = with_largest_share(engine, shape, card)?;
    let plain = super::longest(engine, shape, card).unwrap_or(0);
    let asked = engine.context(shape).unwrap_or(u64::MAX);
    let tokens = super::longest(larger, shape, card)?.min(asked);
    let words = format!("{LARGER} and {} context", super::tokens_in_words(tokens));
    let worth = tokens >= USEFUL_CONTEXT && tokens < asked && tokens / 3 >= plain / 2;
    let found = choice(Change::Together(tokens), &words, larger.with_context(tokens), shape, Some(card));
    Some(Choice { shortens: true, ..found }).filter(|found| worth && found.fits == Some(true))
}

/// A context that is worth a server.
const USEFUL_CONTEXT: u64 = 2048;

/// Where no single change is enough: fewer bits, more cards and a shorter context at once, of each as little as can be.
pub(super) fn together(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let four = in_four_bits(engine, shape).map(|(_, four)| four);
    let weights = [(Some(shape), "the model"), (four.as_ref(), "a checkpoint in 4 bits (AWQ or GPTQ)")];
    let ways = weights.into_iter().flat_map(|(weights, words)| [1, 2, 4, 8].map(|ranks| (weights, words, ranks)));
    let ways = ways.flat_map(|(weights, words, ranks)| [false, true].map(|share| (weights, words, ranks, share)));
    ways.filter_map(|(weights, words, ranks, share)| {
        let (over, least) = over(engine, shape, cards, ranks)?;
        let weights = weights?;
        let over = if share { with_largest_share(over, weights, least)? } else { over };
        let words = if share { format!("{words}, {LARGER}") } else { words.to_owned() };
        let tokens = super::longest(over, weights, least).filter(|tokens| *tokens >= USEFUL_CONTEXT)?;
        let tokens = over.context(shape).map_or(tokens, |asked| asked.min(tokens));
        let cards = if ranks > engine.ranks() { format!(" over {ranks} cards") } else { String::new() };
        let words = format!("{words}{cards} and {} context", super::tokens_in_words(tokens));
        let mut found = choice(Change::Together(tokens), &words, over.with_context(tokens), weights, Some(least));
        found.shortens = over.context(shape).is_some_and(|asked| asked > tokens);
        // Another checkpoint is another name.
        found.engine = found.engine.filter(|_| std::ptr::eq(weights, shape));
        Some(found)
    })
    .find(|choice| choice.fits == Some(true))
}

/// As many cards as were asked for; where its heads can't be shared out over them, fewer will do.
fn least_ranks(engine: Engine, shape: &ModelShape) -> u64 {
    let asked = engine.ranks();
    if refusal::shares_out(shape, asked) { asked } else { 1 }
}

/// The engine over so many cards, and the one of them with least free. Attention heads are shared out evenly.
fn over<'a>(engine: Engine, shape: &ModelShape, cards: &'a [Card], ranks: u64) -> Option<(Engine, &'a Card)> {
    let mut free: Vec<&Card> = cards.iter().collect();
    free.sort_by_key(|card| std::cmp::Reverse(card.free));
    let least = free.get(usize::try_from(ranks).ok()?.checked_sub(1)?)?;
    if ranks < least_ranks(engine, shape) || !refusal::shares_out(shape, ranks) {
        return None;
    }
    let engine = match engine {
        Engine::Vllm(serving) => Engine::Vllm(vllm::Serving { tensor_parallel: ranks, ..serving }),
        Engine::Sglang(serving) => Engine::Sglang(sglang::Serving { tensor_parallel: ranks, ..serving }),
        _ => return None,
    };
    Some((engine, least))
}

/// The model over several cards of the machine, where one is not enough: the smallest free memory among them decides.
pub(super) fn shared(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let least = least_ranks(engine, shape);
    let more = [2, 4, 8].into_iter().filter(|ranks| *ranks != engine.ranks() && *ranks >= least);
    let choices = more.filter_map(|ranks| {
        let (over, least) = over(engine, shape, cards, ranks)?;
        let words = format!("the model over {ranks} cards");
        let mut found = choice(Change::TensorParallel(ranks), &words, over, shape, Some(least));
        found.flags = found.engine.map(|_| match engine {
            Engine::Sglang(_) => format!("--tp {ranks}"),
            _ => format!("--tensor-parallel-size {ranks}"),
        });
        Some(found)
    });
    choices.into_iter().find(|choice| choice.fits == Some(true))
}

pub(super) fn training(run: Training, shape: &ModelShape, card: Option<&Card>, choices: &mut Vec<Choice>) {
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
    // What is quantised already is taken as it is.
    if !matches!(run.recipe, Recipe::Qlora(_)) && shape.storage != Storage::Quantised {
        let recipe = Recipe::Qlora(16);
        with(Change::Adapter, "QLoRA of rank 16 and gradient checkpointing", Training { recipe, ..again });
    }
}

#[cfg(test)]
mod tests;
