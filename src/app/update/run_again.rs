//! Owns what becomes of a recording that was read, and of the command that was run again: the question before it, the mark
//! of the fix afterwards, and the log of a run that failed again.

use std::sync::Arc;

use super::{keep, log};
use crate::app::action::Action;
use crate::app::advise::advise_anew;
use crate::app::effect::Effect;
use crate::app::last::Story;
use crate::app::model::{AwaitedRecord, Model, Source};
use crate::app::overlay::done::Done;
use crate::app::overlay::recording::RecordingView;
use crate::app::question::Asked;
use crate::app::replay::{Played, Replay};
use crate::app::rerun::{planned, refused};
use crate::app::run_again::RunAgain;
use crate::app::walk::{Mark, StepId};
use crate::record::End;
use crate::record::passed::{Outcome, Passed, Side, compare};

/// Asks whether to run the recorded command again; its recording is read first, since the folder stands there.
pub(super) fn ask(model: &mut Model) -> Option<Effect> {
    if model.advice.is_none() {
        model.say("Paste the error first.");
        return None;
    }
    if let Some(why) = refused(model) {
        model.say(why);
        return None;
    }
    let path = if model.config.source == Source::Live { model.input.record.clone() } else { None };
    let is_read = model.replay.as_ref().is_some_and(|replay| Some(&replay.tape.path) == path.as_ref());
    match path {
        Some(path) if !is_read => {
            model.awaited_record = Some(AwaitedRecord::ToRunAgain);
            return Some(Effect::ReadRecord(path));
        }
        _ => ask_now(model),
    }
    None
}

fn ask_now(model: &mut Model) {
    match planned(model) {
        Ok(run) => model.ask(Asked::RunAgain(Box::new(run))),
        Err(why) => model.say(why),
    }
}

/// The person said yes. The demo's job goes on as one that was started in another terminal: its fix is taken.
pub(super) fn confirmed(model: &mut Model, run: Box<RunAgain>) -> Effect {
    if model.config.source == Source::Demo {
        take(model, &run, Mark::Taken);
        model.walk.since.get_or_insert(model.wall);
        advise_anew(model);
    }
    Effect::RunAgain(run)
}

/// A recording was read. It is shown, or its command asked about, unless the person does something else by now.
pub(super) fn record_was_read(model: &mut Model, read: Result<Arc<Played>, String>) {
    let awaited = model.awaited_record.take();
    let tape = match read {
        Ok(tape) => tape,
        Err(why) => return model.say(format!("The recording cannot be opened: {why}.")),
    };
    model.replay = Some(Box::new(Replay::new(tape)));
    if model.question.is_some() || model.prompt.is_some() || model.input.typing.is_some() {
        return;
    }
    match awaited {
        Some(AwaitedRecord::ToShow) => model.open(RecordingView),
        Some(AwaitedRecord::ToRunAgain) => ask_now(model),
        None => {}
    }
}

/// The command ended, or could not be run.
pub(super) fn ran(
    model: &mut Model,
    run: &RunAgain,
    outcome: Result<(End, Option<Arc<Played>>), String>,
) -> Option<Effect> {
    let (end, after) = match outcome {
        Ok(ended) => ended,
        Err(why) => {
            model.say(format!("The command was not run: {why}."));
            return None;
        }
    };
    if model.config.source == Source::Demo {
        // Nothing ran, so there is nothing to compare.
        return None;
    }
    let before = Arc::clone(&model.replay.as_ref()?.tape);
    let outcome = compare(side(&before), after.as_deref().map(side), end);
    model.walk.since.get_or_insert(model.wall);
    model.walk.freed_before.push(format!("{} Command: {}", outcome.seen, run.line()));
    mark(model, run, &outcome);
    if outcome.failed_again
        && let Some(tape) = after
        && let Some(output) = tape.output.clone()
    {
        let effect = open_second_failure(model, run, tape, output);
        model.say(outcome.seen);
        return Some(effect);
    }
    if model.walk.works {
        model.open(Done);
    } else {
        let key = model.key(Action::RunAgain);
        model.say(format!("{} {key} runs it again.", outcome.seen));
    }
    None
}

fn side(tape: &Played) -> Side<'_> {
    Side { recording: &tape.recording, output: tape.output.as_deref() }
}

/// Marks the fix that was tried: as one that worked where the run passed the point of the failure, as one that did not help
/// where memory ran out again. A run that failed for another reason says nothing about it.
fn mark(model: &mut Model, run: &RunAgain, outcome: &Outcome) {
    let mark = match outcome.passed {
        _ if outcome.failed_again => Mark::DidNotHelp,
        Passed::Succeeded | Passed::Further => Mark::Taken,
        Passed::NotFurther | Passed::Unknown => return,
    };
    model.walk.works = mark == Mark::Taken;
    model.walk.has_seen_it_work = model.walk.works;
    take(model, run, mark);
}

/// Leaves the fix that the run tries with this mark.
fn take(model: &mut Model, run: &RunAgain, mark: Mark) {
    let Some((fix, target)) = run.step else { return };
    let id = &StepId { fix, target };
    if let Some(behind) = model.walk.behind.iter_mut().find(|behind| behind.id == *id) {
        behind.mark = mark;
        return;
    }
    let ahead = model.steps_ahead().into_iter().find(|step| StepId::of(step) == *id).cloned();
    if let Some(step) = ahead {
        model.walk.leave(&step, mark);
    }
}

/// The log of the second failure, with the walk so far: it is compared with the first one.
fn open_second_failure(model: &mut Model, run: &RunAgain, tape: Arc<Played>, output: String) -> Effect {
    model.walk.before = model.input.diagnosis.clone().map(Box::new);
    model.walk.was_not_enough();
    // The new command has these changes already.
    model.walk.behind.iter_mut().for_each(|behind| behind.changes = None);
    let story = Story {
        command: Some(run.line()),
        crashed_by: Some(model.wall),
        record: Some(tape.path.clone()),
        works: false,
        ..keep::story_of(model)
    };
    model.replay = Some(Box::new(Replay::new(tape)));
    log::open_last(model, output, story)
}
