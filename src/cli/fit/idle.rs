//! Owns which of the settings on the command line mean nothing for this engine or this model, so that none is taken in
//! silence. Knows no formula.

use super::flags::{EngineName, OptimizerName};
use super::flags::{FitArgs, SplitMode};
use crate::memory::ModelShape;
use EngineName::{LlamaCpp, Ollama, Sglang, Train, Transformers, Vllm};

/// What to say of those that were given, as a sentence without the full stop.
pub(super) fn note(args: &FitArgs, engine: EngineName, shape: &ModelShape) -> Option<String> {
    let name = match engine {
        LlamaCpp => "llama.cpp",
        Ollama => "Ollama",
        Vllm => "vLLM",
        Sglang => "SGLang",
        Transformers => "transformers",
        Train => "training",
    };
    let of_engine: Vec<&str> =
        given(args).into_iter().filter(|(.., engines)| !engines.contains(&engine)).map(|(flag, _)| flag).collect();
    let elsewhere = (!of_engine.is_empty()).then(|| says(&of_engine, &format!("nothing to {name} here")));
    let on_host = matches!(engine, LlamaCpp | Ollama) && shape.experts == 0;
    let experts: Vec<&str> = [("--cpu-moe", args.cpu_moe), ("--n-cpu-moe", args.n_cpu_moe.is_some())]
        .into_iter()
        .filter(|(_, given)| *given && on_host)
        .map(|(flag, _)| flag)
        .collect();
    let experts = (!experts.is_empty()).then(|| says(&experts, "nothing here (the model has no experts)"));
    Some([elsewhere, experts].into_iter().flatten().collect::<Vec<_>>().join("; ")).filter(|note| !note.is_empty())
}

fn says(flags: &[&str], what: &str) -> String {
    let (verb, are) = if flags.len() == 1 { ("means", "is") } else { ("mean", "are") };
    format!("{} {verb} {what} and {are} left out", flags.join(", "))
}

/// The settings that were given, with the engines that they mean something to.
fn given(args: &FitArgs) -> Vec<(&'static str, &'static [EngineName])> {
    const LLAMA: &[EngineName] = &[LlamaCpp, Ollama];
    let several = args.split_mode.is_some_and(|mode| mode != SplitMode::None);
    let all: [(&str, bool, &[EngineName]); 22] = [
        ("--kv-type", args.kv_type.is_some(), &[LlamaCpp, Ollama, Vllm, Sglang]),
        ("--k-type", args.k_type.is_some(), &[LlamaCpp, Vllm, Sglang]),
        ("--v-type", args.v_type.is_some(), &[LlamaCpp]),
        ("--micro-batch", args.micro_batch.is_some(), LLAMA),
        ("--parallel", args.parallel.is_some(), &[LlamaCpp, Ollama, Vllm, Sglang]),
        ("--kv-unified", args.kv_unified, &[LlamaCpp]),
        ("--flash-attention", args.flash_attention.is_some(), &[LlamaCpp, Ollama, Train]),
        ("--gpu-layers", args.gpu_layers.is_some(), LLAMA),
        ("--n-cpu-moe", args.n_cpu_moe.is_some(), LLAMA),
        ("--cpu-moe", args.cpu_moe, LLAMA),
        ("--mmproj", args.mmproj.is_some(), LLAMA),
        ("--no-mmproj-offload", args.no_mmproj_offload, LLAMA),
        ("--main-gpu", args.main_gpu > 0 && !several && args.tensor_split.is_empty(), &[]),
        ("--tensor-parallel-size", args.tensor_parallel_size > 1, &[Vllm, Sglang]),
        ("--share", args.share.is_some(), &[Vllm, Sglang]),
        ("--max-memory", args.max_memory.is_some(), &[Transformers]),
        ("--optimizer", args.optimizer != OptimizerName::Adamw, &[Train]),
        ("--zero", args.zero.is_some_and(|stage| stage > 0), &[Train]),
        ("--cards", args.cards.is_some_and(|cards| cards > 1), &[Train]),
        ("--offload-optimizer", args.offload_optimizer, &[Train]),
        ("--lora-rank", args.lora_rank != 16, &[Train]),
        ("--gradient-checkpointing", args.gradient_checkpointing, &[Train]),
    ];
    all.into_iter().filter(|(_, given, _)| *given).map(|(flag, _, engines)| (flag, engines)).collect()
}
