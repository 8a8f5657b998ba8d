//! Owns `oomdoctor fit`: whether a model fits on a card with what is free on it now, and what would make it fit.
//! Exit codes: 0 it fits, 1 it does not or that is not known, 2 wrong usage or an unreadable model.
//! Knows no formula: those are in `memory`.

mod about;
mod arguments;
mod checkpoint;
mod command;
mod flags;
mod held;
mod idle;
mod json;
mod list;
mod locate;
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

use self::arguments::EngineName;
pub(super) use self::flags::{FitArgs, OnOff, SplitMode};
use self::held::Held;
pub(super) use self::json::Fit;
use self::json::{ImageModelFit, ModelFit};
pub(super) use self::list::FitModels;
use self::locate::{Located, Source};
use self::machine::{Machine, machine};
use self::meant::Meant;
use self::spread::Spread;
use super::output::{print, refuse};
use super::settings::Global;
use crate::advice::fit::holders::Holder;
use crate::memory::flags::quoted;
use crate::memory::images::{self, ImageModel};
use crate::memory::options::{self, Card, Change, Choice};
use crate::memory::{Engine, Estimate, Part, sglang, split, vllm};
use crate::platform::processes::Processes;
use crate::text::harmless;
use crate::units::Bytes;

/// Everything there is to say.
struct Answer {
    asked: String,
    located: Located,
    engine: Engine,
    estimate: Estimate,
    card: Option<Card>,
    /// All of the machine's.
    cards: Vec<Card>,
    fits: Option<bool>,
    why_not_known: Option<String>,
    options: Vec<Choice>,
    /// The cards that the plan names, with who could let go of memory there; the one that decides is the last.
    held: Vec<Held>,
    /// Over several cards, where that is asked for.
    spread: Option<Spread>,
    /// Where llama.cpp's own measuring program is installed.
    fit_params: Option<PathBuf>,
    /// What the card would have free without anybody on it.
    emptied: Option<Bytes>,
    /// In what it was to be taken that what was named is not in, such as AWQ: another checkpoint.
    requantised: Option<String>,
    /// System memory that is available.
    host_available: Option<Bytes>,
    /// What it would need of it, where that is more and all else fits.
    lacks_ram: Option<Bytes>,
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

    /// As a command line has it. Of the engines that take a repository's name or a folder: one in its place, or
    /// a GGUF file's path.
    fn target(&self) -> String {
        let (Engine::Vllm(_) | Engine::Sglang(_)) = self.engine else { return self.name() };
        match (&self.requantised, self.located.source, &self.located.file) {
            (Some(word), ..) => format!("{word}-REPOSITORY"),
            (None, Source::Gguf | Source::Ollama, Some(file)) => harmless(&file.to_string_lossy()).into_owned(),
            (None, Source::Table, _) if !self.asked.contains('/') => "REPOSITORY".into(),
            _ => self.name(),
        }
    }

    /// Free on the card that has least, once those have ended that could; of a split each card has its own.
    fn free_after(&self) -> Option<Bytes> {
        let anybody = self.spread.is_none() && self.held.iter().any(|held| !held.holders.is_empty());
        self.held.iter().filter(|_| anybody).map(Held::free_after).min()
    }

    /// Whose end makes it fit as it is; empty where it fits already, or where that is not enough.
    fn in_the_way(&self) -> Vec<&Holder> {
        if self.fits != Some(false) {
            return Vec::new();
        }
        let shape = &self.located.shape;
        let each = held::in_the_way(&self.held, |held, free| {
            let then = Card { free, ..held.card.clone() };
            match &self.spread {
                Some(_) => held.takes.is_some_and(|takes| takes <= free),
                None => options::fits(&self.engine, shape, Some(&then)) == Some(true),
            }
        });
        match (&self.spread, &self.engine) {
            // With more free on a card more layers go there.
            (Some(spread), Engine::LlamaCpp(settings) | Engine::Ollama(settings))
                if each.is_empty() && spread.by_free =>
            {
                held::together(&self.held, |free| split::fitting(shape, settings, free).is_some())
            }
            _ => each,
        }
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
pub(super) fn run(global: &Global, args: &FitArgs) -> ExitCode {
    let said = match &args.model {
        None => machine(global, args.gpu).and_then(|machine| {
            let holders = machine.holders(machine.card(), &global.kernel().viewer());
            list::answer(args, machine.card(), &machine.cards, &holders)
        }),
        Some(model) if draws(model).is_some() => machine(global, args.gpu).and_then(|machine| {
            let free = machine.card().map(|card| card.free);
            let said = draws(model).map(|drawing| drawing.said(free)).unwrap_or_default();
            if !args.json {
                return Ok((format!("{said}\n"), false));
            }
            let json = ImageModelFit { model: model.clone(), fits: None, why_not_known: said };
            Ok((super::output::pretty(&Fit::ImageModel(json))?, false))
        }),
        Some(model) => answer(global, args, model).and_then(|answer| {
            let fits = answer.fits == Some(true);
            if !args.json {
                return Ok((words::text(&answer), fits));
            }
            Ok((super::output::pretty(&Fit::Model(Box::new(ModelFit::of(&answer))))?, fits))
        }),
    };
    let (text, fits) = match said {
        Ok(said) => said,
        Err(message) => return refuse(&harmless(&message).replace('\n', " ")),
    };
    print(&text, if fits { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A model that draws pictures, by a name that is no file here.
fn draws(model: &str) -> Option<&'static ImageModel> {
    images::find(model).filter(|_| !Path::new(model).exists())
}

fn answer(global: &Global, args: &FitArgs, model: &str) -> Result<Answer, String> {
    let by_dtype = args.dtype.as_deref().and_then(arguments::engine_of_dtype);
    let by_name = args.engine.or(by_dtype).or_else(|| meant::engine_of_name(model));
    let meant = meant::meant(args, model, by_name)?;
    let mut located = locate::locate(model, &meant)?;
    if let Some(encoder) = &args.mmproj {
        (located.shape.projector, located.shape.encoding) = locate::encoder(encoder)?;
        located.encoder = Some(encoder.clone());
        // That one lies beside it is known.
        located.note = located.note.filter(|_| located.source != Source::Gguf);
    }
    let of_torch = |name: EngineName| matches!(name, EngineName::Vllm | EngineName::Sglang);
    let requantised =
        by_name.filter(|name| of_torch(*name)).and_then(|_| requantised::asked(args, model, &mut located));
    let located = located;
    let machine = machine(global, args.gpu)?;
    let cards = &machine.cards;
    let name = args.engine.or(by_dtype).unwrap_or(match located.source {
        Source::Ollama => EngineName::Ollama,
        Source::Checkpoint => EngineName::Transformers,
        // A name as only Ollama has it: model:tag.
        Source::Table if model.contains(':') && !model.contains('/') => EngineName::Ollama,
        Source::Table => by_name.unwrap_or(EngineName::LlamaCpp),
        Source::Gguf => EngineName::LlamaCpp,
    });
    let engine = arguments::engine(name, args, &located, machine.card(), cards)?;
    let (named, too_few) = machine.cards_for(&engine, args.gpu);
    let card = named.last().copied();
    let together = Card::together(cards);
    let together = together.filter(|_| spread::is_usual(args, &engine, &located.shape, card));
    let engine = if together.is_some() { engine.over(cards.len()) } else { engine };
    let estimate = engine.estimate(&located.shape);
    let spread = match together {
        Some(_) => spread::by_itself(&engine, &located.shape, cards),
        None => spread::spread(args, &engine, &located.shape, cards)?,
    };
    let viewer = global.kernel().viewer();
    let with_holders =
        |card: &Card, takes| Held { holders: machine.holders(Some(card), &viewer), card: card.clone(), takes };
    let held = match &spread {
        Some(spread) => spread.cards.iter().map(|(card, share)| with_holders(card, Some(share.wanted()))).collect(),
        None => named.iter().map(|card| with_holders(card, takes(&engine, &estimate, card))).collect(),
    };
    let fits = match &spread {
        Some(spread) => Some(spread.fits),
        None => options::fits(&engine, &located.shape, card),
    };
    let host_available = machine.host_available();
    // What mmap brings over page by page needs no room of its own; an optimizer does.
    let offloaded = estimate.on_host().filter(|_| matches!(engine, Engine::Train(_)));
    let lacks_ram = offloaded.filter(|needs| fits == Some(true) && host_available.is_some_and(|there| *needs > there));
    let fits = if lacks_ram.is_some() { Some(false) } else { fits };
    let unknown = || estimate.why_not().map(str::to_owned).or(too_few).or_else(|| machine.no_card.clone());
    let why_not_known = if fits.is_none() { unknown() } else { None };
    let pool = match (&engine, card) {
        _ if engine.refusal(&located.shape).is_some() => None,
        (Engine::Sglang(serving), Some(card)) => sglang::tokens(&located.shape, serving, card.free).ok(),
        (Engine::Vllm(serving), Some(card)) => vllm::pool_tokens(&located.shape, serving, card.total),
        _ => None,
    };
    let pool = pool.filter(|tokens| *tokens > 0).map(|tokens| match engine {
        Engine::Vllm(_) => format!("vLLM gives its pool what is left of the share: about {tokens} tokens here"),
        _ => format!(
            "SGLang gives its pool what the weights leave of the share: about {tokens} tokens here. It starts with fewer than the context, too, and then refuses longer requests"
        ),
    });
    let as_it_is = match located.source {
        Source::Table if args.engine.is_none() && name == EngineName::LlamaCpp => repository(args, model, &machine),
        _ => None,
    };
    let old = (matches!(engine, Engine::Ollama(_)) && located.source == Source::Table && located.shape.mla)
        .then(|| OLD_LATENT.to_owned());
    let asked_slots = args.parallel.is_some();
    let otherwise =
        if spread.is_none() { other::notes(&engine, &located.shape, card, asked_slots) } else { Vec::new() };
    let idle = idle::note(args, name, &located.shape);
    let of_engine = about::notes(&engine, &located, args);
    let notes = located.note.iter().cloned().chain(idle).chain(as_it_is).chain(old).chain(pool);
    let notes: Vec<String> = notes.chain(otherwise).chain(of_engine).collect();
    let of_llama = matches!(engine, Engine::LlamaCpp(_)) && located.file.is_some();
    let mut options = match (&together, &spread) {
        (Some(_), _) => options::options(engine, &located.shape, together.as_ref(), &[]),
        (None, Some(_)) => Vec::new(),
        (None, None) => options::options(engine, &located.shape, card, cards),
    };
    // A stage that was asked for is kept.
    options.retain(|choice| {
        let Change::Stage(stage) = choice.kind else { return true };
        args.zero.is_none_or(|asked| asked == stage)
    });
    let nothing = Estimate { weights_on_host: Part::fact(0), ..estimate.clone() };
    options::hold_against_ram(&mut options, if lacks_ram.is_some() { &nothing } else { &estimate }, host_available);
    let mut answer = Answer {
        asked: model.to_owned(),
        held,
        several_cards: cards.len() > 1 && engine.ranks() == 1 && spread.is_none(),
        options,
        emptied: card.and_then(|card| machine.emptied(card)),
        host_available,
        lacks_ram,
        notes,
        fit_params: of_llama.then(|| installed("llama-fit-params")).flatten(),
        spread,
        engine,
        requantised,
        why_not_known,
        card: card.cloned(),
        cards: cards.clone(),
        fits,
        context_asked: args.context.is_some(),
        estimate,
        located,
    };
    answer.notes = notes::with(&answer);
    Ok(answer)
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
    let fits = match options::fits(&engine, &there.shape, machine.card()) {
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

/// What it wants of a card: vLLM all that it is allowed.
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
