//! Owns llama.cpp over several cards of this machine: each card's share against what is free on it, and what would make
//! it fit. The formulas are `memory::split`'s. Knows nothing of words.

use super::{FitArgs, SplitMode};
use crate::memory::options::Card;
use crate::memory::split::{self, Mode, Share};
use crate::memory::{Engine, ModelShape, Settings, search};
use crate::units::Bytes;

/// A model over several cards.
pub struct Spread {
    /// Each card with what it takes, in the driver's order.
    pub cards: Vec<(Card, Share)>,
    /// Whether each has room for it.
    pub fits: bool,
    /// The flags of this split.
    pub flags: String,
    /// What would fit instead, in words and as flags; `None` where it fits already or nothing does.
    pub instead: Option<(String, String)>,
}

/// The split that is asked for; `None` where none is.
pub fn spread(args: &FitArgs, engine: &Engine, shape: &ModelShape, cards: &[Card]) -> Result<Option<Spread>, String> {
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
        let count = search::largest(1, all, fine)?;
        Some((format!("{count} of {all} layers on the cards"), format!("{flags} -ngl {count}")))
    };
    let instead = if fits { None } else { instead() };
    Ok(Some(Spread { cards: cards.into_iter().zip(taken).collect(), fits, flags, instead }))
}

/// Ollama over all cards, which it does by itself where one is not enough; `None` where there is one card only. What
/// would fit instead is a whole line here.
pub fn by_itself(settings: &Settings, shape: &ModelShape, cards: &[Card], context_asked: bool) -> Option<Spread> {
    let free: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
    let plain: Vec<u64> = free.iter().map(|free| split::in_hundreds(*free)).collect();
    Some(()).filter(|()| cards.len() > 1)?;
    let whole = split::fitting(shape, settings, &free);
    let taken = split::over(shape, settings, Mode::Layer, whole.as_deref().unwrap_or(&plain), 0).ok()?;
    let fits = split::fits(&taken, &free);
    let instead = || {
        let with = |tokens: u64| Settings { context: Some(tokens.saturating_mul(1024)), ..*settings };
        let most = settings.context? / 1024;
        let slots = settings.parallel.max(1);
        let fine = |tokens: u64| split::fitting(shape, &with(tokens.saturating_mul(slots)), &free).is_some();
        let shorter = search::largest(4, most.checked_div(slots)?, fine).filter(|_| !context_asked);
        if let Some(tokens) = shorter {
            let line = Engine::Ollama(with(tokens.saturating_mul(slots))).command(None, "")?;
            return Some((format!("{tokens}K context"), line));
        }
        let all = shape.layer_count().saturating_add(1);
        let count = split::most_layers(shape, settings, &free)?;
        let words = format!("{count} of {all} layers on the cards");
        Some((words, format!("/set parameter num_gpu {count}   (inside `ollama run`)")))
    };
    let instead = if fits { None } else { instead() };
    Some(Spread { cards: cards.iter().cloned().zip(taken).collect(), fits, flags: String::new(), instead })
}

/// A share in thousandths as it is typed.
fn number(share: u64) -> String {
    let text = format!("{}.{:03}", share / 1000, share % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
