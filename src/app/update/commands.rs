//! Owns what the program's own commands do, whichever region has the focus: closing, reporting, suspending, leaving.

use super::allocations;
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::model::{Model, Pipe, Region};
use crate::app::overlay::symptoms::Symptoms;
use crate::app::question::Asked;
use crate::app::region::{self, processes};
use crate::app::summary;
use crate::app::walk::{EndingState, Mark};
use crate::report::Report;
use crate::report::markdown::{Paper, markdown};

/// Esc: ends what is waited for, else closes the overlay, else stops reading a file, else closes the notice, removes the
/// marks, clears the filter, ends the zoom, or leaves the log where it covers the others.
pub(super) fn escape(model: &mut Model) -> Option<Effect> {
    if model.walk.waits_for.take().is_some() {
        model.say("No longer waiting for memory.");
        return None;
    }
    if model.overlay.is_none()
        && let Some(stop) = allocations::stop_reading(model)
    {
        return Some(stop);
    }
    close(model);
    None
}

fn close(model: &mut Model) {
    let awaited_a_log = model.input.since_it_worked.cancel();
    if model.overlay.take().is_some() || model.notice.take().is_some() || awaited_a_log {
        return;
    }
    if !model.processes.marked.is_empty() {
        model.processes.marked.clear();
    } else if !model.processes.filter.is_empty() {
        processes::filter(model, String::new());
    } else if model.zoomed {
        model.zoomed = false;
    } else if model.focus == Region::Input && model.is_small() {
        // There the log covers the others.
        region::show_log(model);
    }
}

/// Writes everything on the screen as a text for others.
pub(super) fn report(model: &mut Model) -> Option<Effect> {
    let written = written(model);
    if written.is_none() {
        model.say("Nothing to report yet: paste the error first.");
    }
    written.map(Effect::WriteReport)
}

fn written(model: &Model) -> Option<String> {
    let (log, diagnosis, advice) = (model.input.log.as_ref()?, model.input.diagnosis.as_ref()?, model.advice.as_ref()?);
    let snapshot = model.snapshot();
    let since = model.input.since_it_worked.known();
    let host = model.hosts.away.as_ref().map(|away| &away.name);
    let no_reading = model.feed.down.as_deref();
    let report = Report { snapshot, host, no_reading, since, ..Report::of(diagnosis, advice) };
    let (walked, names) = (summary::walked(model), Some(&model.config.names));
    Some(markdown(&Paper {
        recorded: &[],
        report,
        log,
        origin: &model.input.origin,
        at: model.wall,
        walked: &walked,
        names,
    }))
}

pub(super) fn suspend(model: &mut Model) -> Option<Effect> {
    if model.config.can_suspend {
        return Some(Effect::Suspend);
    }
    let quit = model.key(Action::Quit);
    model.say(format!("There is no shell here to suspend to; {quit} quits."));
    None
}

/// Lists what people see when memory runs out, for whoever has no log.
pub(super) fn pick_symptom(model: &mut Model) {
    if model.input.log.is_none() {
        return model.toggle(Symptoms);
    }
    let about = model.key(Action::About);
    model.say(format!("A log is open: {about} explains its error. Paste another log to replace it."));
}

/// Uses the next set of colors until the program ends; `config.ron` keeps one.
pub(super) fn next_theme(model: &mut Model) {
    let (name, palette) = model.config.palette.next();
    model.config.palette = palette;
    model.say(format!("Theme: {name}. To keep it, set theme: \"{name}\" in config.ron."));
}

/// Leaves, or asks first where something is still open.
pub(super) fn quit(model: &mut Model) -> Option<Effect> {
    match still_open(model) {
        Some(what) => {
            model.ask(Asked::Quit(what.to_owned()));
            None
        }
        None => Some(model.leave()),
    }
}

/// Why leaving is asked about, if it is.
fn still_open(model: &Model) -> Option<&'static str> {
    // A command that was copied is run elsewhere: nothing here waits for it, and the next start knows it.
    let has_begun = model.walk.behind.iter().any(|behind| behind.mark != Mark::Taken) || !model.endings.is_empty();
    let has_fixes = model.advice.as_ref().is_some_and(|advice| !advice.plan.is_empty());
    let mut states = model.endings.iter().map(|ending| &ending.state);
    if model.input.pipe == Pipe::Open {
        Some("The piped job still runs. Its output stays open after quitting, so it does not die of a broken pipe.")
    } else if states.any(|state| matches!(state, EndingState::Sending | EndingState::Waiting)) {
        Some("A terminated process has not exited yet.")
    } else if has_begun && has_fixes && !model.walk.works {
        Some("Some fixes were tried.")
    } else {
        None
    }
}
