//! Owns how a scenario is written down (a log, a machine, the expected advice: `tests/scenarios/*.ron`; one log on several
//! machines: `tests/scenarios/machines/*.ron`) and how the advice on it is computed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use oomdoctor::advice::{Advice, Situation, Taken, advise};
use oomdoctor::allocations::told::Filled;
use oomdoctor::gpu::guard::Viewer;
use oomdoctor::gpu::history::History;
use oomdoctor::gpu::*;
use oomdoctor::knowledge::diagnosis::Diagnosis;
use oomdoctor::knowledge::fix::Fix;
use oomdoctor::knowledge::{FixId, KnowledgeBase};
use oomdoctor::log::PastedLog;
use oomdoctor::units::{Bytes, WallTime};
use oomdoctor::{allocations, knowledge};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The user who runs oomdoctor in a scenario that does not say otherwise.
const USER: u32 = 1000;
/// Another user of the same machine.
const OTHER_USER: u32 = 1001;
/// A service account.
const SERVICE: u32 = 990;
/// The shell in which oomdoctor runs.
const SHELL: u32 = 900;

/// One file of `tests/scenarios`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What this scenario shows, for the reader of the file.
    #[allow(dead_code, reason = "for the reader of the file")]
    why: String,
    /// The cause that a hasty reader would name, where another one leads: this scenario is a near miss of it.
    #[serde(default)]
    pub looks_like: Option<String>,
    /// The log; a scenario of `Machines` has theirs.
    #[serde(default)]
    pub log: String,
    /// A memory snapshot in `tests/scenarios/snapshots`; without a log, it alone is diagnosed.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Those of the run's other ranks.
    #[serde(default)]
    other_ranks: Vec<String>,
    /// The GPUs at the last reading; with none, only the log is read.
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Why no driver shows the machine's GPUs; then the machine is read without them.
    #[serde(default)]
    no_driver: Option<String>,
    /// For how many seconds the machine was watched. A single reading (0) cannot show that a process is idle.
    #[serde(default = "usual_watch")]
    watched: i64,
    /// MiB of system RAM: total and available.
    #[serde(default = "usual_ram")]
    ram: (u64, u64),
    /// The failed command line, as the user typed it into oomdoctor.
    #[serde(default)]
    command: Option<String>,
    /// The model, as the user named it.
    #[serde(default)]
    model: Option<String>,
    /// What the steps taken so far mean for the next ones.
    #[serde(default)]
    taken: StepsTaken,
    /// The GPUs at an earlier reading, whose advice is the input of this one; empty where this reading is the first.
    #[serde(default)]
    earlier: Vec<Gpu>,
    /// Who runs oomdoctor.
    #[serde(default)]
    viewer: Looker,
    /// From where the machine is seen, as the JSON has it: "container", "slurm:81234".
    #[serde(default)]
    seen_from: Vec<String>,
    pub expect: Expected,
}

/// One file of `tests/scenarios/machines`: a log, and the machines on which it is read, each by its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machines {
    log: String,
    machines: BTreeMap<String, Scenario>,
}

/// `oomdoctor::advice::Taken`, as a scenario writes it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StepsTaken {
    changed: bool,
    enough: bool,
    freed: bool,
}

/// `oomdoctor::gpu::guard::Viewer`, as a scenario writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Looker {
    uid: u32,
    /// oomdoctor's own PID and those it runs in.
    lineage: Vec<u32>,
    /// Programs that the configuration protects.
    spared: Vec<String>,
    /// The user who became root with sudo.
    sudo_uid: Option<u32>,
    /// Inside a Kubernetes pod, without `--allow-kill`.
    in_pod: bool,
}

impl Default for Looker {
    fn default() -> Looker {
        Looker { uid: USER, lineage: vec![SHELL], spared: Vec::new(), sudo_uid: None, in_pod: false }
    }
}

fn usual_ram() -> (u64, u64) {
    (64 << 10, 40 << 10)
}

fn usual_watch() -> i64 {
    20
}

fn usual_gpu() -> String {
    "NVIDIA GeForce RTX 4090".to_owned()
}

fn usual_unattributed() -> u64 {
    200
}

/// One GPU: its total VRAM in MiB and its processes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    total: u64,
    /// The driver's name for it.
    #[serde(default = "usual_gpu")]
    name: String,
    /// MiB in use that no listed process accounts for.
    #[serde(default = "usual_unattributed")]
    unattributed: u64,
    /// What kind of GPU it is, where it is no usual one: an instance (MIG) or a GPU that is split into some.
    #[serde(default)]
    nature: Option<Nature>,
    #[serde(default)]
    pub processes: Vec<Process>,
}

/// One process on a GPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    pub pid: u32,
    mib: u64,
    /// The program that oomdoctor recognizes in it.
    program: Option<String>,
    command: String,
    /// As the JSON has it: "docker:0123456789ab".
    container: Option<String>,
    /// As the JSON has it: "slurm:81234".
    managed_by: Option<String>,
    /// Whether what started it has exited.
    orphaned: bool,
    /// Seconds before the crash; negative: after it.
    started: i64,
    /// Whether it is the viewer's own process; else it is another user's.
    pub own: bool,
    /// The service account that it runs as, where it is no person's.
    service: Option<String>,
    proved: bool,
    pub busy: bool,
    /// The second of the watch from which it is idle; it is busy before.
    busy_until: i64,
    /// The second of the watch from which it uses this GPU.
    appears_at: i64,
}

impl Default for Process {
    fn default() -> Process {
        Process {
            pid: 0,
            mib: 0,
            program: None,
            command: "python train.py".to_owned(),
            container: None,
            managed_by: None,
            orphaned: false,
            started: 3600,
            own: true,
            service: None,
            proved: true,
            busy: false,
            busy_until: 0,
            appears_at: 0,
        }
    }
}

/// What the advice must be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The leading cause; `none` where no memory ran out.
    pub cause: String,
    /// What the verdict's sentence says, in this order.
    #[serde(default)]
    pub sentence: Vec<String>,
    /// What it must not say.
    #[serde(default)]
    pub sentence_lacks: Vec<String>,
    /// MiB that the run is short of; None: unknown.
    #[serde(default)]
    pub short: Option<u64>,
    /// The first steps of the plan; `end-holder PID` also names the process.
    pub plan: Vec<String>,
    /// Commands that some step has, literally.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Steps that the plan must not have.
    #[serde(default)]
    pub never: Vec<String>,
    /// What no step may say, in its words or its command.
    #[serde(default)]
    pub steps_lack: Vec<String>,
    /// What some step must say, in its words or its command.
    #[serde(default)]
    pub steps_say: Vec<String>,
    /// Steps that must not be called enough.
    #[serde(default)]
    pub not_enough: Vec<FixId>,
    /// What the evidence for the leading cause says.
    #[serde(default)]
    pub evidence: Vec<String>,
    #[serde(default)]
    pub same_machine: Option<bool>,
    /// What some note below the verdict must say.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The time of the crash, plus so many seconds.
fn after_crash(seconds: i64) -> WallTime {
    WallTime(jiff::Timestamp::from_second(1_795_176_000 + seconds).unwrap())
}

impl Process {
    fn is_busy_at(&self, second: i64) -> bool {
        self.busy || second < self.busy_until
    }

    fn cpu_ticks_at(&self, second: i64) -> u64 {
        let busy_seconds = if self.busy { second } else { second.min(self.busy_until) };
        10 + u64::try_from(busy_seconds).unwrap() * 100
    }

    fn uid(&self) -> u32 {
        match (&self.service, self.own) {
            (Some(_), _) => SERVICE,
            (None, true) => USER,
            (None, false) => OTHER_USER,
        }
    }

    fn user(&self) -> &str {
        let person = if self.own { "ada" } else { "bob" };
        self.service.as_deref().unwrap_or(person)
    }

    fn row_at(&self, second: i64) -> GpuProcess {
        GpuProcess {
            pid: self.pid,
            kind: ProcessKind::Compute,
            container: self.container.clone(),
            managed_by: self.managed_by.clone(),
            server_command: None,
            recognised_as: self.program.clone(),
            protected: None,
            proved: self.proved,
            group: None,
            image: None,
            start_ticks: Reading::Known(u64::from(self.pid) * 10),
            started_at: Reading::Known(after_crash(-self.started)),
            used_bytes: Reading::Known(Bytes::mib(self.mib)),
            sm_percent: Reading::Known(if self.is_busy_at(second) { 90 } else { 0 }),
            uid: Reading::Known(self.uid()),
            user: Reading::Known(self.user().to_owned()),
            command: Reading::Known(self.command.clone()),
            parent_pid: Reading::Known(if self.orphaned { 1 } else { SHELL }),
            session: Reading::Known(SHELL),
            state: Reading::Known('S'),
            cpu_ticks: Reading::Known(self.cpu_ticks_at(second)),
            shared_bytes: None,
            spilled_bytes: None,
            shared_with: vec![],
        }
    }
}

impl Gpu {
    fn uuid(&self, index: usize) -> String {
        let kind = if self.nature == Some(Nature::MigInstance) { "MIG" } else { "GPU" };
        format!("{kind}-{index}")
    }

    fn device_at(&self, index: usize, second: i64) -> Device {
        let processes: Vec<&Process> = self.processes.iter().filter(|process| process.appears_at <= second).collect();
        let used = processes.iter().map(|process| process.mib).sum::<u64>() + self.unattributed;
        let reserved = 400;
        Device {
            index: u32::try_from(index).unwrap(),
            error: None,
            memory: DeviceMemory {
                total_bytes: Reading::Known(Bytes::mib(self.total)),
                reserved_bytes: Reading::Known(Bytes::mib(reserved)),
                used_bytes: Reading::Known(Bytes::mib(used)),
                free_bytes: Reading::Known(Bytes::mib(self.total - reserved - used)),
            },
            unaccounted_includes_unknown_rows: false,
            processes: processes.iter().map(|process| process.row_at(second)).collect(),
            nature: self.nature,
            uuid: Reading::Known(self.uuid(index)),
            bus_id: Reading::Known(format!("00000000:0{index}:00.0")),
            name: Reading::Known(self.name.clone()),
            unaccounted_bytes: Reading::Known(Bytes::mib(self.unattributed)),
            utilization_percent: Reading::Known(0),
            temperature_celsius: Reading::Known(40),
            power_watts: Reading::Known(30),
            ..Device::default()
        }
    }
}

/// What a snapshot of the scenarios tells.
fn filled(name: &str) -> Vec<Filled> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/snapshots").join(name);
    let dump = allocations::read::read(BufReader::new(File::open(&path).unwrap())).unwrap();
    allocations::figures::filled(&dump, name)
}

/// What the log alone says, and the fixes that its signs and its leading entry name.
pub struct LogReading {
    pub diagnosis: Diagnosis,
    pub fixes: Vec<Fix>,
}

impl LogReading {
    /// What the log and the memory snapshot of a scenario say.
    pub fn of_scenario(base: &KnowledgeBase, scenario: &Scenario) -> LogReading {
        let Some(name) = &scenario.snapshot else { return LogReading::of(base, &scenario.log) };
        let mut filled = filled(name);
        let log = match scenario.log.is_empty() {
            true => allocations::message::as_log(&filled[0]).unwrap_or_default(),
            false => scenario.log.clone(),
        };
        filled.extend(scenario.other_ranks.iter().flat_map(|name| self::filled(name)));
        let mut diagnosis = base.diagnose(&PastedLog::new(log), None);
        knowledge::allocations::add(&mut diagnosis, filled);
        let fixes = base.leading_fixes(&diagnosis);
        LogReading { diagnosis, fixes }
    }

    pub fn of(base: &KnowledgeBase, log: &str) -> LogReading {
        let diagnosis = base.diagnose(&PastedLog::new(log.to_owned()), None);
        let fixes = base.leading_fixes(&diagnosis);
        LogReading { diagnosis, fixes }
    }
}

impl Scenario {
    /// The same machine and log where root runs oomdoctor: then every process is another user's.
    pub fn seen_by_root(&self) -> Scenario {
        Scenario { viewer: Looker { uid: 0, ..Looker::default() }, ..self.clone() }
    }

    pub fn with_all_processes_busy(&self) -> Scenario {
        let mut scenario = self.clone();
        scenario.gpus.iter_mut().flat_map(|gpu| &mut gpu.processes).for_each(|process| process.busy = true);
        scenario
    }

    /// The advice at the last reading; it takes the advice at the earlier reading as input where there is one.
    pub fn advice(&self, log: &LogReading) -> Advice {
        let has_earlier_reading = !self.earlier.is_empty();
        let earlier = has_earlier_reading.then(|| self.advice_with(log, &self.earlier, None));
        self.advice_with(log, &self.gpus, earlier.as_ref())
    }

    fn advice_with(&self, log: &LogReading, gpus: &[Gpu], before: Option<&Advice>) -> Advice {
        let mut history = History::default();
        for second in 0..=self.watched {
            history.note(&self.snapshot_at(gpus, second));
        }
        let now = self.snapshot_at(gpus, self.watched);
        let StepsTaken { changed, enough, freed } = self.taken;
        let viewer = Viewer {
            uid: self.viewer.uid,
            lineage: self.viewer.lineage.clone(),
            spared: self.viewer.spared.clone(),
            sudo_uid: self.viewer.sudo_uid,
            is_held_by_pod: self.viewer.in_pod,
        };
        advise(&Situation {
            fixes: &log.fixes,
            snapshot: (!gpus.is_empty() || self.no_driver.is_some()).then_some(&now),
            history: Some(&history),
            viewer: Some(&viewer),
            crashed_by: Some(after_crash(0)),
            command: self.command.as_deref(),
            model: self.model.as_deref(),
            taken: Taken { changed, enough, freed, left: 0 },
            before: before.map(|advice| &advice.remembered),
            ..Situation::alone(&log.diagnosis)
        })
    }

    fn snapshot_at(&self, gpus: &[Gpu], second: i64) -> Snapshot {
        let (total, available) = self.ram;
        Snapshot {
            taken_at: after_crash(second),
            host: Host {
                name: "gpu-box".into(),
                memory_total_bytes: Reading::Known(Bytes::mib(total)),
                memory_available_bytes: Reading::Known(Bytes::mib(available)),
                swap_total_bytes: Reading::Known(Bytes::ZERO),
                swap_free_bytes: Reading::Known(Bytes::ZERO),
            },
            driver: match self.no_driver.clone() {
                Some(unavailable) => Driver::Unavailable { unavailable },
                None => Driver::Available { version: "570.124.06".into(), cuda_version: None },
            },
            devices: gpus.iter().enumerate().map(|(index, gpu)| gpu.device_at(index, second)).collect(),
            holders: vec![],
            launchers: vec![],
            unseen_processes: 0,
            seen_from: self.seen_from.iter().cloned().map(Vantage::from).collect(),
            windows: None,
        }
    }

    /// A log on a machine with these GPUs, written as in a file.
    pub fn of(log: &str, gpus: &str) -> Scenario {
        let empty = format!("(why: \"\", log: \"\", gpus: [{gpus}], expect: (cause: \"\", sentence: [], plan: []))");
        Scenario { log: log.to_owned(), ..Scenario::parsed(&empty).unwrap() }
    }

    fn parsed(text: &str) -> ron::error::SpannedResult<Scenario> {
        from_ron(text)
    }
}

fn from_ron<T: DeserializeOwned>(text: &str) -> ron::error::SpannedResult<T> {
    ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME).from_str(text)
}

/// The files of a folder below `tests`, each with its name and what it contains.
fn files<T: DeserializeOwned>(folder: &str) -> Vec<(String, T)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ron"));
    files.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), read(path))).collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    from_ron(&fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every scenario with its name, sorted by name. One of several machines for a log is called by both: `LOG@MACHINE`.
pub fn all() -> Vec<(String, Scenario)> {
    let mut all = files::<Scenario>("scenarios");
    for (name, Machines { log, machines }) in files::<Machines>("scenarios/machines") {
        let scenarios = machines
            .into_iter()
            .map(|(machine, scenario)| (format!("{name}@{machine}"), Scenario { log: log.clone(), ..scenario }));
        all.extend(scenarios);
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}
