//! Owns which type llama-quantize gives a tensor by what it is: its role, its layer, and what the model is like. The rules
//! themselves are in `knowledge/memory/quantizations.ron`.

use serde::Deserialize;

use super::table::TABLE;
use crate::memory::ggml::GgmlType;

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

/// Whether it is quantized at all: matrices, but none of the small ones that matter much.
pub(super) fn is_quantised(name: &str, dims: &[u64]) -> bool {
    dims.len() > 1 && name.ends_with("weight") && !TABLE.never.iter().any(|part| name.contains(part.as_str()))
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
