//! Owns what training takes: parameters, gradients and optimizer states by precision, LoRA and QLoRA, ZeRO's stages,
//! DeepSpeed's own estimate, and activations. States are exact for the recipe they name; activations are within 30 %
//! until measured. Sources: arXiv:1910.02054, arXiv:2205.05198, DeepSpeed 0.19.8, transformers 5.23.0, read on
//! 2026-11-20. Bytes; per parameter in thousandths of a byte. Knows nothing of this machine.

use super::estimate::{CONTEXT_BYTES, Estimate, Part};
use super::shape::{Is, ModelShape};

/// What is trained, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// All in f32 with AdamW: 16 bytes a parameter.
    Full32,
    /// Mixed precision with AdamW: 2 for weights, 4 for gradients, 12 for the f32 copy and two states.
    Mixed,
    /// All in bf16 with AdamW: 8 bytes.
    Pure16,
    /// Mixed precision with 8-bit Adam: f32 copy of 4 and states of about 2.
    Mixed8bit,
    /// Weights of 2 bytes as they are, adapters of this rank in mixed precision.
    Lora(u64),
    /// Weights in NF4 with double quantisation, adapters of this rank in mixed precision.
    Qlora(u64),
}

/// Thousandths of a byte for each parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerParameter {
    /// Weights that are computed with.
    pub weights: u64,
    /// Gradients.
    pub gradients: u64,
    /// Optimizer states and master copies.
    pub optimizer: u64,
}

impl Recipe {
    /// For each trained parameter.
    pub fn trained(self) -> PerParameter {
        let (weights, gradients, optimizer) = match self {
            Recipe::Full32 => (4000, 4000, 8000),
            Recipe::Mixed | Recipe::Lora(_) | Recipe::Qlora(_) => (2000, 4000, 12_000),
            Recipe::Pure16 => (2000, 2000, 4000),
            Recipe::Mixed8bit => (2000, 4000, 6030),
        };
        PerParameter { weights, gradients, optimizer }
    }

    /// Thousandths of a byte for each parameter that is not trained, where adapters are.
    fn frozen(self) -> Option<(u64, u64)> {
        match self {
            Recipe::Lora(rank) => Some((2000, rank)),
            Recipe::Qlora(rank) => Some((516, rank)),
            _ => None,
        }
    }
}

/// So many parameters at so many thousandths of a byte, at most `u64::MAX`.
pub fn bytes(parameters: u64, thousandths: u64) -> u64 {
    let product = u128::from(parameters).saturating_mul(u128::from(thousandths)) / 1000;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// Parameters of adapters of this rank on all matrices of the layers: rank × (in + out) each.
pub fn adapter_parameters(shape: &ModelShape, rank: u64) -> u64 {
    let matrices = shape.tensors.iter().filter(|tensor| {
        tensor.name.starts_with("blk.") || tensor.name.contains("layers.") && !tensor.name.contains("norm")
    });
    matrices.fold(0, |sum, tensor| match tensor.dims.as_slice() {
        [a, b] => sum.saturating_add(a.saturating_add(*b).saturating_mul(rank)),
        _ => sum,
    })
}

/// Bytes on each of `devices` for mixed-precision Adam by the ZeRO paper's stages 0 to 3, K = 12.
pub fn zero_stage(parameters: u64, devices: u64, stage: u8) -> u64 {
    let shared = |thousandths: u64| bytes(parameters, thousandths).checked_div(devices.max(1)).unwrap_or(0);
    match stage {
        0 => bytes(parameters, 16_000),
        1 => bytes(parameters, 4000).saturating_add(shared(12_000)),
        2 => bytes(parameters, 2000).saturating_add(shared(14_000)),
        _ => shared(16_000),
    }
}

/// Where DeepSpeed's ZeRO-3 keeps things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// All on the cards.
    Nothing,
    /// Optimizer states on the host.
    Optimizer,
    /// Optimizer states and parameters on the host.
    Parameters,
}

/// DeepSpeed's own estimate for ZeRO-3 on one node: bytes on each card and on the host, with parameters made where
/// they belong. `largest` is the largest layer's parameters.
pub fn zero3_estimate(parameters: u64, largest: u64, cards: u64, offload: Offload) -> (u64, u64) {
    let layer = largest.saturating_mul(4);
    let shared = |each: u64| parameters.saturating_mul(each).checked_div(cards.max(1)).unwrap_or(0);
    let buffered = |bytes: u64| bytes.saturating_mul(3) / 2;
    match offload {
        Offload::Nothing => (layer.saturating_add(shared(18)), buffered(layer.saturating_mul(cards))),
        Offload::Optimizer => (layer.saturating_add(shared(2)), buffered(parameters.saturating_mul(16))),
        Offload::Parameters => (layer, buffered(parameters.saturating_mul(18))),
    }
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Sequences at once on one card.
    pub batch: u64,
    /// Tokens of one.
    pub length: u64,
    /// Whether layers are computed again instead of kept.
    pub checkpointing: bool,
    /// Whether the scores are never stored.
    pub flash_attention: bool,
}

/// Activations and logits of a step in half precision. About, 30 % either way.
pub fn activations(shape: &ModelShape, step: &Step) -> u64 {
    let tokens = u128::from(step.batch).saturating_mul(u128::from(step.length));
    let layers = u128::from(shape.layer_count());
    let states = tokens.saturating_mul(u128::from(shape.embedding));
    let scores = if step.flash_attention {
        0
    } else {
        tokens.saturating_mul(u128::from(step.length)).saturating_mul(u128::from(shape.heads)).saturating_mul(5)
    };
    let layer = states.saturating_mul(34).saturating_add(scores);
    let kept = if step.checkpointing {
        states.saturating_mul(2).saturating_mul(layers).saturating_add(layer)
    } else {
        layer.saturating_mul(layers)
    };
    // Logits in half precision, and again in f32 for the loss and its gradient.
    let logits = tokens.saturating_mul(u128::from(shape.vocab)).saturating_mul(2 + 4 + 4);
    u64::try_from(kept.saturating_add(logits)).unwrap_or(u64::MAX)
}

/// What training takes on one card without sharing. States are exact for the recipe, activations about.
pub fn estimate(shape: &ModelShape, recipe: Recipe, step: &Step) -> Estimate {
    let each = recipe.trained();
    let known = shape.parameters.ok_or_else(|| "the number of parameters is not known".to_owned());
    let adapters = recipe.frozen().map(|(_, rank)| adapter_parameters(shape, rank));
    let part = |thousandths: u64| {
        let trained = known.clone().map(|all| adapters.unwrap_or(all));
        Part::of(trained.map(|count| bytes(count, thousandths)), Is::About)
    };
    let weights = known.clone().map(|all| match (recipe.frozen(), adapters) {
        (Some((frozen, _)), Some(count)) => bytes(all, frozen).saturating_add(bytes(count, each.weights)),
        _ => bytes(all, each.weights),
    });
    Estimate {
        weights: Part::of(weights, Is::About),
        weights_in_file: Part::of(
            shape.weights.as_ref().map(super::weights::WeightSums::in_file).map_err(Clone::clone),
            shape.weights_are,
        ),
        weights_on_host: Part::fact(0),
        kv_cache: Part::fact(0),
        kv_split: None,
        projector: Part::fact(0),
        recurrent: Part::fact(0),
        compute: Part::about(activations(shape, step)),
        gradients: part(each.gradients),
        optimizer: part(each.optimizer),
        overhead: Part::about(CONTEXT_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example_comes_out() {
        // 7.5 billion on 64 cards: 120, 31.4, 16.6 and 1.9 GB.
        let sizes = [0, 1, 2, 3].map(|stage| zero_stage(7_500_000_000, 64, stage) / 10_000_000);
        assert_eq!(sizes, [12_000, 3140, 1664, 187]);
    }

    #[test]
    fn recipes_take_what_their_makers_say() {
        let all = |recipe: Recipe| {
            let each = recipe.trained();
            each.weights + each.gradients + each.optimizer
        };
        assert_eq!([Recipe::Full32, Recipe::Mixed, Recipe::Pure16].map(all), [16_000, 18_000, 8000]);
        assert_eq!(bytes(u64::MAX, 18_000), u64::MAX);
        // t5-small on one card: 1.08 and 0.09 GiB.
        let (card, host) = zero3_estimate(60_506_624, 16_449_536, 1, Offload::Nothing);
        assert_eq!((card, host), (1_154_917_376, 98_697_216));
    }
}
