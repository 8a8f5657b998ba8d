//! Owns how much room each region wants, and so the layout of the screen.

use super::detail::heights;
use super::layout::{self, Layout, Shape};
use super::model::Model;
use super::model::list::Row;
use crate::advice::PlannedFix;
use crate::gpu::{Device, sight};
use crate::text::shortened;
use crate::units::Bytes;
use unicode_width::UnicodeWidthStr;

/// Columns of the table of fixes besides title and cost, and of the table of processes besides the name: borders, the other
/// columns, and what is said at the end of a row.
const OTHER_FIX_COLUMNS: usize = 26;
const OTHER_PROCESS_COLUMNS: usize = 56;

impl Model {
    /// Whether the screen is too small for anything.
    pub fn is_tiny(&self) -> bool {
        layout::is_tiny(self.size)
    }

    /// Whether the screen has no room for the log beside the processes.
    pub fn is_small(&self) -> bool {
        layout::is_small(self.size)
    }

    /// The geometry for what is on the screen now.
    pub fn layout(&self) -> Layout {
        let (bars, rows) = (self.bars(), self.rows());
        let steps_columns = rows_of(self.steps_columns());
        let (detail_wants, detail_least) = heights(self, layout::detail_width(self.size, steps_columns));
        layout::layout(Shape {
            size: self.size,
            focus: self.focus,
            is_zoomed: self.zoomed,
            has_verdict: self.has_fixes(),
            verdict_wants: rows_of(self.verdict_wants()),
            bars_want: rows_of(bars + 2),
            processes_want: rows_of(self.processes_want(bars, rows.len())),
            steps_want: rows_of(self.steps_want()),
            steps_columns,
            processes_columns: rows_of(processes_columns(&rows)),
            proof: rows_of(self.lines_of_proof() + usize::from(self.has_tried())),
            detail_wants: rows_of(detail_wants),
            detail_least: rows_of(detail_least),
        })
    }

    /// Whether there are fixes, or proofs of what was terminated.
    pub fn has_fixes(&self) -> bool {
        self.advice.is_some() || !self.endings.is_empty()
    }

    /// Whether the screen shows the region in focus alone.
    pub fn has_one_region(&self) -> bool {
        self.advice.is_some() && layout::is_cramped(self.size)
    }

    /// How many lines the bars of the GPUs take: more than four stand in two columns on a small screen.
    pub fn bars(&self) -> usize {
        let count = self.snapshot().map_or(0, |snapshot| snapshot.devices.len());
        if self.has_two_columns_of_bars() { count.div_ceil(2) } else { count }
    }

    /// Whether the GPUs' bars stand in two columns.
    pub fn has_two_columns_of_bars(&self) -> bool {
        self.is_small() && self.snapshot().is_some_and(|snapshot| snapshot.devices.len() > 4)
    }

    /// The lines under the verdict: the easiest fix or the cause, and how the failure differs from an earlier one. `v`
    /// shows what has no room.
    pub fn under_the_verdict(&self, width: usize) -> Vec<String> {
        let Some(advice) = &self.advice else { return Vec::new() };
        let most = if self.is_small() { 2 } else { 3 };
        let next = self.freed_for_the_run().map_or(advice.brief.next.clone(), |freed| freed.next);
        let mut lines = shortened(&next, width, most);
        lines.extend(self.way_to_the_logs_machine().iter().flat_map(|text| shortened(text, width, 1)));
        // What must be known to read the figures: there is room for it where the log stands beside the processes.
        if !self.is_small() {
            lines.extend(advice.verdict.notes.iter().flat_map(|note| shortened(note, width, 2)).take(2));
        }
        // The first question about a second failure is how it differs.
        let compared = self.compared();
        let room = if self.is_small() { 2 } else { 4 };
        lines.extend(compared.iter().flat_map(|text| shortened(text, width, 2)).take(room));
        lines
    }

    fn verdict_wants(&self) -> usize {
        let width = usize::from(self.size.0.saturating_sub(4));
        if self.advice.is_none() {
            return 3;
        }
        let decisive = usize::from(self.is_small() && self.size.1 >= 20);
        let blank = usize::from(self.size.1 >= 24);
        1 + self.under_the_verdict(width).len() + decisive + blank
    }

    /// The heading, the fixes behind and ahead, and the proof of what was terminated last.
    fn steps_want(&self) -> usize {
        let left = self.walk.behind.len() + self.walk.freed_before.len();
        1 + left + self.steps_ahead().len().max(1) + self.lines_of_proof()
    }

    /// Whether the table of fixes says what was tried.
    fn has_tried(&self) -> bool {
        !self.walk.behind.is_empty() || !self.walk.freed_before.is_empty()
    }

    /// The columns of a table of fixes that cuts neither a title nor a cost.
    fn steps_columns(&self) -> usize {
        let ahead = self.steps_ahead();
        let widest =
            |text: fn(&PlannedFix) -> &str| ahead.iter().map(|planned| text(planned).width()).max().unwrap_or(0);
        OTHER_FIX_COLUMNS + widest(|planned| &planned.title) + widest(|planned| &planned.costs)
    }

    fn lines_of_proof(&self) -> usize {
        2 * self.endings.len().min(1)
    }

    /// How many lines the bars and the processes would like, with their heading.
    fn processes_want(&self, bars: usize, rows: usize) -> usize {
        let Some(snapshot) = self.snapshot() else { return 3 };
        if snapshot.unavailable().is_some() {
            return 8 + rows;
        }
        let unlisted = snapshot.devices.iter().filter(|device| has_unattributed(device)).count();
        let width = if self.is_small() { self.size.0 } else { self.size.0.saturating_mul(66) / 100 };
        let remarks: usize =
            self.remarks(usize::from(width.saturating_sub(2))).into_iter().map(|(_, lines)| lines.len()).sum();
        bars + 2 + rows + unlisted + remarks
    }

    /// What can't be seen from here, said below each device, or (`None`) below all of them; wrapped.
    pub fn remarks(&self, width: usize) -> Vec<(Option<u32>, Vec<String>)> {
        let Some(snapshot) = self.snapshot() else { return Vec::new() };
        let width = width.saturating_sub(2).max(20);
        let is_one_of_many = snapshot.devices.len() > 1;
        let remarks = sight::remarks(snapshot).into_iter().map(|(device, text)| match device {
            Some(index) if is_one_of_many => (device, wrapped(&format!("GPU {index}: {text}"), width)),
            _ => (device, wrapped(&text, width)),
        });
        remarks.collect()
    }
}

/// The columns of a table of these processes that cuts no name.
fn processes_columns(rows: &[Row]) -> usize {
    let names = rows.iter().map(|row| row.process.recognised_as.as_ref().map_or(0, |name| name.width()));
    OTHER_PROCESS_COLUMNS + names.max().unwrap_or(0)
}

fn rows_of(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Whether the list has a line for memory of this GPU that no process accounts for.
fn has_unattributed(device: &Device) -> bool {
    device.unaccounted_bytes.value().is_some_and(|bytes| bytes >= Bytes::mib(1))
}

pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    textwrap::wrap(text, width).into_iter().map(|line| line.into_owned()).collect()
}
