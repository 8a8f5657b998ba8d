//! Owns `oomdoctor fit`: whether a model fits on a card with what is free on it now, and what would make it fit.
//! Exit codes: 0 it fits, 1 it does not or that is not known, 2 wrong usage or an unreadable model.
//! Knows no formula: those are in `memory`.

mod arguments;
mod list;
mod locate;
mod spread;
mod stores;
mod words;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::arguments::{EngineName, OptimizerName};
use self::locate::{Located, Source};
use self::spread::Spread;
use super::{Global, live};
use crate::advice::fit::holders::{self, Holder};
use crate::gpu::guard::Viewer;
use crate::gpu::{Device, Driver, Snapshot};
use crate::memory::options::{self, Card, Choice};
use crate::memory::quant::MIXES;
use crate::memory::{Engine, Estimate, sglang};
use crate::runtime::kernel::Kernel;
use crate::text::harmless;
use crate::units::{Bytes, UnitBase};

/// On or off, as llama.cpp takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnOff {
    /// On.
    On,
    /// Off.
    Off,
}

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
    /// Tokens handed over at once (llama.cpp, vLLM); sequences at once (transformers, training).
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub batch: Option<u64>,
    /// Slots or sequences served at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub parallel: Option<u64>,
    /// Flash attention; on unless said otherwise.
    #[arg(long, value_name = "on|off")]
    pub flash_attention: Option<OnOff>,
    /// Layers on the card, the output counts as one; all without it.
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
    /// vLLM's --gpu-memory-utilization, SGLang's --mem-fraction-static, such as 0.85.
    #[arg(long, visible_aliases = ["gpu-memory-utilization", "mem-fraction-static"], value_name = "SHARE", value_parser = thousandths)]
    pub share: Option<u64>,
    /// transformers: what the weights may take of the card with device_map="auto", such as 20GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_memory: Option<Bytes>,
    /// Training: the optimizer.
    #[arg(long, value_name = "NAME", default_value = "adamw")]
    pub optimizer: OptimizerName,
    /// Training: DeepSpeed's ZeRO stage (FSDP's FULL_SHARD is 3).
    #[arg(long, value_name = "STAGE", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// Training: cards that share by --zero.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub cards: u64,
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
    pub engine: Option<EngineName>,
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

/// A share of the card between 0 and 1, in thousandths.
fn thousandths(text: &str) -> Result<u64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    share.map(|share| (share * 1000.0).round() as u64).ok_or_else(|| format!("{text} is no share above 0 and up to 1"))
}

/// A card's share in thousandths of what is written.
fn share_of_cards(text: &str) -> Result<u64, String> {
    let share = text.trim().parse::<f64>().ok().filter(|share| (0.0..=1e9).contains(share));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10^12")]
    share.map(|share| (share * 1000.0).round() as u64).ok_or_else(|| format!("{text} is no share of a card"))
}

/// A size such as 20GiB or 500MB.
fn size(text: &str) -> Result<Bytes, String> {
    Bytes::parse(text, UnitBase::Decimal).ok_or_else(|| format!("{text} is no size such as 20GiB"))
}

/// A number of tokens, 1 to 2^40, with K for 1024.
fn tokens(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number
        .filter(|number| (1..=1 << 40).contains(number))
        .ok_or_else(|| format!("{text} is no number of tokens from 1 on"))
}

/// Everything there is to say.
struct Answer {
    asked: String,
    located: Located,
    engine: Engine,
    estimate: Estimate,
    card: Option<Card>,
    fits: Option<bool>,
    why_not_known: Option<String>,
    options: Vec<Choice>,
    /// Who could let go of memory on the card, the largest first.
    holders: Vec<Holder>,
    /// Over several cards, where that is asked for.
    spread: Option<Spread>,
    /// Where llama.cpp's own measuring program is installed.
    fit_params: Option<PathBuf>,
    /// What a person should know beside the figures.
    notes: Vec<String>,
    /// Whether the machine has more cards than this one.
    several_cards: bool,
    /// Whether the context was asked for, so that a shorter one is not the first offer.
    context_asked: bool,
}

impl Answer {
    /// The model's name: as asked for, or the last part of a path.
    fn name(&self) -> String {
        let own = self.located.shape.name.as_deref().filter(|_| self.located.source == Source::Gguf);
        harmless(own.unwrap_or(self.asked.trim_end_matches('/'))).into_owned()
    }

    /// Free on the card once those have ended that could.
    fn free_after(&self) -> Option<Bytes> {
        let card = self.card.as_ref().filter(|_| !self.holders.is_empty())?;
        let held = self.holders.iter().fold(card.free, |sum, holder| sum.plus(holder.bytes));
        Some(if held > card.total { card.total } else { held })
    }

    /// Whose end makes it fit as it is; empty where it fits already, or where that is not enough.
    fn in_the_way(&self) -> Vec<&Holder> {
        let (Some(total), Some(card)) = (self.estimate.total(), &self.card) else { return Vec::new() };
        let enough = holders::enough(&self.holders, total.less(card.free));
        let free = enough.iter().fold(card.free, |sum, holder| sum.plus(holder.bytes));
        let then = Card { free, ..card.clone() };
        let fits =
            self.fits == Some(false) && options::fits(&self.engine, &self.located.shape, Some(&then)) == Some(true);
        if fits { enough } else { Vec::new() }
    }

    /// The change to offer first.
    fn best(&self) -> Option<&Choice> {
        let fitting = || self.options.iter().filter(|choice| choice.fits == Some(true));
        let keeps = || fitting().find(|choice| !choice.shortens);
        let shorter = || fitting().rfind(|choice| choice.shortens);
        if self.context_asked { keeps().or_else(shorter) } else { shorter().or_else(keeps) }
    }
}

/// Answers; 2 where the model or an argument can't be used.
#[allow(clippy::print_stderr, reason = "the command line's own voice")]
pub fn run(global: &Global, args: &FitArgs) -> ExitCode {
    let said = match &args.model {
        None => machine(global, args.gpu).map(|machine| {
            let holders = machine.holders(&Kernel::new(global.procfs()).viewer());
            list::answer(args, machine.card(), &holders)
        }),
        Some(model) => answer(global, args, model).map(|answer| {
            let text = if args.json { format!("{:#}\n", words::json(&answer)) } else { words::text(&answer) };
            (text, answer.fits == Some(true))
        }),
    };
    let (text, fits) = match said {
        Ok(said) => said,
        Err(message) => return super::refuse(&harmless(&message).replace('\n', " ")),
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("oomdoctor fit: the answer could not be written: {error}");
            ExitCode::from(2)
        }
        _ if fits => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

/// The quantisation to assume for a model that only the table knows.
fn assumed_mix(args: &FitArgs) -> String {
    let of_torch = matches!(
        args.engine,
        Some(EngineName::Vllm | EngineName::Sglang | EngineName::Transformers | EngineName::Train)
    );
    match &args.dtype {
        Some(dtype) if !of_torch => dtype.to_uppercase(),
        _ if of_torch => "BF16".into(),
        _ => "Q4_K_M".into(),
    }
}

/// The cards of this machine, which of them is meant, and why there is none.
struct Machine {
    cards: Vec<Card>,
    chosen: Option<usize>,
    no_card: Option<String>,
    snapshot: Option<Snapshot>,
}

impl Machine {
    fn card(&self) -> Option<&Card> {
        self.chosen.and_then(|at| self.cards.get(at))
    }

    /// The card that decides for this engine: the chosen one; of a model that several share evenly, the one with least
    /// free memory among as many as it takes. Why there is none, where there are too few.
    fn card_for(&self, engine: &Engine, wish: Option<u32>) -> (Option<&Card>, Option<String>) {
        let ranks = usize::try_from(engine.ranks()).unwrap_or(usize::MAX);
        if ranks == 1 || wish.is_some() && self.cards.len() >= ranks {
            return (self.card(), None);
        }
        let mut free: Vec<&Card> = self.cards.iter().collect();
        free.sort_by_key(|card| std::cmp::Reverse(card.free));
        let there = self.cards.len();
        match free.get(ranks.saturating_sub(1)) {
            Some(least) => (Some(*least), None),
            // Of a run on many machines each card is like this one.
            None if matches!(engine, Engine::Train(_)) => (self.card(), None),
            None => (None, Some(format!("it is to run on {ranks} cards and this machine has {there}"))),
        }
    }

    /// Who could let go of memory on the chosen card.
    fn holders(&self, viewer: &Viewer) -> Vec<Holder> {
        let chosen = self.card().map(|card| card.index);
        let devices = self.snapshot.iter().flat_map(|snapshot| &snapshot.devices);
        let device = devices.into_iter().find(|device| Some(device.index) == chosen);
        device.map(|device| holders::idle(device, viewer)).unwrap_or_default()
    }
}

/// Reads this machine once; without a wish the card with most free memory is meant.
fn machine(global: &Global, wish: Option<u32>) -> Result<Machine, String> {
    let (snapshot, (cards, no_card)) = match live::read_one_snapshot(global) {
        Ok((_, snapshot)) => {
            let snapshot = snapshot.harmless();
            let cards = cards(&snapshot);
            (Some(snapshot), cards)
        }
        Err(error) => (None, (Vec::new(), Some(error.to_string()))),
    };
    let places = cards.iter().enumerate();
    let chosen = match wish {
        Some(index) if !cards.is_empty() => {
            let found = places.into_iter().find(|(_, card)| card.index == index);
            Some(found.ok_or_else(|| format!("there is no GPU {index} that can be read"))?)
        }
        _ => places.max_by_key(|(_, card)| (card.free, std::cmp::Reverse(card.index))),
    };
    let chosen = chosen.map(|(at, _)| at);
    Ok(Machine { cards, chosen, no_card, snapshot })
}

fn answer(global: &Global, args: &FitArgs, model: &str) -> Result<Answer, String> {
    let mix = assumed_mix(args);
    if !MIXES.contains(&mix.as_str()) {
        return Err(format!("--dtype {mix}: give one of {}", MIXES.join(", ")));
    }
    let mut located = locate::locate(model, &mix)?;
    if let Some(encoder) = &args.mmproj {
        located.shape.projector = locate::encoder(encoder)?;
    }
    let located = located;
    let machine = machine(global, args.gpu)?;
    let cards = &machine.cards;
    let name = args.engine.unwrap_or(match located.source {
        Source::Ollama => EngineName::Ollama,
        Source::Checkpoint => EngineName::Transformers,
        _ => EngineName::LlamaCpp,
    });
    let capacity = machine.card().map(|card| card.total);
    let engine = arguments::engine(name, args, &located, capacity)?;
    let (card, too_few) = machine.card_for(&engine, args.gpu);
    let estimate = engine.estimate(&located.shape);
    let spread = spread::spread(args, &engine, &located.shape, cards)?;
    let fits = match &spread {
        Some(spread) => Some(spread.fits),
        None => options::fits(&engine, &located.shape, card),
    };
    let unknown = || estimate.why_not().map(str::to_owned).or(too_few).or_else(|| machine.no_card.clone());
    let why_not_known = if fits.is_none() { unknown() } else { None };
    let pool = match (&engine, card) {
        (Engine::Sglang(serving), Some(card)) => sglang::tokens(&located.shape, serving, card.free).ok(),
        _ => None,
    };
    let pool = pool.filter(|tokens| *tokens > 0).map(|tokens| {
        format!(
            "SGLang gives its pool what the weights leave of the share: about {tokens} tokens here. It starts with fewer than the context, too, and then refuses longer requests"
        )
    });
    let notes: Vec<String> = located.note.iter().cloned().chain(pool).collect();
    let of_llama = matches!(engine, Engine::LlamaCpp(_)) && located.file.is_some();
    Ok(Answer {
        asked: model.to_owned(),
        holders: if engine.ranks() == 1 && spread.is_none() {
            machine.holders(&Kernel::new(global.procfs()).viewer())
        } else {
            Vec::new()
        },
        several_cards: cards.len() > 1 && engine.ranks() == 1 && spread.is_none(),
        options: if spread.is_some() { Vec::new() } else { options::options(engine, &located.shape, card, cards) },
        notes,
        fit_params: of_llama.then(|| installed("llama-fit-params")).flatten(),
        spread,
        engine,
        why_not_known,
        card: card.cloned(),
        fits,
        context_asked: args.context.is_some(),
        estimate,
        located,
    })
}

/// Where a program is, among the folders of PATH.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The cards that can be read, or why there is none.
fn cards(snapshot: &Snapshot) -> (Vec<Card>, Option<String>) {
    let card = |device: &Device| {
        Some(Card {
            index: device.index,
            uuid: device.uuid.known().cloned(),
            name: device.name.known().cloned().unwrap_or_else(|| "GPU".into()),
            total: device.memory.total_bytes.value()?,
            free: device.memory.free_bytes.value()?,
        })
    };
    let cards: Vec<Card> = snapshot.devices.iter().filter(|device| device.error.is_none()).filter_map(card).collect();
    let why = match &snapshot.driver {
        Driver::Unavailable { unavailable } => unavailable.clone(),
        Driver::Available { .. } => "no card's free memory can be read".into(),
    };
    let why = cards.is_empty().then_some(why);
    (cards, why)
}
