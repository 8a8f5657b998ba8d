//! Owns what keys do in the list of processes: selecting, marking, sorting, filtering, and asking to terminate.

use crate::app::effect::Effect;
use crate::app::model::{Model, Region, RowId};
use crate::app::prompt::{Prompt, Purpose};
use crate::app::scroll::{TO_THE_END, shifted};
use crate::app::update::endings;
use crate::app::victims::in_words;
use crate::gpu::ProcessKey;

pub(super) fn moved(model: &mut Model, by: i32) {
    let rows = model.rows();
    let here = rows.iter().position(|row| Some(row.id) == model.processes.selected);
    // Where nothing is selected, the first movement selects the first row, unless it asks for the last.
    let from_outside = if by >= TO_THE_END { rows.len().saturating_sub(1) } else { 0 };
    let next = here.map_or(from_outside, |here| shifted(here, by, rows.len()));
    let next = rows.get(next).map(|row| row.id);
    select(model, next);
}

/// Selects a row; for a while the list keeps the order that it has now.
pub(crate) fn select(model: &mut Model, row: Option<RowId>) {
    let order = model.rows().iter().map(|row| row.id).collect();
    model.processes.selected = row;
    model.processes.was_selected |= row.is_some();
    model.processes.still = Some((model.now, order));
}

/// Marks the selected process, or removes its mark; whether it may be marked.
pub(super) fn mark(model: &mut Model) -> bool {
    let Some(row) = model.selected() else {
        model.say(model.no_target());
        return false;
    };
    match model.config.viewer.may_end(&row.process) {
        Ok(key) => {
            if !model.processes.marked.remove(&key) {
                model.processes.marked.insert(key);
            }
            true
        }
        Err(refusal) => {
            model.say(in_words(&refusal));
            false
        }
    }
}

/// Sorts by the next column.
pub(super) fn sort(model: &mut Model) {
    model.processes.sort = model.processes.sort.next();
    model.processes.still = None;
}

pub(super) fn ask_for_filter(model: &mut Model) {
    model.prompt = Some(Prompt::new(Purpose::Filter, ""));
}

/// Shows only processes that contain this text.
pub(crate) fn filter(model: &mut Model, text: String) {
    model.processes.filter = text;
    keep_selection(model);
}

/// The selection stays on its process, which may be listed on another device now. Where the process is gone or hidden,
/// nothing is selected until the person moves. Marks are only for listed processes, too.
pub(crate) fn keep_selection(model: &mut Model) {
    let listed = model.rows();
    let largest_idle = model.largest_idle(&listed);
    let suggested = if model.processes.was_selected { None } else { largest_idle };
    let rows: Vec<RowId> = listed.iter().map(|row| row.id).collect();
    let still = model.processes.selected.and_then(|selected| found_again(selected, &rows));
    model.processes.largest_idle = largest_idle;
    model.processes.selected = still.or(suggested);
    model.processes.was_selected |= model.processes.selected.is_some();
    model.processes.marked.retain(|key| rows.iter().any(|row| row.key() == Some(*key)));
}

fn found_again(selected: RowId, rows: &[RowId]) -> Option<RowId> {
    if rows.contains(&selected) {
        return Some(selected);
    }
    rows.iter().find(|row| row.is_same_process(selected)).copied()
}

/// `x`: asks about the processes that are highlighted.
pub(crate) fn ask_to_end(model: &mut Model) {
    if let Some(away) = &model.hosts.away {
        return model.say(format!(
            "{} is only read. Enter on a process copies the command that terminates it there.",
            away.name
        ));
    }
    if model.aim.unseen_until().is_some_and(|until| model.now < until) {
        return model.say("The highlight just moved to another process. Look again.");
    }
    let selected = if model.focus == Region::Processes && !model.aims_at_marks() { model.selected() } else { None };
    let refused = selected.and_then(|row| model.config.viewer.may_end(&row.process).err());
    match (model.refuses_all().or(refused), &model.aimed_at()[..]) {
        (Some(refusal), _) => model.say(in_words(&refusal)),
        (None, []) => model.say(model.no_target()),
        (None, keys) => endings::ask_to_end(model, keys),
    }
}

/// Copies the command that does the same as `x`, for a shell; says so where there is none on another machine.
pub(super) fn copy_kill(model: &mut Model, keys: &[ProcessKey]) -> Option<Effect> {
    let away = model.hosts.away.as_ref().and_then(|away| model.hosts.find(&away.name));
    if let Some(host) = away {
        let command = host.told.kill(keys);
        if command.is_none() {
            model.say(format!("Not copied: {}.", host.told.how_to_install()));
        }
        return command.map(Effect::Copy);
    }
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    Some(Effect::Copy(format!("oomdoctor kill {}", keys.join(" "))))
}

/// Copies the command that would terminate the marked processes, else the selected one.
pub(super) fn copy_command_to_end(model: &mut Model) -> Option<Effect> {
    if model.aims_at_marks() {
        let keys = model.aimed_at();
        return copy_kill(model, &keys);
    }
    let Some(row) = model.selected() else {
        model.say(model.no_target());
        return None;
    };
    match model.config.viewer.may_end(&row.process) {
        Ok(key) => copy_kill(model, &[key]),
        Err(refusal) => {
            model.say(in_words(&refusal));
            None
        }
    }
}
