//! Owns what we have seen over time: how much of each device was used, and since when a process has done nothing.
//! Started just now it knows nothing: every statement comes with the time it was watched.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Device, GpuProcess, ProcessKey, Snapshot};
use crate::units::{Bytes, WallTime};

/// Ten minutes at one reading a second.
const KEPT: usize = 600;
/// Readings further apart than this, in seconds, leave a time in which nobody watched. Intervals may be long.
const LONGEST_GAP: i64 = 60;
/// USER_HZ, the unit of utime and stime in /proc/PID/stat: 100 on every Linux that glibc supports.
const TICKS_PER_SECOND: u64 = 100;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct History {
    devices: BTreeMap<u32, VecDeque<Option<Bytes>>>,
    processes: BTreeMap<ProcessKey, Watch>,
}

/// One process as watched: the start of the present idle time and the CPU ticks it had then.
#[derive(Clone, Copy, Debug)]
struct Watch {
    idle_since: WallTime,
    ticks_then: Option<u64>,
    last_seen: WallTime,
    worked_at: Option<WallTime>,
}

impl History {
    /// Takes in one more snapshot; processes that left are forgotten.
    pub fn note(&mut self, snapshot: &Snapshot) {
        let now = snapshot.taken_at;
        let mut seen = BTreeMap::new();
        for device in &snapshot.devices {
            let ring = self.devices.entry(device.index).or_default();
            if ring.len() == KEPT {
                ring.pop_front();
            }
            ring.push_back(device.memory.used_bytes.value());
            for process in &device.processes {
                let Some(key) = process.key() else { continue };
                let before = seen.get(&key).or(self.processes.get(&key)).copied();
                seen.insert(key, watch(before, device, process, now));
            }
        }
        self.processes = seen;
    }

    /// How long this process has used neither GPU (0 %) nor CPU (under 1 %), as far as we have watched.
    /// `None` where it is in use or was not watched yet.
    pub fn idle_for(&self, key: ProcessKey) -> Option<Duration> {
        let watch = self.processes.get(&key)?;
        let seconds = watch.last_seen.0.duration_since(watch.idle_since.0);
        Duration::try_from(seconds).ok().filter(|time| !time.is_zero())
    }

    /// Whether it was seen using the GPU or the CPU within the last so many seconds.
    pub fn is_at_work(&self, key: ProcessKey, within: Duration) -> bool {
        let Some(watch) = self.processes.get(&key) else { return false };
        let since = watch.worked_at.map(|worked| watch.last_seen.0.duration_since(worked.0));
        since.is_some_and(|since| Duration::try_from(since).is_ok_and(|since| since <= within))
    }

    /// What the device had in use at each reading, oldest first; `None` where it was not known.
    pub fn used(&self, device: u32) -> impl DoubleEndedIterator<Item = Option<Bytes>> + '_ {
        self.devices.get(&device).into_iter().flatten().copied()
    }
}

fn watch(before: Option<Watch>, device: &Device, process: &GpuProcess, now: WallTime) -> Watch {
    let ticks = process.cpu_ticks.value();
    let fresh = Watch { idle_since: now, ticks_then: ticks, last_seen: now, worked_at: None };
    match before {
        Some(before) if gap(&before, now) => fresh,
        Some(before) if gpu_idle(device, process) && cpu_idle(&before, ticks, now) => {
            Watch { last_seen: now, ..before }
        }
        Some(_) => Watch { worked_at: Some(now), ..fresh },
        None => fresh,
    }
}

/// We did not look in between (paused, suspended, the clock was set): nothing is known of that time.
fn gap(before: &Watch, now: WallTime) -> bool {
    !(0..=LONGEST_GAP).contains(&now.0.duration_since(before.last_seen.0).as_secs())
}

/// Its own figure where the driver gives one; else only a device that nobody uses proves it idle.
fn gpu_idle(device: &Device, process: &GpuProcess) -> bool {
    match (process.sm_percent.value(), device.utilization_percent.value()) {
        (Some(own), _) => own == 0,
        (None, whole) => whole == Some(0),
    }
}

fn cpu_idle(before: &Watch, ticks: Option<u64>, now: WallTime) -> bool {
    let (Some(then), Some(ticks)) = (before.ticks_then, ticks) else { return false };
    let seconds = u64::try_from(now.0.duration_since(before.idle_since.0).as_secs()).unwrap_or(0);
    // One tick of slack: a reading may fall between two accounting moments.
    ticks.saturating_sub(then) <= 1 + seconds * TICKS_PER_SECOND / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Reading;
    use crate::gpu::testing::{process, snapshot};

    fn at(second: i64, sm: u32, ticks: u64) -> Snapshot {
        let mut snapshot = snapshot(second);
        let mut row = process(42, Bytes::gib(1));
        row.sm_percent = Reading::Known(sm);
        row.cpu_ticks = Reading::Known(ticks);
        snapshot.devices[0].processes = vec![row];
        snapshot
    }

    fn idle_after(steps: &[(i64, u32, u64)]) -> Option<Duration> {
        let mut history = History::default();
        for (second, sm, ticks) in steps {
            history.note(&at(*second, *sm, *ticks));
        }
        history.idle_for(process(42, Bytes::ZERO).key().unwrap())
    }

    #[test]
    fn idle_time_is_what_was_watched_and_no_more() {
        assert_eq!(idle_after(&[(0, 0, 10)]), None, "one reading is no time");
        assert_eq!(idle_after(&[(0, 0, 10), (40, 0, 12)]), Some(Duration::from_secs(40)));
        assert_eq!(idle_after(&[(0, 0, 10), (20, 35, 12), (40, 0, 12)]), Some(Duration::from_secs(20)));
        assert_eq!(idle_after(&[(0, 0, 10), (40, 0, 2000)]), None, "half a CPU is not idle");
    }

    #[test]
    fn work_is_what_was_seen_and_not_long_ago() {
        let at_work = |steps: &[(i64, u32, u64)]| {
            let mut history = History::default();
            steps.iter().for_each(|(second, sm, ticks)| history.note(&at(*second, *sm, *ticks)));
            history.is_at_work(process(42, Bytes::ZERO).key().unwrap(), Duration::from_secs(10))
        };
        assert!(!at_work(&[(0, 90, 10)]), "one reading shows no change");
        assert!(at_work(&[(0, 90, 10), (5, 90, 10)]));
        assert!(at_work(&[(0, 0, 10), (5, 90, 10), (12, 0, 10)]));
        assert!(!at_work(&[(0, 0, 10), (5, 90, 10), (40, 0, 10)]));
    }

    #[test]
    fn without_a_figure_of_its_own_only_an_unused_device_proves_idleness() {
        for (whole, expected) in [(0, Some(Duration::from_secs(9))), (7, None)] {
            let mut history = History::default();
            for second in [0, 9] {
                let mut now = at(second, 0, 10);
                now.devices[0].processes[0].sm_percent = Reading::Unsupported;
                now.devices[0].utilization_percent = Reading::Known(whole);
                history.note(&now);
            }
            assert_eq!(history.idle_for(process(42, Bytes::ZERO).key().unwrap()), expected);
        }
    }

    #[test]
    fn a_time_in_which_nobody_watched_does_not_count() {
        assert_eq!(idle_after(&[(0, 0, 10), (3600, 0, 10)]), None);
        assert_eq!(idle_after(&[(0, 0, 10), (3600, 0, 10), (3620, 0, 10)]), Some(Duration::from_secs(20)));
        assert_eq!(idle_after(&[(3600, 0, 10), (0, 0, 10)]), None, "the clock was set back");
    }

    #[test]
    fn a_process_that_left_is_forgotten() {
        let mut history = History::default();
        history.note(&at(0, 0, 1));
        history.note(&at(9, 0, 1));
        history.note(&snapshot(10));
        assert_eq!(history.idle_for(process(42, Bytes::ZERO).key().unwrap()), None);
    }
}
