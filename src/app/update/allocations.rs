//! Owns what becomes of memory snapshots: named, dropped onto the terminal, found beside the log, and shown.

use std::path::PathBuf;

use super::log;
use super::reading::log_was_not_read;
use crate::app::action::Action;
use crate::app::dropped::{DroppedFile, DroppedKind};
use crate::app::effect::Effect;
use crate::app::model::Model;
use crate::app::overlay::allocations::AllocationsView;

/// Shows the snapshots of the log's run; those that lie beside the log are read first.
pub(super) fn show(model: &mut Model) -> Option<Effect> {
    if !model.filled().is_empty() {
        model.open(AllocationsView);
        return None;
    }
    let beside = std::mem::take(&mut model.allocations.beside);
    if beside.is_empty() {
        model.say("No memory snapshot belongs to this log: drop one here, or name it after the log at the start.");
        return None;
    }
    Some(add(model, beside))
}

/// Reads the open log again, together with these snapshots of its run.
fn add(model: &mut Model, files: Vec<PathBuf>) -> Effect {
    let name = files.first().map(|file| log::file_name(file)).unwrap_or_default();
    let what = if files.len() > 1 { format!("{} memory snapshots", files.len()) } else { name };
    model.say(format!("Reading {what}. Esc cancels."));
    model.allocations.files.extend(files);
    model.allocations.is_only_addition = true;
    model.allocations.is_to_show = true;
    let text = model.input.log.as_ref().map(|log| log.raw().to_owned()).unwrap_or_default();
    log::ask_for(model, text)
}

/// Files beside the log look like snapshots of its run.
pub(super) fn lie_beside(model: &mut Model, generation: u64, beside: Vec<PathBuf>) {
    if generation != model.input.generation || !model.allocations.files.is_empty() || model.allocations.beside == beside
    {
        return;
    }
    let key = model.key(Action::Allocations);
    let what = match beside.as_slice() {
        [] => return,
        [one] => format!("{} lies beside the log: {key} reads it.", log::file_name(one)),
        several => format!("{} memory snapshots lie beside the log: {key} reads them.", several.len()),
    };
    model.say(what);
    model.allocations.beside = beside;
}

/// The terminal pasted paths, as it does when files are dropped onto it; without files, there are none and it is text.
pub(super) fn dropped(model: &mut Model, text: String, files: Option<Vec<DroppedFile>>) -> Option<Effect> {
    let Some(files) = files else { return log::pasted_text(model, text) };
    let (snapshots, logs): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.kind == DroppedKind::Snapshot);
    let snapshots: Vec<PathBuf> = snapshots.into_iter().map(|file| file.path).collect();
    let continues = model.input.log.is_some() && model.walk.before.is_none();
    match (logs.into_iter().next(), snapshots.split_first()) {
        (Some(first), _) => Some(log::open_dropped(model, first.path, snapshots)),
        (None, Some(_)) if continues => Some(add(model, snapshots)),
        (None, Some((first, rest))) => Some(log::open_dropped(model, first.clone(), rest.to_vec())),
        (None, None) => None,
    }
}

/// Stops reading a file that the person named, dropped or asked for: a large memory snapshot takes a while.
pub(super) fn stop_reading(model: &mut Model) -> Option<Effect> {
    if !model.allocations.is_to_show {
        return None;
    }
    let (generation, _) = model.input.awaited.clone()?;
    let beside = std::mem::take(&mut model.allocations.files);
    let was_addition = model.allocations.is_only_addition;
    let canceled = "Canceled: the file was not read.";
    log_was_not_read(model, generation, canceled.into());
    model.say(canceled);
    if was_addition {
        model.allocations.beside = beside;
    }
    // What was read meanwhile comes too late.
    model.input.generation += 1;
    Some(Effect::StopReading)
}

/// The log was read, with its snapshots if it has some. Those that the person asked for are shown.
pub(super) fn were_read(model: &mut Model) {
    model.allocations.is_only_addition = false;
    model.allocations.view.which = model.allocations.view.which.min(model.filled().len().saturating_sub(1));
    if std::mem::take(&mut model.allocations.is_to_show) && !model.filled().is_empty() {
        model.notice = None;
        model.open(AllocationsView);
    }
}

/// The snapshots could not be added to the open log, which stays as it is. Whether that was what was read.
pub(super) fn were_not_read(model: &mut Model, why: &str) -> bool {
    let is_addition = std::mem::take(&mut model.allocations.is_only_addition);
    model.allocations.is_to_show = false;
    if is_addition {
        model.allocations.files.clear();
        model.say(why);
    }
    is_addition
}
