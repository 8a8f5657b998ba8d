//! Owns what was seen over time: how much of each device was used, and since when a process has been idle. At the start
//! nothing is known, so every statement comes with the time that was watched.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::usage::{Use, gpu_percent, percent_of_unused};
use super::{Device, GpuProcess, ProcessKey, Snapshot};
use crate::units::{Bytes, WallTime};

/// Ten minutes at one reading a second.
const KEPT: usize = 600;
/// The seconds of a slot. The last ten minutes are drawn from slots.
const SLOT: i64 = 5;
/// The slots of ten minutes.
const SLOTS: usize = 120;
/// Readings further apart than this, in seconds, leave a time in which nobody watched. Intervals may be long.
const LONGEST_GAP: i64 = 60;
/// USER_HZ, the unit of utime and stime in /proc/PID/stat: 100 on every Linux that glibc supports.
const TICKS_PER_SECOND: u64 = 100;

#[derive(Clone, Debug, Default)]
pub struct History {
    devices: BTreeMap<u32, VecDeque<Option<Bytes>>>,
    processes: BTreeMap<ProcessKey, Watch>,
    unused: BTreeMap<u32, Rest>,
    /// The same over ten minutes, and what each process held.
    device_slots: BTreeMap<u32, Slots>,
    process_slots: BTreeMap<(u32, ProcessKey), Slots>,
    now: i64,
    /// How many snapshots were taken in.
    readings: u64,
}

/// The most that was in use within each slot of time in which it was known, the oldest first.
#[derive(Clone, Debug, Default)]
struct Slots {
    slots: VecDeque<(i64, Bytes)>,
    /// The reading that they were noted at last.
    reading: u64,
}

impl Slots {
    fn note(&mut self, slot: i64, reading: u64, bytes: Option<Bytes>) {
        self.reading = reading;
        let kept = slot - SLOTS as i64 + 1..=slot;
        // After the clock was set back there are slots of the future.
        if [self.slots.front(), self.slots.back()].into_iter().flatten().any(|(at, _)| !kept.contains(at)) {
            self.slots.retain(|(at, _)| kept.contains(at));
        }
        let Some(bytes) = bytes else { return };
        match self.slots.back_mut() {
            Some((at, most)) if *at == slot => *most = bytes.max(*most),
            _ => self.slots.push_back((slot, bytes)),
        }
    }

    /// The slots as this many columns; the last one ends now.
    fn columns(&self, now: i64, width: usize) -> Vec<Option<Bytes>> {
        let mut columns = vec![None; width];
        for (at, bytes) in &self.slots {
            let column = column(now - at, width).and_then(|column| columns.get_mut(column));
            if let Some(column) = column {
                *column = (*column).max(Some(*bytes));
            }
        }
        // Where there are more columns than slots, each slot fills its own.
        for at in 1..width {
            let before = columns.get(at - 1).copied().flatten();
            if let Some(gap) = columns.get_mut(at).filter(|gap| gap.is_none() && width > SLOTS) {
                *gap = before;
            }
        }
        columns
    }
}

/// The column of a slot this many slots ago.
fn column(ago: i64, width: usize) -> Option<usize> {
    let left = usize::try_from(SLOTS as i64 - 1 - ago).ok().filter(|left| *left < SLOTS)?;
    Some(left * width / SLOTS)
}

/// A device on which no process computes, as watched.
#[derive(Clone, Copy, Debug)]
struct Rest {
    since: WallTime,
    last_seen: WallTime,
    /// The highest use in percent, if the driver reports it.
    most: Option<u32>,
}

/// One process as watched: the start of the present idle time and the CPU ticks it had then.
#[derive(Clone, Copy, Debug)]
struct Watch {
    idle_since: WallTime,
    ticks_then: Option<u64>,
    last_seen: WallTime,
    /// CPU ticks at the last reading.
    ticks: Option<u64>,
    /// The use at the last reading.
    used: Use,
    /// The last reading with enough use to count as busy.
    busy: Option<(WallTime, Use)>,
}

impl History {
    /// Takes in one more snapshot. Processes that ended are forgotten.
    pub fn note(&mut self, snapshot: &Snapshot) {
        let now = snapshot.taken_at;
        let mut seen = BTreeMap::new();
        self.now = now.0.as_second().div_euclid(SLOT);
        self.readings += 1;
        let before = std::mem::take(&mut self.unused);
        for device in &snapshot.devices {
            if let Some(percent) = percent_of_unused(device) {
                let since = before.get(&device.index).filter(|rest| is_watched(rest.last_seen, now));
                let rest = since.map_or(Rest { since: now, last_seen: now, most: percent }, |rest| Rest {
                    last_seen: now,
                    most: rest.most.max(percent),
                    ..*rest
                });
                self.unused.insert(device.index, rest);
            }
            let ring = self.devices.entry(device.index).or_default();
            if ring.len() == KEPT {
                ring.pop_front();
            }
            ring.push_back(device.memory.used_bytes.value());
            let slots = self.device_slots.entry(device.index).or_default();
            slots.note(self.now, self.readings, device.memory.used_bytes.value());
            for process in &device.processes {
                let Some(key) = process.key() else { continue };
                let before = seen.get(&key).or(self.processes.get(&key)).copied();
                seen.insert(key, watch(before, device, process, now));
                let slots = self.process_slots.entry((device.index, key)).or_default();
                slots.note(self.now, self.readings, process.used_bytes.value());
            }
        }
        self.processes = seen;
        self.process_slots.retain(|_, slots| slots.reading == self.readings);
    }

    /// The VRAM in use on the device over the last ten minutes, as this many columns; `None` where it was not watched.
    pub fn device_columns(&self, device: u32, width: usize) -> Vec<Option<Bytes>> {
        self.device_slots.get(&device).map_or(vec![None; width], |slots| slots.columns(self.now, width))
    }

    /// The same for one process on that device.
    pub fn process_columns(&self, device: u32, key: ProcessKey, width: usize) -> Vec<Option<Bytes>> {
        self.process_slots.get(&(device, key)).map_or(vec![None; width], |slots| slots.columns(self.now, width))
    }

    /// The column of this moment, of `width` columns over the last ten minutes.
    pub fn column_of(&self, moment: WallTime, width: usize) -> Option<usize> {
        let slot = moment.0.as_second().div_euclid(SLOT);
        (slot <= self.now).then(|| column(self.now - slot, width)).flatten()
    }

    /// How long this process has used neither GPU (0 %) nor CPU (under 1 %), as far as we have watched.
    /// `None` where it is in use or was not watched yet.
    pub fn idle_for(&self, key: ProcessKey) -> Option<Duration> {
        let watch = self.processes.get(&key)?;
        let seconds = watch.last_seen.0.duration_since(watch.idle_since.0);
        Duration::try_from(seconds).ok().filter(|time| !time.is_zero())
    }

    /// How long nobody has computed on the device, as far as we have watched, and the most it was used meanwhile, in
    /// percent. `None` where somebody does or it was not watched yet.
    pub fn unused(&self, device: u32) -> Option<(Duration, Option<u32>)> {
        let rest = self.unused.get(&device)?;
        let time = Duration::try_from(rest.last_seen.0.duration_since(rest.since.0)).ok()?;
        Some((time, rest.most))
    }

    /// What this process used at the last reading. Its CPU use is known from the second reading on.
    pub fn latest_use(&self, key: ProcessKey) -> Option<Use> {
        self.processes.get(&key).map(|watch| watch.used)
    }

    /// The latest use that made this process busy, if it is no longer ago than this.
    pub fn busy_within(&self, key: ProcessKey, within: Duration) -> Option<Use> {
        let watch = self.processes.get(&key)?;
        let (at, used) = watch.busy?;
        let since = Duration::try_from(watch.last_seen.0.duration_since(at.0)).ok()?;
        (since <= within).then_some(used)
    }

    /// What the device had in use at each reading, oldest first; `None` where it was not known.
    pub fn used(&self, device: u32) -> impl DoubleEndedIterator<Item = Option<Bytes>> + '_ {
        self.devices.get(&device).into_iter().flatten().copied()
    }
}

fn watch(before: Option<Watch>, device: &Device, process: &GpuProcess, now: WallTime) -> Watch {
    let ticks = process.cpu_ticks.value();
    let before = before.filter(|before| is_watched(before.last_seen, now));
    let cpu_percent = before.and_then(|before| cpu_percent(&before, ticks, now));
    let used = Use { gpu_percent: gpu_percent(Some(device), process), cpu_percent };
    let earlier = before.and_then(|before| before.busy);
    let busy = if used.is_busy() { Some((now, used)) } else { earlier };
    let fresh = Watch { idle_since: now, ticks_then: ticks, last_seen: now, ticks, used, busy };
    match before {
        Some(before) if used.gpu_percent == Some(0) && cpu_idle(&before, ticks, now) => {
            Watch { last_seen: now, ticks, used, busy, ..before }
        }
        _ => fresh,
    }
}

/// CPU use since the last reading, in percent of one core. One row can be read on several devices at one moment: then
/// no time has passed and nothing is known.
fn cpu_percent(before: &Watch, ticks: Option<u64>, now: WallTime) -> Option<u64> {
    let milliseconds = u64::try_from(now.0.duration_since(before.last_seen.0).as_millis()).ok()?;
    let used = ticks?.saturating_sub(before.ticks?);
    used.saturating_mul(1000 * 100 / TICKS_PER_SECOND).checked_div(milliseconds)
}

/// Whether the time since then was watched: not where the program was paused or suspended, or the clock was set.
fn is_watched(last_seen: WallTime, now: WallTime) -> bool {
    (0..=LONGEST_GAP).contains(&now.0.duration_since(last_seen.0).as_secs())
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
        snapshot.devices[0].processes = vec![row].into();
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
    fn ten_minutes_are_kept_by_the_most_that_was_in_use() {
        let mut history = History::default();
        let key = process(42, Bytes::ZERO).key().unwrap();
        for (second, gib) in [(0, 9), (300, 2), (301, 5), (302, 1), (600, 3)] {
            let mut now = at(second, 0, 0);
            now.devices[0].processes[0].used_bytes = Reading::Known(Bytes::gib(gib));
            history.note(&now);
        }
        let columns = history.process_columns(0, key, 10);
        let known: Vec<_> = columns.iter().enumerate().filter_map(|(at, bytes)| Some((at, (*bytes)?))).collect();
        assert_eq!(known, [(4, Bytes::gib(5)), (9, Bytes::gib(3))], "what is older than ten minutes is gone");
        let moment = |second| WallTime(jiff::Timestamp::from_second(second).unwrap());
        let start = at(0, 0, 0).taken_at.0.as_second();
        assert_eq!(history.column_of(moment(start + 301), 10), Some(4));
        assert_eq!(history.column_of(moment(start + 700), 10), None, "it is still to come");
        assert_eq!(history.column_of(moment(start - 1), 10), None);
        assert!(history.device_columns(0, 240).iter().flatten().count() > 4, "a slot fills its columns");
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
