//! Owns `Figures`: a model by its published figures (the table's row, a config.json), and turning them into what a
//! GGUF header would say: keys, and tensors with their shapes (`tensors`).
//! Knows nothing of where the figures come from.

use serde::Deserialize;

use super::model::MOST_LAYERS;
use crate::memory::gguf::{Gguf, Metadata, Value};
use crate::memory::quant;

/// Window attention: how far, and which layers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Tokens it looks back.
    pub size: u64,
    /// One flag a layer, `1` for a window, such as `111110`; repeated over the layers.
    pub pattern: String,
    /// Heads and length of K and V in full layers, where they differ from the windowed ones.
    pub full_heads: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mla {
    /// Width of the latent.
    pub kv_lora: u64,
    /// Width of the query's latent; 0 for none.
    pub q_lora: u64,
    /// Rotated part of a key.
    pub rope: u64,
    /// The rest of a key.
    pub nope: u64,
    /// Length of a value.
    pub v_head: u64,
    /// Length of the keys of an indexer (sparse attention); 0 for none.
    #[serde(default)]
    pub indexer: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    pub count: u64,
    pub used: u64,
    pub ffn: u64,
    #[serde(default)]
    pub shared: u64,
    /// Layers without experts, at the front.
    #[serde(default)]
    pub first_dense: u64,
    /// Each how many-th layer has experts, the others a dense forward part; 0 as 1 for each.
    #[serde(default)]
    pub every: u64,
    /// Width that routed experts work in, where it is not the hidden one; 0 where it is.
    #[serde(default)]
    pub latent: u64,
}

/// Rows of K that stand for several tokens (DeepSeek-V4).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compressing {
    /// One letter a layer: `4` for a row for each four tokens, picked by an indexer; `H` for each 128; `-` for none.
    pub pattern: String,
    /// Width of the query's latent.
    pub q_lora: u64,
    /// Groups of heads that the output is made of, and the width of one's latent.
    pub output: (u64, u64),
    /// Heads of the indexer, and the length of its keys.
    pub indexer: (u64, u64),
}

impl Compressing {
    /// Tokens that a row of this layer stands for; 0 for none.
    pub(super) fn tokens(&self, layer: u64) -> u64 {
        let place = usize::try_from(layer).unwrap_or(usize::MAX);
        match self.pattern.as_bytes().get(place) {
            Some(b'4') => 4,
            Some(b'H') => 128,
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recurrent {
    /// Each how many-th layer has attention; 0 where none has.
    pub interval: u64,
    /// Width of the convolution.
    pub conv: u64,
    /// Length of a state (Kimi's delta attention: of a head); 0 where not known, as are the others then.
    pub state: u64,
    pub groups: u64,
    pub inner: u64,
}

/// Layers at the end that read the cache of others (Gemma 3n, the small Gemma 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedKv {
    pub layers: u64,
    /// Width of the dense feed-forward part in those; 0 where it is the same.
    #[serde(default)]
    pub ffn: u64,
}

/// A model of the same layers under a name of its own, which was given out with another length or with an image encoder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    pub also: Vec<String>,
    pub alone: Vec<String>,
    pub context: u64,
    /// Parameters in billions of an image encoder that the others have not; 0 for none.
    pub vision: f64,
    /// Where those are from.
    pub source: String,
    /// Which of its own figures nobody has checked.
    pub unverified: Vec<String>,
}

/// A model by its figures. Sizes are in elements.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Figures {
    pub name: String,
    /// Other names of models with the same figures: fine-tunes, later versions.
    pub also: Vec<String>,
    /// Names of families that mean it where nothing else is said: what Ollama takes for them without a tag.
    pub alone: Vec<String>,
    /// llama.cpp's name for the architecture.
    pub architecture: String,
    /// Parameters in billions as published; 0 where not known.
    pub billions: f64,
    pub layers: u64,
    /// Width of the hidden state.
    pub hidden: u64,
    pub heads: u64,
    /// Heads of K and V.
    pub kv_heads: u64,
    /// Length of a head.
    pub head_dim: u64,
    /// Width of the dense feed-forward part.
    pub ffn: u64,
    pub vocab: u64,
    /// Whether output and input share a matrix.
    pub tied: bool,
    /// Longest context; 0 where not known.
    pub context: u64,
    /// Parameters in billions of an image encoder inside the checkpoint, which `billions` and the figures leave out.
    pub vision: f64,
    pub window: Option<Window>,
    pub mla: Option<Mla>,
    pub experts: Option<Experts>,
    /// Length of the keys of an indexer beside plain attention; 0 for none (see [`Mla`] for those beside latent one).
    pub indexer: u64,
    pub compressing: Option<Compressing>,
    pub recurrent: Option<Recurrent>,
    /// What each layer mixes with, where no interval says it: `M` state, `*` attention; and, in models whose layers are
    /// one thing each (Nemotron-H), `E` experts and `-` a dense forward part. Repeated over the layers; empty for none.
    pub mixers: String,
    pub shared_kv: Option<SharedKv>,
    /// Width of the embeddings that each layer has of its own; 0 for none.
    pub per_layer: u64,
    /// What its makers give the weights out in, where that is less than two bytes: `MXFP4`, `INT4`, `FP8`, or `FP4` for
    /// experts in four bits in a model of which GGUF files of other mixes are about.
    pub stored: Option<String>,
    /// Where the figures are from.
    pub source: String,
    /// Which figures nobody has checked.
    pub unverified: Vec<String>,
    /// Each becomes a row of its own.
    pub variants: Vec<Variant>,
}

impl Figures {
    /// This row, and one for each of its variants.
    pub fn with_variants(mut self) -> Vec<Figures> {
        let variants = std::mem::take(&mut self.variants);
        let mut rows = vec![self.clone()];
        for variant in variants {
            let mut unverified = self.unverified.clone();
            unverified.extend(variant.unverified);
            unverified.sort();
            unverified.dedup();
            rows.push(Figures {
                name: variant.name,
                also: variant.also,
                alone: variant.alone,
                context: variant.context,
                vision: if variant.vision > 0.0 { variant.vision } else { self.vision },
                source: format!("{}; its own figures: {}", self.source, variant.source),
                unverified,
                ..self.clone()
            });
        }
        rows
    }

    /// What a GGUF file of this model at a mix would say; without tensors where the mix is not known.
    pub fn as_gguf(&self, mix: &str) -> Gguf {
        let experts = self.experts.map_or(0, |experts| experts.count);
        let kv_heads = if self.mla.is_some() { 1 } else { self.heads_in(0).0 };
        let shared_by = self.heads.checked_div(kv_heads).unwrap_or(0);
        let model = quant::Model { architecture: &self.architecture, layers: self.layers, experts, shared_by };
        let tensors = quant::mixed(&self.shapes(), mix, model).unwrap_or_default();
        Gguf { metadata: self.keys(), tensors }
    }

    fn keys(&self) -> Metadata {
        let mut keys = Metadata::default();
        keys.set("general.architecture", Value::Text(self.architecture.clone()));
        keys.set("general.name", Value::Text(self.name.clone()));
        for (name, number) in self.numbers() {
            keys.set(&self.key(name), Value::Whole(number.into()));
        }
        self.window_keys(&mut keys);
        if let Some(compressing) = &self.compressing {
            let tokens = (0..self.layers.min(MOST_LAYERS)).map(|layer| compressing.tokens(layer).into());
            keys.set(&self.key("attention.compress_ratios"), Value::List(tokens.collect()));
        }
        if !self.mixers.is_empty() {
            keys.set(&self.key("attention.head_count_kv"), self.where_mixed("*", self.kv_heads));
            if self.single_layers() {
                let width = self.experts.map_or(self.ffn, |experts| experts.ffn);
                keys.set(&self.key("feed_forward_length"), self.where_mixed("E-", width.max(1)));
            }
        }
        keys
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// The number in layers that mix with one of these kinds, 0 in the others.
    fn where_mixed(&self, kinds: &str, number: u64) -> Value {
        let layers = 0..self.layers.min(MOST_LAYERS);
        let numbers = layers.map(|layer| match self.mixer(layer) {
            Some(kind) if kinds.contains(kind) => number.into(),
            _ => 0,
        });
        Value::List(numbers.collect())
    }

    /// Keys that are one number; of two with the same name the later one counts.
    fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut numbers = vec![
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.ffn),
            ("vocab_size", self.vocab),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
        ];
        if self.per_layer > 0 {
            numbers.push(("embedding_length_per_layer_input", self.per_layer));
        }
        if let Some(mla) = self.mla {
            numbers.extend([
                ("attention.head_count_kv", 1),
                ("attention.key_length", mla.kv_lora.saturating_add(mla.rope)),
                ("attention.key_length_mla", mla.nope.saturating_add(mla.rope)),
                ("attention.value_length_mla", mla.v_head),
                ("attention.indexer.key_length", mla.indexer),
            ]);
        }
        if let Some(experts) = self.experts {
            numbers.extend([
                ("expert_count", experts.count),
                ("expert_used_count", experts.used),
                ("expert_feed_forward_length", experts.ffn),
                ("leading_dense_block_count", experts.first_dense),
            ]);
        }
        if let Some(shared) = self.shared_kv {
            numbers.push(("attention.shared_kv_layers", shared.layers));
            numbers.push(("feed_forward_length", self.ffn.max(shared.ffn)));
        }
        if self.indexer > 0 {
            numbers.push(("attention.indexer.key_length", self.indexer));
        }
        if let Some(compressing) = &self.compressing {
            numbers.push(("attention.indexer.key_length", compressing.indexer.1));
        }
        numbers.extend(self.recurrent.iter().flat_map(|recurrent| self.recurrent_numbers(recurrent)));
        numbers
    }

    fn recurrent_numbers(&self, recurrent: &Recurrent) -> Vec<(&'static str, u64)> {
        let mut numbers = vec![("full_attention_interval", recurrent.interval)];
        if recurrent.state == 0 {
            return numbers;
        }
        if self.has_delta_attention() {
            numbers.extend([("ssm.conv_kernel", recurrent.conv), ("kda.head_dim", recurrent.state)]);
        } else if self.has_short_convolutions() {
            numbers.push(("shortconv.l_cache", recurrent.conv));
        } else {
            numbers.extend([
                ("ssm.conv_kernel", recurrent.conv),
                ("ssm.state_size", recurrent.state),
                ("ssm.group_count", recurrent.groups),
                ("ssm.inner_size", recurrent.inner),
            ]);
        }
        numbers
    }

    /// What a layer mixes with, where the figures say it layer by layer.
    pub(super) fn mixer(&self, layer: u64) -> Option<char> {
        let place = usize::try_from(layer).ok()?.checked_rem(self.mixers.len())?;
        self.mixers.as_bytes().get(place).map(|kind| char::from(*kind))
    }

    /// Whether its recurrent layers are Kimi's.
    pub(super) fn has_delta_attention(&self) -> bool {
        self.architecture.starts_with("kimi")
    }

    /// Whether its recurrent layers are convolutions over a few tokens (LFM2).
    pub(super) fn has_short_convolutions(&self) -> bool {
        self.architecture.starts_with("lfm2")
    }

    /// Whether each layer is one thing: state, attention or a forward part.
    pub(super) fn single_layers(&self) -> bool {
        self.architecture.starts_with("nemotron_h")
    }

    /// Whether a layer keeps a state and has no attention.
    pub(super) fn is_recurrent(&self, layer: u64) -> bool {
        self.recurrent.is_some_and(|state| match self.mixer(layer) {
            Some(kind) => kind == 'M',
            None => layer.saturating_add(1).checked_rem(state.interval) != Some(0),
        })
    }

    /// Heads of K and V and the length of a head in one layer.
    pub(super) fn heads_in(&self, layer: u64) -> (u64, u64) {
        let full = self.window.as_ref().and_then(|window| {
            let flags = window.pattern.as_bytes();
            let place = usize::try_from(layer).ok()?.checked_rem(flags.len())?;
            if flags.get(place) == Some(&b'1') { None } else { window.full_heads }
        });
        full.unwrap_or((self.kv_heads, self.head_dim))
    }

    /// Whether a layer reads another's cache.
    pub(super) fn shares(&self, layer: u64) -> Option<SharedKv> {
        self.shared_kv.filter(|shared| layer >= self.layers.saturating_sub(shared.layers))
    }

    fn window_keys(&self, keys: &mut Metadata) {
        let Some(window) = &self.window else { return };
        let layers = usize::try_from(self.layers.min(MOST_LAYERS)).unwrap_or(0);
        let flags: Vec<i128> =
            window.pattern.chars().cycle().take(layers).map(|flag| i128::from(flag == '1')).collect();
        keys.set(&self.key("attention.sliding_window"), Value::Whole(window.size.into()));
        if let Some((heads, length)) = window.full_heads {
            let by_layer = flags.iter().map(|flag| if *flag == 1 { self.kv_heads.into() } else { heads.into() });
            keys.set(&self.key("attention.head_count_kv"), Value::List(by_layer.collect()));
            for name in ["attention.key_length", "attention.value_length"] {
                keys.set(&self.key(name), Value::Whole(length.into()));
                keys.set(&self.key(&format!("{name}_swa")), Value::Whole(self.head_dim.into()));
            }
        }
        keys.set(&self.key("attention.sliding_window_pattern"), Value::List(flags));
    }
}
