//! Owns the three answers to "is this process working?": busy, idle, or unknown. The screen, the advice, and the
//! questions before a signal all ask here, so that no two of them disagree.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use strum::{EnumDiscriminants, EnumIs};

use super::history::History;
use super::usage::{Use, gpu_percent};
use super::{Device, GpuProcess, ProcessKey};

/// A process stays busy this long after its last use of GPU or CPU: training steps alternate with loading, and a
/// process between two steps must not look idle.
const BUSY_FOR: Duration = Duration::from_secs(60);

/// A shorter time without use proves nothing: the activity is unknown until then.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// Whether a process works. `Busy`: GPU use above 0 % or CPU use of 5 % or more within the last 60 s that were watched, or
/// in the driver's last sample where nothing was watched yet; holds the latest such use. `Idle`: 0 % GPU and under 1 % CPU
/// for as long as it was watched, at least [`IDLE_AFTER`]. `Unknown`: neither was seen, or not for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumDiscriminants, EnumIs)]
#[strum_discriminants(name(ActivityWord), derive(Serialize, JsonSchema), serde(rename_all = "lowercase"))]
#[strum_discriminants(doc = "Whether a process works, as the JSON has it.")]
pub enum Activity {
    #[strum_discriminants(doc = "It used the GPU or the CPU within the last 60 s.")]
    Busy(Use),
    #[strum_discriminants(doc = "It used neither for as long as it was watched.")]
    Idle(Duration),
    #[strum_discriminants(doc = "It was not watched, or not for long enough.")]
    Unknown,
}

impl Activity {
    /// The activity of this process on this device, as far as it was watched.
    pub fn of(history: Option<&History>, device: Option<&Device>, process: &GpuProcess) -> Activity {
        let watched = process.key().zip(history).map(|(key, history)| history.activity(key));
        match watched {
            Some(known @ (Activity::Busy(_) | Activity::Idle(_))) => known,
            _ => Activity::in_the_last_sample(device, process),
        }
    }

    /// The activity by the driver's last sample alone, which never shows that a process is idle.
    fn in_the_last_sample(device: Option<&Device>, process: &GpuProcess) -> Activity {
        let used = Use { gpu_percent: gpu_percent(device, process), cpu_percent: None };
        if used.is_busy() { Activity::Busy(used) } else { Activity::Unknown }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activity::Busy(Use { gpu_percent: Some(percent), .. }) if *percent > 0 => write!(f, "BUSY {percent} %"),
            Activity::Busy(Use { cpu_percent: Some(percent), .. }) => write!(f, "BUSY {percent} % CPU"),
            Activity::Busy(_) => f.write_str("BUSY"),
            Activity::Idle(time) if time.as_secs() >= 3600 => write!(f, "idle ≥ {} h", time.as_secs() / 3600),
            Activity::Idle(time) if time.as_secs() >= 120 => write!(f, "idle ≥ {} min", time.as_secs() / 60),
            Activity::Idle(time) => write!(f, "idle ≥ {} s", time.as_secs()),
            Activity::Unknown => f.write_str("?"),
        }
    }
}

impl History {
    /// Whether this process works, from what was watched alone.
    pub fn activity(&self, key: ProcessKey) -> Activity {
        match (self.busy_within(key, BUSY_FOR), self.idle_for(key)) {
            (Some(used), _) => Activity::Busy(used),
            (None, Some(time)) if time >= IDLE_AFTER => Activity::Idle(time),
            _ => Activity::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{process, snapshot};
    use crate::gpu::{Reading, Snapshot};
    use crate::units::Bytes;

    fn at(second: i64, sm: u32, ticks: u64) -> Snapshot {
        let mut snapshot = snapshot(second);
        let mut row = process(42, Bytes::gib(1));
        (row.sm_percent, row.cpu_ticks) = (Reading::Known(sm), Reading::Known(ticks));
        snapshot.devices[0].processes = vec![row].into();
        snapshot
    }

    /// Of readings (second, GPU percent, CPU ticks).
    fn after(steps: &[(i64, u32, u64)]) -> Activity {
        let mut history = History::default();
        steps.iter().for_each(|(second, sm, ticks)| history.note(&at(*second, *sm, *ticks)));
        let (second, sm, ticks) = steps.last().unwrap();
        let last = at(*second, *sm, *ticks);
        Activity::of(Some(&history), last.devices.first(), &last.devices[0].processes[0])
    }

    fn gpu(percent: u32) -> Option<u32> {
        Some(percent)
    }

    #[test]
    fn gpu_use_makes_busy_for_a_minute() {
        let used = |activity| match activity {
            Activity::Busy(used) => used.gpu_percent,
            _ => None,
        };
        assert_eq!(used(after(&[(0, 97, 0)])), gpu(97), "the driver's sample, nothing watched yet");
        assert_eq!(used(after(&[(0, 0, 0), (5, 1, 0), (40, 0, 0)])), gpu(1), "35 s later");
        assert_eq!(used(after(&[(0, 97, 0), (5, 0, 0), (40, 0, 0)])), gpu(97), "the first reading counts, too");
        assert!(after(&[(0, 0, 0), (5, 1, 0), (30, 0, 0), (66, 0, 0)]).is_idle(), "61 s later");
    }

    #[test]
    fn cpu_use_of_five_percent_makes_busy_and_less_is_unknown() {
        assert!(after(&[(0, 0, 0), (10, 0, 50)]).is_busy());
        assert_eq!(after(&[(0, 0, 0), (10, 0, 49)]), Activity::Unknown);
        assert_eq!(after(&[(0, 0, 0), (10, 0, 0)]), Activity::Idle(Duration::from_secs(10)));
        assert_eq!(after(&[(0, 0, 0), (9, 0, 0)]), Activity::Unknown, "not long enough");
        assert!(after(&[(0, 0, 0), (1, 0, 900), (50, 0, 900)]).is_busy(), "a burst 49 s ago");
    }

    #[test]
    fn a_reading_without_figures_is_unknown() {
        let mut snapshot = at(0, 0, 0);
        snapshot.devices[0].processes[0].sm_percent = Reading::Unsupported;
        snapshot.devices[0].utilization_percent = Reading::Unsupported;
        let row = snapshot.devices[0].processes[0].clone();
        assert_eq!(Activity::of(None, snapshot.devices.first(), &row), Activity::Unknown);
        snapshot.devices[0].utilization_percent = Reading::Known(80);
        assert!(Activity::of(None, snapshot.devices.first(), &row).is_busy(), "it is alone on the device");
        snapshot.devices[0].processes.push(process(43, Bytes::gib(1)));
        assert_eq!(Activity::of(None, snapshot.devices.first(), &row), Activity::Unknown, "either of two");
    }
}
