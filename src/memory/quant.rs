//! Owns the named mixes of quantisation types (`Q4_K_M`): which tensor gets which type, so that the size of a model
//! at another quantisation, or of one that is only known by its shapes, can be summed. Exact for Q8_0, Q6_K, Q5_K_M,
//! Q4_K_M and Q4_0 as llama-quantize of llama.cpp 0.5.0 makes them without an importance matrix; files made by
//! others differ by a few percent. Source: llama-quant.cpp, read on 2026-11-20. Knows nothing of files.

use super::ggml::GgmlType;
use super::gguf::TensorInfo;

/// The mixes that are known here, from the largest to the smallest.
pub const MIXES: [&str; 10] = ["F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", "Q3_K_M"];

/// Experts in MXFP4 as gpt-oss was trained, the rest in Q8_0 (its GGUF files: 59.02 GiB for 120B, as printed in
/// ggml-org/llama.cpp#15253) or in bf16 (its checkpoints); all layers in a byte, the rest in bf16, as DeepSeek-V3's
/// checkpoint (its README_WEIGHTS, read on 2026-11-21); experts in four bits with a 16-bit scale for each 32 of them,
/// the rest in bf16, as Kimi-K2-Thinking's (lightseekorg/tokenspeed#444); all layers in about 4.25 bits, as AWQ, GPTQ
/// and bitsandbytes have them, or in 4.5 (NVFP4), the rest in bf16.
pub const OWN_MIXES: [&str; 6] = ["MXFP4", "MXFP4, BF16", "INT4, BF16", "FP8", "4-bit", "NVFP4"];

/// Whether checkpoints are given out in this, and GGUF files are not.
pub fn of_checkpoint(mix: &str) -> bool {
    OWN_MIXES.contains(&mix) && mix != "MXFP4"
}

/// The mix of about the same bits.
pub fn nearest(name: &str) -> Option<&'static str> {
    let upper = name.to_uppercase();
    let same = MIXES.into_iter().find(|mix| *mix == upper);
    let starts = |heads: &[&str]| heads.iter().any(|head| upper.starts_with(head));
    let near = match () {
        () if starts(&["IQ4"]) => "IQ4_XS",
        () if starts(&["Q2", "Q3", "IQ1", "IQ2", "IQ3", "TQ"]) => "Q3_K_M",
        () if starts(&["Q4", "MXFP4", "NVFP4"]) => "Q4_K_M",
        () if starts(&["Q5"]) => "Q5_K_M",
        () if starts(&["Q6"]) => "Q6_K",
        () if starts(&["Q8"]) => "Q8_0",
        () if starts(&["FP16"]) => "F16",
        () => return same,
    };
    same.or(Some(near))
}

/// What a model's name says of its quantisation, in capitals, and the nearest mix: `Q4_K_M` of
/// `llama-3.1-8b-instruct-Q4_K_M.gguf`, `AWQ` of `Qwen2.5-32B-Instruct-AWQ`.
pub fn in_name(name: &str) -> Option<(String, &'static str)> {
    let tail = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".gguf");
    let words: Vec<String> = tail.rsplit(['-', '.', ':']).take(5).map(str::to_uppercase).collect();
    let of_file = words.iter().find_map(|word| {
        let is_mix = word.contains(|c: char| c.is_ascii_digit())
            && (word.contains('_') || ["F16", "BF16", "FP16"].contains(&word.as_str()));
        Some((word.clone(), nearest(word).filter(|_| is_mix)?))
    });
    let of_checkpoint = |word: &String| {
        let mix = match word.as_str() {
            "FP8" | "INT8" | "8BIT" | "W8A8" | "W8A16" => "FP8",
            "AWQ" | "GPTQ" | "BITSANDBYTES" | "INT4" | "4BIT" | "NF4" | "W4A16" => "4-bit",
            "NVFP4" | "MXFP4" | "FP4" => "NVFP4",
            _ => return None,
        };
        Some((word.clone(), mix))
    };
    // GPTQ-Int8 has eight: what stands last tells.
    of_file.or_else(|| words.iter().find_map(of_checkpoint))
}

/// A tensor of which the type is still to be chosen.
pub type Shape = (String, Vec<u64>);

/// What the mixes look at beside the tensor.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    layers: u64,
    experts: u64,
    /// Models of 80 layers, whose attn_v is shared by eight heads.
    seventy: bool,
    values: u64,
    tied: bool,
}

/// The tensors with the types of a mix and their bytes; `None` for a mix that is not known here or a shape that
/// can't be.
pub fn mixed(shapes: &[Shape], mix: &str, layers: u64, experts: u64) -> Option<Vec<TensorInfo>> {
    let mix = MIXES.iter().chain(&OWN_MIXES).find(|known| known.eq_ignore_ascii_case(mix))?;
    let values = shapes.iter().filter(|(name, _)| is_value(name)).count() as u64;
    let tied = !shapes.iter().any(|(name, _)| name == "output.weight");
    let model = Model { layers, experts, seventy: layers == 80, values, tied };
    let mut seen = 0;
    let mut tensors = Vec::new();
    for (name, dims) in shapes {
        let index = if is_value(name) { seen } else { layer_of(name) };
        seen = if is_value(name) { seen.saturating_add(1) } else { seen };
        let kind = fitting(kind(name, dims, mix, index, model), dims);
        tensors.push(TensorInfo { name: name.clone(), dims: dims.clone(), kind, bytes: kind.tensor_bytes(dims)? });
    }
    Some(tensors)
}

fn is_value(name: &str) -> bool {
    ["attn_v.weight", "attn_kv_b.weight", "attn_v_b.weight"].iter().any(|value| name.ends_with(value))
}

fn layer_of(name: &str) -> u64 {
    name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0)
}

/// Whether the layer is one of those that get more bits: the first and last eighth, and each third between.
fn more_bits(index: u64, count: u64) -> bool {
    let eighth = count / 8;
    index < eighth || index >= count.saturating_mul(7) / 8 || index.saturating_sub(eighth) % 3 == 2
}

fn kind(name: &str, dims: &[u64], mix: &str, index: u64, model: Model) -> GgmlType {
    let stays = ["_norm.weight", "ffn_gate_inp.weight", "ssm_conv1d.weight", "ssm_a", "ssm_d"];
    if dims.len() < 2 || !name.ends_with(".weight") || stays.iter().any(|end| name.ends_with(end)) {
        return GgmlType::F32;
    }
    let is_embedding = ["token_embd.weight", "per_layer_token_embd.weight"].contains(&name);
    let is_output = name == "output.weight" || model.tied && is_embedding;
    match mix {
        "MXFP4" | "MXFP4, BF16" if name.contains("_exps.") => GgmlType::MXFP4,
        // As many bits.
        "INT4, BF16" if name.contains("_exps.") => GgmlType::Q4_0,
        "MXFP4" => GgmlType::Q8_0,
        "FP8" if name.starts_with("blk.") => GgmlType::I8,
        "4-bit" if name.starts_with("blk.") => GgmlType::IQ4_XS,
        "NVFP4" if name.starts_with("blk.") => GgmlType::Q4_0,
        "BF16" | "MXFP4, BF16" | "INT4, BF16" | "FP8" | "4-bit" | "NVFP4" => GgmlType::BF16,
        "F32" => GgmlType::F32,
        "F16" => GgmlType::F16,
        "Q8_0" => GgmlType::Q8_0,
        "Q6_K" => GgmlType::Q6_K,
        _ if is_output => GgmlType::Q6_K,
        "Q4_0" => GgmlType::Q4_0,
        "Q5_K_M" => medium(name, index, model, GgmlType::Q5_K),
        "Q4_K_M" => medium(name, index, model, GgmlType::Q4_K),
        "IQ4_XS" => small(name, index, model, GgmlType::IQ4_XS, GgmlType::Q5_K),
        _ => small(name, index, model, GgmlType::Q3_K, GgmlType::Q4_K),
    }
}

/// Q4_K_M and Q5_K_M.
fn medium(name: &str, index: u64, model: Model, base: GgmlType) -> GgmlType {
    let ends = |role: &str| name.ends_with(role);
    let eight = model.experts == 8;
    if is_value(name) {
        return match more_bits(index, model.values) {
            _ if eight => GgmlType::Q8_0,
            true => GgmlType::Q6_K,
            false if model.seventy && base == GgmlType::Q4_K => GgmlType::Q5_K,
            false => base,
        };
    }
    if ends("attn_k.weight") && eight {
        return GgmlType::Q8_0;
    }
    if ends("attn_output.weight") && eight {
        return GgmlType::Q5_K;
    }
    if ends("attn_qkv.weight") {
        return if base == GgmlType::Q4_K { GgmlType::Q5_K } else { GgmlType::Q6_K };
    }
    let down = ["ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight"].iter().any(|role| ends(role));
    if down && more_bits(index, model.layers) { GgmlType::Q6_K } else { base }
}

/// Q3_K_M and IQ4_XS, near enough for "about".
fn small(name: &str, index: u64, model: Model, base: GgmlType, more: GgmlType) -> GgmlType {
    if is_value(name) {
        return if model.experts == 8 { GgmlType::Q8_0 } else { more };
    }
    let first = index < model.layers / 8;
    match name {
        _ if name.contains("ffn_down") && first => GgmlType::Q5_K,
        _ if name.contains("ffn_down") || name.ends_with("attn_output.weight") => {
            if base == GgmlType::Q3_K {
                GgmlType::Q4_K
            } else {
                base
            }
        }
        _ => base,
    }
}

/// The type that llama-quantize takes instead where rows are no whole number of blocks.
fn fitting(kind: GgmlType, dims: &[u64]) -> GgmlType {
    let divides = |kind: GgmlType| dims.first().is_some_and(|row| kind.divides(*row));
    let instead = match kind {
        kind if divides(kind) => return kind,
        GgmlType::Q4_K => GgmlType::Q5_0,
        GgmlType::Q5_K => GgmlType::Q5_1,
        GgmlType::Q6_K => GgmlType::Q8_0,
        GgmlType::IQ4_XS | GgmlType::Q3_K => GgmlType::IQ4_NL,
        _ => GgmlType::F16,
    };
    if divides(instead) { instead } else { GgmlType::F16 }
}

/// The name that `general.file_type` stands for.
pub fn file_type(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_quantisation() {
        for (name, said) in [
            ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q6_K", Some(("Q6_K", "Q6_K"))),
            ("llama3.1:8b-instruct-q8_0", Some(("Q8_0", "Q8_0"))),
            ("llama3.1:8b-instruct-fp16", Some(("FP16", "F16"))),
            ("qwen3-14b-UD-Q4_K_XL.gguf", Some(("Q4_K_XL", "Q4_K_M"))),
            ("Qwen/Qwen2.5-32B-Instruct-AWQ", Some(("AWQ", "4-bit"))),
            ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int8", Some(("INT8", "FP8"))),
            ("unsloth/Qwen3-14B-bnb-4bit", Some(("4BIT", "4-bit"))),
            ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", Some(("W4A16", "4-bit"))),
            ("nvidia/Llama-3.3-70B-Instruct-FP8", Some(("FP8", "FP8"))),
            ("Qwen/Qwen3-8B", None),
            ("Qwen3-4B-Instruct-2507", None),
            ("phi-4", None),
        ] {
            let found = in_name(name);
            assert_eq!(found.as_ref().map(|(word, mix)| (word.as_str(), *mix)), said, "{name}");
        }
    }
}
