//! Owns llama.cpp over several cards of this machine: each card's share against what is free on it, and what would make
//! it fit. The formulas are `memory::split`'s. Knows nothing of words.

use super::flags::{FitArgs, SplitMode};
use crate::memory::card::Card;
use crate::memory::engine::ollama_spreads;
use crate::memory::fits::fits;
use crate::memory::largest::largest;
use crate::memory::split::{self, Mode, Share};
use crate::memory::{Engine, ModelShape, Settings};
use crate::units::Bytes;

/// A model over several cards.
pub(super) struct Spread {
    /// Each card with what it takes, in the driver's order.
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

/// The split that is asked for; `None` where none is.
pub(super) fn spread(
    args: &FitArgs,
    engine: &Engine,
    shape: &ModelShape,
    cards: &[Card],
) -> Result<Option<Spread>, String> {
    let asked = !args.tensor_split.is_empty() || matches!(args.split_mode, Some(SplitMode::Layer | SplitMode::Row));
    let Engine::LlamaCpp(settings) = engine else {
        return if asked { Err("--tensor-split and --split-mode are llama.cpp's".into()) } else { Ok(None) };
    };
    if !cards.is_empty() && args.main_gpu >= cards.len() {
        return Err(format!(
            "--main-gpu {}: the card is not here; counted from 0 there are {}",
            args.main_gpu,
            cards.len()
        ));
    }
    if !asked || args.split_mode == Some(SplitMode::None) {
        return Ok(None);
    }
    let wanted = if args.tensor_split.is_empty() { cards.len() } else { args.tensor_split.len() };
    if wanted > cards.len() || cards.is_empty() {
        return Err(format!("--tensor-split names {wanted} cards and {} can be read", cards.len()));
    }
    if args.main_gpu >= wanted {
        return Err(format!("--main-gpu {}: there are {wanted} cards, counted from 0", args.main_gpu));
    }
    let cards: Vec<Card> = cards.iter().take(wanted).cloned().collect();
    let free: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
    let mode = if args.split_mode == Some(SplitMode::Row) { Mode::Row } else { Mode::Layer };
    let shares: Vec<u64> = match (args.tensor_split.as_slice(), mode) {
        ([], Mode::Layer) => free.iter().map(|free| split::in_hundreds(*free)).collect(),
        // Rows are shared out by the cards' size where nothing is said.
        ([], Mode::Row) => cards.iter().map(|card| split::in_hundreds(card.total)).collect(),
        (said, _) => said.to_vec(),
    };
    let taken = split::over(shape, settings, mode, &shares, args.main_gpu)?;
    let fits = split::fits(&taken, &free);
    let name = if mode == Mode::Row { "row" } else { "layer" };
    let said = |shares: &[u64]| shares.iter().map(|share| number(*share)).collect::<Vec<_>>().join(",");
    let mut flags = format!("-sm {name}");
    if !args.tensor_split.is_empty() {
        flags = format!("{flags} -ts {}", said(&shares));
    }
    if args.main_gpu > 0 {
        flags = format!("{flags} -mg {}", args.main_gpu);
    }
    let instead = || {
        if let Some(better) = split::fitting(shape, settings, &free) {
            let shares = better.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            return Some(("layers shared out by what is free".to_owned(), format!("-sm layer -ts {shares}")));
        }
        let all = shape.layer_count().saturating_add(1);
        let fine = |count: u64| {
            let few = Settings { gpu_layers: Some(count), ..*settings };
            split::over(shape, &few, mode, &shares, args.main_gpu).is_ok_and(|taken| split::fits(&taken, &free))
        };
        let count = largest(1, all, fine)?;
        Some((format!("{count} of {all} layers on the cards"), format!("{flags} -ngl {count}")))
    };
    let instead = if fits { None } else { instead() };
    let by_free = mode == Mode::Layer && args.tensor_split.is_empty();
    Ok(Some(Spread { cards: cards.into_iter().zip(taken).collect(), fits, by_free, flags, instead }))
}

/// llama.cpp or Ollama over all cards, as they do by themselves. What would fit instead is among the choices.
pub(super) fn by_itself(engine: &Engine, shape: &ModelShape, cards: &[Card]) -> Option<Spread> {
    let (Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = engine else { return None };
    let free: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
    let plain = || free.iter().map(|free| split::in_hundreds(*free)).collect::<Vec<_>>();
    let whole = split::fitting(shape, settings, &free);
    let taken = split::over(shape, settings, Mode::Layer, &whole.unwrap_or_else(plain), 0).ok()?;
    let (fits, flags) = (split::fits(&taken, &free), split::flags(shape, settings, &free).unwrap_or_default());
    let cards = cards.iter().cloned().zip(taken).collect();
    Some(Spread { cards, fits, by_free: true, flags, instead: None })
}

/// Whether it lays the model out over all cards: where it was not told another way, and one is not enough for it.
pub(super) fn is_usual(args: &FitArgs, engine: &Engine, shape: &ModelShape, card: Option<&Card>) -> bool {
    let told = args.gpu.is_some() || args.split_mode.is_some() || !args.tensor_split.is_empty();
    let one_is_enough = |card: &Card| match engine {
        Engine::LlamaCpp(_) => fits(engine, shape, Some(card)) != Some(false),
        Engine::Ollama(settings) => !ollama_spreads(shape, settings, card.free),
        _ => true,
    };
    !told && !card.is_none_or(one_is_enough)
}

/// A share in thousandths as it is typed.
fn number(share: u64) -> String {
    let text = format!("{}.{:03}", share / 1000, share % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
