//! Owns what is known of a machine's GPUs at one moment: `Snapshot`, `Device`, `GpuProcess`, and `Reading`, which
//! keeps "unknown" apart from 0. The shapes are those of the sample stream (JSON, one snapshot a line).
//! Knows nothing of the driver library, of /proc or of the screen.

pub mod accounts;
pub mod activity;
pub mod failed_run;
pub mod guard;
pub mod history;
mod kin;
pub mod recognise;
pub mod running;
pub mod sight;
#[cfg(test)]
pub mod testing;
pub mod unused;
mod wire;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{harmless, is_harmful};
use crate::units::{Bytes, WallTime};
pub use kin::{Holder, Vantage};
use running::Running;
use wire::readings;

/// The version of the stream and of the JSON reports. Readers refuse a higher one by name.
pub const SCHEMA: u32 = 1;

/// A figure that the driver or the kernel may not give. Unknown is never 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    Known(T),
    /// This driver, card or kernel does not have such a figure.
    Unsupported,
    /// It exists but we may not see it.
    Denied,
    /// It exists but has no value now (the driver's own "not available").
    NotAvailable,
    /// Reading it failed; the text says how.
    Failed(String),
}

impl<T> Reading<T> {
    /// The figure, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Why it is not known: `unsupported`, `denied`, `not-available` or `failed: TEXT`; `None` where it is known.
    pub fn reason(&self) -> Option<String> {
        match self {
            Reading::Known(_) => None,
            Reading::Unsupported => Some("unsupported".into()),
            Reading::Denied => Some("denied".into()),
            Reading::NotAvailable => Some("not-available".into()),
            Reading::Failed(text) => Some(format!("failed: {text}")),
        }
    }

    /// The same reading of another quantity.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Known(value) => Reading::Known(f(value)),
            Reading::Unsupported => Reading::Unsupported,
            Reading::Denied => Reading::Denied,
            Reading::NotAvailable => Reading::NotAvailable,
            Reading::Failed(text) => Reading::Failed(text),
        }
    }

    /// From the two fields of the wire; a missing value without a reason is "not available".
    pub fn from_parts(value: Option<T>, reason: Option<&str>) -> Reading<T> {
        match (value, reason) {
            (Some(value), _) => Reading::Known(value),
            (None, Some("unsupported")) => Reading::Unsupported,
            (None, Some("denied")) => Reading::Denied,
            (None, Some(text)) if text.starts_with("failed: ") => {
                Reading::Failed(harmless(text.trim_start_matches("failed: ")).into_owned())
            }
            (None, _) => Reading::NotAvailable,
        }
    }
}

impl<T: Copy> Reading<T> {
    /// The figure by value, if known.
    pub fn value(&self) -> Option<T> {
        self.known().copied()
    }
}

fn clean(text: String) -> String {
    harmless(&text).into_owned()
}

fn take(reading: &mut Reading<String>) -> Reading<String> {
    std::mem::replace(reading, Reading::NotAvailable)
}

/// Names a process for good (on one boot): a PID alone is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProcessKey {
    /// The process id as this machine's /proc has it.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat: clock ticks after boot at which it started.
    pub start_ticks: u64,
}

impl fmt::Display for ProcessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start_ticks)
    }
}

/// The first line of a sample stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    pub schema: u32,
    /// Who wrote it: `oomdoctor 0.1.0`.
    pub program: String,
    /// /proc/sys/kernel/random/boot_id: two streams of one boot speak of the same PIDs.
    pub boot_id: Option<String>,
}

/// A machine's GPUs and their processes at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// When the reading was complete.
    pub taken_at: WallTime,
    /// The machine's own memory.
    pub host: Host,
    /// The driver, or why there is none.
    pub driver: Driver,
    /// In the driver's (PCI) order.
    pub devices: Vec<Device>,
    /// Processes that hold the driver's device files open but are not listed by the driver, as far as can be seen.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// Those above them that started them and hold nothing themselves: the torchrun of these ranks. See `group`.
    #[serde(default)]
    pub launchers: Vec<GpuProcess>,
    /// How many processes could not be asked what they have open: holders may be among them. 0 for root.
    #[serde(default)]
    pub unseen_processes: u32,
    /// What narrows the view from where this was read; empty on a plain machine.
    #[serde(default)]
    pub seen_from: Vec<Vantage>,
}

readings! {
    /// The machine and its system memory.
    pub struct Host {
        plain {
            name: String,
        }
        readings {
            memory_total_bytes: Bytes,
            /// MemAvailable: what a program could get without swapping.
            memory_available_bytes: Bytes,
            swap_total_bytes: Bytes,
            /// Swap not in use.
            swap_free_bytes: Bytes,
        }
    }
}

/// The driver as the library reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Driver {
    /// Why there is no driver to ask, and what would help, in one sentence a person can act on.
    Unavailable { unavailable: String },
    /// A driver that answers.
    Available {
        /// Such as 570.124.06; empty where the driver does not say.
        version: String,
        /// The CUDA version it supports, such as 12.8.
        cuda_version: Option<String>,
    },
}

readings! {
    /// A device's memory. `used + free + reserved = total` where the driver keeps them apart (NVML v2).
    pub struct DeviceMemory {
        plain {}
        readings {
            total_bytes: Bytes,
            /// Held back by the driver and firmware. Unknown with v1, whose `used` includes it.
            reserved_bytes: Bytes,
            /// In use by processes, without `reserved_bytes` where that is known.
            used_bytes: Bytes,
            free_bytes: Bytes,
        }
    }
}

readings! {
    pub struct Device {
        plain {
            /// The driver's index (not CUDA's).
            index: u32,
            /// Why this device could not be read (such as "GPU is lost: …"); the other devices go on.
            error: Option<String>,
            memory: DeviceMemory,
            /// Whether some rows have no figure, so that `unaccounted_bytes` may be theirs.
            unaccounted_includes_unknown_rows: bool,
            /// Processes with memory on this device, each PID once.
            processes: Vec<GpuProcess>,
            /// What makes it another thing than a whole card with memory of its own.
            nature: Option<Nature>,
        }
        readings {
            /// `GPU-…`, the name CUDA_VISIBLE_DEVICES takes.
            uuid: String,
            /// PCI address, such as 00000000:01:00.0.
            bus_id: String,
            name: String,
            /// max(0, used − the sum of the known rows).
            unaccounted_bytes: Bytes,
            /// Share of the last sample period in which a kernel ran.
            utilization_percent: u32,
            temperature_celsius: u32,
            /// Power draw, whole watts.
            power_watts: u32,
        }
    }
}

/// Another thing than a whole card with memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Nature {
    /// Split into instances (MIG), which have the memory.
    Split,
    /// One of these instances.
    MigInstance,
    /// A virtual machine's share of a card (vGPU).
    VirtualShare,
    /// Its memory is the machine's own (GB10, Jetson): the figures are the machine's.
    SharedMemory,
    /// A word of a later version.
    #[serde(other)]
    Unknown,
}

/// In which of the driver's lists a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    /// The compute list alone.
    Compute,
    /// The graphics list alone.
    Graphics,
    /// Both lists; its memory is the same in each and counted once.
    Both,
    /// A client of the multi-process service.
    Mps,
    /// None of them: see [`Holder`] and `launchers`.
    Unlisted,
}

readings! {
    /// A process that has memory on a device.
    pub struct GpuProcess {
        plain {
            /// As the driver gave it. This machine's own only where `proved`.
            pid: u32,
            kind: ProcessKind,
            /// Container id or name from its cgroup, if any.
            container: Option<String>,
            /// Who starts it again or ends all of it, from its cgroup: `slurm:81234`, `service:ollama.service`,
            /// `user-service:comfy.service`.
            managed_by: Option<String>,
            /// What it is, as people know it: "Jupyter kernel sweep.ipynb", "Ollama runner", "Xorg".
            recognised_as: Option<String>,
            /// Why it should be left alone by default, by the kernel's name of it and its command line: "the display server".
            protected: Option<String>,
            /// The command line of the server it works for, where its own says nothing of that: an engine that
            /// overwrote its arguments, the child of a llama-server. For Ollama with the variable that says where it
            /// listens, where that is set and may be read: `OLLAMA_HOST=0.0.0.0 ollama serve`.
            server_command: Option<String>,
            /// Whether the PID is that process here; an unproved one is never signalled.
            proved: bool,
            /// The topmost of those it belongs together with: its launcher, its server, or itself where it is that.
            group: Option<ProcessKey>,
            /// Marks its address space; see [`Running`].
            image: Option<u32>,
        }
        readings {
            start_ticks: u64,
            /// Start on the wall clock.
            started_at: WallTime,
            /// Device memory it holds.
            used_bytes: Bytes,
            /// Its share of the device's compute time in the last sample period.
            sm_percent: u32,
            uid: u32,
            /// User name, or the number where it has none.
            user: String,
            /// Command line, arguments joined by spaces.
            command: String,
            parent_pid: u32,
            /// The session it belongs to: its leader's PID. Its own PID where it leads one, as a service does.
            session: u32,
            /// The one-letter state of /proc/PID/stat.
            state: char,
            /// utime + stime in clock ticks: two readings give the CPU share between them.
            cpu_ticks: u64,
        }
    }
}

impl GpuProcess {
    /// Names the process for good; `None` where its start is not known.
    pub fn key(&self) -> Option<ProcessKey> {
        self.start_ticks.value().map(|start_ticks| ProcessKey { pid: self.pid, start_ticks })
    }

    /// What it runs, to be told again later.
    pub fn running(&self) -> Running {
        Running { command: self.command.known().cloned().unwrap_or_default(), image: self.image }
    }

    fn clean(&mut self) {
        self.user = take(&mut self.user).map(clean);
        self.command = take(&mut self.command).map(clean);
        self.container = self.container.take().map(clean);
        self.managed_by = self.managed_by.take().map(clean);
        self.recognised_as = self.recognised_as.take().map(clean);
        self.protected = self.protected.take().map(clean);
        self.server_command = self.server_command.take().map(clean);
        if self.state.value().is_some_and(is_harmful) {
            self.state = Reading::NotAvailable;
        }
    }
}

impl Snapshot {
    /// The same with every foreign name harmless to print. Done once, where a snapshot enters the program.
    #[must_use]
    pub fn harmless(mut self) -> Snapshot {
        self.host.name = clean(self.host.name);
        self.driver = match self.driver {
            Driver::Unavailable { unavailable } => Driver::Unavailable { unavailable: clean(unavailable) },
            Driver::Available { version, cuda_version } => {
                Driver::Available { version: clean(version), cuda_version: cuda_version.map(clean) }
            }
        };
        for device in &mut self.devices {
            device.name = take(&mut device.name).map(clean);
            device.uuid = take(&mut device.uuid).map(clean);
            device.bus_id = take(&mut device.bus_id).map(clean);
            device.error = device.error.take().map(clean);
            device.processes.iter_mut().for_each(GpuProcess::clean);
        }
        self.launchers.iter_mut().for_each(GpuProcess::clean);
        self.seen_from = self.seen_from.into_iter().map(|vantage| Vantage::from(clean(vantage.into()))).collect();
        for holder in &mut self.holders {
            holder.process.clean();
            holder.devices = std::mem::take(&mut holder.devices).into_iter().map(clean).collect();
        }
        self
    }

    /// The process with this identity and the device it is listed on first.
    pub fn find(&self, key: ProcessKey) -> Option<(&Device, &GpuProcess)> {
        self.devices.iter().find_map(|device| {
            device.processes.iter().find(|process| process.key() == Some(key)).map(|process| (device, process))
        })
    }

    /// What this process holds over all devices; unknown where any of its rows is.
    pub fn held_by(&self, key: ProcessKey) -> Option<Bytes> {
        let rows = self.devices.iter().flat_map(|device| &device.processes).filter(|row| row.key() == Some(key));
        let mut sum = None;
        for row in rows {
            sum = Some(sum.unwrap_or(Bytes::ZERO).plus(row.used_bytes.value()?));
        }
        sum
    }
}
