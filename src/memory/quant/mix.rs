//! Owns the mixes by their names, with the tensors of a model at each: as llama-quantize chooses their types (`rules`), as
//! checkpoints are given out. Makers' variants are a plain mix with other ends (bartowski's `_L`), or about so much larger
//! or smaller than one (Unsloth's `UD-`, by the sizes of their files).
//! Source: llama-quant.cpp, read on 2026-11-21. Knows nothing of files.

use super::model::{Model, OWN_MIXES, Shape};
use super::rules::{Role, Tensor, Whole, fitting, is_quantised, kind, layer_of, role};
use crate::memory::ggml::GgmlType;
use crate::memory::gguf::TensorInfo;

/// llama-quantize's mixes with the type that most of a model is in, from the largest to the smallest.
const PLAIN: [(&str, GgmlType); 35] = [
    ("F32", GgmlType::F32),
    ("BF16", GgmlType::BF16),
    ("F16", GgmlType::F16),
    ("Q8_0", GgmlType::Q8_0),
    ("Q6_K", GgmlType::Q6_K),
    ("Q5_1", GgmlType::Q5_1),
    ("Q5_K_M", GgmlType::Q5_K),
    ("Q5_K_S", GgmlType::Q5_K),
    ("Q5_0", GgmlType::Q5_0),
    ("Q4_1", GgmlType::Q4_1),
    ("Q4_K_M", GgmlType::Q4_K),
    ("Q4_K_S", GgmlType::Q4_K),
    ("IQ4_NL", GgmlType::IQ4_NL),
    ("Q4_0", GgmlType::Q4_0),
    ("MXFP4_MOE", GgmlType::MXFP4),
    ("IQ4_XS", GgmlType::IQ4_XS),
    ("Q3_K_L", GgmlType::Q3_K),
    ("Q3_K_M", GgmlType::Q3_K),
    ("IQ3_M", GgmlType::IQ3_S),
    ("IQ3_S", GgmlType::IQ3_S),
    ("Q3_K_S", GgmlType::Q3_K),
    ("IQ3_XS", GgmlType::IQ3_S),
    ("IQ3_XXS", GgmlType::IQ3_XXS),
    ("Q2_K", GgmlType::Q2_K),
    ("Q2_K_S", GgmlType::Q2_K),
    ("IQ2_M", GgmlType::IQ2_S),
    ("IQ2_S", GgmlType::IQ2_XS),
    ("IQ2_XS", GgmlType::IQ2_XS),
    ("Q2_0", GgmlType::Q2_0),
    ("IQ2_XXS", GgmlType::IQ2_XXS),
    ("TQ2_0", GgmlType::TQ2_0),
    ("IQ1_M", GgmlType::IQ1_M),
    ("TQ1_0", GgmlType::TQ1_0),
    ("IQ1_S", GgmlType::IQ1_S),
    ("Q1_0", GgmlType::Q1_0),
];

/// bartowski's variants with the plain mix that they begin at: embeddings and output in Q8_0.
const WIDE_ENDS: [(&str, &str); 5] =
    [("Q6_K_L", "Q6_K"), ("Q5_K_L", "Q5_K_M"), ("Q4_K_L", "Q4_K_M"), ("Q3_K_XL", "Q3_K_L"), ("Q2_K_L", "Q2_K")];

/// Unsloth's variants: the plain mix that each is near, what embeddings and output are in where it differs, and
/// thousandths of the layers' bytes: of dense models and of those with experts, in files of 2025 and, for
/// architectures of 2026, since. By the sizes of its files, of which those here are within 4 % (`tests`).
const UNSLOTH: [(&str, &str, Option<GgmlType>, [u64; 4]); 25] = [
    ("UD-Q8_K_XL", "Q8_0", Some(GgmlType::BF16), [1120, 1090, 1025, 1012]),
    ("UD-Q6_K_XL", "Q6_K", Some(GgmlType::Q8_0), [1085, 1045, 1080, 1045]),
    ("UD-Q6_K", "Q6_K", None, [1000, 1000, 1000, 1010]),
    ("UD-Q5_K_XL", "Q5_K_M", None, [1005, 1000, 1025, 1090]),
    ("UD-Q5_K_M", "Q5_K_M", None, [1000, 1000, 1020, 1090]),
    ("UD-Q5_K_S", "Q5_K_S", None, [1000, 1000, 1020, 1045]),
    ("UD-Q4_K_XL", "Q4_K_M", None, [1025, 955, 1040, 1040]),
    ("UD-Q4_K_M", "Q4_K_M", None, [1000, 1000, 1020, 1020]),
    ("UD-Q4_K_S", "Q4_K_S", None, [1000, 1000, 1020, 1050]),
    ("UD-IQ4_NL", "IQ4_NL", None, [1000, 1000, 1000, 915]),
    ("UD-IQ4_XS", "IQ4_XS", None, [1000, 1000, 1000, 965]),
    ("UD-Q3_K_XL", "Q3_K_M", None, [1045, 940, 985, 990]),
    ("UD-Q3_K_M", "Q3_K_M", None, [1000, 1000, 1000, 945]),
    ("UD-Q3_K_S", "Q3_K_S", None, [1000, 1000, 1000, 1020]),
    ("UD-IQ3_S", "IQ3_S", None, [1000, 1000, 1000, 915]),
    ("UD-IQ3_XXS", "IQ3_XXS", None, [1020, 1090, 1010, 980]),
    ("UD-Q2_K_XL", "Q2_K", None, [1060, 1050, 970, 970]),
    ("UD-IQ2_M", "IQ2_M", None, [1025, 1070, 985, 975]),
    ("UD-IQ2_S", "IQ2_S", None, [1030, 1100, 1000, 1000]),
    ("UD-IQ2_XS", "IQ2_XS", None, [1030, 1150, 1000, 1020]),
    ("UD-IQ2_XXS", "IQ2_XXS", None, [1048, 1278, 980, 1060]),
    ("UD-IQ1_M", "IQ1_M", None, [1070, 1380, 1070, 1380]),
    ("UD-IQ1_S", "IQ1_S", None, [1085, 1430, 1085, 1430]),
    ("UD-TQ1_0", "TQ1_0", None, [1190, 1190, 1190, 1190]),
    ("UD-TQ2_0", "TQ2_0", None, [1000, 1000, 1000, 1000]),
];

/// Architectures that came in 2026.
const OF_2026: [&str; 9] =
    ["gemma4", "qwen35", "qwen35moe", "deepseek4", "glm-dsa", "step35", "laguna", "muse-glimmer", "kimi-k3"];

/// The names of llama-quantize's mixes.
pub(crate) fn plain() -> impl Iterator<Item = &'static str> {
    PLAIN.into_iter().map(|(name, _)| name)
}

/// The mix or variant of this name, in either case.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let variants = WIDE_ENDS.into_iter().map(|(name, _)| name).chain(UNSLOTH.into_iter().map(|(name, ..)| name));
    plain().chain(variants).find(|known| known.eq_ignore_ascii_case(name))
}

/// The tensors with the types of a mix and their bytes; `None` for a mix that is not known here or a
/// shape that can't be.
pub(crate) fn mixed(shapes: &[Shape], mix: &str, model: Model<'_>) -> Option<Vec<TensorInfo>> {
    let own = OWN_MIXES.into_iter().find(|known| known.eq_ignore_ascii_case(mix));
    let wide = WIDE_ENDS.into_iter().map(|(known, rules)| (known, rules, Some(GgmlType::Q8_0), [1000; 4]));
    let variant = wide.chain(UNSLOTH).find(|(known, ..)| known.eq_ignore_ascii_case(mix));
    let (_, rules, ends, per_mille) = variant.unwrap_or(("", mix, None, [1000; 4]));
    let [dense, experts, dense_now, experts_now] = per_mille;
    let plain = PLAIN.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(rules));
    let per_mille = match (OF_2026.contains(&model.architecture), model.experts) {
        (false, 0) => dense,
        (false, _) => experts,
        (true, 0) => dense_now,
        (true, _) => experts_now,
    };
    let whole = Whole {
        values: shapes.iter().filter(|(name, _)| role(name) == Role::Value).count() as u64,
        tied: !shapes.iter().any(|(name, _)| name == "output.weight"),
        model,
    };
    let mut values = 0;
    let mut tensors = Vec::new();
    for (name, dims) in shapes {
        let role = role(name);
        let index = if role == Role::Value { values } else { layer_of(name) };
        values = u64::saturating_add(values, u64::from(role == Role::Value));
        let tensor = Tensor { name, dims, role, index };
        let kind = match (own, plain) {
            _ if !is_quantised(name, dims) => GgmlType::F32,
            (Some(own), _) => of_checkpoint(name, own),
            (None, Some((mix, base))) => {
                let at_an_end = matches!(role, Role::Output | Role::Embedding);
                let own_end = if at_an_end { ends } else { None };
                own_end.unwrap_or_else(|| kind(&tensor, mix, base, whole))
            }
            (None, None) => return None,
        };
        let kind = fitting(kind, dims);
        let bytes = kind.tensor_bytes(dims)?;
        let bytes = if name.starts_with("blk.") { bytes.saturating_mul(per_mille) / 1000 } else { bytes };
        tensors.push(TensorInfo { name: name.clone(), dims: dims.clone(), kind, bytes });
    }
    Some(tensors)
}

/// What checkpoints are given out in.
fn of_checkpoint(name: &str, mix: &str) -> GgmlType {
    match mix {
        "MXFP4" | "MXFP4, BF16" if name.contains("_exps.") => GgmlType::MXFP4,
        // As many bits.
        "INT4, BF16" if name.contains("_exps.") => GgmlType::Q4_0,
        "MXFP4" => GgmlType::Q8_0,
        "FP8" if name.starts_with("blk.") => GgmlType::I8,
        "4-bit" if name.starts_with("blk.") => GgmlType::IQ4_XS,
        "NVFP4" if name.starts_with("blk.") => GgmlType::Q4_0,
        _ => GgmlType::BF16,
    }
}
