//! Owns what the mouse does: a click does what it is drawn on, or focuses and selects; the wheel scrolls what it is over.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::keys;
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::model::{Click, Model, Region};
use crate::app::overlay;
use crate::app::region;

/// Lines that a notch of the wheel moves in a region.
const WHEEL_LINES: i32 = 3;

pub(super) fn mouse(model: &mut Model, event: MouseEvent, moment: Duration) -> Vec<Effect> {
    if model.input.typing.is_some() || model.is_tiny() {
        return Vec::new();
    }
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => clicked(model, Position::new(event.column, event.row), moment),
        MouseEventKind::ScrollDown => scrolled(model, event, 1),
        MouseEventKind::ScrollUp => scrolled(model, event, -1),
        _ => Vec::new(),
    }
}

fn scrolled(model: &mut Model, event: MouseEvent, by: i32) -> Vec<Effect> {
    if model.question.is_some() {
        return Vec::new();
    }
    if model.overlay.is_some() {
        return keys::wheel(model, by);
    }
    if let Some(region) = model.layout().region_at(event.column, event.row) {
        let before = std::mem::replace(&mut model.focus, region);
        region::moved(model, by.saturating_mul(WHEEL_LINES));
        model.focus = before;
    }
    Vec::new()
}

/// The topmost target was drawn last and is meant first.
fn clicked(model: &mut Model, at: Position, moment: Duration) -> Vec<Effect> {
    let is_covered = model.question.is_some() || model.overlay.is_some();
    let mut drawn_last_first = model.targets.iter().rev();
    let target = drawn_last_first.find(|target| target.area.contains(at)).copied();
    match target {
        Some(target) if target.on_top || !is_covered => do_click(model, target.does, moment),
        // A click is a key, too: an answer that waits for another key is not sent.
        _ if is_covered => {
            model.question.take_if(|question| question.is_sending());
            Vec::new()
        }
        _ => {
            model.focus = model.layout().region_at(at.x, at.y).unwrap_or(model.focus);
            Vec::new()
        }
    }
}

fn do_click(model: &mut Model, click: Click, moment: Duration) -> Vec<Effect> {
    match click {
        // The same way as a key from the keyboard: a question takes it no sooner, and a burst of clicks is no answer.
        Click::Press(code) => return keys::pressed(model, KeyEvent::new(code, KeyModifiers::NONE), moment),
        Click::Row(id) => {
            model.focus = Region::Processes;
            region::processes::select(model, Some(id));
        }
        Click::Step(at) => {
            model.focus = Region::Steps;
            region::fixes::select(model, at);
        }
        Click::Log => model.focus = Region::Input,
        Click::Sort => {
            model.focus = Region::Processes;
            return keys::act(model, Action::Sort);
        }
        Click::Moment(at) => overlay::recording::go_to(model, at),
        Click::Item(item) => {
            if let Some(open) = &mut model.overlay
                && std::mem::replace(&mut open.at, item) == item
            {
                // The first click selected it, so the person could read what the second one does.
                return keys::act_on_key(model, KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
            }
        }
    }
    Vec::new()
}
