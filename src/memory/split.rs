//! Owns how llama.cpp spreads a model over several cards: which layers go where by `--tensor-split` or by what is free,
//! rows of the matrices with `-sm row`, and what each card then takes. Layers and caches are exact; rows, compute and
//! overhead are about. Source: llama.cpp's load_tensors and its CUDA split buffers, read on 2026-11-21. Bytes.

use super::cache;
use super::compute;
use super::compute::Place;
use super::estimate::{CONTEXT_BYTES, buffer_on};
use super::largest::largest;
use super::settings::Settings;
use super::shape::ModelShape;
use super::spare;
use super::weights::first_on_gpu;
use crate::units::Bytes;

/// More cards than llama.cpp takes.
pub const MOST_CARDS: usize = 16;

/// How a model is spread (`-sm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whole layers with their caches (the default).
    Layer,
    /// Rows of each matrix; caches go with their layers.
    Row,
}

/// What one card takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Layers, the output counts as one.
    pub layers: u64,
    pub weights: u64,
    /// KV cache and recurrent state.
    pub cache: u64,
    pub compute: u64,
    /// The driver's context, a margin, and on the main card the image encoder's. About.
    pub overhead: u64,
}

impl Share {
    pub fn total(&self) -> Bytes {
        let parts = [self.weights, self.cache, self.compute, self.overhead];
        Bytes(parts.into_iter().fold(0, u64::saturating_add))
    }

    /// What must be free on the card so that it fits, see [`spare`]; nothing where nothing goes there.
    pub fn wanted(&self) -> Bytes {
        let total = self.total();
        if total == Bytes::ZERO { total } else { spare::wanted(total, self.compute) }
    }
}

/// Which card each of `units` layers on the cards goes to: the first whose sum of shares is past the layer's own place.
fn cards(shares: &[u64], units: u64) -> Vec<usize> {
    let sum = shares.iter().fold(0_u128, |sum, share| sum.saturating_add(u128::from(*share))).max(1);
    let card = |unit: u64| {
        let mut until = 0_u128;
        let past = shares.iter().position(|share| {
            until = until.saturating_add(u128::from(*share));
            until.saturating_mul(u128::from(units)) > u128::from(unit).saturating_mul(sum)
        });
        past.unwrap_or(shares.len().saturating_sub(1))
    };
    (0..units).map(card).collect()
}

/// What each card takes. `shares` are `--tensor-split`'s, or what is free on each; `main` has the image encoder.
pub fn over(
    shape: &ModelShape,
    settings: &Settings,
    mode: Mode,
    shares: &[u64],
    main: usize,
) -> Result<Vec<Share>, String> {
    if shares.is_empty() || shares.len() > MOST_CARDS || shares.iter().all(|share| *share == 0) {
        return Err(format!("a split needs 1 to {MOST_CARDS} shares that are not all 0"));
    }
    // Rows are no pipeline.
    let devices = if mode == Mode::Row { 1 } else { shares.len() as u64 };
    let several = Settings { devices, ..*settings };
    let sums = shape.weights.as_ref().map_err(Clone::clone)?;
    let (kv, state) = (cache::by_layer(shape, &several)?, cache::state_by_layer(shape, &several)?);
    let all = sums.layers.len() as u64;
    let first = first_on_gpu(all, settings.gpu_layers.unwrap_or(u64::MAX));
    let units = if settings.gpu_layers == Some(0) { 0 } else { all.saturating_sub(first).saturating_add(1) };
    let cards = cards(shares, units);
    let mut taken = vec![Share::default(); shares.len()];
    let sum: u128 = shares.iter().fold(0, |sum, share| sum.saturating_add(u128::from(*share)));
    let part = |bytes: u64, share: u64| {
        let part = u128::from(bytes).saturating_mul(u128::from(share)).checked_div(sum).unwrap_or(0);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let mut add = |card: usize, split: u64, whole: u64, cache: u64| {
        for (at, (one, share)) in taken.iter_mut().zip(shares).enumerate() {
            let rows = match mode {
                Mode::Row => part(split, *share),
                Mode::Layer => {
                    if at == card {
                        split
                    } else {
                        0
                    }
                }
            };
            one.weights = one.weights.saturating_add(rows);
            if at == card {
                one.layers = one.layers.saturating_add(1);
                one.weights = one.weights.saturating_add(whole);
                one.cache = one.cache.saturating_add(cache);
            }
        }
    };
    for (unit, card) in (first..).zip(&cards) {
        let at = usize::try_from(unit).unwrap_or(usize::MAX);
        match sums.layers.get(at) {
            Some(layer) => {
                // Experts are never split by rows.
                let experts = if unit < settings.host_experts { 0 } else { layer.experts };
                let cache = kv.get(at).copied().unwrap_or(0).saturating_add(state.get(at).copied().unwrap_or(0));
                add(*card, layer.dense, experts, cache);
            }
            None => add(*card, sums.output, sums.other, 0),
        }
    }
    // Without a layer on the cards the main one computes long prompts all the same.
    let has = |(at, share): (usize, &Share)| share.layers > 0 || mode == Mode::Row || units == 0 && at == main;
    let used: Vec<usize> =
        (0..taken.len()).filter(|at| taken.get(*at).is_some_and(|share| has((*at, share)))).collect();
    let (first, last) = (used.first().copied(), used.last().copied());
    let on = |place| buffer_on(shape, &several, place);
    let [on_first, on_middle, on_last] = [on(Place::First)?, on(Place::Middle)?, on(Place::Last)?];
    for (at, share) in taken.iter_mut().enumerate().filter(|(at, _)| used.contains(at)) {
        let compute = match Some(at) {
            card if card == first && card == last => on_first.max(on_last),
            card if card == first => on_first,
            card if card == last => on_last,
            _ => on_middle,
        };
        share.compute = compute;
        share.overhead = CONTEXT_BYTES.saturating_add(compute::margin(compute));
        if at == main && shape.projector > 0 && !settings.host_projector {
            share.overhead = share.overhead.saturating_add(shape.projector).saturating_add(shape.encoding);
        }
    }
    Ok(taken)
}

/// Whether each card has room for its share.
pub fn fits(shares: &[Share], free: &[Bytes]) -> bool {
    shares.len() == free.len() && shares.iter().zip(free).all(|(share, free)| share.wanted() <= *free)
}

/// A card's share for `-ts`, in units of 100 MiB; at least 1 where there is anything.
pub fn in_hundreds(bytes: Bytes) -> u64 {
    (bytes.0 / (100 << 20)).max(u64::from(bytes > Bytes::ZERO))
}

/// Shares with which the model fits over all cards: what is free, else what is free without what each card holds beside
/// its layers, see [`in_hundreds`]. `None` where neither fits.
pub fn fitting(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<Vec<u64>> {
    let plain: Vec<u64> = free.iter().map(|free| in_hundreds(*free)).collect();
    let fine = |shares: &Vec<u64>| over(shape, settings, Mode::Layer, shares, 0).is_ok_and(|taken| fits(&taken, free));
    if fine(&plain) {
        return Some(plain);
    }
    let taken = over(shape, settings, Mode::Layer, &plain, 0).ok()?;
    let beside = |share: &Share| Bytes(share.compute.saturating_add(share.overhead));
    let rest = free.iter().zip(&taken).map(|(free, share)| in_hundreds(free.less(beside(share)))).collect();
    Some(rest).filter(fine)
}

/// llama.cpp's flags for such shares; `None` where none fit.
pub fn flags(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<String> {
    let shares = fitting(shape, settings, free)?;
    let is_plain = shares.iter().zip(free).all(|(share, free)| *share == in_hundreds(*free));
    let said: Vec<String> = shares.iter().map(u64::to_string).collect();
    Some(if is_plain { "-sm layer".into() } else { format!("-sm layer -ts {}", said.join(",")) })
}

/// The most layers (the output counts as one) for which all cards have room, shared out by what is free.
pub fn most_layers(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<u64> {
    let shares: Vec<u64> = free.iter().map(|free| in_hundreds(*free)).collect();
    let fine = |count: u64| {
        let few = Settings { gpu_layers: Some(count), ..*settings };
        over(shape, &few, Mode::Layer, &shares, 0).is_ok_and(|taken| fits(&taken, free))
    };
    largest(1, shape.layer_count().saturating_add(1), fine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::estimate::estimate;
    use crate::memory::table;

    fn model(name: &str) -> ModelShape {
        table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "Q4_K_M")
    }

    #[test]
    fn layers_go_where_llama_cpp_puts_them() {
        // 33 units over 1:3: a quarter lies between the ninth and the tenth (8/33 < 0.25 < 9/33).
        let places = cards(&[25, 75], 33);
        assert_eq!((places[8], places[9]), (0, 1));
        let even = cards(&[1, 1], 33);
        assert_eq!(even.iter().filter(|card| **card == 0).count(), 17);
        assert_eq!(cards(&[0, 1], 4), [1, 1, 1, 1]);
    }

    #[test]
    fn the_cards_together_hold_what_one_would() {
        let (llama, settings) = (model("llama-3.3-70b"), Settings { context: Some(8192), ..Settings::default() });
        let whole = estimate(&llama, &settings);
        for mode in [Mode::Layer, Mode::Row] {
            let taken = over(&llama, &settings, mode, &[24, 12, 12], 0).unwrap();
            let sum = |of: fn(&Share) -> u64| taken.iter().map(of).sum::<u64>();
            assert!(sum(|share| share.weights).abs_diff(whole.weights.bytes.unwrap().0) < 1 << 10, "{mode:?}");
            assert_eq!(sum(|share| share.cache), whole.kv_cache.bytes.unwrap().0);
            assert_eq!(sum(|share| share.layers), 81);
            assert!(taken[0].weights > taken[1].weights * 19 / 10);
        }
        let (free, moved) = (Bytes::gib(24), fitting(&llama, &settings, &[Bytes::gib(24), Bytes::gib(24)]).unwrap());
        assert!(fits(&over(&llama, &settings, Mode::Layer, &moved, 0).unwrap(), &[free, free]));
        assert_eq!(fitting(&llama, &settings, &[Bytes::gib(20), Bytes::gib(12)]), None);
    }

    #[test]
    fn a_documented_run_comes_out() {
        // ollama/ollama#11986: a 70B in Q8_0 over two cards, 28 layers on the first; MiB as printed.
        let row = table::find(table::rows().unwrap(), "llama-3.3-70b").unwrap();
        let settings = Settings { context: Some(4096), ..Settings::default() };
        let taken = over(&table::shape(&row, "Q8_0"), &settings, Mode::Layer, &[28, 53], 0).unwrap();
        for (share, printed) in taken.iter().zip([24_277.75, 46_151.91]) {
            let mib = share.weights as f64 / 1_048_576.0;
            assert!((mib / printed - 1.0).abs() < 0.0001, "{mib} for {printed}");
        }
    }

    #[test]
    fn experts_on_the_host_take_no_card_and_none_are_split_by_rows() {
        let moe = model("qwen3-30b-a3b");
        let settings = Settings { context: Some(4096), host_experts: 48, ..Settings::default() };
        let taken = over(&moe, &settings, Mode::Layer, &[1, 1], 0).unwrap();
        assert!(taken.iter().all(|share| share.weights < 1 << 30), "{taken:?}");
        let few = Settings { gpu_layers: Some(0), ..settings };
        let none = over(&moe, &few, Mode::Layer, &[1, 1], 0).unwrap();
        assert!(none[0].compute > 0 && none[0].overhead >= CONTEXT_BYTES, "prompts are computed there all the same");
        assert!(none[0].weights == 0 && none[1].total() == Bytes::ZERO, "{none:?}");
        assert!(over(&moe, &settings, Mode::Layer, &[0, 0], 0).is_err());
    }
}
