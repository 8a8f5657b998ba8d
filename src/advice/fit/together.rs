//! Owns which settings of the run make its model fit together. Bytes.

use super::answer::{FitAdvice, FitChoice};
use crate::knowledge::FixId;
use crate::memory::knob::Need;
use crate::memory::knobs::quantization;
use crate::memory::together::{Goal, fewest};
use crate::memory::{Card, Engine, Is, Knob, ModelShape, Turn};
use crate::units::Bytes;

/// What may be changed, and what else there is then.
pub(crate) struct Asked {
    pub knobs: Vec<&'static Knob>,
    /// So many of them at least.
    pub least: usize,
    /// What ended processes free before.
    pub gone: Bytes,
    /// System memory that is available.
    pub ram: Option<Bytes>,
    /// What is short by the log's own sums.
    pub short: Option<Bytes>,
}

/// The fewest settings with which the model fits.
pub(crate) struct Together {
    pub turns: Vec<Turn>,
    pub engine: Engine,
    /// What it then takes with what must stay free.
    pub needs: Bytes,
    /// What is free for it.
    pub free: Bytes,
    /// What the settings free.
    pub frees: Option<Bytes>,
    /// What it takes.
    total: Option<Bytes>,
    /// The settings in words.
    words: String,
}

impl Together {
    pub(crate) fn as_choice(&self, fix: FixId) -> FitChoice {
        FitChoice {
            change: self.words.clone(),
            total_bytes: self.total,
            free_after_bytes: self.total.map(|total| self.free.less(total)),
            frees_bytes: self.frees,
            frees_is: self.frees.map(|_| Is::About),
            fits: Some(true),
            fixes: vec![fix],
            ..FitChoice::default()
        }
    }
}

fn in_words(turn: &Turn, engine: &Engine, shape: &ModelShape) -> String {
    match turn.knob.shown(engine, shape) {
        Some(shown) => format!("{} {shown}", turn.knob.label(engine)),
        None if *turn == quantization::TO_FOUR_BITS => quantization::FOUR_BITS.to_owned(),
        None => turn.knob.name.to_owned(),
    }
}

impl FitAdvice {
    /// The engine with the run's settings.
    pub(crate) fn engine_of_run(&self) -> Option<&Engine> {
        self.basis.as_ref().map(|(engine, _)| engine)
    }

    /// Whether so many layers are less than half of the model's.
    pub(crate) fn is_smaller_half(&self, layers: u64) -> bool {
        self.basis.as_ref().is_some_and(|(_, shape)| layers < shape.layer_count() / 2)
    }

    pub(crate) fn together(&self, asked: &Asked) -> Option<Together> {
        let (engine, shape) = self.basis.as_ref()?;
        let total = self.card_bytes.or(self.free_now_bytes)?;
        if asked.gone > Bytes::ZERO && !self.each.is_empty() {
            return None;
        }
        let free = self.free_now_bytes?.plus(asked.gone).min(total);
        let card = Card { each: self.each.clone(), ..Card::of(free, total) };
        let before = engine.estimate(shape);
        let short = asked.short.map(|short| short.less(asked.gone));
        let goal = Goal { card, before, ram: asked.ram, short };
        let need = Need::new(*engine, shape, Some(&goal.card), &[]);
        let turned = fewest(&need, &asked.knobs, asked.least, &goal)?;
        let shape = turned.file.as_deref().unwrap_or(shape);
        let after = turned.engine.estimate(shape);
        let needs = turned.engine.wanted(&after)?;
        let frees = goal.before.total().zip(after.total()).map(|(before, after)| before.less(after));
        let words: Vec<String> = turned.turns.iter().map(|turn| in_words(turn, &turned.engine, shape)).collect();
        let (total, words) = (after.total(), words.join(", "));
        Some(Together { turns: turned.turns, engine: turned.engine, needs, free, frees, total, words })
    }
}
