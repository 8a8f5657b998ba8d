//! Owns whether a model fits a GPU, or several over which llama.cpp lays it out, with what must stay free; and the search
//! for what fits: the longest context, the most layers, the fewest layers whose experts must stay on the host. Answers are
//! exact for the estimate they are held against, which is "about" itself. Bytes and tokens. Knows nothing of flags or words.

use super::card::Card;
use super::engine::Engine;
use super::estimate::estimate;
use super::settings::{CELL_PADDING, Settings};
use super::shape::ModelShape;
use super::{sglang, split, vllm};
use crate::units::Bytes;

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

/// The largest number in `least..=most` that is fine, where all below a fine one are; `None` where `least` is not.
pub(crate) fn largest(least: u64, most: u64, is_fine: impl Fn(u64) -> bool) -> Option<u64> {
    if least > most || !is_fine(least) {
        return None;
    }
    let (mut fine, mut limit) = (least, most);
    while fine < limit {
        let middle = fine.saturating_add(limit.saturating_sub(fine).div_ceil(2));
        if is_fine(middle) {
            fine = middle;
        } else {
            limit = middle.saturating_sub(1);
        }
    }
    Some(fine)
}

/// Whether llama.cpp's model fits into what is free on a GPU; `None` where it is not known.
fn has_room(shape: &ModelShape, settings: &Settings, budget: Bytes) -> Option<bool> {
    estimate(shape, settings).wanted(1).map(|wanted| wanted <= budget)
}

/// Whether it fits a GPU, or each of several that it is laid out over.
fn fits_with(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> bool {
    match free {
        [budget] => has_room(shape, settings, *budget) == Some(true),
        several => split::fitting(shape, settings, several).is_some(),
    }
}

/// The longest context in tokens, over all slots, that fits into the budget with the other settings as they are: a
/// multiple of 256, at most what the model was made for. `None` where none fits or too little is known.
pub(crate) fn largest_context(shape: &ModelShape, settings: &Settings, budget: Bytes) -> Option<u64> {
    let most = shape.context_trained.or(settings.context)?.div_ceil(CELL_PADDING);
    let blocks = largest(1, most, |blocks| {
        fits_with(shape, &Settings { context: blocks.checked_mul(CELL_PADDING), ..*settings }, &[budget])
    });
    blocks?.checked_mul(CELL_PADDING)
}

/// The most layers on the GPU (`-ngl`, the output counts as one) that fit into what is free, 0 to layers + 1; over
/// several, shared out by that. `None` where too little is known.
pub fn best_layers(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<u64> {
    let all = shape.layer_count().checked_add(1)?;
    let whole = Settings { gpu_layers: Some(all), ..*settings };
    let [budget] = free else {
        let whole = split::fitting(shape, &whole, free).map(|_| all);
        return whole.or_else(|| split::most_layers(shape, settings, free));
    };
    // With all of them nothing has to come over, so that fewer may take more.
    if has_room(shape, &whole, *budget)? {
        return Some(all);
    }
    // With none of them the output's matrix comes over as well.
    largest(1, all.saturating_sub(1), |count| fits_with_layers(shape, settings, free, count))
        .or_else(|| fits_with_layers(shape, settings, free, 0).then_some(0))
}

fn fits_with_layers(shape: &ModelShape, settings: &Settings, free: &[Bytes], count: u64) -> bool {
    fits_with(shape, &Settings { gpu_layers: Some(count), ..*settings }, free)
}

/// For a mixture of experts with all layers on the GPU: the fewest layers whose experts must stay on the host
/// (`-ncmoe`). `None` where even all are not enough, or there are no experts.
pub fn fewest_host_experts(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<u64> {
    let layers = shape.layer_count();
    if shape.experts == 0 || !shape.weights.as_ref().is_ok_and(|sums| sums.layers.iter().any(|l| l.experts > 0)) {
        return None;
    }
    // With none of them nothing has to come over, so that a few may take more.
    if fits_with_host_experts(shape, settings, free, 0) {
        return Some(0);
    }
    // The more stay, the smaller: the largest number that may be on the GPU.
    let on_card = largest(0, layers.saturating_sub(1), |count| {
        fits_with_host_experts(shape, settings, free, layers.saturating_sub(count))
    })?;
    Some(layers.saturating_sub(on_card))
}

fn fits_with_host_experts(shape: &ModelShape, settings: &Settings, free: &[Bytes], host_experts: u64) -> bool {
    fits_with(shape, &Settings { gpu_layers: None, host_experts, ..*settings }, free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fine_number_is_found() {
        for limit in 3..40 {
            assert_eq!(largest(3, 30, |number| number <= limit), Some(limit.min(30)), "{limit}");
        }
        assert_eq!(largest(3, 30, |_| false), None);
        assert_eq!(largest(4, 3, |_| true), None);
        assert_eq!(largest(0, u64::MAX, |_| true), Some(u64::MAX));
    }
}
