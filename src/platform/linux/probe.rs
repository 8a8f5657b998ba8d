//! Owns the sampler: the driver's readings joined with /proc into a `Snapshot`, and the stream of them (the contract's
//! `oomdoctor sample`). Runs in a process of its own, since a driver call may hang for ever.
//! Knows nothing of the screen, of logs or of what the readings are for.

mod ahead;
pub mod drm;
mod holders;
mod kin;
mod memo;
mod nvml;
mod pace;
mod people;
mod rest;
mod rows;
mod source;
mod trouble;
mod vantage;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gpu::accounts::unaccounted;
use crate::gpu::glance::{Glance, Peaks};
use crate::gpu::sight;
use crate::gpu::{
    Device, Driver, GpuProcess, Header, Holder, Host, Nature, ProcessKind, Reading, Rows, Snapshot, Vantage, Vendor,
};
use crate::platform::contract::write_line;
use crate::platform::host::HostMemory;
use crate::platform::linux::brief::Writer;
use crate::platform::linux::order::Order;
use crate::platform::linux::procfs::Procfs;
use crate::platform::linux::procfs::power::Power;
use crate::platform::linux::windows::Watch;
use crate::platform::unix::memory::return_what_the_start_took;
use crate::units::{Bytes, WallTime};
use drm::Drm;
use holders::Holders;
use kin::Families;
use nvml::NvmlDriver;
use people::{People, is_gone, on_device};
use rest::{Rest, Resting, Sleepers};
pub use source::Moment;
use source::{DeviceReading, Known, Source, Whose};
use trouble::Trouble;

/// Writes the stream: a header line, then a snapshot a line, each flushed, until `count` are written or the reader of
/// `out` has gone, which is no error. Errors are those of writing. `paces`: who reads says there, in lines of seconds,
/// how far apart readings should be from then on.
pub(crate) fn run(order: &Order, out: &mut (impl Write + AsFd), mut paces: Option<impl Read + AsFd>) -> io::Result<()> {
    let (sampling, count) = (&order.sampling, order.count);
    let mut writer = Writer::new(order.is_paced);
    let mut sampler = Sampler::new(sampling.nvml_library.clone(), sampling.procfs());
    if count.is_none() {
        sampler.holders.not_at_first(Instant::now());
    }
    let mut is_read = write_line(out, &sampler.header())?;
    let mut written = 0;
    let (mut last, mut due, mut interval) = (Instant::now(), Instant::now(), sampling.interval);
    let mut glances = sampling.glance.map(Glances::every);
    let windows = if sampling.windows { Some(Watch::start()?) } else { None };
    while is_read && count.is_none_or(|count| written < count) {
        let glance_at = glances.as_ref().map(|glances| glances.due).filter(|at| *at < due);
        match pace::wait_until(glance_at.unwrap_or(due), &*out, paces.as_ref()) {
            pace::Woken::ReaderGone => break,
            pace::Woken::Ordered => {
                match paces.as_mut().map(pace::order) {
                    Some(Ok(ordered)) => interval = ordered.unwrap_or(interval),
                    _ => paces = None,
                }
                due = last + interval;
            }
            pace::Woken::Due if glance_at.is_some() => {
                let glance = glances.as_mut().and_then(|glances| glances.take(&mut sampler));
                is_read = glance.map_or(Ok(true), |glance| write_line(out, &glance))?;
            }
            pace::Woken::Due => {
                last = due;
                let windows = windows.as_ref().and_then(Watch::latest);
                let snapshot = Snapshot { windows, ..sampler.snapshot_at(Moment::now()) };
                let listed = glances.is_some().then(|| listed(&snapshot));
                is_read = writer.write(out, snapshot)?;
                let glances_and_listed = glances.as_mut().zip(listed);
                if let Some(peaks) =
                    glances_and_listed.and_then(|(glances, listed)| glances.peaks(&mut sampler, listed))
                {
                    is_read = write_line(out, &peaks)?;
                }
                written += 1;
                if written == LAST_OF_THE_START {
                    return_what_the_start_took();
                }
                let now = Instant::now();
                // A reading that took longer than the interval is not followed by extra ones. Beside a job that is
                // recorded, readings take at most a tenth of the driver's time.
                let rest = if glances.is_some() { now.duration_since(last) * 9 } else { Duration::ZERO };
                due = (due + interval).max(now + rest);
            }
        }
    }
    Ok(())
}

/// With this reading all has been done that readings do again and again.
const LAST_OF_THE_START: u64 = 4;

/// The time between two readings of the machine's own memory, whose 50 lines cost as much as a GPU.
const MEMORY_AGAIN: Duration = Duration::from_secs(5);

/// What a row is whose process has exited while the driver still counts its memory.
const EXITED: &str = "memory of an exited process";

/// Processes whose peak is asked for.
const MOST_ACCOUNTS: usize = 256;

/// The processes of a reading (GPU, PID), as many as are asked for.
fn listed(snapshot: &Snapshot) -> BTreeSet<(u32, u32)> {
    let rows = snapshot.on_gpus().map(|(device, row)| (device.index, row.pid));
    rows.take(MOST_ACCOUNTS).collect()
}

/// When the next glance is due.
struct Glances {
    every: Duration,
    due: Instant,
    /// The peak of each process that was ever listed, by GPU and PID; `None` until the driver tells it.
    peaks: BTreeMap<(u32, u32), Option<Bytes>>,
}

impl Glances {
    fn every(every: Duration) -> Glances {
        Glances { every, due: Instant::now() + every, peaks: BTreeMap::new() }
    }

    /// Takes a glance. A driver that answers slowly is asked less often, so that glances take at most a fiftieth of its
    /// time: it has one lock, for which the job's own calls wait.
    fn take(&mut self, sampler: &mut Sampler) -> Option<Glance> {
        let began = Instant::now();
        let mut used = sampler.driver.glance();
        let first = sampler.first_drm_index;
        used.extend(sampler.drm.glance().into_iter().map(|(index, used)| (first.saturating_add(index), used)));
        let now = Instant::now();
        self.due = (self.due + self.every).max(now + now.duration_since(began) * 49);
        let glanced_at = WallTime(jiff::Timestamp::now());
        (!used.is_empty()).then_some(Glance { glanced_at, used })
    }
}

impl Glances {
    /// The peaks that changed. Asked once more for a process that is not listed any more, then never again.
    fn peaks(&mut self, sampler: &mut Sampler, listed: BTreeSet<(u32, u32)>) -> Option<Peaks> {
        let asked: BTreeSet<(u32, u32)> = self.peaks.keys().chain(&listed).copied().collect();
        let told = sampler.driver.peaks(&asked);
        let changed: Vec<_> = told
            .into_iter()
            .filter(|(gpu, pid, peak)| self.peaks.get(&(*gpu, *pid)).copied().flatten() != Some(*peak))
            .collect();
        self.peaks.retain(|process, _| listed.contains(process));
        for process in listed {
            self.peaks.entry(process).or_default();
        }
        for (gpu, pid, peak) in &changed {
            self.peaks.entry((*gpu, *pid)).and_modify(|known| *known = Some(*peak));
        }
        (!changed.is_empty()).then_some(Peaks { peaks: changed })
    }
}

/// The driver, /proc, and what is remembered from one reading to the next.
pub struct Sampler {
    driver: NvmlDriver,
    drm: Drm,
    /// What the GPUs of AMD and Intel are counted from: those of NVIDIA come before them, also while they sleep.
    first_drm_index: u32,
    procfs: Procfs,
    machine: HostMemory,
    /// The machine's memory when it was read last.
    host: Option<(Instant, Host)>,
    /// A GPU has the machine's memory.
    is_memory_shared: bool,
    people: People,
    families: Families,
    holders: Holders,
    sleepers: Sleepers,
    resting: Resting,
    /// The last reading of GPUs that may sleep, shown while the driver is closed.
    last: Option<(Driver, Vec<Device>)>,
    used: bool,
    seen_from: Vec<Vantage>,
}

impl Sampler {
    /// `nvml_library`: a library in place of the system's. The driver is opened by the first reading.
    pub fn new(nvml_library: Option<PathBuf>, procfs: Procfs) -> Sampler {
        Sampler {
            driver: NvmlDriver::new(nvml_library),
            drm: Drm::default(),
            first_drm_index: 0,
            people: People::new(procfs.clone()),
            holders: Holders::default(),
            sleepers: Sleepers::default(),
            resting: Resting::default(),
            machine: HostMemory::new(procfs.host_name()),
            host: None,
            is_memory_shared: false,
            families: Families::default(),
            last: None,
            used: false,
            seen_from: vantage::here(&procfs, Path::new("/etc")),
            procfs,
        }
    }

    /// The stream's first line.
    pub fn header(&self) -> Header {
        Header::of_boot(self.procfs.boot_id())
    }

    /// Reads what is due at this moment; the moments must not go back. Hangs where the driver hangs.
    pub fn snapshot_at(&mut self, moment: Moment) -> Snapshot {
        let host = self.host(moment.now);
        let (driver, mut devices) = self.cards(moment, &host);
        devices.extend(self.drm_cards(moment, &host, &devices));
        self.is_memory_shared = devices.iter().any(|device| !device.has_own_memory());
        let driver = self.only_what_matters(driver);
        let proved = devices.iter().flat_map(|device| &device.processes).filter(|process| process.proved);
        let listed: BTreeSet<u32> = proved.map(|process| process.pid).collect();
        let nvidia = devices.iter().filter(|device| device.vendor == Vendor::Nvidia);
        let unexplained = nvidia.filter_map(|device| device.unaccounted_bytes.value());
        let unexplained = unexplained.fold(Bytes::ZERO, Bytes::plus);
        let mut holders = if self.may_have_holders() {
            self.holders.refresh(&self.procfs, &self.people, &listed, unexplained, moment.now)
        } else {
            Vec::new()
        };
        locate(&self.procfs, &devices, &mut holders);
        let launchers = self.group(&mut devices, &mut holders);
        self.people.keep_rows(&devices);
        self.used = rest::is_used(&devices, &holders);
        self.people.end_refresh();
        Snapshot {
            host,
            driver,
            devices,
            holders,
            launchers,
            unseen_processes: self.holders.unseen().max(self.drm.unseen()),
            seen_from: self.seen_from.clone(),
            windows: None,
            taken_at: WallTime(jiff::Timestamp::now()),
        }
    }
}

impl Sampler {
    /// The machine's memory now, where it is a GPU's; else as it was within the last seconds.
    fn host(&mut self, now: Instant) -> Host {
        match &self.host {
            Some((at, host)) if !self.is_memory_shared && now.duration_since(*at) < MEMORY_AGAIN => host.clone(),
            _ => {
                let host = self.machine.host();
                self.host = Some((now, host.clone()));
                host
            }
        }
    }

    /// The driver and its GPUs now, or the last reading while the driver is closed so that they can sleep.
    fn cards(&mut self, moment: Moment, host: &Host) -> (Driver, Vec<Device>) {
        let power = self.sleepers.power(&self.procfs, moment.now);
        match (self.resting.now(power, self.used, moment.now), &self.last) {
            (Rest::Asleep, _) => {
                self.driver.let_go();
                self.last = None;
                return (Driver::Unavailable { unavailable: Trouble::Asleep.to_string() }, Vec::new());
            }
            (Rest::LetGo, Some(last)) => {
                self.driver.let_go();
                return last.clone();
            }
            (Rest::LetGo, None) | (Rest::Read, _) => {}
        }
        let began = Instant::now();
        let reading = self.driver.refresh(moment, &self.procfs);
        log::debug!("driver read in {:?}", began.elapsed());
        let driver = reading.driver.unwrap_or_else(|| Driver::Unavailable { unavailable: String::new() });
        let mut readings = reading.devices;
        // Only in a PID namespace of our own is the number needed each time; a driver may not tell it.
        if !self.people.in_initial_namespace() && readings.iter().any(|reading| reading.minor.is_none()) {
            let numbers = self.procfs.card_numbers();
            for reading in readings.iter_mut().filter(|reading| reading.minor.is_none()) {
                reading.minor = reading.device.bus_id.known().and_then(|bus_id| number_at(&numbers, bus_id));
            }
        }
        self.people.read_ahead(readings.iter().flat_map(|reading| &reading.rows).map(|row| row.pid));
        let mut devices: Vec<Device> = readings.into_iter().map(|device| join(&mut self.people, device)).collect();
        for device in &mut devices {
            if let Some(memory) = sight::shared_memory(device, host) {
                // The used memory is that of all programs then, so none of it is unattributed.
                (device.nature, device.memory) = (Some(Nature::SharedMemory), memory);
                device.unaccounted_bytes = Reading::Unsupported;
            }
        }
        self.last = (power == Power::MaySleep).then(|| (driver.clone(), devices.clone()));
        (driver, devices)
    }

    /// The GPUs of AMD and Intel, numbered after NVIDIA's.
    fn drm_cards(&mut self, moment: Moment, host: &Host, nvidia: &[Device]) -> Vec<Device> {
        self.drm.available = host.memory_available_bytes.value();
        let readings = self.drm.refresh(moment, &self.procfs).devices;
        if readings.is_empty() {
            return Vec::new();
        }
        if self.first_drm_index == 0 {
            self.first_drm_index = u32::try_from(self.procfs.cards().len()).unwrap_or(0);
        }
        let after_last = nvidia.iter().map(|device| device.index.saturating_add(1)).max();
        self.first_drm_index = self.first_drm_index.max(after_last.unwrap_or(0));
        let mut devices: Vec<Device> = readings.into_iter().map(|reading| join(&mut self.people, reading)).collect();
        for device in &mut devices {
            device.index = device.index.saturating_add(self.first_drm_index);
            let is_integrated = device.vendor == Vendor::Intel && device.memory.used_bytes == Reading::Unsupported;
            if let Some(memory) = sight::shared_memory(device, host).filter(|_| is_integrated) {
                (device.nature, device.memory) = (Some(Nature::SharedMemory), memory);
                device.unaccounted_bytes = Reading::Unsupported;
            }
        }
        devices
    }

    /// False on a machine with other GPUs and none of NVIDIA's: then all open files were looked at once already.
    fn may_have_holders(&self) -> bool {
        !self.drm.has_cards() || self.first_drm_index > 0 || self.procfs.has_nvidia_files()
    }

    /// That NVIDIA's driver is missing matters to nobody on a machine with other GPUs and none of NVIDIA's.
    fn only_what_matters(&self, driver: Driver) -> Driver {
        match driver {
            Driver::Unavailable { .. } if self.drm.has_cards() && self.first_drm_index == 0 => {
                Driver::Unavailable { unavailable: String::new() }
            }
            driver => driver,
        }
    }

    /// Notes of everybody whose group they belong to; gives those above them that hold nothing themselves.
    fn group(&mut self, devices: &mut [Device], holders: &mut [Holder]) -> Vec<GpuProcess> {
        let rows = devices.iter().flat_map(|device| &device.processes).filter(|row| row.proved);
        // A process that only draws has no workers: the programs in a terminal do not work for the terminal.
        let mut users: BTreeMap<u32, bool> = rows.map(|row| (row.pid, row.kind != ProcessKind::Graphics)).collect();
        users.extend(holders.iter().map(|holder| (holder.process.pid, true)));
        let memo = self.people.memo();
        let groups = self.families.groups(&memo, &mut |pid, before| self.people.running(pid, before), &users);
        for device in devices.iter_mut() {
            for row in device.processes.shared_mut().iter_mut().filter(|row| row.proved) {
                let group = groups.leaders.get(&row.pid).copied();
                if row.group != group {
                    Arc::make_mut(row).group = group;
                }
            }
        }
        for holder in holders.iter_mut() {
            holder.process.group = groups.leaders.get(&holder.process.pid).copied();
        }
        let mut launchers = Vec::new();
        for stat in &groups.launchers {
            let open = self.procfs.open_driver_files(stat.pid);
            launchers.push(GpuProcess {
                used_bytes: open.map_or_else(Reading::from, |_| Reading::Known(Bytes::ZERO)),
                group: groups.leaders.get(&stat.pid).copied(),
                ..self.people.described(stat)
            });
        }
        launchers
    }
}

/// Says which GPUs a process has open: /dev/nvidia1 is the kernel's number 1, which need not be the driver's.
fn locate(procfs: &Procfs, devices: &[Device], holders: &mut [Holder]) {
    if holders.is_empty() {
        return;
    }
    let numbers = procfs.card_numbers();
    for holder in holders {
        holder.gpus = holder.devices.iter().filter_map(|path| index_of(path, &numbers, devices)).collect();
    }
}

/// The driver's index of the GPU whose device file this is.
fn index_of(path: &str, numbers: &[(String, u32)], devices: &[Device]) -> Option<u32> {
    let number: u32 = path.rsplit("/nvidia").next()?.parse().ok()?;
    let mut devices = devices.iter();
    let device = devices.find(|device| device.bus_id.known().and_then(|id| number_at(numbers, id)) == Some(number))?;
    Some(device.index)
}

/// A device of the stream: the driver's reading with who its processes are.
fn join(people: &mut People, reading: DeviceReading) -> Device {
    let local = people.in_initial_namespace();
    let mut processes = Vec::with_capacity(reading.rows.len());
    for row in &reading.rows {
        let known = reading.known.get(&row.pid);
        let person = match known {
            Some(known) => people.seen(row.pid, known.whose),
            None => people.look(row.pid, reading.minor),
        };
        // The MPS list is up to 5 s old; a client that has exited since uses nothing.
        if row.kind == ProcessKind::Mps && local && is_gone(&person) {
            continue;
        }
        let sm_percent = match &reading.sm_percent {
            Reading::Known(by_pid) => by_pid.get(&row.pid).cloned().unwrap_or(Reading::Known(0)),
            unknown => unknown.clone().map(|_| 0),
        };
        processes.push(match known {
            Some(known) => Arc::new(with_known(on_device(&person, row, sm_percent), known)),
            None => people.row(reading.device.index, &person, row, sm_percent),
        });
    }
    let processes = by_size(processes);
    let (unaccounted_bytes, unknown_rows) = unaccounted(&reading.device.memory.used_bytes, &processes);
    let unaccounted_bytes = match reading.listed {
        Reading::Known(()) => unaccounted_bytes,
        // Where the driver gives no list, what is used is not unexplained: the explanation may not be seen.
        unseen => unseen.map(|()| Bytes::ZERO),
    };
    Device { unaccounted_includes_unknown_rows: unknown_rows, unaccounted_bytes, processes, ..reading.device }
}

/// The row with what the kernel's files say of it.
fn with_known(process: GpuProcess, known: &Known) -> GpuProcess {
    let has_exited = known.whose == Whose::Exited;
    GpuProcess {
        recognised_as: if has_exited { Some(EXITED.to_owned()) } else { process.recognised_as.clone() },
        shared_bytes: known.shared_bytes,
        spilled_bytes: known.spilled_bytes,
        shared_with: known.shared_with.clone(),
        ..process
    }
}

/// The number of the GPU at this PCI address.
fn number_at(numbers: &[(String, u32)], bus_id: &str) -> Option<u32> {
    let bus_id = bus_id.to_lowercase();
    numbers.iter().find(|(known, _)| bus_id.ends_with(known)).map(|(_, number)| *number)
}

/// The largest first; those without a figure last.
fn by_size(mut processes: Vec<Arc<GpuProcess>>) -> Rows {
    processes.sort_by_key(|process| (std::cmp::Reverse(process.used_bytes.value()), process.pid));
    processes.into_iter().collect()
}
