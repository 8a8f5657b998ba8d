//! Owns the overlay with the memory snapshots of a run: what its keys do. What of them is in view is in
//! `Model::allocations`, which stays when the overlay is closed.

use crossterm::event::{KeyCode, KeyEvent};

use super::{Body, Outcome, Overlay, covered};
use crate::allocations::told::Filled;
use crate::app::action::Action;
use crate::app::keymap::Keymap;
use crate::app::layout::{allocations_rows, whole_width};
use crate::app::model::Model;
use crate::app::model::allocations::{Part, View};
use crate::app::scroll::{TO_THE_END, TO_THE_START};
use crate::knowledge::allocations::other_failure;
use crate::report::allocations::{others, tables};
use crate::report::plain::aligned_within;
use crate::text::{harmless, shortened};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllocationsView;

impl Overlay for AllocationsView {
    fn title(&self) -> &'static str {
        "Memory snapshot"
    }

    fn body(&self, _model: &Model) -> Body {
        Body::Drawn
    }

    fn action(&self, key: KeyEvent, _keys: &Keymap) -> Option<Action> {
        match key.code {
            KeyCode::Left | KeyCode::Char('h') => Some(Action::Turn(-1)),
            KeyCode::Right | KeyCode::Char('l') => Some(Action::Turn(1)),
            KeyCode::Char('n') => Some(Action::NextHit),
            KeyCode::Char('N') => Some(Action::PreviousHit),
            _ => None,
        }
    }

    fn act(&self, model: &mut Model, _at: usize, action: Action) -> Outcome {
        let page = i32::try_from(allocations_rows(model.size)).unwrap_or(1);
        match action {
            Action::Allocations => return Outcome::Closes(Vec::new()),
            Action::NextRegion => in_view(model, |view, filled| view.turn_part(1, filled)),
            Action::PreviousRegion => in_view(model, |view, filled| view.turn_part(-1, filled)),
            Action::NextHit => turn_device(model, 1),
            Action::PreviousHit => turn_device(model, -1),
            Action::Move(by) => moved(model, by),
            Action::Page(by) => moved(model, by.saturating_mul(page)),
            Action::First => moved(model, TO_THE_START),
            Action::Last => moved(model, TO_THE_END),
            Action::Enter => in_tree(model, View::toggle_node),
            Action::Turn(by) if by > 0 => in_tree(model, View::open_node),
            Action::Turn(_) => in_tree(model, View::close_node),
            other => return covered(other),
        }
        Outcome::Stays
    }
}

fn turn_device(model: &mut Model, by: i32) {
    let mut view = std::mem::take(&mut model.allocations.view);
    view.turn_device(by, model.filled());
    model.allocations.view = view;
}

fn moved(model: &mut Model, by: i32) {
    let places = model.places_in_view();
    model.allocations.view.move_by(by, places);
}

/// Changes the tree of stacks, where that is in view.
fn in_tree(model: &mut Model, change: impl FnOnce(&mut View, &Filled)) {
    if model.allocations.view.part == Part::Stacks {
        in_view(model, change);
    }
}

/// Changes what is in view of the rank or device.
fn in_view(model: &mut Model, change: impl FnOnce(&mut View, &Filled)) {
    let mut view = std::mem::take(&mut model.allocations.view);
    if let Some(filled) = model.filled().get(view.which) {
        change(&mut view, filled);
    }
    model.allocations.view = view;
}

impl Model {
    /// What the memory snapshots of the open log's run show.
    pub fn filled(&self) -> &[Filled] {
        self.input.diagnosis.as_ref().map(|diagnosis| diagnosis.allocations.as_slice()).unwrap_or_default()
    }

    /// Whether memory snapshots are read, or offered.
    pub fn has_allocations(&self) -> bool {
        !self.filled().is_empty() || !self.allocations.beside.is_empty()
    }

    /// The rank or device in view.
    pub fn filled_in_view(&self) -> Option<&Filled> {
        self.filled().get(self.allocations.view.which)
    }

    /// The places that the view can be moved to: rows that can be selected, or lines that can come first.
    fn places_in_view(&self) -> usize {
        let Some(filled) = self.filled_in_view() else { return 0 };
        let view = &self.allocations.view;
        let lines = match view.part {
            Part::Stacks => return view.stack_rows(filled).len(),
            Part::Summary => self.summary_of_allocations(whole_width(self.size)).len(),
            // Above them are the headings.
            Part::Segments => filled.map.len() + 1,
            Part::Timeline => 0,
        };
        lines.saturating_sub(allocations_rows(self.size)) + 1
    }

    /// The sentence and the tables of what is in view. A row that is too long goes on below it.
    pub fn summary_of_allocations(&self, width: usize) -> Vec<String> {
        let Some(filled) = self.filled_in_view() else { return Vec::new() };
        let mut lines = shortened(&harmless(&filled.sentence), width, usize::MAX);
        let is_first = self.allocations.view.which == 0;
        let other = if is_first { self.input.diagnosis.as_ref().and_then(other_failure) } else { None };
        lines.extend(other.iter().flat_map(|note| shortened(note, width, usize::MAX)));
        for table in tables(filled) {
            lines.push(String::new());
            lines.extend(aligned_within(&table, width).iter().map(|line| harmless(line).into_owned()));
        }
        if self.allocations.view.which == 0 && self.filled().len() > 1 {
            lines.push(String::new());
            lines.extend(others(self.filled()).iter().flat_map(|line| shortened(&harmless(line), width, usize::MAX)));
        }
        lines
    }
}
