//! Owns llama.cpp over several GPUs of this machine: each GPU's share against what is free on it, and what would make
//! it fit. The formulas are `memory::split`'s. Knows nothing of words.

use super::flags::{FitArgs, SplitMode};
use crate::memory::engine::ollama_spreads;
use crate::memory::fits::largest;
use crate::memory::split::{self, Mode, Share};
use crate::memory::{Card, Engine, ModelShape, Settings, fits, share_in_words};
use crate::units::Bytes;

/// A model over several GPUs.
pub(super) struct Spread {
    /// Each GPU with what it takes, in the driver's order.
    pub cards: Vec<(Card, Share)>,
    /// Whether each has room for it.
    pub fits: bool,
    /// Whether layers go where there is room for them, so that more room changes the shares.
    pub by_free: bool,
    /// The flags of this split.
    pub flags: String,
    /// What would fit instead, in words and as flags; `None` where it fits already or nothing does.
    pub instead: Option<(String, String)>,
}

/// How the model lies on several GPUs; and all of them as one, where the engine lays it out over them by itself.
pub(super) fn laid_out(
    args: &FitArgs,
    engine: &mut Engine,
    shape: &ModelShape,
    cards: &[Card],
    card: Option<&Card>,
) -> Result<(Option<Spread>, Option<Card>), String> {
    let together = if is_usual(args, engine, shape, card) { Card::together(cards) } else { None };
    if together.is_none() {
        return Ok((as_asked(args, engine, shape, cards)?, None));
    }
    *engine = engine.over(cards.len());
    Ok((by_itself(engine, shape, cards), together))
}

/// The split that is asked for; `None` where none is.
fn as_asked(args: &FitArgs, engine: &Engine, shape: &ModelShape, cards: &[Card]) -> Result<Option<Spread>, String> {
    let asked = !args.tensor_split.is_empty() || matches!(args.split_mode, Some(SplitMode::Layer | SplitMode::Row));
    let Engine::LlamaCpp(settings) = engine else {
        return if asked { Err("--tensor-split and --split-mode work with llama.cpp only".into()) } else { Ok(None) };
    };
    if !cards.is_empty() && args.main_gpu >= cards.len() {
        return Err(format!(
            "--main-gpu {}: there is no such GPU; this machine has {}, counted from 0",
            args.main_gpu,
            cards.len()
        ));
    }
    if !asked || args.split_mode == Some(SplitMode::None) {
        return Ok(None);
    }
    let cards: Vec<Card> = cards.iter().take(cards_named(args, cards)?).cloned().collect();
    let free: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
    let mode = if args.split_mode == Some(SplitMode::Row) { Mode::Row } else { Mode::Layer };
    let shares: Vec<u64> = match (args.tensor_split.as_slice(), mode) {
        ([], Mode::Layer) => free.iter().map(|free| split::in_hundreds(*free)).collect(),
        // Rows are shared out by the GPUs' size where nothing is said.
        ([], Mode::Row) => cards.iter().map(|card| split::in_hundreds(card.total)).collect(),
        (said, _) => said.to_vec(),
    };
    let taken = split::over(shape, settings, mode, &shares, args.main_gpu)?;
    let fits = split::fits(&taken, &free);
    let instead = if fits { None } else { instead(args, shape, settings, mode, &shares, &free) };
    let by_free = mode == Mode::Layer && args.tensor_split.is_empty();
    Ok(Some(Spread { cards: cards.into_iter().zip(taken).collect(), fits, by_free, flags: flags(args, mode), instead }))
}

/// The split that is asked for, as llama.cpp takes it.
fn flags(args: &FitArgs, mode: Mode) -> String {
    let mut flags = if mode == Mode::Row { "-sm row" } else { "-sm layer" }.to_owned();
    if !args.tensor_split.is_empty() {
        let shares: Vec<String> = args.tensor_split.iter().map(|share| share_in_words(*share)).collect();
        flags += &format!(" -ts {}", shares.join(","));
    }
    if args.main_gpu > 0 {
        flags += &format!(" -mg {}", args.main_gpu);
    }
    flags
}

/// How many GPUs a split names. The error says what is wrong with it.
fn cards_named(args: &FitArgs, cards: &[Card]) -> Result<usize, String> {
    let wanted = if args.tensor_split.is_empty() { cards.len() } else { args.tensor_split.len() };
    if wanted > cards.len() || cards.is_empty() {
        return Err(format!("--tensor-split names {wanted} GPUs, but this machine has {} readable ones", cards.len()));
    }
    if args.main_gpu >= wanted {
        return Err(format!("--main-gpu {}: --tensor-split names {wanted} GPUs, counted from 0", args.main_gpu));
    }
    Ok(wanted)
}

/// What would fit instead of a split that was asked for, in words and as flags.
fn instead(
    args: &FitArgs,
    shape: &ModelShape,
    settings: &Settings,
    mode: Mode,
    shares: &[u64],
    free: &[Bytes],
) -> Option<(String, String)> {
    if let Some(better) = split::fitting(shape, settings, free) {
        let shares: Vec<String> = better.iter().map(u64::to_string).collect();
        let flags = format!("-sm layer -ts {}", shares.join(","));
        return Some(("layers split by free VRAM".to_owned(), flags));
    }
    let count = largest(1, shape.units(), |count| {
        let few = Settings { gpu_layers: Some(count), ..*settings };
        split::over(shape, &few, mode, shares, args.main_gpu).is_ok_and(|taken| split::fits(&taken, free))
    })?;
    Some((format!("{count} of {} layers on the GPUs", shape.units()), format!("{} -ngl {count}", flags(args, mode))))
}

/// llama.cpp or Ollama over all GPUs, as they do by themselves. What would fit instead is among the choices.
fn by_itself(engine: &Engine, shape: &ModelShape, cards: &[Card]) -> Option<Spread> {
    let (Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = engine else { return None };
    let free: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
    let shares = split::fitting(shape, settings, &free)
        .unwrap_or_else(|| free.iter().map(|free| split::in_hundreds(*free)).collect());
    let taken = split::over(shape, settings, Mode::Layer, &shares, 0).ok()?;
    let (fits, flags) = (split::fits(&taken, &free), split::flags(shape, settings, &free).unwrap_or_default());
    let cards = cards.iter().cloned().zip(taken).collect();
    Some(Spread { cards, fits, by_free: true, flags, instead: None })
}

/// Whether it lays the model out over all GPUs: where it was not told another way, and one is not enough for it.
fn is_usual(args: &FitArgs, engine: &Engine, shape: &ModelShape, card: Option<&Card>) -> bool {
    let told = args.gpu.is_some() || args.split_mode.is_some() || !args.tensor_split.is_empty();
    let Some(card) = card else { return false };
    let is_too_little = match engine {
        Engine::LlamaCpp(_) => fits(engine, shape, Some(card)) == Some(false),
        Engine::Ollama(settings) => ollama_spreads(shape, settings, card.free),
        _ => false,
    };
    !told && is_too_little
}
