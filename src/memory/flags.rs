//! Owns an engine's flags and command lines in its own form, as today's versions take them: llama.cpp 0.5.0, Ollama
//! 0.30, vLLM 0.33.0, transformers 5.23.0 (2026-11-20). Knows nothing of figures.

use std::path::Path;

use super::Settings;
use super::engine::Engine;
use super::ggml::GgmlType;
use super::inference::Dtype;
use super::training::{Recipe, Step};

impl Engine {
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
