//! Owns `oomdoctor fit` without a model: the models that this machine has, and how each fits now with llama.cpp (or
//! Ollama): the longest context with everything on the card, else how many layers. Files that can't be read are
//! passed over with a line. Knows no formula.

use std::fmt::Write;

use serde_json::{Value, json};

use super::arguments;
use super::flags::EngineName;
use super::flags::FitArgs;
use super::locate;
use super::located::{Located, Source};
use super::stores::{self, Found};
use crate::advice::fit::holders::Holder;
use crate::memory::card::Card;
use crate::memory::fits::longest;
use crate::memory::words::tokens_in_words;
use crate::memory::{Engine, Settings, best_layers};
use crate::text::harmless;
use crate::units::Bytes;

/// What is said of one model.
struct Line {
    name: String,
    file: Option<String>,
    quantization: Option<String>,
    weights: Option<Bytes>,
    longest: Option<u64>,
    layers: Option<(u64, u64)>,
    /// So many cards together, where one is not enough.
    cards: Option<usize>,
    /// The longest context once the idle holders have ended, where it does not fit now.
    then: Option<u64>,
    /// Whether files of it are missing.
    partial: bool,
    trouble: Option<String>,
}

/// The text or JSON, and whether any model fits whole.
pub(super) fn answer(args: &FitArgs, card: Option<&Card>, cards: &[Card], holders: &[Holder]) -> (String, bool) {
    let freed = holders.iter().fold(Bytes::ZERO, |sum, holder| sum.plus(holder.bytes));
    let then = card.filter(|_| freed > Bytes::ZERO);
    let then = then.map(|card| Card { free: card.free.plus(freed).min(card.total), ..card.clone() });
    let found = stores::all();
    let lines: Vec<Line> =
        found.into_iter().map(|(name, found)| line(args, name, located(&found), card, then.as_ref(), cards)).collect();
    let any = lines.iter().any(|line| line.longest.is_some());
    let text = if args.json { as_json(&lines, card, then.as_ref()) } else { as_text(&lines, card, holders) };
    (text, any)
}

fn located(found: &Found) -> Result<Located, String> {
    match found {
        Found::Ollama(stored) => locate::of_ollama(stored),
        Found::Path(path) => locate::at_path(path),
    }
}

fn line(
    args: &FitArgs,
    name: String,
    located: Result<Located, String>,
    card: Option<&Card>,
    then: Option<&Card>,
    cards: &[Card],
) -> Line {
    let mut line = Line {
        name,
        file: None,
        quantization: None,
        weights: None,
        longest: None,
        layers: None,
        cards: None,
        then: None,
        partial: false,
        trouble: None,
    };
    let located = match located {
        Ok(located) => located,
        Err(trouble) => return Line { trouble: Some(trouble), ..line },
    };
    let shape = &located.shape;
    let kind = if located.source == Source::Checkpoint { EngineName::Transformers } else { EngineName::LlamaCpp };
    line.file = located.file.as_ref().map(|file| file.to_string_lossy().into_owned());
    line.quantization.clone_from(&shape.quantization);
    line.partial = located.partial;
    line.weights = shape.weights.as_ref().ok().map(|sums| Bytes(sums.in_file()));
    match (arguments::engine(args.engine.unwrap_or(kind), args, &located, card, cards), card) {
        (Ok(engine), Some(card)) => {
            line.trouble = engine.estimate(shape).why_not().map(str::to_owned);
            line.longest = longest(engine, shape, card);
            // Where one is not enough, all of them together, as llama.cpp takes them by itself.
            let together = Card::together(cards).filter(|_| args.gpu.is_none());
            let laid_out = matches!(engine, Engine::LlamaCpp(_) | Engine::Ollama(_));
            let several = together.filter(|_| laid_out && line.longest.is_none());
            if let Some(several) = &several {
                line.longest = longest(engine.over(cards.len()), shape, several);
                line.cards = line.longest.map(|_| cards.len());
            }
            let card = several.as_ref().unwrap_or(card);
            if line.longest.is_none() {
                line.then = then.and_then(|card| longest(engine, shape, card));
            }
            if let (None, Engine::LlamaCpp(settings)) = (line.longest, engine) {
                let few = Settings { context: Some(settings.context.unwrap_or(4096)), ..settings };
                line.layers = best_layers(shape, &few, card.room()).map(|count| (count, shape.layer_count() + 1));
            }
        }
        (Err(trouble), _) => line.trouble = Some(trouble),
        (_, None) => {}
    }
    line
}

fn as_text(lines: &[Line], card: Option<&Card>, holders: &[Holder]) -> String {
    let mut out = String::new();
    match card {
        Some(card) => {
            let _ = writeln!(out, "Free now: {} of {} on GPU {} ({})", card.free, card.total, card.index, card.name);
            for holder in holders {
                let _ = writeln!(
                    out,
                    "{}: {} holds {}; {}",
                    if holder.is_idle { "Idle" } else { "Not busy" },
                    holder.name,
                    holder.bytes,
                    holder.command
                );
            }
            out.push('\n');
        }
        None => out.push_str("No card's free memory can be read, so only sizes are known.\n\n"),
    }
    if lines.is_empty() {
        out.push_str("No models were found in Ollama's store, the Hugging Face cache or LM Studio's folder. Name a model (such as llama3.1:8b), a GGUF file or a folder.\n");
    }
    for line in lines {
        let partial = if line.partial { "; not all of it is here" } else { "" };
        let size = line.weights.map_or_else(|| "?".into(), |bytes| bytes.to_string());
        let _ = writeln!(out, "{size:>9}  {}: {}{partial}", line.name, fate(line, card.is_some()));
    }
    out.lines().map(|line| harmless(line).into_owned() + "\n").collect()
}

fn fate(line: &Line, has_card: bool) -> String {
    match (line.longest, line.layers, &line.trouble) {
        (_, _, Some(trouble)) => format!("not known: {trouble}"),
        (Some(tokens), ..) => {
            let over = line.cards.map(|count| format!(" over {count} cards")).unwrap_or_default();
            format!("fits with up to {} tokens of context{over}", tokens_in_words(tokens))
        }
        (None, Some((count, all)), _) if count > 0 => {
            format!("{count} of {all} layers fit{}", once_free(line))
        }
        _ if has_card => format!("does not fit{}", once_free(line)),
        _ => "not known".into(),
    }
}

fn once_free(line: &Line) -> String {
    let tokens = line
        .then
        .map(|tokens| format!("; whole with up to {} tokens once what is idle has ended", tokens_in_words(tokens)));
    tokens.unwrap_or_default()
}

fn as_json(lines: &[Line], card: Option<&Card>, then: Option<&Card>) -> String {
    let one = |line: &Line| -> Value {
        json!({"name": line.name, "file": line.file, "quantization": line.quantization, "weights_bytes": line.weights,
            "largest_context": line.longest, "cards": line.cards, "largest_context_after": line.then,
            "gpu_layers": line.layers.map(|(count, _)| count), "not_all_here": line.partial, "why_not_known": line.trouble})
    };
    let models: Vec<Value> = lines.iter().map(one).collect();
    let all = json!({"schema": 1, "gpu": card.map(|card| card.index), "free_now_bytes": card.map(|card| card.free), "free_after_bytes": then.map(|card| card.free), "models": models});
    format!("{all:#}\n")
}
