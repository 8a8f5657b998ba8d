//! Owns the closed list of figures a log can print: the keys that an entry's patterns may capture.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::first_failure::FirstFailure;
use crate::units::Bytes;

/// The contract's keys: what an entry's patterns may capture. `other_pid` and `other_bytes` come in
/// pairs and make `other_processes`.
pub(crate) const FACT_KEYS: &[&str] = &[
    "device",
    "requested_bytes",
    "total_bytes",
    "free_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "reserved_unallocated_bytes",
    "process_bytes",
    "limit_bytes",
    "other_pid",
    "other_bytes",
    "victim_pid",
    "victim_name",
    "victim_rss_bytes",
    "context_tokens",
    "max_tokens",
    "exit_code",
];

/// What cgroups print as a limit if none is set: the largest number that there is, in whole pages.
const NO_LIMIT: Range<u64> = (1 << 63) - (1 << 21)..(1 << 63) + 1;
/// Printed sizes have two decimals.
const ROUNDING: Bytes = Bytes::mib(16);

/// The figures that the log prints. A figure that it does not print is absent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// The device index as printed: the framework's, which may differ from the driver's.
    pub device: Option<u32>,
    /// The size of the allocation that failed.
    pub requested_bytes: Option<Bytes>,
    /// The capacity of the device, or of system memory where that ran out.
    pub total_bytes: Option<Bytes>,
    /// Free or available when it failed.
    pub free_bytes: Option<Bytes>,
    /// In use by the framework's allocator.
    pub allocated_bytes: Option<Bytes>,
    /// The total of the allocator (PyTorch 1.4 to 2.1: "reserved in total").
    pub reserved_bytes: Option<Bytes>,
    /// Reserved by the allocator but not in use (PyTorch 1.0 to 1.3: "cached").
    pub reserved_unallocated_bytes: Option<Bytes>,
    /// In use by the failed process: "this process has X".
    pub process_bytes: Option<Bytes>,
    /// The limit that was hit: of a cgroup, of MPS ("max allowed"), or a memory fraction.
    pub limit_bytes: Option<Bytes>,
    /// Other processes with their VRAM, as the log names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_processes: Vec<NamedProcess>,
    /// The process that the kernel ended.
    pub victim_pid: Option<u32>,
    pub victim_name: Option<String>,
    /// The anonymous RSS of the process that the kernel ended.
    pub victim_rss_bytes: Option<Bytes>,
    /// The context length that was requested.
    pub context_tokens: Option<u64>,
    /// The tokens that fit in the KV cache.
    pub max_tokens: Option<u64>,
    /// The exit code of the job.
    pub exit_code: Option<i64>,
    /// Which rank failed first, in a log of several ranks, hosts or workers; absent where there is one.
    pub first_failure: Option<FirstFailure>,
}

/// A process that a log names by PID, with its VRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedProcess {
    /// The PID as printed.
    pub pid: u32,
    /// Its VRAM in bytes, as printed.
    pub bytes: Bytes,
}

impl Facts {
    /// The figures present, by key; of other processes none (`other_processes` has them).
    pub fn listed(&self) -> Vec<(&'static str, Value)> {
        let mut figures = self.by_key();
        FACT_KEYS.iter().filter_map(|key| Some((*key, figures.remove(*key)?))).collect()
    }

    fn by_key(&self) -> Map<String, Value> {
        let Ok(Value::Object(figures)) = serde_json::to_value(self) else { return Map::new() };
        figures
    }

    /// Sets a figure; nothing happens where it is known already or is no value of that key.
    pub fn set(&mut self, key: &str, figure: impl Into<Value>) -> bool {
        let mut figures = self.by_key();
        if figures.contains_key(key) {
            return false;
        }
        figures.insert(key.to_owned(), figure.into());
        let facts = Facts::deserialize(Value::Object(figures));
        facts.map(|facts| *self = facts).is_ok()
    }

    /// The limit that was set. One of all the memory there is limits nothing: PyTorch prints it for a share of 1.0.
    pub fn limit(&self) -> Option<Bytes> {
        self.limit_bytes.filter(|limit| self.total_bytes.is_none_or(|total| *limit < total))
    }

    /// Removes figures that are impossible, and those that programs print for "unknown" or "unlimited": unknown is
    /// never 0. Returns the keys that were removed.
    pub fn discard_impossible(&mut self) -> Vec<&'static str> {
        let total = self.total_bytes.filter(|total| *total > Bytes::ZERO);
        // A program in a container cannot find itself among the GPU's processes: it prints less than its own
        // allocator has, or 0. Both figures are rounded to two decimals of a GiB.
        let least = self.allocated_bytes.map_or(Bytes(1), |had| Bytes(had.0 - had.0 / 50).less(ROUNDING).max(Bytes(1)));
        let most = total.map_or(Bytes(u64::MAX), |total| total.plus(Bytes(total.0 / 50)).plus(ROUNDING));
        let kept = [
            ("total_bytes", &mut self.total_bytes, Bytes(1)..Bytes(u64::MAX)),
            ("limit_bytes", &mut self.limit_bytes, Bytes(1)..Bytes(u64::MAX)),
            ("process_bytes", &mut self.process_bytes, least..most),
        ];
        let mut discarded = Vec::new();
        for (key, figure, possible) in kept {
            if figure.take_if(|bytes| !possible.contains(bytes) || NO_LIMIT.contains(&bytes.0)).is_some() {
                discarded.push(key);
            }
        }
        let named = self.other_processes.len();
        self.other_processes.retain(|other| (Bytes(1)..most).contains(&other.bytes));
        if self.other_processes.len() < named && self.other_processes.is_empty() {
            discarded.extend(["other_pid", "other_bytes"]);
        }
        discarded
    }

    /// Adds the figures of `other` that are missing here.
    pub fn complete_from(&mut self, other: &Facts) {
        for (key, figure) in other.listed() {
            self.set(key, figure);
        }
        if self.other_processes.is_empty() {
            self.other_processes.clone_from(&other.other_processes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(tenths: u64) -> Bytes {
        Bytes(Bytes::gib(1).0 / 10 * tenths)
    }

    #[test]
    fn a_limit_or_capacity_of_0_is_none() {
        for none in [Bytes::ZERO, Bytes(9_007_199_254_740_988 * 1024), Bytes(i64::MAX.unsigned_abs())] {
            let (limit_bytes, total_bytes) = (Some(none), Some(none));
            let mut facts = Facts { limit_bytes, total_bytes, free_bytes: Some(Bytes::ZERO), ..Facts::default() };
            assert_eq!(facts.discard_impossible(), ["total_bytes", "limit_bytes"]);
            assert_eq!(facts, Facts { free_bytes: Some(Bytes::ZERO), ..Facts::default() }, "nothing free is a figure");
        }
        let mut set = Facts { limit_bytes: Some(Bytes::mib(2)), ..Facts::default() };
        assert!(set.discard_impossible().is_empty());
    }

    #[test]
    fn a_process_has_no_less_than_its_own_allocator_and_no_more_than_the_card() {
        for (had, process, total, is_kept) in [
            (Some(330), 0, Some(1400), false),
            (Some(330), 5, Some(1400), false),
            (None, 0, Some(1400), false),
            (Some(330), 336, Some(1400), true),
            // Rounded differently.
            (Some(330), 329, Some(1400), true),
            (Some(330), 1500, Some(1400), false),
            (None, 3, None, true),
        ] {
            let (allocated_bytes, total_bytes) = (had.map(gib), total.map(gib));
            let mut facts =
                Facts { allocated_bytes, total_bytes, process_bytes: Some(gib(process)), ..Facts::default() };
            let discarded = facts.discard_impossible();
            assert_eq!(facts.process_bytes.is_some(), is_kept, "{had:?} {process}");
            assert_eq!(discarded.is_empty(), is_kept);
        }
        let other_processes =
            [(1, 0), (2, 340), (3, 2000)].map(|(pid, tenths)| NamedProcess { pid, bytes: gib(tenths) }).to_vec();
        let mut facts = Facts { total_bytes: Some(gib(1400)), other_processes, ..Facts::default() };
        assert!(facts.discard_impossible().is_empty());
        assert_eq!(facts.other_processes.iter().map(|other| other.pid).collect::<Vec<_>>(), [2]);
    }
}
