//! Owns what training takes: parameters, gradients and optimizer states by precision, LoRA and QLoRA, ZeRO's stages,
//! and activations. States are exact for the recipe they name; activations are within 30 %
//! until measured. Sources: arXiv:1910.02054, arXiv:2205.05198, DeepSpeed 0.19.8, transformers 5.23.0, read on
//! 2026-11-20. Bytes; per parameter in thousandths of a byte. Knows nothing of this machine.

use super::estimate::{CONTEXT_BYTES, Estimate, Part};
use super::inference::{self, Dtype};
use super::shape::{Is, ModelShape};

/// What is trained, and in which precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    Full32,
    /// Mixed precision: 2 bytes for weights, 4 for gradients, 4 for the f32 copy.
    Mixed,
    Pure16,
    /// Weights of 2 bytes as they are, adapters of this rank in f32: peft keeps no other copy of them.
    Lora(u64),
    /// Weights in NF4 with double quantisation, adapters of this rank in f32.
    Qlora(u64),
}

/// The optimizer, as a command line names it; what its states take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Optimizer {
    /// Two states of 4 bytes per parameter.
    #[default]
    #[value(name = "adamw")]
    AdamW,
    /// Two states of 1 byte per parameter.
    #[value(name = "adamw8bit")]
    AdamW8bit,
    /// About one state per parameter.
    Adafactor,
    /// One state per parameter, with momentum.
    Sgd,
}

impl Optimizer {
    /// Thousandths of a byte that its states take for each parameter, in half precision or in full.
    fn states(self, is_half: bool) -> u64 {
        match (self, is_half) {
            (Optimizer::AdamW, false) => 8000,
            (Optimizer::AdamW8bit, _) => 2030,
            (Optimizer::AdamW, true) | (Optimizer::Adafactor | Optimizer::Sgd, false) => 4000,
            (Optimizer::Adafactor | Optimizer::Sgd, true) => 2000,
        }
    }
}

/// How the GPUs share what is kept of the training (ZeRO's stages; FSDP's FULL_SHARD is 3, SHARD_GRAD_OP is 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// 0: nothing; 1: optimizer states; 2: and gradients; 3: and weights.
    pub stage: u8,
    /// Cards, at least 1.
    pub cards: u64,
    /// Whether the optimizer's states are in system memory.
    pub offload: bool,
    /// Whether PyTorch's FSDP does it, rather than DeepSpeed.
    pub fsdp: bool,
}

impl Sharing {
    /// What one GPU has of something that is shared from this stage on.
    fn own(&self, bytes: u64, from: u8) -> u64 {
        if self.stage >= from { bytes.div_ceil(self.cards.max(1)) } else { bytes }
    }
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing { stage: 0, cards: 1, offload: false, fsdp: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    pub recipe: Recipe,
    pub optimizer: Optimizer,
    /// Over how many GPUs, and how.
    pub sharing: Sharing,
    /// What a step computes.
    pub step: Step,
}

/// Thousandths of a byte for each parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerParameter {
    /// Weights that are computed with.
    pub weights: u64,
    pub gradients: u64,
    /// Optimizer states and master copies.
    pub optimizer: u64,
}

impl Recipe {
    /// Whether only adapters are trained.
    pub fn is_adapter(self) -> bool {
        matches!(self, Recipe::Lora(_) | Recipe::Qlora(_))
    }

    /// For each trained parameter.
    pub fn trained(self, optimizer: Optimizer) -> PerParameter {
        let states = optimizer.states(self == Recipe::Pure16);
        let (weights, gradients, optimizer) = match self {
            Recipe::Full32 | Recipe::Lora(_) | Recipe::Qlora(_) => (4000, 4000, states),
            Recipe::Mixed => (2000, 4000, 4000 + states),
            Recipe::Pure16 => (2000, 2000, states),
        };
        PerParameter { weights, gradients, optimizer }
    }

    /// How the weights are held that are not trained, and the adapters' rank, where only those are.
    fn frozen(self) -> Option<(Dtype, u64)> {
        match self {
            Recipe::Lora(rank) => Some((Dtype::Half, rank)),
            Recipe::Qlora(rank) => Some((Dtype::Nf4, rank)),
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

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Sequences at once on one GPU.
    pub batch: u64,
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

/// What training takes on one GPU. States are exact for the recipe, activations about.
pub fn estimate(shape: &ModelShape, training: &Training) -> Estimate {
    let Training { recipe, optimizer, sharing, step } = training;
    let mut each = recipe.trained(*optimizer);
    if sharing.stage > 0 && each.gradients > each.weights {
        // Those who share keep gradients as wide as the weights.
        each.gradients = each.weights;
    }
    let all = shape.parameters.ok_or_else(|| "the number of parameters is not known".to_owned());
    let adapters = recipe.frozen().map(|(_, rank)| adapter_parameters(shape, rank));
    let trained = all.clone().map(|all| adapters.unwrap_or(all));
    let weights = match (recipe.frozen(), adapters) {
        (Some((frozen, _)), Some(count)) => {
            inference::weight_bytes(shape, frozen).map(|below| below.saturating_add(bytes(count, each.weights)))
        }
        _ => all.map(|all| bytes(all, each.weights)),
    };
    let computed = recipe.frozen().and_then(|(frozen, _)| frozen.thousandths()).map_or(each.weights, |wide| wide.0);
    // DeepSpeed keeps gradients and f32 weights on the host beside the states, and half as much again for buffers.
    let on_host = trained.clone().map(|count| {
        if sharing.offload { bytes(count, sharing.cards.saturating_mul(4).max(16).saturating_mul(1500)) } else { 0 }
    });
    let states = trained.clone().map(|count| sharing.own(bytes(count, each.optimizer), 1));
    // Where weights are shared, a whole layer is gathered while it is computed, and the next one with it.
    let gathered = if sharing.stage >= 3 && sharing.cards > 1 { bytes(largest_layer(shape), 2 * computed) } else { 0 };
    let in_file = shape.weights_in_file();
    Estimate {
        weights: Part::of(weights.map(|whole| sharing.own(whole, 3)), Is::About),
        weights_in_file: Part::of(in_file, shape.weights_are),
        weights_on_host: Part::of(on_host, Is::About),
        compute: Part::about(activations(shape, step).saturating_add(gathered)),
        gradients: Part::of(trained.map(|count| sharing.own(bytes(count, each.gradients), 2)), Is::About),
        optimizer: if sharing.offload { Part::about(0) } else { Part::of(states, Is::About) },
        overhead: Part::about(CONTEXT_BYTES),
        ..Estimate::default()
    }
}

/// Parameters of the largest part that is gathered at once, about: a layer, or the output matrix.
fn largest_layer(shape: &ModelShape) -> u64 {
    let layer = shape.parameters.unwrap_or(0).checked_div(shape.layer_count().max(1)).unwrap_or(0);
    layer.max(shape.embedding.saturating_mul(shape.vocab))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::table;

    /// Bytes on each of `devices` for mixed-precision Adam by the ZeRO paper's stages 0 to 3, K = 12.
    fn zero_stage(parameters: u64, devices: u64, stage: u8) -> u64 {
        let (own, shared) = match stage {
            0 => (16_000, 0),
            1 => (4000, 12_000),
            2 => (2000, 14_000),
            _ => (0, 16_000),
        };
        let shared = bytes(parameters, shared).checked_div(devices.max(1)).unwrap_or(0);
        bytes(parameters, own).saturating_add(shared)
    }

    /// Where DeepSpeed's ZeRO-3 keeps things.
    #[derive(Clone, Copy)]
    enum Offload {
        /// All on the GPUs.
        Nothing,
        /// Optimizer states on the host.
        Optimizer,
        /// Optimizer states and parameters on the host.
        Parameters,
    }

    /// DeepSpeed's own estimate for ZeRO-3 on one node: bytes on each GPU and on the host, with parameters made where
    /// they belong. `largest` is the largest layer's parameters.
    fn zero3_estimate(parameters: u64, largest: u64, cards: u64, offload: Offload) -> (u64, u64) {
        let layer = largest.saturating_mul(4);
        let (shared, on_host) = match offload {
            Offload::Nothing => (18, layer.saturating_mul(cards)),
            Offload::Optimizer => (2, parameters.saturating_mul(16)),
            Offload::Parameters => (0, parameters.saturating_mul(18)),
        };
        let shared = parameters.saturating_mul(shared).checked_div(cards.max(1)).unwrap_or(0);
        (layer.saturating_add(shared), on_host.saturating_mul(3) / 2)
    }

    #[test]
    fn stages_share_what_the_paper_says_they_do() {
        let llama = table::shape(&table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap(), "BF16");
        let count = llama.parameters.unwrap();
        let step = Step { batch: 1, length: 2048, checkpointing: true, flash_attention: true };
        for stage in 0..=3 {
            let sharing = Sharing { stage, cards: 8, offload: false, fsdp: false };
            let taken =
                estimate(&llama, &Training { recipe: Recipe::Mixed, optimizer: Optimizer::AdamW, sharing, step });
            let states = [&taken.weights, &taken.gradients, &taken.optimizer].map(|part| part.bytes.unwrap().0);
            // Without sharing, PyTorch keeps gradients of four bytes.
            let more = if stage == 0 { 2 * count } else { 0 };
            let paper = zero_stage(count, 8, stage) + more;
            assert!(states.iter().sum::<u64>().abs_diff(paper) < 16, "{stage}");
        }
        let sharing = Sharing { stage: 2, cards: 8, offload: true, fsdp: false };
        let away = Training { recipe: Recipe::Mixed, optimizer: Optimizer::AdamW, sharing, step };
        assert_eq!(estimate(&llama, &away).optimizer.bytes.unwrap().0, 0);
    }

    #[test]
    fn the_papers_example_comes_out() {
        // 7.5 billion on 64 cards: 120, 31.4, 16.6 and 1.9 GB.
        let sizes = [0, 1, 2, 3].map(|stage| zero_stage(7_500_000_000, 64, stage) / 10_000_000);
        assert_eq!(sizes, [12_000, 3140, 1664, 187]);
    }

    #[test]
    fn adapters_lie_over_weights_as_they_are_loaded() {
        let llama = table::shape(&table::find(table::rows().unwrap(), "llama-3.1-8b").unwrap(), "BF16");
        let step = Step { batch: 1, length: 1024, checkpointing: true, flash_attention: true };
        let (optimizer, sharing) = (Optimizer::AdamW, Sharing::default());
        let taken = |recipe| estimate(&llama, &Training { recipe, optimizer, sharing, step });
        let bytes = |part: &Part| part.bytes.unwrap().0;
        let qlora = taken(Recipe::Qlora(16));
        let adapters = adapter_parameters(&llama, 16);
        assert_eq!(adapters, 41_943_040, "as peft prints it for all linear layers");
        let nf4 = inference::weight_bytes(&llama, Dtype::Nf4).unwrap();
        assert_eq!(bytes(&qlora.weights), nf4 + adapters * 4, "embeddings and output stay in two bytes");
        // f32 without another copy: 4 of gradients and 8 of states.
        assert_eq!([&qlora.gradients, &qlora.optimizer].map(bytes), [adapters * 4, adapters * 8]);
        let awq = ModelShape { storage: crate::memory::Storage::Quantised, ..llama.clone() };
        let over = estimate(&awq, &Training { recipe: Recipe::Lora(16), optimizer, sharing, step });
        assert_eq!(bytes(&over.weights), awq.checkpoint().unwrap() + adapters * 4);
    }

    #[test]
    fn recipes_take_what_their_makers_say() {
        let all = |recipe: Recipe| {
            let each = recipe.trained(Optimizer::AdamW);
            each.weights + each.gradients + each.optimizer
        };
        assert_eq!([Recipe::Full32, Recipe::Mixed, Recipe::Pure16].map(all), [16_000, 18_000, 8000]);
        let small = Recipe::Mixed.trained(Optimizer::AdamW8bit);
        assert_eq!(small.weights + small.gradients + small.optimizer, 12_030);
        assert_eq!(bytes(u64::MAX, 18_000), u64::MAX);
        // t5-small on one GPU: 1.08 and 0.09 GiB.
        let (card, host) = zero3_estimate(60_506_624, 16_449_536, 1, Offload::Nothing);
        assert_eq!((card, host), (1_154_917_376, 98_697_216));
        for offload in [Offload::Optimizer, Offload::Parameters] {
            let (card, host) = zero3_estimate(60_506_624, 16_449_536, 1, offload);
            assert!(card < 1_154_917_376 && host > 98_697_216);
        }
    }
}
