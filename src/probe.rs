//! Owns the sampler: the driver's readings joined with /proc into a `Snapshot`, and the stream of them (the contract's
//! `oomdoctor sample`). Runs in a process of its own, since a driver call may hang for ever.
//! Knows nothing of the screen, of logs or of what the readings are for.

mod holders;
pub mod host;
mod nvml;
pub(crate) mod pace;
mod people;
mod rows;
mod trouble;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::gpu::accounts::unaccounted;
use crate::gpu::{Device, GpuProcess, Header, ProcessKind, Reading, SCHEMA, Snapshot};
use crate::procfs::Procfs;
use crate::units::{Bytes, WallTime};
use holders::Holders;
pub use nvml::Moment;
use nvml::{DeviceReading, NvmlDriver};
use people::People;

/// How to sample.
#[derive(Clone, Debug)]
pub struct Options {
    /// The driver's library; `None` looks for the system's.
    pub nvml_library: Option<PathBuf>,
    /// Where processes are read.
    pub procfs: Procfs,
    /// From one reading to the next.
    pub interval: Duration,
}

/// Writes the stream: a header line, then a snapshot a line, each flushed, until `count` are written or the reader of
/// `out` has gone, which is no error. Errors are those of writing.
pub fn run(options: &Options, out: &mut (impl Write + AsFd), count: Option<u64>) -> io::Result<()> {
    match stream(options, out, count) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn stream(options: &Options, out: &mut (impl Write + AsFd), count: Option<u64>) -> io::Result<()> {
    let mut sampler = Sampler::new(options.nvml_library.clone(), options.procfs.clone());
    if count.is_none() {
        sampler.holders.not_at_first(Instant::now());
    }
    write_line(out, &sampler.header())?;
    let mut written = 0;
    let mut due = Instant::now();
    while count.is_none_or(|count| written < count) {
        if pace::wait_until(due, &*out) == pace::Woken::ReaderGone {
            break;
        }
        write_line(out, &sampler.snapshot_at(Moment::now()))?;
        written += 1;
        // Readings that took longer than the interval are not made up for.
        due = (due + options.interval).max(Instant::now());
    }
    Ok(())
}

fn write_line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// The driver, /proc, and what is remembered from one reading to the next.
pub struct Sampler {
    driver: NvmlDriver,
    procfs: Procfs,
    people: People,
    holders: Holders,
}

impl Sampler {
    /// `nvml_library`: a library in place of the system's. The driver is opened by the first reading.
    pub fn new(nvml_library: Option<PathBuf>, procfs: Procfs) -> Sampler {
        Sampler {
            driver: NvmlDriver::new(nvml_library),
            people: People::new(procfs.clone()),
            holders: Holders::default(),
            procfs,
        }
    }

    /// The stream's first line.
    pub fn header(&self) -> Header {
        Header {
            schema: SCHEMA,
            program: concat!("oomdoctor ", env!("CARGO_PKG_VERSION")).into(),
            boot_id: self.procfs.boot_id(),
        }
    }

    /// Reads what is due at this moment; the moments must not go back. Hangs where the driver hangs.
    pub fn snapshot_at(&mut self, moment: Moment) -> Snapshot {
        let began = Instant::now();
        let reading = self.driver.refresh(moment, || self.procfs.nvidia_module_version());
        log::debug!("driver read in {:?}", began.elapsed());
        let devices: Vec<Device> = reading.devices.into_iter().map(|device| join(&mut self.people, device)).collect();
        let proved = devices.iter().flat_map(|device| &device.processes).filter(|process| process.proved);
        let listed: BTreeSet<u32> = proved.map(|process| process.pid).collect();
        let holders = self.holders.refresh(&self.procfs, &self.people, &listed, moment.now);
        self.people.end_refresh();
        Snapshot {
            host: host::host(&self.procfs),
            driver: reading.driver,
            devices,
            holders,
            taken_at: WallTime(jiff::Timestamp::now()),
        }
    }
}

/// A device of the stream: the driver's reading with who its processes are.
fn join(people: &mut People, reading: DeviceReading) -> Device {
    let local = people.in_initial_namespace();
    let mut processes = Vec::with_capacity(reading.rows.len());
    for row in &reading.rows {
        let person = people.look(row.pid);
        // The MPS list is up to 5 s old; a client that has ended since holds nothing.
        if row.kind == ProcessKind::Mps && local && person.is_gone() {
            continue;
        }
        let sm_percent = match &reading.sm_percent {
            Reading::Known(by_pid) => by_pid.get(&row.pid).cloned().unwrap_or(Reading::Known(0)),
            unknown => unknown.clone().map(|_| 0),
        };
        processes.push(person.on_device(row, sm_percent));
    }
    let (unaccounted_bytes, unknown_rows) = unaccounted(&reading.memory.used_bytes, &processes);
    let unaccounted_bytes = match reading.listed {
        Reading::Known(()) => unaccounted_bytes,
        // Where the driver gives no list, what is used is not unexplained: the explanation may not be seen.
        unseen => unseen.map(|()| Bytes::ZERO),
    };
    Device {
        index: reading.index,
        error: reading.error,
        memory: reading.memory,
        unaccounted_includes_unknown_rows: unknown_rows,
        uuid: reading.uuid,
        bus_id: reading.bus_id,
        name: reading.name,
        unaccounted_bytes,
        utilization_percent: reading.utilization_percent,
        temperature_celsius: reading.temperature_celsius,
        power_watts: reading.power_watts,
        processes: by_size(processes),
    }
}

/// The largest first; those without a figure last.
fn by_size(mut processes: Vec<GpuProcess>) -> Vec<GpuProcess> {
    processes.sort_by_key(|process| (std::cmp::Reverse(process.used_bytes.value()), process.pid));
    processes
}
