//! Owns trying other settings of the run's model by hand: the log's to begin with, one turned after the other, what
//! each then takes, whether that fits, and what it changes in the command line. Pure. Bytes.

use std::sync::Arc;

use super::answer::FitAdvice;
use super::basis::Basis;
use super::words;
use crate::memory::dials::{self, Dial};
use crate::memory::options::{self, Card};
use crate::memory::{Engine, Estimate, ModelShape};
use crate::units::Bytes;

/// One of the model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    quantization: String,
    shape: Arc<ModelShape>,
}

/// A row that can be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    File,
    Engine(Dial),
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    name: String,
    /// From the smallest to the largest.
    files: Vec<File>,
    was: (Engine, usize),
    now: (Engine, usize),
    at: usize,
}

impl FitAdvice {
    /// The settings of the log, to try others from; `None` where the model is not known.
    pub fn trial(&self) -> Option<Trial> {
        Some(Trial::new(self.basis.as_ref()?))
    }
}

impl Trial {
    /// The log's own settings.
    pub fn new(basis: &Basis) -> Trial {
        let own = File { quantization: basis.quantization.clone(), shape: Arc::clone(&basis.shape) };
        let (files, at) = files(own, basis);
        Trial { name: basis.name.clone(), files, was: (basis.engine, at), now: (basis.engine, at), at: 0 }
    }

    fn file(&self, at: usize) -> Option<&File> {
        self.files.get(at).or(self.files.first())
    }

    fn turns(&self) -> Vec<Turn> {
        let Some(file) = self.file(self.now.1) else { return Vec::new() };
        let mut turns: Vec<Turn> = dials::of(&self.now.0, &file.shape).into_iter().map(Turn::Engine).collect();
        if self.files.len() > 1 {
            turns.insert(1.min(turns.len()), Turn::File);
        }
        turns
    }

    /// The rows, and which is selected.
    pub fn rows(&self) -> (Vec<Row>, usize) {
        let row = |turn: &Turn| {
            let (now, was) = (self.value(*turn, self.now)?, self.value(*turn, self.was)?);
            let (less, more) = match turn {
                Turn::File => (self.now.1 > 0, self.now.1 + 1 < self.files.len()),
                Turn::Engine(dial) => dial.room(&self.now.0, &self.file(self.now.1)?.shape),
            };
            let name = if let Turn::Engine(dial) = turn { dial.name(&self.now.0) } else { "quantisation" };
            Some(Row { name, was: Some(was).filter(|was| *was != now), value: now, less, more })
        };
        (self.turns().iter().filter_map(row).collect(), self.at)
    }

    fn value(&self, turn: Turn, (engine, file): (Engine, usize)) -> Option<String> {
        let file = self.file(file)?;
        Some(match turn {
            Turn::File => file.quantization.clone(),
            Turn::Engine(dial) => dial.value(&engine, &file.shape),
        })
    }

    pub fn select(&mut self, by: i32) {
        let last = self.turns().len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(by as isize).min(last);
    }

    /// Turns the selected row by so many steps, to the right for more.
    pub fn turn(&mut self, by: i32) {
        let Some(turn) = self.turns().get(self.at).copied() else { return };
        match turn {
            Turn::File => {
                let last = self.files.len().saturating_sub(1);
                self.now.1 = self.now.1.saturating_add_signed(by as isize).min(last);
            }
            Turn::Engine(dial) => {
                let Some(shape) = self.file(self.now.1).map(|file| Arc::clone(&file.shape)) else { return };
                self.now.0 = dial.turned(self.now.0, &shape, by);
            }
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
        let quantization = self.file(self.now.1).map(|file| format!(" {}", file.quantization)).unwrap_or_default();
        format!("{}{quantization} in {}", self.name, self.now.0.name())
    }

    /// What the model takes as it stands.
    pub fn estimate(&self) -> Option<Estimate> {
        Some(self.now.0.estimate(&self.file(self.now.1)?.shape))
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
        let each = fit.each.clone();
        let card = Card { index: 0, uuid: None, name: String::new(), total, free, each };
        options::fits(&self.now.0, &self.file(self.now.1)?.shape, Some(&card))
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
        match self.fits(fit) {
            Some(true) => {
                format!("It fits: about {total} of the {free} that {when}, {} to spare.", free.less(total))
            }
            Some(false) if total <= free && matches!(self.now.0, Engine::Vllm(_) | Engine::Sglang(_)) => {
                format!("It takes about {total}, but not within the share of the card that is set; {free} {when}.")
            }
            Some(false) if total <= free => {
                let each = if fit.is_on_several() { " on each card" } else { "" };
                let room = if fit.is_on_several() { &*fit.each } else { std::slice::from_ref(&free) };
                let by_itself = self.file(self.now.1).map(|file| self.now.0.by_itself(&file.shape, room));
                format!(
                    "Too tight: about {total} of the {free} that {when}; {} wants 1 GiB left free{each}.{}",
                    self.now.0.who_wants(),
                    by_itself.unwrap_or_default()
                )
            }
            Some(false) => {
                format!("It does not fit: about {total}, and {free} {when}: {} too much.", total.less(free))
            }
            None => format!("It takes about {total}; {free} {when}."),
        }
    }

    /// What is changed, in words: "32K context, KV cache type q8_0".
    pub fn changes(&self) -> Vec<String> {
        let (rows, _) = self.rows();
        rows.into_iter().filter(|row| row.was.is_some()).map(|row| format!("{} {}", row.name, row.value)).collect()
    }

    /// The changes as a command of the engine's; `None` where nothing is changed that a command says.
    pub fn command(&self) -> Option<String> {
        self.now.0.changed_from(&self.was.0, &self.file(self.now.1)?.shape)
    }

    /// What must be done beside the command line: another file, a setting of Ollama's own.
    pub fn beside(&self) -> Option<String> {
        let file = self.file(self.now.1).filter(|_| self.now.1 != self.was.1).map(|file| {
            let size = file.shape.weights.as_ref().ok().map(|sums| words::download(Bytes(sums.in_file())));
            format!("the {} file ({})", file.quantization, size.as_deref().unwrap_or("a download"))
        });
        let layers = self.now.0.layers_set_from(&self.was.0);
        match (file, layers) {
            (Some(file), Some(layers)) => Some(format!("{file}, and {layers} inside ollama run")),
            (None, Some(layers)) => Some(format!("{layers} inside ollama run")),
            (file, None) => file,
        }
    }
}

/// The model's files from the smallest to the largest, and which is the run's own: the mixes that llama.cpp's files are
/// given out in; for vLLM a checkpoint in 4 bits.
fn files(own: File, basis: &Basis) -> (Vec<File>, usize) {
    let bytes = |file: &File| file.shape.weights.as_ref().map_or(0, crate::memory::weights::WeightSums::in_file);
    let others: Vec<File> = match basis.engine {
        Engine::LlamaCpp(_) | Engine::Ollama(_) => options::at_mixes(&basis.shape)
            .into_iter()
            .map(|(mix, shape)| File { quantization: mix.to_owned(), shape: Arc::new(shape) })
            .filter(|file| file.quantization != own.quantization)
            .collect(),
        Engine::Vllm(_) | Engine::Sglang(_) => options::in_four_bits(basis.engine, &basis.shape)
            .map(|(_, shape)| File { quantization: "4 bits (AWQ, GPTQ)".into(), shape: Arc::new(shape) })
            .into_iter()
            .collect(),
        Engine::Transformers(_) | Engine::Train(_) => Vec::new(),
    };
    let mut files: Vec<File> = others.into_iter().chain([own.clone()]).collect();
    files.sort_by_key(bytes);
    let at = files.iter().position(|file| *file == own).unwrap_or(0);
    (files, at)
}
