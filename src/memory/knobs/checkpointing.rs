//! Owns gradient checkpointing: whether a training run keeps activations (1) or computes them again (0).

use crate::memory::knob::*;
use crate::memory::training::Training;

pub(crate) static KNOB: Knob = Knob {
    name: "activations",
    engines: &[Kind::Train],
    fixes: &[FixId::GRADIENT_CHECKPOINTING],
    get: Some(|engine, _| u64::from(!is_on(engine))),
    set: Some(|engine, _, to| {
        if let Engine::Train(training) = engine {
            training.step.checkpointing = to == 0;
        }
    }),
    // FSDP computes layers again itself: with the script's own setting they would be gathered twice.
    states: Some(|engine, _| match engine {
        Engine::Train(training) if training.step.checkpointing && !training.sharing.fsdp => {
            Some(Said::Option("gradient_checkpointing=True".to_owned()))
        }
        _ => None,
    }),
    cost: |_, _, _| 1,
    proposals: |need| match need.engine {
        Engine::Train(training) if !training.step.checkpointing => vec![need.turn(&KNOB, 0, "gradient checkpointing")],
        _ => Vec::new(),
    },
    ladder: Some(|_, _| vec![0, 1]),
    shown: Some(|engine, _| if is_on(engine) { "computed again" } else { "kept" }.to_owned()),
    ..Knob::PLAIN
};

/// What goes with the other proposals for training: it is the first thing to try.
pub(crate) const ON: Turn = Turn { knob: &KNOB, to: 0 };

fn is_on(engine: &Engine) -> bool {
    matches!(engine, Engine::Train(training) if training.step.checkpointing)
}

/// The run with its activations computed again.
pub(crate) fn with(mut training: Training) -> Training {
    training.step.checkpointing = true;
    training
}
