//! Owns growth: the run worked for a while first, so that its ordinary steps fitted and something grew.

use super::rule::{Evidence, said};
use crate::advice::case::Case;
use crate::advice::phrases::plain_and;
use crate::allocations::findings::FindingKind;
use crate::knowledge::diagnosis::{Diagnosis, Phase, Stage};

/// A run that came this far had room for an ordinary step.
const STEPS_THAT_FITTED: u64 = 20;
/// A validation beside the training comes after some of it; the check before training has two steps.
const STEPS_BEFORE_VALIDATION: u64 = 5;

/// By a snapshot, which shows the line.
pub(super) fn shown_by_snapshot(case: &Case<'_>) -> Evidence {
    said(case, FindingKind::Growth)
}

pub(super) fn find(case: &Case<'_>) -> Evidence {
    let log = case.log;
    if log.phase != Phase::Training || !case.is_short_of_vram() || log.run.stage == Some(Stage::Saving) {
        return None;
    }
    if log.run.stage == Some(Stage::Validation) && has_trained(log) {
        return Some(vec![
            "the training steps fitted; it died in the validation, which may keep gradients or collect its results on the GPU".to_owned(),
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
pub(super) fn progress(log: &Diagnosis) -> Option<String> {
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

pub(super) fn say(case: &Case<'_>) -> String {
    let run = &case.log.run;
    let is_validation = run.stage == Some(Stage::Validation) && (run.step.is_some() || run.epoch.is_some());
    let shown = case.log.recorded_failure().and_then(|filled| filled.growth.first());
    if let Some(growth) = shown {
        let (from, to) = (growth.from_bytes, growth.to_bytes);
        return plain_and(case, Some(format!("What {} allocates grew from {from} to {to}.", growth.at)));
    }
    let more = match is_validation {
        true => Some("Its training steps fitted; the evaluation (validation) did not.".to_owned()),
        false => progress(case.log).map(|progress| format!("It had come to {progress}, so it grew.")),
    };
    plain_and(case, more)
}
