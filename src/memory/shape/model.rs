//! Owns `ModelShape`: what a model is as far as memory goes, whether it came from a GGUF header, a config.json or the
//! table. What is unknown stays unknown, with the reason. Knows nothing of settings, engines or files.

use crate::memory::gguf::TensorInfo;
use crate::memory::weights::WeightSums;

/// More layers than any model has; real ones have up to about 130.
pub const MOST_LAYERS: u64 = 1024;

/// Whether a figure is computed exactly as the engine does, or estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Is {
    /// Equal to what the engine prints.
    Fact,
    /// An estimate; its error bars are with the function that makes it.
    About,
}

/// What an attention layer caches for each token, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub k: u64,
    /// Elements of V; 0 with latent attention (MLA).
    pub v: u64,
    /// Heads that K and V are shared out to.
    pub heads: u64,
    /// Whether it only looks back over the model's window.
    pub windowed: bool,
}

/// How the weights lie, as far as programs that load them do different things with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A checkpoint in two or four bytes: it can be quantised while it is loaded.
    #[default]
    Plain,
    /// A checkpoint in fewer bits (AWQ, GPTQ, FP8, NF4): it is loaded as it is.
    Quantised,
    /// A GGUF file: PyTorch's programs unpack it while they load it.
    Gguf,
}

/// Rows of K that stand for several tokens each (DeepSeek-V4), beside what a layer's window keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Tokens that one row stands for, at least 1.
    pub tokens: u64,
    /// Elements of a row, those of its indexer's keys included.
    pub k: u64,
}

/// One loaded layer's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// What it caches for each token; `None` where it has no cache of its own.
    pub cache: Option<Cache>,
    /// What it caches for several tokens together.
    pub compressed: Option<Compressed>,
    /// Numbers of four bytes it keeps for each sequence; `None` where it keeps some but how many is not known.
    pub recurrent: Option<u64>,
}

/// A model as far as memory goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Its own name for itself; foreign text.
    pub name: Option<String>,
    /// As llama.cpp names it, such as `llama` or `qwen3moe`.
    pub architecture: String,
    /// Elements of all tensors.
    pub parameters: Option<u64>,
    pub quantization: Option<String>,
    pub storage: Storage,
    /// The longest context it was made for, in tokens.
    pub context_trained: Option<u64>,
    /// Width of the hidden state.
    pub embedding: u64,
    /// Attention heads of the layer that has most.
    pub heads: u64,
    /// Width of the feed-forward part; 0 where not known.
    pub feed_forward: u64,
    /// Tokens in the vocabulary.
    pub vocab: u64,
    /// Numbers that a token has as inputs of single layers (Gemma 3n and its kin), over all layers; 0 for none.
    pub per_layer: u64,
    /// How far windowed layers look back, in tokens; 0 for none.
    pub window: u64,
    /// Whether it has latent attention in its short form.
    pub mla: bool,
    /// How many routed experts a layer has; 0 for none.
    pub experts: u64,
    /// How many of them one token goes through.
    pub experts_used: u64,
    /// What each loaded layer keeps, or why that is not known.
    pub layers: Result<Vec<Layer>, String>,
    /// How well `layers` is known.
    pub cache_is: Is,
    /// The tensors' sums, or why they are not known.
    pub weights: Result<WeightSums, String>,
    /// How well `weights` is known.
    pub weights_are: Is,
    /// Bytes of the image or audio encoder's own file (`--mmproj`); 0 for none.
    pub projector: u64,
    /// Bytes that encoder computes in; 0 where there is none.
    pub encoding: u64,
    /// Layers and width of an image encoder inside the checkpoint.
    pub encoder: Option<(u64, u64)>,
    /// Bytes of an image encoder that is in the checkpoint and not in `weights`: llama.cpp has it in a file of its own.
    pub vision: u64,
    /// The tensors, where they are known one by one.
    pub tensors: Vec<TensorInfo>,
}

impl ModelShape {
    /// Bytes of the weights as the file has them; the error says why they are not known.
    pub fn weights_in_file(&self) -> Result<u64, String> {
        self.weights.as_ref().map(WeightSums::in_file).map_err(Clone::clone)
    }

    /// Bytes of the whole checkpoint, as PyTorch's engines load it.
    pub fn checkpoint(&self) -> Result<u64, String> {
        Ok(self.weights_in_file()?.saturating_add(self.vision))
    }

    /// Numbers that all layers together keep for each sequence; `None` where that of one is not known.
    pub fn state_numbers(layers: &[Layer]) -> Option<u64> {
        layers.iter().try_fold(0_u64, |sum, layer| sum.checked_add(layer.recurrent?))
    }

    /// Layers that are loaded; 0 where not known.
    pub fn layer_count(&self) -> u64 {
        match (&self.layers, &self.weights) {
            (Ok(layers), _) => layers.len() as u64,
            (_, Ok(weights)) => weights.layers.len() as u64,
            _ => 0,
        }
    }

    /// Whether some layer attends: without one there is no KV cache.
    pub fn attends(&self) -> bool {
        self.layers.iter().flatten().any(|layer| layer.cache.is_some())
    }

    /// Layers with the output as one, as `-ngl` counts them.
    pub fn units(&self) -> u64 {
        self.layer_count().saturating_add(1)
    }

    /// Whether some layer has a window.
    pub fn has_window(&self) -> bool {
        self.layers.iter().flatten().any(|layer| layer.cache.is_some_and(|cache| cache.windowed))
    }

    /// Whether some layer caches several tokens in one row.
    pub fn is_compressed(&self) -> bool {
        self.layers.iter().flatten().any(|layer| layer.compressed.is_some())
    }

    /// The layers, for engines whose compressed caches are not reckoned here: an error for a model that has some.
    pub fn plain_layers(&self, engine: &str) -> Result<&[Layer], String> {
        let layers = self.layers.as_ref().map_err(Clone::clone)?;
        if self.is_compressed() {
            return Err(format!(
                "how {engine} lays out the compressed caches of {} is not reckoned here",
                self.architecture
            ));
        }
        Ok(layers)
    }

    /// Whether some layer keeps state by sequence.
    pub fn is_recurrent(&self) -> bool {
        self.layers.iter().flatten().any(|layer| layer.recurrent != Some(0))
    }
}
