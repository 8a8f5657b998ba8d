//! Owns the advice's way into the model: log, machine and what was taken so far, joined.

use super::model::{Model, Source};
use super::summary;
use crate::advice::{Situation, advise, other_machine};

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
