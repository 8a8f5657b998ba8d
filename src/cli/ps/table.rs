//! Owns what the tables of `oomdoctor ps` share: columns that line up, lines that fit the terminal, and the words for a figure
//! that may be unknown and for what a process is.

use std::io::{self, IsTerminal};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::advice::supervisor::Supervisor;
use crate::app::rows::together;
use crate::gpu::{GpuProcess, Reading, Snapshot, sight};

/// A column of the table.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) is_right_aligned: bool,
    /// Left out on terminals narrower than [`WIDE`].
    pub(super) is_for_wide: bool,
}

pub(super) const fn column(heading: &'static str) -> Column {
    Column { heading, is_right_aligned: false, is_for_wide: false }
}

/// A terminal of this width has room for all columns.
pub(super) const WIDE: usize = 100;
/// Longer names of users are cut.
pub(super) const USER_WIDTH: usize = 12;
pub(super) const UNKNOWN: &str = "?";

/// The number of columns at which lines are cut; `None` if standard output is no terminal.
pub(super) fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| columns.into())
}

pub(super) fn shown<T: ToString>(reading: &Reading<T>) -> String {
    reading.known().map_or_else(|| UNKNOWN.to_owned(), T::to_string)
}

pub(super) fn wrapped(texts: impl IntoIterator<Item = String>, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width).subsequent_indent("  ");
    let lines = texts.into_iter().flat_map(|text| {
        textwrap::wrap(&text, &options).into_iter().map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The headings and the rows with aligned columns.
pub(super) fn aligned<R: AsRef<[String]>>(columns: &[Column], rows: &[R], is_wide: bool) -> Vec<String> {
    let headings: Vec<String> = columns.iter().map(|column| column.heading.to_owned()).collect();
    let rows: Vec<&[String]> = std::iter::once(headings.as_slice()).chain(rows.iter().map(AsRef::as_ref)).collect();
    let mut widths = vec![0; columns.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(*row) {
            *width = cell.width().max(*width);
        }
    }
    rows.iter().map(|row| aligned_line(columns, row, &widths, is_wide)).collect()
}

pub(super) fn aligned_line(columns: &[Column], row: &[String], widths: &[usize], is_wide: bool) -> String {
    let cells = row.iter().zip(widths).zip(columns).filter(|(_, column)| is_wide || !column.is_for_wide);
    let cells = cells.map(|((cell, width), column)| {
        let space = " ".repeat(width.saturating_sub(cell.width()));
        if column.is_right_aligned { space + cell } else { cell.clone() + &space }
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Cuts the line to this number of columns, with an ellipsis at the end of a line that was cut.
pub(super) fn cut_to(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut used = 1;
    let kept = line.chars().take_while(|character| {
        used += character.width().unwrap_or(0);
        used <= columns
    });
    kept.chain(['…']).collect()
}

/// What a process is, what would restart it or terminate its whole unit, and which processes exit together with it.
pub(super) fn what(snapshot: &Snapshot, process: &GpuProcess) -> String {
    let mut label = process.recognised_as.clone().unwrap_or_else(|| "-".into());
    if process.managed_by.is_some()
        && let Some(manager) = Supervisor::of(process)
    {
        label.push_str(&format!(" under {}", manager.label()));
    }
    if let Some(service) = sight::of_service(process) {
        label.push_str(&format!(" ({service})"));
    }
    if let Some(memory) = sight::of_memory(process) {
        label = if label == "-" { memory } else { format!("{label} ({memory})") };
    }
    let workers = process.key().map_or(0, |key| snapshot.below(key).len());
    let together = process.key().and_then(|key| together(snapshot, key));
    let kin = match (workers, together, snapshot.leader_of(process)) {
        (0, _, Some(leader)) => format!("worker of {}", leader.pid),
        (0, _, None) => return label,
        (1, Some(bytes), _) => format!("{bytes} with 1 worker"),
        (workers, Some(bytes), _) => format!("{bytes} with {workers} workers"),
        (1, None, _) => "1 worker".to_owned(),
        (workers, None, _) => format!("{workers} workers"),
    };
    if label == "-" { kin } else { format!("{label}, {kin}") }
}
