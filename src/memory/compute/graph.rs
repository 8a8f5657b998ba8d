//! Owns what the size of a compute buffer depends on: a model's widths, where the GPU stands among several, and what
//! lies in system memory. Bytes.

use crate::memory::ggml::GgmlType;
use crate::memory::settings::Settings;

/// Bytes of a number while it is computed.
pub(super) const WIDE: u64 = 4;

/// So many times so many bytes or numbers; `None` past u64.
pub(super) fn times(count: u64, each: u64) -> Option<u64> {
    each.checked_mul(count)
}

/// Which of several GPUs it is: the first takes what comes over from system memory, the last has the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// All is on this one.
    #[default]
    Only,
    /// The first of several.
    First,
    Middle,
    /// The last of several.
    Last,
}

/// What the graph's size depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Width of the hidden state.
    pub embedding: u64,
    pub heads: u64,
    /// Width of a query over all heads; 0 where not known.
    pub query: u64,
    /// Whether a gate as wide as the query goes with it (Qwen3-Next and its kin).
    pub gated: bool,
    /// Width of the feed-forward part that one token goes through; 0 where not known.
    pub feed_forward: u64,
    /// Experts that one token goes through; 0 for none.
    pub experts_used: u64,
    pub vocab: u64,
    /// Elements of the widest K and V rows.
    pub widest: (u64, u64),
    /// How far windowed layers look back, in tokens; 0 for none.
    pub window: u64,
    pub mla: bool,
    /// Whether an indexer chooses what latent attention sees (DeepSeek-V3.2, GLM-5).
    pub indexed: bool,
    /// Whether any layer attends at all.
    pub attends: bool,
    /// Bytes of the largest matrix in system memory that is brought over for a batch; 0 where none is.
    pub passing: u64,
    /// Bytes of the two largest of one layer.
    pub passing_pair: u64,
    /// Bytes of the largest cache of one layer that is in system memory, and brought over as well.
    pub passing_cache: u64,
    /// Bytes of the output's matrix if it is in system memory, and brought over; 0 where it is on the GPU.
    pub output_passing: u64,
    /// Numbers for each token that layers have as inputs of their own (Gemma 3n and its kin), all layers together.
    pub per_layer: u64,
    /// Which of several GPUs.
    pub place: Place,
}

/// Fewer tokens are computed where the matrix is.
pub(super) const FEWEST_PASSING: u64 = 32;

/// The f16 copy of one layer's K and V that CUDA makes of a cache of another type with flash attention (since b9489, June
/// 2026; bf16 and f32 as well), in bytes. V of latent attention is a view of K.
pub fn scratch(graph: &Graph, settings: &Settings, context: u64) -> Option<u64> {
    if !settings.flash_attention {
        return Some(0);
    }
    let k = if settings.k_type == GgmlType::F16 { 0 } else { graph.widest.0 };
    let v = if settings.v_type == GgmlType::F16 || graph.mla { 0 } else { graph.widest.1 };
    k.checked_add(v)?.checked_mul(context)?.checked_mul(2)
}
