//! Owns the share of a GPU that an engine takes, in thousandths: vLLM's of all VRAM, SGLang's of what is free.

use crate::memory::fits::longest;
use crate::memory::knob::*;
use crate::memory::knobs::context;
use crate::memory::words::{share_in_words, tokens_in_words};
use crate::memory::{sglang, vllm};

pub(crate) static KNOB: Knob = Knob {
    name: "share",
    engines: &[Kind::Vllm, Kind::Sglang],
    spelled: &[
        Spelling { of: Program::Vllm, names: &["--gpu-memory-utilization"] },
        Spelling { of: Program::Sglang, names: &["--mem-fraction-static"] },
    ],
    printed: &["gpu_memory_utilization", "mem_fraction_static"],
    fixes: &[FixId::LOWER_UTILIZATION, FixId::RAISE_UTILIZATION],
    number: |engine| match engine {
        Engine::Vllm(serving) => Some(&mut serving.utilization),
        Engine::Sglang(serving) => Some(&mut serving.fraction),
        _ => None,
    },
    states: Some(|engine, _| KNOB.option(engine, share_in_words(of(engine)))),
    is_usual: |engine| match engine {
        Engine::Vllm(serving) => serving.utilization == vllm::USUAL_UTILIZATION,
        Engine::Sglang(serving) => serving.fraction == serving.usual_fraction,
        _ => true,
    },
    proposals,
    label: Some(|engine| if let Engine::Sglang(_) = engine { "share of free VRAM" } else { "share of the GPU" }),
    ladder: Some(|_, _| (10..=49).map(|step| step * 20).collect()),
    shown: Some(|engine, _| {
        let shown = format!("{}.{:03}", of(engine) / 1000, of(engine) % 1000);
        shown.strip_suffix('0').unwrap_or(&shown).to_owned()
    }),
    ..Knob::PLAIN
};

/// With what of the GPU the weights and their cache get.
pub(crate) const LARGER: &str = "a larger share of the GPU";

/// A context that is worth a server.
pub(crate) const USEFUL_CONTEXT: u64 = 2048;

fn of(engine: &Engine) -> u64 {
    KNOB.number_of(engine).unwrap_or(0)
}

/// What is free now as a share, in whole hundredths.
fn possible(engine: &Engine, shape: &ModelShape, card: &Card) -> u64 {
    match engine {
        Engine::Sglang(serving) => sglang::possible_fraction(shape, serving, card.free),
        _ => vllm::possible_utilization(card.free, card.total) / 10 * 10,
    }
}

/// The share that vLLM can be given with what is free now: of a free GPU not all, since its own driver context takes a
/// part before it counts.
fn most_of_vllm(need: &Need<'_>, card: &Card) -> Option<u64> {
    Some(possible(&need.engine, need.shape, card).min(950)).filter(|share| *share > 0)
}

fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let Some(card) = need.card else { return Vec::new() };
    let proposal = match need.engine {
        Engine::Vllm(_) => of_vllm(need, card),
        Engine::Sglang(_) => of_sglang(need, card),
        _ => None,
    };
    proposal.into_iter().collect()
}

/// A smaller share where less is free, else a larger one where that makes it fit: vLLM's usual share if that is enough.
fn of_vllm(need: &Need<'_>, card: &Card) -> Option<Proposal> {
    let (now, possible) = (of(&need.engine), possible(&need.engine, need.shape, card));
    if possible < now && possible > 0 {
        return Some(need.turn(&KNOB, possible, "a utilisation that what is free now allows"));
    }
    if need.fits == Some(true) {
        return None;
    }
    let usual = vllm::USUAL_UTILIZATION;
    let is_usual_enough = fits(&KNOB.with(need.engine, need.shape, usual), need.shape, need.card) == Some(true);
    let higher = if is_usual_enough { usual } else { most_of_vllm(need, card)? };
    let words = if is_usual_enough { "vLLM's usual share of the GPU (0.92)" } else { LARGER };
    (higher > now).then(|| need.turn(&KNOB, higher, words))
}

fn of_sglang(need: &Need<'_>, card: &Card) -> Option<Proposal> {
    let (now, possible) = (of(&need.engine), possible(&need.engine, need.shape, card));
    if possible == now || possible == 0 {
        return None;
    }
    let words = match possible > now {
        true => "a larger pool, as much as prefills leave",
        false => "a smaller pool, so that prefills have room",
    };
    Some(need.turn(&KNOB, possible, words))
}

/// The engine with the largest share of what is free on the GPU, where that is larger than its own.
pub(crate) fn with_largest(engine: Engine, shape: &ModelShape, card: &Card) -> Option<Engine> {
    let need = Need { engine, shape, card: Some(card), cards: &[], fits: None };
    let largest = match engine {
        Engine::Vllm(_) => most_of_vllm(&need, card)?,
        Engine::Sglang(_) => possible(&engine, shape, card),
        _ => return None,
    };
    (largest > of(&engine)).then(|| KNOB.with(engine, shape, largest))
}

/// A larger share than SGLang's own rule gives (it leaves a third of a GPU of 24 GB) or than vLLM was given, and the
/// context that then fits, where that is longer by half than without.
pub(crate) fn with_longer_context(need: &Need<'_>, card: &Card) -> Option<Proposal> {
    let Need { engine, shape, .. } = *need;
    if matches!(engine, Engine::Vllm(serving) if serving.utilization >= vllm::USUAL_UTILIZATION) {
        return None;
    }
    let larger = with_largest(engine, shape, card)?;
    let plain = longest(engine, shape, card).unwrap_or(0);
    let asked = engine.context(shape).unwrap_or(u64::MAX);
    let tokens = longest(larger, shape, card)?.min(asked);
    if tokens < USEFUL_CONTEXT || tokens >= asked || tokens / 3 < plain / 2 {
        return None;
    }
    let turns = [Turn { knob: &KNOB, to: of(&larger) }, Turn { knob: &context::KNOB, to: tokens }];
    let words = format!("{LARGER} and {} tokens of context", tokens_in_words(tokens));
    let proposal = Proposal { shortens: true, ..need.propose(&turns, words, larger.with_context(tokens)) };
    (proposal.fits(shape) == Some(true)).then_some(proposal)
}
