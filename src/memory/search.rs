//! Owns finding what makes a model fit into a budget: the longest context, the most layers, the fewest layers whose
//! experts must stay on the host. Answers are exact for the estimate they are held against, which is "about" itself.
//! Bytes and tokens. Knows nothing of flags, words or this machine.

use super::estimate::estimate;
use super::settings::{CELL_PADDING, Settings};
use super::shape::ModelShape;
use super::split;
use crate::units::Bytes;

/// Whether llama.cpp's model fits into what is free on a card; `None` where it is not known.
fn fits(shape: &ModelShape, settings: &Settings, budget: Bytes) -> Option<bool> {
    estimate(shape, settings).wanted(1).map(|wanted| wanted <= budget)
}

/// Whether it fits a card, or each of several that it is laid out over.
fn fits_with(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> bool {
    match free {
        [budget] => fits(shape, settings, *budget) == Some(true),
        several => split::fitting(shape, settings, several).is_some(),
    }
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

/// The longest context in tokens, over all slots, that fits into the budget with the other settings as they are: a
/// multiple of 256, at most what the model was made for. `None` where none fits or too little is known.
pub(crate) fn largest_context(shape: &ModelShape, settings: &Settings, budget: Bytes) -> Option<u64> {
    let most = shape.context_trained.or(settings.context)?.div_ceil(CELL_PADDING);
    let with = |blocks: u64| Settings { context: blocks.checked_mul(CELL_PADDING), ..*settings };
    largest(1, most, |blocks| fits_with(shape, &with(blocks), &[budget]))?.checked_mul(CELL_PADDING)
}

/// The most layers on the card (`-ngl`, the output counts as one) that fit into what is free, 0 to layers + 1; over
/// several, shared out by that. `None` where too little is known.
pub fn best_layers(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<u64> {
    let all = shape.layer_count().checked_add(1)?;
    let with = |count: u64| Settings { gpu_layers: Some(count), ..*settings };
    let [budget] = free else {
        let whole = split::fitting(shape, &with(all), free).map(|_| all);
        return whole.or_else(|| split::most_layers(shape, settings, free));
    };
    // With all of them nothing has to come over, so that fewer may take more.
    if fits(shape, &with(all), *budget)? {
        return Some(all);
    }
    // With none of them the output's matrix comes over as well.
    let fine = |count: u64| fits_with(shape, &with(count), free);
    largest(1, all.saturating_sub(1), fine).or_else(|| fine(0).then_some(0))
}

/// For a mixture of experts with all layers on the card: the fewest layers whose experts must stay on the host
/// (`-ncmoe`). `None` where even all are not enough, or there are no experts.
pub fn fewest_host_experts(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<u64> {
    let layers = shape.layer_count();
    if shape.experts == 0 || !shape.weights.as_ref().is_ok_and(|sums| sums.layers.iter().any(|l| l.experts > 0)) {
        return None;
    }
    let with = |count: u64| Settings { gpu_layers: None, host_experts: count, ..*settings };
    if fits_with(shape, &with(0), free) {
        return Some(0);
    }
    // The more stay, the smaller: the largest number that may be on the card.
    let on_card =
        largest(0, layers.saturating_sub(1), |count| fits_with(shape, &with(layers.saturating_sub(count)), free))?;
    Some(layers.saturating_sub(on_card))
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
