//! Owns the JSON of `oomdoctor fit`: its types, filled from the answer. Their documentation is what
//! `oomdoctor schema fit` prints, so it gives units and the meaning of null. Knows nothing of how figures are made.

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::answer::Held;
use super::command::command;
use super::notes;
use super::notes::earlier_compute;
use super::words::sentence;
use crate::gpu::SCHEMA;
use crate::gpu::activity::ActivityWord;
use crate::memory::split::Share;
use crate::memory::{Card, Choice, Estimate, Part};
use crate::units::Bytes;

/// What `oomdoctor fit MODEL --json` prints: whether a model fits in VRAM, and what would make it fit.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::cli) enum Fit {
    Model(Box<ModelFit>),
    ImageModel(ImageModelFit),
}

/// The answer for a model that generates images or video, whose memory depends on the picture.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli) struct ImageModelFit {
    /// The model as it was named on the command line.
    pub(super) model: String,
    /// Always null: how much memory it works in is unknown.
    pub(super) fits: Option<bool>,
    /// The sizes of its weights, and why it is unknown whether it fits.
    pub(super) why_not_known: String,
}

/// The answer for a model that generates text, or for a training run.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli) struct ModelFit {
    /// The version of this format.
    schema: u32,
    model: Model,
    /// The program that runs the model.
    engine: &'static str,
    /// The context length in tokens; null where neither the command line nor the model gives one.
    context: Option<u64>,
    /// All weights, as the file has them.
    weights: Weights,
    kv_cache: KvCache,
    /// The state of recurrent layers, in VRAM.
    recurrent_state: Part,
    /// The image encoder, in VRAM.
    image_encoder: Part,
    gradients: Part,
    /// The optimizer's state when training.
    optimizer: Part,
    compute: Compute,
    /// The driver's context and a margin for what is only estimated.
    overhead: Part,
    /// VRAM needed in bytes; null where a part is unknown.
    total_bytes: Option<Bytes>,
    /// The driver's index of the GPU that it was compared with; null without one.
    gpu: Option<u32>,
    /// VRAM that is free on that GPU, in bytes; null without one.
    free_now_bytes: Option<Bytes>,
    /// Each GPU's share of a model that is split over several; null where it is not split.
    cards: Option<Vec<CardShare>>,
    /// VRAM that would be free once all `holders` ended, in bytes; null where there are none.
    free_after_bytes: Option<Bytes>,
    /// Processes of this user that could be ended to free VRAM.
    holders: Vec<FitHolder>,
    /// That GPU's VRAM in bytes; null without one.
    card_bytes: Option<Bytes>,
    /// Whether the model fits in what is free now; null where that is unknown.
    fits: Option<bool>,
    /// Why that is unknown; null where it is known.
    why_not_known: Option<String>,
    /// The answer in one sentence.
    answer: String,
    /// The command line that runs the model so that it fits; null where there is none.
    command: Option<String>,
    /// The first of `notes`; null where there are none.
    note: Option<String>,
    /// What was assumed, and what else matters.
    notes: Vec<String>,
    /// Changes that were tried, the cheapest first.
    options: Vec<Choice>,
}

#[derive(Serialize, JsonSchema)]
struct Model {
    /// As asked for, or the name in the file.
    name: String,
    /// Its file or folder; null for a name from the table of models.
    file: Option<String>,
    /// The architecture as GGUF names it, such as `qwen3moe`.
    architecture: String,
    /// The number of parameters; null where it is unknown.
    parameters: Option<u64>,
    /// Such as `Q4_K_M` or `awq`; null where it is not quantized or that is unknown.
    quantization: Option<String>,
    /// The number of layers; null where it is unknown.
    layers: Option<u64>,
    /// The context length in tokens that it was trained for; null where it is unknown.
    context_trained: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Weights {
    #[serde(flatten)]
    part: Part,
    /// Of these in VRAM, in bytes; null where it is unknown.
    gpu_bytes: Option<Bytes>,
    /// Of these in system memory, in bytes; null where it is unknown.
    host_bytes: Option<Bytes>,
}

#[derive(Serialize, JsonSchema)]
struct KvCache {
    #[serde(flatten)]
    part: Part,
    /// Of these in VRAM, in bytes; null where it is unknown.
    gpu_bytes: Option<Bytes>,
    /// The cache of layers that attend to the whole context, in bytes; null where it is unknown.
    full_bytes: Option<Bytes>,
    /// The cache of layers with a sliding window, in bytes; null where it is unknown.
    window_bytes: Option<Bytes>,
}

/// Compute buffers and activations.
#[derive(Serialize, JsonSchema)]
struct Compute {
    #[serde(flatten)]
    part: Part,
    /// The same with llama.cpp builds before June 2026, in bytes; null for other engines.
    earlier_builds_bytes: Option<Bytes>,
}

/// One GPU of a split.
#[derive(Serialize, JsonSchema)]
struct CardShare {
    /// The driver's index.
    gpu: u32,
    #[serde(flatten)]
    share: Share,
    total_bytes: Bytes,
    free_now_bytes: Bytes,
    /// VRAM that would be free once all `holders` on it ended, in bytes; null where there are none.
    free_after_bytes: Option<Bytes>,
    /// Whether its share fits in what is free now.
    fits: bool,
}

/// A process that could be ended to free VRAM.
#[derive(Serialize, JsonSchema)]
struct FitHolder {
    pid: u32,
    /// Field 22 of /proc/PID/stat; with the PID it names the process until the next boot.
    start_ticks: u64,
    /// What people call it.
    name: String,
    /// VRAM that it uses on this GPU, in bytes.
    bytes: Bytes,
    /// The driver's index of the GPU.
    gpu: u32,
    /// The gentlest known command that frees it.
    command: String,
    activity: ActivityWord,
    /// Whether the model fits once this process and the others marked so ended.
    in_the_way: bool,
}

impl ModelFit {
    pub(super) fn of(answer: &Answer) -> ModelFit {
        let (shape, estimate) = (&answer.located.shape, answer.estimate.clone());
        let (card, notes) = (answer.card.as_ref(), notes::of(answer));
        ModelFit {
            schema: SCHEMA,
            model: Model {
                name: answer.name(),
                file: answer.located.file.as_ref().map(|file| file.to_string_lossy().into_owned()),
                architecture: shape.architecture.clone(),
                parameters: shape.parameters,
                quantization: shape.quantization.clone(),
                layers: Some(shape.layer_count()).filter(|count| *count > 0),
                context_trained: shape.context_trained,
            },
            engine: answer.engine.name(),
            context: answer.engine.context(shape),
            total_bytes: estimate.total(),
            kv_cache: KvCache::of(&estimate),
            weights: Weights {
                part: estimate.weights_in_file,
                gpu_bytes: estimate.weights.bytes,
                host_bytes: estimate.weights_on_host.bytes,
            },
            recurrent_state: estimate.recurrent,
            image_encoder: estimate.projector,
            gradients: estimate.gradients,
            optimizer: estimate.optimizer,
            compute: Compute { part: estimate.compute, earlier_builds_bytes: earlier_compute(&answer.engine, shape) },
            overhead: estimate.overhead,
            gpu: card.map(|card| card.index),
            free_now_bytes: card.map(|card| card.free),
            cards: answer.spread.as_ref().map(|spread| {
                spread.cards.iter().map(|(card, share)| CardShare::of(card, share, &answer.held)).collect()
            }),
            free_after_bytes: answer.free_after(),
            holders: holders(answer),
            card_bytes: card.map(|card| card.total),
            fits: answer.fits,
            why_not_known: answer.why_not_known.clone(),
            answer: sentence(answer),
            command: command(answer),
            note: notes.first().cloned(),
            notes,
            options: answer.options.clone(),
        }
    }
}

impl KvCache {
    fn of(estimate: &Estimate) -> KvCache {
        let split = estimate.kv_split;
        let on_gpu = &estimate.kv_cache;
        KvCache {
            part: Part { bytes: split.map(|split| Bytes(split.all())).or(on_gpu.bytes), ..on_gpu.clone() },
            gpu_bytes: on_gpu.bytes,
            full_bytes: split.map(|split| Bytes(split.full)),
            window_bytes: split.map(|split| Bytes(split.windowed)),
        }
    }
}

impl CardShare {
    fn of(card: &Card, share: &Share, held: &[Held]) -> CardShare {
        let held = held.iter().find(|held| held.card.index == card.index && !held.holders.is_empty());
        CardShare {
            gpu: card.index,
            share: *share,
            total_bytes: share.total(),
            free_now_bytes: card.free,
            free_after_bytes: held.map(Held::free_after),
            fits: share.wanted() <= card.free,
        }
    }
}

fn holders(answer: &Answer) -> Vec<FitHolder> {
    let in_the_way = answer.in_the_way();
    let on_each_card = answer.held.iter().flat_map(|held| held.holders.iter().map(|holder| (held.card.index, holder)));
    let holders = on_each_card.map(|(gpu, holder)| FitHolder {
        pid: holder.key.pid,
        start_ticks: holder.key.start_ticks,
        name: holder.name.clone(),
        bytes: holder.bytes,
        gpu,
        command: holder.command.clone(),
        activity: if holder.is_idle { ActivityWord::Idle } else { ActivityWord::Unknown },
        in_the_way: in_the_way.iter().any(|other| other.key == holder.key),
    });
    holders.collect()
}
