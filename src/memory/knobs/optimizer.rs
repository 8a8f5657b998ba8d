//! Owns the optimizer of a training run. Values are places in `OPTIMIZERS`.

use crate::memory::knob::*;
use crate::memory::knobs::checkpointing;
use crate::memory::training::{Optimizer, Training};

/// Optimizers with the argument of TrainingArguments that names them, from what takes least to what takes most.
const OPTIMIZERS: [(Optimizer, &str, Option<&str>); 4] = [
    (Optimizer::AdamW8bit, "8-bit AdamW", Some("adamw_bnb_8bit")),
    (Optimizer::Adafactor, "Adafactor", Some("adafactor")),
    (Optimizer::Sgd, "SGD, momentum", Some("sgd")),
    (Optimizer::AdamW, "AdamW", None),
];

pub(crate) static KNOB: Knob = Knob {
    name: "optimizer",
    engines: &[Kind::Train],
    fixes: &[FixId::EIGHT_BIT_OPTIMIZER],
    get: Some(|engine, _| place(engine) as u64),
    set: Some(|engine, _, to| {
        let known = usize::try_from(to).ok().and_then(|place| OPTIMIZERS.get(place));
        if let (Engine::Train(training), Some((optimizer, ..))) = (engine, known) {
            training.optimizer = *optimizer;
        }
    }),
    states: Some(|engine, _| {
        let (_, _, name) = OPTIMIZERS.get(place(engine))?;
        Some(Said::Option(format!("optim=\"{}\"", (*name)?)))
    }),
    cost: |_, _, _| 4,
    proposals: |need| eight_bits(need).into_iter().collect(),
    step: |engine| match engine {
        Engine::Train(training) if has_adamw_for_all(training) => Some(Engine::Train(in_eight_bits(*training))),
        _ => None,
    },
    ladder: Some(|_, _| (0..OPTIMIZERS.len() as u64).collect()),
    shown: Some(|engine, _| OPTIMIZERS.get(place(engine)).map_or("?", |(_, words, _)| words).to_owned()),
    ..Knob::PLAIN
};

fn place(engine: &Engine) -> usize {
    let Engine::Train(training) = engine else { return 0 };
    OPTIMIZERS.iter().position(|(known, ..)| *known == training.optimizer).unwrap_or(0)
}

/// Whether AdamW's states are of all parameters: those of adapters are small.
fn has_adamw_for_all(training: &Training) -> bool {
    training.optimizer == Optimizer::AdamW && !training.recipe.is_adapter()
}

fn in_eight_bits(training: Training) -> Training {
    Training { optimizer: Optimizer::AdamW8bit, ..training }
}

fn eight_bits(need: &Need<'_>) -> Option<Proposal> {
    let Engine::Train(training) = need.engine else { return None };
    if !has_adamw_for_all(&training) || training.sharing.offload {
        return None;
    }
    let turns = [Turn { knob: &KNOB, to: 0 }, checkpointing::ON];
    let engine = Engine::Train(in_eight_bits(checkpointing::with(training)));
    Some(need.propose(&turns, "8-bit Adam and gradient checkpointing", engine))
}
