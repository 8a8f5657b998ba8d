//! Owns what `oomdoctor fit` takes: its flags and how their values are read.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::cli::hosts::HostArgs;
use crate::memory::{Kind, Optimizer};
use crate::units::{Bytes, UnitBase, whole};

/// What `fit` takes.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// A GGUF file, a folder with config.json, or a model's name; without it, lists the models on this machine.
    pub model: Option<String>,
    /// Context length in tokens: 32768, 32K [default: the engine's]
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub context: Option<u64>,
    /// Type of the KV cache: f16, q8_0 (vLLM: fp8).
    #[arg(long, value_name = "TYPE")]
    pub kv_type: Option<String>,
    /// Type of K, if it differs from V.
    #[arg(long, value_name = "TYPE")]
    pub k_type: Option<String>,
    /// Type of V, if it differs from K.
    #[arg(long, value_name = "TYPE")]
    pub v_type: Option<String>,
    /// Physical batch size in tokens (llama.cpp -ub).
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub micro_batch: Option<u64>,
    /// Batch size: tokens (llama.cpp, vLLM), prefill chunk (SGLang), sequences (transformers, training).
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub batch: Option<u64>,
    /// Number of parallel slots or sequences.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub parallel: Option<u64>,
    /// llama.cpp: share one KV cache between all slots.
    #[arg(long)]
    pub kv_unified: bool,
    /// Flash attention [default: on]
    #[arg(long, value_name = "on|off", value_parser = on_or_off())]
    pub flash_attention: Option<bool>,
    /// Layers on the GPU, the output layer included [default: all]
    #[arg(long, value_name = "N")]
    pub gpu_layers: Option<u64>,
    /// llama.cpp: keep the experts of N layers in RAM.
    #[arg(long, value_name = "N")]
    pub n_cpu_moe: Option<u64>,
    /// llama.cpp: keep all experts in RAM.
    #[arg(long)]
    pub cpu_moe: bool,
    /// llama.cpp: the image encoder's file.
    #[arg(long, value_name = "FILE")]
    pub mmproj: Option<PathBuf>,
    /// llama.cpp: keep the image encoder in RAM.
    #[arg(long)]
    pub no_mmproj_offload: bool,
    /// llama.cpp on several GPUs: the share of each, such as 3,1 [default: by free VRAM]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = share_of_cards)]
    pub tensor_split: Vec<u64>,
    /// llama.cpp on several GPUs: how to split the model.
    #[arg(long, value_name = "MODE")]
    pub split_mode: Option<SplitMode>,
    /// llama.cpp on several GPUs: the GPU with the image encoder, counted from 0.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub main_gpu: usize,
    /// vLLM and SGLang: number of GPUs that share each layer.
    #[arg(long, visible_alias = "tp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub tensor_parallel_size: u64,
    /// vLLM: number of GPUs with whole layers each.
    #[arg(long, visible_alias = "pp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub pipeline_parallel_size: u64,
    /// Share of the VRAM that vLLM or SGLang may use, such as 0.85.
    #[arg(long, visible_aliases = ["gpu-memory-utilization", "mem-fraction-static"], value_name = "SHARE", value_parser = thousandths)]
    pub share: Option<u64>,
    /// transformers: limit of VRAM for the weights with device_map="auto", such as 20GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_memory: Option<Bytes>,
    /// Training: the optimizer.
    #[arg(long, value_name = "NAME", default_value = "adamw")]
    pub optimizer: Optimizer,
    /// Training: DeepSpeed's ZeRO stage; FSDP's FULL_SHARD is 3.
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: Option<u8>,
    /// Training: number of GPUs [default: 1; with --zero, all that are free]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub cards: Option<u64>,
    /// Training: keep the optimizer's states in RAM.
    #[arg(long)]
    pub offload_optimizer: bool,
    /// Training: rank of the LoRA or QLoRA adapters.
    #[arg(long, value_name = "RANK", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub lora_rank: u64,
    /// Training: enable gradient checkpointing.
    #[arg(long)]
    pub gradient_checkpointing: bool,
    /// The program that runs the model [default: by the kind of model]
    #[arg(long, value_name = "NAME")]
    pub engine: Option<Kind>,
    /// Type of the weights: auto, float32, bfloat16, int8, nf4 (transformers); float32, mixed, bfloat16, lora, qlora
    /// (training); a quantization such as Q4_K_M.
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<String>,
    /// The GPU, by the driver's index [default: the one with the most free VRAM]
    #[arg(long, value_name = "INDEX")]
    pub gpu: Option<u32>,
    /// Print JSON (schema 1).
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub hosts: HostArgs,
}

/// How llama.cpp spreads a model, as it takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitMode {
    /// One GPU only.
    None,
    /// Whole layers on each GPU.
    Layer,
    /// Rows of each matrix on each GPU.
    Row,
}

/// On or off, as llama.cpp takes it.
fn on_or_off() -> impl TypedValueParser<Value = bool> {
    let words = [PossibleValue::new("on").help("On"), PossibleValue::new("off").help("Off")];
    PossibleValuesParser::new(words).map(|word| word == "on")
}

/// Parses a share of the GPU's memory between 0 and 1, in thousandths.
fn thousandths(text: &str) -> Result<u64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.map(|share| whole(share * 1000.0)).ok_or_else(|| format!("`{text}` is not a share above 0 and up to 1"))
}

/// A GPU's share in thousandths of what is written.
fn share_of_cards(text: &str) -> Result<u64, String> {
    let share = text.trim().parse::<f64>().ok().filter(|share| (0.0..=1e9).contains(share));
    share.map(|share| whole(share * 1000.0)).ok_or_else(|| format!("`{text}` is not a share of a GPU"))
}

/// A size such as 20GiB or 500MB.
fn size(text: &str) -> Result<Bytes, String> {
    Bytes::parse(text, UnitBase::Decimal).ok_or_else(|| format!("`{text}` is not a size such as 20GiB"))
}

/// A number of tokens, 1 to 2^40, with K for 1024 and M for 1024 of those.
fn tokens(text: &str) -> Result<u64, String> {
    let (digits, unit) = match (text.strip_suffix(['k', 'K']), text.strip_suffix(['m', 'M'])) {
        (Some(digits), _) => (digits, 1 << 10),
        (_, Some(digits)) => (digits, 1 << 20),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number
        .filter(|number| (1..=1 << 40).contains(number))
        .ok_or_else(|| format!("`{text}` is not a number of tokens such as 32768 or 32K"))
}
