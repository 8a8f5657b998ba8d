//! Owns what the curves of a recording and of a memory snapshot have in common: a column's part in a row, and marks above.

use crate::ui::theme::Theme;
use crate::units::Bytes;

const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_LEVELS: [&str; 9] = [" ", "_", "_", ".", "-", "-", "=", "=", "#"];

/// A row of a curve.
pub(super) struct LevelRow {
    /// The value at the top of the curve.
    pub top: Bytes,
    /// Which row, counted from the bottom.
    pub from_below: usize,
    /// The rows of the curve.
    pub height: usize,
}

impl LevelRow {
    /// The part of a column in this row. What is unknown is marked at the bottom.
    pub(super) fn cell(&self, theme: &Theme, value: Option<Bytes>) -> &'static str {
        let Some(value) = value else { return if self.from_below == 0 { "?" } else { " " } };
        let eighths = u128::from(value.0) * (self.height as u128 * 8) / u128::from(self.top.0.max(1));
        // What is there at all is seen.
        let eighths = eighths.max(u128::from(value > Bytes::ZERO));
        let here = usize::try_from(eighths).unwrap_or(usize::MAX).saturating_sub(self.from_below * 8).min(8);
        let levels = if theme.unicode { LEVELS } else { ASCII_LEVELS };
        levels.get(here).copied().unwrap_or(" ")
    }
}

/// Puts a sign at a column, with its word to the left where that is free, else to the right.
pub(super) fn mark(row: &mut [char], column: Option<usize>, sign: &str, word: &str) {
    let Some(column) = column else { return };
    let length = word.chars().count();
    let places = [column.checked_sub(length + 1), Some(column + 2)];
    let free = places.into_iter().flatten().find(|begin| {
        let around = begin.saturating_sub(1)..begin + length + 1;
        let is_free = |cells: &[char]| cells.iter().all(|cell| *cell == ' ');
        begin + length <= row.len() && row.get(around.start..around.end.min(row.len())).is_some_and(is_free)
    });
    if let Some(begin) = free {
        put(row, begin, word);
    }
    put(row, column, sign);
}

/// Writes a text over a row from this place on.
pub(super) fn put(row: &mut [char], begin: usize, text: &str) {
    for (cell, letter) in row.iter_mut().skip(begin).zip(text.chars()) {
        *cell = letter;
    }
}
