//! Owns one GPU as the driver tells it: what never changes, what is read at each refresh, and the last reading of
//! what changes slowly.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper::enum_wrappers::device::{GpuVirtualizationMode, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as NvmlDevice, Nvml};
use nvml_wrapper_sys::bindings::{NVML_DEVICE_MIG_ENABLE, nvmlDevice_t};

use super::errors::{device_trouble, figure, missing, percent};
use super::raw::{self, Asked, List, ListVersion, Percents, Samples};
use crate::gpu::accounts::{Row, merge, row_figure};
use crate::gpu::{Device, DeviceMemory, Nature, ProcessKind, Reading};
use crate::platform::linux::probe::rows::RowBuffer;
use crate::platform::linux::probe::source::{DeviceReading, Moment};
use crate::platform::linux::probe::trouble::DeviceTrouble;
use crate::units::Bytes;

/// Samples older than this say nothing about now, in µs.
const SAMPLES_SINCE: u64 = 5_000_000;
/// No card is split into more.
const MOST_INSTANCES: u32 = 64;

pub(super) struct Card {
    /// What never changes, and what is read every 5 s and shown until then.
    device: Device,
    handle: Result<nvmlDevice_t, DeviceTrouble>,
    minor: Option<u32>,
    /// Then its processes are listed there, and here would count twice.
    has_instances: bool,
    memory_is_v1: bool,
    versions: [ListVersion; 3],
    rows: RowBuffer,
    samples: Samples,
    /// Read every 5 s, as the clients of MPS.
    sm_percent: Reading<Percents>,
    mps: Vec<Row>,
    /// Whether the driver counts each process's peak, once it was asked.
    accounting: Option<bool>,
}

impl Card {
    /// Reads what never changes. Where there is no handle the rest is left for later.
    pub(super) fn discover(nvml: &Nvml, index: u32) -> Card {
        let device = nvml.device_by_index(index).map_err(|error| whole_device(&error));
        let nature = device.as_ref().ok().and_then(nature);
        Card::of(device, index, nature)
    }

    /// The instances of a card that is split (MIG). They are counted on after the whole cards, from `next` on.
    pub(super) fn instances(&mut self, nvml: &Nvml, next: u32) -> Vec<Card> {
        let Ok(handle) = self.handle.clone() else { return Vec::new() };
        if !self.is_split() {
            return Vec::new();
        }
        let parent = Asked { nvml, handle }.device();
        let most = parent.mig_device_count().unwrap_or(0).min(MOST_INSTANCES);
        // Numbers without an instance are gaps.
        let there = (0..most).filter_map(|at| parent.mig_device_by_index(at).ok());
        let mut instances = Vec::new();
        for (device, index) in there.zip(next..) {
            let instance = Card::of(Ok(device), index, Some(Nature::MigInstance));
            // An instance is used through the whole card's device file.
            instances.push(Card { minor: self.minor, ..instance });
        }
        self.has_instances = !instances.is_empty();
        instances
    }

    /// Whether it is no card of its own.
    pub(super) fn is_instance(&self) -> bool {
        self.device.nature == Some(Nature::MigInstance)
    }

    /// Whether it is split.
    pub(super) fn is_split(&self) -> bool {
        self.device.nature == Some(Nature::Split)
    }

    fn of(device: Result<NvmlDevice, DeviceTrouble>, index: u32, nature: Option<Nature>) -> Card {
        let unread = Device {
            index,
            nature,
            uuid: text(&device, |device| device.uuid()),
            bus_id: text(&device, |device| device.pci_info().map(|pci| pci.bus_id)),
            name: text(&device, |device| device.name()),
            ..Device::default()
        };
        Card {
            device: unread,
            minor: device.as_ref().ok().and_then(|device| device.minor_number().ok()),
            handle: device.map(|device| raw::handle(&device)),
            has_instances: false,
            memory_is_v1: false,
            versions: [ListVersion::default(); 3],
            rows: RowBuffer::default(),
            samples: Samples::default(),
            sm_percent: Reading::NotAvailable,
            mps: Vec::new(),
            accounting: None,
        }
    }

    /// Whether there is nothing left to discover: what failed once may go well another time.
    pub(super) fn is_discovered(&self) -> bool {
        let Device { uuid, bus_id, name, .. } = &self.device;
        self.handle.is_ok() && [uuid, bus_id, name].iter().all(|text| text.known().is_some())
    }

    pub(super) fn discover_again(&mut self, nvml: &Nvml) {
        let again = Card::discover(nvml, self.device.index);
        match self.handle {
            Ok(_) => {
                let Device { uuid, bus_id, name, .. } = again.device;
                (self.device.uuid, self.device.bus_id, self.device.name) = (uuid, bus_id, name);
            }
            // What an instance has, its card knows; both are discovered anew then.
            Err(_) if self.is_instance() => {}
            Err(_) => *self = again,
        }
    }

    /// What is due now. The trouble is that of the whole device, and its sentence is in the reading as well.
    pub(super) fn read(&mut self, nvml: &Nvml, moment: Moment, slow: bool) -> (Option<DeviceTrouble>, DeviceReading) {
        let result = match self.handle.clone() {
            Ok(handle) => self.try_read(Asked { nvml, handle }, moment, slow),
            Err(trouble) => Err(trouble),
        };
        match result {
            Ok(reading) => (None, reading),
            Err(trouble) => {
                let reading = self.unread(&trouble);
                (Some(trouble), reading)
            }
        }
    }

    /// The VRAM in use now, with the GPU's index.
    pub(super) fn glance(&mut self, nvml: &Nvml) -> Option<(u32, Bytes)> {
        let handle = self.handle.clone().ok()?;
        let used = self.memory(Asked { nvml, handle }).ok()?.used_bytes.value()?;
        Some((self.device.index, used))
    }

    /// The most that each of these processes used here, where the driver counts it. Whether it does is asked once.
    pub(super) fn peaks(&mut self, nvml: &Nvml, processes: &BTreeSet<(u32, u32)>) -> Vec<(u32, u32, Bytes)> {
        let Ok(handle) = self.handle.clone() else { return Vec::new() };
        let device = Asked { nvml, handle }.device();
        let is_accounting = *self.accounting.get_or_insert_with(|| device.is_accounting_enabled().unwrap_or(false));
        if !is_accounting {
            return Vec::new();
        }
        let own = processes.iter().filter(|(gpu, _)| *gpu == self.device.index);
        let peaks = own.filter_map(|(gpu, pid)| {
            let most = device.accounting_stats_for(*pid).ok()?.max_memory_usage?;
            Some((*gpu, *pid, Bytes(most)))
        });
        peaks.collect()
    }

    fn try_read(&mut self, asked: Asked<'_>, moment: Moment, slow: bool) -> Result<DeviceReading, DeviceTrouble> {
        let memory = match self.memory(asked) {
            // Of a card that is split only root may see all; its instances are everybody's.
            Err(DeviceTrouble::NoPermission) if self.is_split() => DeviceMemory::unread(&Reading::Denied),
            memory => memory?,
        };
        let total = memory.total_bytes.value();
        let (compute, graphics) = match self.has_instances {
            true => (Reading::Unsupported, Reading::Unsupported),
            false => (self.list(asked, List::Compute, total)?, self.list(asked, List::Graphics, total)?),
        };
        let utilization = figure(asked.device().utilization_rates().map(|rates| rates.gpu))?;
        if slow {
            self.read_slow(asked, total, moment)?;
        }
        let none = Vec::new();
        Ok(DeviceReading {
            device: Device { memory, utilization_percent: percent(utilization), ..self.device.clone() },
            minor: self.minor,
            rows: merge(compute.known().unwrap_or(&none), graphics.known().unwrap_or(&none), &self.mps),
            listed: compute.map(|_| ()),
            sm_percent: self.sm_percent.clone(),
            known: BTreeMap::new(),
        })
    }

    fn read_slow(&mut self, asked: Asked<'_>, total: Option<Bytes>, moment: Moment) -> Result<(), DeviceTrouble> {
        let (device, earliest) = (asked.device(), moment.epoch_micros.saturating_sub(SAMPLES_SINCE));
        self.device.temperature_celsius = figure(device.temperature(TemperatureSensor::Gpu))?;
        // The driver gives milliwatts.
        let milliwatts = figure(device.power_usage())?;
        self.device.power_watts = milliwatts.map(|milliwatts| milliwatts.saturating_add(500) / 1000);
        self.sm_percent = figure(self.samples.read(asked, earliest))?;
        self.mps = self.list(asked, List::Mps, total)?.known().cloned().unwrap_or_default();
        Ok(())
    }

    /// Version 2 keeps the driver's reserve apart; drivers before R510 and some boards (GB10) have only version 1.
    fn memory(&mut self, asked: Asked<'_>) -> Result<DeviceMemory, DeviceTrouble> {
        if !self.memory_is_v1 {
            match asked.device().memory_info() {
                Ok(info) => {
                    return Ok(with_capacity(DeviceMemory {
                        total_bytes: Reading::Known(Bytes(info.total)),
                        reserved_bytes: Reading::Known(Bytes(info.reserved)),
                        used_bytes: Reading::Known(Bytes(info.used)),
                        free_bytes: Reading::Known(Bytes(info.free)),
                    }));
                }
                Err(error) if raw::is_too_new(&error) => self.memory_is_v1 = true,
                Err(error) => return Err(whole_device(&error)),
            }
        }
        match raw::memory_v1(asked) {
            Ok(memory) => Ok(with_capacity(memory)),
            Err(error) if raw::is_too_new(&error) => Ok(DeviceMemory::unread(&Reading::Unsupported)),
            Err(error) => Err(whole_device(&error)),
        }
    }

    fn list(&mut self, asked: Asked<'_>, list: List, total: Option<Bytes>) -> Result<Reading<Vec<Row>>, DeviceTrouble> {
        let [compute, graphics, mps] = &mut self.versions;
        let (version, kind) = match list {
            List::Compute => (compute, ProcessKind::Compute),
            List::Graphics => (graphics, ProcessKind::Graphics),
            List::Mps => (mps, ProcessKind::Mps),
        };
        let rows = figure(raw::list(asked, list, version, &mut self.rows))?;
        Ok(rows.map(|rows| {
            let rows = rows.into_iter();
            rows.map(|row| Row { pid: row.pid, kind, used_bytes: row_figure(row.used, total) }).collect()
        }))
    }

    /// The reading of a GPU that can't be read: its names alone. What was read before says nothing any more.
    fn unread(&mut self, trouble: &DeviceTrouble) -> DeviceReading {
        (self.device.temperature_celsius, self.device.power_watts) = (Reading::NotAvailable, Reading::NotAvailable);
        (self.sm_percent, self.mps) = (Reading::NotAvailable, Vec::new());
        DeviceReading {
            device: Device { error: Some(trouble.to_string()), ..self.device.clone() },
            minor: self.minor,
            rows: Vec::new(),
            listed: Reading::NotAvailable,
            sm_percent: Reading::NotAvailable,
            known: BTreeMap::new(),
        }
    }
}

fn text(
    device: &Result<NvmlDevice, DeviceTrouble>,
    read: impl FnOnce(&NvmlDevice) -> Result<String, NvmlError>,
) -> Reading<String> {
    match device {
        Ok(device) => read(device).map_or_else(|error| missing(&error), Reading::Known),
        Err(_) => Reading::NotAvailable,
    }
}

/// Whether it is split or itself a part. A driver that does not know the question has whole cards.
fn nature(device: &NvmlDevice) -> Option<Nature> {
    if device.mig_mode().is_ok_and(|mode| mode.current == NVML_DEVICE_MIG_ENABLE) {
        return Some(Nature::Split);
    }
    let mode = device.virtualization_mode();
    matches!(mode, Ok(GpuVirtualizationMode::Vgpu)).then_some(Nature::VirtualShare)
}

/// A device whose memory or handle can't be had can't be read at all.
fn whole_device(error: &NvmlError) -> DeviceTrouble {
    match (device_trouble(error), error) {
        (Some(trouble), _) => trouble,
        (None, NvmlError::NoPermission) => DeviceTrouble::NoPermission,
        (None, error) => DeviceTrouble::Other(error.to_string()),
    }
}

/// Boards that share the machine's memory may give 0 for everything, which is no capacity and no figure; and no part of
/// the memory is more than all of it.
fn with_capacity(memory: DeviceMemory) -> DeviceMemory {
    let Some(total) = memory.total_bytes.value().filter(|total| *total != Bytes::ZERO) else {
        return DeviceMemory::default();
    };
    DeviceMemory {
        total_bytes: memory.total_bytes,
        reserved_bytes: within(total, memory.reserved_bytes),
        used_bytes: within(total, memory.used_bytes),
        free_bytes: within(total, memory.free_bytes),
    }
}

fn within(total: Bytes, part: Reading<Bytes>) -> Reading<Bytes> {
    match part {
        Reading::Known(bytes) => row_figure(bytes.0, Some(total)),
        unknown => unknown,
    }
}
