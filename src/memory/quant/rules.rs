//! Owns which type llama-quantize gives a tensor by what it is: its role, its layer, and what the model is like. With an
//! importance matrix where files of that mix are made with one (`IQ…`), else without. Source: llama-quant.cpp of
//! llama.cpp 0.6.0, read on 2026-11-21. Knows no mix but by its name.

use super::model::Model;
use crate::memory::ggml::GgmlType;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Output,
    Embedding,
    /// V, or what holds it.
    Value,
    Key,
    Query,
    AttentionOutput,
    Up,
    Gate,
    Down,
    Other,
}

pub(super) fn role(name: &str) -> Role {
    match name {
        "output.weight" => Role::Output,
        "token_embd.weight" | "per_layer_token_embd.weight" => Role::Embedding,
        _ if name.contains("attn_qkv.weight")
            || name.contains("attn_kv_b.weight")
            || name.contains("attn_v.weight") =>
        {
            Role::Value
        }
        _ if name.contains("attn_k.weight") => Role::Key,
        _ if name.contains("attn_q.weight") => Role::Query,
        _ if name.contains("attn_output.weight") => Role::AttentionOutput,
        _ if name.contains("ffn_up") => Role::Up,
        _ if name.contains("ffn_gate") => Role::Gate,
        _ if name.contains("ffn_down") => Role::Down,
        _ => Role::Other,
    }
}

pub(super) fn layer_of(name: &str) -> u64 {
    name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0)
}

/// Whether it is quantised at all: matrices, but none of the small ones that matter much.
pub(super) fn is_quantised(name: &str, dims: &[u64]) -> bool {
    let small = [
        "_norm.weight",
        "ffn_gate_inp.weight",
        "altup",
        "laurel",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "position_embd",
        "token_types",
    ];
    dims.len() > 1 && name.ends_with("weight") && !small.iter().any(|part| name.contains(part))
}

pub(super) struct Tensor<'a> {
    pub(super) name: &'a str,
    pub(super) dims: &'a [u64],
    pub(super) role: Role,
    /// Of V the how many-th, else the layer.
    pub(super) index: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    /// How many tensors hold V.
    pub(super) values: u64,
    pub(super) tied: bool,
    pub(super) model: Model<'a>,
}

/// Whether the layer is one of those that get more bits: the first and last eighth, and each third between.
fn more_bits(index: u64, count: u64) -> bool {
    let eighth = count / 8;
    index < eighth || index >= count.saturating_mul(7) / 8 || index.saturating_sub(eighth) % 3 == 2
}

pub(super) fn kind(tensor: &Tensor<'_>, mix: &str, base: GgmlType, whole: Whole<'_>) -> GgmlType {
    let Tensor { name, dims, role, index } = *tensor;
    let tiny = mix.starts_with("IQ2_") || mix.starts_with("IQ1_");
    if !base.is_quantised() || name.contains("per_layer_model_proj") {
        return if base.is_quantised() { GgmlType::BF16 } else { base };
    }
    if role == Role::Output || whole.tied && role == Role::Embedding {
        return match () {
            () if mix == "MXFP4_MOE" || whole.model.architecture == "falcon" => GgmlType::Q8_0,
            () if dims.first().is_some_and(|row| !base.divides(*row)) => GgmlType::Q8_0,
            () if tiny || mix == "IQ3_XXS" => GgmlType::Q5_K,
            () if base == GgmlType::Q8_0 => base,
            () => GgmlType::Q6_K,
        };
    }
    match role {
        _ if mix == "MXFP4_MOE" => {
            if dims.len() > 2 {
                base
            } else {
                GgmlType::Q8_0
            }
        }
        Role::Embedding if ["IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"].contains(&mix) => GgmlType::Q2_K,
        Role::Embedding if ["IQ2_S", "IQ2_M", "IQ3_XXS"].contains(&mix) => GgmlType::IQ3_S,
        Role::Embedding if ["TQ1_0", "TQ2_0", "Q2_0"].contains(&mix) => GgmlType::Q4_K,
        Role::Embedding => base,
        _ if tiny => of_two_bits(tensor, mix, base, whole.model),
        Role::Value => of_values(index, mix, base, whole),
        Role::Key if whole.model.experts == 8 => GgmlType::Q8_0,
        Role::Key | Role::Query if mix == "IQ3_XS" => GgmlType::IQ3_XXS,
        Role::Key | Role::Query if mix == "IQ3_XXS" => GgmlType::IQ2_S,
        Role::Down => of_down(index, mix, base, whole.model),
        Role::AttentionOutput => of_attention_output(mix, base, whole.model),
        Role::Up | Role::Gate if mix == "IQ3_XS" => {
            let layers = whole.model.layers;
            let between = index >= layers / 8 && index < layers.saturating_mul(7) / 8;
            if between { GgmlType::IQ3_XXS } else { base }
        }
        _ => base,
    }
}

fn of_two_bits(tensor: &Tensor<'_>, mix: &str, base: GgmlType, model: Model<'_>) -> GgmlType {
    let more = ["IQ2_S", "IQ2_M"].contains(&mix);
    match tensor.role {
        Role::Value if model.shared_by >= 4 || model.experts >= 4 => GgmlType::Q4_K,
        Role::Key if model.experts == 8 => GgmlType::Q4_K,
        Role::AttentionOutput if model.experts == 8 => GgmlType::Q5_K,
        Role::AttentionOutput if mix.starts_with("IQ1_") => GgmlType::IQ2_XXS,
        Role::AttentionOutput if more => GgmlType::IQ3_S,
        Role::Value => {
            if more {
                GgmlType::IQ3_S
            } else {
                GgmlType::Q2_K
            }
        }
        Role::Down if tensor.index < model.layers / 8 => {
            if more {
                GgmlType::IQ3_S
            } else {
                GgmlType::Q2_K
            }
        }
        _ => base,
    }
}

fn of_values(index: u64, mix: &str, base: GgmlType, whole: Whole<'_>) -> GgmlType {
    let many = whole.model.shared_by >= 4;
    let kind = match mix {
        "Q2_K" if !many => GgmlType::Q3_K,
        "Q2_K" | "Q2_K_S" | "IQ3_XXS" | "IQ3_XS" | "IQ3_S" if many => GgmlType::Q4_K,
        "IQ3_M" => GgmlType::Q4_K,
        "Q3_K_M" => {
            if index < 2 {
                GgmlType::Q5_K
            } else {
                GgmlType::Q4_K
            }
        }
        "Q3_K_L" => GgmlType::Q5_K,
        "IQ4_NL" | "IQ4_XS" if many => GgmlType::Q5_K,
        "Q4_K_M" | "Q5_K_M" if more_bits(index, whole.values) => GgmlType::Q6_K,
        "Q4_K_S" if index < 4 => GgmlType::Q5_K,
        _ => base,
    };
    match kind {
        _ if whole.model.experts == 8 => GgmlType::Q8_0,
        GgmlType::Q3_K | GgmlType::Q4_K if whole.model.is_seventy() => GgmlType::Q5_K,
        kind => kind,
    }
}

fn of_down(index: u64, mix: &str, base: GgmlType, model: Model<'_>) -> GgmlType {
    let falcon = model.architecture == "falcon";
    let [first_eighth, first_sixteenth] = [8, 16].map(|part| index < model.layers / part);
    let more = more_bits(index, model.layers);
    match mix {
        "Q2_K" => GgmlType::Q3_K,
        "Q2_K_S" if first_eighth => GgmlType::Q4_K,
        "Q3_K_M" if first_sixteenth => GgmlType::Q5_K,
        "Q3_K_M" if !falcon || more => GgmlType::Q4_K,
        "IQ3_M" if first_eighth || model.experts == 8 && more => GgmlType::Q4_K,
        "Q3_K_L" => {
            if falcon {
                GgmlType::Q4_K
            } else {
                GgmlType::Q5_K
            }
        }
        "Q4_K_M" if falcon && first_sixteenth => GgmlType::Q6_K,
        "Q4_K_M" if falcon && more => GgmlType::Q5_K,
        "Q4_K_M" | "Q5_K_M" if !(falcon && mix == "Q4_K_M") && more => GgmlType::Q6_K,
        "Q4_K_S" if !falcon && first_eighth => GgmlType::Q5_K,
        _ => base,
    }
}

fn of_attention_output(mix: &str, base: GgmlType, model: Model<'_>) -> GgmlType {
    let falcon = model.architecture == "falcon";
    let widened =
        ["Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS"];
    match mix {
        "Q3_K_L" if falcon => GgmlType::Q4_K,
        _ if falcon => base,
        _ if model.experts == 8 => {
            if widened.contains(&mix) {
                GgmlType::Q5_K
            } else {
                base
            }
        }
        "Q2_K" => GgmlType::Q3_K,
        "IQ3_XXS" => GgmlType::IQ3_S,
        "Q3_K_M" | "IQ3_M" => GgmlType::Q4_K,
        "Q3_K_L" => GgmlType::Q5_K,
        _ => base,
    }
}

/// The type that llama-quantize takes instead where rows are no whole number of blocks.
pub(super) fn fitting(kind: GgmlType, dims: &[u64]) -> GgmlType {
    let Some(row) = dims.first() else { return GgmlType::F16 };
    let instead = match kind {
        kind if kind.divides(*row) => return kind,
        GgmlType::Q4_K => GgmlType::Q5_0,
        GgmlType::Q5_K => GgmlType::Q5_1,
        GgmlType::Q6_K => GgmlType::Q8_0,
        GgmlType::Q2_0 | GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::TQ1_0 | GgmlType::TQ2_0 => GgmlType::Q4_0,
        kind if kind.name.starts_with("iq") => GgmlType::IQ4_NL,
        _ => GgmlType::F16,
    };
    if instead.divides(*row) { instead } else { GgmlType::F16 }
}
