//! Owns an engine with its settings: what a model takes under it, and the same with another context. One value answers
//! for all engines, so that the choices (`options`) can vary it. Engines as of 2026-11-21: llama.cpp 0.5.0, Ollama
//! 0.30, vLLM 0.33.0, transformers 5.23.0. Knows nothing of arguments or of this machine.

use strum::EnumDiscriminants;

use super::cache::kv_cache;
use super::estimate::SPARE;
use super::estimate::{Estimate, estimate};
use super::ggml::GgmlType;
use super::inference::{self, Generating};
use super::settings::Settings;
use super::shape::ModelShape;
use super::training::{self, Training};
use super::{sglang, vllm};
use crate::units::Bytes;

/// An engine with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumDiscriminants)]
#[strum_discriminants(
    name(Kind),
    derive(clap::ValueEnum),
    doc = "The program that runs a model, as a command line names it."
)]
pub enum Engine {
    /// llama.cpp and what is built on it.
    #[strum_discriminants(value(name = "llama.cpp", help = "llama-server and llama-cli"))]
    LlamaCpp(Settings),
    /// Ollama, which starts llama.cpp.
    #[strum_discriminants(value(help = "Ollama"))]
    Ollama(Settings),
    #[strum_discriminants(doc = "vLLM.")]
    Vllm(vllm::Serving),
    #[strum_discriminants(doc = "SGLang.")]
    Sglang(sglang::Serving),
    #[strum_discriminants(doc = "Python with transformers.")]
    Transformers(Generating),
    #[strum_discriminants(doc = "Training, see --dtype, --optimizer and --zero.")]
    Train(Training),
}

/// Ollama's context in tokens where none is set, by the memory of all GPUs together (since v0.15.5).
pub fn ollama_context(card: Option<Bytes>) -> u64 {
    match card {
        Some(card) if card >= Bytes::gib(47) => 262_144,
        Some(card) if card >= Bytes::gib(23) => 32_768,
        _ => 4096,
    }
}

/// Tokens that Ollama has computed at once (`-b` and `-ub`) where none is set: by the context of all requests together,
/// fewer where what it expects the model to take leaves little of what is free (its scheduler, read on 2026-11-21).
fn ollama_batch(context: u64, expected: Option<Bytes>, free: Option<Bytes>, flash_attention: bool) -> u64 {
    if !flash_attention {
        return if context > 4096 && free.is_some_and(|free| free <= Bytes::gib(8)) { 256 } else { 512 };
    }
    match context {
        32_769.. if leaves_room(expected, free, 60, Bytes::gib(2)) => 2048,
        4097.. if leaves_room(expected, free, 75, Bytes::mib(768)) => 1024,
        _ => 512,
    }
}

/// The same with the tokens at once that Ollama chooses by itself, for what is free.
#[must_use]
pub fn with_ollamas_batch(settings: Settings, shape: &ModelShape, free: Option<Bytes>) -> Settings {
    let (context, expected) = (settings.context.unwrap_or(0), ollama_expects(shape, &settings));
    let at_once = ollama_batch(context, expected, free, settings.flash_attention);
    Settings { micro_batch: at_once, batch: at_once, ..settings }
}

/// Whether Ollama finds room for more tokens at once: the model is to take at most so much of what is free, and at most
/// four fifths of it with the surcharge. What is not known is taken to leave room.
fn leaves_room(expected: Option<Bytes>, free: Option<Bytes>, percent: u64, surcharge: Bytes) -> bool {
    let (Some(expected), Some(free)) = (expected, free) else { return true };
    let hundredth = free.0 / 100;
    expected <= Bytes(hundredth * percent) && expected.plus(surcharge) <= Bytes(hundredth * 80)
}

/// Whether Ollama lays a model out over all GPUs: it keeps it on one only where it expects it to take at most four
/// fifths of what is free there. Source: its scheduler (server/sched.go, bestSingleGPUFit), read on 2026-11-21.
pub fn ollama_spreads(shape: &ModelShape, settings: &Settings, free: Bytes) -> bool {
    ollama_expects(shape, settings).is_none_or(|expected| expected > Bytes(free.0 / 100 * 80))
}

/// What Ollama expects a model to take: its file, and a cache in two bytes.
fn ollama_expects(shape: &ModelShape, settings: &Settings) -> Option<Bytes> {
    let plain = Settings { k_type: GgmlType::F16, v_type: GgmlType::F16, gpu_layers: None, ..*settings };
    let cache = kv_cache(shape, &plain).ok()?.all();
    Some(Bytes(shape.weights.as_ref().ok()?.in_file().saturating_add(cache)))
}

impl Kind {
    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Kind::LlamaCpp => "llama.cpp",
            Kind::Ollama => "Ollama",
            Kind::Vllm => "vLLM",
            Kind::Sglang => "SGLang",
            Kind::Transformers => "transformers",
            Kind::Train => "training",
        }
    }

    /// Whether weights are named by dtype rather than by quantisation.
    pub fn is_torch(self) -> bool {
        !matches!(self, Kind::LlamaCpp | Kind::Ollama)
    }
}

impl Engine {
    pub fn kind(&self) -> Kind {
        self.into()
    }

    /// What must be free on the GPU so that it fits; `None` where a part is not known. Of an engine with a share of
    /// its own, what it takes.
    pub fn wanted(&self, estimate: &Estimate) -> Option<Bytes> {
        match self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => estimate.wanted(settings.devices),
            Engine::Vllm(_) | Engine::Sglang(_) => estimate.total(),
            Engine::Transformers(_) | Engine::Train(_) => estimate.total().map(|total| total.plus(SPARE)),
        }
    }

    /// llama.cpp laid out over so many GPUs.
    #[must_use]
    pub fn over(mut self, cards: usize) -> Engine {
        if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = &mut self {
            settings.devices = settings.devices.max(cards as u64);
        }
        self
    }

    /// Its name in sentences.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// What the model takes.
    pub fn estimate(&self, shape: &ModelShape) -> Estimate {
        match self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => estimate(shape, settings),
            Engine::Vllm(serving) => vllm::estimate(shape, serving),
            Engine::Sglang(serving) => sglang::estimate(shape, serving),
            Engine::Transformers(generating) => inference::estimate(shape, generating),
            Engine::Train(training) => training::estimate(shape, training),
        }
    }

    /// Cards that share the model evenly; 1 where it is not shared.
    pub fn ranks(&self) -> u64 {
        match self {
            Engine::Vllm(serving) => serving.tensor_parallel.max(1).saturating_mul(serving.pipeline_parallel.max(1)),
            Engine::Sglang(serving) => serving.tensor_parallel.max(1),
            Engine::Train(training) => training.sharing.cards.max(1),
            _ => 1,
        }
    }

    /// Tokens of context, where they are known.
    pub fn context(&self, shape: &ModelShape) -> Option<u64> {
        match self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.context.or(shape.context_trained),
            Engine::Vllm(serving) => serving.max_model_len.or(shape.context_trained),
            Engine::Sglang(serving) => serving.context.or(shape.context_trained),
            Engine::Transformers(generating) => generating.context.or(shape.context_trained),
            Engine::Train(training) => Some(training.step.length),
        }
    }

    /// The same with another context.
    #[must_use]
    pub fn with_context(mut self, tokens: u64) -> Engine {
        match &mut self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.context = Some(tokens),
            Engine::Vllm(serving) => serving.max_model_len = Some(tokens),
            Engine::Sglang(serving) => serving.context = Some(tokens),
            Engine::Transformers(generating) => generating.context = Some(tokens),
            Engine::Train(training) => training.step.length = tokens,
        }
        self
    }
}
