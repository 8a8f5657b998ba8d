//! Owns the sum for llama.cpp and Ollama on one machine: weights, KV cache, recurrent state, compute buffer and what
//! the driver's context takes, each as fact or "about" or unknown with its reason; and what must stay free on a GPU so that
//! a model counts as fitting, for every surface that says so; and which matrices are copied to the GPU while a batch is
//! computed.
//! Source: the formulas of the modules below, as of 2026-11-20, and llama.cpp 0.6.0's common/fit.cpp (`-fitt`, 1024 MiB a
//! GPU; in use from 0.5 on), read on 2026-11-21. Bytes. vLLM and SGLang have a share of their own instead. Knows nothing of
//! this machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::cache::{self, CacheSums};
use super::compute::{self, Graph, Place};
use super::settings::{Backend, Outputs, Settings};
use super::shape::{Is, ModelShape};
use super::weights::{self, first_on_gpu, place};
use crate::units::Bytes;

/// What CUDA's context takes on a GPU beside the program's own buffers: seen were 153 to 500 MiB.
pub const CONTEXT_BYTES: u64 = 400 << 20;

/// A part of the memory that a model takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Part {
    /// In bytes; null where it is unknown.
    pub bytes: Option<Bytes>,
    /// Whether the figure is exact.
    pub is: Is,
    /// Why the figure is unknown; absent where it is known.
    #[serde(rename = "bytes_reason", skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl Part {
    pub fn fact(bytes: u64) -> Part {
        Part { bytes: Some(Bytes(bytes)), is: Is::Fact, why_not: None }
    }

    pub fn about(bytes: u64) -> Part {
        Part { is: Is::About, ..Part::fact(bytes) }
    }

    /// A figure that can't be known.
    pub fn unknown(why: impl Into<String>) -> Part {
        Part { bytes: None, is: Is::About, why_not: Some(why.into()) }
    }

    pub(super) fn of(result: Result<u64, String>, is: Is) -> Part {
        result.map_or_else(Part::unknown, |bytes| Part { is, ..Part::fact(bytes) })
    }
}

impl Default for Part {
    fn default() -> Part {
        Part::fact(0)
    }
}

/// What a model takes with its settings. What an engine does not have is a fact: 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Parts", description = "What a model takes with its settings.")]
pub struct Estimate {
    /// Weights on the GPU, in bytes.
    pub weights: Part,
    /// All weights, as the file has them.
    #[serde(skip)]
    pub weights_in_file: Part,
    /// Weights in system memory.
    #[serde(skip)]
    pub weights_on_host: Part,
    /// The image encoder on the GPU (`--mmproj`); 0 where there is none.
    #[serde(rename = "image_encoder")]
    pub projector: Part,
    /// KV cache on the GPU, in bytes.
    pub kv_cache: Part,
    /// All of the KV cache, split by what its layers see; `None` where it is not known.
    #[serde(skip)]
    pub kv_split: Option<CacheSums>,
    /// Recurrent state on the GPU, in bytes.
    #[serde(rename = "recurrent_state")]
    pub recurrent: Part,
    /// Gradients when training; else 0.
    pub gradients: Part,
    /// The optimizer's states when training; else 0.
    pub optimizer: Part,
    /// Compute buffers and activations. About, see `memory::compute`.
    pub compute: Part,
    /// The driver's context and a margin for what is only estimated.
    pub overhead: Part,
}

impl Estimate {
    /// The parts that are on the GPU.
    pub fn on_card(&self) -> [&Part; 8] {
        self.named().map(|(_, part)| part)
    }

    /// The same with their names, in the order of a sum.
    pub fn named(&self) -> [(&'static str, &Part); 8] {
        [
            ("weights", &self.weights),
            ("image encoder", &self.projector),
            ("KV cache", &self.kv_cache),
            ("state", &self.recurrent),
            ("gradients", &self.gradients),
            ("optimizer", &self.optimizer),
            ("compute", &self.compute),
            ("overhead", &self.overhead),
        ]
    }

    /// What the GPU must have; `None` where a part is not known. At least a part of it is "about".
    pub fn total(&self) -> Option<Bytes> {
        self.on_card().into_iter().try_fold(Bytes::ZERO, |sum, part| Some(sum.plus(part.bytes?)))
    }

    /// What of weights and KV cache lies in system memory; `None` where that is not known.
    pub fn on_host(&self) -> Option<Bytes> {
        let cache = self.kv_split.map_or(0, |sums| sums.all().saturating_sub(sums.gpu));
        Some(self.weights_on_host.bytes?.plus(Bytes(cache)))
    }

    /// Why there is no total.
    pub fn why_not(&self) -> Option<&str> {
        self.on_card().into_iter().find_map(|part| part.why_not.as_deref())
    }
}

/// What the model takes with these settings, on the GPUs all together. Weights and caches are facts where the shape
/// is; compute and overhead are about (see [`compute`]).
pub fn estimate(shape: &ModelShape, settings: &Settings) -> Estimate {
    let layers = settings.gpu_layers.unwrap_or(u64::MAX);
    let placed = shape.weights.as_ref().map(|sums| sums.placed(layers, settings.host_experts)).map_err(Clone::clone);
    let kv = refused(settings).map_or_else(|| cache::kv_cache(shape, settings), Err);
    let buffers = buffers(shape, settings);
    let margins = buffers.as_ref().map_or(0, |buffers| on_all(buffers, compute::margin));
    let compute = buffers.map(|buffers| on_all(&buffers, |buffer| buffer));
    // Without a layer there, too: long prompts are computed on the GPU.
    let on_gpu = settings.backend == Backend::Gpu;
    let contexts = CONTEXT_BYTES.saturating_mul(settings.devices.max(1));
    let overhead = contexts.saturating_add(margins);
    let overhead = overhead.saturating_add(unreserved(shape, settings));
    let projector = if on_gpu && !settings.host_projector { shape.projector } else { 0 };
    let overhead = overhead.saturating_add(if projector > 0 { shape.encoding } else { 0 });
    Estimate {
        weights: Part::of(placed.clone().map(|placed| placed.gpu), shape.weights_are),
        weights_in_file: Part::of(shape.weights_in_file(), shape.weights_are),
        weights_on_host: Part::of(placed.map(|placed| placed.host), shape.weights_are),
        kv_split: kv.as_ref().ok().copied(),
        kv_cache: Part::of(kv.map(|sums| sums.gpu), shape.cache_is),
        recurrent: Part::of(cache::recurrent_state(shape, settings), shape.cache_is),
        compute: Part::of(compute, Is::About),
        projector: Part::fact(projector),
        overhead: Part::about(if on_gpu { overhead } else { 0 }),
        ..Estimate::default()
    }
}

/// Why the program would not start with these settings.
pub fn refused(settings: &Settings) -> Option<String> {
    (settings.v_type.is_quantised() && !settings.flash_attention)
        .then(|| "a quantized V cache needs flash attention".to_owned())
}

/// The sum over all GPUs of what belongs to each one's buffer.
fn on_all(buffers: &[(u64, u64)], each: fn(u64) -> u64) -> u64 {
    buffers.iter().map(|(cards, buffer)| each(*buffer).saturating_mul(*cards)).fold(0, u64::saturating_add)
}

/// How many GPUs have which compute buffer: the only one, or the first, those between and the last of several.
fn buffers(shape: &ModelShape, settings: &Settings) -> Result<Vec<(u64, u64)>, String> {
    let places = match settings.devices {
        0 | 1 => vec![(1, Place::Only)],
        cards => vec![(1, Place::First), (cards.saturating_sub(2), Place::Middle), (1, Place::Last)],
    };
    places.into_iter().map(|(cards, place)| Ok((cards, buffer_on(shape, settings, place)?))).collect()
}

/// The compute buffer of such a device. Matrices in system memory pass through that of the first.
pub(super) fn buffer_on(shape: &ModelShape, settings: &Settings, place: Place) -> Result<u64, String> {
    let (graph, context) = graph(shape, settings, place)?;
    // Only where all layers and experts are on the GPUs do these work as a pipeline (llama-context.cpp, 2026-11-21).
    let all = settings.gpu_layers.is_none_or(|count| count > shape.layer_count()) && settings.host_experts == 0;
    let settings = &Settings { devices: if all { settings.devices } else { 1 }, ..*settings };
    compute::buffer(&graph, settings, context).ok_or_else(|| "the compute buffer would be past 2^64 bytes".to_owned())
}

/// The copy of a quantised cache that builds before June 2026 make while they run, beside what they reserve.
fn unreserved(shape: &ModelShape, settings: &Settings) -> u64 {
    if settings.outputs != Outputs::MicroBatch || settings.backend != Backend::Gpu {
        return 0;
    }
    match graph(shape, settings, Place::Only) {
        Ok((graph, context)) => compute::scratch(&graph, settings, context).unwrap_or(0),
        Err(_) => 0,
    }
}

/// What the compute buffer depends on, and the context in tokens.
fn graph(shape: &ModelShape, settings: &Settings, place: Place) -> Result<(Graph, u64), String> {
    let layers = shape.layers.as_ref().map_err(Clone::clone)?;
    if shape.is_compressed() {
        // What its indexer compares grew with the context to 65 GiB at a million tokens in July 2026, and shrank since
        // (unslothai/unsloth#6940, ggml-org/llama.cpp#25468 and #27680).
        let why = "what llama.cpp computes in for its compressed caches differs widely between builds and is not reckoned here";
        return Err(why.to_owned());
    }
    if shape.embedding == 0 || shape.vocab == 0 {
        return Err("the model's width or vocabulary is not known".to_owned());
    }
    let attends = layers.iter().any(|layer| layer.cache.is_some());
    let context = settings.context_tokens(shape.context_trained).ok_or("the context is not known or too large")?;
    let takes = matches!(place, Place::Only | Place::First);
    let (passing, passing_pair) = if takes { largest_passing(shape, settings) } else { (0, 0) };
    let graph = Graph {
        embedding: shape.embedding,
        heads: shape.heads,
        query: cache::widest_head(shape).saturating_mul(shape.heads),
        gated: ["qwen3next", "qwen35", "qwen35moe"].contains(&shape.architecture.as_str()),
        feed_forward: shape.feed_forward,
        experts_used: shape.experts_used,
        vocab: shape.vocab,
        widest: cache::widest(shape),
        window: if shape.has_window() { shape.window } else { 0 },
        mla: shape.mla,
        indexed: ["deepseek32", "glm-dsa"].contains(&shape.architecture.as_str()),
        attends,
        passing,
        passing_pair,
        passing_cache: if takes { cache::largest_on_host(shape, settings) } else { 0 },
        output_passing: match &shape.weights {
            Ok(sums) if takes && settings.gpu_layers == Some(0) => sums.output,
            _ => 0,
        },
        per_layer: shape.per_layer,
        place,
    };
    Ok((graph, context))
}

/// What stays free on each GPU: llama.cpp wants that much, and elsewhere estimates are "about" and needs change.
pub(crate) const SPARE: Bytes = Bytes::gib(1);

/// What must be free for `total`, in which `buffer` is the compute buffer: the margin for that buffer is part
/// of what stays free.
pub(super) fn wanted(total: Bytes, buffer: u64) -> Bytes {
    let margin = Bytes(compute::margin(buffer));
    total.less(margin).plus(margin.max(SPARE))
}

impl Estimate {
    /// What must be free on so many GPUs together so that it fits llama.cpp; `None` where a part is not known.
    pub fn wanted(&self, cards: u64) -> Option<Bytes> {
        let cards = cards.max(1);
        let margin = compute::margin(self.compute.bytes?.0 / cards).saturating_mul(cards);
        Some(self.total()?.less(Bytes(margin)).plus(Bytes(margin.max(SPARE.0.saturating_mul(cards)))))
    }
}

/// Bytes of the largest matrix that stays in system memory with these settings, and of the two largest of one layer; 0
/// where all layers are on the GPU. About a third of a layer's experts where the tensors are not known one by one.
fn largest_passing(shape: &ModelShape, settings: &Settings) -> (u64, u64) {
    let loaded = shape.layer_count();
    let first = first_on_gpu(loaded, settings.gpu_layers.unwrap_or(u64::MAX));
    let experts = first.max(settings.host_experts.min(loaded));
    if shape.tensors.is_empty() {
        let sums = shape.weights.as_ref().map_or(&[][..], |sums| &sums.layers);
        let on_host = (0_u64..).zip(sums).filter(|(layer, _)| *layer < experts);
        let one = on_host.map(|(_, layer)| layer.experts / 3).max().unwrap_or(0);
        return (one, one.saturating_mul(2));
    }
    let mut largest = BTreeMap::<usize, [u64; 2]>::new();
    for tensor in shape.tensors.iter().filter(|tensor| tensor.dims.len() > 1) {
        let layer = match place(&tensor.name) {
            weights::Place::Layer(layer) if (layer as u64) < first => layer,
            weights::Place::Expert(layer) if (layer as u64) < experts => layer,
            _ => continue,
        };
        let [one, two] = largest.entry(layer).or_default();
        (*one, *two) = ((*one).max(tensor.bytes), (*two).max(tensor.bytes.min(*one)));
    }
    let one = largest.values().map(|[one, _]| *one).max();
    let both = largest.values().map(|[one, two]| one.saturating_add(*two)).max();
    (one.unwrap_or(0), both.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_of_an_estimate_is_part_of_what_is_spare() {
        assert_eq!(wanted(Bytes::gib(5), 100 << 20), Bytes::gib(6).less(Bytes::mib(64)));
        assert_eq!(wanted(Bytes::gib(30), 20 << 30), Bytes::gib(30), "a tenth of 20 GiB is more");
    }
}
