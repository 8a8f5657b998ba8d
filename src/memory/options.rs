//! Owns what could be changed so that a model fits: each knob's proposals with what the model then takes, whether it fits,
//! and the flags. Order: what costs nothing or little first. Knows the engines' settings, not where a model was found.

use schemars::JsonSchema;
use serde::Serialize;

use super::card::Card;
use super::engine::Engine;
use super::estimate::Estimate;
use super::fits::longest;
use super::knob::{Flags, Knob, Need, Proposal, Turn};
use super::knobs::gpus::over;
use super::knobs::quantization::{FOUR_BITS, TO_FOUR_BITS, in_four_bits};
use super::knobs::{self, context, gpus, share};
use super::shape::ModelShape;
use super::words::context_in_words;
use crate::units::Bytes;

/// A change of a setting and what the model takes with it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FitOption")]
pub struct Choice {
    /// The knobs it turns; the first is the change itself, the others go with it.
    #[serde(skip)]
    pub turns: Vec<Turn>,
    /// The change in words that follow "with".
    pub change: String,
    /// The parts that the model then takes.
    #[serde(skip)]
    pub estimate: Estimate,
    /// VRAM needed in bytes; null where it is unknown.
    #[serde(rename = "total_bytes")]
    pub total: Option<Bytes>,
    /// Null where it is unknown.
    pub fits: Option<bool>,
    /// The flags of the change; null where it has none.
    pub flags: Option<String>,
    /// The engine with the change, for the whole command line; `None` where another file is needed.
    #[serde(skip)]
    pub engine: Option<Engine>,
    /// Whether it gives up context that was asked for.
    #[serde(skip)]
    pub shortens: bool,
    /// What it would need of system memory, where that is more than there is; then it does not fit.
    #[serde(skip)]
    pub lacks_ram: Option<Bytes>,
}

impl Choice {
    fn of(proposal: Proposal, own: &ModelShape) -> Choice {
        let fits = proposal.fits(own);
        let estimate = proposal.engine.estimate(proposal.shape.as_deref().unwrap_or(own));
        let flags = match proposal.flags {
            Flags::OfEngine { before, after } => {
                Some(format!("{before}{}{after}", proposal.engine.flags()).trim().to_owned())
            }
            Flags::These(flags) => Some(flags),
            Flags::Nothing => None,
        };
        Choice {
            turns: proposal.turns,
            change: proposal.words,
            total: proposal.total.or(estimate.total()),
            estimate,
            fits,
            flags: flags.filter(|flags| !flags.is_empty()),
            engine: proposal.is_own_command.then_some(proposal.engine),
            shortens: proposal.shortens,
            lacks_ram: None,
        }
    }

    /// The value that it turns this knob to, where that is the change itself.
    pub fn turned(&self, knob: &Knob) -> Option<u64> {
        self.turns.first().filter(|turn| turn.knob == knob).map(|turn| turn.to)
    }

    /// The only knob that it turns.
    pub fn only_turn(&self) -> Option<Turn> {
        if let [turn] = self.turns.as_slice() { Some(*turn) } else { None }
    }
}

/// A change that moves more to system memory than is available there does not fit.
pub fn hold_against_ram(choices: &mut [Choice], before: &Estimate, available: Option<Bytes>) {
    let Some((available, had)) = available.zip(before.on_host()) else { return };
    for choice in choices {
        let needs = choice.estimate.on_host().filter(|needs| *needs > available && *needs > had);
        if let (Some(needs), Some(true)) = (needs, choice.fits) {
            (choice.fits, choice.lacks_ram) = (Some(false), Some(needs));
        }
    }
}

/// The changes for this engine; where the model fits already, only those that allow more. `cards` are
/// all of the machine's.
pub fn options(engine: Engine, shape: &ModelShape, card: Option<&Card>, cards: &[Card]) -> Vec<Choice> {
    let need = Need::new(engine, shape, card, cards);
    let mut proposals: Vec<Proposal> = knobs::all().flat_map(|knob| (knob.proposals)(&need)).collect();
    if need.fits != Some(true) {
        proposals.extend(card.and_then(|card| share::with_longer_context(&need, card)));
    }
    let mut choices: Vec<Choice> = proposals.into_iter().map(|proposal| Choice::of(proposal, shape)).collect();
    if need.fits != Some(true) && choices.iter().all(|choice| choice.fits == Some(false)) {
        choices.extend(together(&need).map(|proposal| Choice::of(proposal, shape)));
    }
    choices
}

/// Where no single change is enough: fewer bits, more GPUs and a shorter context at once, of each as little as can be.
fn together(need: &Need<'_>) -> Option<Proposal> {
    let four_bits = in_four_bits(need.engine, need.shape).map(|(_, shape)| shape);
    [None, four_bits.as_ref()].into_iter().take(if four_bits.is_some() { 2 } else { 1 }).find_map(|other| {
        [1, 2, 4, 8].into_iter().find_map(|ranks| {
            [false, true].into_iter().find_map(|has_larger_share| combined(need, other, ranks, has_larger_share))
        })
    })
}

/// The model, or another file of it, over so many GPUs with the context that then fits.
fn combined(need: &Need<'_>, other: Option<&ModelShape>, ranks: u64, has_larger_share: bool) -> Option<Proposal> {
    let (over, least) = over(need.engine, need.shape, need.cards, ranks)?;
    let shape = other.unwrap_or(need.shape);
    let over = if has_larger_share { share::with_largest(over, shape, least)? } else { over };
    let asked = over.context(need.shape);
    let longest = longest(over, shape, least).filter(|tokens| *tokens >= share::USEFUL_CONTEXT)?;
    let tokens = asked.map_or(longest, |asked| asked.min(longest));
    let engine = over.with_context(tokens);
    let mut words = if other.is_some() { FOUR_BITS } else { "the model" }.to_owned();
    if has_larger_share {
        words += &format!(", {}", share::LARGER);
    }
    if ranks > need.engine.ranks() {
        words += &format!(" over {ranks} GPUs");
    }
    words += &format!(" and {}", context_in_words(&engine, shape)?);
    let mut turns = vec![Turn { knob: &context::KNOB, to: tokens }, Turn { knob: &gpus::KNOB, to: ranks }];
    turns.extend(other.map(|_| TO_FOUR_BITS));
    let proposal = Proposal {
        shape: other.cloned().map(Box::new),
        card: Some(least.clone()),
        // Another checkpoint is another name.
        is_own_command: other.is_none(),
        shortens: asked.is_some_and(|asked| asked > tokens),
        ..need.propose(&turns, words, engine)
    };
    (proposal.fits(need.shape) == Some(true)).then_some(proposal)
}

#[cfg(test)]
mod tests;
