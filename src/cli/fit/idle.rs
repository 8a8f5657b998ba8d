//! Owns which of the settings on the command line mean nothing for this engine or this model, so that none is taken in
//! silence. Knows no formula.

use super::flags::{FitArgs, SplitMode};
use crate::memory::knobs::{
    batch_tokens, checkpointing, flash_attention, gpus, host_experts, image_encoder, kv_type, layers, max_memory,
    optimizer, recipe, share, sharing,
};
use crate::memory::{Kind, ModelShape, Optimizer};

/// What to say of those that were given, as a sentence without the full stop.
pub(super) fn note(args: &FitArgs, kind: Kind, shape: &ModelShape) -> Option<String> {
    let given = given(args).into_iter().filter(|(_, is_given, _)| *is_given);
    let of_others: Vec<&str> = given.filter(|(.., engines)| !engines.contains(&kind)).map(|(flag, ..)| flag).collect();
    let mut notes = Vec::new();
    if !of_others.is_empty() {
        notes.push(says(&of_others, &format!("nothing to {} here", kind.name())));
    }
    let of_experts = [("--cpu-moe", args.cpu_moe), ("--n-cpu-moe", args.n_cpu_moe.is_some())];
    let of_experts: Vec<&str> =
        of_experts.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect();
    if !kind.is_torch() && shape.experts == 0 && !of_experts.is_empty() {
        notes.push(says(&of_experts, "nothing here (the model has no experts)"));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn says(flags: &[&str], what: &str) -> String {
    let (verb, are) = if flags.len() == 1 { ("means", "is") } else { ("mean", "are") };
    format!("{} {verb} {what} and {are} left out", flags.join(", "))
}

/// Whether each setting was given, and the engines that it means something to.
fn given(args: &FitArgs) -> [(&'static str, bool, &'static [Kind]); 22] {
    let is_over_several = args.split_mode.is_some_and(|mode| mode != SplitMode::None);
    let is_main_idle = args.main_gpu > 0 && !is_over_several && args.tensor_split.is_empty();
    [
        ("--kv-type", args.kv_type.is_some(), kv_type::KNOB.engines),
        // Ollama sets both types at once.
        ("--k-type", args.k_type.is_some(), &[Kind::LlamaCpp, Kind::Vllm, Kind::Sglang]),
        ("--v-type", args.v_type.is_some(), kv_type::OF_V.engines),
        ("--micro-batch", args.micro_batch.is_some(), batch_tokens::MICRO.engines),
        ("--parallel", args.parallel.is_some(), &[Kind::LlamaCpp, Kind::Ollama, Kind::Vllm, Kind::Sglang]),
        ("--kv-unified", args.kv_unified, &[Kind::LlamaCpp]),
        ("--flash-attention", args.flash_attention.is_some(), flash_attention::KNOB.engines),
        ("--gpu-layers", args.gpu_layers.is_some(), layers::KNOB.engines),
        ("--n-cpu-moe", args.n_cpu_moe.is_some(), host_experts::KNOB.engines),
        ("--cpu-moe", args.cpu_moe, host_experts::KNOB.engines),
        ("--mmproj", args.mmproj.is_some(), image_encoder::KNOB.engines),
        ("--no-mmproj-offload", args.no_mmproj_offload, image_encoder::KNOB.engines),
        ("--main-gpu", is_main_idle, &[]),
        ("--tensor-parallel-size", args.tensor_parallel_size > 1, gpus::KNOB.engines),
        ("--share", args.share.is_some(), share::KNOB.engines),
        ("--max-memory", args.max_memory.is_some(), max_memory::KNOB.engines),
        ("--optimizer", args.optimizer != Optimizer::AdamW, optimizer::KNOB.engines),
        ("--zero", args.zero.is_some_and(|stage| stage > 0), sharing::KNOB.engines),
        ("--cards", args.cards.is_some_and(|cards| cards > 1), sharing::KNOB.engines),
        ("--offload-optimizer", args.offload_optimizer, sharing::KNOB.engines),
        ("--lora-rank", args.lora_rank != 16, recipe::KNOB.engines),
        ("--gradient-checkpointing", args.gradient_checkpointing, checkpointing::KNOB.engines),
    ]
}
