//! Owns which processes `x` asks about and which row is highlighted: one answer for the key, the list and the footer.

use unicode_width::UnicodeWidthStr;

use super::model::list::{Row, Stands};
use super::model::{Model, Region, RowId};
use super::names::short_name;
use super::victims::in_words;
use super::walk::EndingState;
use crate::advice::offer::Seen;
use crate::gpu::activity::Activity;
use crate::gpu::guard::Refusal;
use crate::gpu::{GpuProcess, ProcessKey, ProcessKind};

impl Model {
    /// The processes that `x` asks about: in the list the marked ones, else the selected one; in the fixes the one that
    /// the selected fix is about, or the one that is waited for. Whether they may be signalled is checked elsewhere.
    pub fn aimed_at(&self) -> Vec<ProcessKey> {
        if self.aims_at_marks() {
            return self.processes.marked.iter().copied().collect();
        }
        let one = match self.focus {
            Region::Input => None,
            Region::Processes => self.selected().and_then(|row| row.process.key()),
            Region::Steps => self.step_target(),
        };
        one.into_iter().collect()
    }

    /// Whether the keys of the list are about the marked processes, wherever its pointer stands.
    pub fn aims_at_marks(&self) -> bool {
        self.focus == Region::Processes && !self.processes.marked.is_empty()
    }

    /// The process that the selected fix is about; where none is selected, the one that is waited for.
    fn step_target(&self) -> Option<ProcessKey> {
        match self.current_step() {
            Some(step) => step.target,
            None => self.awaited().map(|ending| ending.victim.key),
        }
    }

    /// The row of the list with the pointer: the selected one, or that of the process that the selected fix is about.
    pub fn pointed_at(&self) -> Option<RowId> {
        match self.focus {
            Region::Input => None,
            Region::Processes => self.processes.selected,
            Region::Steps => {
                let target = self.step_target()?;
                self.rows().iter().find(|row| row.process.key() == Some(target)).map(|row| row.id)
            }
        }
    }

    /// Whether `x` would ask about this row's process, and so it is highlighted: the one with the pointer, or every marked
    /// one and no other.
    pub fn is_highlighted(&self, row: &Row, pointed_at: Option<RowId>) -> bool {
        if self.aims_at_marks() { self.is_marked(&row.process) } else { pointed_at == Some(row.id) }
    }

    pub fn is_marked(&self, row: &GpuProcess) -> bool {
        row.key().is_some_and(|key| self.processes.marked.contains(&key))
    }

    /// What `x` does, naming its target; by its PID alone where the name does not fit into so many columns. `None` where there
    /// is no target.
    pub fn end_in_words(&self, columns: usize) -> Option<String> {
        if self.refuses_all().is_some() {
            return None;
        }
        match &self.aimed_at()[..] {
            [] => None,
            [key] => {
                let (_, row) = self.snapshot()?.find(*key)?;
                self.config.viewer.may_end(row).ok()?;
                let state = self.ending_of(*key).map(|ending| &ending.state);
                if state.is_some_and(EndingState::is_exiting) {
                    return None;
                }
                let is_forced = matches!(state, Some(EndingState::Survived(_)));
                let verb = match (is_forced, self.aims_at_marks()) {
                    (true, _) => "force",
                    (false, true) => "terminate marked",
                    (false, false) => "terminate",
                };
                let named = format!("{verb} {} {}", short_name(row), row.pid);
                Some(if named.width() <= columns { named } else { format!("{verb} {}", row.pid) })
            }
            many => Some(format!("terminate {} marked{}", many.len(), self.named_within(many, columns))),
        }
    }

    /// The processes in parentheses, behind "terminate 2 marked": by name and PID, by PID, or as many PIDs as there is
    /// room for.
    fn named_within(&self, keys: &[ProcessKey], columns: usize) -> String {
        let room = columns.saturating_sub("terminate 10 marked".len());
        let pids: Vec<String> = keys.iter().map(|key| key.pid.to_string()).collect();
        let names: Vec<String> = keys.iter().map(|key| self.name_and_pid(*key)).collect();
        let first_few =
            (1..=pids.len()).rev().filter_map(|count| Some(format!("{}, …", pids.get(..count)?.join(", "))));
        let ways = [names.join(", "), pids.join(", ")].into_iter().chain(first_few);
        let named = ways.map(|way| format!(" ({way})")).find(|way| way.width() <= room);
        named.unwrap_or_default()
    }

    /// Such as "train.py 4242"; its PID alone while the driver does not list it.
    fn name_and_pid(&self, key: ProcessKey) -> String {
        let row = self.snapshot().and_then(|snapshot| snapshot.process(key));
        row.map_or(key.pid.to_string(), |row| format!("{} {}", short_name(row), row.pid))
    }

    /// The largest process of these rows that is the viewer's own, may be signalled and was seen idle: the only kind that is
    /// suggested without a log.
    pub(super) fn largest_idle(&self, rows: &[Row]) -> Option<RowId> {
        let rows = rows.iter().filter(|row| row.process.kind != ProcessKind::Unlisted);
        // A worker ends with its launcher, not alone.
        let mut rows: Vec<&Row> = rows.filter(|row| row.stands != Stands::Worker).collect();
        // The largest first: whether one may be signaled costs more to find out than its size.
        rows.sort_by_key(|row| row.process.used_bytes.value());
        rows.into_iter().rev().find(|row| self.is_idle_and_yours(row)).map(|row| row.id)
    }

    fn is_idle_and_yours(&self, row: &Row) -> bool {
        // Most processes work, and to look at all that end with one costs more than to look at itself.
        let is_idle_itself = row.id.key().is_some_and(|key| self.feed.history.activity(key).is_idle());
        let is_idle = is_idle_itself && self.seen().is_some_and(|seen| seen.if_ended(&row.process).is_idle());
        // The number of a user is another person's on another machine.
        is_idle && self.hosts.away.is_none() && self.config.viewer.may_end(&row.process).is_ok()
    }

    /// What was seen of this machine so far; `None` before the first reading.
    pub fn seen(&self) -> Option<Seen<'_>> {
        let (history, viewer) = (Some(&self.feed.history), &self.config.viewer);
        self.snapshot().map(|snapshot| Seen { snapshot, history, viewer })
    }

    /// Whether this process is busy, over all its GPUs.
    pub fn activity_of(&self, key: ProcessKey) -> Activity {
        let found = self.seen().and_then(|seen| Some((seen, seen.snapshot.process(key)?)));
        found.map_or(Activity::Unknown, |(seen, row)| seen.activity(row))
    }

    /// Why `x` has no target here.
    pub fn no_target(&self) -> String {
        match self.focus {
            Region::Input => "No process is selected: Tab goes to the processes.".into(),
            Region::Steps => "This fix terminates no process. Tab goes to the processes.".into(),
            Region::Processes => match self.selected() {
                Some(row) => in_words(&Refusal::Unproved(row.process.pid)),
                None if self.rows().is_empty() => "There is no process to terminate.".into(),
                None => "No process is selected: the arrow keys select one.".into(),
            },
        }
    }
}
