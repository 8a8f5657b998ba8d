//! Owns what keys do to the regions of the screen: which one has the focus, and the keys that each of them understands.

pub(crate) mod fixes;
pub(crate) mod log;
pub(crate) mod processes;

use super::action::Action;
use super::effect::Effect;
use super::model::{Model, Region};

/// Does what is meant differently in each region, or in one of them only.
pub(crate) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    match (model.focus, action) {
        (_, Action::Move(by)) => moved(model, by),
        (_, Action::NextRegion) => turn(model, 1),
        (_, Action::PreviousRegion) => turn(model, -1),
        (Region::Processes, Action::Enter) => return processes::copy_command_to_end(model).into_iter().collect(),
        (Region::Input, Action::Enter) => log::edit(model),
        (Region::Steps, Action::Enter) => return fixes::take(model),
        (Region::Processes, Action::Search) => processes::ask_for_filter(model),
        (Region::Input, Action::Search) => log::ask_for_search(model),
        (_, Action::Copy) => return copy(model).into_iter().collect(),
        (_, Action::Mark) => mark(model),
        (_, Action::Sort) => processes::sort(model),
        (_, Action::NextHit) => log::go_to_hit(model, true),
        (_, Action::PreviousHit) => log::go_to_hit(model, false),
        (_, Action::Skip) => fixes::skip(model),
        (_, Action::Back) => fixes::back(model),
        (_, Action::Works) => return fixes::works(model).into_iter().collect(),
        (_, Action::FailedAgain) => fixes::failed_again(model),
        (_, Action::DidNotHelp) => fixes::did_not_help(model),
        (_, Action::LogThatWorked) => fixes::ask_for_log_that_worked(model),
        (_, Action::Command) => fixes::ask_for_command(model),
        (_, Action::Model) => fixes::ask_for_model(model),
        _ => {}
    }
    Vec::new()
}

/// Moves the selection or the text of the focused region.
pub(crate) fn moved(model: &mut Model, by: i32) {
    match model.focus {
        Region::Processes => processes::moved(model, by),
        Region::Input => log::moved(model, by),
        Region::Steps => fixes::moved(model, by),
    }
}

/// Lines that a page key moves in the focused region.
pub(crate) fn page(model: &Model) -> i32 {
    let layout = model.layout();
    let area = match model.focus {
        Region::Processes => layout.processes,
        Region::Input => layout.input,
        Region::Steps => layout.steps,
    };
    i32::from(area.height.saturating_sub(3).max(1))
}

/// The regions as they are read: side by side, or on small screens the log behind the others. Without a verdict there are
/// no fixes.
fn order(model: &Model) -> &'static [Region] {
    match (model.has_fixes(), model.is_small()) {
        (false, _) => &[Region::Processes, Region::Input],
        (true, true) => &[Region::Processes, Region::Steps, Region::Input],
        (true, false) => &[Region::Processes, Region::Input, Region::Steps],
    }
}

/// Marks the selected process and goes on to the next one.
fn mark(model: &mut Model) {
    if processes::mark(model) {
        moved(model, 1);
    }
}

fn turn(model: &mut Model, by: isize) {
    let order = order(model);
    let here = order.iter().position(|region| *region == model.focus).unwrap_or(0);
    let next = here.saturating_add(order.len()).saturating_add_signed(by) % order.len();
    // The process that a fix is about stays highlighted in the list.
    let highlighted = model.pointed_at();
    model.focus = order.get(next).copied().unwrap_or(Region::Processes);
    if model.focus == Region::Processes && highlighted.is_some() {
        model.processes.selected = highlighted;
        model.processes.was_selected = true;
    }
}

/// Shows the log, or goes back from it to the fixes or processes.
pub(crate) fn show_log(model: &mut Model) {
    model.overlay = None;
    let beside = if model.advice.is_some() { Region::Steps } else { Region::Processes };
    model.focus = if model.focus == Region::Input { beside } else { Region::Input };
}

fn copy(model: &mut Model) -> Option<Effect> {
    let text = match model.focus {
        Region::Processes => return processes::copy_command_to_end(model),
        Region::Input => log::decisive_line(model),
        Region::Steps => fixes::command(model),
    };
    if text.is_none() {
        model.say("Nothing to copy here.");
    }
    text.map(Effect::Copy)
}
