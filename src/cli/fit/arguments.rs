//! Owns an engine's settings from the command line's words. Defaults as of 2026-11-20 (llama.cpp 0.5.0, Ollama 0.30,
//! vLLM 0.33.0). Knows nothing of this machine and no formula.

use super::flags::FitArgs;
use super::located::Located;
use super::machine::Machine;
use crate::cli::suggest::not_one_of;
use crate::memory::engine::{ollama_context, with_ollamas_batch};
use crate::memory::ggml::KV_TYPES;
use crate::memory::{
    Dtype, Engine, Generating, GgmlType, Kind, ModelShape, Outputs, Recipe, Settings, Sharing, Step, Storage, Training,
    sglang, vllm,
};
use crate::units::Bytes;

/// The engine that a dtype alone speaks of: which quantizes while it loads, which trains, which takes such checkpoints.
pub(super) fn engine_of_dtype(dtype: &str) -> Option<Kind> {
    Some(match dtype.to_lowercase().as_str() {
        "nf4" | "int8" | "8bit" | "4bit" | "int4" => Kind::Transformers,
        "lora" | "qlora" | "mixed" => Kind::Train,
        "awq" | "gptq" | "fp8" | "nvfp4" => Kind::Vllm,
        _ => return None,
    })
}

/// The types that transformers loads weights in.
const DTYPES: [&str; 6] = ["auto", "float32", "float16", "bfloat16", "int8", "nf4"];
/// The types that `--dtype` takes for training.
const RECIPES: [&str; 5] = ["float32", "mixed", "bfloat16", "lora", "qlora"];

/// From the command line, for a GPU among all of the machine's. The error says what to do.
pub(super) fn engine(kind: Kind, args: &FitArgs, located: &Located, machine: &Machine) -> Result<Engine, String> {
    let shape = &located.shape;
    let total = machine.card().map(|card| card.total);
    Ok(match kind {
        Kind::LlamaCpp => Engine::LlamaCpp(llama_settings(args, shape)?),
        Kind::Ollama => Engine::Ollama(ollama_settings(args, located, machine)?),
        Kind::Vllm => {
            let usual = vllm::Serving::of_card(total).at_once(args.batch, args.parallel);
            Engine::Vllm(vllm::Serving {
                max_model_len: args.context,
                kv_half_bytes: if is_fp8(args) { 2 } else { usual.kv_half_bytes },
                utilization: args.share.unwrap_or(usual.utilization),
                tensor_parallel: args.tensor_parallel_size,
                pipeline_parallel: args.pipeline_parallel_size,
                ..usual
            })
        }
        Kind::Sglang => {
            let usual = sglang::Serving::of_model(shape, total, args.tensor_parallel_size);
            Engine::Sglang(sglang::Serving {
                context: args.context,
                kv_half_bytes: if is_fp8(args) { 2 } else { usual.kv_half_bytes },
                fraction: args.share.unwrap_or(usual.fraction),
                chunk: args.batch.unwrap_or(usual.chunk),
                requests: args.parallel,
                ..usual
            })
        }
        Kind::Transformers => {
            let word = args.dtype.as_deref().unwrap_or("auto");
            let dtype =
                Dtype::from_name(word).ok_or_else(|| format!("--dtype: {}", not_one_of("type", word, DTYPES)))?;
            // What is quantized already is taken as it is.
            let dtype = if shape.storage == Storage::Quantised { Dtype::Checkpoint } else { dtype };
            let (context, max_memory) = (args.context, args.max_memory);
            Engine::Transformers(Generating { dtype, context, batch: args.batch.unwrap_or(1), max_memory })
        }
        Kind::Train => Engine::Train(training(args, shape, machine)?),
    })
}

/// What is asked for, what its Modelfile sets, else Ollama's default by the memory of all GPUs together.
fn ollama_settings(args: &FitArgs, located: &Located, machine: &Machine) -> Result<Settings, String> {
    let settings = llama_settings(args, &located.shape)?;
    let usual = ollama_context(machine.cards.iter().map(|card| card.total).reduce(Bytes::plus));
    let most = located.shape.context_trained.unwrap_or(u64::MAX);
    let one = args.context.or(located.num_ctx).unwrap_or(usual).min(most);
    let settings = Settings {
        context: Some(one.saturating_mul(settings.parallel)),
        gpu_layers: settings.gpu_layers.or(located.num_gpu),
        kept_context: located.num_ctx,
        ..settings
    };
    Ok(match args.micro_batch.or(args.batch) {
        Some(at_once) => Settings { micro_batch: at_once, batch: at_once, ..settings },
        None => with_ollamas_batch(settings, &located.shape, machine.card().map(|card| card.free)),
    })
}

fn training(args: &FitArgs, shape: &ModelShape, machine: &Machine) -> Result<Training, String> {
    let recipe = match recipe(args.dtype.as_deref().unwrap_or("mixed"), args.lora_rank)? {
        Recipe::Qlora(rank) if shape.storage == Storage::Quantised => Recipe::Lora(rank),
        recipe => recipe,
    };
    let mut free_gpus = 1;
    if let (Some(_), None, Some(card)) = (args.zero, args.gpu, machine.card()) {
        // A GPU that somebody else fills is none of them.
        let free = machine.cards.iter().filter(|one| one.free.0 >= card.free.0 / 2);
        free_gpus = (free.count() as u64).max(1);
    }
    let sharing = Sharing {
        // It is DeepSpeed that moves an optimizer, from stage 1 on.
        stage: args.zero.unwrap_or(if args.offload_optimizer { 2 } else { 0 }),
        cards: args.cards.unwrap_or(free_gpus),
        offload: args.offload_optimizer,
        fsdp: false,
    };
    let step = Step {
        batch: args.batch.unwrap_or(1),
        length: args.context.unwrap_or(2048).min(shape.context_trained.unwrap_or(u64::MAX)),
        checkpointing: args.gradient_checkpointing,
        flash_attention: args.flash_attention.unwrap_or(true),
    };
    Ok(Training { recipe, optimizer: args.optimizer, sharing, step })
}

fn is_fp8(args: &FitArgs) -> bool {
    args.kv_type.as_deref().or(args.k_type.as_deref()).is_some_and(|kind| kind.starts_with("fp8"))
}

fn cache_type(word: &str) -> Result<GgmlType, String> {
    GgmlType::from_name(word)
        .filter(|kind| KV_TYPES.contains(&kind.name))
        .ok_or_else(|| not_one_of("KV cache type", word, KV_TYPES))
}

fn llama_settings(args: &FitArgs, shape: &ModelShape) -> Result<Settings, String> {
    let on_host = if args.cpu_moe { u64::MAX } else { args.n_cpu_moe.unwrap_or(0) };
    let usual = Settings::default();
    let both = args.kv_type.as_deref();
    Ok(Settings {
        context: args.context,
        k_type: args.k_type.as_deref().or(both).map_or(Ok(usual.k_type), cache_type)?,
        v_type: args.v_type.as_deref().or(both).map_or(Ok(usual.v_type), cache_type)?,
        micro_batch: args.micro_batch.unwrap_or(usual.micro_batch),
        batch: args.batch.unwrap_or(usual.batch),
        parallel: args.parallel.unwrap_or(usual.parallel),
        unified: args.kv_unified,
        // The command is a server's of today; what earlier builds take is said beside it.
        outputs: Outputs::Slots,
        flash_attention: args.flash_attention.unwrap_or(true),
        gpu_layers: args.gpu_layers,
        host_experts: if shape.experts == 0 { 0 } else { on_host },
        host_projector: args.no_mmproj_offload,
        ..usual
    })
}

fn recipe(word: &str, rank: u64) -> Result<Recipe, String> {
    Ok(match word {
        "float32" | "fp32" => Recipe::Full32,
        "mixed" | "fp16" | "float16" => Recipe::Mixed,
        "bf16" | "bfloat16" => Recipe::Pure16,
        "lora" => Recipe::Lora(rank),
        "qlora" | "nf4" => Recipe::Qlora(rank),
        _ => return Err(format!("--dtype: {}", not_one_of("type for training", word, RECIPES))),
    })
}
