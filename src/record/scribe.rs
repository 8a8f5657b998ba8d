//! Owns what of a run is worth a line: what changed. A record of a day must stay small, so a whole reading is written only
//! when other processes use the GPUs, and once a minute.

use std::collections::BTreeMap;

use super::{HostMemory, Line, Millis, Note, Run, millis_between};
use crate::gpu::Snapshot;
use crate::gpu::glance::Glance;
use crate::units::{Bytes, WallTime};

/// The time between two whole readings of a machine where the processes stay the same.
const WHOLE_EVERY: Millis = 60_000;
/// System memory is written again when it changed by more than this, or by 1 %.
const HOST_STEP: Bytes = Bytes::mib(64);

/// Decides what is written. Remembers what was written last.
#[derive(Debug)]
pub struct Scribe {
    began: WallTime,
    used: BTreeMap<u32, Bytes>,
    rows: BTreeMap<(u32, u32), Bytes>,
    whole_at: Option<Millis>,
    host: Option<HostMemory>,
}

impl Scribe {
    /// Of a run that began then.
    pub fn new(run: &Run) -> Scribe {
        Scribe { began: run.started_at, used: BTreeMap::new(), rows: BTreeMap::new(), whole_at: None, host: None }
    }

    /// The time since the beginning.
    pub fn at(&self, moment: WallTime) -> Millis {
        millis_between(self.began, moment)
    }

    /// The lines that a glance is worth: none where nothing changed.
    pub fn glance(&mut self, glance: &Glance) -> Option<Line> {
        self.used_line(self.at(glance.glanced_at), &glance.used)
    }

    /// The lines that a whole reading is worth.
    pub fn reading(&mut self, snapshot: &Snapshot) -> Vec<Line> {
        let at = self.at(snapshot.taken_at);
        let rows = rows(snapshot);
        let is_same_people = rows.keys().eq(self.rows.keys());
        let is_due = self.whole_at.is_none_or(|last| at.saturating_sub(last) >= WHOLE_EVERY);
        let used = used(snapshot);
        if is_due || !is_same_people {
            self.whole_at = Some(at);
            self.used = used.into_iter().collect();
            self.rows = rows;
            return vec![Line::Reading(Box::new(snapshot.clone()))];
        }
        let mut changed = Vec::new();
        for ((gpu, pid), bytes) in &rows {
            if self.rows.get(&(*gpu, *pid)) != Some(bytes) {
                changed.push((*gpu, *pid, *bytes));
            }
        }
        self.rows = rows;
        let rows = (!changed.is_empty()).then_some(Line::Note(Note::Rows { at, rows: changed }));
        self.used_line(at, &used).into_iter().chain(rows).collect()
    }

    /// The line that the system memory is worth.
    pub fn host(&mut self, at: Millis, host: HostMemory) -> Option<Line> {
        if self.host.is_some_and(|last| is_about(last, host)) {
            return None;
        }
        self.host = Some(host);
        Some(Line::Note(Note::Host { at, host }))
    }

    /// What a file needs at its beginning to be read without the one before: everything is written again.
    pub fn begin_anew(&mut self) {
        self.whole_at = None;
        self.host = None;
    }

    fn used_line(&mut self, at: Millis, used: &[(u32, Bytes)]) -> Option<Line> {
        let mut gpus = Vec::new();
        for (gpu, bytes) in used {
            if self.used.insert(*gpu, *bytes) != Some(*bytes) {
                gpus.push((*gpu, *bytes));
            }
        }
        (!gpus.is_empty()).then_some(Line::Note(Note::Used { at, gpus }))
    }
}

/// The VRAM in use on each GPU where it is known.
pub(super) fn used(snapshot: &Snapshot) -> Vec<(u32, Bytes)> {
    let devices = snapshot.devices.iter();
    devices.filter_map(|device| Some((device.index, device.memory.used_bytes.value()?))).collect()
}

/// The VRAM of each process on each GPU where it is known.
fn rows(snapshot: &Snapshot) -> BTreeMap<(u32, u32), Bytes> {
    let mut rows = BTreeMap::new();
    for device in &snapshot.devices {
        for process in &device.processes {
            if let Some(bytes) = process.used_bytes.value() {
                rows.insert((device.index, process.pid), bytes);
            }
        }
    }
    rows
}

/// Whether two sizes differ too little for a line of their own. Known and unknown always differ.
fn are_close(one: Option<Bytes>, other: Option<Bytes>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.0.abs_diff(other.0) <= HOST_STEP.0.max(one.0 / 100),
        (one, other) => one == other,
    }
}

/// Whether nothing changed that a person would look at.
fn is_about(last: HostMemory, now: HostMemory) -> bool {
    let sizes = [(last.tree, now.tree), (last.available, now.available), (last.group_used, now.group_used)];
    sizes.into_iter().all(|(last, now)| are_close(last, now))
        && last.kills == now.kills
        && last.pressure.unwrap_or(0).abs_diff(now.pressure.unwrap_or(0)) < 500
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Reading;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::record::RunOptions;

    fn run() -> Run {
        Run {
            started_at: noon_plus(0),
            argv: vec!["python".into(), "train.py".into()],
            folder: "/home/ada".into(),
            pid: 42,
            tries: None,
            environment: Vec::new(),
            options: RunOptions::default(),
        }
    }

    fn reading(second: i64, gib: u64) -> Snapshot {
        Snapshot { devices: vec![device(0, vec![process(42, Bytes::gib(gib))])], ..snapshot(second) }
    }

    #[test]
    fn what_did_not_change_is_not_written_and_what_did_is_short() {
        let mut scribe = Scribe::new(&run());
        assert!(matches!(scribe.reading(&reading(0, 4))[..], [Line::Reading(_)]));
        assert_eq!(scribe.reading(&reading(1, 4)), []);
        let lines = scribe.reading(&reading(2, 5));
        assert!(
            matches!(&lines[..], [Line::Note(Note::Used { at: 2000, .. }), Line::Note(Note::Rows { .. })]),
            "{lines:?}"
        );
        let text: usize = lines.iter().map(|line| line.text().unwrap().len()).sum();
        assert!(text < 120, "{text}");
        let more = Snapshot {
            devices: vec![device(0, vec![process(42, Bytes::gib(5)), process(43, Bytes::gib(1))])],
            ..snapshot(3)
        };
        assert!(matches!(scribe.reading(&more)[..], [Line::Reading(_)]), "another process has come");
        assert!(matches!(scribe.reading(&Snapshot { taken_at: noon_plus(63), ..more })[..], [Line::Reading(_)]));
    }

    #[test]
    fn a_gpu_that_can_not_be_read_is_not_said_to_use_nothing() {
        let mut scribe = Scribe::new(&run());
        let mut unread = reading(0, 4);
        unread.devices[0].memory.used_bytes = Reading::Denied;
        scribe.reading(&unread);
        let glance = Glance { glanced_at: noon_plus(1), used: vec![(0, Bytes::ZERO)] };
        assert!(scribe.glance(&glance).is_some(), "0 is a figure, and not what was known before");
    }

    #[test]
    fn every_line_comes_back_as_it_was() {
        let mut scribe = Scribe::new(&run());
        let mut lines = vec![Line::Note(Note::Run(run()))];
        lines.extend(scribe.reading(&reading(0, 4)));
        lines.extend(scribe.reading(&reading(2, 5)));
        lines.extend(scribe.host(7, HostMemory { tree: Some(Bytes::gib(3)), kills: Some(0), ..HostMemory::default() }));
        lines.push(Line::Note(Note::Mark { at: 9, text: "CUDA out of memory".into() }));
        lines.push(Line::Note(Note::End { at: 10, end: End::Signal(9) }));
        for line in lines {
            assert_eq!(Line::parse(line.text().unwrap().trim_end().as_bytes(), false).unwrap(), line);
        }
    }

    use super::super::End;
}
