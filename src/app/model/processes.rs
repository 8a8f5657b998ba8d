//! Owns the state of the process list: selection, marks, filter and sorting.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use super::list::List;
use crate::app::letters::Letters;
use crate::gpu::{GpuProcess, ProcessKey};

/// Identifies a row in any order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId {
    pub device: u32,
    /// As the driver gave it.
    pub pid: u32,
    pub start_ticks: Option<u64>,
}

impl RowId {
    pub fn of(device: u32, row: &GpuProcess) -> RowId {
        RowId { device, pid: row.pid, start_ticks: row.start_ticks.value() }
    }

    /// Its process, where the start time is known.
    pub fn key(&self) -> Option<ProcessKey> {
        self.start_ticks.map(|start_ticks| ProcessKey { pid: self.pid, start_ticks })
    }

    /// Whether both rows are of one process.
    pub fn is_same_process(&self, other: RowId) -> bool {
        self.key().is_some_and(|key| other.key() == Some(key))
    }
}

/// By which column the processes of a device are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Vram,
    /// The lowest number first.
    Pid,
    User,
    Age,
    /// By what it is.
    What,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Vram => Sort::User,
            Sort::User => Sort::Age,
            Sort::Age => Sort::What,
            Sort::What => Sort::Pid,
            Sort::Pid => Sort::Vram,
        }
    }

    /// Which of two rows comes first; where they are equal, the larger one, then the lower PID.
    pub fn compare(self, one: &GpuProcess, other: &GpuProcess) -> Ordering {
        let first = match self {
            Sort::Vram => Ordering::Equal,
            Sort::Pid => one.pid.cmp(&other.pid),
            Sort::User => one.user.known().cmp(&other.user.known()),
            Sort::Age => one.start_ticks.value().cmp(&other.start_ticks.value()),
            Sort::What => what(one).cmp(&what(other)),
        };
        first.then_with(|| other.used_bytes.value().cmp(&one.used_bytes.value())).then(one.pid.cmp(&other.pid))
    }
}

/// What the process is, else its command line.
fn what(row: &GpuProcess) -> Option<&String> {
    row.recognised_as.as_ref().or(row.command.known())
}

/// The state of the process list.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    pub selected: Option<RowId>,
    /// Marked to be terminated together.
    pub marked: BTreeSet<ProcessKey>,
    /// Only rows that contain this text are shown.
    pub filter: String,
    /// The column by which they are sorted.
    pub sort: Sort,
    /// When the person last moved in the list, and its order then.
    pub still: Option<(Duration, Vec<RowId>)>,
    /// The largest process that is the viewer's own and was seen idle, as of the newest reading.
    pub largest_idle: Option<RowId>,
    /// The letters of the processes, as the bars and the list show them.
    pub letters: Letters,
    /// A row was selected before: since then only the person selects another.
    pub was_selected: bool,
    /// The rows that these show.
    pub list: List,
}
