//! Owns what the settings of vLLM, SGLang, transformers and training offer where a model does not fit. Bytes.

use super::{Card, Change, Choice, choice, fits};
use crate::memory::engine::Engine;
use crate::memory::inference::{self, Dtype, Generating};
use crate::memory::shape::Is;
use crate::memory::shape::{ModelShape, Storage};
use crate::memory::spare::SPARE;
use crate::memory::training::{Optimizer, Recipe, Sharing, Step, Training};
use crate::memory::{refusal, sglang, vllm};

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
            let words = if usual == Some(utilization) { "vLLM's usual share of the card (0.92)" } else { LARGER };
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
    let most = card.and_then(|card| inference::largest_max_memory(shape, &generating, card.free.less(SPARE)));
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
    let words = format!("{LARGER} and {} tokens of context", super::tokens_in_words(tokens));
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
        let with = over.with_context(tokens);
        let words = format!("{words}{cards} and {}", super::context_in_words(&with, weights)?);
        let mut found = choice(Change::Together(tokens), &words, with, weights, Some(least));
        found.shortens = over.context(shape).is_some_and(|asked| asked > tokens);
        // Another checkpoint is another name.
        found.engine = found.engine.filter(|_| std::ptr::eq(weights, shape));
        Some(found)
    })
    .find(|choice| choice.fits == Some(true))
}

/// As many cards as were asked for; where its heads can't be shared out over them, fewer will do.
fn least_ranks(engine: Engine, shape: &ModelShape) -> u64 {
    let over = match engine {
        Engine::Vllm(serving) => serving.tensor_parallel,
        Engine::Sglang(serving) => serving.tensor_parallel,
        _ => 1,
    };
    if refusal::shares_out(shape, over) { engine.ranks() } else { 1 }
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
    choices.into_iter().find(|choice| choice.fits == Some(true)).or_else(|| layered(engine, shape, cards))
}

/// vLLM with whole layers on each of several cards, where the heads can't be shared out or that is not enough.
fn layered(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let mut free: Vec<&Card> = cards.iter().collect();
    free.sort_by_key(|card| std::cmp::Reverse(card.free));
    let choices = free.into_iter().zip(1_u64..).skip(1).filter_map(|(least, stages)| {
        let Engine::Vllm(serving @ vllm::Serving { tensor_parallel: 1, pipeline_parallel: 1, .. }) = engine else {
            return None;
        };
        let over = Engine::Vllm(vllm::Serving { pipeline_parallel: stages, ..serving });
        let words = format!("the layers over {stages} cards");
        let found = choice(Change::TensorParallel(stages), &words, over, shape, Some(least));
        Some(Choice { flags: Some(format!("--pipeline-parallel-size {stages}")), ..found })
    });
    choices.into_iter().find(|choice| choice.fits == Some(true))
}

/// transformers over all cards: whole layers with their caches on each, as many as beside its own buffers have room.
/// In whole GiB. About. The keys of max_memory are CUDA's numbers, in the order of `cards`.
pub(super) fn laid_out(engine: Engine, shape: &ModelShape, cards: &[Card]) -> Option<Choice> {
    let Engine::Transformers(generating) = engine else { return None };
    let whole = inference::estimate(shape, &Generating { max_memory: None, ..generating });
    let (weights, cache) = (whole.weights.bytes?, whole.kv_cache.bytes?.plus(whole.recurrent.bytes?));
    let beside = whole.compute.bytes?.plus(whole.overhead.bytes?);
    let layer = weights.0.checked_div(shape.layer_count())?;
    let most = |card: &Card| {
        let room = u128::from(card.free.less(beside).less(SPARE).0).saturating_mul(weights.0.into());
        let of_weights = room.checked_div(u128::from(weights.plus(cache).0)).unwrap_or(0);
        u64::try_from(of_weights >> 30).unwrap_or(0)
    };
    let gib: Vec<u64> = cards.iter().map(most).collect();
    // Of each card a part of a layer stays empty.
    let held = gib.iter().map(|gib| (gib << 30).saturating_sub(layer)).fold(0, u64::saturating_add);
    Some(()).filter(|()| cards.len() > 1 && held >= weights.0)?;
    let said: Vec<String> = gib.iter().enumerate().map(|(at, gib)| format!("{at}: \"{gib}GiB\"")).collect();
    // CUDA counts the fastest card first, unless it is told not to.
    let differ = cards.iter().any(|card| Some(card.total) != cards.first().map(|first| first.total));
    let order = if differ { " # with CUDA_DEVICE_ORDER=PCI_BUS_ID" } else { "" };
    let flags = format!("{}, device_map=\"auto\", max_memory={{{}}}{order}", engine.flags(), said.join(", "));
    let words = format!("{} cards", cards.len());
    let total = cards.iter().fold(weights.plus(cache), |sum, _| sum.plus(beside));
    let found = choice(Change::AllCards, &words, engine, shape, None);
    Some(Choice { total: Some(total), fits: Some(true), flags: Some(flags), engine: None, ..found })
}

/// ZeRO's stage, whether the optimizer is in system memory, and the words: what costs least speed first.
const WAYS: [(u8, bool, &str); 4] = [
    (2, false, "DeepSpeed ZeRO-2"),
    (3, false, "FSDP FULL_SHARD (DeepSpeed ZeRO-3 takes as much)"),
    (2, true, "DeepSpeed ZeRO-2 with the optimizer in system memory"),
    (3, true, "DeepSpeed ZeRO-3 with the optimizer in system memory"),
];

impl Choice {
    fn offloads(&self) -> bool {
        matches!(self.engine, Some(Engine::Train(run)) if run.sharing.offload)
    }
}

/// The run shared out this way over the cards that leave most to spare, each as much as the one with least free; over as
/// many as were asked for, where that is said, which may be on other machines.
fn shared_out(
    (stage, offload, words): (u8, bool, &str),
    run: Training,
    shape: &ModelShape,
    card: Option<&Card>,
    cards: &[Card],
) -> Option<Choice> {
    let now = run.sharing;
    let is_less = stage < now.stage || stage == now.stage && offload == now.offload || now.offload && !offload;
    // Of adapters only the weights below them are worth sharing, and NF4 is not shared by these lines.
    let is_useless = match run.recipe {
        Recipe::Qlora(_) => true,
        Recipe::Lora(_) => stage < 3 || offload,
        _ => offload && run.optimizer != Optimizer::AdamW,
    };
    if is_less || is_useless {
        return None;
    }
    let mut free: Vec<&Card> = cards.iter().collect();
    free.sort_by_key(|card| (std::cmp::Reverse(card.free), card.index));
    let over = |count: usize| {
        let fsdp = stage == 3 && !offload;
        let sharing = Sharing { stage, offload, fsdp, cards: count as u64 };
        let least = free.get(count.checked_sub(1)?).copied();
        let least = if now.cards > 1 { least.or(card)? } else { least? };
        let all = Engine::Train(Training { sharing, ..run });
        Some((i128::from(least.free.0).saturating_sub(all.estimate(shape).total()?.0.into()), count, all, least))
    };
    let many = usize::try_from(now.cards).ok()?;
    let counts = if many > 1 { many..=many } else { usize::from(!offload).saturating_add(1)..=free.len() };
    let (_, count, all, least) =
        counts.filter_map(over).max_by_key(|(spare, count, ..)| (*spare, std::cmp::Reverse(*count)))?;
    let estimate = all.estimate(shape);
    let parts = estimate.named().into_iter().filter(|(_, part)| part.bytes.is_some_and(|bytes| bytes.0 > 0));
    let parts: Vec<String> = parts.filter_map(|(name, part)| Some(format!("{name} {}", part.bytes?))).collect();
    let on = if count > 1 { format!(" over {count} cards") } else { String::new() };
    let words = format!("{words}{on} and gradient checkpointing (on each card {})", parts.join(", "));
    let mut found = choice(Change::Stage(stage), &words, all, shape, Some(least));
    let prefix = super::only_most_free(count, cards);
    found.flags = found.flags.map(|flags| format!("{prefix}{flags}"));
    Some(found)
}

pub(super) fn training(
    run: Training,
    shape: &ModelShape,
    card: Option<&Card>,
    cards: &[Card],
    choices: &mut Vec<Choice>,
) {
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
    if run.optimizer == Optimizer::AdamW && !run.recipe.is_adapter() && !run.sharing.offload {
        let optimizer = Optimizer::AdamW8bit;
        with(Change::SmallOptimizer, "8-bit Adam and gradient checkpointing", Training { optimizer, ..again });
    }
    let (on_cards, on_host): (Vec<_>, Vec<_>) =
        WAYS.into_iter().filter_map(|way| shared_out(way, again, shape, card, cards)).partition(|way| !way.offloads());
    // System memory is slow: only where the cards alone are not enough.
    let is_enough = on_cards.iter().any(|choice| choice.fits == Some(true));
    choices.extend(on_cards.into_iter().chain(on_host.into_iter().filter(|_| !is_enough)));
    let mut with =
        |kind: Change, words: &str, run: Training| choices.push(choice(kind, words, Engine::Train(run), shape, card));
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
