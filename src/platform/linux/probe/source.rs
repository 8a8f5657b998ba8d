//! Owns what the sampler asks of a source of GPUs: NVIDIA's driver library, or the kernel's files about AMD and Intel GPUs.
//! A source numbers its GPUs from 0; the sampler puts them behind one another. Knows nothing of the stream.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::gpu::accounts::Row;
use crate::gpu::{Device, Driver, Reading};
use crate::platform::linux::procfs::Procfs;
use crate::units::Bytes;

#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: Instant,
    /// Microseconds since the epoch, which is how the driver stamps its samples.
    pub epoch_micros: u64,
}

impl Moment {
    pub fn now() -> Moment {
        let epoch_micros = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0);
        Moment { now: Instant::now(), epoch_micros }
    }
}

/// A source of GPUs.
pub(super) trait Source {
    /// Reads everything that is due; the moments must not go back. May hang where a driver hangs.
    fn refresh(&mut self, moment: Moment, procfs: &Procfs) -> SourceReading;

    /// The VRAM in use on each GPU that can be read at once, by the source's own index.
    fn glance(&mut self) -> Vec<(u32, Bytes)>;

    /// Closes what keeps a GPU awake. The next refresh opens it again.
    fn let_go(&mut self);
}

/// The result of one refresh.
#[derive(Debug)]
pub(super) struct SourceReading {
    /// The driver, or why it can't be used; `None` where the GPUs need no library.
    pub driver: Option<Driver>,
    /// Each GPU; empty without a driver.
    pub devices: Vec<DeviceReading>,
}

/// One GPU at one moment, with rows in place of its processes.
#[derive(Clone, Debug)]
pub(crate) struct DeviceReading {
    pub device: Device,
    /// The number of its device file, of an instance (MIG) the whole card's: 3 for /dev/nvidia3.
    pub minor: Option<u32>,
    pub rows: Vec<Row>,
    /// Whether the compute list, which has nearly all of the memory, could be read.
    pub listed: Reading<()>,
    /// By PID; one that is not in it has used nothing.
    pub sm_percent: Reading<HashMap<u32, Reading<u32>>>,
    /// What else is known of rows, by PID. A PID that is not in it is one that the driver gave, which has to be proved.
    pub known: BTreeMap<u32, Known>,
}

/// What the kernel's files say of a row beside its figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub whose: Whose,
    /// System memory that it uses through this GPU, where that is not its figure.
    pub shared_bytes: Option<Bytes>,
    /// What should be in VRAM and is in system memory.
    pub spilled_bytes: Option<Bytes>,
    /// Other processes with the same memory open, none of which has a figure for it.
    pub shared_with: Vec<u32>,
}

/// How certain it is that the process of a row's PID is the one that uses the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The process of this PID that started then was seen with this GPU's own device file open.
    Proved { start_ticks: u64 },
    /// A process of this PID lives here, but its open files may not be looked at.
    Unseen,
    /// The process has exited, and what lives under its PID now, if anything, does not have this GPU open.
    Exited,
    /// The PID is another namespace's.
    Foreign,
}
