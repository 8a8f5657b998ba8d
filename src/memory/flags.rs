//! Owns an engine's flags and command lines in its own form, as today's versions take them: llama.cpp 0.5.0, Ollama
//! 0.30, vLLM 0.33.0, transformers 5.23.0 (2026-11-20). Knows nothing of figures.

use std::path::Path;

use super::engine::Engine;
use super::ggml::GgmlType;
use super::inference::Dtype;
use super::training::{Optimizer, Recipe, Training};
use super::{ModelShape, Settings};

impl Engine {
    /// The flags that say these settings, in the engine's own form; empty where it has none.
    pub fn flags(&self) -> String {
        match self {
            Engine::LlamaCpp(settings) => llama_flags(settings),
            Engine::Ollama(settings) => {
                let variables = Some(ollama_variables(settings)).filter(|all| !all.is_empty());
                variables.into_iter().chain(ollama_inside(settings)).collect::<Vec<_>>().join(", ")
            }
            Engine::Vllm(serving) => {
                let length = serving.max_model_len.map(|length| format!("--max-model-len {length}"));
                let fp8 = (serving.kv_half_bytes == 2).then(|| "--kv-cache-dtype fp8".to_owned());
                let utilization = (serving.utilization != 920).then(|| utilization(serving.utilization));
                let tp = (serving.tensor_parallel > 1)
                    .then(|| format!("--tensor-parallel-size {}", serving.tensor_parallel));
                let (tokens, sequences) = serving.usual_at_once;
                let tokens = unlike(serving.batched_tokens, tokens, "--max-num-batched-tokens ");
                let usual = sequences.min(serving.batched_tokens);
                let sequences = unlike(serving.sequences, usual, "--max-num-seqs ");
                let eager = serving.eager.then(|| "--enforce-eager".to_owned());
                let stages = serving.pipeline_parallel;
                let pp = (stages > 1).then(|| format!("--pipeline-parallel-size {stages}"));
                join([length, fp8, utilization, eager, tp, pp, tokens, sequences])
            }
            Engine::Sglang(serving) => {
                let context = serving.context.map(|length| format!("--context-length {length}"));
                let fp8 = (serving.kv_half_bytes == 2).then(|| "--kv-cache-dtype fp8_e4m3".to_owned());
                let fraction = (serving.fraction != serving.usual_fraction).then(|| fraction(serving.fraction));
                let tp = (serving.tensor_parallel > 1).then(|| format!("--tp {}", serving.tensor_parallel));
                let chunk =
                    (serving.chunk != serving.usual_chunk).then(|| format!("--chunked-prefill-size {}", serving.chunk));
                let requests = serving.requests.map(|most| format!("--max-running-requests {most}"));
                join([context, fp8, fraction, chunk, tp, requests])
            }
            Engine::Transformers(generating) => {
                let most = generating.max_memory.map(|most| {
                    format!("device_map=\"auto\", max_memory={{0: \"{}GiB\", \"cpu\": \"999GiB\"}}", most.0 >> 30)
                });
                [Some(dtype_words(generating.dtype).to_owned()), most]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            Engine::Train(training) => train_flags(training),
        }
    }

    /// A whole line to run, where the model has a name or a file to run.
    pub fn command(&self, file: Option<&Path>, encoder: Option<&Path>, name: &str) -> Option<String> {
        let flags = self.flags();
        let with = |program: String| Some(format!("{program} {flags}").trim_end().to_owned());
        match self {
            Engine::LlamaCpp(_) => {
                let model = match file {
                    Some(file) => format!("-m {}", quoted(&file.to_string_lossy())),
                    // A repository of GGUF files is fetched by its name.
                    None if name.contains('/') && name.to_lowercase().contains("gguf") => {
                        format!("-hf {}", quoted(name))
                    }
                    None => "-m MODEL.gguf".into(),
                };
                let encoder = encoder.map(|file| format!("--mmproj {}", quoted(&file.to_string_lossy())));
                with(join([Some("llama-server".into()), Some(model), encoder]))
            }
            Engine::Ollama(settings) => {
                let (variables, inside) = (ollama_variables(settings), ollama_inside(settings));
                let server =
                    Some(join([Some(variables.clone()).filter(|all| !all.is_empty()), Some("ollama serve".into())]));
                let server = server.filter(|_| !variables.is_empty() || inside.is_empty());
                let inside = inside.into_iter().map(|line| format!("{line}   (inside `ollama run`)"));
                Some(server.into_iter().chain(inside).collect::<Vec<_>>().join("\n"))
            }
            // Its plugin for GGUF files wants the tokenizer of the model that they were made from.
            Engine::Vllm(_) if name.ends_with(".gguf") => {
                with(format!("vllm serve {} --tokenizer BASE-REPOSITORY", quoted(name)))
            }
            Engine::Vllm(_) => with(format!("vllm serve {}", quoted(name))),
            Engine::Sglang(_) => with(format!("python -m sglang.launch_server --model-path {}", quoted(name))),
            Engine::Transformers(_) | Engine::Train(_) => None,
        }
    }
}

impl Engine {
    /// The command that says what is changed from another setting of the same engine, in the form of the knowledge
    /// base's fixes; `None` where nothing is, or where it is no command line that says it.
    pub fn changed_from(&self, from: &Engine, shape: &ModelShape) -> Option<String> {
        let all = shape.layer_count().saturating_add(1);
        let text = match (self, from) {
            (Engine::LlamaCpp(now), Engine::LlamaCpp(then)) => {
                join([Some("llama-server".into()), Some(llama_changes(now, then, all)?)])
            }
            (Engine::Ollama(now), Engine::Ollama(then)) => {
                let context = each(now).filter(|context| Some(*context) != each(then));
                let flash = now.k_type.is_quantised() && !then.k_type.is_quantised();
                join([
                    context.map(|context| format!("OLLAMA_CONTEXT_LENGTH={context}")),
                    unlike(now.parallel, then.parallel, "OLLAMA_NUM_PARALLEL="),
                    flash.then(|| "OLLAMA_FLASH_ATTENTION=1".to_owned()),
                    (now.k_type != then.k_type).then(|| format!("OLLAMA_KV_CACHE_TYPE={}", now.k_type.name)),
                    unlike(now.host_experts, then.host_experts, "LLAMA_ARG_N_CPU_MOE="),
                    Some("ollama serve".into()),
                ])
            }
            (Engine::Vllm(now), Engine::Vllm(then)) => {
                let length = now.max_model_len.filter(|length| Some(*length) != then.max_model_len);
                let cache = if now.kv_half_bytes == 2 { "fp8" } else { "auto" };
                let eager = if now.eager { "--enforce-eager" } else { "--no-enforce-eager" };
                join([
                    Some("vllm serve".into()),
                    length.map(|length| format!("--max-model-len {length}")),
                    (now.kv_half_bytes != then.kv_half_bytes).then(|| format!("--kv-cache-dtype {cache}")),
                    (now.utilization != then.utilization).then(|| utilization(now.utilization)),
                    (now.eager != then.eager).then(|| eager.to_owned()),
                ])
            }
            (Engine::Sglang(now), Engine::Sglang(then)) => {
                let context = now.context.filter(|length| Some(*length) != then.context);
                let cache = if now.kv_half_bytes == 2 { "fp8_e4m3" } else { "auto" };
                join([
                    Some("python -m sglang.launch_server".into()),
                    context.map(|length| format!("--context-length {length}")),
                    (now.kv_half_bytes != then.kv_half_bytes).then(|| format!("--kv-cache-dtype {cache}")),
                    (now.fraction != then.fraction).then(|| fraction(now.fraction)),
                    unlike(now.chunk, then.chunk, "--chunked-prefill-size "),
                ])
            }
            (now, then) => Some(now.flags()).filter(|flags| *flags != then.flags()).unwrap_or_default(),
        };
        Some(text).filter(|text| self != from && text.contains(['-', '=', '(']))
    }

    /// How many layers are on the card, where this engine takes that from its chat or its Modelfile alone (Ollama), and
    /// it is not as it was.
    pub fn layers_set_from(&self, from: &Engine) -> Option<String> {
        match (self, from) {
            (Engine::Ollama(now), Engine::Ollama(then)) if now.gpu_layers != then.gpu_layers => Some(format!(
                "/set parameter num_gpu {}",
                now.gpu_layers.map_or("-1".into(), |count| count.to_string())
            )),
            _ => None,
        }
    }
}

/// `0.85` behind vLLM's flag.
fn utilization(thousandths: u64) -> String {
    format!("--gpu-memory-utilization {}", share(thousandths))
}

/// The same behind SGLang's.
fn fraction(thousandths: u64) -> String {
    format!("--mem-fraction-static {}", share(thousandths))
}

fn share(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn dtype_words(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Checkpoint => "dtype=\"auto\"",
        Dtype::Float32 => "dtype=torch.float32",
        Dtype::Half => "dtype=torch.bfloat16",
        Dtype::Int8 => "quantization_config=BitsAndBytesConfig(load_in_8bit=True)",
        Dtype::Nf4 => {
            "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)"
        }
    }
}

/// A number behind its flag, where it is not as it was.
fn unlike(now: u64, then: u64, flag: &str) -> Option<String> {
    (now != then).then(|| format!("{flag}{now}"))
}

/// Experts on the host: of all layers, or of so many.
fn host_experts(layers: u64) -> String {
    if layers == u64::MAX { "--cpu-moe".into() } else { format!("--n-cpu-moe {layers}") }
}

fn llama_changes(now: &Settings, then: &Settings, all: u64) -> Option<String> {
    let quantised = |settings: &Settings| settings.k_type.is_quantised() || settings.v_type.is_quantised();
    let flash = match (now.flash_attention, then.flash_attention) {
        (true, false) => Some("-fa on".to_owned()),
        (false, true) => Some("-fa off".to_owned()),
        _ => (quantised(now) && !quantised(then)).then(|| "-fa on".to_owned()),
    };
    let context = now.context.filter(|context| Some(*context) != then.context);
    let text = join([
        context.map(|context| format!("-c {context}")),
        unlike(now.parallel, then.parallel, "-np "),
        // Where a number of slots is given, sharing has to be asked for.
        (now.parallel != then.parallel && shares_cache(now)).then(|| "-kvu".to_owned()),
        flash,
        (now.k_type != then.k_type).then(|| format!("-ctk {}", now.k_type.name)),
        (now.v_type != then.v_type).then(|| format!("-ctv {}", now.v_type.name)),
        unlike(now.micro_batch, then.micro_batch, "-ub "),
        (now.gpu_layers != then.gpu_layers).then(|| format!("-ngl {}", now.gpu_layers.unwrap_or(all))),
        (now.host_experts != then.host_experts).then(|| host_experts(now.host_experts)),
    ]);
    Some(text).filter(|text| !text.is_empty())
}

/// Whether several slots share one cache.
fn shares_cache(settings: &Settings) -> bool {
    settings.unified && settings.parallel > 1
}

fn llama_flags(settings: &Settings) -> String {
    let usual = Settings::default();
    let f16 = GgmlType::F16;
    let quantised = settings.k_type.is_quantised() || settings.v_type.is_quantised();
    let flash = match settings.flash_attention {
        false => Some("-fa off".to_owned()),
        true => quantised.then(|| "-fa on".to_owned()),
    };
    join([
        settings.context.map(|context| format!("-c {context}")),
        Some(format!("-np {}", settings.parallel)),
        shares_cache(settings).then(|| "-kvu".to_owned()),
        flash,
        (settings.k_type != f16).then(|| format!("-ctk {}", settings.k_type.name)),
        (settings.v_type != f16).then(|| format!("-ctv {}", settings.v_type.name)),
        unlike(settings.batch, usual.batch, "-b "),
        unlike(settings.micro_batch, usual.micro_batch, "-ub "),
        settings.gpu_layers.map(|layers| format!("-ngl {layers}")),
        (settings.host_experts > 0).then(|| host_experts(settings.host_experts)),
        settings.host_projector.then(|| "--no-mmproj-offload".to_owned()),
    ])
}

/// Tokens of one request.
fn each(settings: &Settings) -> Option<u64> {
    settings.context?.checked_div(settings.parallel.max(1))
}

/// What Ollama takes for one conversation alone, or in a Modelfile.
fn ollama_inside(settings: &Settings) -> Vec<String> {
    let set = |name: &str, number: u64| format!("/set parameter {name} {number}");
    let context = each(settings).filter(|each| settings.kept_context.is_some_and(|kept| kept != *each));
    let context = context.map(|each| set("num_ctx", each));
    context.into_iter().chain(settings.gpu_layers.map(|count| set("num_gpu", count))).collect()
}

fn ollama_variables(settings: &Settings) -> String {
    let slots = settings.parallel.max(1);
    let context = each(settings).filter(|_| settings.kept_context.is_none());
    let quantised = settings.k_type.is_quantised();
    join([
        context.map(|context| format!("OLLAMA_CONTEXT_LENGTH={context}")),
        (slots > 1).then(|| format!("OLLAMA_NUM_PARALLEL={slots}")),
        quantised.then(|| "OLLAMA_FLASH_ATTENTION=1".to_owned()),
        (!settings.flash_attention && !quantised).then(|| "OLLAMA_FLASH_ATTENTION=0".to_owned()),
        (settings.k_type != GgmlType::F16).then(|| format!("OLLAMA_KV_CACHE_TYPE={}", settings.k_type.name)),
        (settings.host_experts > 0).then(|| format!("LLAMA_ARG_N_CPU_MOE={}", settings.host_experts)),
        // llama-server, which it starts, reads this itself (llama.cpp 0.6.0, common/arg.cpp).
        settings.host_projector.then(|| "LLAMA_ARG_MMPROJ_OFFLOAD=0".to_owned()),
    ])
}

/// TrainingArguments and what else a script sets; over several cards or with ZeRO behind the line that starts it.
/// accelerate's launcher at 2026-07-24, transformers 5.23.0, read on 2026-11-21.
fn train_flags(training: &Training) -> String {
    let Training { recipe, optimizer, sharing, step } = training;
    let lora = |rank: u64| format!("LoraConfig(r={rank}, target_modules=\"all-linear\")");
    let recipe = match recipe {
        Recipe::Full32 => None,
        Recipe::Mixed => Some("bf16=True".to_owned()),
        Recipe::Pure16 => Some("dtype=torch.bfloat16".to_owned()),
        Recipe::Lora(rank) => Some(lora(*rank)),
        Recipe::Qlora(rank) => {
            let nf4 = dtype_words(Dtype::Nf4);
            // ZeRO-3 shares out nothing that is packed into bytes (PEFT's page on DeepSpeed).
            let shared = nf4.replacen("bnb_4bit_use", "bnb_4bit_quant_storage=torch.bfloat16, bnb_4bit_use", 1);
            Some(format!("{} {}", if sharing.stage == 3 { &shared } else { nf4 }, lora(*rank)))
        }
    };
    let optimizer = match optimizer {
        Optimizer::AdamW => None,
        Optimizer::AdamW8bit => Some("optim=\"adamw_bnb_8bit\"".to_owned()),
        Optimizer::Adafactor => Some("optim=\"adafactor\"".to_owned()),
        Optimizer::Sgd => Some("optim=\"sgd\"".to_owned()),
    };
    let batch = Some(format!("per_device_train_batch_size={}", step.batch));
    let again = (step.checkpointing && !sharing.fsdp).then(|| "gradient_checkpointing=True".to_owned());
    let script = join([recipe, optimizer, batch, again]);
    let (cards, stage) = (sharing.cards, sharing.stage);
    if cards <= 1 && stage == 0 {
        return script;
    }
    let sharing = match (stage, sharing.fsdp) {
        (0, _) => Some("--multi_gpu".to_owned()),
        (_, true) => Some("--use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP".to_owned()),
        _ => Some(format!("--use_deepspeed --zero_stage {stage}")),
    };
    // FSDP's own computing again: with the script's, layers would be gathered twice.
    let again =
        (step.checkpointing && training.sharing.fsdp).then(|| "--fsdp_activation_checkpointing true".to_owned());
    let offload = training.sharing.offload.then(|| "--offload_optimizer_device cpu".to_owned());
    let half = !matches!(training.recipe, Recipe::Full32 | Recipe::Pure16);
    let half = half.then(|| "--mixed_precision bf16".to_owned());
    let launch = Some(format!("accelerate launch --num_processes {cards}"));
    join([launch, sharing, again, offload, half, Some("train.py".into()), Some(format!("# {script}"))])
}

fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
