//! Owns growth: the run worked for a while first, so that its ordinary steps fitted and something grew.

use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase, Stage};

pub(crate) const ABOUT: About = About {
    id: CauseKind::Growth,
    name: "growth",
    blames: Blames::TheRun,
    speaks_of_size: SpeaksOfSize::WhileLoading,
    is_solved_by_another_gpu: false,
    say,
    prevent,
};

pub(crate) const CAME_FAR: Rule =
    Rule { about: &ABOUT, name: "training steps fitted before", strength: Strength::Likely, find };

/// A run that came this far had room for an ordinary step.
const STEPS_THAT_FITTED: u64 = 20;
/// A validation beside the training comes after some of it; the check before training has two steps.
const STEPS_BEFORE_VALIDATION: u64 = 5;

fn find(case: &Case<'_>) -> Option<Vec<String>> {
    let log = case.log;
    if log.phase != Phase::Training || log.memory != Some(MemoryKind::Gpu) || log.run.stage == Some(Stage::Saving) {
        return None;
    }
    if log.run.stage == Some(Stage::Validation) && has_trained(log) {
        return Some(vec![
            "the training steps fitted; it died in the validation, which may keep gradients or collect its results on the card".to_owned(),
        ]);
    }
    Some(vec![format!(
        "it had reached {}, so its steps fitted before: a longer batch came, a validation kept gradients, or something is kept from step to step",
        progress(log)?
    )])
}

fn has_trained(log: &Diagnosis) -> bool {
    log.run.step.is_some_and(|step| step >= STEPS_BEFORE_VALIDATION) || log.run.epoch.is_some()
}

/// How far it came, where that is far enough to show that an ordinary step fits.
pub(crate) fn progress(log: &Diagnosis) -> Option<String> {
    let run = &log.run;
    // Steps count on from a checkpoint.
    let resumed_at = run.resumed_step.unwrap_or(0);
    if let Some(step) = run.step.filter(|step| step.saturating_sub(resumed_at) >= STEPS_THAT_FITTED) {
        return Some(format!("step {step}"));
    }
    // Of "Epoch 1/10" the first is 1, else 0.
    let first = u64::from(run.epoch_of_many.is_some());
    let epoch = run.epoch.filter(|epoch| *epoch > first)?;
    run.resumed_step.is_none().then(|| format!("epoch {epoch}"))
}

fn say(case: &Case<'_>) -> String {
    let run = &case.log.run;
    let plain = plain(case);
    if run.stage == Some(Stage::Validation) && (run.step.is_some() || run.epoch.is_some()) {
        return format!("{plain} Its training steps fitted; the evaluation (validation) did not.");
    }
    match progress(case.log) {
        Some(progress) => format!("{plain} It had come to {progress}, so it grew."),
        None => plain,
    }
}

fn prevent(_is_training: bool) -> &'static str {
    "Keep numbers, not tensors (loss.item()), and put validation under no_grad; a level bar after a hundred steps is the sign."
}
