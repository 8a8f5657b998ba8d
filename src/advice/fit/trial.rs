//! Owns trying other settings of the run's model by hand: the log's to begin with, one turned after the other, what
//! each then takes, whether that fits, and what it changes in the command line. Pure. Bytes.

use std::sync::Arc;

use super::answer::FitAdvice;
use super::words;
use crate::memory::knobs::dials;
use crate::memory::knobs::quantization::{at_mixes, in_four_bits};
use crate::memory::{Card, Engine, Estimate, Knob, ModelShape, fits};
use crate::units::Bytes;

/// One of the model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    quantization: String,
    shape: Arc<ModelShape>,
}

impl File {
    fn bytes(&self) -> u64 {
        self.shape.weights.as_ref().map_or(0, |sums| sums.in_file())
    }
}

/// A row that can be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    File,
    Engine(&'static Knob),
}

/// A row as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub name: &'static str,
    pub value: String,
    /// Where it stood in the log, where that is elsewhere.
    pub was: Option<String>,
    /// Whether it can be turned to the left.
    pub less: bool,
    /// Whether it can be turned to the right.
    pub more: bool,
}

/// An engine's settings, and which of the model's files it loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setup {
    engine: Engine,
    file: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    name: String,
    /// From the smallest to the largest.
    files: Vec<File>,
    was: Setup,
    now: Setup,
    at: usize,
}

impl FitAdvice {
    /// The settings of the log, to try others from; `None` where the model is not known.
    pub fn trial(&self) -> Option<Trial> {
        let ((engine, shape), model) = (self.basis.clone()?, self.model.as_ref()?);
        let (files, file) = files(File { quantization: model.quantization.clone()?, shape }, engine);
        let was = Setup { engine, file };
        Some(Trial { name: model.name.clone(), files, was, now: was, at: 0 })
    }
}

impl Trial {
    fn file_of(&self, setup: Setup) -> Option<&File> {
        self.files.get(setup.file).or(self.files.first())
    }

    fn file(&self) -> Option<&File> {
        self.file_of(self.now)
    }

    fn turns(&self) -> Vec<Turn> {
        let Some(file) = self.file() else { return Vec::new() };
        let mut turns: Vec<Turn> = dials(&self.now.engine, &file.shape).into_iter().map(Turn::Engine).collect();
        if self.files.len() > 1 {
            turns.insert(1.min(turns.len()), Turn::File);
        }
        turns
    }

    /// The rows, and which is selected.
    pub fn rows(&self) -> (Vec<Row>, usize) {
        (self.turns().into_iter().filter_map(|turn| self.row(turn)).collect(), self.at)
    }

    fn row(&self, turn: Turn) -> Option<Row> {
        let (value, was) = (self.value(turn, self.now)?, self.value(turn, self.was)?);
        let engine = &self.now.engine;
        let (name, (less, more)) = match turn {
            Turn::File => ("quantization", (self.now.file > 0, self.now.file + 1 < self.files.len())),
            Turn::Engine(knob) => (knob.label(engine), knob.room(engine, &self.file()?.shape)),
        };
        Some(Row { name, was: (was != value).then_some(was), value, less, more })
    }

    fn value(&self, turn: Turn, setup: Setup) -> Option<String> {
        let file = self.file_of(setup)?;
        match turn {
            Turn::File => Some(file.quantization.clone()),
            Turn::Engine(knob) => knob.shown(&setup.engine, &file.shape),
        }
    }

    pub fn select(&mut self, by: i32) {
        let last = self.turns().len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(by as isize).min(last);
    }

    /// Turns the selected row by so many steps, to the right for more.
    pub fn turn(&mut self, by: i32) {
        match self.turns().get(self.at) {
            Some(Turn::File) => {
                let last = self.files.len().saturating_sub(1);
                self.now.file = self.now.file.saturating_add_signed(by as isize).min(last);
            }
            Some(Turn::Engine(knob)) => {
                let Some(shape) = self.file().map(|file| Arc::clone(&file.shape)) else { return };
                self.now.engine = knob.turned(self.now.engine, &shape, by);
            }
            None => {}
        }
    }

    /// Everything as the log has it.
    pub fn reset(&mut self) {
        self.now = self.was;
    }

    /// Whether nothing was changed.
    pub fn is_as_it_was(&self) -> bool {
        self.now == self.was
    }

    /// The model, and what it is held against: "Llama-3.1-8B Q4_K_M in llama.cpp".
    pub fn title(&self) -> String {
        let quantization = self.file().map(|file| format!(" {}", file.quantization)).unwrap_or_default();
        format!("{}{quantization} in {}", self.name, self.now.engine.name())
    }

    /// What the model takes as it stands.
    pub fn estimate(&self) -> Option<Estimate> {
        Some(self.now.engine.estimate(&self.file()?.shape))
    }

    /// The parts that are not nothing, with their names.
    pub fn parts(&self) -> Vec<(&'static str, Option<Bytes>)> {
        let Some(estimate) = self.estimate() else { return Vec::new() };
        let there = estimate.named().into_iter().filter(|(_, part)| part.bytes != Some(Bytes::ZERO));
        there.map(|(name, part)| (name, part.bytes)).collect()
    }

    /// Whether it fits in what is free for the run, with what a choice must leave free.
    pub fn fits(&self, fit: &FitAdvice) -> Option<bool> {
        let (free, total) = (fit.free_now_bytes?, fit.card_bytes.or(fit.free_now_bytes)?);
        let card = Card { each: fit.each.clone(), ..Card::of(free, total) };
        fits(&self.now.engine, &self.file()?.shape, Some(&card))
    }

    /// The answer in a sentence.
    pub fn sentence(&self, fit: &FitAdvice) -> String {
        let Some(estimate) = self.estimate() else { return String::new() };
        let Some(total) = estimate.total() else {
            return format!("What it takes is not known: {}.", estimate.why_not().unwrap_or("a figure is missing"));
        };
        let Some(free) = fit.free_now_bytes else {
            return format!("It takes about {total}; what is free for it is not known.");
        };
        let when = if fit.is_now { "is free now" } else { "was free for it" };
        let has_share = matches!(self.now.engine, Engine::Vllm(_) | Engine::Sglang(_));
        match self.fits(fit) {
            Some(true) => {
                format!("It fits: about {total} of the {free} that {when}, {} to spare.", free.less(total))
            }
            Some(false) if total <= free && has_share => {
                format!("It takes about {total}, but not within the share of the GPU that is set; {free} {when}.")
            }
            Some(false) if total <= free => {
                format!("Too tight: about {total} of the {free} that {when}; {}", self.why_too_tight(fit, free))
            }
            Some(false) => {
                format!("It does not fit: about {total}, and {free} {when}: {} too much.", total.less(free))
            }
            None => format!("It takes about {total}; {free} {when}."),
        }
    }

    /// Who wants more left free, and what it does by itself where less is.
    fn why_too_tight(&self, fit: &FitAdvice, free: Bytes) -> String {
        let engine = &self.now.engine;
        let (each, room) = match fit.is_on_several() {
            true => (" on each GPU", &*fit.each),
            false => ("", std::slice::from_ref(&free)),
        };
        let by_itself = self.file().map(|file| engine.by_itself(&file.shape, room)).unwrap_or_default();
        format!("{} wants 1 GiB left free{each}.{by_itself}", engine.who_wants())
    }

    /// What is changed, in words: "32K context, KV cache type q8_0".
    pub fn changes(&self) -> Vec<String> {
        let (rows, _) = self.rows();
        rows.into_iter().filter(|row| row.was.is_some()).map(|row| format!("{} {}", row.name, row.value)).collect()
    }

    /// The changes as a command of the engine's; `None` where nothing is changed that a command says.
    pub fn command(&self) -> Option<String> {
        self.now.engine.changed_from(&self.was.engine, &self.file()?.shape)
    }

    /// What must be done beside the command line: another file, a setting of Ollama's own.
    pub fn beside(&self) -> Option<String> {
        let file = self.file()?;
        let other = (self.now.file != self.was.file).then(|| {
            let size = file.shape.weights.as_ref().map(|sums| words::download(Bytes(sums.in_file())));
            format!("the {} file ({})", file.quantization, size.as_deref().unwrap_or("a download"))
        });
        let layers = self.now.engine.layers_set_from(&self.was.engine, &file.shape);
        match (other, layers) {
            (Some(file), Some(layers)) => Some(format!("{file}, and {layers} inside ollama run")),
            (None, Some(layers)) => Some(format!("{layers} inside ollama run")),
            (file, None) => file,
        }
    }
}

/// The model's files from the smallest to the largest, and which is the run's own: the mixes that llama.cpp's files are
/// given out in; for vLLM a checkpoint in 4 bits.
fn files(own: File, engine: Engine) -> (Vec<File>, usize) {
    let mut files = Vec::new();
    match engine {
        Engine::LlamaCpp(_) | Engine::Ollama(_) => {
            let mixes = at_mixes(&own.shape).into_iter().filter(|(mix, _)| *mix != own.quantization);
            files.extend(mixes.map(|(mix, shape)| File { quantization: mix.to_owned(), shape: Arc::new(shape) }));
        }
        Engine::Vllm(_) | Engine::Sglang(_) => {
            let four = in_four_bits(engine, &own.shape).map(|(_, shape)| Arc::new(shape));
            files.extend(four.map(|shape| File { quantization: "4 bits (AWQ, GPTQ)".to_owned(), shape }));
        }
        Engine::Transformers(_) | Engine::Train(_) => {}
    }
    files.push(own.clone());
    files.sort_by_key(File::bytes);
    let at = files.iter().position(|file| *file == own).unwrap_or(0);
    (files, at)
}
