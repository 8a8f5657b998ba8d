//! Every call of the driver with every return code, alone and in random sequences of faults, with absurd figures,
//! growing lists and missing symbols: the sampler survives, its readings are valid, an unknown figure is never 0, and
//! all figures are known again after the driver recovers. `OOMDOCTOR_CASES=10000` runs more sequences.

use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use oomdoctor::gpu::{Device, Driver, Reading, Snapshot};
use oomdoctor::platform::linux::probe::{Moment, Sampler};
use oomdoctor::platform::linux::procfs::Procfs;
use oomdoctor::units::Bytes;
use tempfile::TempDir;

use crate::support::chance::Chance;
use crate::support::fake_driver::FakeDriver;

/// Every function that the sampler may call.
const CALLS: [&str; 21] = [
    "nvmlInit_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlShutdown",
];
/// The code that the driver returns when no process has run: then 0 % is known.
const NOTHING_RAN: [u32; 2] = [6, 21];
/// After a recovery, all figures are read again within this many refreshes, half a minute apart.
const RECOVERED: usize = 6;

/// The return codes of nvml.h, the numbers between them, and some that no header defines.
fn codes() -> Vec<u32> {
    (1..=31).chain([999, 1000, 77_777, u32::MAX]).collect()
}

thread_local! {
    /// A made-up /proc with one process and one kernel thread.
    static PROC: TempDir = proc_of_one();
}

fn proc_of_one() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("self/ns")).unwrap();
    symlink("pid:[4026531836]", root.path().join("self/ns/pid")).unwrap();
    for (pid, flags) in [(70, 0), (71, 0x0020_0000)] {
        let folder = root.path().join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        let stat = format!("{pid} (job) S 1 1 1 0 -1 {flags} 0 0 0 0 3 4 0 0 20 0 1 0 9 0");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("status"), format!("Tgid: {pid}\nUid: 0 0 0 0\n")).unwrap();
        fs::write(folder.join("cmdline"), "python\0job.py\0").unwrap();
    }
    root
}

/// A sampler whose clock the test sets.
struct Bench {
    sampler: Sampler,
    first: Moment,
    seconds: u64,
}

impl Bench {
    fn new(driver: &FakeDriver) -> Bench {
        let procfs = Procfs::new(PROC.with(|root| root.path().to_owned()));
        let sampler = Sampler::new(Some(driver.library()), procfs);
        Bench { sampler, first: Moment::now(), seconds: 0 }
    }

    /// The reading this many seconds later, after a round trip through JSON.
    fn after(&mut self, seconds: u64) -> Snapshot {
        self.seconds += seconds;
        let moment = Moment {
            now: self.first.now + Duration::from_secs(self.seconds),
            epoch_micros: self.first.epoch_micros + self.seconds * 1_000_000,
        };
        let snapshot = self.sampler.snapshot_at(moment);
        let line = serde_json::to_string(&snapshot).unwrap();
        assert!(!line.contains('\n'));
        let mut back: Snapshot = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        // The JSON keeps milliseconds of the time.
        back.taken_at = snapshot.taken_at;
        assert_eq!(back, snapshot, "it reads back as it was");
        back
    }

    /// The reading after the driver has worked long enough for every figure to be read again.
    fn recovered(&mut self) -> Snapshot {
        (1..RECOVERED).for_each(|_| drop(self.after(31)));
        self.after(31)
    }
}

/// Every true figure in these scenarios is more than 0, so a 0 in a reading was invented.
fn nothing_is_made_up(snapshot: &Snapshot, nothing_ran: bool) {
    if let Driver::Unavailable { unavailable } = &snapshot.driver {
        assert!(unavailable.len() > 20 && !unavailable.contains('\n'), "{unavailable:?} helps nobody");
        assert_eq!(snapshot.devices, []);
    }
    for device in &snapshot.devices {
        let memory = &device.memory;
        for bytes in [&memory.total_bytes, &memory.reserved_bytes, &memory.used_bytes, &memory.free_bytes] {
            assert_ne!(*bytes, Reading::Known(Bytes::ZERO), "{device:?}");
            assert!(bytes.value().is_none_or(|bytes| Some(bytes) <= memory.total_bytes.value()), "{device:?}");
        }
        for figure in [&device.utilization_percent, &device.temperature_celsius, &device.power_watts] {
            assert_ne!(*figure, Reading::Known(0), "{device:?}");
        }
        let known = device.processes.iter().filter_map(|row| row.used_bytes.value());
        let known = known.fold(Bytes::ZERO, Bytes::plus);
        if device.unaccounted_bytes == Reading::Known(Bytes::ZERO) {
            assert!(memory.used_bytes.value().is_some_and(|used| used <= known), "{device:?}");
        }
        for row in &device.processes {
            assert_ne!(row.used_bytes, Reading::Known(Bytes::ZERO), "{row:?}");
            assert!(row.sm_percent.value().is_none_or(|percent| percent <= 100), "{row:?}");
            assert!(nothing_ran || row.sm_percent != Reading::Known(0), "{row:?}");
            assert_eq!(row.proved, row.pid == 70, "{row:?}");
            assert_eq!(row.start_ticks.known().is_some(), row.proved, "{row:?}");
        }
        if device.error.is_some() {
            assert!(device.processes.is_empty() && memory.used_bytes.known().is_none(), "{device:?}");
        }
    }
}

/// Asserts that every figure of the GPU is known.
fn all_is_known(device: &Device) {
    assert_eq!(device.error, None);
    assert!(device.name.known().is_some() && device.uuid.known().is_some() && device.bus_id.known().is_some());
    let memory = &device.memory;
    assert!(memory.total_bytes.known().is_some() && memory.used_bytes.known().is_some(), "{device:?}");
    assert!(memory.free_bytes.known().is_some() && device.unaccounted_bytes.known().is_some(), "{device:?}");
    let figures = [&device.utilization_percent, &device.temperature_celsius, &device.power_watts];
    assert!(figures.iter().all(|figure| figure.known().is_some()), "{device:?}");
    assert!(device.processes.iter().all(|row| row.sm_percent.known().is_some()), "{device:?}");
}

const ONE_CARD: &str = "gpus: [(reserved: 1048576, base: 1048576, sm: 5)],
    processes: [(gpu: 0, pid: 70, bytes: Some(1048576), sm: 7, ghost: true, lists: [Compute, Graphics, Mps])]";

#[test]
fn the_sampler_recovers_from_every_return_code_of_every_call() {
    let driver = FakeDriver::new("()");
    let well = format!("({ONE_CARD})");
    for call in CALLS {
        driver.set_scenario(&well);
        let mut running = Bench::new(&driver);
        all_is_known(&running.after(0).devices[0]);
        for code in codes() {
            let of_samples = call == "nvmlDeviceGetProcessUtilization";
            driver.set_scenario(&format!("({ONE_CARD}, faults: [(call: \"{call}\", number: {code})])"));
            let mut fresh = Bench::new(&driver);
            nothing_is_made_up(&fresh.after(1), of_samples && NOTHING_RAN.contains(&code));
            // It may still show the list that it read 5 s ago under another code.
            [1, 31].into_iter().for_each(|seconds| nothing_is_made_up(&running.after(seconds), of_samples));
            driver.set_scenario(&well);
            is_well(&fresh.recovered(), &format!("{call} {code} at the start"));
        }
        // By now it has seen all of them.
        is_well(&running.recovered(), &format!("{call} in mid-run"));
    }
}

fn is_well(snapshot: &Snapshot, after: &str) {
    nothing_is_made_up(snapshot, false);
    let driver = Driver::Available { version: "570.124.06".into(), cuda_version: Some("12.8".into()) };
    assert_eq!(snapshot.driver, driver, "{after}");
    assert_eq!(snapshot.devices.len(), 1, "{after}: {:?}", snapshot.driver);
    all_is_known(&snapshot.devices[0]);
    assert_eq!(snapshot.devices[0].processes.len(), 1, "{after}");
}

#[test]
fn one_sample_from_the_far_future_does_not_outdate_later_ones() {
    let future = ONE_CARD.replace("sm: 7,", "sm: 7, stamp: Some(18446744073709551615),");
    let driver = FakeDriver::new(&format!("({future})"));
    let mut bench = Bench::new(&driver);
    bench.after(0);
    driver.set_scenario(&format!("({ONE_CARD})"));
    let snapshot = bench.recovered();
    assert_eq!(snapshot.devices[0].processes.get(0).unwrap().sm_percent, Reading::Known(7), "it is at work, not idle");
}

/// A random machine in RON. Its figures may be absurd but are never 0.
fn machine(chance: &mut Chance, absurd: bool) -> (String, usize) {
    let gpus = *chance.of(&[0, 1, 1, 2, 4, 8, 16]);
    let size = |chance: &mut Chance| match chance.below(if absurd { 3 } else { 1 }) {
        0 => 1 + chance.below(1 << 30),
        _ => *chance.of(&[1, 1 << 63, u64::MAX, u64::MAX - 1, 25 << 30]),
    };
    let small = |chance: &mut Chance| match chance.below(if absurd { 3 } else { 1 }) {
        0 => 1 + chance.below(100),
        _ => *chance.of(&[1, 101, 1 << 31, u64::from(u32::MAX)]),
    };
    let mut text = String::from("gpus: [");
    for _ in 0..gpus {
        let free = size(chance);
        let name = *chance.of(&["RTX 4090", "", "\\u{fffd}\\u{fffd}", "\\u{1b}[2J\\n", "x"]);
        let name = if absurd { name } else { "RTX 4090" };
        let total = if absurd { size(chance) } else { 1 << 50 };
        write!(
            text,
            "(name: \"{name}\", total: {total}, reserved: {}, base: {}, free: Some({free}), sm: {}, temperature: {}, \
             milliwatts: {}),",
            size(chance),
            size(chance),
            small(chance),
            small(chance),
            500 + small(chance) * 1000 % 4_000_000_000,
        )
        .unwrap();
    }
    let most = *chance.of(&[0, 3, 3, 20, 20, 70, 70, 1000]);
    text.push_str("], processes: [");
    for at in 0..chance.below(most + 1) {
        // Each process gets a PID of its own, except for impossible PIDs, which may appear several times and anywhere.
        let odd = [0, 1, 70, 71, 1 << 31, u64::from(u32::MAX)];
        let pid = if chance.once_in(4) { *chance.of(&odd) } else { 3_000_000_000 + at };
        let bytes = if chance.once_in(5) { "None".into() } else { format!("Some({})", size(chance).min(1 << 62)) };
        let stamp = if absurd && chance.once_in(9) { "Some(18446744073709551615)" } else { "None" };
        let lists = *chance.of(&["Compute", "Graphics", "Mps", "Compute, Graphics", "Compute, Graphics, Mps"]);
        write!(
            text,
            "(gpu: {}, pid: {pid}, bytes: {bytes}, sm: {}, stamp: {stamp}, ghost: true, lists: [{lists}]),",
            chance.below(gpus.max(1) as u64),
            small(chance),
        )
        .unwrap();
    }
    text.push(']');
    if absurd && chance.once_in(4) {
        write!(text, ", count: Some({})", chance.of(&[0, 1, 17, 1 << 20, u64::from(u32::MAX)])).unwrap();
    }
    write!(text, ", row_bytes: {}", chance.of(&[16, 24, 32])).unwrap();
    (text, gpus)
}

fn faults(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..chance.below(6) {
        let call =
            *chance.of(&[&CALLS[..], &["*", "nvmlDevice*", "*RunningProcesses*", "*_v3", "nvmlDeviceGetP*"]].concat());
        let gpu = if chance.once_in(2) { format!("Some({})", chance.below(16)) } else { "None".into() };
        let (after, times) = (chance.below(40), 1 + chance.below(60));
        let what = match chance.below(4) {
            0 => format!("grow: {}", chance.of(&[1_u64, 9, 5000, 1 << 31, u64::from(u32::MAX)])),
            _ => format!("number: {}", chance.of(&codes())),
        };
        write!(text, "(call: \"{call}\", gpu: {gpu}, after: {after}, times: {times}, {what}),").unwrap();
    }
    text
}

/// Plays a random sequence of faults on one driver, then its recovery.
fn story(seed: u64, well: &FakeDriver, old: &[FakeDriver]) {
    let mut chance = Chance::new(seed);
    let (whole, absurd) = (!chance.once_in(4), chance.once_in(3));
    let driver = if whole { well } else { chance.of(old) };
    let (machine, gpus) = machine(&mut chance, absurd);
    let told = RefCell::new(Vec::new());
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let set = |faults: &str| {
            let scenario = format!("({machine}, faults: [{faults}])");
            driver.set_scenario(&scenario);
            told.borrow_mut().push(scenario);
        };
        set(&faults(&mut chance));
        let mut bench = Bench::new(driver);
        for phase in 0..4 {
            if phase > 0 {
                set(&faults(&mut chance));
            }
            for _ in 0..=chance.below(3) {
                let snapshot = bench.after(*chance.of(&[1, 1, 5, 31]));
                nothing_is_made_up(&snapshot, true);
            }
        }
        set("");
        let snapshot = bench.recovered();
        nothing_is_made_up(&snapshot, false);
        if whole && !absurd {
            assert_eq!(snapshot.devices.len(), gpus, "{:?}", snapshot.driver);
            snapshot.devices.iter().for_each(all_is_known);
        }
    }));
    if let Err(failure) = failed {
        eprintln!("seed {seed}, absurd {absurd}, whole {whole}: {}", told.borrow().last().map_or("", String::as_str));
        std::panic::resume_unwind(failure);
    }
}

#[test]
fn random_sequences_of_faults_neither_break_the_sampler_nor_invent_a_figure() {
    let cases: u64 = std::env::var("OOMDOCTOR_CASES").map_or(32, |text| text.parse().unwrap());
    let begun = Instant::now();
    let well = FakeDriver::new("()");
    let old: Vec<FakeDriver> = CALLS.iter().map(|symbol| FakeDriver::new("()").without(&[symbol])).collect();
    for seed in 0..cases {
        story(seed, &well, &old);
    }
    eprintln!("{cases} stories in {:.1} s", begun.elapsed().as_secs_f64());
}
