//! Owns which of an engine's settings a person can turn while they look at the sum, in which steps, and how each reads:
//! every one is a number on a ladder. Knows nothing of keys or of the screen.

use super::engine::Engine;
use super::ggml::GgmlType;
use super::inference::{Dtype, Generating};
use super::options::tokens_in_words;
use super::training::{Optimizer, Recipe, Sharing, Step, Training};
use super::{ModelShape, Settings, Storage, sglang, vllm};

/// A setting that can be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dial {
    /// Tokens of context: over all slots (llama.cpp), of one request (the others).
    Context,
    /// How many bits a number of the KV cache has.
    Cache,
    /// Layers on the card, the output counts as one.
    Layers,
    /// Layers whose experts stay in system memory; fewer of them take more of the card.
    HostExperts,
    /// Slots, or sequences at once.
    Slots,
    /// vLLM's share of the card, SGLang's of what is free, in thousandths.
    Utilization,
    /// SGLang's tokens of a prefill at once.
    Chunk,
    /// vLLM's CUDA graphs, 0 or 1.
    Graphs,
    /// Bits of a weight while transformers loads them.
    Bits,
    /// What is trained, by its place in `RECIPES`.
    Recipe,
    /// The optimizer, by its place in `OPTIMIZERS`.
    Optimizer,
    /// ZeRO's stage, from 3 down to 0 to the right.
    Stage,
    /// Whether activations are kept, 0 or 1.
    Kept,
}

/// Ways to train, from what takes least to what takes most.
const RECIPES: [(Recipe, &str); 5] = [
    (Recipe::Qlora(16), "QLoRA, rank 16"),
    (Recipe::Lora(16), "LoRA, rank 16"),
    (Recipe::Pure16, "all, bf16 alone"),
    (Recipe::Full32, "all, float32"),
    (Recipe::Mixed, "all, mixed precision"),
];

/// Optimizers, from what takes least to what takes most.
const OPTIMIZERS: [(Optimizer, &str); 4] = [
    (Optimizer::AdamW8bit, "8-bit AdamW"),
    (Optimizer::Adafactor, "Adafactor"),
    (Optimizer::Sgd, "SGD, momentum"),
    (Optimizer::AdamW, "AdamW"),
];

/// The settings of this engine that change what this model takes.
pub(crate) fn of(engine: &Engine, shape: &ModelShape) -> Vec<Dial> {
    let attends = shape.layers.iter().flatten().any(|layer| layer.cache.is_some());
    match engine {
        Engine::LlamaCpp(_) | Engine::Ollama(_) => {
            let mut dials = vec![Dial::Context];
            dials.extend(attends.then_some(Dial::Cache));
            dials.push(Dial::Layers);
            dials.extend((shape.experts > 0).then_some(Dial::HostExperts));
            dials.push(Dial::Slots);
            dials
        }
        Engine::Vllm(_) => vec![Dial::Context, Dial::Cache, Dial::Utilization, Dial::Graphs],
        Engine::Sglang(_) => vec![Dial::Context, Dial::Cache, Dial::Utilization, Dial::Chunk],
        Engine::Transformers(_) if shape.storage == Storage::Quantised => vec![Dial::Context, Dial::Slots],
        Engine::Transformers(_) => vec![Dial::Context, Dial::Bits, Dial::Slots],
        Engine::Train(training) => {
            let mut dials = vec![Dial::Recipe, Dial::Optimizer, Dial::Context, Dial::Slots, Dial::Kept];
            dials.extend((training.sharing.cards > 1).then_some(Dial::Stage));
            dials
        }
    }
}

/// Slots that share out the context which is set for each of them alone: Ollama multiplies.
fn shared(engine: &Engine) -> u64 {
    if let Engine::Ollama(settings) = engine { settings.parallel.max(1) } else { 1 }
}

fn bits(kind: GgmlType) -> u64 {
    kind.row_bytes(256).map_or(16, |bytes| bytes / 32)
}

fn kind_of(bits: u64) -> GgmlType {
    match bits {
        ..8 => GgmlType::Q4_0,
        8 => GgmlType::Q8_0,
        _ => GgmlType::F16,
    }
}

impl Dial {
    /// Its name on the screen.
    pub(crate) fn name(self, engine: &Engine) -> &'static str {
        match self {
            Dial::Context if matches!(engine, Engine::Train(_)) => "sequence length",
            Dial::Context => "context",
            Dial::Cache => "KV cache type",
            Dial::Layers => "layers on the card",
            Dial::HostExperts => "experts in RAM",
            Dial::Slots if matches!(engine, Engine::Transformers(_) | Engine::Train(_)) => "sequences at once",
            Dial::Slots => "parallel slots",
            Dial::Utilization if matches!(engine, Engine::Sglang(_)) => "share of free VRAM",
            Dial::Utilization => "share of the card",
            Dial::Chunk => "prefill at once",
            Dial::Optimizer => "optimizer",
            Dial::Stage => "ZeRO stage",
            Dial::Graphs => "CUDA graphs",
            Dial::Bits => "weights in",
            Dial::Recipe => "what is trained",
            Dial::Kept => "activations",
        }
    }

    fn get(self, engine: &Engine, shape: &ModelShape) -> u64 {
        match (self, engine) {
            (Dial::Context, _) => engine.context(shape).unwrap_or(0).checked_div(shared(engine)).unwrap_or(0),
            (Dial::Cache, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => bits(settings.k_type),
            (Dial::Cache, Engine::Vllm(serving)) => serving.kv_half_bytes.saturating_mul(4),
            (Dial::Cache, Engine::Sglang(serving)) => serving.kv_half_bytes.saturating_mul(4),
            (Dial::Utilization, Engine::Sglang(serving)) => serving.fraction,
            (Dial::Chunk, Engine::Sglang(serving)) => serving.chunk,
            (Dial::Optimizer, Engine::Train(training)) => {
                OPTIMIZERS.iter().position(|(known, _)| *known == training.optimizer).unwrap_or(0) as u64
            }
            (Dial::Stage, Engine::Train(training)) => 3_u64.saturating_sub(training.sharing.stage.into()),
            (Dial::Layers, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => {
                let all = units(shape);
                settings.gpu_layers.map_or(all, |layers| layers.min(all))
            }
            (Dial::HostExperts, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => {
                settings.host_experts.min(shape.layer_count())
            }
            (Dial::Slots, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => settings.parallel,
            (Dial::Slots, Engine::Transformers(generating)) => generating.batch,
            (Dial::Slots, Engine::Train(training)) => training.step.batch,
            (Dial::Utilization, Engine::Vllm(serving)) => serving.utilization,
            (Dial::Graphs, Engine::Vllm(serving)) => u64::from(!serving.eager),
            (Dial::Bits, Engine::Transformers(generating)) => match generating.dtype {
                Dtype::Nf4 => 4,
                Dtype::Int8 => 8,
                Dtype::Half | Dtype::Checkpoint => 16,
                Dtype::Float32 => 32,
            },
            (Dial::Recipe, Engine::Train(training)) => {
                let kind = std::mem::discriminant(&training.recipe);
                let same = |known: &(Recipe, &str)| std::mem::discriminant(&known.0) == kind;
                RECIPES.iter().position(same).unwrap_or(0) as u64
            }
            (Dial::Kept, Engine::Train(training)) => u64::from(!training.step.checkpointing),
            _ => 0,
        }
    }

    /// The engine with the dial at this place.
    fn set(self, engine: Engine, shape: &ModelShape, to: u64) -> Engine {
        let llama = |settings: Settings| match engine {
            Engine::Ollama(_) => Engine::Ollama(settings),
            _ => Engine::LlamaCpp(settings),
        };
        match (self, engine) {
            (Dial::Context, _) => engine.with_context(to.saturating_mul(shared(&engine))),
            (Dial::Cache, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => {
                let kind = kind_of(to);
                // A quantised V is refused without flash attention.
                let flash_attention = settings.flash_attention || kind.is_quantised();
                llama(Settings { k_type: kind, v_type: kind, flash_attention, ..settings })
            }
            (Dial::Cache, Engine::Vllm(serving)) => Engine::Vllm(vllm::Serving { kv_half_bytes: to / 4, ..serving }),
            (Dial::Layers, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => {
                llama(Settings { gpu_layers: Some(to).filter(|to| *to < units(shape)), ..settings })
            }
            (Dial::HostExperts, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => {
                llama(Settings { host_experts: to, ..settings })
            }
            (Dial::Slots, Engine::LlamaCpp(settings)) => llama(Settings { parallel: to, ..settings }),
            (Dial::Slots, Engine::Ollama(settings)) => {
                let each = settings.context.and_then(|context| context.checked_div(settings.parallel.max(1)));
                let context = each.map(|each| each.saturating_mul(to));
                llama(Settings { parallel: to, context, ..settings })
            }
            (Dial::Slots, Engine::Transformers(generating)) => {
                Engine::Transformers(Generating { batch: to, ..generating })
            }
            (Dial::Slots, Engine::Train(training)) => {
                Engine::Train(Training { step: Step { batch: to, ..training.step }, ..training })
            }
            (Dial::Cache, Engine::Sglang(serving)) => {
                Engine::Sglang(sglang::Serving { kv_half_bytes: to / 4, ..serving })
            }
            (Dial::Utilization, Engine::Sglang(serving)) => Engine::Sglang(sglang::Serving { fraction: to, ..serving }),
            (Dial::Chunk, Engine::Sglang(serving)) => Engine::Sglang(sglang::Serving { chunk: to, ..serving }),
            (Dial::Optimizer, Engine::Train(training)) => {
                let at = usize::try_from(to).ok().and_then(|at| OPTIMIZERS.get(at));
                let optimizer = at.map_or(training.optimizer, |(optimizer, _)| *optimizer);
                Engine::Train(Training { optimizer, ..training })
            }
            (Dial::Stage, Engine::Train(training)) => {
                let stage = u8::try_from(3_u64.saturating_sub(to)).unwrap_or(0);
                Engine::Train(Training { sharing: Sharing { stage, ..training.sharing }, ..training })
            }
            (Dial::Utilization, Engine::Vllm(serving)) => Engine::Vllm(vllm::Serving { utilization: to, ..serving }),
            (Dial::Graphs, Engine::Vllm(serving)) => Engine::Vllm(vllm::Serving { eager: to == 0, ..serving }),
            (Dial::Bits, Engine::Transformers(generating)) => {
                let dtype = match to {
                    ..8 => Dtype::Nf4,
                    8 => Dtype::Int8,
                    16 => Dtype::Half,
                    _ => Dtype::Float32,
                };
                Engine::Transformers(Generating { dtype, ..generating })
            }
            (Dial::Recipe, Engine::Train(training)) => {
                let at = usize::try_from(to).ok().and_then(|at| RECIPES.get(at));
                Engine::Train(Training { recipe: at.map_or(training.recipe, |(recipe, _)| *recipe), ..training })
            }
            (Dial::Kept, Engine::Train(training)) => {
                Engine::Train(Training { step: Step { checkpointing: to == 0, ..training.step }, ..training })
            }
            _ => engine,
        }
    }

    /// The places it can have, in order.
    fn ladder(self, engine: &Engine, shape: &ModelShape) -> Vec<u64> {
        match self {
            Dial::Context => {
                let most = shape.context_trained.unwrap_or(1 << 20).clamp(512, 1 << 24);
                let powers = (9..24).map(|power| 1_u64 << power);
                let between = powers.clone().map(|tokens| tokens / 2 * 3).filter(|tokens| *tokens >= 6144);
                let mut ladder: Vec<u64> = powers.chain(between).filter(|tokens| *tokens < most).collect();
                ladder.push(most);
                ladder.sort_unstable();
                ladder
            }
            Dial::Cache if matches!(engine, Engine::Vllm(_) | Engine::Sglang(_)) => vec![8, 16],
            Dial::Chunk => vec![512, 1024, 2048, 4096, 8192, 16_384],
            Dial::Optimizer => (0..OPTIMIZERS.len() as u64).collect(),
            Dial::Stage => vec![0, 1, 2, 3],
            Dial::Cache => vec![4, 8, 16],
            Dial::Layers => (0..=units(shape)).collect(),
            Dial::HostExperts => (0..=shape.layer_count()).collect(),
            Dial::Slots => vec![1, 2, 4, 8, 16, 32, 64],
            Dial::Utilization => (10..=49).map(|step| step * 20).collect(),
            Dial::Graphs | Dial::Kept => vec![0, 1],
            Dial::Bits => vec![4, 8, 16, 32],
            Dial::Recipe => (0..RECIPES.len() as u64).collect(),
        }
    }

    /// The engine with the dial turned by so many steps; as it is at the ladder's end.
    #[must_use]
    pub(crate) fn turned(self, engine: Engine, shape: &ModelShape, by: i32) -> Engine {
        let (here, ladder) = (self.get(&engine, shape), self.ladder(&engine, shape));
        let steps = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX).max(1);
        let next = if by > 0 {
            let above: Vec<u64> = ladder.into_iter().filter(|place| *place > here).collect();
            above.get((steps - 1).min(above.len().saturating_sub(1))).copied()
        } else {
            let below: Vec<u64> = ladder.into_iter().rev().filter(|place| *place < here).collect();
            below.get((steps - 1).min(below.len().saturating_sub(1))).copied()
        };
        next.map_or(engine, |place| self.set(engine, shape, place))
    }

    /// Whether there is a place below and one above.
    pub(crate) fn room(self, engine: &Engine, shape: &ModelShape) -> (bool, bool) {
        let (here, ladder) = (self.get(engine, shape), self.ladder(engine, shape));
        (ladder.iter().any(|place| *place < here), ladder.iter().any(|place| *place > here))
    }

    /// Its place in words.
    pub(crate) fn value(self, engine: &Engine, shape: &ModelShape) -> String {
        let here = self.get(engine, shape);
        match (self, engine) {
            (Dial::Context, _) => tokens_in_words(here),
            (Dial::Cache, Engine::LlamaCpp(settings) | Engine::Ollama(settings)) => {
                let (k, v) = (settings.k_type.name, settings.v_type.name);
                if k == v { k.to_owned() } else { format!("{k}, V {v}") }
            }
            (Dial::Cache, _) => if here == 8 { "fp8" } else { "auto" }.into(),
            (Dial::Layers, _) => format!("{here} of {}", units(shape)),
            (Dial::HostExperts, _) if here == 0 => "none".into(),
            (Dial::HostExperts, _) => format!("{} of {} layers", here.min(shape.layer_count()), shape.layer_count()),
            (Dial::Utilization, _) => {
                let shown = format!("{}.{:03}", here / 1000, here % 1000);
                shown.strip_suffix('0').unwrap_or(&shown).to_owned()
            }
            (Dial::Graphs, _) => if here == 0 { "off" } else { "on" }.into(),
            (Dial::Optimizer, _) => {
                usize::try_from(here).ok().and_then(|at| OPTIMIZERS.get(at)).map_or("?", |(_, words)| words).into()
            }
            (Dial::Stage, _) => match 3_u64.saturating_sub(here) {
                0 => "0: nothing shared".into(),
                1 => "1: optimizer".into(),
                2 => "2: and gradients".into(),
                _ => "3: and weights".into(),
            },
            (Dial::Chunk, _) => tokens_in_words(here),
            (Dial::Bits, Engine::Transformers(generating)) => match generating.dtype {
                Dtype::Checkpoint => "as the file",
                Dtype::Float32 => "float32",
                Dtype::Half => "bfloat16",
                Dtype::Int8 => "8 bits",
                Dtype::Nf4 => "4 bits (NF4)",
            }
            .into(),
            (Dial::Recipe, _) => {
                usize::try_from(here).ok().and_then(|at| RECIPES.get(at)).map_or("?", |(_, words)| words).into()
            }
            (Dial::Kept, _) => if here == 0 { "computed again" } else { "kept" }.into(),
            _ => here.to_string(),
        }
    }
}

/// Layers with the output as one.
fn units(shape: &ModelShape) -> u64 {
    shape.layer_count().saturating_add(1)
}

#[cfg(test)]
mod tests;
