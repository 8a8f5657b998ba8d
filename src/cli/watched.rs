//! Owns a machine after it was watched for a moment, from one reading to the next: which of its processes work.

use std::time::Duration;

use crate::advice::other_machine::OtherMachine;
use crate::gpu::activity::Activity;
use crate::gpu::history::History;
use crate::gpu::{Device, GpuProcess, Snapshot};
use crate::hosts::HostReading;

/// The machine after it was watched for a moment.
pub(super) struct Watched {
    /// The last reading.
    pub(super) snapshot: Snapshot,
    pub(super) history: History,
}

impl Watched {
    pub(super) fn of((first, second): (Snapshot, Option<Snapshot>)) -> Watched {
        let mut history = History::default();
        history.note(&first);
        let snapshot = second.unwrap_or(first);
        // Taking in the only reading twice changes nothing: no time has passed.
        history.note(&snapshot);
        Watched { snapshot, history }
    }

    /// Another machine, where it was read.
    pub(super) fn of_host(reading: &HostReading) -> Option<(&HostReading, Watched)> {
        let (first, second) = reading.seen.as_ref().ok()?;
        Some((reading, Watched::of(((**first).clone(), second.as_deref().cloned()))))
    }

    /// The same for advice on where the run has room.
    pub(super) fn as_other<'a>(&'a self, reading: &'a HostReading) -> OtherMachine<'a> {
        OtherMachine { reading, snapshot: &self.snapshot, history: &self.history }
    }

    /// Whether this process works. Other than on the screen, idle may be a short time, which is printed with it.
    pub(super) fn activity(&self, device: &Device, process: &GpuProcess) -> Activity {
        match Activity::of(Some(&self.history), Some(device), process) {
            Activity::Unknown => self.idle_for(process).map_or(Activity::Unknown, Activity::Idle),
            known => known,
        }
    }

    /// How long it used neither GPU nor CPU, to the second.
    pub(super) fn idle_for(&self, process: &GpuProcess) -> Option<Duration> {
        let time = self.history.idle_for(process.key()?)?;
        let to_nearest = Duration::from_millis(500);
        Some(Duration::from_secs((time + to_nearest).as_secs())).filter(|time| !time.is_zero())
    }

    pub(super) fn cpu_percent(&self, process: &GpuProcess) -> Option<u64> {
        self.history.latest_use(process.key()?)?.cpu_percent
    }
}
