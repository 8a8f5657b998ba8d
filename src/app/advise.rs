//! Owns the advice's way into the model: log, machine and what was taken so far, joined.

use super::model::{Model, Source};
use super::summary;
use super::walk::StepId;
use crate::advice::{Situation, advise, other_machine};
use crate::knowledge::FixId;

/// Derives the advice from the log and the newest reading.
pub(crate) fn advise_anew(model: &mut Model) {
    // Nothing may be ended on another machine from here.
    let is_live = model.config.source != Source::Recorded && model.hosts.away.is_none();
    // The command contains the changes that were taken: the next fix builds on them.
    let command = model.rerun();
    let tried = model.walk.tried();
    model.advice = model.input.diagnosis.as_ref().map(|diagnosis| {
        let situation = Situation {
            diagnosis,
            fixes: &model.input.fixes,
            snapshot: model.feed.latest.as_deref(),
            history: Some(&model.feed.history),
            viewer: is_live.then_some(&model.config.viewer),
            crashed_by: model.input.crashed_by,
            zone: Some(&model.config.zone),
            command: command.as_deref(),
            model: model.input.model.as_deref(),
            own: None,
            ran_on: &[],
            has_run_here: false,
            taken: model.taken(),
            tried: &tried,
            before: model.advice.as_ref().map(|advice| &advice.remembered),
        };
        let mut advice = advise(&situation);
        other_machine::offer(&mut advice, &situation, &model.hosts.others());
        advice
    });
    if model.walk.began_with.is_none() {
        model.walk.began_with = model.advice.as_ref().map(|advice| summary::short_of(&advice.brief));
    }
}

/// Derives the advice from a newer reading of this machine or another one.
pub(crate) fn advise_and_keep_the_step(model: &mut Model) {
    // Once the person took a fix, the selected one stays selected, whatever the reading adds above it; only "run the job
    // again" replaces it.
    let has_begun = !model.walk.behind.is_empty();
    let read = if has_begun { model.current_step().map(StepId::of) } else { None };
    let could_run_again = offers_to_run_again(model);
    advise_anew(model);
    if offers_to_run_again(model) && !could_run_again {
        model.walk.cursor = None;
    }
    let ahead = model.steps_ahead();
    let now = ahead.get(model.walk.position(&ahead)).map(|step| StepId::of(step));
    let stays = read.filter(|read| ahead.iter().any(|step| StepId::of(step) == *read));
    if stays.is_some() && stays != now && now.is_some_and(|now| now.fix != FixId::RUN_AGAIN) {
        model.walk.cursor = stays;
    }
}

/// Whether the next step is to run the job again as it was.
fn offers_to_run_again(model: &Model) -> bool {
    model.steps_ahead().first().is_some_and(|step| step.fix == FixId::RUN_AGAIN)
}
