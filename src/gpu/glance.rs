//! Owns the short reading between two whole ones: the VRAM in use on each GPU. Asking a driver for the lists of processes
//! costs it some milliseconds, asking for this some microseconds, so this can be read several times a second.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, WallTime};

/// The VRAM in use at one moment. A GPU that could not be read is not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Glance {
    pub glanced_at: WallTime,
    /// The driver's index of each GPU, and its VRAM in use.
    pub used: Vec<(u32, Bytes)>,
}

/// The most VRAM that processes ever used, as the driver counts where root switched its accounting on. It answers for
/// processes that have exited, too, and sees what falls between two readings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peaks {
    /// The driver's index of the GPU, the PID, and its peak.
    pub peaks: Vec<(u32, u32, Bytes)>,
}
