//! Owns what `oomdoctor fit` takes: its flags and how their values are read.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::memory::{Kind, Optimizer};
use crate::units::{Bytes, UnitBase, whole};

/// What `fit` takes.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// A GGUF file, a folder with config.json, or a model's name; without it, the models this machine has.
    pub model: Option<String>,
    /// Tokens of context, such as 32768 or 32K; without it, what the engine would take.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub context: Option<u64>,
    /// Type of the KV cache, such as q8_0 (vLLM: fp8).
    #[arg(long, value_name = "TYPE")]
    pub kv_type: Option<String>,
    /// Type of K alone.
    #[arg(long, value_name = "TYPE")]
    pub k_type: Option<String>,
    /// Type of V alone.
    #[arg(long, value_name = "TYPE")]
    pub v_type: Option<String>,
    /// Tokens computed at once.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub micro_batch: Option<u64>,
    /// Tokens handed over at once (llama.cpp, vLLM) or prefilled at once (SGLang); sequences at once (transformers,
    /// training).
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub batch: Option<u64>,
    /// Slots or sequences served at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub parallel: Option<u64>,
    /// llama.cpp: the slots share one cache, as they do where llama-server chooses their number.
    #[arg(long)]
    pub kv_unified: bool,
    /// Flash attention; on unless said otherwise.
    #[arg(long, value_name = "on|off", value_parser = on_or_off())]
    pub flash_attention: Option<bool>,
    /// Layers on the GPU; the output layer counts as one. All of them by default.
    #[arg(long, value_name = "N")]
    pub gpu_layers: Option<u64>,
    /// llama.cpp: the experts of so many layers stay in system memory.
    #[arg(long, value_name = "N")]
    pub n_cpu_moe: Option<u64>,
    /// llama.cpp: all experts stay in system memory.
    #[arg(long)]
    pub cpu_moe: bool,
    /// llama.cpp: the image encoder's file.
    #[arg(long, value_name = "FILE")]
    pub mmproj: Option<PathBuf>,
    /// llama.cpp: the image encoder stays in system memory.
    #[arg(long)]
    pub no_mmproj_offload: bool,
    /// llama.cpp over several cards: each one's share, such as 3,1; without it, by what is free.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = share_of_cards)]
    pub tensor_split: Vec<u64>,
    /// llama.cpp over several cards: none, layer or row.
    #[arg(long, value_name = "MODE")]
    pub split_mode: Option<SplitMode>,
    /// llama.cpp over several cards: the one with the image encoder, counted from 0.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub main_gpu: usize,
    /// vLLM and SGLang: cards that share the model.
    #[arg(long, visible_alias = "tp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub tensor_parallel_size: u64,
    /// vLLM: cards with whole layers each.
    #[arg(long, visible_alias = "pp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub pipeline_parallel_size: u64,
    /// vLLM's --gpu-memory-utilization, SGLang's --mem-fraction-static, such as 0.85.
    #[arg(long, visible_aliases = ["gpu-memory-utilization", "mem-fraction-static"], value_name = "SHARE", value_parser = thousandths)]
    pub share: Option<u64>,
    /// transformers: the most VRAM that the weights may use with device_map="auto", such as 20GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_memory: Option<Bytes>,
    /// Training: the optimizer.
    #[arg(long, value_name = "NAME", default_value = "adamw")]
    pub optimizer: Optimizer,
    /// Training: DeepSpeed's ZeRO stage (FSDP's FULL_SHARD is 3); without it, others are offered.
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: Option<u8>,
    /// Training: cards that share; with --zero alone, those of this machine that are free.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub cards: Option<u64>,
    /// Training: the optimizer's states in system memory.
    #[arg(long)]
    pub offload_optimizer: bool,
    /// Training: the rank of LoRA's and QLoRA's adapters.
    #[arg(long, value_name = "RANK", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub lora_rank: u64,
    /// Training: compute activations again instead of keeping them.
    #[arg(long)]
    pub gradient_checkpointing: bool,
    /// Which program is to run it; without it, by the kind of model.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<Kind>,
    /// transformers: auto, float32, bfloat16, int8, nf4; training: float32, mixed, bfloat16, lora, qlora. A model
    /// from the table: its quantisation, such as Q4_K_M.
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<String>,
    /// Which card, by the driver's index; without it, the one with most free memory.
    #[arg(long, value_name = "INDEX")]
    pub gpu: Option<u32>,
    /// Print JSON (contract schema 1).
    #[arg(long)]
    pub json: bool,
}

/// How llama.cpp spreads a model, as it takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitMode {
    /// One card.
    None,
    /// Whole layers.
    Layer,
    /// Rows of each matrix.
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
    share.map(|share| whole(share * 1000.0)).ok_or_else(|| format!("{text} is no share above 0 and up to 1"))
}

/// A card's share in thousandths of what is written.
fn share_of_cards(text: &str) -> Result<u64, String> {
    let share = text.trim().parse::<f64>().ok().filter(|share| (0.0..=1e9).contains(share));
    share.map(|share| whole(share * 1000.0)).ok_or_else(|| format!("{text} is no share of a card"))
}

/// A size such as 20GiB or 500MB.
fn size(text: &str) -> Result<Bytes, String> {
    Bytes::parse(text, UnitBase::Decimal).ok_or_else(|| format!("{text} is no size such as 20GiB"))
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
        .ok_or_else(|| format!("{text} is no number of tokens from 1 on"))
}
