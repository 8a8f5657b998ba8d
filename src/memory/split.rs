//! Owns how llama.cpp spreads a model over several GPUs: which layers go where by `--tensor-split` or by what is free,
//! rows of the matrices with `-sm row`, and what each GPU then takes. Layers and caches are exact; rows, compute and
//! overhead are about. Source: llama.cpp's load_tensors and its CUDA split buffers, read on 2026-11-21. Bytes.

use schemars::JsonSchema;
use serde::Serialize;

use super::cache;
use super::compute;
use super::compute::Place;
use super::estimate::{self, CONTEXT_BYTES, buffer_on};
use super::fits::largest;
use super::settings::Settings;
use super::shape::ModelShape;
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

/// What one GPU takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// Layers on this GPU; the output counts as one.
    pub layers: u64,
    /// In bytes.
    #[serde(rename = "weights_bytes")]
    pub weights: u64,
    /// KV cache and recurrent state, in bytes.
    #[serde(rename = "cache_bytes")]
    pub cache: u64,
    /// Compute buffers, in bytes.
    #[serde(rename = "compute_bytes")]
    pub compute: u64,
    // On the main GPU also the image encoder's buffers. About.
    /// The driver's context and a margin, in bytes.
    #[serde(rename = "overhead_bytes")]
    pub overhead: u64,
}

impl Share {
    pub fn total(&self) -> Bytes {
        let parts = [self.weights, self.cache, self.compute, self.overhead];
        Bytes(parts.into_iter().fold(0, u64::saturating_add))
    }

    /// What must be free on the GPU so that it fits, see `spare`; nothing where nothing goes there.
    pub fn wanted(&self) -> Bytes {
        let total = self.total();
        if total == Bytes::ZERO { total } else { estimate::wanted(total, self.compute) }
    }
}

/// Which GPU each of `units` layers on the GPUs goes to: the first whose sum of shares is past the layer's own place.
fn cards(shares: &[u64], units: u64) -> Vec<usize> {
    let sum = shares.iter().fold(0_u128, |sum, share| sum.saturating_add(u128::from(*share))).max(1);
    let cards = (0..units).map(|unit| {
        let mut until = 0_u128;
        let past = shares.iter().position(|share| {
            until = until.saturating_add(u128::from(*share));
            until.saturating_mul(u128::from(units)) > u128::from(unit).saturating_mul(sum)
        });
        past.unwrap_or(shares.len().saturating_sub(1))
    });
    cards.collect()
}

/// What each GPU takes. `shares` are `--tensor-split`'s, or what is free on each; `main` has the image encoder.
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
    for (unit, card) in (first..).zip(&cards) {
        let at = usize::try_from(unit).unwrap_or(usize::MAX);
        let unit = match sums.layers.get(at) {
            Some(layer) => Unit {
                matrices: layer.dense,
                // Experts are never split by rows.
                whole: if unit < settings.host_experts { 0 } else { layer.experts },
                cache: kv.get(at).copied().unwrap_or(0).saturating_add(state.get(at).copied().unwrap_or(0)),
            },
            None => Unit { matrices: sums.output, whole: sums.other, cache: 0 },
        };
        add(&mut taken, shares, mode, *card, unit);
    }
    // Without a layer on the GPUs the main one computes long prompts all the same.
    let used = taken.iter().enumerate();
    let used = used.filter(|(at, share)| share.layers > 0 || mode == Mode::Row || units == 0 && *at == main);
    let used: Vec<usize> = used.map(|(at, _)| at).collect();
    let is_main_with_encoder = shape.projector > 0 && !settings.host_projector;
    add_buffers(&mut taken, &used, shape, &several)?;
    if let (Some(share), true) = (taken.get_mut(main), is_main_with_encoder && used.contains(&main)) {
        share.overhead = share.overhead.saturating_add(shape.projector).saturating_add(shape.encoding);
    }
    Ok(taken)
}

/// What one layer, or the output, takes.
struct Unit {
    /// Matrices, which rows can be taken of.
    matrices: u64,
    whole: u64,
    cache: u64,
}

/// Adds a unit to the GPU it goes to; with rows split, its matrices to all GPUs by their shares.
fn add(taken: &mut [Share], shares: &[u64], mode: Mode, card: usize, unit: Unit) {
    let sum: u128 = shares.iter().fold(0, |sum, share| sum.saturating_add(u128::from(*share)));
    for (at, (one, share)) in taken.iter_mut().zip(shares).enumerate() {
        if mode == Mode::Row {
            let rows = u128::from(unit.matrices).saturating_mul(u128::from(*share)).checked_div(sum).unwrap_or(0);
            one.weights = one.weights.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
        }
        if at == card {
            let matrices = if mode == Mode::Layer { unit.matrices } else { 0 };
            one.layers = one.layers.saturating_add(1);
            one.weights = one.weights.saturating_add(matrices).saturating_add(unit.whole);
            one.cache = one.cache.saturating_add(unit.cache);
        }
    }
}

/// Adds compute buffers and driver contexts to the GPUs that are used.
fn add_buffers(taken: &mut [Share], used: &[usize], shape: &ModelShape, several: &Settings) -> Result<(), String> {
    let (first, last) = (used.first().copied(), used.last().copied());
    let on_first = buffer_on(shape, several, Place::First)?;
    let on_middle = buffer_on(shape, several, Place::Middle)?;
    let on_last = buffer_on(shape, several, Place::Last)?;
    for (at, share) in taken.iter_mut().enumerate().filter(|(at, _)| used.contains(at)) {
        let compute = match Some(at) {
            card if card == first && card == last => on_first.max(on_last),
            card if card == first => on_first,
            card if card == last => on_last,
            _ => on_middle,
        };
        share.compute = compute;
        share.overhead = CONTEXT_BYTES.saturating_add(compute::margin(compute));
    }
    Ok(())
}

/// Whether each GPU has room for its share.
pub fn fits(shares: &[Share], free: &[Bytes]) -> bool {
    shares.len() == free.len() && shares.iter().zip(free).all(|(share, free)| share.wanted() <= *free)
}

/// A GPU's share for `-ts`, in units of 100 MiB; at least 1 where there is anything.
pub fn in_hundreds(bytes: Bytes) -> u64 {
    (bytes.0 / (100 << 20)).max(u64::from(bytes > Bytes::ZERO))
}

/// Shares with which the model fits over all GPUs: what is free, else what is free without what each GPU holds beside
/// its layers, see [`in_hundreds`]. `None` where neither fits.
pub fn fitting(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<Vec<u64>> {
    let plain: Vec<u64> = free.iter().map(|free| in_hundreds(*free)).collect();
    let taken = over(shape, settings, Mode::Layer, &plain, 0).ok()?;
    if fits(&taken, free) {
        return Some(plain);
    }
    let rest = free
        .iter()
        .zip(&taken)
        .map(|(free, share)| in_hundreds(free.less(Bytes(share.compute.saturating_add(share.overhead)))));
    let rest: Vec<u64> = rest.collect();
    fits_shared(shape, settings, &rest, free).then_some(rest)
}

fn fits_shared(shape: &ModelShape, settings: &Settings, shares: &[u64], free: &[Bytes]) -> bool {
    over(shape, settings, Mode::Layer, shares, 0).is_ok_and(|taken| fits(&taken, free))
}

/// llama.cpp's flags for such shares; `None` where none fit.
pub fn flags(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<String> {
    let shares = fitting(shape, settings, free)?;
    let is_plain = shares.iter().zip(free).all(|(share, free)| *share == in_hundreds(*free));
    let said: Vec<String> = shares.iter().map(u64::to_string).collect();
    Some(if is_plain { "-sm layer".into() } else { format!("-sm layer -ts {}", said.join(",")) })
}

/// The most layers (the output counts as one) for which all GPUs have room, shared out by what is free.
pub fn most_layers(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<u64> {
    let shares: Vec<u64> = free.iter().map(|free| in_hundreds(*free)).collect();
    largest(1, shape.units(), |count| {
        fits_shared(shape, &Settings { gpu_layers: Some(count), ..*settings }, &shares, free)
    })
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
        // ollama/ollama#11986: a 70B in Q8_0 over two GPUs, 28 layers on the first; MiB as printed.
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
