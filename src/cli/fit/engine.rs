//! Owns an engine's settings from the command line's words, its estimate for a model, and its flags as today's
//! versions take them. One value answers for all engines, so that the options can vary it.
//! Flags as of 2026-11-20 (llama.cpp 0.5.0, Ollama 0.30, vLLM 0.33.0). Knows nothing of this machine.

use std::path::Path;

use super::FitArgs;
use crate::memory::ggml::{GgmlType, KV_TYPES};
use crate::memory::inference::{self, Dtype};
use crate::memory::training::{self, Recipe, Step};
use crate::memory::{Estimate, ModelShape, Settings, estimate, vllm};
use crate::units::Bytes;

/// Which program is to run the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineName {
    /// llama-server and llama-cli.
    #[value(name = "llama.cpp")]
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// vLLM.
    Vllm,
    /// Python with transformers.
    Transformers,
    /// Training with AdamW in mixed precision.
    Train,
}

/// An engine with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Engine {
    /// llama.cpp.
    LlamaCpp(Settings),
    /// Ollama, which starts llama.cpp.
    Ollama(Settings),
    /// vLLM.
    Vllm(vllm::Serving),
    /// transformers: dtype, context, sequences at once.
    Transformers(Dtype, Option<u64>, u64),
    /// Training.
    Train(Recipe, Step),
}

/// Ollama's context where none is set, by the card's memory.
fn ollama_context(card: Option<Bytes>) -> u64 {
    match card {
        Some(card) if card >= Bytes::gib(47) => 262_144,
        Some(card) if card >= Bytes::gib(23) => 32_768,
        _ => 4096,
    }
}

impl Engine {
    /// From the command line. The error says what to do.
    pub fn from_args(
        name: EngineName,
        args: &FitArgs,
        shape: &ModelShape,
        card: Option<Bytes>,
    ) -> Result<Engine, String> {
        Ok(match name {
            EngineName::LlamaCpp => Engine::LlamaCpp(llama_settings(args)?),
            EngineName::Ollama => {
                let settings = llama_settings(args)?;
                let usual = ollama_context(card).min(shape.context_trained.unwrap_or(u64::MAX));
                let one = args.context.unwrap_or(usual);
                Engine::Ollama(Settings { context: Some(one.saturating_mul(settings.parallel)), ..settings })
            }
            EngineName::Vllm => {
                let fp8 =
                    args.kv_type.as_deref().or(args.k_type.as_deref()).is_some_and(|kind| kind.starts_with("fp8"));
                let usual = vllm::Serving::default();
                Engine::Vllm(vllm::Serving {
                    max_model_len: args.context,
                    kv_half_bytes: if fp8 { 2 } else { usual.kv_half_bytes },
                    batched_tokens: args.batch.unwrap_or(usual.batched_tokens),
                    sequences: args.parallel.unwrap_or(usual.sequences),
                    ..usual
                })
            }
            EngineName::Transformers => {
                let word = args.dtype.as_deref().unwrap_or("auto");
                let dtype = Dtype::from_name(word)
                    .ok_or_else(|| format!("--dtype {word}: give auto, float32, float16, bfloat16, int8 or nf4"))?;
                Engine::Transformers(dtype, args.context, args.batch.unwrap_or(1))
            }
            EngineName::Train => {
                let recipe = recipe(args.dtype.as_deref().unwrap_or("mixed"))?;
                let flash_attention = args.flash_attention != Some(super::OnOff::Off);
                let length = args.context.unwrap_or(2048).min(shape.context_trained.unwrap_or(u64::MAX));
                Engine::Train(
                    recipe,
                    Step { batch: args.batch.unwrap_or(1), length, checkpointing: false, flash_attention },
                )
            }
        })
    }

    /// What the model takes.
    pub fn estimate(&self, shape: &ModelShape) -> Estimate {
        match self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => estimate(shape, settings),
            Engine::Vllm(serving) => vllm::estimate(shape, serving),
            Engine::Transformers(dtype, context, batch) => inference::estimate(shape, *dtype, *context, *batch),
            Engine::Train(recipe, step) => training::estimate(shape, *recipe, step),
        }
    }

    /// Tokens of context, where they are known.
    pub fn context(&self, shape: &ModelShape) -> Option<u64> {
        match self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.context.or(shape.context_trained),
            Engine::Vllm(serving) => serving.max_model_len.or(shape.context_trained),
            Engine::Transformers(_, context, _) => context.or(shape.context_trained),
            Engine::Train(_, step) => Some(step.length),
        }
    }

    /// The same with another context.
    #[must_use]
    pub fn with_context(self, tokens: u64) -> Engine {
        match self {
            Engine::LlamaCpp(settings) => Engine::LlamaCpp(Settings { context: Some(tokens), ..settings }),
            Engine::Ollama(settings) => Engine::Ollama(Settings { context: Some(tokens), ..settings }),
            Engine::Vllm(serving) => Engine::Vllm(vllm::Serving { max_model_len: Some(tokens), ..serving }),
            Engine::Transformers(dtype, _, batch) => Engine::Transformers(dtype, Some(tokens), batch),
            Engine::Train(recipe, step) => Engine::Train(recipe, Step { length: tokens, ..step }),
        }
    }

    /// The flags that say these settings, in the engine's own form; empty where it has none.
    pub fn flags(&self) -> String {
        match self {
            Engine::LlamaCpp(settings) => llama_flags(settings),
            Engine::Ollama(settings) => ollama_flags(settings),
            Engine::Vllm(serving) => {
                let length = serving.max_model_len.map(|length| format!("--max-model-len {length}"));
                let fp8 = (serving.kv_half_bytes == 2).then(|| "--kv-cache-dtype fp8".to_owned());
                let (whole, thousandths) = (serving.utilization / 1000, serving.utilization % 1000);
                let utilization = (serving.utilization != 920)
                    .then(|| format!("--gpu-memory-utilization {whole}.{thousandths:03}").trim_end_matches('0').to_owned());
                join([length, fp8, utilization, serving.eager.then(|| "--enforce-eager".to_owned())])
            }
            Engine::Transformers(dtype, ..) => match dtype {
                Dtype::Checkpoint => "dtype=\"auto\"".into(),
                Dtype::Float32 => "dtype=torch.float32".into(),
                Dtype::Half => "dtype=torch.bfloat16".into(),
                Dtype::Int8 => "quantization_config=BitsAndBytesConfig(load_in_8bit=True)".into(),
                Dtype::Nf4 => "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)".into(),
            },
            Engine::Train(recipe, step) => train_flags(*recipe, step),
        }
    }

    /// A whole line to run, where the model has a name or a file to run.
    pub fn command(&self, file: Option<&Path>, name: &str) -> Option<String> {
        let flags = self.flags();
        let with = |program: String| Some(format!("{program} {flags}").trim_end().to_owned());
        match self {
            Engine::LlamaCpp(_) => with(format!(
                "llama-server -m {}",
                quoted(&file.map_or_else(|| "MODEL.gguf".into(), |file| file.to_string_lossy().into_owned()))
            )),
            Engine::Ollama(_) => Some(format!("{flags} ollama serve").trim_start().to_owned()),
            Engine::Vllm(_) => with(format!("vllm serve {}", quoted(name))),
            Engine::Transformers(..) | Engine::Train(..) => None,
        }
    }
}

fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn cache_type(word: &str) -> Result<GgmlType, String> {
    GgmlType::from_name(word).filter(|kind| KV_TYPES.contains(kind)).ok_or_else(|| {
        let names: Vec<&str> = KV_TYPES.iter().map(|kind| kind.name).collect();
        format!("{word} is no type of a KV cache here: give one of {}", names.join(", "))
    })
}

fn llama_settings(args: &FitArgs) -> Result<Settings, String> {
    let usual = Settings::default();
    let both = args.kv_type.as_deref();
    let kind = |one: Option<&str>, usual| one.or(both).map_or(Ok(usual), cache_type);
    Ok(Settings {
        context: args.context,
        k_type: kind(args.k_type.as_deref(), usual.k_type)?,
        v_type: kind(args.v_type.as_deref(), usual.v_type)?,
        micro_batch: args.micro_batch.unwrap_or(usual.micro_batch),
        batch: args.batch.unwrap_or(usual.batch),
        parallel: args.parallel.unwrap_or(usual.parallel),
        flash_attention: args.flash_attention != Some(super::OnOff::Off),
        gpu_layers: args.gpu_layers,
        ..usual
    })
}

fn recipe(word: &str) -> Result<Recipe, String> {
    Ok(match word {
        "float32" | "fp32" => Recipe::Full32,
        "mixed" | "fp16" | "float16" => Recipe::Mixed,
        "bf16" | "bfloat16" => Recipe::Pure16,
        "lora" => Recipe::Lora(16),
        "qlora" | "nf4" => Recipe::Qlora(16),
        _ => return Err(format!("--dtype {word}: for training give float32, mixed, bfloat16, lora or qlora")),
    })
}

fn llama_flags(settings: &Settings) -> String {
    let usual = Settings::default();
    let f16 = GgmlType::F16;
    let quantised = settings.k_type.is_quantised() || settings.v_type.is_quantised();
    let unlike = |this: u64, usual: u64, flag: &str| (this != usual).then(|| format!("{flag} {this}"));
    let flash = match settings.flash_attention {
        false => Some("-fa off".to_owned()),
        true => quantised.then(|| "-fa on".to_owned()),
    };
    join([
        settings.context.map(|context| format!("-c {context}")),
        Some(format!("-np {}", settings.parallel)),
        flash,
        (settings.k_type != f16).then(|| format!("-ctk {}", settings.k_type.name)),
        (settings.v_type != f16).then(|| format!("-ctv {}", settings.v_type.name)),
        unlike(settings.batch, usual.batch, "-b"),
        unlike(settings.micro_batch, usual.micro_batch, "-ub"),
        settings.gpu_layers.map(|layers| format!("-ngl {layers}")),
        (settings.host_experts > 0).then(|| format!("-ncmoe {}", settings.host_experts)),
    ])
}

fn ollama_flags(settings: &Settings) -> String {
    let slots = settings.parallel.max(1);
    let context = settings.context.and_then(|context| context.checked_div(slots));
    let quantised = settings.k_type.is_quantised();
    join([
        context.map(|context| format!("OLLAMA_CONTEXT_LENGTH={context}")),
        (slots > 1).then(|| format!("OLLAMA_NUM_PARALLEL={slots}")),
        quantised.then(|| "OLLAMA_FLASH_ATTENTION=1".to_owned()),
        (settings.k_type != GgmlType::F16).then(|| format!("OLLAMA_KV_CACHE_TYPE={}", settings.k_type.name)),
    ])
}

fn train_flags(recipe: Recipe, step: &Step) -> String {
    let lora = |rank: u64| format!("LoraConfig(r={rank}, target_modules=\"all-linear\")");
    let recipe = match recipe {
        Recipe::Full32 => None,
        Recipe::Mixed => Some("bf16=True".to_owned()),
        Recipe::Pure16 => Some("dtype=torch.bfloat16".to_owned()),
        Recipe::Mixed8bit => Some("bf16=True optim=\"adamw_bnb_8bit\"".to_owned()),
        Recipe::Lora(rank) => Some(lora(rank)),
        Recipe::Qlora(rank) => Some(format!("{} {}", Engine::Transformers(Dtype::Nf4, None, 1).flags(), lora(rank))),
    };
    let batch = Some(format!("per_device_train_batch_size={}", step.batch));
    join([recipe, batch, step.checkpointing.then(|| "gradient_checkpointing=True".to_owned())])
}
