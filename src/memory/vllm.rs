//! Owns vLLM's arithmetic: the budget that `--gpu-memory-utilization` sets, what is left of it for the KV cache, and
//! how many tokens that holds. Exact for one rank of a model with one kind of layer, given the budget; for others see
//! `pages`; up to 16 % off with tensor parallelism, where the smallest rank decides. Activations and graphs are about.
//! Source: vLLM 0.33.0's gpu_worker and mem_utils, read on 2026-11-20. Bytes.

mod pages;

use super::estimate::{CONTEXT_BYTES, Estimate, Part};
use super::shape::{Cache, Is, ModelShape};
use super::weights::scaled;
use crate::units::Bytes;

/// Tokens of a block.
const BLOCK: u64 = 16;
/// The share of a GPU that vLLM takes where none is set, in thousandths: since 0.20.0, 900 before.
pub const USUAL_UTILIZATION: u64 = 920;
/// What captured graphs take: seen were 0.3 to 1 GiB.
const GRAPHS: u64 = 512 << 20;

/// What a person chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// `--max-model-len`; `None` for what the model was made for.
    pub max_model_len: Option<u64>,
    pub utilization: u64,
    /// Bytes of a cached number in halves: 4 for f16 and bf16, 2 for fp8.
    pub kv_half_bytes: u64,
    /// Cards that share the model (`-tp`), at least 1.
    pub tensor_parallel: u64,
    /// Cards that have whole layers each (`-pp`), at least 1; each of them may be several of the former.
    pub pipeline_parallel: u64,
    pub batched_tokens: u64,
    pub sequences: u64,
    /// The two above as vLLM would choose them itself for this GPU.
    pub usual_at_once: (u64, u64),
    pub eager: bool,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving::of_card(None)
    }
}

impl Serving {
    /// With the server's defaults for a GPU of this size: from 70 GiB on (but not on an A100) it takes more at once,
    /// and from 160 GiB on more still.
    pub fn of_card(card: Option<Bytes>) -> Serving {
        let (batched_tokens, sequences) = match card.map(|card| card.0 >> 30) {
            Some(160..) => (16_384, 1024),
            Some(70..) => (8192, 1024),
            _ => (2048, 256),
        };
        Serving {
            max_model_len: None,
            utilization: USUAL_UTILIZATION,
            kv_half_bytes: 4,
            tensor_parallel: 1,
            pipeline_parallel: 1,
            batched_tokens,
            sequences,
            usual_at_once: (batched_tokens, sequences),
            eager: false,
        }
    }

    /// The same with so many tokens and sequences at once, where they are given: of what is not, vLLM takes as many
    /// sequences as tokens at most; more sequences than its usual tokens need as many tokens.
    #[must_use]
    pub fn at_once(self, tokens: Option<u64>, sequences: Option<u64>) -> Serving {
        let batched_tokens = tokens.unwrap_or(self.batched_tokens.max(sequences.unwrap_or(0)));
        Serving { batched_tokens, sequences: sequences.unwrap_or(self.sequences.min(batched_tokens)), ..self }
    }
}

/// What utilisation allows of a GPU: total × thousandths, rounded up.
pub fn allowed(total: Bytes, utilization: u64) -> Bytes {
    let product = u128::from(total.0).saturating_mul(u128::from(utilization)).div_ceil(1000);
    Bytes(u64::try_from(product).unwrap_or(u64::MAX))
}

/// What is left for the KV cache; below zero where there is nothing. Exact for the figures of a log.
pub fn available(total: Bytes, utilization: u64, taken: &[Bytes]) -> i128 {
    taken.iter().fold(i128::from(allowed(total, utilization).0), |left, part| left.saturating_sub(part.0.into()))
}

/// The utilisation in thousandths that what is free now allows; vLLM refuses to start above it.
pub fn possible_utilization(free: Bytes, total: Bytes) -> u64 {
    let thousandths = u128::from(free.0).saturating_mul(1000).checked_div(u128::from(total.0)).unwrap_or(0);
    u64::try_from(thousandths).unwrap_or(0).min(1000)
}

/// Bytes that one token takes in one layer on one rank. Latent attention is not shared out.
pub(super) fn layer_bytes(cache: Cache, serving: &Serving) -> u64 {
    let ranks = serving.tensor_parallel.max(1);
    let elements = if cache.v == 0 {
        cache.k
    } else {
        let heads = cache.heads.checked_div(ranks).unwrap_or(0).max(1);
        cache.k.saturating_add(cache.v).checked_div(cache.heads).unwrap_or(0).saturating_mul(heads)
    };
    elements.saturating_mul(serving.kv_half_bytes) / 2
}

/// Bytes that one request of `length` tokens takes on one rank, in whole blocks: its cache, and its state where that
/// lies in the same pool.
fn request(shape: &ModelShape, serving: &Serving, length: u64) -> Result<[u64; 2], String> {
    let layers = shape.plain_layers("vLLM")?;
    if let Some(cache_and_state) = pages::request(shape, serving, length) {
        return Ok(cache_and_state.map(|bytes| of_stage(shape, serving, bytes)));
    }
    let seen = shape.window.saturating_sub(1).saturating_add(serving.batched_tokens).min(length);
    let cache = layers.iter().filter_map(|layer| layer.cache).fold(0_u64, |sum, cache| {
        let blocks = if cache.windowed { seen.div_ceil(BLOCK).saturating_add(1) } else { length.div_ceil(BLOCK) };
        sum.saturating_add(layer_bytes(cache, serving).saturating_mul(BLOCK).saturating_mul(blocks))
    });
    Ok([of_stage(shape, serving, cache), 0])
}

/// What the GPU with most layers has of so many bytes of all layers.
fn of_stage(shape: &ModelShape, serving: &Serving, bytes: u64) -> u64 {
    let layers = shape.layer_count();
    scaled(bytes, layers.div_ceil(serving.pipeline_parallel.max(1)), layers)
}

/// The same in one figure.
fn request_bytes(shape: &ModelShape, serving: &Serving, length: u64) -> Result<u64, String> {
    request(shape, serving, length).map(|[cache, state]| cache.saturating_add(state))
}

/// Tokens that a pool of so many bytes holds, as vLLM tells them: requests of the whole length at once, times that
/// length. Within 2 % for one rank; see the file's head for the rest.
pub fn tokens(shape: &ModelShape, serving: &Serving, available: Bytes) -> Result<u64, String> {
    if shape.has_window() || shape.is_recurrent() {
        let length = serving.max_model_len.or(shape.context_trained).ok_or("the model's length is not known")?;
        let request = u128::from(request_bytes(shape, serving, length)?);
        let tokens = u128::from(available.0).saturating_mul(length.into()).checked_div(request);
        return tokens.and_then(|tokens| u64::try_from(tokens).ok()).ok_or_else(|| "it has no KV cache".to_owned());
    }
    let block = request_bytes(shape, serving, BLOCK)?;
    let blocks = available.0.checked_div(block).ok_or("it has no KV cache")?;
    Ok(blocks.saturating_mul(BLOCK))
}

/// Tokens that the pool holds on a GPU of this size: what its share leaves beside weights and work space. About; `None`
/// where something is not known or nothing is left.
pub fn pool_tokens(shape: &ModelShape, serving: &Serving, total: Bytes) -> Option<u64> {
    let Estimate { weights, compute, overhead, .. } = estimate(shape, serving);
    let left = available(total, serving.utilization, &[weights.bytes?, compute.bytes?, overhead.bytes?]);
    tokens(shape, serving, Bytes(u64::try_from(left).ok()?)).ok()
}

/// What the experts of gpt-oss take more on each rank where vLLM runs them with its Marlin kernels, which want 256 numbers
/// of width at once and 128 of each expert's; `None` for other models.
pub fn padding(shape: &ModelShape, serving: &Serving) -> Option<u64> {
    if shape.architecture != "gpt-oss" {
        return None;
    }
    let sums = shape.weights.as_ref().ok()?;
    let ranks = serving.tensor_parallel.max(1);
    let experts = sums.layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.experts)).checked_div(ranks)?;
    let share = shape.embedding.checked_div(ranks)?;
    // Its experts are as wide as the model.
    let padded = u128::from(shape.embedding.checked_next_multiple_of(256)?)
        .checked_mul(share.checked_next_multiple_of(128)?.into())?;
    let plain = u128::from(shape.embedding).checked_mul(share.into())?;
    let whole = u128::from(experts).checked_mul(padded)?.checked_div(plain)?;
    Some(u64::try_from(whole).ok()?.saturating_sub(experts)).filter(|more| *more > 0)
}

/// The peak of activations in a profiling run. About, a factor of two.
fn activations(shape: &ModelShape, serving: &Serving) -> u64 {
    let width = shape.embedding.saturating_mul(4).saturating_add(shape.feed_forward.saturating_mul(2));
    let states = width.saturating_mul(serving.batched_tokens).saturating_mul(2);
    let sampler = shape.vocab.saturating_mul(serving.sequences).saturating_mul(8);
    states.max(sampler)
}

/// What one rank needs for one request of the model's length. Weights and cache are exact where the shape is and for
/// one rank, the rest is about.
pub fn estimate(shape: &ModelShape, serving: &Serving) -> Estimate {
    let ranks = serving.tensor_parallel.max(1);
    let is = if ranks.saturating_mul(serving.pipeline_parallel) == 1 { shape.weights_are } else { Is::About };
    let in_file = shape.checkpoint();
    let length = serving.max_model_len.or(shape.context_trained).ok_or_else(|| "the length is not known".to_owned());
    let one = length.and_then(|length| request(shape, serving, length));
    let kv = one.clone().map(|[cache, _]| cache);
    let state = shape.plain_layers("vLLM").and_then(|layers| {
        let numbers = ModelShape::state_numbers(layers);
        // Two bytes a number is what most models keep their state in here.
        let plain = numbers.map(|numbers| numbers.saturating_mul(2)).ok_or("its state's size is not known")?;
        let plain = of_stage(shape, serving, plain);
        Ok(one.map_or(plain, |[_, state]| if state > 0 { state } else { plain }))
    });
    let graphs = if serving.eager { 0 } else { GRAPHS };
    Estimate {
        weights: Part::of(in_file.clone().map(|bytes| of_stage(shape, serving, bytes).div_ceil(ranks)), is),
        weights_in_file: Part::of(in_file, shape.weights_are),
        kv_cache: Part::of(kv, if ranks == 1 && !shape.has_window() { shape.cache_is } else { Is::About }),
        recurrent: Part::of(state, Is::About),
        compute: Part::about(activations(shape, serving)),
        overhead: Part::about(CONTEXT_BYTES.saturating_add(graphs)),
        ..Estimate::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::table;

    fn model(name: &str) -> ModelShape {
        table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "BF16")
    }

    #[test]
    fn tokens_of_one_rank_are_whole_blocks() {
        let llama = model("llama-3.1-8b");
        let one = Serving::default();
        // 128 KiB a token.
        assert_eq!(tokens(&llama, &one, Bytes::gib(4)), Ok(32_768));
        assert_eq!(tokens(&llama, &one, Bytes(Bytes::gib(4).0 - 1)), Ok(32_752));
        assert_eq!(tokens(&llama, &Serving { kv_half_bytes: 2, ..one }, Bytes::gib(4)), Ok(65_536));
        assert_eq!(tokens(&llama, &Serving { tensor_parallel: 2, ..one }, Bytes::gib(4)), Ok(65_536));
        assert_eq!(
            tokens(&llama, &Serving { tensor_parallel: 16, ..one }, Bytes::gib(4)),
            Ok(262_144),
            "never below a head"
        );
        let latent = Serving { tensor_parallel: 8, ..one };
        assert_eq!(request_bytes(&model("deepseek-v3"), &latent, 16), Ok(61 * 576 * 2 * 16), "not shared out");
    }

    #[test]
    fn windows_hold_more_tokens_than_their_bytes_say() {
        let gemma = model("gemma-3-27b");
        let serving = Serving { max_model_len: Some(32_768), ..Serving::default() };
        let request = request_bytes(&gemma, &serving, 32_768).unwrap();
        let window = (1023_u64 + 2048).div_ceil(16) + 1;
        assert_eq!(request, 8192 * (10 * 32_768 + 60 * window * 16), "52 windows in groups of 10");
        assert_eq!(tokens(&gemma, &serving, Bytes(request)), Ok(32_768));
    }

    #[test]
    fn marlins_padding_is_that_of_a_log() {
        // vLLM 0.10.1 on four A100: 17.2217 GiB a rank (github.com/dennislee22/vLLM-benchmarking).
        let large = model("gpt-oss-120b");
        let four = Serving { tensor_parallel: 4, ..Serving::default() };
        let padded = estimate(&large, &four).weights.bytes.unwrap().0 + padding(&large, &four).unwrap();
        assert!((17.0..17.3).contains(&(padded as f64 / f64::from(1 << 30))), "{padded}");
        assert_eq!(padding(&model("llama-3.1-8b"), &four), None);
    }

    #[test]
    fn tokens_and_sequences_at_once_go_together_as_vllm_wants_them() {
        let both = |tokens, sequences| {
            let serving = Serving::default().at_once(tokens, sequences);
            (serving.batched_tokens, serving.sequences)
        };
        assert_eq!(both(None, None), (2048, 256));
        assert_eq!(both(Some(128), None), (128, 128), "no more sequences than tokens");
        assert_eq!(both(None, Some(4096)), (4096, 4096), "else it would refuse");
        let flags = |serving: Serving| crate::memory::Engine::Vllm(serving).flags();
        assert_eq!(flags(Serving::default().at_once(Some(512), None)), "--max-num-batched-tokens 512");
        assert_eq!(flags(Serving::default().at_once(None, Some(32))), "--max-num-seqs 32");
        let two = Serving::default().at_once(Some(128), Some(512));
        assert_eq!(flags(two), "--max-num-batched-tokens 128 --max-num-seqs 512");
        assert!(crate::memory::Engine::Vllm(two).refusal(&model("llama-3.1-8b")).is_some());
    }

    #[test]
    fn budgets_are_those_of_the_log() {
        assert_eq!(allowed(Bytes(1001), 900), Bytes(901), "rounded up");
        assert_eq!(
            available(Bytes::gib(8), 700, &[Bytes::gib(6)]),
            i128::from(allowed(Bytes::gib(8), 700).0) - (6 << 30)
        );
        assert_eq!(possible_utilization(Bytes::gib(6), Bytes::gib(8)), 750);
        assert_eq!(possible_utilization(Bytes::gib(6), Bytes::ZERO), 0);
        let estimate = estimate(&model("llama-3.1-8b"), &Serving { max_model_len: Some(8192), ..Serving::default() });
        assert_eq!(estimate.kv_cache.bytes, Some(Bytes::gib(1)));
        let pool = |gib| pool_tokens(&model("llama-3.1-8b"), &Serving::default(), Bytes::gib(gib)).unwrap();
        assert!(
            (40_000..52_000).contains(&pool(24)),
            "{}: 22 GiB less 15 of weights and about one beside them",
            pool(24)
        );
        assert_eq!(pool_tokens(&model("llama-3.1-8b"), &Serving::default(), Bytes::gib(12)), None, "nothing is left");
    }
}
