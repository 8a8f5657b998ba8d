//! Owns `oomdoctor fit` without a model: the models that this machine has, and how each fits now with llama.cpp (or
//! Ollama): the longest context with everything on the GPU, else how many layers. Files that can't be read are
//! passed over with a line. Knows no formula.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use super::arguments;
use super::flags::FitArgs;
use super::locate::in_store;
use super::located::{Located, Source};
use super::machine::Machine;
use super::stores;
use crate::advice::fit::holders::Holder;
use crate::cli::output::pretty;
use crate::gpu::SCHEMA;
use crate::memory::{Card, Engine, Kind, ModelShape, Settings, best_layers, longest, tokens_in_words};
use crate::text::harmless;
use crate::units::Bytes;

/// What `oomdoctor fit --json` prints without a model: the models on this machine, and how each fits.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli) struct FitModels {
    /// The version of this format.
    schema: u32,
    /// The driver's index of the GPU that the models were compared with; null without one.
    gpu: Option<u32>,
    /// VRAM that is free on that GPU, in bytes; null without one.
    free_now_bytes: Option<Bytes>,
    /// VRAM that would be free on it once idle processes ended, in bytes; null where there are none.
    free_after_bytes: Option<Bytes>,
    models: Vec<ListedModel>,
}

#[derive(Default, Serialize, JsonSchema)]
struct ListedModel {
    /// The name to give to `oomdoctor fit`.
    name: String,
    /// Its file or folder; null where it can't be read.
    file: Option<String>,
    /// Such as `Q4_K_M`; null where it is not quantized or that is unknown.
    quantization: Option<String>,
    /// All weights in bytes, as the file has them; null where they are unknown.
    weights_bytes: Option<Bytes>,
    /// The longest context in tokens with the whole model in VRAM; null where the model does not fit so.
    largest_context: Option<u64>,
    /// The number of GPUs that this takes together; null where one is enough.
    cards: Option<usize>,
    /// The longest context in tokens once idle processes ended; null where it fits now, or not even then.
    largest_context_after: Option<u64>,
    /// The layers that fit in VRAM; null where the whole model fits or that is unknown.
    gpu_layers: Option<u64>,
    /// All layers that can be in VRAM; the output counts as one.
    #[serde(skip)]
    all_layers: u64,
    /// Whether files of it are missing.
    not_all_here: bool,
    /// Why it is unknown whether it fits; null where it is known.
    why_not_known: Option<String>,
}

/// The text or JSON, and whether any model fits whole.
pub(super) fn answer(args: &FitArgs, machine: &Machine, holders: &[Holder]) -> Result<(String, bool), String> {
    let card = machine.card();
    let freed = holders.iter().fold(Bytes::ZERO, |sum, holder| sum.plus(holder.bytes));
    let then = card.map(|card| Card { free: card.free.plus(freed).min(card.total), ..card.clone() });
    let then = if freed > Bytes::ZERO { then } else { None };
    let against = Against { args, machine, then };
    let lines = stores::all().into_iter().map(|(name, found)| line(name, in_store(&found), &against));
    let lines: Vec<ListedModel> = lines.collect();
    let any = lines.iter().any(|line| line.largest_context.is_some());
    if !args.json {
        return Ok((as_text(&lines, card, holders), any));
    }
    let all = FitModels {
        schema: SCHEMA,
        gpu: card.map(|card| card.index),
        free_now_bytes: card.map(|card| card.free),
        free_after_bytes: against.then.map(|card| card.free),
        models: lines,
    };
    Ok((pretty(&all)?, any))
}

/// What the models are held against.
struct Against<'a> {
    args: &'a FitArgs,
    machine: &'a Machine,
    /// The GPU once idle processes ended, where there are any.
    then: Option<Card>,
}

fn line(name: String, located: Result<Located, String>, against: &Against<'_>) -> ListedModel {
    let Against { args, machine, then } = against;
    let mut line = ListedModel { name, ..ListedModel::default() };
    let located = match located {
        Ok(located) => located,
        Err(trouble) => return ListedModel { why_not_known: Some(trouble), ..line },
    };
    let shape = &located.shape;
    let kind = if located.source == Source::Checkpoint { Kind::Transformers } else { Kind::LlamaCpp };
    line.file = located.file.as_ref().map(|file| file.to_string_lossy().into_owned());
    line.quantization.clone_from(&shape.quantization);
    line.not_all_here = located.partial;
    line.weights_bytes = shape.weights.as_ref().ok().map(|sums| Bytes(sums.in_file()));
    match (arguments::engine(args.engine.unwrap_or(kind), args, &located, machine), machine.card()) {
        (Ok(engine), Some(card)) => {
            line.why_not_known = engine.estimate(shape).why_not().map(str::to_owned);
            line.largest_context = longest(engine, shape, card);
            if line.largest_context.is_none() {
                line.over_all_gpus_or_in_part(engine, shape, card, against);
            }
            if line.largest_context.is_none() {
                line.largest_context_after = then.as_ref().and_then(|card| longest(engine, shape, card));
            }
        }
        (Err(trouble), _) => line.why_not_known = Some(trouble),
        (_, None) => {}
    }
    line
}

impl ListedModel {
    /// Where one GPU is not enough, all of them together, as llama.cpp takes them by itself; else how many layers fit.
    fn over_all_gpus_or_in_part(&mut self, engine: Engine, shape: &ModelShape, card: &Card, against: &Against<'_>) {
        let Against { args, machine, .. } = against;
        let is_laid_out = args.gpu.is_none() && matches!(engine, Engine::LlamaCpp(_) | Engine::Ollama(_));
        let several = if is_laid_out { Card::together(&machine.cards) } else { None };
        if let Some(several) = &several {
            let count = machine.cards.len();
            self.largest_context = longest(engine.over(count), shape, several);
            self.cards = self.largest_context.and(Some(count));
        }
        if let (None, Engine::LlamaCpp(settings)) = (self.largest_context, engine) {
            let few = Settings { context: Some(settings.context.unwrap_or(4096)), ..settings };
            self.gpu_layers = best_layers(shape, &few, several.as_ref().unwrap_or(card).room());
            self.all_layers = shape.layer_count() + 1;
        }
    }
}

fn as_text(lines: &[ListedModel], card: Option<&Card>, holders: &[Holder]) -> String {
    let mut out = String::new();
    match card {
        Some(card) => {
            let _ = writeln!(out, "Free now: {} of {} on GPU {} ({})", card.free, card.total, card.index, card.name);
            for holder in holders {
                let _ = writeln!(
                    out,
                    "{}: {} uses {}; {}",
                    if holder.is_idle { "Idle" } else { "Not busy" },
                    holder.name,
                    holder.bytes,
                    holder.command
                );
            }
            out.push('\n');
        }
        None => out.push_str("The free VRAM of no GPU can be read: only sizes are known.\n\n"),
    }
    if lines.is_empty() {
        out.push_str("No models were found in Ollama's store, the Hugging Face cache or LM Studio's folder. Name a model (such as llama3.1:8b), a GGUF file or a folder.\n");
    }
    for line in lines {
        let partial = if line.not_all_here { "; incomplete" } else { "" };
        let size = line.weights_bytes.map_or_else(|| "?".into(), |bytes| bytes.to_string());
        let _ = writeln!(out, "{size:>9}  {}: {}{partial}", line.name, fate(line, card.is_some()));
    }
    out.lines().map(|line| harmless(line).into_owned() + "\n").collect()
}

fn fate(line: &ListedModel, has_card: bool) -> String {
    match (line.largest_context, line.gpu_layers, &line.why_not_known) {
        (_, _, Some(trouble)) => format!("unknown: {trouble}"),
        (Some(tokens), ..) => {
            let over = line.cards.map(|count| format!(" on {count} GPUs")).unwrap_or_default();
            format!("fits with up to {} tokens of context{over}", tokens_in_words(tokens))
        }
        (None, Some(count), _) if count > 0 => {
            format!("{count} of {} layers fit{}", line.all_layers, once_free(line))
        }
        _ if has_card => format!("does not fit{}", once_free(line)),
        _ => "unknown".into(),
    }
}

fn once_free(line: &ListedModel) -> String {
    match line.largest_context_after {
        Some(tokens) => {
            format!("; whole with up to {} tokens once idle processes exit", tokens_in_words(tokens))
        }
        None => String::new(),
    }
}
