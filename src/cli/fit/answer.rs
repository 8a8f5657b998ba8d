//! Owns everything there is to say of whether a model fits: what was found, what it takes, who uses the GPUs, what would
//! make it fit. Knows no words.

use super::flags::FitArgs;
use super::held::{self, Held};
use super::located::{Located, Source};
use super::machine::Machine;
use super::spread::Spread;
use crate::advice::fit::holders::Holder;
use crate::memory::{Card, Choice, Engine, Estimate, fits, split};
use crate::text::harmless;
use crate::units::Bytes;

/// Everything there is to say.
pub(super) struct Answer<'a> {
    pub args: &'a FitArgs,
    /// The model as it was named on the command line.
    pub asked: &'a str,
    pub machine: Machine,
    pub located: Located,
    pub engine: Engine,
    pub estimate: Estimate,
    pub card: Option<Card>,
    pub fits: Option<bool>,
    pub why_not_known: Option<String>,
    pub options: Vec<Choice>,
    /// The GPUs that the plan names, with the processes that could free memory there; the one that decides is the last.
    pub held: Vec<Held>,
    /// Over several GPUs, where that is asked for.
    pub spread: Option<Spread>,
    /// In what it was to be taken that what was named is not in, such as AWQ: another checkpoint.
    pub requantised: Option<String>,
    /// What it would need of system memory, where that is more than is available and all else fits.
    pub lacks_ram: Option<Bytes>,
}

impl Answer<'_> {
    /// The model's name: as asked for, or the last part of a path.
    pub(super) fn name(&self) -> String {
        let name = match (&self.located.shape.name, self.located.source) {
            (Some(own), Source::Gguf) => own,
            _ => self.asked.trim_end_matches('/'),
        };
        harmless(name).into_owned()
    }

    /// As a command line has it. Of the engines that take a repository's name or a folder: one in its place, or
    /// a GGUF file's path.
    pub(super) fn target(&self) -> String {
        let (Engine::Vllm(_) | Engine::Sglang(_)) = self.engine else { return self.name() };
        match (&self.requantised, self.located.source, &self.located.file) {
            (Some(word), ..) => format!("{word}-REPOSITORY"),
            (None, Source::Gguf | Source::Ollama, Some(file)) => harmless(&file.to_string_lossy()).into_owned(),
            (None, Source::Table, _) if !self.asked.contains('/') => "REPOSITORY".into(),
            _ => self.name(),
        }
    }

    /// Free on the GPU that has least, once those that could free it have exited; of a split each GPU has its own.
    pub(super) fn free_after(&self) -> Option<Bytes> {
        if self.spread.is_some() || self.held.iter().all(|held| held.holders.is_empty()) {
            return None;
        }
        self.held.iter().map(Held::free_after).min()
    }

    /// Whose end makes it fit as it is; empty where it fits already, or where that is not enough.
    pub(super) fn in_the_way(&self) -> Vec<&Holder> {
        if self.fits != Some(false) {
            return Vec::new();
        }
        let shape = &self.located.shape;
        let each = held::in_the_way(&self.held, |held, free| match &self.spread {
            Some(_) => held.takes.is_some_and(|takes| takes <= free),
            None => fits(&self.engine, shape, Some(&Card { free, ..held.card.clone() })) == Some(true),
        });
        match (&self.spread, &self.engine) {
            // With more free on a GPU more layers go there.
            (Some(spread), Engine::LlamaCpp(settings) | Engine::Ollama(settings))
                if each.is_empty() && spread.by_free =>
            {
                held::together(&self.held, |free| split::fitting(shape, settings, free).is_some())
            }
            _ => each,
        }
    }

    /// The change to offer first: one that keeps the context where that was asked for, else a shorter one.
    pub(super) fn best(&self) -> Option<&Choice> {
        let fitting = self.options.iter().filter(|choice| choice.fits == Some(true));
        let keeps_context = fitting.clone().find(|choice| !choice.shortens);
        let shortens = fitting.clone().rfind(|choice| choice.shortens);
        if self.args.context.is_some() { keeps_context.or(shortens) } else { shortens.or(keeps_context) }
    }
}
