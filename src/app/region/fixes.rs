//! Owns what keys do in the table of fixes: selecting, taking and skipping a fix, undoing it, and saying what became of it.

use super::processes::copy_kill;
use crate::advice::PlannedFix;
use crate::app::action::Action;
use crate::app::advise::advise_anew;
use crate::app::effect::Effect;
use crate::app::model::{Change, Model, SinceItWorked};
use crate::app::overlay::done::Done;
use crate::app::prompt::{Prompt, Purpose};
use crate::app::scroll::shifted;
use crate::app::update::endings;
use crate::app::walk::{EndingState, Mark, StepId};
use crate::gpu::ProcessKey;

/// Logs of this many bytes and more are not read whole.
const LARGEST_FOLLOWED: usize = 4 << 20;

pub(super) fn moved(model: &mut Model, by: i32) {
    let ahead = model.steps_ahead();
    let next = model.cursor(&ahead).map_or(0, |at| shifted(at, by, ahead.len()));
    let next = ahead.get(next).map(|step| StepId::of(step));
    model.walk.cursor = next;
}

/// Selects the fix at this place among those ahead.
pub(crate) fn select(model: &mut Model, at: usize) {
    let step = model.steps_ahead().get(at).map(|step| StepId::of(step));
    model.walk.cursor = step.or(model.walk.cursor.take());
}

/// Enter: does what the selected fix offers. It never asks about a signal; only `x` does.
pub(super) fn take(model: &mut Model) -> Vec<Effect> {
    let Some(step) = model.current_step().cloned() else {
        if let Some(name) = model.awaited().map(|ending| ending.victim.name.clone()) {
            model.say(format!("Still waiting for {name}. The arrow keys select another fix."));
        }
        return Vec::new();
    };
    match step.target {
        Some(target) => take_about(model, &step, target).into_iter().collect(),
        None if step.waits_for.is_some() => {
            model.walk.waits_for = step.waits_for;
            model.say("Watching: the terminal rings once there is room. Esc stops.");
            Vec::new()
        }
        None => take_change(model, &step).into_iter().collect(),
    }
}

/// Takes a fix that is about a process.
fn take_about(model: &mut Model, step: &PlannedFix, target: ProcessKey) -> Option<Effect> {
    if model.release_of(step).is_some() {
        endings::ask_to_release(model, target);
        return None;
    }
    let commands = commands(step);
    if step.gentle && !has_survived(model, target) {
        let action = step.steps.first().map(|step| step.action.clone()).unwrap_or_default();
        endings::free_elsewhere(model, target, commands.clone().unwrap_or(action));
        return commands.map(Effect::Copy);
    }
    match commands {
        Some(commands) => Some(Effect::Copy(commands)),
        None => copy_kill(model, &[target]),
    }
}

/// Takes a fix that changes the run.
fn take_change(model: &mut Model, step: &PlannedFix) -> Option<Effect> {
    model.walk.leave(step, Mark::Taken);
    model.walk.since.get_or_insert(model.wall);
    advise_anew(model);
    let [works, again, back] = [Action::Works, Action::FailedAgain, Action::Back].map(|action| model.key(action));
    model.say(format!("Run the job again. {works} worked · {again} failed again · {back} undo"));
    commands(step).map(Effect::Copy)
}

/// The commands of a fix, a line each.
fn commands(step: &PlannedFix) -> Option<String> {
    let commands: Vec<&str> = step.steps.iter().filter_map(|step| step.command.as_deref()).collect();
    (!commands.is_empty()).then(|| commands.join("\n"))
}

/// The first command of the selected fix.
pub(super) fn command(model: &Model) -> Option<String> {
    model.current_step()?.steps.iter().find_map(|step| step.command.clone())
}

/// Whether the process ignored the signal that it was sent.
fn has_survived(model: &Model, key: ProcessKey) -> bool {
    model.ending_of(key).is_some_and(|ending| matches!(ending.state, EndingState::Survived(_)))
}

pub(super) fn skip(model: &mut Model) {
    if let Some(step) = model.current_step().cloned() {
        model.walk.leave(&step, Mark::Skipped);
    }
}

/// Undoes the last fix that was taken, skipped or marked.
pub(super) fn back(model: &mut Model) {
    let Some(undone) = model.walk.behind.pop() else {
        return model.say("Nothing to undo.");
    };
    // What the notice says of the fix is no longer true.
    model.notice = None;
    advise_anew(model);
    let is_ahead = model.steps_ahead().iter().any(|step| StepId::of(step) == undone.id);
    model.walk.cursor = if is_ahead { Some(undone.id) } else { None };
}

/// The fix that was just taken, else the selected one, did not help: neither it nor a weaker one is offered again.
pub(super) fn did_not_help(model: &mut Model) {
    let title = if let Some(behind) = model.walk.just_taken() {
        (behind.mark, behind.enough) = (Mark::DidNotHelp, false);
        behind.title.clone()
    } else if let Some(step) = model.current_step().cloned() {
        model.walk.leave(&step, Mark::DidNotHelp);
        if let Some(behind) = model.walk.behind.last_mut() {
            // It was tried before this log, whose command contains it already.
            (behind.changes, behind.enough) = (None, false);
        }
        step.title
    } else {
        return model.say("There is no fix here to mark.");
    };
    advise_anew(model);
    let back = model.key(Action::Back);
    model.say(format!("Did not help: {title}. It is left out, with weaker fixes. {back} undoes this."));
}

/// The person reports that the job works; what its log's file says since the failure is read for the summary.
pub(super) fn works(model: &mut Model) -> Option<Effect> {
    if model.advice.is_none() {
        model.say("Paste the error first.");
        return None;
    }
    model.walk.works = true;
    model.open(Done);
    let (file, log) = (model.input.file.as_ref()?, model.input.log.as_ref()?);
    // Of a longer log not all of the file was kept, so that where its end was is not known.
    if log.raw().len() >= LARGEST_FOLLOWED {
        return None;
    }
    let from = match file.change? {
        Change::Grew(_) => log.raw().len(),
        Change::Anew => 0,
        Change::Gone => return None,
    };
    Some(Effect::ReadProgress { path: file.path.clone(), from })
}

/// The next paste is the new failure: no question about replacing the log.
pub(crate) fn failed_again(model: &mut Model) {
    let Some(diagnosis) = model.input.diagnosis.clone() else {
        return model.say("No earlier failure to compare with: paste the error.");
    };
    model.walk.before = Some(Box::new(diagnosis));
    model.input.since_it_worked.cancel();
    model.walk.was_not_enough();
    model.say("Paste the new error: it is compared with the one before.");
}

/// The next paste is the log of a run that worked.
pub(super) fn ask_for_log_that_worked(model: &mut Model) {
    if model.input.diagnosis.is_none() {
        return model.say("Paste the error first, then the log of a run that worked.");
    }
    model.input.since_it_worked = SinceItWorked::Awaited;
    model.walk.before = None;
    model.say("Paste the log of a run that worked. Esc cancels.");
}

/// Asks what was run, with what is known so far to be edited.
pub(super) fn ask_for_command(model: &mut Model) {
    let logged = model.input.diagnosis.as_ref().and_then(|diagnosis| diagnosis.run.command.as_ref());
    let known = model.input.command.as_ref().or(logged).cloned().unwrap_or_default();
    model.prompt = Some(Prompt::new(Purpose::Command, known));
}

pub(super) fn ask_for_model(model: &mut Model) {
    model.overlay = None;
    let known = model.input.model.clone().unwrap_or_default();
    model.prompt = Some(Prompt::new(Purpose::Model, known));
}
