//! Owns the tensors of a model at each mix: as llama-quantize chooses their types (`rules`), as checkpoints are given out.
//! Makers' variants are a plain mix with other ends (bartowski's `_L`), or about so much larger or smaller than one
//! (Unsloth's `UD-`, by the sizes of their files). Source: llama-quant.cpp, read on 2026-11-21. Knows nothing of files.

use super::rules::{Model, Role, Shape, Tensor, Whole, fitting, is_quantised, kind, layer_of, role};
use super::table::TABLE;
use crate::memory::ggml::GgmlType;
use crate::memory::gguf::TensorInfo;

/// The names of llama-quantize's mixes.
pub(crate) fn plain() -> impl Iterator<Item = &'static str> {
    TABLE.mixes.iter().map(|(name, _)| name.as_str())
}

/// The mix or variant of this name, in either case.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let variants = TABLE.variants.iter().map(|variant| variant.name.as_str());
    plain().chain(variants).find(|known| known.eq_ignore_ascii_case(name))
}

/// The tensors with the types of a mix and their bytes; `None` for a mix that is not known here or a
/// shape that can't be.
pub(crate) fn mixed(shapes: &[Shape], mix: &str, model: Model<'_>) -> Option<Vec<TensorInfo>> {
    let own = TABLE.checkpoints.iter().find(|known| known.name.eq_ignore_ascii_case(mix));
    let variant = TABLE.variants.iter().find(|known| known.name.eq_ignore_ascii_case(mix));
    let (rules, ends, per_mille) =
        variant.map_or((mix, None, [1000; 4]), |variant| (variant.of.as_str(), variant.ends, variant.per_mille));
    let [dense, experts, dense_now, experts_now] = per_mille;
    let plain = TABLE.mixes.iter().find(|(known, _)| known.eq_ignore_ascii_case(rules));
    let per_mille = match (TABLE.of_2026.iter().any(|known| known == model.architecture), model.experts) {
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
            (Some(own), _) => own.kind(name),
            (None, Some((mix, base))) => {
                let at_an_end = matches!(role, Role::Output | Role::Embedding);
                let own_end = if at_an_end { ends } else { None };
                own_end.unwrap_or_else(|| kind(&tensor, mix, *base, whole))
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
