//! Owns SGLang's arithmetic: what `--mem-fraction-static` means, its default by the GPU, and the pool it leaves. The
//! fraction is of what is free before the weights are loaded: weights and KV pool lie within it, activations and CUDA
//! graphs outside. The defaults are exact for plain CUDA serving; some models have defaults of their own. Source: SGLang's arg_groups/memory_hook.py,
//! cuda_graph_hook.py and model_runner (`_profile_available_bytes`), read on 2026-11-21. Bytes.

use super::estimate::{CONTEXT_BYTES, Estimate, Part};
use super::shape::{Is, ModelShape};
use super::vllm;
use crate::units::Bytes;

/// The pool of windowed layers has so many tenths of the tokens of the others (`--swa-full-tokens-ratio`).
const WINDOWED_TENTHS: u64 = 8;

/// What a person chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// `--context-length`; `None` for what the model was made for.
    pub context: Option<u64>,
    pub fraction: u64,
    /// The fraction that SGLang would choose itself for this GPU.
    pub usual_fraction: u64,
    /// Bytes of a cached number in halves: 4 for bf16, 2 for fp8.
    pub kv_half_bytes: u64,
    /// Cards that share the model (`--tp`), at least 1.
    pub tensor_parallel: u64,
    pub chunk: u64,
    /// The chunk that SGLang would choose itself for this GPU.
    pub usual_chunk: u64,
    /// `--max-running-requests`; `None` for as many as its own rule allows.
    pub requests: Option<u64>,
    pub graphs: u64,
    /// MiB set aside for the graphs of prefills.
    pub prefill_mib: u64,
}

impl Serving {
    /// With the defaults for a GPU of this size and so many GPUs together.
    pub fn of_card(card: Option<Bytes>, tensor_parallel: u64) -> Serving {
        let ranks = tensor_parallel.max(1);
        let few = ranks < 4;
        let (chunk, graphs) = match card.map(|card| card.0 >> 30) {
            None => (4096, 160),
            Some(..20) => (2048, 8),
            Some(20..35) => (4096, if few { 48 } else { 160 }),
            Some(35..60) => (4096, if few { 32 } else { 160 }),
            Some(60..160) => (8192, if few { 256 } else { 512 }),
            Some(160..) => (16_384, 512),
        };
        let mut serving = Serving {
            context: None,
            fraction: 950,
            usual_fraction: 950,
            kv_half_bytes: 4,
            tensor_parallel: ranks,
            chunk,
            usual_chunk: chunk,
            requests: None,
            graphs,
            prefill_mib: prefill_graphs(chunk).saturating_mul(8),
        };
        serving.usual_fraction = card.map_or(950, |card| serving.default_fraction(card));
        serving.fraction = serving.usual_fraction;
        serving
    }

    /// The same for a model: latent attention takes more for its graphs, and an image encoder takes off a part.
    pub fn of_model(shape: &ModelShape, card: Option<Bytes>, tensor_parallel: u64) -> Serving {
        let mut serving = Serving::of_card(card, tensor_parallel);
        if shape.mla {
            serving.prefill_mib = 1536;
            serving.usual_fraction = card.map_or(950, |card| serving.default_fraction(card));
        }
        if let Some((layers, width)) = shape.encoder {
            // 0.95 for one of ViT-L/14's size, a tenth less for each such size more.
            let size = u128::from(layers).saturating_mul(u128::from(width).saturating_mul(width.into()));
            let share = size.saturating_mul(100_000).checked_div(24 * 1024 * 1024).unwrap_or(0);
            let factor = 1_100_000_u128.saturating_sub(share).clamp(800_000, 1_050_000);
            let billionths = u128::from(serving.usual_fraction).saturating_mul(950).saturating_mul(factor);
            serving.usual_fraction = u64::try_from(billionths.saturating_add(500_000_000) / 1_000_000_000).unwrap_or(0);
        }
        serving.fraction = serving.usual_fraction;
        serving
    }

    /// The fraction that SGLang chooses for a GPU where none is set, in thousandths.
    fn default_fraction(&self, card: Bytes) -> u64 {
        let mib = card.0 >> 20;
        let least = if mib > 60 * 1024 { 10 * 1024 } else { 0 };
        let reserved = self.reserve_mib().saturating_add(self.tensor_parallel.saturating_mul(128)).max(least);
        let thousandths = u128::from(mib.saturating_sub(reserved)).saturating_mul(1000);
        let rounded = thousandths.saturating_add(u128::from(mib / 2)).checked_div(u128::from(mib.max(1)));
        u64::try_from(rounded.unwrap_or(0)).unwrap_or(0).min(1000)
    }

    /// MiB that its own rule sets aside for activations and graphs.
    fn reserve_mib(&self) -> u64 {
        let activations = 512_u64.saturating_add(self.chunk.max(2048).saturating_mul(3) / 2);
        activations.saturating_add(self.graphs_mib())
    }

    fn graphs_mib(&self) -> u64 {
        self.graphs.saturating_mul(2).saturating_add(self.prefill_mib)
    }

    /// Bytes of activations and graphs, about: by the model's width, at most what SGLang's own rule sets aside.
    fn outside(&self, shape: &ModelShape) -> Bytes {
        let widths = shape.embedding.saturating_mul(4).saturating_add(shape.feed_forward.saturating_mul(2));
        let activations = widths.saturating_mul(self.chunk).saturating_mul(2) / self.tensor_parallel.max(1);
        let logits = shape.vocab.saturating_mul(self.graphs).saturating_mul(4);
        let own = activations.saturating_add(logits).saturating_add(512_u64.saturating_add(self.graphs_mib()) << 20);
        Bytes(own.min(self.reserve_mib().saturating_mul(1 << 20)))
    }
}

/// How many sizes of a prefill are captured up to this one.
fn prefill_graphs(chunk: u64) -> u64 {
    let steps = [(4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256), (4608, chunk, 512)];
    steps.iter().map(|(from, to, by)| if chunk < *from { 0 } else { ((*to).min(chunk) - from) / by + 1 }).sum()
}

/// What lies within the fraction: weights, state and the pool for one request of the whole context.
fn within(shape: &ModelShape, serving: &Serving) -> Result<(u64, u64, u64), String> {
    let ranks = serving.tensor_parallel.max(1);
    let weights = shape.checkpoint()?.div_ceil(ranks);
    let length = serving.context.or(shape.context_trained).ok_or("the context is not known")?;
    let as_vllm = vllm::Serving { kv_half_bytes: serving.kv_half_bytes, tensor_parallel: ranks, ..Default::default() };
    let layers = shape.plain_layers("SGLang")?;
    let pool = layers.iter().filter_map(|layer| layer.cache).fold(0_u64, |sum, cache| {
        let tokens = if cache.windowed { length.saturating_mul(WINDOWED_TENTHS) / 10 } else { length };
        sum.saturating_add(vllm::layer_bytes(cache, &as_vllm).saturating_mul(tokens))
    });
    let numbers = ModelShape::state_numbers(layers);
    let state = numbers.ok_or("its state's size is not known")?.saturating_mul(2);
    Ok((weights, pool, state))
}

/// What one rank needs for one request of the whole context. Weights and pool are exact where the shape is and for one
/// rank without windows, the rest is about.
pub fn estimate(shape: &ModelShape, serving: &Serving) -> Estimate {
    let all = within(shape, serving);
    let is_shared = serving.tensor_parallel > 1;
    let weights_are = if is_shared { Is::About } else { shape.weights_are };
    let cache_is = if is_shared || shape.has_window() { Is::About } else { shape.cache_is };
    Estimate {
        weights: Part::of(shape.checkpoint().map(|bytes| bytes.div_ceil(serving.tensor_parallel.max(1))), weights_are),
        weights_in_file: Part::of(shape.checkpoint(), shape.weights_are),
        kv_cache: Part::of(all.clone().map(|(_, pool, _)| pool), cache_is),
        recurrent: Part::of(all.map(|(.., state)| state), Is::About),
        compute: Part::about(serving.outside(shape).0),
        overhead: Part::about(CONTEXT_BYTES),
        ..Estimate::default()
    }
}

/// Whether it starts and serves one request of the whole context where so much is free before it is loaded: weights and
/// pool fit into the fraction, activations and graphs into the rest. `None` where something is not known.
pub fn fits(shape: &ModelShape, serving: &Serving, free: Bytes) -> Option<bool> {
    let (weights, pool, state) = within(shape, serving).ok()?;
    let inside = [weights, pool, state, CONTEXT_BYTES].into_iter().fold(0, u64::saturating_add);
    let fraction = vllm::allowed(free, serving.fraction);
    Some(inside <= fraction.0 && serving.outside(shape) <= free.less(fraction))
}

/// The tokens that the pool holds where so much is free before the weights are loaded: 0 where they leave nothing.
pub fn tokens(shape: &ModelShape, serving: &Serving, free: Bytes) -> Result<u64, String> {
    let (weights, pool, state) = within(shape, serving)?;
    let length = serving.context.or(shape.context_trained).unwrap_or(0);
    let taken = [weights, state, CONTEXT_BYTES].into_iter().fold(0, u64::saturating_add);
    let left = vllm::allowed(free, serving.fraction).0.saturating_sub(taken);
    let tokens = u128::from(left).saturating_mul(u128::from(length)).checked_div(u128::from(pool));
    tokens.and_then(|tokens| u64::try_from(tokens).ok()).ok_or_else(|| "it has no KV cache".to_owned())
}

/// The largest fraction, in thousandths that are whole hundredths, that leaves enough outside of it.
pub fn possible_fraction(shape: &ModelShape, serving: &Serving, free: Bytes) -> u64 {
    vllm::possible_utilization(free.less(serving.outside(shape)), free) / 10 * 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::table;

    #[test]
    fn defaults_by_the_card_are_those_of_its_source() {
        let of = |mib: u64| Serving::of_card(Some(Bytes::mib(mib)), 1);
        // A 4090 tells of 24 564 MiB: (24564 − 512 − 6144 − 128 − 96 − 8 × 50) / 24564.
        assert_eq!((of(24_564).chunk, of(24_564).graphs, prefill_graphs(4096)), (4096, 48, 50));
        assert_eq!(of(24_564).fraction, 704);
        // An H100 tells of 81 559: 512 + 12288 + 128 + 512 + 8 × 58 is more than 10 GiB.
        assert_eq!((of(81_559).chunk, of(81_559).graphs, of(81_559).fraction), (8192, 256, 830));
        assert_eq!((of(16_376).chunk, of(16_376).graphs), (2048, 8));
        assert_eq!(Serving::of_card(None, 1).fraction, 950);
    }

    #[test]
    fn defaults_by_the_model_are_those_of_its_source() {
        let mut shape = table::shape(&table::find(table::rows().unwrap(), "gemma-3-12b").unwrap(), "BF16");
        let card = Some(Bytes::mib(24_564));
        assert_eq!(Serving::of_model(&shape, card, 1).fraction, 704);
        // SigLIP's 27 layers of 1152: 0.704 × 0.95 × (1 − 0.1 × 0.42383).
        shape.encoder = Some((27, 1152));
        assert_eq!(Serving::of_model(&shape, card, 1).fraction, 640);
        // ViT-bigG and more stop at a fifth.
        shape.encoder = Some((48, 5120));
        assert_eq!(Serving::of_model(&shape, card, 1).fraction, 535);
        let latent = table::shape(&table::find(table::rows().unwrap(), "deepseek-v2-lite").unwrap(), "BF16");
        // 24564 − 512 − 6144 − 128 − 96 − 1536.
        assert_eq!(Serving::of_model(&latent, card, 1).fraction, 657);
    }

    #[test]
    fn documented_runs_come_out() {
        let moe = table::shape(&table::find(table::rows().unwrap(), "qwen3-30b-a3b").unwrap(), "BF16");
        let gib = |hundredths: u64| Bytes(hundredths * (1 << 30) / 100);
        // sgl-project/sglang#18263: 287.18 GiB free before the load, 56.98 of weights, a fraction of 0.911: 204.63 GiB
        // for the pool, of which 152.88 hold 1 669 816 tokens.
        let serving = Serving { context: Some(1_669_816), fraction: 911, ..Serving::of_card(Some(Bytes::gib(288)), 1) };
        let (weights, pool, _) = within(&moe, &serving).unwrap();
        assert!(Bytes(pool).within_percent(gib(15_288), 1), "{pool}");
        assert!(Bytes(weights).within_percent(gib(5698), 1), "{weights}");
        let left = vllm::allowed(gib(28_718), serving.fraction).less(Bytes(weights));
        assert!(left.within_percent(gib(20_463), 1), "{left}");
        // SemiAnalysisAI/InferenceX#2128: 125.65 of 137.9 GiB are weights, and 0.9113 is the least fraction it names.
        assert!(vllm::allowed(gib(13_790), 911) < gib(12_565) && vllm::allowed(gib(13_790), 912) > gib(12_565));
    }

    #[test]
    fn the_pool_is_what_the_fraction_leaves() {
        let llama = table::shape(&table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap(), "BF16");
        let serving = Serving { context: Some(8192), ..Serving::of_card(Some(Bytes::gib(80)), 1) };
        let free = Bytes::gib(79);
        let held = tokens(&llama, &serving, free).unwrap();
        // 128 KiB a token of what is left beside 15 GiB of weights.
        let left =
            vllm::allowed(free, serving.fraction).less(llama.weights.as_ref().map(|w| Bytes(w.in_file())).unwrap());
        assert!(held.abs_diff(left.0 / (128 << 10)) < 4000, "{held}");
        assert_eq!(fits(&llama, &serving, free), Some(true));
        assert_eq!(fits(&llama, &Serving { fraction: 150, ..serving }, free), Some(false), "weights alone are more");
        assert_eq!(fits(&llama, &Serving { fraction: 990, ..serving }, free), Some(false), "no room for a prefill");
        let possible = possible_fraction(&llama, &serving, free);
        assert_eq!(fits(&llama, &Serving { fraction: possible, ..serving }, free), Some(true));
    }
}
