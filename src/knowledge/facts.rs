//! Owns the closed list of figures a log can print: the keys that an entry's patterns may capture.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What a log prints, and only that. Field names are the contract's; see contract.md for their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// The device index as printed: the framework's, not the driver's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// The allocation that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<Bytes>,
    /// Capacity of the device (or of the machine's RAM, where that ran out).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<Bytes>,
    /// Free or available when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<Bytes>,
    /// Live in the framework's allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<Bytes>,
    /// The allocator's total (PyTorch 1.4 to 2.1 "reserved in total").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<Bytes>,
    /// Held by the allocator but not in use (PyTorch 2.x's wording, and 1.0 to 1.3's "cached").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_unallocated_bytes: Option<Bytes>,
    /// "this process has X".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<Bytes>,
    /// A cap that was hit: cgroup, MPS "max allowed", memory fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<Bytes>,
    /// Other processes the log names as holders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_processes: Vec<NamedProcess>,
    /// The kernel's kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_pid: Option<u32>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_name: Option<String>,
    /// Its anonymous RSS alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_rss_bytes: Option<Bytes>,
    /// Tokens asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Tokens the cache can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Exit code of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

/// A process that a log names by PID with the memory it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedProcess {
    /// The PID as printed.
    pub pid: u32,
    /// What it held, as printed.
    pub bytes: Bytes,
}
