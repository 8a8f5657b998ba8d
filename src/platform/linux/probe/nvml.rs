//! Owns talking to NVIDIA's driver: opening the library and opening it again, which call is made how often, and what
//! the answers mean as readings. Only this file and those below it name nvml_wrapper; `raw` has the calls it lacks.
//! A PID here is a number the driver gave.
//! Calls for each GPU: memory, two process lists and utilisation at each refresh; temperature, power, process utilisation
//! and the MPS list every 5 s; names once. A refresh takes 5 calls a GPU on average at one refresh a second.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use card::Card;
use errors::trouble;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::source::{DeviceReading, Moment, Source, SourceReading};
use super::trouble::{DeviceTrouble, Trouble};
use crate::gpu::Driver;
use crate::platform::linux::procfs::Procfs;
use crate::platform::regular;
use crate::units::Bytes;

mod card;
mod errors;
mod raw;

/// Where the library is looked for: the driver's own name first, the developer's link (which may be a stub) after it; then
/// where WSL2 and NixOS have it, which the loader does not search.
const LIBRARY_NAMES: [&str; 4] = [
    "libnvidia-ml.so.1",
    "libnvidia-ml.so",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
];
/// The time between two tries to open the driver, and between readings of what changes slowly.
const SLOW: Duration = Duration::from_secs(5);
/// The time between two counts of the GPUs.
const COUNT_AGAIN: Duration = Duration::from_secs(30);
/// No machine has more GPUs. A driver that reports more is wrong, and discovering them all would fill the memory.
const MOST_GPUS: u32 = 256;
/// The wait before the driver is opened again because no GPU can be read: opening wakes GPUs and is slow on broken ones.
const REOPEN_ILL: Duration = Duration::from_secs(30);

/// The driver, opened when it can be and again when it must be.
pub(super) struct NvmlDriver {
    named: Option<PathBuf>,
    state: State,
}

enum State {
    Closed { trouble: Option<Trouble>, retry_at: Option<Instant> },
    Open(Box<Open>),
}

struct Open {
    cards: Vec<Card>,
    driver: Driver,
    opened_at: Instant,
    counting: Cadence,
    slow: Cadence,
    reopen_at: Option<Instant>,
    nvml: Library,
}

/// The library; closed with it. nvml-wrapper's own drop panics where nvmlShutdown is missing, so it is then left open.
struct Library(Option<Nvml>);

impl Drop for Library {
    fn drop(&mut self) {
        match self.0.take() {
            Some(nvml) if nvml.lib().nvmlShutdown.is_err() => std::mem::forget(nvml),
            nvml => drop(nvml),
        }
    }
}

impl NvmlDriver {
    /// `named`: a library to load in place of the system's. Nothing is loaded before the first refresh.
    pub(super) fn new(named: Option<PathBuf>) -> NvmlDriver {
        NvmlDriver { named, state: State::Closed { trouble: None, retry_at: None } }
    }

    /// The peaks of these processes (GPU, PID), where the driver's accounting is on.
    pub(super) fn peaks(&mut self, processes: &BTreeSet<(u32, u32)>) -> Vec<(u32, u32, Bytes)> {
        let State::Open(open) = &mut self.state else { return Vec::new() };
        let Some(nvml) = &open.nvml.0 else { return Vec::new() };
        let mut peaks = Vec::new();
        for card in &mut open.cards {
            peaks.extend(card.peaks(nvml, processes));
        }
        peaks
    }

    fn open_if_due(&mut self, now: Instant, module: impl FnOnce() -> Option<String>) {
        let due = match &self.state {
            State::Closed { retry_at, .. } => retry_at.is_none_or(|at| now >= at),
            State::Open(open) => open.reopen_at.is_some_and(|at| now >= at),
        };
        if !due {
            return;
        }
        // The old library is shut down before the new one is opened: it may be the same file.
        self.state = State::Closed { trouble: None, retry_at: None };
        self.state = match open_library(self.named.as_deref()).and_then(|nvml| Open::new(nvml, now)) {
            Ok(open) => {
                log::info!("driver opened: {:?}", open.driver);
                State::Open(Box::new(open))
            }
            Err(Trouble::VersionMismatch(_)) => {
                State::Closed { trouble: Some(Trouble::VersionMismatch(module())), retry_at: Some(now + SLOW) }
            }
            Err(trouble) => {
                log::info!("driver not opened: {}", trouble);
                State::Closed { trouble: Some(trouble), retry_at: Some(now + SLOW) }
            }
        };
    }
}

impl Source for NvmlDriver {
    fn refresh(&mut self, moment: Moment, procfs: &Procfs) -> SourceReading {
        self.open_if_due(moment.now, || procfs.nvidia_module_version());
        match &mut self.state {
            State::Open(open) => SourceReading { devices: open.refresh(moment), driver: Some(open.driver.clone()) },
            State::Closed { trouble, .. } => {
                let unavailable = trouble.as_ref().map(Trouble::to_string).unwrap_or_default();
                SourceReading { driver: Some(Driver::Unavailable { unavailable }), devices: Vec::new() }
            }
        }
    }

    /// Nothing while the driver is closed.
    fn glance(&mut self) -> Vec<(u32, Bytes)> {
        let State::Open(open) = &mut self.state else { return Vec::new() };
        let Some(nvml) = &open.nvml.0 else { return Vec::new() };
        open.cards.iter_mut().filter_map(|card| card.glance(nvml)).collect()
    }

    /// Closes the library.
    fn let_go(&mut self) {
        if matches!(self.state, State::Open(_)) {
            log::info!("driver unloaded");
            self.state = State::Closed { trouble: None, retry_at: None };
        }
    }
}

impl Open {
    fn new(nvml: Library, now: Instant) -> Result<Open, Trouble> {
        let lib = nvml.0.as_ref().ok_or(Trouble::NoLibrary)?;
        let count = count(lib).map_err(trouble)?;
        let driver = described(lib);
        Ok(Open {
            cards: discover(lib, count),
            driver,
            opened_at: now,
            counting: Cadence { every: COUNT_AGAIN, refreshes: 4, last: Some(now), since: 0 },
            slow: Cadence { every: SLOW, refreshes: 3, last: None, since: 0 },
            reopen_at: None,
            nvml,
        })
    }

    fn refresh(&mut self, moment: Moment) -> Vec<DeviceReading> {
        let Some(nvml) = &self.nvml.0 else { return Vec::new() };
        if self.counting.is_due(moment.now) {
            count_again(nvml, &mut self.cards);
            // What it did not say of itself then it may say now.
            if matches!(&self.driver, Driver::Available { version, cuda_version } if version.is_empty() || cuda_version.is_none())
            {
                self.driver = described(nvml);
            }
        }
        let slow = self.slow.is_due(moment.now);
        let readings = self.cards.iter_mut().map(|card| card.read(nvml, moment, slow));
        let (troubles, devices): (Vec<_>, Vec<_>) = readings.unzip();
        self.reopen_at = reopen_after(&troubles).map(|wait| self.opened_at + wait);
        devices
    }
}

/// What is not done at every refresh: after some time, and after some refreshes where those are further apart, so
/// that the calls a refresh stay bounded at any interval.
struct Cadence {
    every: Duration,
    refreshes: u32,
    last: Option<Instant>,
    since: u32,
}

impl Cadence {
    /// Called once a refresh.
    fn is_due(&mut self, now: Instant) -> bool {
        self.since = self.since.saturating_add(1);
        let due = self.last.is_none_or(|at| now.duration_since(at) >= self.every && self.since >= self.refreshes);
        if due {
            (self.last, self.since) = (Some(now), 0);
        }
        due
    }
}

/// The driver as it describes itself, as far as it does.
fn described(nvml: &Nvml) -> Driver {
    let cuda = nvml.sys_cuda_driver_version().ok();
    Driver::Available {
        version: nvml.sys_driver_version().unwrap_or_default(),
        cuda_version: cuda.map(|v| format!("{}.{}", cuda_driver_version_major(v), cuda_driver_version_minor(v))),
    }
}

/// How many GPUs there are, as far as that can be true.
fn count(nvml: &Nvml) -> Result<u32, NvmlError> {
    Ok(nvml.device_count()?.min(MOST_GPUS))
}

/// Each card, with its instances after it where it is split.
fn discover(nvml: &Nvml, count: u32) -> Vec<Card> {
    let mut next = count;
    let mut cards = Vec::new();
    for index in 0..count {
        let mut card = Card::discover(nvml, index);
        let instances = card.instances(nvml, next);
        next = next.saturating_add(u32::try_from(instances.len()).unwrap_or(u32::MAX));
        cards.push(card);
        cards.extend(instances);
    }
    cards
}

/// Cards come and go (hot plug, a GPU handed to a container); one without a handle or a name may have one now.
fn count_again(nvml: &Nvml, cards: &mut Vec<Card>) {
    let whole = cards.iter().filter(|card| !card.is_instance()).count();
    match count(nvml) {
        // An administrator may split a card anew at any time.
        Ok(count) if usize::try_from(count) != Ok(whole) || cards.iter().any(Card::is_split) => {
            *cards = discover(nvml, count);
        }
        _ => cards.iter_mut().filter(|card| !card.is_discovered()).for_each(|card| card.discover_again(nvml)),
    }
}

/// Refuses what the loader could wait for. A bare name is looked up by the loader, and what is missing is for it to say.
fn check_is_file(path: &Path) -> Result<(), Trouble> {
    let is_path = path.as_os_str().as_encoded_bytes().contains(&b'/');
    match std::fs::metadata(path) {
        Ok(there) if is_path => {
            regular::check(&there).map_err(|error| Trouble::NotAFile(path.to_owned(), error.to_string()))
        }
        _ => Ok(()),
    }
}

/// How long after opening to open again, where no GPU at all can be read.
fn reopen_after(troubles: &[Option<DeviceTrouble>]) -> Option<Duration> {
    if troubles.is_empty() || troubles.iter().any(Option::is_none) {
        return None;
    }
    let reloaded = troubles.iter().any(|trouble| matches!(trouble, Some(DeviceTrouble::Reloaded(_))));
    Some(if reloaded { SLOW } else { REOPEN_ILL })
}

fn open_library(named: Option<&Path>) -> Result<Library, Trouble> {
    if let Some(path) = named {
        check_is_file(path)?;
    }
    let names: Vec<&Path> = named.map_or_else(|| LIBRARY_NAMES.iter().map(Path::new).collect(), |path| vec![path]);
    let mut refused = String::new();
    for name in names {
        match Nvml::builder().lib_path(name.as_os_str()).init() {
            Ok(nvml) => return Ok(Library(Some(nvml))),
            Err(NvmlError::LibloadingError(error)) => refused = error.to_string(),
            Err(NvmlError::FailedToLoadSymbol(_)) => return Err(Trouble::NotTheDriver(name.to_owned())),
            Err(error) => return Err(trouble(error)),
        }
    }
    Err(Trouble::cannot_load(named, &refused))
}
