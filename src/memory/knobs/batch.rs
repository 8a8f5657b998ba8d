//! Owns how many sequences are computed at once: by transformers, and on each GPU by a training run.

use crate::memory::knob::*;
use crate::memory::knobs::checkpointing;

pub(crate) static KNOB: Knob = Knob {
    name: "batch",
    engines: &[Kind::Transformers, Kind::Train],
    fixes: &[FixId::SMALLER_BATCH],
    placeholder: |_, batch| Some(("lower:batch", batch.to_string())),
    number: |engine| match engine {
        Engine::Transformers(generating) => Some(&mut generating.batch),
        Engine::Train(training) => Some(&mut training.step.batch),
        _ => None,
    },
    states: Some(|engine, _| match engine {
        Engine::Train(training) => Some(Said::Option(format!("per_device_train_batch_size={}", training.step.batch))),
        _ => None,
    }),
    cost: |_, _, _| 1,
    proposals: |need| one_at_a_time(need).into_iter().collect(),
    step: half,
    label: Some(|_| "sequences at once"),
    ladder: Some(|_, _| vec![1, 2, 4, 8, 16, 32, 64]),
    ..Knob::PLAIN
};

/// Half of a training run's batch.
fn half(engine: &Engine) -> Option<Engine> {
    let mut half = *engine;
    let Engine::Train(training) = &mut half else { return None };
    training.step.batch /= 2;
    (training.step.batch > 0).then_some(half)
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
