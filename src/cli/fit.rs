//! Owns `oomdoctor fit`: whether a model fits on a GPU with what is free on it now, and what would make it fit.
//! Exit codes: 0 it fits, 1 it does not or that is not known, 2 wrong usage or an unreadable model.
//! Knows no formula: those are in `memory`.

mod about;
mod answer;
mod arguments;
mod checkpoint;
mod command;
mod flags;
mod held;
mod idle;
mod json;
mod list;
mod locate;
mod located;
mod machine;
mod meant;
mod notes;
mod other;
mod requantised;
mod spread;
mod stores;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::answer::Answer;
use self::flags::EngineName;
pub(super) use self::flags::FitArgs;
use self::held::Held;
pub(super) use self::json::Fit;
use self::json::{ImageModelFit, ModelFit};
pub(super) use self::list::FitModels;
use self::located::{Located, Source};
use self::machine::{Machine, machine};
use self::meant::Meant;
use self::spread::Spread;
use super::output::{pretty, print, refuse};
use super::settings::Global;
use crate::gpu::guard::Viewer;
use crate::memory::card::Card;
use crate::memory::engine::Engine;
use crate::memory::estimate::{Estimate, Part};
use crate::memory::fits::fits;
use crate::memory::flags::quoted;
use crate::memory::images::{self, ImageModel};
use crate::memory::knobs::sharing;
use crate::memory::options::{self, Choice};
use crate::memory::{sglang, vllm};
use crate::platform::Sampling;
use crate::platform::processes::Processes;
use crate::text::harmless;
use crate::units::Bytes;

/// Answers; 2 where the model or an argument can't be used.
pub(super) fn run(global: &Global, args: &FitArgs) -> ExitCode {
    match said(global, args) {
        Ok((text, true)) => print(&text, ExitCode::SUCCESS),
        Ok((text, false)) => print(&text, ExitCode::from(1)),
        Err(message) => refuse(&harmless(&message).replace('\n', " ")),
    }
}

/// What to print, and whether the model, or any model where none is named, fits.
fn said(global: &Global, args: &FitArgs) -> Result<(String, bool), String> {
    let viewer = global.kernel().viewer();
    let sampling = global.sampling();
    let Some(model) = &args.model else {
        let machine = machine(&sampling, args.gpu)?;
        let holders = machine.holders(machine.card(), &viewer);
        return list::answer(args, machine.card(), &machine.cards, &holders);
    };
    if let Some(drawing) = draws(model) {
        let said = drawing.said(machine(&sampling, args.gpu)?.card().map(|card| card.free));
        if !args.json {
            return Ok((format!("{said}\n"), false));
        }
        let json = ImageModelFit { model: model.clone(), fits: None, why_not_known: said };
        return Ok((pretty(&Fit::ImageModel(json))?, false));
    }
    let answer = answer(args, model, &viewer, &sampling)?;
    let fits = answer.fits == Some(true);
    if !args.json {
        return Ok((words::text(&answer), fits));
    }
    Ok((pretty(&Fit::Model(Box::new(ModelFit::of(&answer))))?, fits))
}

/// A model that draws pictures, by a name that is no file here.
fn draws(model: &str) -> Option<&'static ImageModel> {
    if Path::new(model).exists() { None } else { images::find(model) }
}

fn answer(args: &FitArgs, model: &str, viewer: &Viewer, sampling: &Sampling) -> Result<Answer, String> {
    let by_dtype = args.dtype.as_deref().and_then(arguments::engine_of_dtype);
    let by_name = args.engine.or(by_dtype).or_else(|| meant::engine_of_name(model));
    let (located, requantised) = find(args, model, by_name)?;
    let machine = machine(sampling, args.gpu)?;
    let name = args.engine.or(by_dtype).unwrap_or_else(|| engine_of(&located, model, by_name));
    let engine = arguments::engine(name, args, &located, machine.card(), &machine.cards)?;
    let (named, too_few) = machine.cards_for(&engine, args.gpu);
    let card = named.last().copied();
    let is_over_all = spread::is_usual(args, &engine, &located.shape, card);
    let together = if is_over_all { Card::together(&machine.cards) } else { None };
    let engine = if together.is_some() { engine.over(machine.cards.len()) } else { engine };
    let spread = match together {
        Some(_) => spread::by_itself(&engine, &located.shape, &machine.cards),
        None => spread::spread(args, &engine, &located.shape, &machine.cards)?,
    };
    let estimate = engine.estimate(&located.shape);
    let mut answer = Answer {
        asked: model.to_owned(),
        held: held(&machine, &engine, &estimate, &named, spread.as_ref(), viewer),
        several_cards: machine.cards.len() > 1 && engine.ranks() == 1 && spread.is_none(),
        options: Vec::new(),
        emptied: card.and_then(|card| machine.emptied(card)),
        host_available: machine.host_available(),
        lacks_ram: None,
        notes: Vec::new(),
        fit_params: measures(&engine, &located),
        why_not_known: estimate.why_not().map(str::to_owned).or(too_few).or_else(|| machine.no_card.clone()),
        card: card.cloned(),
        cards: machine.cards.clone(),
        fits: match &spread {
            Some(spread) => Some(spread.fits),
            None => fits(&engine, &located.shape, card),
        },
        spread,
        engine,
        requantised,
        context_asked: args.context.is_some(),
        estimate,
        located,
    };
    answer.options = choices(args, together.as_ref(), &answer);
    compare_with_ram(&mut answer);
    answer.notes = notes(args, name, &machine, &answer);
    answer.notes = notes::with(&answer);
    Ok(answer)
}

/// Whether there is system memory for what is to lie there, as it is and with each change.
fn compare_with_ram(answer: &mut Answer) {
    let mut before = answer.estimate.clone();
    if answer.fits == Some(true) {
        answer.lacks_ram = lacks_ram(&answer.engine, &answer.estimate, answer.host_available);
    }
    if answer.lacks_ram.is_some() {
        answer.fits = Some(false);
        before.weights_on_host = Part::fact(0);
    }
    if answer.fits.is_some() {
        answer.why_not_known = None;
    }
    options::hold_against_ram(&mut answer.options, &before, answer.host_available);
}

/// The model, with the image encoder that is given; and in what it was to be taken that it is not in.
fn find(args: &FitArgs, model: &str, engine: Option<EngineName>) -> Result<(Located, Option<String>), String> {
    let mut located = locate::locate(model, &meant::meant(args, model, engine)?)?;
    if let Some(encoder) = &args.mmproj {
        (located.shape.projector, located.shape.encoding) = locate::encoder(encoder)?;
        located.encoder = Some(encoder.clone());
        // That one lies beside it is known.
        if located.source == Source::Gguf {
            located.note = None;
        }
    }
    let requantised = match engine {
        Some(EngineName::Vllm | EngineName::Sglang) => requantised::asked(args, model, &mut located),
        _ => None,
    };
    Ok((located, requantised))
}

/// The engine for a model where none is asked for.
fn engine_of(located: &Located, model: &str, by_name: Option<EngineName>) -> EngineName {
    match located.source {
        Source::Ollama => EngineName::Ollama,
        Source::Checkpoint => EngineName::Transformers,
        // A name as only Ollama has it: model:tag.
        Source::Table if model.contains(':') && !model.contains('/') => EngineName::Ollama,
        Source::Table => by_name.unwrap_or(EngineName::LlamaCpp),
        Source::Gguf => EngineName::LlamaCpp,
    }
}

/// What an optimizer in system memory needs there, where that is more than is available. What mmap brings over page by
/// page needs no room of its own.
fn lacks_ram(engine: &Engine, estimate: &Estimate, available: Option<Bytes>) -> Option<Bytes> {
    let needs = estimate.on_host()?;
    (matches!(engine, Engine::Train(_)) && needs > available?).then_some(needs)
}

/// The GPUs that the model would use, with the processes that could free memory there.
fn held(
    machine: &Machine,
    engine: &Engine,
    estimate: &Estimate,
    named: &[&Card],
    spread: Option<&Spread>,
    viewer: &Viewer,
) -> Vec<Held> {
    let cards: Vec<(&Card, Option<Bytes>)> = match spread {
        Some(spread) => spread.cards.iter().map(|(card, share)| (card, Some(share.wanted()))).collect(),
        None => named.iter().map(|card| (*card, takes(engine, estimate, card))).collect(),
    };
    let held = cards.into_iter().map(|(card, takes)| Held {
        holders: machine.holders(Some(card), viewer),
        card: card.clone(),
        takes,
    });
    held.collect()
}

fn choices(args: &FitArgs, together: Option<&Card>, answer: &Answer) -> Vec<Choice> {
    let shape = &answer.located.shape;
    let mut options = match (together, &answer.spread) {
        (Some(_), _) => options::options(answer.engine, shape, together, &[]),
        (None, Some(_)) => Vec::new(),
        (None, None) => options::options(answer.engine, shape, answer.card.as_ref(), &answer.cards),
    };
    // A stage that was asked for is kept.
    if let Some(asked) = args.zero {
        let asked = 3_u64.saturating_sub(asked.into());
        options.retain(|choice| choice.turned(&sharing::KNOB).is_none_or(|to| to == asked));
    }
    options
}

/// What a person should know beside the figures.
fn notes(args: &FitArgs, name: EngineName, machine: &Machine, answer: &Answer) -> Vec<String> {
    let (located, engine, card) = (&answer.located, &answer.engine, answer.card.as_ref());
    let mut notes: Vec<String> = located.note.iter().cloned().chain(idle::note(args, name, &located.shape)).collect();
    if located.source == Source::Table && args.engine.is_none() && name == EngineName::LlamaCpp {
        notes.extend(repository(args, &answer.asked, machine));
    }
    if matches!(engine, Engine::Ollama(_)) && located.source == Source::Table && located.shape.mla {
        notes.push(OLD_LATENT.to_owned());
    }
    notes.extend(pool(engine, located, card));
    if answer.spread.is_none() {
        notes.extend(other::notes(engine, &located.shape, card, args.parallel.is_some()));
    }
    notes.extend(about::notes(engine, located, args));
    notes
}

/// The tokens that a server's pool holds.
fn pool(engine: &Engine, located: &Located, card: Option<&Card>) -> Option<String> {
    if engine.refusal(&located.shape).is_some() {
        return None;
    }
    let tokens = match engine {
        Engine::Sglang(serving) => sglang::tokens(&located.shape, serving, card?.free).ok()?,
        Engine::Vllm(serving) => vllm::pool_tokens(&located.shape, serving, card?.total)?,
        _ => return None,
    };
    if tokens == 0 {
        return None;
    }
    Some(match engine {
        Engine::Vllm(_) => format!("vLLM gives its pool what is left of the share: about {tokens} tokens here"),
        _ => format!(
            "SGLang gives its pool what the weights leave of the share: about {tokens} tokens here. It starts with fewer than the context, too, and then refuses longer requests"
        ),
    })
}

/// Where llama.cpp's own measuring program is installed, for a file of its own.
fn measures(engine: &Engine, located: &Located) -> Option<PathBuf> {
    let is_file = matches!(engine, Engine::LlamaCpp(_)) && located.file.is_some();
    if is_file { installed("llama-fit-params") } else { None }
}

/// DeepSeek-Coder-V2-Lite at 16384 tokens took 4320 MiB instead of 486 from Ollama's file.
const OLD_LATENT: &str = "a file of it that was converted before April 2025, as Ollama has of deepseek-v2 and deepseek-coder-v2, caches about nine times as much";

/// A repository of safetensors by its name, for which a GGUF file was assumed: what it takes as it is, in vLLM.
fn repository(args: &FitArgs, model: &str, machine: &Machine) -> Option<String> {
    if !model.contains('/') || model.to_lowercase().contains("gguf") {
        return None;
    }
    let there = locate::locate(model, &Meant::halves()).ok()?;
    let engine = arguments::engine(EngineName::Vllm, args, &there, machine.card(), &machine.cards).ok()?;
    let mix = there.shape.quantization.as_deref().unwrap_or("BF16");
    let fits = match fits(&engine, &there.shape, machine.card()) {
        Some(true) => " and fits",
        Some(false) => " and does not fit",
        None => "",
    };
    let total = engine.estimate(&there.shape).total()?;
    Some(format!(
        "a repository of that name holds safetensors as a rule, and llama.cpp runs GGUF files: one was assumed. As it is ({mix}) it takes about {total}{fits} in vLLM: oomdoctor fit {} --engine vllm, or --engine transformers",
        quoted(&harmless(model))
    ))
}

/// What it wants of a GPU: vLLM all that it is allowed.
fn takes(engine: &Engine, estimate: &Estimate, card: &Card) -> Option<Bytes> {
    let wanted = engine.wanted(estimate)?;
    Some(match engine {
        Engine::Vllm(serving) => wanted.max(vllm::allowed(card.total, serving.utilization)),
        _ => wanted,
    })
}

/// Where a program is, among the folders of PATH.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let program = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&path).map(|folder| folder.join(&program)).find(|file| file.is_file())
}
