//! The scenario: its format, reloading when it changes, which processes are alive, faults and the list of calls.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    pub driver: String,
    /// 12080 means 12.8.
    pub cuda: i32,
    /// Size of a row in the `_v3` lists: 16, 24 or 32.
    pub row_bytes: usize,
    /// How many GPUs the driver reports, where that is wrong.
    pub count: Option<u32>,
    pub gpus: Vec<Gpu>,
    pub processes: Vec<Process>,
    pub faults: Vec<Fault>,
}

impl Default for Scenario {
    fn default() -> Self {
        let (gpus, processes, faults) = (Vec::new(), Vec::new(), Vec::new());
        Scenario { driver: "570.124.06".into(), cuda: 12080, row_bytes: 24, count: None, gpus, processes, faults }
    }
}

/// A GPU. Sizes in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gpu {
    /// U+FFFD stands for a byte that is not UTF-8.
    pub name: String,
    pub total: u64,
    /// The driver's reserve.
    pub reserved: u64,
    /// Unattributed: in use by no listed process.
    pub base: u64,
    /// The free VRAM that the driver reports, where that is wrong.
    pub free: Option<u64>,
    pub sm: u32,
    pub temperature: u32,
    pub milliwatts: u32,
    /// Split into MIG instances: the GPUs that name it; they stand after all whole ones.
    pub split: bool,
    pub instance_of: Option<usize>,
    /// A vGPU.
    pub shared: bool,
    /// The number of its device file. It is 0 by default, because the tests' processes have that file open.
    pub minor: u32,
}

impl Default for Gpu {
    fn default() -> Self {
        let name = "Fake GPU".into();
        let (total, reserved, base, free) = (24 << 30, 0, 0, None);
        let (split, instance_of, shared) = (false, None, false);
        Gpu {
            name,
            total,
            reserved,
            base,
            free,
            sm: 0,
            temperature: 40,
            milliwatts: 60_000,
            split,
            instance_of,
            shared,
            minor: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ListName {
    Compute,
    Graphics,
    Mps,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    pub gpu: usize,
    pub pid: u32,
    /// `None`: the driver reports "not available".
    pub bytes: Option<u64>,
    /// Its real VRAM where the driver reports no figure.
    pub hidden: u64,
    pub lists: Vec<ListName>,
    pub sm: u32,
    /// When its sample was taken, if not just now.
    pub stamp: Option<u64>,
    /// Stays listed although no such process exists here: another PID namespace's, or a stale context.
    pub ghost: bool,
    /// How long after its exit its VRAM is freed, in ms.
    pub linger_ms: u64,
    /// The most that it ever used, where the driver's accounting is on; told also after its exit.
    pub peak: Option<u64>,
}

impl Default for Process {
    fn default() -> Self {
        let lists = vec![ListName::Compute];
        Process {
            gpu: 0,
            pid: 0,
            bytes: None,
            hidden: 0,
            lists,
            sm: 0,
            stamp: None,
            ghost: false,
            linger_ms: 0,
            peak: None,
        }
    }
}

/// A fault of the driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Function names; `*` stands for anything.
    pub call: String,
    pub code: Code,
    /// A return code as a number, instead of `code`.
    pub number: u32,
    /// On this GPU only.
    pub gpu: Option<usize>,
    /// After this many successful calls.
    pub after: u64,
    /// At most this many times.
    pub times: u64,
    /// Answers after this many ms.
    pub hang_ms: u64,
    /// Never answers.
    pub hang: bool,
    /// A list claims this many rows more than the caller has room for.
    pub grow: usize,
    /// Printed on the standard output of the process that loaded the driver; U+FFFD stands for a byte that is not
    /// UTF-8.
    pub says: String,
    /// Printed on its standard error.
    pub warns: String,
    /// How many times it is printed.
    pub repeated: usize,
    /// Forks a process that keeps all files open and does nothing.
    pub forks: bool,
    /// Aborts the process that loaded the driver.
    pub aborts: bool,
}

impl Default for Fault {
    fn default() -> Self {
        let (call, code) = ("*".into(), Code::Success);
        let (number, says, warns, forks, aborts) = (0, String::new(), String::new(), false, false);
        let (after, times, hang_ms, hang, grow) = (0, u64::MAX, 0, false, 0);
        Fault {
            call,
            code,
            number,
            gpu: None,
            after,
            times,
            hang_ms,
            hang,
            grow,
            says,
            warns,
            repeated: 1,
            forks,
            aborts,
        }
    }
}

/// The return codes of nvml.h that are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Code {
    Success = 0,
    Uninitialized = 1,
    InvalidArgument = 2,
    NotSupported = 3,
    NoPermission = 4,
    NotFound = 6,
    InsufficientSize = 7,
    DriverNotLoaded = 9,
    Timeout = 10,
    LibraryNotFound = 12,
    FunctionNotFound = 13,
    GpuIsLost = 15,
    ResetRequired = 16,
    OperatingSystem = 17,
    LibRmVersionMismatch = 18,
    ArgumentVersionMismatch = 25,
    Unknown = 999,
}

/// What a call sees: the scenario and which of its processes are alive.
pub struct Entered {
    pub scenario: Arc<Scenario>,
    pub initialised: bool,
    /// See [`Fault::grow`].
    pub grow: usize,
    alive: Vec<bool>,
}

impl Entered {
    /// The GPU; a default one if there is none (the caller has checked).
    pub fn gpu(&self, index: usize) -> Gpu {
        self.scenario.gpus.get(index).cloned().unwrap_or_default()
    }

    /// The MIG instances of a GPU.
    pub fn instances(&self, gpu: usize) -> Vec<usize> {
        let gpus = self.scenario.gpus.iter().enumerate();
        gpus.filter(|(_, other)| other.instance_of == Some(gpu)).map(|(index, _)| index).collect()
    }

    /// The processes that use its VRAM.
    pub fn living(&self, gpu: usize) -> Vec<&Process> {
        let rows = self.scenario.processes.iter().zip(&self.alive);
        rows.filter(|(process, alive)| **alive && process.gpu == gpu).map(|(process, _)| process).collect()
    }

    /// Bytes in use without the driver's reserve. The same PID in several entries is several allocations.
    pub fn used(&self, gpu: usize) -> u64 {
        let held = self.living(gpu).into_iter().map(|process| process.bytes.unwrap_or(process.hidden));
        held.fold(self.gpu(gpu).base, u64::saturating_add)
    }
}

/// The combined effect of a call's faults.
#[derive(Default)]
struct Played {
    code: u32,
    hang: Option<Duration>,
    grow: usize,
    said: Vec<u8>,
    warned: Vec<u8>,
    forks: bool,
    aborts: bool,
}

/// The process that a fault forks: it waits for a minute, unless it is killed.
fn fork() {
    // SAFETY: the child only sets a timer and waits, which may be done between fork and exec.
    unsafe {
        if libc::fork() == 0 {
            libc::alarm(60);
            libc::pause();
            libc::_exit(0);
        }
    }
}

#[derive(Default)]
struct State {
    /// Device, inode, length and times of the file as read.
    stamp: Option<(u64, u64, u64, i64, i64)>,
    scenario: Arc<Scenario>,
    faults_seen: Vec<u64>,
    initialised: u32,
    /// The start time of each PID when first seen, and when it was first seen to have exited.
    seen: HashMap<u32, (Option<u64>, Option<Instant>)>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with_state<T>(act: impl FnOnce(&mut State) -> T) -> T {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    act(state.get_or_insert_default())
}

/// Counts an initialisation or a shutdown.
pub fn initialise(up: bool) -> Code {
    with_state(|state| {
        state.initialised = if up { state.initialised + 1 } else { state.initialised.saturating_sub(1) };
    });
    Code::Success
}

/// Every call starts here: record it, reload a changed scenario, play the faults.
pub fn enter(name: &'static str, gpu: Option<usize>) -> Result<Entered, u32> {
    note(name);
    let (entered, code, hang) = with_state(|state| {
        if !state.reload() {
            return (None, Code::DriverNotLoaded as u32, None);
        }
        let played = state.faults(name, gpu);
        if !played.said.is_empty() {
            let _ = std::io::stdout().write_all(&played.said);
            let _ = std::io::stdout().flush();
        }
        let _ = std::io::stderr().write_all(&played.warned);
        if played.forks {
            fork();
        }
        if played.aborts {
            std::process::abort();
        }
        (Some(state.entered(played.grow)), played.code, played.hang)
    });
    match hang {
        Some(Duration::MAX) => loop {
            std::thread::park();
        },
        // Sleeps to take that long, not to wait for anything.
        Some(time) => std::thread::sleep(time),
        None => {}
    }
    match (entered, code) {
        (Some(entered), 0) => Ok(entered),
        (_, code) => Err(code),
    }
}

impl State {
    fn reload(&mut self) -> bool {
        let Some(path) = beside("FAKE_NVML_SCENARIO", "scenario.ron") else { return false };
        let Ok(meta) = fs::metadata(&path) else { return false };
        let stamp = (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if self.stamp == Some(stamp) {
            return true;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        match ron::from_str::<Scenario>(&text) {
            Ok(scenario) => {
                self.faults_seen = vec![0; scenario.faults.len()];
                self.scenario = Arc::new(scenario);
                self.stamp = Some(stamp);
                true
            }
            Err(error) => {
                eprintln!("fake_nvml: {}: {error}", path.display());
                false
            }
        }
    }

    fn faults(&mut self, name: &str, gpu: Option<usize>) -> Played {
        let mut result = Played::default();
        for (fault, seen) in self.scenario.faults.iter().zip(&mut self.faults_seen) {
            if !matches(&fault.call, name) || (fault.gpu.is_some() && fault.gpu != gpu) {
                continue;
            }
            *seen += 1;
            if *seen <= fault.after || *seen - fault.after > fault.times {
                continue;
            }
            if fault.hang || fault.hang_ms > 0 {
                result.hang = Some(if fault.hang { Duration::MAX } else { Duration::from_millis(fault.hang_ms) });
            }
            let code = if fault.number > 0 { fault.number } else { fault.code as u32 };
            result.code = if result.code == 0 { code } else { result.code };
            result.grow = fault.grow.max(result.grow);
            result.said.extend(bytes_of(&fault.says).repeat(fault.repeated));
            result.warned.extend(bytes_of(&fault.warns).repeat(fault.repeated));
            result.forks |= fault.forks;
            result.aborts |= fault.aborts;
        }
        result
    }

    fn entered(&mut self, grow: usize) -> Entered {
        let scenario = Arc::clone(&self.scenario);
        let alive = scenario.processes.iter().map(|process| self.is_alive(process)).collect();
        Entered { scenario, initialised: self.initialised > 0, grow, alive }
    }

    /// Whether the process that first had this PID still uses its VRAM.
    fn is_alive(&mut self, process: &Process) -> bool {
        if process.ghost {
            return true;
        }
        let now = started(process.pid);
        let (first, ended) = self.seen.entry(process.pid).or_insert((now, None));
        if first.is_some() && *first == now {
            return true;
        }
        if first.is_none() {
            return false;
        }
        ended.get_or_insert_with(Instant::now).elapsed() < Duration::from_millis(process.linger_ms)
    }
}

/// Start ticks of a PID; `None` if it is gone or a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let lives = !matches!(fields.first(), Some(&"Z" | &"X"));
    fields.get(19).and_then(|start| start.parse().ok()).filter(|_| lives)
}

/// A text in the driver's encoding.
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            char::REPLACEMENT_CHARACTER => bytes.push(0xFF),
            letter => bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

/// Whether a name matches a pattern with `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|tail| (0..=tail.len()).any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))),
    }
}

fn note(name: &str) {
    let named = std::env::var_os("FAKE_NVML_CALLS").is_some();
    let Some(path) = beside("FAKE_NVML_CALLS", "calls") else { return };
    if let Ok(mut file) = fs::OpenOptions::new().append(true).create(named).open(path) {
        // One write per line, so that a killed process leaves whole lines.
        let _ = file.write_all(format!("{name}\n").as_bytes());
    }
}

/// The file that a variable names, else one beside this library.
fn beside(variable: &str, file: &str) -> Option<PathBuf> {
    static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = || OWN.get_or_init(own_path).as_ref()?.parent();
    std::env::var_os(variable).map(PathBuf::from).or_else(|| Some(folder()?.join(file)))
}

/// Where this library was loaded from: the mapping of this function.
fn own_path() -> Option<PathBuf> {
    let here = own_path as *const () as usize;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let inside = usize::from_str_radix(start, 16).ok()? <= here && here < usize::from_str_radix(end, 16).ok()?;
        let path = rest.find('/').and_then(|at| rest.get(at..))?;
        inside.then(|| Path::new(path).to_owned())
    })
}
