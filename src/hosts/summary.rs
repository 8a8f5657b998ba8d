//! Owns the figures of a machine in one row: its GPUs, what is free on them, which processes are idle. A sum in which a figure
//! is unknown is a lower bound and says so.

use std::collections::BTreeMap;
use std::fmt;

use crate::gpu::activity::Activity;
use crate::gpu::{Device, GpuProcess, Nature, ProcessKey, Snapshot, most_free};
use crate::units::Bytes;

/// What is unknown, in a table.
const UNKNOWN: &str = "?";

pub(crate) struct Summary {
    /// Those that have memory of their own: a split one's is its instances'.
    pub gpus: usize,
    pub free: Sum,
    /// The most that is free on one GPU, and its index.
    pub most: Option<(Bytes, u32)>,
    pub idle: Idle,
}

impl Summary {
    pub(crate) fn of(snapshot: &Snapshot, activity: impl Fn(&Device, &GpuProcess) -> Activity) -> Summary {
        let is_whole = |device: &&Device| device.nature != Some(Nature::Split);
        let gpus: Vec<&Device> = snapshot.devices.iter().filter(is_whole).collect();
        Summary {
            gpus: gpus.len(),
            free: gpus.iter().map(|device| device.memory.free_bytes.value()).collect(),
            most: most_free(gpus.iter().copied()),
            idle: Idle::of(snapshot, activity),
        }
    }
}

/// A sum, as far as its figures are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// `None` where no figure is known.
    known: Option<Bytes>,
    is_least: bool,
}

impl FromIterator<Option<Bytes>> for Sum {
    fn from_iter<T: IntoIterator<Item = Option<Bytes>>>(figures: T) -> Sum {
        let mut sum = Sum { known: None, is_least: false };
        for figure in figures {
            match figure {
                Some(bytes) => sum.known = Some(sum.known.unwrap_or(Bytes::ZERO).plus(bytes)),
                None => sum.is_least = true,
            }
        }
        sum
    }
}

impl Sum {
    /// It is at least this much; `None` where no figure is known.
    pub(crate) fn least(&self) -> Option<Bytes> {
        self.known
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known, self.is_least) {
            (None, _) => f.pad(UNKNOWN),
            (Some(sum), true) => f.pad(&format!("≥ {sum}")),
            (Some(sum), false) => f.pad(&sum.to_string()),
        }
    }
}

/// The processes that are idle. A process on several GPUs counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    pub count: usize,
    pub used: Sum,
    /// Of some processes it is not known whether they are idle.
    pub is_least: bool,
}

impl Idle {
    fn of(snapshot: &Snapshot, activity: impl Fn(&Device, &GpuProcess) -> Activity) -> Idle {
        let mut idle: BTreeMap<ProcessKey, Option<Bytes>> = BTreeMap::new();
        let mut is_least = false;
        for (device, process) in snapshot.on_gpus() {
            match (activity(device, process), process.key()) {
                (Activity::Idle(_), Some(key)) => {
                    let known = idle.entry(key).or_insert(Some(Bytes::ZERO));
                    *known = known.zip(process.used_bytes.value()).map(|(sum, used)| sum.plus(used));
                }
                (Activity::Busy(_), _) => {}
                _ => is_least = true,
            }
        }
        Idle { count: idle.len(), used: idle.into_values().collect(), is_least }
    }

    /// Their number and what they use, with `between` in between; `none` where all are known to be busy.
    pub(crate) fn in_words(&self, between: &str, none: &str) -> String {
        let bound = if self.is_least { "≥ " } else { "" };
        match (self.count, self.is_least) {
            (0, true) => UNKNOWN.to_owned(),
            (0, false) => none.to_owned(),
            (count, _) => format!("{bound}{count}{between}{}", self.used),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gpu::Reading;
    use crate::gpu::testing::{device, process, snapshot};

    #[test]
    fn a_process_on_two_gpus_counts_once_and_an_unknown_figure_makes_a_lower_bound() {
        let mut unknown = process(8, Bytes::gib(1));
        unknown.used_bytes = Reading::Denied;
        let rows = [vec![process(7, Bytes::gib(2)), unknown], vec![process(7, Bytes::gib(3))]];
        let devices = (0..).zip(rows).map(|(index, rows)| device(index, rows)).collect();
        let seen = Snapshot { devices, ..snapshot(0) };
        let idle = Summary::of(&seen, |_, _| Activity::Idle(Duration::from_secs(60))).idle;
        assert_eq!(idle.in_words(", ", "-"), "2, ≥ 5.0 GiB");
        assert_eq!(Summary::of(&seen, |_, _| Activity::Unknown).idle.in_words(", ", "-"), "?");
    }

    #[test]
    fn the_instances_of_a_split_gpu_count_and_the_gpu_does_not() {
        let mut split = device(0, vec![]);
        split.nature = Some(Nature::Split);
        let seen = Snapshot { devices: vec![split, device(1, vec![])], ..snapshot(0) };
        assert_eq!(Summary::of(&seen, |_, _| Activity::Unknown).gpus, 1);
    }
}
