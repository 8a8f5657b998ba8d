//! Owns whether a model fits a GPU, or several over which llama.cpp lays it out, with what must stay free; and the longest
//! context for which it does. Bytes and tokens.

use super::card::Card;
use super::engine::Engine;
use super::largest::largest;
use super::settings::CELL_PADDING;
use super::shape::ModelShape;
use super::{sglang, split, vllm};

/// Whether an engine's model fits on the GPU; `None` where something is not known.
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
    let blocks = largest(1, most, |blocks| {
        fits(&engine.with_context(blocks.saturating_mul(CELL_PADDING)), shape, Some(card)) == Some(true)
    });
    let tokens = blocks?.checked_mul(CELL_PADDING)?;
    // People think in thousands.
    Some(if tokens >= 8192 { tokens / 1024 * 1024 } else { tokens })
}
