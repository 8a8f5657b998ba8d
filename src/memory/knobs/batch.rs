//! Owns how many sequences are computed at once: by transformers, and on each GPU by a training run.

use crate::ids::FixId;
use crate::memory::engine::{Engine, Kind};
use crate::memory::knob::{Dial, Knob, Need, Proposal, Said, Turn};
use crate::memory::knobs::checkpointing;

pub(crate) static KNOB: Knob = Knob {
    name: "batch",
    engines: &[Kind::Transformers, Kind::Train],
    fixes: &[FixId::SMALLER_BATCH],
    get: |engine, _| sequences(engine),
    set: |engine, _, to| set_to(engine, to),
    states: |engine, _| match engine {
        Engine::Train(_) => Some(Said::Option(format!("per_device_train_batch_size={}", sequences(engine)))),
        _ => None,
    },
    cost: |_, _, _| 1,
    proposals: |need| one_at_a_time(need).into_iter().collect(),
    step: half,
    dial: Some(Dial {
        label: |_| "sequences at once",
        is_shown: |_, _| true,
        ladder: |_, _| vec![1, 2, 4, 8, 16, 32, 64],
        shown: |engine, _| sequences(engine).to_string(),
    }),
    ..Knob::PLAIN
};

fn sequences(engine: &Engine) -> u64 {
    match engine {
        Engine::Transformers(generating) => generating.batch,
        Engine::Train(training) => training.step.batch,
        _ => 0,
    }
}

fn set_to(engine: &mut Engine, sequences: u64) {
    match engine {
        Engine::Transformers(generating) => generating.batch = sequences,
        Engine::Train(training) => training.step.batch = sequences,
        _ => {}
    }
}

/// Half of a training run's batch.
fn half(engine: &Engine) -> Option<Engine> {
    let Engine::Train(training) = engine else { return None };
    if training.step.batch <= 1 {
        return None;
    }
    let mut half = *engine;
    set_to(&mut half, training.step.batch / 2);
    Some(half)
}

fn one_at_a_time(need: &Need<'_>) -> Option<Proposal> {
    let Engine::Train(training) = need.engine else { return None };
    if training.step.batch <= 1 {
        return None;
    }
    let mut one = checkpointing::with(training);
    one.step.batch = 1;
    let turns = [Turn { knob: &KNOB, to: 1 }, checkpointing::ON];
    Some(need.propose(&turns, "one sequence at a time and gradient accumulation", Engine::Train(one)))
}
