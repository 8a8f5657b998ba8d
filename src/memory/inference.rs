//! Owns what a model takes in plain transformers: weights in the dtype asked for, a cache that grows with the
//! context, and the activations of a prompt. Weights and cache are exact for the shape; activations are about, a
//! factor of two. Source: transformers 5.23.0, accelerate 1.15.0 and bitsandbytes, read on 2026-11-20. Bytes.

use super::estimate::{CONTEXT_BYTES, Estimate, Part};
use super::shape::{Is, ModelShape, Storage};
use super::training::bytes;
use crate::units::Bytes;

/// How weights are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// As the checkpoint has them (the default since transformers 5).
    Checkpoint,
    /// Four bytes (the default before).
    Float32,
    /// Two bytes: float16 and bfloat16.
    Half,
    /// One byte and outliers (LLM.int8).
    Int8,
    /// NF4 with double quantisation: 4.127 bits; embeddings, norms and output stay in two bytes.
    Nf4,
}

impl Dtype {
    /// From the word on a command line.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Some(match name.to_ascii_lowercase().as_str() {
            "auto" => Dtype::Checkpoint,
            "float32" | "fp32" | "f32" => Dtype::Float32,
            "float16" | "bfloat16" | "fp16" | "bf16" | "f16" | "half" => Dtype::Half,
            "int8" | "8bit" => Dtype::Int8,
            "nf4" | "4bit" | "int4" => Dtype::Nf4,
            _ => return None,
        })
    }

    /// Thousandths of a byte for each number of a layer, and for each number outside; `None`: as in the file.
    pub fn thousandths(self) -> Option<(u64, u64)> {
        match self {
            Dtype::Checkpoint => None,
            Dtype::Float32 => Some((4000, 4000)),
            Dtype::Half => Some((2000, 2000)),
            Dtype::Int8 => Some((1000, 2000)),
            Dtype::Nf4 => Some((516, 2000)),
        }
    }
}

/// A run of plain transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generating {
    /// How weights are held.
    pub dtype: Dtype,
    /// Tokens of context; `None` for what the model was made for.
    pub context: Option<u64>,
    pub batch: u64,
    /// What the weights may take of the GPU (`device_map="auto"` with `max_memory`); the rest is in system memory and
    /// comes over layer by layer. `None` for no limit.
    pub max_memory: Option<Bytes>,
}

impl Generating {
    /// One sequence, all weights on the GPU.
    pub fn of(dtype: Dtype, context: Option<u64>) -> Generating {
        Generating { dtype, context, batch: 1, max_memory: None }
    }
}

/// Bytes of the weights as they are loaded in a dtype, to run them or to train adapters on them; the error says why they
/// are not known. What is quantised already stays as it is. A GGUF file is unpacked, to four bytes unless a dtype is
/// given (transformers' page on GGUF, read on 2026-11-21).
pub(crate) fn weight_bytes(shape: &ModelShape, dtype: Dtype) -> Result<u64, String> {
    match (shape.storage, dtype) {
        (Storage::Quantised, _) | (Storage::Plain, Dtype::Checkpoint) => shape.checkpoint(),
        (Storage::Gguf, Dtype::Checkpoint) => in_dtype(shape, Dtype::Float32),
        (_, dtype) => in_dtype(shape, dtype),
    }
}

/// Bytes of the weights from the number of parameters alone, whatever they lie in: matrices of the layers in the dtype,
/// the rest in two bytes where it is a narrow one. About for an image encoder.
pub(crate) fn in_dtype(shape: &ModelShape, dtype: Dtype) -> Result<u64, String> {
    let Some((inside, outside)) = dtype.thousandths() else {
        return shape.checkpoint();
    };
    let all = shape.parameters.ok_or("the number of parameters is not known")?;
    let in_layers = shape.tensors.iter().filter(|tensor| tensor.dims.len() > 1 && tensor.name.contains(".weight"));
    let inner = in_layers
        .filter(|tensor| tensor.name.starts_with("blk.") || tensor.name.contains("layers."))
        .fold(0_u64, |sum, tensor| sum.saturating_add(tensor.elements()));
    let inner = if shape.tensors.is_empty() { all } else { inner.min(all) };
    // An encoder's matrices are quantised, too.
    let encoder = shape.vision / 2;
    let inner = inner.saturating_add(encoder);
    let all = all.saturating_add(encoder);
    Ok(bytes(inner, inside).saturating_add(bytes(all.saturating_sub(inner), outside)))
}

/// What generating takes: the cache in two bytes a number (or four with float32). Weights beyond `max_memory` are on the
/// host; while they are computed, a layer of them is on the GPU, and it keeps the cache of all.
pub(crate) fn estimate(shape: &ModelShape, generating: &Generating) -> Estimate {
    let Generating { dtype, context, batch, max_memory } = *generating;
    let wide = if dtype == Dtype::Float32 { 4 } else { 2 };
    let length = context.or(shape.context_trained).ok_or_else(|| "the context is not known".to_owned());
    let kv = length.clone().and_then(|length| cache_bytes(shape, length, wide, batch));
    let width = shape.embedding.saturating_mul(4).saturating_add(shape.feed_forward.saturating_mul(2));
    let compute = length.map(|length| width.saturating_mul(length).saturating_mul(batch).saturating_mul(wide));
    let states = shape.plain_layers("transformers").and_then(|layers| {
        let numbers = ModelShape::state_numbers(layers);
        numbers.map(|count| count.saturating_mul(4)).ok_or_else(|| "its state's size is not known".to_owned())
    });
    let weights = weight_bytes(shape, dtype);
    let margin = weights.as_ref().map_or(0, |bytes| bytes / 50);
    let most = max_memory.map_or(u64::MAX, |most| most.0);
    let layer = weights.as_ref().map_or(0, |all| all.checked_div(shape.layer_count().max(1)).unwrap_or(0));
    let passing = if weights.as_ref().is_ok_and(|all| *all > most) { layer } else { 0 };
    let as_stored = dtype == Dtype::Checkpoint && shape.storage != Storage::Gguf || shape.storage == Storage::Quantised;
    let is = if as_stored && passing == 0 { shape.weights_are } else { Is::About };
    Estimate {
        weights: Part::of(weights.clone().map(|all| all.min(most)), is),
        weights_in_file: Part::of(shape.checkpoint(), shape.weights_are),
        weights_on_host: Part::of(weights.map(|all| all.saturating_sub(most)), Is::About),
        kv_cache: Part::of(kv, shape.cache_is),
        recurrent: Part::of(states, Is::About),
        compute: Part::of(compute.map(|bytes| bytes.saturating_add(passing)), Is::About),
        overhead: Part::about(CONTEXT_BYTES.saturating_add(margin)),
        ..Estimate::default()
    }
}

/// What `max_memory` may be so that all of it fits into the budget, in whole GiB: what the rest of the run leaves.
/// `None` where less than a layer would be on the GPU.
pub(crate) fn largest_max_memory(shape: &ModelShape, generating: &Generating, budget: Bytes) -> Option<Bytes> {
    let least = Generating { max_memory: Some(Bytes::ZERO), ..*generating };
    let beside = estimate(shape, &least).total()?;
    let gib = budget.0.checked_sub(beside.0)? >> 30;
    Some(Bytes::gib(gib)).filter(|most| most.0 > 0)
}

fn cache_bytes(shape: &ModelShape, length: u64, wide: u64, batch: u64) -> Result<u64, String> {
    let layers = shape.plain_layers("transformers")?;
    let in_window = if shape.window > 0 { length.min(shape.window) } else { length };
    Ok(layers.iter().filter_map(|layer| layer.cache).fold(0_u64, |sum, cache| {
        let row = cache.k.saturating_add(cache.v).saturating_mul(wide);
        let tokens = if cache.windowed { in_window } else { length };
        sum.saturating_add(row.saturating_mul(tokens).saturating_mul(batch))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::table;

    #[test]
    fn four_bits_leave_the_embeddings_as_they_are() {
        let row = table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap();
        let shape = table::shape(&row, "BF16");
        let matrices = 128_256 * 4096 * 2;
        let gib = |dtype| weight_bytes(&shape, dtype).unwrap() as f64 / f64::from(1 << 30);
        assert!((14.9..15.0).contains(&gib(Dtype::Half)), "{}", gib(Dtype::Half));
        assert!((29.8..30.0).contains(&gib(Dtype::Float32)));
        let nf4 = weight_bytes(&shape, Dtype::Nf4).unwrap();
        assert_eq!(nf4 / 10_000_000, (matrices * 2000 / 1000 + (8_030_000_000 - matrices) * 516 / 1000) / 10_000_000);
        let two = Generating { batch: 2, ..Generating::of(Dtype::Half, Some(8192)) };
        let at = estimate(&shape, &two);
        assert_eq!(at.kv_cache.bytes, Some(Bytes::gib(2)), "two sequences");
        let most = largest_max_memory(&shape, &two, Bytes::gib(12)).unwrap();
        let part = estimate(&shape, &Generating { max_memory: Some(most), ..two });
        assert_eq!(part.weights.bytes, Some(most));
        let on_host = part.weights_on_host.bytes.unwrap();
        assert_eq!(most.plus(on_host), at.weights.bytes.unwrap());
        let total = part.total().unwrap();
        assert!(total <= Bytes::gib(12) && total > Bytes::gib(11), "{total}");
        for word in ["auto", "BF16", "nf4", "8bit", "float32"] {
            assert!(Dtype::from_name(word).is_some(), "{word}");
        }
        assert_eq!(Dtype::from_name("q4"), None);
    }
}
