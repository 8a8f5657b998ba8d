//! Owns who understands a key: the question, the line that is typed, the editor, then the gate that keeps pastes from
//! acting as commands, then the overlay, and last the regions and the program.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{allocations, answers, burst, commands, found, hosts, log, run_again, typing};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::gate::is_ctrl_c;
use crate::app::layout::page_height;
use crate::app::model::{Model, Region};
use crate::app::overlay::commands::Commands;
use crate::app::overlay::help::Help;
use crate::app::overlay::{Body, about, reasons, recording, trial};
use crate::app::region;
use crate::app::scroll::{TO_THE_END, TO_THE_START};

/// A key as it comes from the terminal.
pub(super) fn pressed(model: &mut Model, key: KeyEvent, at: Duration) -> Vec<Effect> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    if model.is_tiny() {
        // Nothing can be read, so only leaving can be meant.
        let leaves = is_ctrl_c(key) || key.code == KeyCode::Char('q');
        return if leaves { vec![model.leave()] } else { Vec::new() };
    }
    model.forget_read_notice();
    let passed = if model.question.is_some() {
        match answers::take_key(model, key, at) {
            Ok(effects) => return effects,
            // Text goes on behind the key that closed the question.
            Err(key) => model.gate.key(key, at, &model.config.keys),
        }
    } else if model.input.typing.is_some() {
        model.gate.heard(key, at, &model.config.keys);
        return typing::type_into_editor(model, key).into_iter().collect();
    } else if model.prompt.is_none() {
        model.gate.key(key, at, &model.config.keys)
    } else if model.config.marks_pastes {
        model.gate.heard(key, at, &model.config.keys);
        typing::type_into_prompt(model, key);
        return Vec::new();
    } else {
        model.gate.key_of_a_line(key, at, &model.config.keys)
    };
    burst::let_through(model, passed)
}

/// A key that a person certainly pressed.
pub(super) fn act_on_key(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    let Some(open) = &mut model.overlay else {
        let action = model.config.keys.action(key, model.focus);
        if action.is_none() {
            hint(model, key);
        }
        return action.map(|action| act(model, action)).unwrap_or_default();
    };
    if let Some(text) = open.overlay.typed()
        && type_into(text, key)
    {
        open.at = 0;
        return Vec::new();
    }
    let action = match key.code {
        // Enter is about the overlay, not about the region below it.
        KeyCode::Enter => Some(Action::Enter),
        _ => open.overlay.action(key, &model.config.keys).or_else(|| model.config.keys.action(key, model.focus)),
    };
    action.map(|action| act(model, action)).unwrap_or_default()
}

/// Types a letter, or removes the last one; whether the key is one for that.
fn type_into(text: &mut String, key: KeyEvent) -> bool {
    let is_command = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    match key.code {
        KeyCode::Char(character) if !is_command => text.push(character),
        KeyCode::Backspace => drop(text.pop()),
        _ => return false,
    }
    true
}

/// Says in which region a key means something that means nothing here.
fn hint(model: &mut Model, key: KeyEvent) {
    let Some((binding, region)) = model.config.keys.meant_elsewhere(key, model.focus) else { return };
    let place = match region {
        Region::Processes => "the processes",
        Region::Input => "the log",
        Region::Steps => "the fixes",
    };
    let tab = model.key(Action::NextRegion);
    let text = format!("[{}] ({}) is a key of {place}: {tab} goes there.", binding.shown, binding.words);
    model.say(text);
}

/// Does what the person means: the overlay's part of it, else the program's or the focused region's.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let action = match model.act_on_overlay(action) {
        Ok(effects) => return effects,
        Err(action) => action,
    };
    match action {
        Action::Move(by) => moved(model, by),
        Action::Page(by) => moved(model, by.saturating_mul(page(model))),
        Action::First => moved(model, TO_THE_START),
        Action::Last => moved(model, TO_THE_END),
        Action::Escape => return commands::escape(model).into_iter().collect(),
        Action::End => region::processes::ask_to_end(model),
        Action::About => about::toggle(model),
        Action::Previous => return log::previous(model).into_iter().collect(),
        Action::Reread => return log::reread(model).into_iter().collect(),
        Action::Fit => trial::open(model),
        Action::ReadFound => return found::read_best(model).into_iter().collect(),
        Action::FoundLogs => return found::list(model).into_iter().collect(),
        Action::Machines => hosts::list(model),
        Action::Recording => return recording::open(model).into_iter().collect(),
        Action::Allocations => return allocations::show(model).into_iter().collect(),
        Action::RunAgain => return run_again::ask(model).into_iter().collect(),
        Action::Rules => reasons::toggle(model),
        Action::Log => region::show_log(model),
        Action::Actions => model.toggle(Commands::default()),
        Action::Report => return commands::report(model).into_iter().collect(),
        Action::Zoom => model.zoomed = !model.zoomed,
        Action::Pause => model.feed.paused = !model.feed.paused,
        Action::Theme => commands::next_theme(model),
        Action::Help => model.open(Help),
        Action::Symptoms => commands::pick_symptom(model),
        Action::Suspend => return commands::suspend(model).into_iter().collect(),
        Action::Quit => return commands::quit(model).into_iter().collect(),
        of_region => return region::act(model, of_region),
    }
    Vec::new()
}

/// Moves what lies on top, else the focused region.
fn moved(model: &mut Model, by: i32) {
    if !model.move_overlay(by) {
        region::moved(model, by);
    }
}

/// Lines that a page key moves.
fn page(model: &Model) -> i32 {
    match model.overlay.as_ref().map(|open| open.overlay.body(model)) {
        Some(Body::Text(_)) => i32::try_from(page_height(model.size).saturating_sub(1).max(1)).unwrap_or(1),
        _ => region::page(model),
    }
}

/// The wheel over an overlay.
pub(super) fn wheel(model: &mut Model, by: i32) -> Vec<Effect> {
    let lines = model.overlay.as_ref().map_or(0, |open| open.overlay.wheel_lines());
    act(model, Action::Move(by.saturating_mul(lines)))
}
