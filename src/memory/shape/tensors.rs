//! Owns which tensors a model of given figures has, by their names in GGUF files and their shapes: attention, latent
//! attention, recurrent layers, feed-forward parts, experts. Norms and biases that only some families have are left
//! out (below 0.1 %). Source: llama.cpp's model loaders, read on 2026-11-20. Knows nothing of types and bytes.

use super::figures::{Compressing, Figures, Mla, Recurrent};
use super::known::known;
use super::model::MOST_LAYERS;
use crate::memory::quant::Shape;

/// Numbers of so many heads of this length.
fn width(heads: u64, length: u64) -> u64 {
    heads.saturating_mul(length)
}

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
        for layer in 0..self.layers.min(MOST_LAYERS) {
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
        let (kv_heads, head_dim) = self.heads_in(layer);
        let queries = width(self.heads, head_dim);
        if let (Some(state), true) = (self.recurrent, self.is_recurrent(layer)) {
            return self.recurrent_layer(state, add);
        }
        if self.mixer(layer).is_some_and(|kind| kind != '*') {
            return;
        }
        if let Some(compressing) = &self.compressing {
            return self.compressed_attention(layer, compressing, add);
        }
        if let Some(mla) = self.mla {
            return self.latent_attention(mla, add);
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
        // In one matrix.
        if ["phi3", "falcon", "gptneox"].contains(&self.architecture.as_str()) {
            let all = queries.saturating_add(width(kv_heads, head_dim).saturating_mul(2));
            add("attn_qkv", &[self.hidden, all]);
            return add("attn_output", &[queries, self.hidden]);
        }
        // The gate of hybrid models whose layers follow an interval doubles the queries; Muse Glimmer has one, too.
        let gated = self.recurrent.is_some() && self.mixers.is_empty() || self.architecture == "muse-glimmer";
        add("attn_q", &[self.hidden, if gated { queries.saturating_mul(2) } else { queries }]);
        // Gemma 3n's layers have their own K and V, though the last ones use another's.
        if self.shares(layer).is_none() || self.architecture == "gemma3n" {
            add("attn_k", &[self.hidden, width(kv_heads, head_dim)]);
            // Where full layers have K in heads of their own number, V is K (Gemma 4).
            if kv_heads == self.kv_heads {
                add("attn_v", &[self.hidden, width(kv_heads, head_dim)]);
            }
        }
        add("attn_output", &[queries, self.hidden]);
    }

    fn latent_attention(&self, mla: Mla, add: &mut impl FnMut(&str, &[u64])) {
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
        if self.architecture == "kimi-k3" {
            add("attn_gate", &[self.hidden, width(self.heads, mla.v_head)]);
        }
        add("attn_output", &[width(self.heads, mla.v_head), self.hidden]);
    }

    fn compressed_attention(&self, layer: u64, compressing: &Compressing, add: &mut impl FnMut(&str, &[u64])) {
        let Compressing { q_lora, output: (groups, latent), indexer: (heads, key), .. } = *compressing;
        let queries = self.heads.saturating_mul(self.head_dim);
        let outputs = groups.saturating_mul(latent);
        add("attn_q_a", &[self.hidden, q_lora]);
        add("attn_q_b", &[q_lora, queries]);
        add("attn_kv", &[self.hidden, self.head_dim]);
        add("attn_output_a", &[queries.checked_div(groups).unwrap_or(0), outputs]);
        add("attn_output_b", &[outputs, self.hidden]);
        let tokens = compressing.tokens(layer);
        if tokens == 0 {
            return;
        }
        // Rows that overlap are gathered twice; an indexer that picks from them has rows of its own.
        let wide = if tokens == 4 { 2 } else { 1 };
        let gathered = [("attn", self.head_dim), ("indexer", key)];
        for (name, length) in gathered.into_iter().take(wide) {
            for part in ["kv", "gate"] {
                add(&format!("{name}_compressor_{part}"), &[self.hidden, length.saturating_mul(wide as u64)]);
            }
        }
        if tokens == 4 {
            add("indexer.attn_q_b", &[q_lora, heads.saturating_mul(key)]);
        }
    }

    fn recurrent_layer(&self, state: Recurrent, add: &mut impl FnMut(&str, &[u64])) {
        if self.has_delta_attention() {
            for name in ["attn_q", "attn_k", "attn_v"] {
                add(name, &[self.hidden, state.inner]);
            }
            // Kimi-Linear's gate goes over a head's length, Kimi-K3's is whole.
            if self.architecture == "kimi-k3" {
                add("ssm_g", &[self.hidden, state.inner]);
            }
            return add("attn_output", &[state.inner, self.hidden]);
        }
        if self.has_short_convolutions() {
            add("shortconv.in_proj", &[self.hidden, self.hidden.saturating_mul(3)]);
            return add("shortconv.out_proj", &[self.hidden, self.hidden]);
        }
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
        let experts = self.experts.filter(|experts| {
            layer >= experts.first_dense && layer.saturating_add(1).checked_rem(experts.every.max(1)) == Some(0)
        });
        let (suffix, width, many) = match experts {
            Some(experts) => ("_exps", experts.ffn, Some(experts.count)),
            None => {
                ("", self.shares(layer).filter(|shared| shared.ffn > 0).map_or(self.ffn, |shared| shared.ffn), None)
            }
        };
        let latent = experts.map_or(0, |experts| experts.latent);
        if latent > 0 {
            add("ffn_latent_down", &[self.hidden, latent]);
            add("ffn_latent_up", &[latent, self.hidden]);
        }
        let hidden = if many.is_some() && latent > 0 { latent } else { self.hidden };
        self.matrices(suffix, hidden, width, many, add);
        if let Some(experts) = experts {
            self.matrices("_shexp", self.hidden, experts.shared.saturating_mul(experts.ffn), None, add);
            add("ffn_gate_inp", &[self.hidden, experts.count]);
        }
    }

    /// The matrices of a feed-forward part, or of so many experts.
    fn matrices(&self, suffix: &str, hidden: u64, width: u64, many: Option<u64>, add: &mut impl FnMut(&str, &[u64])) {
        if width == 0 {
            return;
        }
        let inward: Vec<u64> = [hidden, width].into_iter().chain(many).collect();
        let outward: Vec<u64> = [width, hidden].into_iter().chain(many).collect();
        if known(&self.architecture).is_none_or(|known| !known.ungated) {
            add(&format!("ffn_gate{suffix}"), &inward);
        }
        add(&format!("ffn_up{suffix}"), &inward);
        add(&format!("ffn_down{suffix}"), &outward);
    }
}
