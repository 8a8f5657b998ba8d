//! Owns the tensors of a model at each mix: as llama-quantize chooses their types by their role, their layer and what the
//! model is like (the rules themselves are in `knowledge/memory/quantizations.ron`), as checkpoints are given out. Makers'
//! variants are a plain mix with other ends (bartowski's `_L`), or about so much larger or smaller than one (Unsloth's `UD-`,
//! by the sizes of their files). Source: llama-quant.cpp, read on 2026-11-21. Knows nothing of files.

use std::collections::HashMap;

use serde::Deserialize;

use super::table::TABLE;
use crate::memory::ggml::GgmlType;
use crate::memory::gguf::TensorInfo;

/// A tensor of which the type is still to be chosen.
pub(crate) type Shape = (String, Vec<u64>);

/// What the mixes look at beside the tensor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Model<'a> {
    /// As llama.cpp names it.
    pub architecture: &'a str,
    /// Layers, with those for multi-token prediction.
    pub layers: u64,
    /// Routed experts of a layer; 0 for none.
    pub experts: u64,
    /// Attention heads that share one of K and V in the first layer.
    pub shared_by: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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
        _ => TABLE.roles.iter().find(|(part, _)| name.contains(part.as_str())).map_or(Role::Other, |(_, role)| *role),
    }
}

pub(super) fn layer_of(name: &str) -> u64 {
    name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0)
}

/// Whether it may be quantized at all: a weight, but none of the small ones that matter much. Only matrices are.
fn may_be_quantised(name: &str) -> bool {
    name.ends_with("weight") && !TABLE.never.iter().any(|part| name.contains(part.as_str()))
}

/// What the name of a tensor says of it. Its layers have the same names, and advice asks for a hundred models: each name
/// within a layer is looked at once.
#[derive(Default)]
struct ByName<'n>(HashMap<&'n str, (Role, bool)>);

impl<'n> ByName<'n> {
    /// Its role, and whether it may be quantized.
    fn of(&mut self, name: &'n str) -> (Role, bool) {
        match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((_, within)) => *self.0.entry(within).or_insert_with(|| (role(name), may_be_quantised(name))),
            None => (role(name), may_be_quantised(name)),
        }
    }
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

/// Types of tensors with these roles in these mixes, where all conditions hold.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rule {
    /// All roles where none are given.
    to: Vec<Role>,
    /// All mixes where none are given.
    mixes: Vec<String>,
    only: Vec<Condition>,
    /// The mix's own type where there is none.
    take: Option<GgmlType>,
}

#[derive(Clone, Copy, Deserialize)]
enum Condition {
    Falcon,
    /// What llama.cpp calls a 70B model.
    Seventy,
    FourExperts,
    EightExperts,
    SharedByFour,
    /// Rows are no whole number of blocks.
    BrokenRows,
    ThreeDimensions,
    FirstTwo,
    FirstFour,
    FirstSixteenth,
    FirstEighth,
    /// All layers but the first and the last eighth.
    MiddleLayers,
    MoreBits,
}

impl Tensor<'_> {
    fn meets(&self, condition: Condition, base: GgmlType, whole: Whole<'_>) -> bool {
        let (index, Model { architecture, layers, experts, shared_by }) = (self.index, whole.model);
        match condition {
            Condition::Falcon => architecture == "falcon",
            Condition::Seventy => {
                layers == 80 && ["llama", "qwen2", "deci", "olmo"].contains(&architecture) && shared_by > 1
            }
            Condition::FourExperts => experts >= 4,
            Condition::EightExperts => experts == 8,
            Condition::SharedByFour => shared_by >= 4,
            Condition::BrokenRows => self.dims.first().is_some_and(|row| !base.divides(*row)),
            Condition::ThreeDimensions => self.dims.len() > 2,
            Condition::FirstTwo => index < 2,
            Condition::FirstFour => index < 4,
            Condition::FirstSixteenth => index < layers / 16,
            Condition::FirstEighth => index < layers / 8,
            Condition::MiddleLayers => index >= layers / 8 && index < layers.saturating_mul(7) / 8,
            Condition::MoreBits => more_bits(index, if self.role == Role::Value { whole.values } else { layers }),
        }
    }
}

/// The type of a tensor in a mix whose own type is `base`: that of the first rule that applies.
pub(super) fn kind(tensor: &Tensor<'_>, mix: &str, base: GgmlType, whole: Whole<'_>) -> GgmlType {
    if !base.is_quantised() || tensor.name.contains("per_layer_model_proj") {
        return if base.is_quantised() { GgmlType::BF16 } else { base };
    }
    // An embedding that serves as output, too, is one.
    let role = if whole.tied && tensor.role == Role::Embedding { Role::Output } else { tensor.role };
    let rule = TABLE.rules.iter().find(|rule| {
        (rule.to.is_empty() || rule.to.contains(&role))
            && (rule.mixes.is_empty() || rule.mixes.iter().any(|known| known == mix))
            && rule.only.iter().all(|condition| tensor.meets(*condition, base, whole))
    });
    rule.and_then(|rule| rule.take).unwrap_or(base)
}

/// The type that llama-quantize takes instead where rows are no whole number of blocks.
pub(super) fn fitting(kind: GgmlType, dims: &[u64]) -> GgmlType {
    let Some(row) = dims.first() else { return GgmlType::F16 };
    if kind.divides(*row) {
        return kind;
    }
    let instead = TABLE.instead.iter().find(|(kinds, _)| kinds.contains(&kind)).map(|(_, instead)| *instead);
    instead.filter(|instead| instead.divides(*row)).unwrap_or(GgmlType::F16)
}

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
    let mut by_name = ByName::default();
    let whole = Whole {
        values: shapes.iter().filter(|(name, _)| by_name.of(name).0 == Role::Value).count() as u64,
        tied: !shapes.iter().any(|(name, _)| name == "output.weight"),
        model,
    };
    let mut values = 0;
    let mut tensors = Vec::new();
    for (name, dims) in shapes {
        let (role, may_be_quantised) = by_name.of(name);
        let index = if role == Role::Value { values } else { layer_of(name) };
        values = u64::saturating_add(values, u64::from(role == Role::Value));
        let tensor = Tensor { name, dims, role, index };
        let kind = match (own, plain) {
            _ if dims.len() < 2 || !may_be_quantised => GgmlType::F32,
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
