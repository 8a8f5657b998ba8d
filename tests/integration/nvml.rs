//! The sampler with the fake driver, through the shipped program and the real wrapper: every known way in which drivers
//! misbehave or are missing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use oomdoctor::gpu::{Device, Driver, GpuProcess, Nature, ProcessKey, ProcessKind, Reading, Snapshot, Vantage, sight};
use oomdoctor::platform::linux::probe::{Moment, Sampler};
use oomdoctor::platform::linux::procfs::Procfs;
use oomdoctor::units::Bytes;

use crate::support::fake_driver::{FakeDriver, GIB, PATIENCE, Sleeper, devices, homes};
use crate::support::pty::Session;

fn only_device(snapshot: &Snapshot) -> &Device {
    assert_eq!(snapshot.devices.len(), 1);
    &snapshot.devices[0]
}

fn rows(device: &Device) -> Vec<(u32, Option<Bytes>)> {
    let mut rows: Vec<_> = device.processes.iter().map(|row| (row.pid, row.used_bytes.value())).collect();
    rows.sort();
    rows
}

fn row(device: &Device, pid: u32) -> &GpuProcess {
    device.processes.iter().find(|row| row.pid == pid).unwrap_or_else(|| panic!("{pid} is not listed"))
}

fn unavailable(snapshot: &Snapshot) -> &str {
    match &snapshot.driver {
        Driver::Unavailable { unavailable } => unavailable,
        Driver::Available { .. } => panic!("there is a driver"),
    }
}

/// Rows of processes that do not exist, with 1, 2, 3 … MiB.
fn ghosts(count: u32) -> (String, Vec<(u32, Option<Bytes>)>) {
    let pids = (0..count).map(|at| 3_000_000_000 + at);
    let entry = |(at, pid): (usize, u32)| format!("(gpu: 0, pid: {pid}, bytes: Some({}), ghost: true)", (at + 1) << 20);
    let rows = pids.clone().zip(1..).map(|(pid, mib)| (pid, Some(Bytes::mib(mib)))).collect();
    (pids.enumerate().map(entry).collect::<Vec<_>>().join(","), rows)
}

#[test]
fn a_machine_is_described_with_its_processes() {
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"RTX 4090\", total: {}, reserved: {GIB}, base: {GIB}, sm: 97, temperature: 71, milliwatts: 402499)],
          processes: [(gpu: 0, pid: {pid}, bytes: Some({}), sm: 40)])",
        24 * GIB,
        5 * GIB
    ));
    let mut stream = driver.sample(&["--count", "1"]);
    assert_eq!((stream.header.schema, stream.header.boot_id.as_deref().map(str::len)), (1, Some(36)));
    let snapshot = stream.next();
    assert_eq!(snapshot.driver, Driver::Available { version: "570.124.06".into(), cuda_version: Some("12.8".into()) });
    let device = only_device(&snapshot);
    assert_eq!(device.name, Reading::Known("RTX 4090".into()));
    assert_eq!(device.bus_id, Reading::Known("00000000:01:00.0".into()));
    assert_eq!(device.memory.total_bytes, Reading::Known(Bytes::gib(24)));
    assert_eq!(device.memory.reserved_bytes, Reading::Known(Bytes::gib(1)));
    assert_eq!(device.memory.used_bytes, Reading::Known(Bytes::gib(6)));
    assert_eq!(device.memory.free_bytes, Reading::Known(Bytes::gib(17)));
    assert_eq!(device.unaccounted_bytes, Reading::Known(Bytes::gib(1)));
    assert_eq!(device.utilization_percent, Reading::Known(97));
    assert_eq!(device.temperature_celsius, Reading::Known(71));
    assert_eq!(device.power_watts, Reading::Known(402));
    let row = row(device, pid);
    assert_eq!(
        (row.kind, row.used_bytes.value(), row.sm_percent.value()),
        (ProcessKind::Compute, Some(Bytes::gib(5)), Some(40))
    );
    assert_eq!(row.command, Reading::Known("sleep 1000".into()));
    assert_eq!(row.parent_pid, Reading::Known(std::process::id()));
    assert!(row.start_ticks.known().is_some() && row.proved);
    let started = row.started_at.value().unwrap();
    assert!(snapshot.taken_at.0.duration_since(started.0).as_secs().abs() < 60, "{started}");
}

#[test]
fn rows_of_16_24_and_32_bytes_are_told_apart_in_short_and_long_lists() {
    for row_bytes in [16, 24, 32] {
        for count in [1, 2, 40, 64, 65, 300] {
            let (processes, expected) = ghosts(count);
            let scenario = format!("(row_bytes: {row_bytes}, gpus: [(total: {})], processes: [{processes}])", 80 * GIB);
            let snapshot = FakeDriver::new(&scenario).snapshot();
            assert_eq!(rows(only_device(&snapshot)), expected, "{count} rows of {row_bytes} bytes");
        }
    }
}

#[test]
fn the_lists_of_older_drivers_are_chosen_by_return_code_and_by_missing_symbol() {
    let (processes, expected) = ghosts(3);
    let v3 = ["Compute", "Graphics", "MPSCompute"].map(|list| format!("nvmlDeviceGet{list}RunningProcesses_v3"));
    let v2 = ["Compute", "Graphics", "MPSCompute"].map(|list| format!("nvmlDeviceGet{list}RunningProcesses_v2"));
    for faults in ["*RunningProcesses_v3", "*RunningProcesses_v?"] {
        let patterns = if faults.ends_with('?') { vec!["*Processes_v3", "*Processes_v2"] } else { vec![faults] };
        let faults: Vec<String> =
            patterns.iter().map(|call| format!("(call: \"{call}\", code: FunctionNotFound)")).collect();
        let scenario = format!("(gpus: [()], processes: [{processes}], faults: [{}])", faults.join(","));
        assert_eq!(rows(only_device(&FakeDriver::new(&scenario).snapshot())), expected, "{scenario}");
    }
    let scenario = format!("(gpus: [()], processes: [{processes}])");
    let symbols: Vec<&str> = v3.iter().chain(&v2).map(String::as_str).collect();
    for missing in [&symbols[..3], &symbols[..]] {
        let driver = FakeDriver::new(&scenario).without(missing);
        assert_eq!(rows(only_device(&driver.snapshot())), expected, "without {missing:?}");
    }
}

#[test]
fn an_old_driver_reports_no_reserved_vram() {
    let scenario = format!("(gpus: [(total: {}, reserved: {GIB}, base: {})])", 24 * GIB, 3 * GIB);
    let by_symbol = FakeDriver::new(&scenario).without(&["nvmlDeviceGetMemoryInfo_v2"]);
    let by_code = FakeDriver::new(
        &scenario
            .replace("(gpus", "(faults: [(call: \"nvmlDeviceGetMemoryInfo_v2\", code: ArgumentVersionMismatch)], gpus"),
    );
    for driver in [by_symbol, by_code] {
        driver.count_calls();
        let mut stream = driver.sample(&["--count", "3"]);
        stream.next();
        stream.next();
        let snapshot = stream.next();
        let memory = &only_device(&snapshot).memory;
        assert_eq!(memory.used_bytes, Reading::Known(Bytes::gib(4)), "version 1 counts the reserve as used");
        assert_eq!(memory.reserved_bytes, Reading::Unsupported);
        assert_eq!(memory.free_bytes, Reading::Known(Bytes::gib(20)));
        let asked = driver.calls().iter().filter(|call| call.ends_with("MemoryInfo_v2")).count();
        assert!(asked <= 1, "what the driver does not have is asked for once");
    }
}

#[test]
fn unavailable_and_impossible_figures_are_not_zero() {
    let (one, two) = (Sleeper::start(), Sleeper::start());
    let scenario = format!(
        "(gpus: [(total: {})], processes: [
            (gpu: 0, pid: {}, bytes: None, hidden: {}), (gpu: 0, pid: {}, bytes: Some({}))])",
        24 * GIB,
        one.pid(),
        5 * GIB,
        two.pid(),
        25 * GIB
    );
    let snapshot = FakeDriver::new(&scenario).snapshot();
    let device = only_device(&snapshot);
    assert_eq!(row(device, one.pid()).used_bytes, Reading::NotAvailable);
    assert!(matches!(row(device, two.pid()).used_bytes, Reading::Failed(_)));
    assert!(device.unaccounted_includes_unknown_rows);
}

#[test]
fn a_process_in_the_compute_and_graphics_lists_counts_once() {
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    let scenario = format!(
        "(gpus: [()], processes: [(gpu: 0, pid: {pid}, bytes: Some({}), lists: [Compute, Graphics])])",
        5 * GIB
    );
    let snapshot = FakeDriver::new(&scenario).snapshot();
    let device = only_device(&snapshot);
    assert_eq!(rows(device), [(pid, Some(Bytes::gib(5)))]);
    assert_eq!(row(device, pid).kind, ProcessKind::Both);
    assert_eq!(device.unaccounted_bytes, Reading::Known(Bytes::ZERO));
}

#[test]
fn clients_of_the_multi_process_service_are_marked() {
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    let scenario = format!("(gpus: [()], processes: [(gpu: 0, pid: {pid}, bytes: Some({GIB}), lists: [Mps])])");
    let driver = FakeDriver::new(&scenario);
    let mut at = sampler(&driver);
    // The list is read every 5 s and shown in between. A process that exits disappears at once, except in a container,
    // where an unknown PID may belong to a process that is not visible.
    let patience = if Procfs::default().in_initial_pid_namespace() { 2 } else { 10 };
    assert_eq!(row(only_device(&at(0)), pid).kind, ProcessKind::Mps);
    assert_eq!(row(only_device(&at(1)), pid).kind, ProcessKind::Mps);
    drop(sleeper);
    assert!((2..=patience).any(|second| rows(only_device(&at(second))).is_empty()));
}

#[test]
fn lists_that_grow_while_they_are_read_are_read_again() {
    let (processes, expected) = ghosts(10);
    let fault = "(call: \"*ComputeRunningProcesses_v3\", grow: 9, times: 3)";
    let snapshot = FakeDriver::new(&format!("(gpus: [()], processes: [{processes}], faults: [{fault}])")).snapshot();
    assert_eq!(rows(only_device(&snapshot)), expected);
}

#[test]
fn a_list_that_never_stops_growing_is_reported_as_unreadable() {
    let fault = "(call: \"*ComputeRunningProcesses_v3\", grow: 9)";
    let snapshot = FakeDriver::new(&format!("(gpus: [(base: {GIB})], faults: [{fault}])")).snapshot();
    let device = only_device(&snapshot);
    assert_eq!(device.memory.used_bytes, Reading::Known(Bytes::gib(1)));
    assert!(matches!(device.unaccounted_bytes, Reading::Failed(_)), "{:?}", device.unaccounted_bytes);
}

#[test]
fn lists_without_permission_leave_no_vram_unattributed() {
    for (code, reason) in [("NoPermission", Reading::Denied), ("NotSupported", Reading::Unsupported)] {
        let fault = format!("(call: \"*RunningProcesses*\", code: {code})");
        let snapshot = FakeDriver::new(&format!("(gpus: [(base: {GIB})], faults: [{fault}])")).snapshot();
        assert_eq!(only_device(&snapshot).unaccounted_bytes, reason);
    }
}

#[test]
fn a_gpu_lost_in_mid_run_does_not_hide_the_others() {
    let fault = "(call: \"nvmlDevice*\", code: GpuIsLost, gpu: Some(0), after: 20)";
    let driver = FakeDriver::new(&format!("(gpus: [(base: {GIB}), (base: {GIB})], faults: [{fault}])"));
    let mut stream = driver.sample(&[]);
    assert_eq!(stream.next().devices[0].error, None);
    let snapshot = stream.next_where("the loss", |snapshot| snapshot.devices[0].error.is_some());
    let (lost, well) = (&snapshot.devices[0], &snapshot.devices[1]);
    assert!(lost.error.as_deref().unwrap().starts_with("GPU is lost: "));
    assert_eq!((lost.memory.used_bytes.value(), &lost.unaccounted_bytes), (None, &Reading::NotAvailable));
    assert_eq!(lost.name, Reading::Known("Fake GPU".into()), "what was known of it stays");
    assert_eq!((well.error.as_deref(), well.memory.used_bytes.value()), (None, Some(Bytes::gib(1))));
    driver.set_scenario(&format!("(gpus: [(base: {GIB}), (base: {GIB})])"));
    stream.next_where("the recovery", |snapshot| snapshot.devices[0].memory.used_bytes.value().is_some());
}

#[test]
fn figures_that_a_gpu_lacks_are_unsupported() {
    let fault =
        "(call: \"nvmlDeviceGetP*\", code: NotSupported), (call: \"nvmlDeviceGetTemperature\", code: NoPermission)";
    let sleeper = Sleeper::start();
    let snapshot = FakeDriver::new(&format!(
        "(gpus: [()], faults: [{fault}], processes: [(gpu: 0, pid: {}, bytes: Some(1))])",
        sleeper.pid()
    ))
    .snapshot();
    let device = only_device(&snapshot);
    assert_eq!(device.power_watts, Reading::Unsupported);
    assert_eq!(device.bus_id, Reading::Unsupported);
    assert_eq!(device.temperature_celsius, Reading::Denied);
    assert_eq!(row(device, sleeper.pid()).sm_percent, Reading::Unsupported);
}

#[test]
fn a_missing_driver_is_explained_with_what_to_do() {
    let failing = |code: &str| FakeDriver::new(&format!("(faults: [(call: \"nvmlInit_v2\", code: {code})])"));
    let missing = FakeDriver::new("()");
    std::fs::remove_file(missing.library()).unwrap();
    let garbage = FakeDriver::new("()");
    std::fs::write(garbage.library(), "no library").unwrap();
    let cases = [
        (FakeDriver::not_loaded(), "modprobe nvidia"),
        (failing("LibRmVersionMismatch"), "reboot"),
        (failing("NoPermission"), "ls -l /dev/nvidiactl"),
        (failing("OperatingSystem"), "--gpus all"),
        (failing("Unknown"), "nvidia-smi"),
        (FakeDriver::new("()").without(&["nvmlInit_v2"]), "not the NVIDIA driver's management library"),
        (missing, "check the path"),
        (garbage, "check the path"),
    ];
    for (driver, help) in cases {
        let snapshot = driver.snapshot();
        let sentence = unavailable(&snapshot);
        assert!(sentence.contains(help), "{sentence}");
        assert!(!sentence.contains('\n') && !sentence.contains("  "), "{sentence}");
        assert_eq!(snapshot.devices, []);
    }
}

#[test]
fn sample_without_a_driver_still_gives_a_reading() {
    let driver = FakeDriver::not_loaded();
    assert!(driver.output(&["sample", "--count", "1"]).status.success());
    let ps = driver.output(&["ps"]);
    assert_eq!(ps.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ps.stderr).contains("kernel module is not loaded"), "{ps:?}");
    let json = driver.output(&["ps", "--json"]);
    assert_eq!(json.status.code(), Some(1));
    unavailable(&serde_json::from_slice(&json.stdout).unwrap());
}

/// A sampler in this process; its argument is the time in seconds after the first reading.
fn sampler(driver: &FakeDriver) -> impl FnMut(u64) -> Snapshot + use<> {
    let mut sampler = Sampler::new(Some(driver.library()), Procfs::default().with_devices(devices()));
    let first = Moment::now();
    move |seconds| {
        let now = first.now + Duration::from_secs(seconds);
        sampler.snapshot_at(Moment { now, epoch_micros: first.epoch_micros + seconds * 1_000_000 })
    }
}

#[test]
fn rows_name_the_container_and_the_supervisor_of_a_process() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("self/ns")).unwrap();
    std::os::unix::fs::symlink("pid:[4026531836]", root.path().join("self/ns/pid")).unwrap();
    let id = "0123456789abcdef".repeat(4);
    let docker = format!("system.slice/docker-{id}.scope");
    let quadlet = format!("user.slice/user-1000.slice/user@1000.service/app.slice/o.service/libpod-payload-{id}");
    let cases = [
        (70, "system.slice/vllm.service", None, Some("service:vllm.service")),
        (71, "system.slice/slurmstepd.scope/job_81234/step_0/user/task_0", None, Some("slurm:81234")),
        (72, "user.slice/user-1000.slice/session-3.scope", None, None),
        (73, docker.as_str(), Some("docker:0123456789ab"), None),
        (74, quadlet.as_str(), Some("podman:0123456789ab"), Some("user-service:o.service")),
    ];
    let mut entries = Vec::new();
    for (pid, cgroup, ..) in cases {
        let folder = root.path().join(pid.to_string());
        std::fs::create_dir(&folder).unwrap();
        let stat = format!("{pid} (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 9 0");
        let status = format!("Tgid: {pid}\nUid: 0 0 0 0\n");
        for (name, text) in [("stat", stat), ("status", status), ("cgroup", format!("0::/{cgroup}\n"))] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        entries.push(format!("(gpu: 0, pid: {pid}, bytes: Some({GIB}), ghost: true)"));
    }
    let driver = FakeDriver::new(&format!("(gpus: [()], processes: [{}])", entries.join(",")));
    let mut sampler = Sampler::new(Some(driver.library()), Procfs::new(root.path()));
    let snapshot = sampler.snapshot_at(Moment::now());
    for (pid, _, container, manager) in cases {
        let row = row(only_device(&snapshot), pid);
        assert_eq!((row.container.as_deref(), row.managed_by.as_deref()), (container, manager), "{pid}");
    }
    let json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json["devices"][0]["processes"][2]["managed_by"], serde_json::Value::Null, "there, and null");
}

#[test]
fn a_driver_that_is_loaded_later_is_found_without_constant_retries() {
    let driver = FakeDriver::not_loaded();
    driver.count_calls();
    let mut at = sampler(&driver);
    for second in 0..5 {
        unavailable(&at(second));
    }
    assert_eq!(driver.calls(), ["nvmlInit_v2"]);
    driver.set_scenario("(gpus: [()])");
    assert_eq!(at(5).devices.len(), 1);
}

#[test]
fn a_reloaded_driver_is_opened_again() {
    let driver = FakeDriver::new("(gpus: [(), ()])");
    let mut at = sampler(&driver);
    assert!(at(0).devices.iter().all(|device| device.error.is_none()));
    driver.set_scenario("(gpus: [(), ()], faults: [(call: \"nvmlDevice*\", code: Uninitialized)])");
    let errors = at(1).devices.into_iter().map(|device| device.error.unwrap());
    assert!(errors.into_iter().all(|error| error.contains("opened again")));
    unavailable(&at(6));
    driver.set_scenario("(gpus: [(), ()], faults: [(call: \"nvmlInit_v2\", code: LibRmVersionMismatch)])");
    assert!(unavailable(&at(11)).contains("different versions"));
    driver.set_scenario("(gpus: [(), ()])");
    assert!(at(16).devices.iter().all(|device| device.error.is_none()));
}

#[test]
fn a_gpu_that_stays_lost_does_not_reopen_the_driver() {
    let driver = FakeDriver::new("(gpus: [(), ()])");
    let mut at = sampler(&driver);
    at(0);
    driver.set_scenario("(gpus: [(), ()], faults: [(call: \"nvmlDevice*\", code: GpuIsLost, gpu: Some(0))])");
    driver.count_calls();
    for minute in 1..5 {
        assert!(at(minute * 60).devices[1].error.is_none());
    }
    assert!(!driver.calls().iter().any(|call| call == "nvmlInit_v2"));
}

#[test]
fn a_new_gpu_is_seen_within_half_a_minute() {
    let driver = FakeDriver::new("(gpus: [()])");
    let mut at = sampler(&driver);
    at(0);
    driver.set_scenario("(gpus: [(), ()])");
    assert!((1..30).all(|second| at(second).devices.len() == 1));
    assert_eq!(at(30).devices.len(), 2);
}

#[test]
fn a_refresh_makes_at_most_six_calls_per_gpu() {
    let sleeper = Sleeper::start();
    let processes =
        format!("(gpu: 0, pid: {0}, bytes: Some(1), sm: 4), (gpu: 1, pid: {0}, bytes: Some(1))", sleeper.pid());
    for interval in [1, 2, 5, 10, 30] {
        let driver = FakeDriver::new(&format!("(gpus: [(), ()], processes: [{processes}])"));
        let mut at = sampler(&driver);
        at(0);
        driver.count_calls();
        let refreshes = (60 / interval).max(12);
        for refresh in 1..=refreshes {
            at(refresh * interval);
        }
        let calls = driver.calls().len() as u64;
        assert!(calls <= 2 * 6 * refreshes, "{calls} calls in {refreshes} refreshes of 2 GPUs");
    }
}

#[test]
fn constant_figures_are_read_once() {
    let driver = FakeDriver::new("(gpus: [()])");
    driver.count_calls();
    let mut at = sampler(&driver);
    for second in 0..60 {
        at(second);
    }
    let calls = driver.calls();
    for name in ["nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetHandleByIndex_v2"] {
        assert_eq!(calls.iter().filter(|call| *call == name).count(), 1, "{name}");
    }
}

#[test]
fn a_driver_without_a_shutdown_function_is_closed_without_a_panic() {
    let driver = FakeDriver::new("(gpus: [()])").without(&["nvmlShutdown"]);
    let output = driver.output(&["sample", "--count", "1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn ps_survives_a_driver_that_hangs() {
    let driver = FakeDriver::new("(gpus: [()], faults: [(call: \"nvmlDeviceGetMemoryInfo_v2\", hang: true)])");
    let begun = Instant::now();
    let ps = driver.output(&["ps"]);
    assert_eq!(ps.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ps.stderr).contains("driver does not answer"), "{ps:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "the deadline is 10 s");
}

#[test]
fn a_driver_that_starts_slowly_is_waited_for_and_only_a_terminal_reads_so() {
    let driver =
        FakeDriver::new("(gpus: [(name: \"GPU of a slow start\")], faults: [(call: \"nvmlInit_v2\", hang_ms: 2500)])");
    let ps = driver.output(&["ps"]);
    assert!(ps.status.success() && ps.stderr.is_empty(), "{ps:?}");
    let library = driver.library();
    let session = Session::oomdoctor((100, 20), &["ps", "--nvml-library", library.to_str().unwrap()]);
    let screen = session.wait_for("the table", |screen| screen.contents().contains("GPU of a slow start"));
    assert_eq!(screen.matches("waiting").count(), 1, "{screen}");
}

#[test]
fn a_library_that_is_no_file_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [fifo.as_path(), folder.path(), Path::new("/dev/null")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        command.args(["ps", "--nvml-library"]).arg(path).envs(homes());
        let ps = assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap();
        assert_eq!(ps.status.code(), Some(1), "{ps:?}");
        let said = String::from_utf8_lossy(&ps.stderr).into_owned();
        assert!(said.contains(path.to_str().unwrap()) && !said.contains("does not answer"), "{said}");
        assert!(said.contains("not a regular file") || said.contains("folder"), "{said}");
    }
}

#[test]
fn ps_waits_for_a_slow_driver() {
    let driver = FakeDriver::new("(gpus: [()], faults: [(call: \"nvmlDeviceGetMemoryInfo_v2\", hang_ms: 300)])");
    let ps = driver.output(&["ps"]);
    assert!(ps.status.success(), "{ps:?}");
}

#[test]
fn a_driver_that_hangs_on_shutdown_does_not_delay_ps() {
    let driver = FakeDriver::new("(gpus: [()], faults: [(call: \"nvmlShutdown\", hang: true)])");
    assert!(driver.output(&["ps"]).status.success());
}

#[test]
fn impossible_pids_are_never_proved() {
    let sleeper = Sleeper::start();
    let entries = [0, 1, 4_294_967_295, 2_147_483_648]
        .map(|pid: u32| format!("(gpu: 0, pid: {pid}, bytes: Some({GIB}), ghost: true)"));
    let snapshot = FakeDriver::new(&format!(
        "(gpus: [()], processes: [{}, (gpu: 0, pid: {}, bytes: Some(1))])",
        entries.join(","),
        sleeper.pid()
    ))
    .snapshot();
    let device = only_device(&snapshot);
    assert_eq!(device.processes.len(), 5);
    for process in &device.processes {
        assert_eq!(process.proved, process.pid == sleeper.pid(), "{}", process.pid);
        assert_eq!(process.start_ticks.known().is_some(), process.proved, "{}", process.pid);
        assert_eq!(process.command.known().is_some(), process.proved, "{}", process.pid);
    }
    assert_eq!(rows(device).last().unwrap(), &(u32::MAX, Some(Bytes::gib(1))), "its memory is counted all the same");
}

#[test]
fn a_thread_and_an_exited_process_are_not_proved() {
    let mut gone = Sleeper::start();
    let pid = gone.pid();
    gone.end();
    // A thread of this test's process has an entry of its own under /proc.
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let ids = threads.map(|entry| entry.unwrap().file_name().into_string().unwrap().parse::<u32>().unwrap());
    let thread = ids.filter(|id| *id != std::process::id()).max().unwrap();
    let entries = [pid, thread].map(|pid| format!("(gpu: 0, pid: {pid}, bytes: Some({GIB}), ghost: true)")).join(",");
    let snapshot = FakeDriver::new(&format!("(gpus: [()], processes: [{entries}])")).snapshot();
    let device = only_device(&snapshot);
    assert_eq!(device.processes.iter().map(|row| row.proved).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn ending_a_real_process_frees_its_vram() {
    let (mut first, mut second) = (Sleeper::start(), Sleeper::start());
    let driver = FakeDriver::new(&format!(
        "(gpus: [()], processes: [(gpu: 0, pid: {}, bytes: Some({}), linger_ms: 200), (gpu: 0, pid: {}, bytes: Some({}))])",
        first.pid(),
        5 * GIB,
        second.pid(),
        2 * GIB
    ));
    let mut stream = driver.sample(&[]);
    let used = |snapshot: &Snapshot| only_device(snapshot).memory.used_bytes.value();
    assert_eq!(used(&stream.next()), Some(Bytes::gib(7)));
    first.end();
    stream.next_where("5 GiB back", |snapshot| used(snapshot) == Some(Bytes::gib(2)));
    second.end_unreaped();
    let last = stream.next_where("2 GiB back from a zombie", |snapshot| used(snapshot) == Some(Bytes::ZERO));
    assert_eq!(rows(only_device(&last)), []);
}

#[test]
fn the_stream_ends_when_nobody_reads_it() {
    let driver = FakeDriver::new("(gpus: [()])");
    let mut command = driver.oomdoctor(&["sample", "--interval", "3600"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    for _ in 0..2 {
        std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
    }
    drop(output);
    assert!(child.wait().unwrap().success(), "it waits an hour for the next reading, and notices at once");
}

#[test]
fn the_table_of_ps_contains_no_control_characters() {
    let sleeper = Sleeper::start();
    let driver = FakeDriver::new(&format!(
        "(gpus: [(name: \"Evil \\u{{1b}}[2J\", base: {GIB})], processes: [(gpu: 0, pid: {}, bytes: Some({GIB}))])",
        sleeper.pid()
    ));
    let ps = driver.output(&["ps"]);
    assert!(ps.status.success(), "{ps:?}");
    let text = String::from_utf8(ps.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let line = text.lines().find(|line| line.contains("sleep 1000")).unwrap();
    let start = line.split_whitespace().nth(1).unwrap().strip_prefix(&format!("{}@", sleeper.pid()));
    assert!(start.is_some_and(|ticks| ticks.parse::<u64>().is_ok()), "{line}");
    assert!(text.contains("unattributed"), "{text}");
    let json = driver.output(&["ps", "--json"]);
    let snapshot: Snapshot = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(rows(only_device(&snapshot)), [(sleeper.pid(), Some(Bytes::gib(1)))]);
}

#[test]
fn mig_instances_are_listed_as_gpus_and_no_process_counts_twice() {
    let sleeper = Sleeper::start();
    let row = |gpu: usize| format!("(gpu: {gpu}, pid: {}, bytes: Some({}))", sleeper.pid(), 5 * GIB);
    let part = |mib: u64| format!("(name: \"A100 MIG 3g.20gb\", total: {}, instance_of: Some(0))", mib << 20);
    let split = format!("(name: \"A100\", total: {}, split: true)", 40 * GIB);
    // As with the real driver, a GPU split by MIG lists the processes of all its instances, but only for root.
    let scenario = |faults: &str| {
        format!(
            "(gpus: [{split}, (), {}, {}], processes: [{}, {}], faults: [{faults}])",
            part(20_000),
            part(19_000),
            row(0),
            row(2)
        )
    };
    let denied = "(call: \"nvmlDeviceGetMemoryInfo*\", code: NoPermission, gpu: Some(0)), (call: \"*Utilization*\", code: NotSupported, gpu: Some(2))";
    for faults in ["", denied] {
        let snapshot = FakeDriver::new(&scenario(faults)).snapshot();
        let natures: Vec<_> = snapshot.devices.iter().map(|device| (device.index, device.nature)).collect();
        let expected =
            [(0, Some(Nature::Split)), (2, Some(Nature::MigInstance)), (3, Some(Nature::MigInstance)), (1, None)];
        assert_eq!(natures, expected, "after their card, counted on after the whole cards");
        let [whole, part, ..] = &snapshot.devices[..] else { panic!() };
        assert_eq!((whole.processes.len(), whole.error.as_deref()), (0, None));
        assert_eq!(whole.memory.total_bytes.known().is_some(), faults.is_empty());
        assert_eq!(rows(part), [(sleeper.pid(), Some(Bytes::gib(5)))]);
        assert!(part.uuid.known().unwrap().starts_with("MIG-"), "what CUDA_VISIBLE_DEVICES takes");
        assert_eq!(snapshot.held_by(row_of(part, sleeper.pid())), Some(Bytes::gib(5)), "once");
        assert_eq!(part.utilization_percent.known().is_some(), faults.is_empty());
    }
    let blind = "(call: \"nvmlDeviceGetMigDeviceHandleByIndex\", code: NoPermission)";
    let snapshot = FakeDriver::new(&scenario(blind)).snapshot();
    assert_eq!(snapshot.devices.len(), 2, "instances that may not be seen");
    assert_eq!(rows(&snapshot.devices[0]).len(), 1, "then the card's own list is all there is");
    assert!(sight::of_device(&snapshot, &snapshot.devices[0]).unwrap().contains("sudo nvidia-smi"));
}

fn row_of(device: &Device, pid: u32) -> ProcessKey {
    row(device, pid).key().unwrap()
}

#[test]
fn a_new_mig_layout_is_seen_within_half_a_minute() {
    let driver = FakeDriver::new("(gpus: [(split: true), (instance_of: Some(0))])");
    let mut at = sampler(&driver);
    assert_eq!(at(0).devices.len(), 2);
    driver.set_scenario("(gpus: [(split: true), (instance_of: Some(0)), (instance_of: Some(0))])");
    assert!((1..30).all(|second| at(second).devices.len() == 2));
    assert_eq!(at(30).devices.len(), 3);
}

#[test]
fn a_vgpu_is_marked_as_one() {
    let snapshot = FakeDriver::new("(gpus: [(shared: true), ()])").snapshot();
    let natures: Vec<_> = snapshot.devices.iter().map(|device| device.nature).collect();
    assert_eq!(natures, [Some(Nature::VirtualShare), None]);
}

#[test]
fn a_board_with_unified_memory_has_figures_and_nothing_unattributed() {
    let sleeper = Sleeper::start();
    let row = format!("(gpu: 0, pid: {}, bytes: Some({GIB}))", sleeper.pid());
    let unsupported = "(call: \"nvmlDeviceGetMemoryInfo*\", code: NotSupported)";
    for scenario in [
        format!("(gpus: [(name: \"NVIDIA GB10\")], processes: [{row}], faults: [{unsupported}])"),
        format!("(gpus: [(name: \"NVIDIA GB10\", total: 0)], processes: [{row}])"),
    ] {
        let snapshot = FakeDriver::new(&scenario).snapshot();
        let device = only_device(&snapshot);
        assert_eq!(device.nature, Some(Nature::SharedMemory));
        assert_eq!(device.memory.total_bytes, snapshot.host.memory_total_bytes);
        assert_eq!(device.memory.free_bytes, snapshot.host.memory_available_bytes);
        assert_eq!(device.unaccounted_bytes, Reading::Unsupported, "what is used is all programs'");
        assert_eq!(rows(device), [(sleeper.pid(), Some(Bytes::gib(1)))]);
    }
}

/// A laptop's second GPU in a made-up /sys.
fn power(status: &str) {
    let folder = devices().join("sys/bus/pci/devices/0000:01:00.0");
    std::fs::create_dir_all(folder.join("power")).unwrap();
    let files =
        [("vendor", "0x10de"), ("class", "0x030000"), ("power/runtime_status", status), ("power/control", "auto")];
    files.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).unwrap());
}

#[test]
fn a_suspended_gpu_is_not_woken_and_an_idle_one_is_released() {
    power("suspended");
    let driver = FakeDriver::new("(gpus: [()])");
    driver.count_calls();
    let mut at = sampler(&driver);
    assert!(unavailable(&at(0)).contains("sleeps to save power"));
    assert_eq!(driver.calls(), [""; 0], "asking would wake it");
    power("active");
    assert_eq!(at(1).devices.len(), 1, "somebody woke it");
    for second in 2..11 {
        at(second);
    }
    driver.count_calls();
    assert_eq!(at(11).devices.len(), 1, "the last reading stands");
    assert_eq!(driver.calls(), ["nvmlShutdown"], "an open driver keeps it awake");
    driver.count_calls();
    power("suspended");
    unavailable(&at(18));
    assert_eq!(driver.calls(), [""; 0]);
    power("active");
    let sleeper = Sleeper::start();
    driver.set_scenario(&format!("(gpus: [()], processes: [(gpu: 0, pid: {}, bytes: Some({GIB}))])", sleeper.pid()));
    assert!((19..60).all(|second| rows(only_device(&at(second))).len() == 1), "one that is used is read on");
}

/// A made-up /proc: the PID namespace, the kernel, and processes with their parents and open files.
fn machine_with(namespace: &str, kernel: &str, processes: &[(u32, u32, &str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in ["self/ns", "sys/kernel", "driver/nvidia/gpus/0000:01:00.0", "driver/nvidia/gpus/0000:02:00.0"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    std::os::unix::fs::symlink(namespace, root.path().join("self/ns/pid")).unwrap();
    std::fs::write(root.path().join("sys/kernel/osrelease"), kernel).unwrap();
    // The kernel numbers the GPUs in the reverse order of the driver.
    for (card, number) in [("0000:01:00.0", 1), ("0000:02:00.0", 0)] {
        let information = root.path().join("driver/nvidia/gpus").join(card).join("information");
        std::fs::write(information, format!("Model: \t Fake\nDevice Minor: \t {number}\n")).unwrap();
    }
    for (pid, parent, line, file) in processes {
        let folder = root.path().join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        std::os::unix::fs::symlink(file, folder.join("fd/3")).unwrap();
        let stat = format!("{pid} (job) S {parent} 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 {pid} 0");
        let status = format!("Tgid: {pid}\nUid: 7 7 7 7\n");
        let cmdline = line.replace(' ', "\0");
        for (name, text) in [("stat", stat), ("status", status), ("cmdline", cmdline), ("maps", String::new())] {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    root
}

const HOST: &str = "pid:[4026531836]";

#[test]
fn in_a_container_and_in_wsl_hidden_figures_come_with_a_reason() {
    let job = [(70, 1, "python train.py", "/dev/nvidia0")];
    let row = |bytes: &str| {
        format!("(gpu: 0, pid: 70, bytes: {bytes}, ghost: true), (gpu: 0, pid: 812345, bytes: {bytes}, ghost: true)")
    };
    let scenario = |bytes: &str| format!("(gpus: [(base: {})], processes: [{}])", 2 * GIB, row(bytes));
    let read = |namespace: &str, kernel: &str, bytes: &str| {
        let (root, driver) = (machine_with(namespace, kernel, &job), FakeDriver::new(&scenario(bytes)));
        Sampler::new(Some(driver.library()), Procfs::new(root.path())).snapshot_at(Moment::now())
    };
    let container = read("pid:[4026532999]", "6.8.0-45-generic", "Some(1073741824)");
    assert!(container.seen_from.contains(&Vantage::Container));
    let proved: Vec<_> = container.devices[0].processes.iter().map(|row| (row.pid, row.proved)).collect();
    assert_eq!(proved, [(70, true), (812_345, false)]);
    assert!(sight::of_unexplained(&container, &container.devices[0]).unwrap().contains("--pid=host"));
    assert!(sight::of_machine(&container).unwrap().contains("can't be ended from here"));
    let wsl = read(HOST, "5.15.153.1-microsoft-standard-WSL2", "None");
    assert!(wsl.seen_from.contains(&Vantage::Wsl));
    assert!(sight::of_machine(&wsl).unwrap().contains("Task Manager"));
    assert!(wsl.devices[0].processes.iter().all(|row| row.used_bytes == Reading::NotAvailable));
}

#[test]
fn in_a_container_a_pid_is_proved_by_the_device_file_of_the_gpu_that_lists_it() {
    let processes = [(70, 1, "python a.py", "/dev/nvidia3"), (71, 1, "python b.py", "/dev/nvidiactl")];
    let root = machine_with("pid:[4026532999]", "6.8.0", &processes);
    let row = |gpu: usize, pid: u32| format!("(gpu: {gpu}, pid: {pid}, bytes: Some(1073741824), ghost: true)");
    let proved = |gpus: &str, faults: &str| {
        let rows = [row(0, 70), row(0, 71), row(1, 70)].join(", ");
        let driver = FakeDriver::new(&format!("(gpus: [{gpus}], processes: [{rows}], faults: [{faults}])"));
        let snapshot = Sampler::new(Some(driver.library()), Procfs::new(root.path())).snapshot_at(Moment::now());
        let of = |device: &Device, pid: u32| device.processes.iter().find(|row| row.pid == pid).map(|row| row.proved);
        (of(&snapshot.devices[0], 70), of(&snapshot.devices[0], 71), of(&snapshot.devices[1], 70))
    };
    assert_eq!(proved("(minor: 3), (minor: 1)", ""), (Some(true), Some(false), Some(false)));
    assert_eq!(proved("(minor: 1), (minor: 3)", ""), (Some(false), Some(false), Some(true)));
    // A MIG instance is used through the device file of the whole GPU.
    assert_eq!(proved("(minor: 3, split: true), (instance_of: Some(0))", "").2, Some(true));
    assert_eq!(proved("(minor: 1, split: true), (instance_of: Some(0))", "").2, Some(false));
    // If the driver does not tell the device number, the kernel module does; the first GPU's bus address is 01:00.0.
    let untold = "(call: \"nvmlDeviceGetMinorNumber\", code: NotSupported)";
    assert_eq!(proved("(minor: 3), (minor: 3)", untold), (Some(false), Some(false), Some(false)));
    let of_the_module = root.path().join("driver/nvidia/gpus/0000:01:00.0/information");
    std::fs::write(of_the_module, "Device Minor: \t 3\n").unwrap();
    assert_eq!(proved("(minor: 9), (minor: 9)", untold), (Some(true), Some(false), Some(false)));
}

#[test]
fn the_gpus_of_an_unlisted_process_are_found_by_bus_address_not_by_device_number() {
    let processes = [(40, 1, "python eval.py", "/dev/nvidia0"), (41, 1, "python sweep.py", "/dev/nvidiactl")];
    let root = machine_with(HOST, "6.8.0", &processes);
    let driver = FakeDriver::new("(gpus: [(), ()])");
    let mut sampler = Sampler::new(Some(driver.library()), Procfs::new(root.path()));
    let holders = sampler.snapshot_at(Moment::now()).holders;
    let cards: Vec<_> = holders.iter().map(|holder| (holder.process.pid, holder.gpus.clone())).collect();
    assert_eq!(cards, [(40, vec![1]), (41, vec![])]);
}
