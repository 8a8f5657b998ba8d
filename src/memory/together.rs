//! Owns the search for the fewest settings that make a model fit together where none does alone. Each is turned on top of
//! those before it, to a value that its knob proposes; of as few, those that cost least. Pure. Bytes and tokens.

use std::cmp::Reverse;

use super::card::Card;
use super::engine::{Engine, Kind};
use super::estimate::Estimate;
use super::fits::fits;
use super::knob::{Knob, Need, Proposal, Turn};
use super::knobs::context;
use super::knobs::share::USEFUL_CONTEXT;
use super::shape::ModelShape;
use crate::units::Bytes;

/// More changes at once are another run.
const MOST: usize = 3;
/// The parts of the context that are tried before other settings are turned to what then fits.
const PARTS: [u64; 3] = [2, 4, 8];

/// What the settings together must reach.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    /// The GPU that the model is to fit.
    pub card: Card,
    /// What it takes without them.
    pub before: Estimate,
    /// System memory that is available.
    pub ram: Option<Bytes>,
    /// What they must free at least, where the log tells.
    pub short: Option<Bytes>,
}

impl Goal {
    fn is_reached(&self, engine: &Engine, shape: &ModelShape) -> bool {
        let after = engine.estimate(shape);
        let on_host = after.on_host().filter(|needs| self.before.on_host().is_none_or(|had| *needs > had));
        let has_ram = on_host.zip(self.ram).is_none_or(|(needs, available)| needs <= available);
        let frees = self.before.total().zip(after.total()).map(|(before, after)| before.less(after));
        let frees_enough = self.short.zip(frees).is_none_or(|(short, frees)| frees >= short);
        has_ram && frees_enough && fits(engine, shape, Some(&self.card)) == Some(true)
    }
}

/// Settings turned one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turned {
    pub turns: Vec<Turn>,
    /// The engine with all of them.
    pub engine: Engine,
    /// Another file of the model, where one of them is one.
    pub file: Option<Box<ModelShape>>,
    /// The first of the ways that may follow, so that each set is met once.
    next: usize,
}

/// A way to take less.
#[derive(Clone, Copy)]
enum Way {
    /// A part of the context, whatever then fits.
    Shorten,
    /// What the knob proposes.
    Turn(&'static Knob),
}

impl Way {
    fn knob(self) -> &'static Knob {
        if let Way::Turn(knob) = self { knob } else { &context::KNOB }
    }

    fn proposals(self, need: &Need<'_>) -> Vec<Proposal> {
        let knob = self.knob();
        if let Way::Shorten = self {
            let asked = need.engine.context(need.shape).unwrap_or(0);
            return PARTS.iter().map(|part| need.turn(knob, asked / part, "")).collect();
        }
        let mut proposals = (knob.proposals)(need);
        proposals.retain(|proposal| proposal.turns.first().is_some_and(|turn| turn.knob == knob));
        let step = (knob.step)(&need.engine);
        proposals.extend(step.map(|engine| {
            let turn = Turn { knob, to: knob.value(&engine, need.shape) };
            need.propose(&[turn], "", engine)
        }));
        proposals
    }
}

/// The fewest of these knobs, at least `least`, with which the goal is reached.
pub(crate) fn fewest(need: &Need<'_>, knobs: &[&'static Knob], least: usize, goal: &Goal) -> Option<Turned> {
    let mut ways: Vec<Way> = knobs.iter().map(|knob| Way::Turn(knob)).collect();
    if knobs.contains(&&context::KNOB) {
        ways.insert(0, Way::Shorten);
    }
    let mut reached = vec![Turned { turns: Vec::new(), engine: need.engine, file: None, next: 0 }];
    let mut best: Option<Turned> = None;
    for depth in 1..=MOST {
        reached = reached.iter().flat_map(|from| from.further(&ways, need)).collect();
        let enough = reached.iter().filter(|turned| turned.turns.len() >= least && turned.is_enough(need, goal));
        best = best.into_iter().chain(enough.cloned()).min_by_key(|turned| turned.rank(need));
        // What follows turns more of them.
        if best.as_ref().is_some_and(|best| best.turns.len() <= depth) {
            break;
        }
    }
    best
}

impl Turned {
    fn shape<'a>(&'a self, need: &Need<'a>) -> &'a ModelShape {
        self.file.as_deref().unwrap_or(need.shape)
    }

    fn further(&self, ways: &[Way], need: &Need<'_>) -> Vec<Turned> {
        let shape = self.shape(need);
        let now = Need { engine: self.engine, shape, fits: Some(false), ..*need };
        let mut further = Vec::new();
        for (at, way) in ways.iter().enumerate().skip(self.next) {
            if self.turns.iter().all(|turn| turn.knob != way.knob()) {
                further.extend(way.proposals(&now).into_iter().map(|proposal| self.with(proposal, at)));
            }
        }
        further
    }

    fn with(&self, proposal: Proposal, at: usize) -> Turned {
        let mut turns = self.turns.clone();
        for turn in proposal.turns {
            // A proposal may turn one of them further.
            match turns.iter_mut().find(|had| had.knob == turn.knob) {
                Some(had) => had.to = turn.to,
                None => turns.push(turn),
            }
        }
        Turned { turns, engine: proposal.engine, file: proposal.shape.or_else(|| self.file.clone()), next: at + 1 }
    }

    fn is_enough(&self, need: &Need<'_>, goal: &Goal) -> bool {
        let shape = self.shape(need);
        let (asked, has) = (need.engine.context(shape), self.engine.context(shape));
        // A server with next to no context answers nothing, nor does a run of cut sequences learn.
        let least = match need.engine.kind() {
            Kind::Train => asked.map(|asked| asked / 4),
            _ => asked.map(|asked| asked.min(USEFUL_CONTEXT)),
        };
        has >= least && goal.is_reached(&self.engine, shape)
    }

    /// Few before many, then what costs least, then the longest context.
    fn rank(&self, need: &Need<'_>) -> (usize, u32, Reverse<Option<u64>>) {
        let costs = self.turns.iter().map(|turn| u32::from((turn.knob.cost)(&need.engine, need.shape, turn.to)));
        (self.turns.len(), costs.sum(), Reverse(self.engine.context(self.shape(need))))
    }
}
