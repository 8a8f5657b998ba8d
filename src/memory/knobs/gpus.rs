//! Owns which GPUs of the machine run the model: another one, several that share its matrices or have whole layers each.

use crate::memory::card::most_free_first;
use crate::memory::estimate::SPARE;
use crate::memory::inference::{self, Generating};
use crate::memory::knob::*;
use crate::memory::refusal::shares_out;
use crate::memory::settings::Settings;
use crate::memory::visible::{in_order, only_on};
use crate::memory::{split, vllm};

/// GPUs that share each matrix (vLLM, SGLang), or all of the machine's (llama.cpp, transformers).
pub(crate) static KNOB: Knob = Knob {
    name: "GPUs",
    engines: &[Kind::Vllm, Kind::Sglang],
    spelled: &[
        Spelling { of: Program::Vllm, names: &["--tensor-parallel-size", "-tp"] },
        Spelling { of: Program::Sglang, names: &["--tp", "--tensor-parallel-size"] },
    ],
    number: |engine| match engine {
        Engine::Vllm(serving) => Some(&mut serving.tensor_parallel),
        Engine::Sglang(serving) => Some(&mut serving.tensor_parallel),
        _ => None,
    },
    is_usual: |engine| ranks(engine) <= 1,
    cost: |_, _, gpus| u8::from(gpus > 0),
    proposals: |need| if need.fits == Some(true) { Vec::new() } else { elsewhere(need).into_iter().collect() },
    ..Knob::PLAIN
};

/// GPUs that have whole layers each.
pub(crate) static PIPELINE: Knob = Knob {
    name: "GPUs with whole layers",
    engines: &[Kind::Vllm],
    spelled: &[Spelling { of: Program::Vllm, names: &["--pipeline-parallel-size", "-pp"] }],
    number: |engine| if let Engine::Vllm(serving) = engine { Some(&mut serving.pipeline_parallel) } else { None },
    is_usual: |engine| !matches!(engine, Engine::Vllm(serving) if serving.pipeline_parallel > 1),
    cost: |_, _, _| 1,
    ..Knob::PLAIN
};

/// Another or all GPUs, as a value: the change is free then.
const PLACED_OTHERWISE: Turn = Turn { knob: &KNOB, to: 0 };

fn ranks(engine: &Engine) -> u64 {
    KNOB.number_of(engine).unwrap_or(1)
}

/// The first that fits of another GPU, several with a part of each matrix, several with whole layers.
fn elsewhere(need: &Need<'_>) -> Option<Proposal> {
    other_gpu(need)
        .or_else(|| with_tensor_parallel(need))
        .or_else(|| with_pipeline(need))
        .or_else(|| laid_out(need))
        .or_else(|| over_all(need))
}

fn other_gpu(need: &Need<'_>) -> Option<Proposal> {
    let card = need.card?;
    let other = need.cards.iter().filter(|other| other.index != card.index).max_by_key(|other| other.free)?;
    let words = format!("GPU {} ({})", other.index, other.name);
    let proposal = Proposal {
        card: Some(other.clone()),
        is_own_command: false,
        ..need.propose(&[PLACED_OTHERWISE], words, need.engine).with_flags(only_on(other, &need.engine))
    };
    fitting(need, proposal)
}

fn fitting(need: &Need<'_>, proposal: Proposal) -> Option<Proposal> {
    (proposal.fits(need.shape) == Some(true)).then_some(proposal)
}

/// As many GPUs as were asked for; where its heads can't be shared out over them, fewer will do.
fn least_ranks(engine: &Engine, shape: &ModelShape) -> u64 {
    if shares_out(shape, ranks(engine)) { engine.ranks() } else { 1 }
}

/// The engine over so many GPUs, and the one of them with least free. Attention heads are shared out evenly.
pub(crate) fn over<'a>(
    engine: Engine,
    shape: &ModelShape,
    cards: &'a [Card],
    count: u64,
) -> Option<(Engine, &'a Card)> {
    let least = *most_free_first(cards).get(usize::try_from(count).ok()?.checked_sub(1)?)?;
    let is_shared = matches!(engine, Engine::Vllm(_) | Engine::Sglang(_));
    if !is_shared || count < least_ranks(&engine, shape) || !shares_out(shape, count) {
        return None;
    }
    Some((KNOB.with(engine, shape, count), least))
}

/// The model over several GPUs, where one is not enough: the smallest free memory among them decides.
fn with_tensor_parallel(need: &Need<'_>) -> Option<Proposal> {
    [2, 4, 8].into_iter().filter(|count| *count != need.engine.ranks()).find_map(|count| {
        let (engine, least) = over(need.engine, need.shape, need.cards, count)?;
        let words = format!("the model over {count} GPUs");
        let proposal = need.propose(&[Turn { knob: &KNOB, to: count }], words, engine);
        let Said::Option(flags) = KNOB.said(&engine, None)? else { return None };
        fitting(need, Proposal { card: Some(least.clone()), ..proposal.with_flags(flags) })
    })
}

/// vLLM with whole layers on each of several GPUs, where the heads can't be shared out or that is not enough.
fn with_pipeline(need: &Need<'_>) -> Option<Proposal> {
    let Engine::Vllm(serving @ vllm::Serving { tensor_parallel: 1, pipeline_parallel: 1, .. }) = need.engine else {
        return None;
    };
    most_free_first(need.cards).into_iter().zip(1_u64..).skip(1).find_map(|(least, stages)| {
        let engine = Engine::Vllm(vllm::Serving { pipeline_parallel: stages, ..serving });
        let words = format!("the layers over {stages} GPUs");
        let proposal = need
            .propose(&[Turn { knob: &PIPELINE, to: stages }], words, engine)
            .with_flags(format!("--pipeline-parallel-size {stages}"));
        fitting(need, Proposal { card: Some(least.clone()), ..proposal })
    })
}

/// transformers over all GPUs: whole layers with their caches on each, as many as beside its own buffers have room.
/// In whole GiB. About. The keys of max_memory are CUDA's numbers, in the order of `cards`.
fn laid_out(need: &Need<'_>) -> Option<Proposal> {
    let Engine::Transformers(generating) = need.engine else { return None };
    if need.cards.len() < 2 {
        return None;
    }
    let whole = inference::estimate(need.shape, &Generating { max_memory: None, ..generating });
    let (weights, cache) = (whole.weights.bytes?, whole.kv_cache.bytes?.plus(whole.recurrent.bytes?));
    let beside = whole.compute.bytes?.plus(whole.overhead.bytes?);
    let layer = weights.0.checked_div(need.shape.layer_count())?;
    let gib: Vec<u64> = need.cards.iter().map(|card| gib_of_weights(card.free.less(beside), weights, cache)).collect();
    // Of each GPU a part of a layer stays empty.
    let held = gib.iter().map(|gib| (gib << 30).saturating_sub(layer)).fold(0, u64::saturating_add);
    if held < weights.0 {
        return None;
    }
    let each: Vec<String> = gib.iter().enumerate().map(|(at, gib)| format!("{at}: \"{gib}GiB\"")).collect();
    let order = match in_order(need.cards) {
        "" => String::new(),
        order => format!(" # with {order}"),
    };
    let after = format!(", device_map=\"auto\", max_memory={{{}}}{order}", each.join(", "));
    let total = need.cards.iter().fold(weights.plus(cache), |sum, _| sum.plus(beside));
    let words = format!("{} GPUs", need.cards.len());
    let flags = Flags::OfEngine { before: String::new(), after };
    let proposal = need.propose(&[PLACED_OTHERWISE], words, need.engine);
    Some(Proposal { card: None, total: Some(total), flags, is_own_command: false, ..proposal })
}

/// Whole GiB of weights that lie in `free` beside their part of the cache.
fn gib_of_weights(free: Bytes, weights: Bytes, cache: Bytes) -> u64 {
    let room = u128::from(free.less(SPARE).0).saturating_mul(weights.0.into());
    let bytes = room.checked_div(u128::from(weights.plus(cache).0)).unwrap_or(0);
    u64::try_from(bytes >> 30).unwrap_or(0)
}

/// llama.cpp over all GPUs, layer by layer, where one was named that is not enough.
fn over_all(need: &Need<'_>) -> Option<Proposal> {
    let (Engine::LlamaCpp(settings), together) = (need.engine, Card::together(need.cards)?) else { return None };
    let settings = Settings { devices: need.cards.len() as u64, ..settings };
    let words = match need.cards.len() {
        2 => "both GPUs".to_owned(),
        count => format!("all {count} GPUs"),
    };
    let flags = split::flags(need.shape, &settings, &together.each).map_or(Flags::Nothing, Flags::These);
    let proposal = need.propose(&[PLACED_OTHERWISE], words, Engine::LlamaCpp(settings));
    fitting(need, Proposal { card: Some(together), flags, is_own_command: false, ..proposal })
}
