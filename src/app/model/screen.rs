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
    /// As if this key were pressed.
    Press(KeyCode),
    /// Selects this row of the process list.
    Row(RowId),
    /// Selects this one of the steps ahead.
    Step(usize),
    /// Sorts the processes by the next column.
    Sort,
    /// Shows the log.
    Log,
    /// Selects the item of the list that is open; a second time picks it.
    Item(usize),
}

/// Something on the screen that can be clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it was drawn.
    pub area: Rect,
    /// What a click there does.
    pub does: Click,
    /// It belongs to what is laid over the screen; the rest can't be reached then.
    pub on_top: bool,
}

/// What the drawing tells of a screen that was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What can be clicked.
    pub targets: Vec<Target>,
    /// The question that stands there has more to read than the screen has room for.
    pub cut: bool,
}
