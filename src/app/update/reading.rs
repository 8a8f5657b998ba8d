//! Owns what becomes of a log that was read: its diagnosis, the walk that begins or goes on, and the comparison with a run
//! that worked.

use super::allocations;
use super::log::{NO_TEXT, file_name};
use crate::advice::changed;
use crate::advice::compare::compare;
use crate::app::advise::advise_anew;
use crate::app::model::{Model, Pipe, Region, SinceItWorked};
use crate::app::msg::LogRead;
use crate::app::walk::Walk;
use crate::gpu::ProcessKey;
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::run::Run;
use crate::memory::table;

/// A log was read.
pub(super) fn log_was_read(model: &mut Model, read: LogRead) {
    if read.generation != model.input.generation {
        return;
    }
    if read.log.is_binary() {
        return log_was_not_read(model, read.generation, NO_TEXT.into());
    }
    if read.log.is_empty() {
        model.input.awaited = None;
        return model.say(why_empty(model));
    }
    let is_first = model.input.log.is_none();
    let adds = model.input.file.as_ref().is_some_and(|file| file.adds && !model.input.own);
    let grew = model.input.pipe == Pipe::Open || adds || model.allocations.is_only_addition;
    let had_fixes = has_fixes_ahead(model);
    let has_ended_in_the_log = has_ended_in_the_log(model);
    let forgotten = take_in(model, read, grew);
    model.advice = None;
    if !grew {
        begin_anew(model);
    }
    advise_anew(model);
    if let Some(forgotten) = forgotten {
        model.say(forgotten);
    }
    // The failure may come long after the first line, and well before the pipe's end: a launcher outlives its ranks.
    let watches_it_come = model.focus == Region::Input && model.input.typing.is_none();
    if has_fixes_ahead(model) && (is_first || !grew || !had_fixes && watches_it_come) {
        model.focus = Region::Steps;
    }
    if has_ended_in_the_log && !has_fixes_ahead(model) {
        model.focus = Region::Steps;
    }
    // On a screen with one region the verdict is above the fixes only.
    if model.has_one_region() && is_first {
        model.focus = Region::Steps;
    }
    allocations::were_read(model);
}

/// Whether what came through the pipe is complete and nobody does anything in the log, which was shown while it came.
fn has_ended_in_the_log(model: &Model) -> bool {
    let input = &model.input;
    let is_read = input.top.is_some() || !input.search.is_empty() || input.typing.is_some();
    model.focus == Region::Input && input.pipe == Pipe::Closed && !input.own && !is_read
}

/// That the log is empty, and what to do about it.
fn why_empty(model: &Model) -> String {
    match &model.input.file {
        Some(file) if !model.input.own => {
            format!("{} is empty: it is read as soon as something is written to it.", file_name(&file.path))
        }
        _ => "This log is empty. Paste the error here instead.".to_owned(),
    }
}

fn has_fixes_ahead(model: &Model) -> bool {
    model.advice.as_ref().is_some_and(|advice| !advice.plan.is_empty())
}

/// Puts what was read into the model; the notice where that makes it forget the model that the person set.
fn take_in(model: &mut Model, read: LogRead, grew: bool) -> Option<String> {
    let input = &mut model.input;
    input.crashed_by = read.written.or(input.crashed_by);
    input.awaited = None;
    input.is_a_pane = false;
    let lines = read.log.line_count();
    input.log = Some(read.log);
    let last = input.diagnosis.replace(read.diagnosis);
    input.fixes = read.fixes;
    input.pages = read.pages;
    input.top = input.top.filter(|top| grew && *top < lines);
    if grew { None } else { forget_other_model(model, last.as_ref()) }
}

/// Begins the walk of another log: with its story where it is the last one's, else with what the fixes for the failure before
/// have changed already.
fn begin_anew(model: &mut Model) {
    model.trial = None;
    model.input.since_it_worked = SinceItWorked::Unknown;
    let before = model.walk.before.take();
    let compared = before.zip(model.input.diagnosis.as_ref()).map(|(before, after)| compare(&before, after));
    if compared.is_some() {
        // The new error that the notice asks for is here.
        model.notice = None;
    }
    if let Some(story) = model.input.story.take() {
        model.walk = Walk { compared, ..story.walk(model.config.boot_id.as_ref()) };
    } else if compared.is_some() {
        let mut behind = std::mem::take(&mut model.walk.behind);
        behind.retain(|behind| behind.is_settled(|key| is_listed(model, key)));
        model.walk = Walk { behind, compared, ..Walk::default() };
    } else {
        model.walk = Walk::default();
    }
    model.walk.began = model.now;
}

fn is_listed(model: &Model, key: ProcessKey) -> bool {
    model.snapshot().is_some_and(|snapshot| snapshot.find(key).is_some())
}

/// The log of a run that worked was read. One that arrives after another log was opened is compared with that one.
pub(super) fn run_that_worked(model: &mut Model, run: Result<Run, String>) {
    let compared = match (run, &model.input.diagnosis) {
        (Ok(worked), Some(failed)) => Ok(changed::since(&worked, &failed.run)),
        (Ok(_), None) => Err("there is no failed run to compare it with".to_owned()),
        (Err(why), _) => Err(why),
    };
    match compared {
        Ok(differences) => model.input.since_it_worked = SinceItWorked::Known(differences),
        Err(why) => {
            model.input.since_it_worked = SinceItWorked::Unknown;
            model.say(format!("Not compared: {why}."));
        }
    }
}

/// Forgets the model that the person set where this log names another one, and says so. What they set for a name that
/// tells nothing, such as a blob's, stays while logs have that name.
fn forget_other_model(model: &mut Model, last: Option<&Diagnosis>) -> Option<String> {
    let named = model.input.diagnosis.as_ref()?.run.model.clone()?;
    let set = model.input.model.as_ref()?;
    let is_as_before = last.is_some_and(|last| last.run.model.as_ref() == Some(&named));
    if is_as_before || table::is_same_model(set, &named) {
        return None;
    }
    let set = model.input.model.take()?;
    let named = crate::text::harmless(&named).into_owned();
    Some(format!("This log names {named}, so {set} is no longer set as the model."))
}

/// A log could not be read: its pane says so until there is another.
pub(super) fn log_was_not_read(model: &mut Model, generation: u64, why: String) {
    if model.input.awaited.as_ref().is_some_and(|(awaited, _)| *awaited == generation) {
        model.input.awaited = None;
        if !allocations::were_not_read(model, &why) {
            model.input.trouble = Some(why);
        }
    }
}
