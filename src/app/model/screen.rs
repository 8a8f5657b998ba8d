//! Owns the state of the screen: its regions, what was drawn, and what can be clicked there.

use crossterm::event::KeyCode;
use ratatui::layout::Rect;

use super::processes::RowId;

/// A part of the screen that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    Processes,
    Input,
    Steps,
}

/// What a click does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Click {
    /// The same as pressing this key.
    Press(KeyCode),
    /// Selects this row of the process list.
    Row(RowId),
    /// Selects this one of the fixes ahead.
    Step(usize),
    /// Sorts the processes by the next column.
    Sort,
    /// Shows the log in its own pane.
    Log,
    /// Moves the recording's cursor to this moment.
    Moment(u64),
    /// Selects the item of the open list; a second click picks it.
    Item(usize),
}

/// Something on the screen that can be clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it was drawn.
    pub area: Rect,
    /// What a click there does.
    pub does: Click,
    /// It belongs to an overlay or a question, which cover the other targets.
    pub on_top: bool,
}

/// What the drawing reports about the screen that it drew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What can be clicked.
    pub targets: Vec<Target>,
    /// The open question does not fit on the screen.
    pub cut: bool,
}
