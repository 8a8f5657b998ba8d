//! Owns finding what makes a model fit into a budget: the longest context, the most layers, the fewest layers whose
//! experts must stay on the host. Answers are exact for the estimate they are held against, which is "about" itself.
//! Bytes and tokens. Knows nothing of flags, words or this machine.

use super::estimate::estimate;
use super::largest::largest;
use super::settings::{CELL_PADDING, Settings};
use super::shape::ModelShape;
use super::split;
use crate::units::Bytes;

/// Whether llama.cpp's model fits into what is free on a GPU; `None` where it is not known.
fn fits(shape: &ModelShape, settings: &Settings, budget: Bytes) -> Option<bool> {
    estimate(shape, settings).wanted(1).map(|wanted| wanted <= budget)
}

/// Whether it fits a GPU, or each of several that it is laid out over.
fn fits_with(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> bool {
    match free {
        [budget] => fits(shape, settings, *budget) == Some(true),
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
    if fits(shape, &whole, *budget)? {
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
