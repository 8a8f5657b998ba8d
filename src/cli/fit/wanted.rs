//! Owns how a model that is asked about fits on a machine: it is found once, and held against as many machines as are meant.
//! Knows no formula: those are in `memory`.

use super::answer::{Answer, Held};
use super::flags::FitArgs;
use super::located::{Located, Source};
use super::machine::Machine;
use super::spread::{self, Spread};
use super::{arguments, locate, meant};
use crate::gpu::guard::Viewer;
use crate::memory::knobs::sharing;
use crate::memory::{Card, Engine, Estimate, Kind, Part, fits, options, vllm};
use crate::units::Bytes;

/// A model that is asked about, as it was found on this machine, with what it was asked in.
pub(super) struct Wanted<'a> {
    pub args: &'a FitArgs,
    pub model: &'a str,
    pub located: Located,
    kind: Kind,
    requantised: Option<String>,
}

impl<'a> Wanted<'a> {
    pub(super) fn of(args: &'a FitArgs, model: &'a str) -> Result<Wanted<'a>, String> {
        // What is asked for, by a name of its own or by a dtype that only one engine has.
        let asked = args.engine.or_else(|| args.dtype.as_deref().and_then(arguments::engine_of_dtype));
        let by_name = asked.or_else(|| meant::engine_of_name(model));
        let (located, requantised) = find(args, model, by_name)?;
        let kind = asked.unwrap_or_else(|| engine_of(&located, model, by_name));
        Ok(Wanted { args, model, located, kind, requantised })
    }

    /// How it fits on a machine. Without a viewer, whose processes are there is not asked.
    pub(super) fn on(&self, machine: Machine, viewer: Option<&Viewer>) -> Result<Answer<'a>, String> {
        let (args, located) = (self.args, self.located.clone());
        let shape = &located.shape;
        let mut engine = arguments::engine(self.kind, args, &located, &machine)?;
        let (named, too_few) = machine.cards_for(&engine, args.gpu);
        let card = named.last().copied();
        let (spread, together) = spread::laid_out(args, &mut engine, shape, &machine.cards, card)?;
        let estimate = engine.estimate(shape);
        let mut answer = Answer {
            args,
            asked: self.model,
            held: held(&machine, &engine, &estimate, &named, spread.as_ref(), viewer),
            options: match (&together, &spread) {
                (None, Some(_)) => Vec::new(),
                (None, None) => options::options(engine, shape, card, &machine.cards),
                (all, _) => options::options(engine, shape, all.as_ref(), &[]),
            },
            lacks_ram: None,
            why_not_known: estimate.why_not().map(str::to_owned).or(too_few).or_else(|| machine.no_card.clone()),
            card: card.cloned(),
            fits: spread.as_ref().map_or_else(|| fits(&engine, shape, card), |spread| Some(spread.fits)),
            spread,
            engine,
            requantised: self.requantised.clone(),
            estimate,
            located,
            machine,
        };
        // A stage of ZeRO that was asked for is kept.
        if let Some(asked) = args.zero {
            let asked = 3_u64.saturating_sub(asked.into());
            answer.options.retain(|choice| choice.turned(&sharing::KNOB).is_none_or(|to| to == asked));
        }
        compare_with_ram(&mut answer);
        Ok(answer)
    }
}

/// Whether there is system memory for what is to lie there, as it is and with each change. Of what lies there as it is only
/// an optimizer counts: what mmap brings over page by page needs no room of its own.
fn compare_with_ram(answer: &mut Answer) {
    let (mut before, available) = (answer.estimate.clone(), answer.machine.host_available());
    if answer.fits == Some(true) && matches!(answer.engine, Engine::Train(_)) {
        answer.lacks_ram = before.on_host().filter(|needs| available.is_some_and(|available| *needs > available));
    }
    if answer.lacks_ram.is_some() {
        answer.fits = Some(false);
        before.weights_on_host = Part::fact(0);
    }
    if answer.fits.is_some() {
        answer.why_not_known = None;
    }
    options::hold_against_ram(&mut answer.options, &before, available);
}

/// The model, with the image encoder that is given; and in what it was to be taken that it is not in.
fn find(args: &FitArgs, model: &str, engine: Option<Kind>) -> Result<(Located, Option<String>), String> {
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
        Some(Kind::Vllm | Kind::Sglang) => meant::requantised(args, model, &mut located),
        _ => None,
    };
    Ok((located, requantised))
}

/// The engine for a model where none is asked for.
fn engine_of(located: &Located, model: &str, by_name: Option<Kind>) -> Kind {
    match located.source {
        Source::Ollama => Kind::Ollama,
        Source::Checkpoint => Kind::Transformers,
        // A name as only Ollama has it: model:tag.
        Source::Table if model.contains(':') && !model.contains('/') => Kind::Ollama,
        Source::Table => by_name.unwrap_or(Kind::LlamaCpp),
        Source::Gguf => Kind::LlamaCpp,
    }
}

/// The GPUs that the model would use, with the processes that could free memory there.
fn held(
    machine: &Machine,
    engine: &Engine,
    estimate: &Estimate,
    named: &[&Card],
    spread: Option<&Spread>,
    viewer: Option<&Viewer>,
) -> Vec<Held> {
    let cards: Vec<(&Card, Option<Bytes>)> = match spread {
        Some(spread) => spread.cards.iter().map(|(card, share)| (card, Some(share.wanted()))).collect(),
        None => named.iter().map(|card| (*card, takes(engine, estimate, card))).collect(),
    };
    let held = cards.into_iter().map(|(card, takes)| Held {
        holders: viewer.map(|viewer| machine.holders(card, viewer)).unwrap_or_default(),
        card: card.clone(),
        takes,
    });
    held.collect()
}

/// What it wants of a GPU: vLLM all that it is allowed.
fn takes(engine: &Engine, estimate: &Estimate, card: &Card) -> Option<Bytes> {
    let wanted = engine.wanted(estimate)?;
    Some(match engine {
        Engine::Vllm(serving) => wanted.max(vllm::allowed(card.total, serving.utilization)),
        _ => wanted,
    })
}
