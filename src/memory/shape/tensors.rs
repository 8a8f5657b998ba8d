//! Owns which tensors a model of given figures has, by their names in GGUF files and their shapes: attention, latent
//! attention, recurrent layers, feed-forward parts, experts. Norms and biases that only some families have are left
//! out (below 0.1 %). Source: llama.cpp's model loaders, read on 2026-11-20. Knows nothing of types and bytes.

use super::figures::{Figures, Recurrent};
use crate::memory::quant::Shape;

impl Figures {
    /// The tensors' names and shapes.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let mut shapes = vec![("token_embd.weight".to_owned(), vec![self.hidden, self.vocab])];
        if !self.tied {
            shapes.push(("output.weight".to_owned(), vec![self.hidden, self.vocab]));
        }
        shapes.push(("output_norm.weight".to_owned(), vec![self.hidden]));
        if self.per_layer > 0 {
            let all = self.per_layer.saturating_mul(self.layers);
            shapes.push(("per_layer_token_embd.weight".to_owned(), vec![all, self.vocab]));
            shapes.push(("per_layer_model_proj.weight".to_owned(), vec![self.hidden, all]));
        }
        for layer in 0..self.layers.min(super::MOST_LAYERS) {
            let mut add = |name: &str, dims: &[u64]| shapes.push((format!("blk.{layer}.{name}.weight"), dims.to_vec()));
            add("attn_norm", &[self.hidden]);
            add("ffn_norm", &[self.hidden]);
            self.attention(layer, &mut add);
            self.forward(layer, &mut add);
            if self.per_layer > 0 {
                add("inp_gate", &[self.hidden, self.per_layer]);
                add("proj", &[self.per_layer, self.hidden]);
            }
        }
        shapes
    }

    fn attention(&self, layer: u64, add: &mut impl FnMut(&str, &[u64])) {
        let width = |heads: u64, length: u64| heads.saturating_mul(length);
        let (kv_heads, head_dim) = self.heads_in(layer);
        let queries = width(self.heads, head_dim);
        if let Some(state) = self.recurrent.filter(|_| self.is_recurrent(layer)) {
            return self.recurrent_layer(state, add);
        }
        if self.mixer(layer).is_some_and(|kind| kind != '*') {
            return;
        }
        if let Some(mla) = self.mla {
            let key = width(self.heads, mla.nope.saturating_add(mla.rope));
            if mla.q_lora > 0 {
                add("attn_q_a", &[self.hidden, mla.q_lora]);
                add("attn_q_b", &[mla.q_lora, key]);
            } else {
                add("attn_q", &[self.hidden, key]);
            }
            add("attn_kv_a_mqa", &[self.hidden, mla.kv_lora.saturating_add(mla.rope)]);
            add("attn_k_b", &[mla.nope, mla.kv_lora, self.heads]);
            add("attn_v_b", &[mla.kv_lora, mla.v_head, self.heads]);
            return add("attn_output", &[width(self.heads, mla.v_head), self.hidden]);
        }
        if self.architecture == "qwen2" {
            for count in [queries, width(kv_heads, head_dim), width(kv_heads, head_dim)] {
                add("attn_bias", &[count]);
            }
        }
        if self.architecture.starts_with("qwen3") || self.architecture == "gemma3" {
            add("attn_q_norm", &[head_dim]);
            add("attn_k_norm", &[head_dim]);
        }
        // The gate of hybrid models whose layers follow an interval doubles the queries.
        let gated = self.recurrent.is_some() && self.mixers.is_empty();
        add("attn_q", &[self.hidden, if gated { queries.saturating_mul(2) } else { queries }]);
        // Gemma 3n's layers have their own K and V, though the last ones use another's.
        if self.shares(layer).is_none() || self.architecture == "gemma3n" {
            add("attn_k", &[self.hidden, width(kv_heads, head_dim)]);
            add("attn_v", &[self.hidden, width(kv_heads, head_dim)]);
        }
        add("attn_output", &[queries, self.hidden]);
    }

    fn recurrent_layer(&self, state: Recurrent, add: &mut impl FnMut(&str, &[u64])) {
        let keys = state.state.saturating_mul(state.groups).saturating_mul(2);
        if !self.mixers.is_empty() {
            // Mamba 2: the numbers of its heads beside these are few.
            add("ssm_in", &[self.hidden, state.inner.saturating_mul(2).saturating_add(keys)]);
        } else if state.interval == 0 {
            add("ssm_in", &[self.hidden, state.inner.saturating_mul(2)]);
            // One number in sixteen of the width is Mamba's rank for the time step.
            let rank = self.hidden / 16;
            add("ssm_x", &[state.inner, rank.saturating_add(state.state.saturating_mul(2))]);
            add("ssm_dt", &[rank, state.inner]);
        } else {
            add("attn_qkv", &[self.hidden, keys.saturating_add(state.inner)]);
            add("attn_gate", &[self.hidden, state.inner]);
        }
        add("ssm_out", &[state.inner, self.hidden]);
    }

    fn forward(&self, layer: u64, add: &mut impl FnMut(&str, &[u64])) {
        if self.single_layers() && self.mixer(layer).is_some_and(|kind| "M*".contains(kind)) {
            return;
        }
        let experts = self.experts.filter(|experts| layer >= experts.first_dense);
        let (suffix, width, many) = match experts {
            Some(experts) => ("_exps", experts.ffn, Some(experts.count)),
            None => {
                ("", self.shares(layer).filter(|shared| shared.ffn > 0).map_or(self.ffn, |shared| shared.ffn), None)
            }
        };
        let mut three = |suffix: &str, width: u64, many: Option<u64>| {
            if width == 0 {
                return;
            }
            let dims = |a: u64, b: u64| [a, b].into_iter().chain(many).collect::<Vec<u64>>();
            if self.has_gate() {
                add(&format!("ffn_gate{suffix}"), &dims(self.hidden, width));
            }
            add(&format!("ffn_up{suffix}"), &dims(self.hidden, width));
            add(&format!("ffn_down{suffix}"), &dims(width, self.hidden));
        };
        three(suffix, width, many);
        if let Some(experts) = experts {
            three("_shexp", experts.shared.saturating_mul(experts.ffn), None);
            add("ffn_gate_inp", &[self.hidden, experts.count]);
        }
    }

    /// Whether the feed-forward part has a gate, and so three matrices instead of two.
    fn has_gate(&self) -> bool {
        ![
            "gpt2",
            "gptj",
            "gptneox",
            "falcon",
            "phi2",
            "mpt",
            "bloom",
            "starcoder",
            "starcoder2",
            "nemotron",
            "nemotron_h",
            "nemotron_h_moe",
        ]
        .contains(&self.architecture.as_str())
    }
}
