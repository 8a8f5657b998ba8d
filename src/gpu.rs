//! Owns what is known of a machine's GPUs at one moment: `Snapshot`, `Device`, `GpuProcess`, and `Reading`, which
//! keeps "unknown" apart from 0. The shapes are those of the sample stream (JSON, one snapshot a line).
//! Knows nothing of the driver library, of /proc or of the screen.

pub mod accounts;
pub(crate) mod activity;
pub mod anonymous;
pub(crate) mod failed_run;
pub mod glance;
pub mod guard;
pub mod history;
mod kin;
mod reading;
pub mod recognise;
pub mod running;
mod shared;
pub mod sight;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod usage;
pub mod windows;
mod wire;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::text::{harmless, is_harmful};
use crate::units::{Bytes, WallTime};
pub use kin::{Holder, Vantage};
pub use reading::Reading;
use running::Running;
pub use shared::Shared;
pub(crate) use shared::are_same;
use windows::WindowsReading;
use wire::readings;

/// The processes of one GPU, in the order of the reading.
pub type Rows = Shared<GpuProcess>;

/// The version of the stream and of the JSON reports. Readers refuse a higher one by name.
pub const SCHEMA: u32 = 1;

/// Makes a foreign name harmless in place: nearly all are, and each reading has hundreds.
fn clean(text: &mut String) {
    if let Cow::Owned(cleaned) = harmless(text) {
        *text = cleaned;
    }
}

/// Does so to a process that other readings may share: only one that has harmful names is copied.
fn clean_shared(row: &mut Arc<GpuProcess>) {
    if !row.is_clean() {
        Arc::make_mut(row).clean();
    }
}

/// Names a process until the next boot: a PID alone is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProcessKey {
    /// The PID as this machine's /proc has it.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat: when it started, in clock ticks after boot.
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
    /// The version of this format.
    pub schema: u32,
    /// The program and its version: `oomdoctor 0.1.0`.
    pub program: String,
    /// /proc/sys/kernel/random/boot_id: PIDs with start ticks are comparable within one boot. Null where it is unknown.
    pub boot_id: Option<String>,
}

impl Header {
    /// Of this program, on the boot of this identity.
    pub(crate) fn of_boot(boot_id: Option<String>) -> Header {
        Header { schema: SCHEMA, program: concat!("oomdoctor ", env!("CARGO_PKG_VERSION")).into(), boot_id }
    }
}

/// A machine's GPUs and their processes at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// When the reading was complete.
    pub taken_at: WallTime,
    /// The machine and its system memory.
    pub host: Host,
    /// The driver, or why there is none.
    pub driver: Driver,
    /// The GPUs in the driver's (PCI) order.
    pub devices: Vec<Device>,
    /// Processes that have the driver's device files open but are not listed by the driver, as far as can be seen.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// Processes without VRAM that started a listed one, such as torchrun. See `group`.
    #[serde(default)]
    pub launchers: Vec<GpuProcess>,
    /// The number of processes whose open files could not be read: any of them may be missing from
    /// `holders`. 0 for root.
    #[serde(default)]
    pub unseen_processes: u32,
    /// What narrows the view from where this was read, such as a container; empty on a plain machine.
    #[serde(default)]
    pub seen_from: Vec<Vantage>,
    /// Windows' own processes with GPU memory, under WSL2; absent unless they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowsReading>,
}

readings! {
    /// The machine and its system memory.
    pub struct Host {
        plain {
            /// The host name.
            name: String,
        }
        readings {
            memory_total_bytes: Bytes,
            /// What a program could get without swapping: MemAvailable of /proc/meminfo.
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
    Unavailable {
        /// Why no driver answers, and what would help, in one sentence.
        unavailable: String,
    },
    Available {
        /// Such as 570.124.06; empty where the driver does not say.
        version: String,
        /// The newest CUDA version that it supports, such as 12.8; null where that is unknown.
        cuda_version: Option<String>,
    },
}

readings! {
    /// A device's memory. `used + free + reserved = total` where the driver keeps them apart (NVML v2).
    pub struct DeviceMemory {
        plain {}
        readings {
            total_bytes: Bytes,
            /// Reserved by the driver and firmware, in bytes. With NVML v1 it is part of `used_bytes` and unknown.
            reserved_bytes: Bytes,
            /// In use, in bytes, without `reserved_bytes` where that is known.
            used_bytes: Bytes,
            free_bytes: Bytes,
        }
    }
}

readings! {
    /// A GPU, or a MIG instance of one.
    pub struct Device {
        plain {
            /// The driver's index (not CUDA's).
            index: u32,
            /// Why this GPU could not be read (such as "GPU is lost: …"); null where it could.
            error: Option<String>,
            memory: DeviceMemory,
            /// Whether a process has no known `used_bytes`, so that `unaccounted_bytes` may be its own.
            unaccounted_includes_unknown_rows: bool,
            /// Processes with VRAM on this GPU, each PID once.
            processes: Rows,
            /// What makes it something other than a whole GPU with its own memory; null where nothing does.
            nature: Option<Nature>,
        }
        readings {
            /// The name that CUDA_VISIBLE_DEVICES takes: `GPU-…`.
            uuid: String,
            /// PCI address, such as 00000000:01:00.0.
            bus_id: String,
            /// The product name, such as NVIDIA GeForce RTX 4090.
            name: String,
            /// VRAM in use by no listed process, in bytes: used minus the known `used_bytes`, at least 0.
            unaccounted_bytes: Bytes,
            /// The share of the last sample period in which a kernel ran, in percent.
            utilization_percent: u32,
            temperature_celsius: u32,
            /// The power draw in whole watts.
            power_watts: u32,
        }
        added {
            /// Who made it; absent: NVIDIA. The figures of the others were not tried on hardware yet.
            vendor: Vendor,
            /// The kernel's driver of a GPU that is not NVIDIA's: amdgpu, i915 or xe.
            kernel_driver: Option<String>,
            /// Its number among the vendor's GPUs: what HIP_VISIBLE_DEVICES takes, or ZE_AFFINITY_MASK with
            /// ZE_ENABLE_PCI_ID_DEVICE_ORDER=1. Absent where it is unknown, and for NVIDIA's.
            ordinal: Option<u32>,
            /// It sleeps and was not woken to be read.
            asleep: bool,
            /// The system memory that it may use beside its own (GTT), in bytes; absent where it has none or that is unknown.
            shared_total_bytes: Option<Bytes>,
            /// How much of that is in use, in bytes.
            shared_used_bytes: Option<Bytes>,
        }
    }
}

/// Who made a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Vendor {
    #[default]
    Nvidia,
    Amd,
    Intel,
    /// A word of a later version of the format.
    #[serde(other)]
    Unknown,
}

/// Something other than a whole GPU with its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Nature {
    /// A GPU split into MIG instances, which have the memory.
    Split,
    /// A MIG instance.
    MigInstance,
    /// A virtual machine's share of a GPU (vGPU).
    VirtualShare,
    /// Its memory is the system memory (GB10, Jetson, Intel's integrated GPUs), and so are the figures.
    SharedMemory,
    /// A GPU without memory of its own (an AMD APU): the total is how much of the system memory it may use.
    Integrated,
    /// A word of a later version of the format.
    #[serde(other)]
    Unknown,
}

/// The list of the driver that a process is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ProcessKind {
    /// Only the compute list.
    Compute,
    /// Only the graphics list.
    Graphics,
    /// Both lists, with the same memory in each; it is counted once.
    Both,
    /// A client of MPS, the multi-process service.
    Mps,
    /// None of them: a process of `holders` or `launchers`.
    #[default]
    Unlisted,
}

readings! {
    /// A process with VRAM on a GPU.
    pub struct GpuProcess {
        plain {
            /// The PID as the driver gave it. It is one of this machine's only where `proved` is true.
            pid: u32,
            kind: ProcessKind,
            /// The container's id or name from its cgroup; null without one.
            container: Option<String>,
            /// The supervisor that would start it again, from its cgroup: `slurm:81234`, `service:ollama.service`,
            /// `user-service:comfy.service`; null without one.
            managed_by: Option<String>,
            /// What people call it, such as "Jupyter kernel sweep.ipynb" or "Xorg"; null where it is not recognized.
            recognised_as: Option<String>,
            /// Why it is refused as a target by default, such as "the display server"; null where it is not.
            protected: Option<String>,
            /// The command line of its server, where its own does not have one: an engine that overwrote its arguments,
            /// or a child of llama-server. For Ollama it begins with the variable of the address, where that can be
            /// read: `OLLAMA_HOST=0.0.0.0 ollama serve`.
            server_command: Option<String>,
            /// Whether the PID is certain to be this process on this machine; otherwise it is never signaled.
            proved: bool,
            /// The topmost process of its group: its launcher, its server or itself; null where it belongs to no group.
            group: Option<ProcessKey>,
            /// A number from the address of its stack, which changes when it runs another program; null
            /// where it is unknown.
            image: Option<u32>,
        }
        readings {
            /// Field 22 of /proc/PID/stat: when it started, in clock ticks after boot.
            start_ticks: u64,
            /// When it started, by the wall clock.
            started_at: WallTime,
            /// The VRAM that it uses on this GPU, in bytes.
            used_bytes: Bytes,
            /// Its share of the GPU's compute time in the last sample period, in percent.
            sm_percent: u32,
            /// The number of the user.
            uid: u32,
            /// The user's name, or the number where it has none.
            user: String,
            /// The command line with its arguments joined by spaces.
            command: String,
            /// The PID of the process that started it.
            parent_pid: u32,
            /// The PID of the leader of its session. A service leads its own.
            session: u32,
            /// The one-letter state of /proc/PID/stat.
            state: char,
            /// CPU time in clock ticks (utime + stime): two readings give the CPU use between them.
            cpu_ticks: u64,
        }
        added {
            /// The system memory that it uses through this GPU (GTT), in bytes, where that is not `used_bytes`; never added
            /// to it.
            shared_bytes: Option<Bytes>,
            /// What should be in VRAM but is in system memory because VRAM was full, in bytes. Slow, but no failure.
            spilled_bytes: Option<Bytes>,
            /// The PIDs of other processes with the same memory open. It is counted in this row alone and is free once all of
            /// them have exited.
            shared_with: Vec<u32>,
        }
    }
}

/// The most memory that is free on one of these GPUs, with the GPU's index: the lowest one where several have as much. A GPU
/// whose free memory is unknown does not count.
pub(crate) fn most_free<'a>(devices: impl IntoIterator<Item = &'a Device>) -> Option<(Bytes, u32)> {
    let known = devices.into_iter().filter_map(|device| Some((device.memory.free_bytes.value()?, device.index)));
    known.max_by_key(|(free, index)| (*free, Reverse(*index)))
}

impl Device {
    /// False for a GPU that uses the system memory.
    pub(crate) fn has_own_memory(&self) -> bool {
        !matches!(self.nature, Some(Nature::SharedMemory | Nature::Integrated))
    }

    /// Its number as the library counts it that programs reach it with. NVIDIA's come first in every reading, so that the
    /// driver's number is theirs.
    pub(crate) fn number(&self) -> Option<u32> {
        if self.vendor == Vendor::Nvidia { Some(self.index) } else { self.ordinal }
    }
}

impl GpuProcess {
    /// Names a process whose PID is certain; `None` for every other one: see `proved`.
    pub(crate) fn proved_key(&self) -> Option<ProcessKey> {
        if self.proved { self.key() } else { None }
    }

    /// Names the process for good; `None` where its start is not known.
    pub fn key(&self) -> Option<ProcessKey> {
        self.start_ticks.value().map(|start_ticks| ProcessKey { pid: self.pid, start_ticks })
    }

    /// What it runs, to be told again later.
    pub fn running(&self) -> Running {
        Running {
            command: self.command.known().cloned().unwrap_or_default(),
            image: self.image,
            user: self.uid.value(),
        }
    }

    fn is_clean(&self) -> bool {
        let names = [&self.user, &self.command].into_iter().filter_map(Reading::known);
        let optional = [&self.container, &self.managed_by, &self.recognised_as, &self.protected, &self.server_command];
        let mut texts = names.chain(optional.into_iter().flatten());
        texts.all(|text| matches!(harmless(text), Cow::Borrowed(_))) && !self.state.value().is_some_and(is_harmful)
    }

    fn clean(&mut self) {
        [&mut self.user, &mut self.command].into_iter().filter_map(Reading::known_mut).for_each(clean);
        let optional = [&mut self.container, &mut self.managed_by, &mut self.recognised_as, &mut self.protected];
        optional.into_iter().chain([&mut self.server_command]).flatten().for_each(clean);
        if self.state.value().is_some_and(is_harmful) {
            self.state = Reading::NotAvailable;
        }
    }
}

impl Snapshot {
    /// The same with every foreign name harmless to print. Done once, where a snapshot enters the program.
    #[must_use]
    pub fn harmless(mut self) -> Snapshot {
        clean(&mut self.host.name);
        match &mut self.driver {
            Driver::Unavailable { unavailable } => clean(unavailable),
            Driver::Available { version, cuda_version } => {
                clean(version);
                cuda_version.iter_mut().for_each(clean);
            }
        }
        for device in &mut self.devices {
            let names = [&mut device.name, &mut device.uuid, &mut device.bus_id];
            names.into_iter().filter_map(Reading::known_mut).chain(&mut device.error).for_each(clean);
            device.processes.shared_mut().iter_mut().for_each(clean_shared);
        }
        self.launchers.iter_mut().for_each(GpuProcess::clean);
        for vantage in &mut self.seen_from {
            *vantage = harmless(&vantage.to_string()).into_owned().into();
        }
        self.windows.iter_mut().for_each(WindowsReading::clean);
        for holder in &mut self.holders {
            holder.process.clean();
            holder.devices.iter_mut().for_each(clean);
        }
        self
    }

    /// Why there is no GPU to show. NVIDIA's driver may be missing on a machine with other GPUs, which is no reason.
    pub fn unavailable(&self) -> Option<&str> {
        match &self.driver {
            Driver::Unavailable { unavailable } if self.devices.is_empty() => Some(unavailable),
            Driver::Unavailable { .. } | Driver::Available { .. } => None,
        }
    }

    /// Each process on each GPU that lists it.
    pub(crate) fn on_gpus(&self) -> impl Iterator<Item = (&Device, &GpuProcess)> {
        self.devices.iter().flat_map(|device| device.processes.iter().map(move |process| (device, process)))
    }

    /// The process with this identity and the device it is listed on first.
    pub fn find(&self, key: ProcessKey) -> Option<(&Device, &GpuProcess)> {
        self.devices.iter().find_map(|device| {
            device.processes.iter().find(|process| process.key() == Some(key)).map(|process| (device, process))
        })
    }

    /// The PCI addresses of the GPUs that list this process, where none of them is NVIDIA's: their kernel drivers list it
    /// for what it has open. Empty where NVIDIA's driver lists it, by whose PID it was proved, or no GPU does. A GPU without
    /// an address has an empty one, which no process has open: its processes are not signaled.
    pub fn cards_to_prove(&self, key: ProcessKey) -> Vec<String> {
        let on: Vec<&Device> =
            self.on_gpus().filter(|(_, row)| row.key() == Some(key)).map(|(device, _)| device).collect();
        if on.iter().any(|device| device.vendor == Vendor::Nvidia) {
            return Vec::new();
        }
        on.iter().map(|device| device.bus_id.known().cloned().unwrap_or_default()).collect()
    }

    /// The devices whose memory counts as this process's: those with their own, where it is on any such.
    pub(crate) fn held_on(&self, key: ProcessKey) -> Vec<(&Device, &GpuProcess)> {
        let on = self.on_gpus().filter(|(_, row)| row.key() == Some(key));
        let (own, of_system): (Vec<_>, Vec<_>) = on.partition(|(device, _)| device.has_own_memory());
        if own.is_empty() { of_system } else { own }
    }

    /// What this process holds over all devices; unknown where any of its rows is. System memory that it uses through an
    /// integrated GPU is not added to the VRAM of others: it counts only where the process has no VRAM.
    pub fn held_by(&self, key: ProcessKey) -> Option<Bytes> {
        let mut sum = None;
        for (_, row) in self.held_on(key) {
            sum = Some(sum.unwrap_or(Bytes::ZERO).plus(row.used_bytes.value()?));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{device, process, snapshot};
    use super::*;

    #[test]
    fn names_of_processes_are_made_harmless_and_only_those_rows_are_copied() {
        let evil = "\u{1b}]0;evil\u{7}";
        let spoiled: [fn(&mut GpuProcess, String); 7] = [
            |row, evil| row.command = Reading::Known(evil),
            |row, evil| row.user = Reading::Known(evil),
            |row, evil| row.container = Some(evil),
            |row, evil| row.managed_by = Some(evil),
            |row, evil| row.recognised_as = Some(evil),
            |row, evil| row.protected = Some(evil),
            |row, evil| row.server_command = Some(evil),
        ];
        for spoil in spoiled {
            let mut row = process(8, Bytes::gib(1));
            spoil(&mut row, evil.to_owned());
            let read = Snapshot { devices: vec![device(0, vec![process(7, Bytes::gib(1)), row])], ..snapshot(0) };
            let shown = read.clone().harmless();
            assert!(!format!("{:?}", shown.devices).contains("\\u{1b}"), "{shown:?}");
            let (before, after) = (read.devices[0].processes.shared(), shown.devices[0].processes.shared());
            assert!(Arc::ptr_eq(&before[0], &after[0]) && !Arc::ptr_eq(&before[1], &after[1]));
        }
        let mut row = process(8, Bytes::gib(1));
        row.state = Reading::Known('\u{202e}');
        let shown = Snapshot { devices: vec![device(0, vec![row])], ..snapshot(0) }.harmless();
        assert_eq!(shown.devices[0].processes[0].state, Reading::NotAvailable);
    }
}
