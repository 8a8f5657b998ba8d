//! GPUs of AMD and Intel by the kernel's files, with real processes: who is listed with which bytes, who is proved, and that
//! a process that is ended gives its memory back.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use oomdoctor::gpu::{Device, Driver, GpuProcess, Nature, Reading, Snapshot, Vendor};
use oomdoctor::units::Bytes;

use crate::support::drm::{DrmMachine, Gpu};
use crate::support::fake_driver::PATIENCE;
use crate::support::{ends_within, sample};

const RADEON: [(&str, &str); 8] = [
    ("product_name", "AMD Radeon RX 7900 XTX"),
    ("mem_info_vram_total", "25753026560\n"),
    ("mem_info_vram_used", "9663676416\n"),
    ("mem_info_gtt_total", "67108864000\n"),
    ("mem_info_gtt_used", "104857600\n"),
    ("gpu_busy_percent", "97\n"),
    ("hwmon/hwmon3/temp1_input", "61000\n"),
    ("hwmon/hwmon3/power1_average", "303000000\n"),
];

fn radeon(number: u32) -> Gpu<'static> {
    let address = ["0000:03:00.0", "0000:04:00.0", "0000:05:00.0"][number as usize];
    Gpu { number, driver: "amdgpu", address, files: &RADEON }
}

/// A process with a file open as its standard input.
struct User(Child);

impl User {
    fn of(machine: &DrmMachine, gpu: u32) -> User {
        let node = fs::File::open(machine.node(gpu)).unwrap();
        User(Command::new("sleep").arg("1000").stdin(node).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn uses(client: u32, address: &str, vram: &str) -> String {
    format!(
        "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t{address}\ndrm-resident-vram:\t{vram}\n\
         drm-resident-gtt:\t64 MiB\ndrm-memory-vram:\t1 KiB\namd-evicted-vram:\t2 GiB\n"
    )
}

fn row(device: &Device, pid: u32) -> &GpuProcess {
    device.processes.iter().find(|row| row.pid == pid).unwrap_or_else(|| panic!("{pid}: {:?}", device.processes))
}

fn only(snapshot: &Snapshot) -> &Device {
    let [device] = &snapshot.devices[..] else { panic!("{:?}", snapshot.devices) };
    device
}

#[test]
fn a_radeon_is_read_with_its_process() {
    let machine = DrmMachine::new(&[radeon(0)]);
    let user = User::of(&machine, 0);
    machine.says(user.pid(), 0, &uses(12, "0000:03:00.0", "8192 MiB"));
    let snapshot = machine.snapshot();
    let device = only(&snapshot);
    assert_eq!((device.index, device.vendor, device.nature), (0, Vendor::Amd, None));
    assert_eq!(device.name, Reading::Known("AMD Radeon RX 7900 XTX".into()));
    assert_eq!(device.bus_id, Reading::Known("0000:03:00.0".into()));
    assert_eq!(device.memory.free_bytes, Reading::Known(Bytes(25_753_026_560 - 9_663_676_416)));
    assert_eq!(device.utilization_percent.value(), Some(97));
    assert_eq!((device.temperature_celsius.value(), device.power_watts.value()), (Some(61), Some(303)));
    assert_eq!(device.shared_used_bytes, Some(Bytes::mib(100)));
    assert_eq!(device.unaccounted_bytes, Reading::Known(Bytes::gib(1)));
    let process = row(device, user.pid());
    assert_eq!((process.used_bytes.value(), process.proved), (Some(Bytes::gib(8)), true));
    assert_eq!((process.shared_bytes, process.spilled_bytes), (Some(Bytes::mib(64)), Some(Bytes::gib(2))));
    // The GPU is shown although NVIDIA's driver is missing.
    assert!(matches!(&snapshot.driver, Driver::Unavailable { unavailable } if unavailable.is_empty()));
    assert_eq!(snapshot.unavailable(), None);
    let output = machine.output(&["ps"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("AMD Radeon RX 7900 XTX") && text.contains("8.0 GiB"), "{text}");
}

#[test]
fn a_client_that_a_child_inherited_is_counted_once_and_the_parents() {
    let machine = DrmMachine::new(&[radeon(0)]);
    let node = fs::File::open(machine.node(0)).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<&0; sleep 1000 & echo $!; exec 1>&-; wait"]).stdin(node).stdout(Stdio::piped());
    let mut parent = shell.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let child: u32 = line.trim().parse().unwrap();
    // A shell gives what it starts in the background another standard input, but leaves the other descriptors.
    for pid in [parent.id(), child] {
        machine.says(pid, 3, &uses(12, "0000:03:00.0", "8192 MiB"));
    }
    let snapshot = machine.snapshot();
    let process = row(only(&snapshot), parent.id());
    assert_eq!(process.used_bytes.value(), Some(Bytes::gib(8)));
    assert_eq!(process.shared_with, [child]);
    assert_eq!(only(&snapshot).processes.len(), 1);
    parent.kill().unwrap();
    parent.wait().unwrap();
    let child = rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn one_client_number_on_two_gpus_is_two_clients() {
    let machine = DrmMachine::new(&[radeon(0), radeon(1)]);
    let users = [User::of(&machine, 0), User::of(&machine, 1)];
    machine.says(users[0].pid(), 0, &uses(7, "0000:03:00.0", "3 GiB"));
    machine.says(users[1].pid(), 0, &uses(7, "0000:04:00.0", "5 GiB"));
    let snapshot = machine.snapshot();
    let used = |gpu: usize| row(&snapshot.devices[gpu], users[gpu].pid()).used_bytes.value();
    assert_eq!((used(0), used(1)), (Some(Bytes::gib(3)), Some(Bytes::gib(5))));
    assert_eq!(snapshot.devices.iter().map(|device| device.index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_process_on_an_integrated_and_a_discrete_gpu_has_two_figures_and_no_sum() {
    let apu = Gpu {
        number: 1,
        driver: "amdgpu",
        address: "0000:c5:00.0",
        files: &[
            ("mem_info_vram_total", "536870912\n"),
            ("mem_info_vram_used", "5476352\n"),
            ("mem_info_gtt_total", "118111600640\n"),
            ("mem_info_gtt_used", "25864192000\n"),
            ("gpu_metrics", "ab\u{3}\u{1}"),
        ],
    };
    let machine = DrmMachine::new(&[radeon(0), apu]);
    let node = fs::File::open(machine.node(0)).unwrap();
    let other = fs::File::open(machine.node(1)).unwrap();
    let child = Command::new("sleep").arg("1000").stdin(node).stderr(other).spawn().unwrap();
    let user = User(child);
    machine.says(user.pid(), 0, &uses(7, "0000:03:00.0", "3 GiB"));
    machine.says(user.pid(), 2, &sample("05-amdgpu-apu-llm"));
    let snapshot = machine.snapshot();
    let [discrete, integrated] = &snapshot.devices[..] else { panic!("{snapshot:?}") };
    assert_eq!(integrated.nature, Some(Nature::Integrated));
    assert_eq!(integrated.memory.total_bytes, Reading::Known(Bytes(118_111_600_640)), "the pool, not the carve-out");
    let left = integrated.memory.free_bytes.value().unwrap();
    assert!(left <= snapshot.host.memory_available_bytes.value().unwrap(), "{left}");
    assert_eq!(row(integrated, user.pid()).used_bytes, Reading::Known(Bytes(25_258_000 << 10)));
    assert_eq!(row(discrete, user.pid()).used_bytes, Reading::Known(Bytes::gib(3)));
    let key = row(discrete, user.pid()).key().unwrap();
    assert_eq!(snapshot.held_by(key), Some(Bytes::gib(3)));
}

#[test]
fn a_discrete_card_with_more_gtt_than_vram_is_no_apu() {
    let machine = DrmMachine::new(&[radeon(0)]);
    machine.set("class/drm/card0/device/gpu_metrics", "ab\u{1}\u{3}");
    assert_eq!(only(&machine.snapshot()).nature, None);
}

/// ROCm calls GPU 0 4242, and these processes have so many bytes there.
fn with_rocm(machine: &DrmMachine, processes: &[(u32, u64)]) {
    let node = "class/kfd/kfd/topology/nodes";
    machine.set(&format!("{node}/0/gpu_id"), "0\n");
    machine.set(&format!("{node}/1/gpu_id"), "4242\n");
    machine.set(&format!("{node}/1/properties"), "cpu_cores_count 0\ndrm_render_minor 128\ndomain 0\n");
    machine.set(&format!("{node}/1/mem_banks/0/properties"), "heap_type 1\nsize_in_bytes 25753026560\n");
    for (pid, bytes) in processes {
        machine.set(&format!("class/kfd/kfd/proc/{pid}/vram_4242"), &format!("{bytes}\n"));
    }
}

/// In a container ROCm's PIDs are those of the host, and prove nobody.
fn is_initial_namespace() -> bool {
    oomdoctor::platform::linux::procfs::Procfs::default().in_initial_pid_namespace()
}

#[test]
fn a_row_of_rocm_needs_a_living_process_with_that_card_open() {
    let machine = DrmMachine::new(&[radeon(0), radeon(1)]);
    let [user, elsewhere] = [User::of(&machine, 0), User::of(&machine, 1)];
    let opened_once = User::of(&machine, 0);
    let gone = 4_000_001;
    with_rocm(&machine, &[(user.pid(), 8 << 30), (elsewhere.pid(), 4 << 30), (gone, 2 << 30), (opened_once.pid(), 0)]);
    let snapshot = machine.snapshot();
    let device = &snapshot.devices[0];
    assert_eq!(device.ordinal, Some(0));
    assert_eq!(row(device, user.pid()).used_bytes, Reading::Known(Bytes::gib(8)));
    assert_eq!(row(device, user.pid()).proved, is_initial_namespace());
    assert!(device.processes.iter().all(|row| row.pid != opened_once.pid()), "0 bytes are nobody");
    for pid in [elsewhere.pid(), gone] {
        let row = row(device, pid);
        assert!(!row.proved && row.key().is_none(), "{row:?}");
        if is_initial_namespace() {
            assert_eq!(row.recognised_as.as_deref(), Some("memory of an exited process"));
        }
        let refused = machine.output(&["kill", "--yes", &pid.to_string()]);
        assert!(!refused.status.success());
    }
    assert!(!ends_within(elsewhere.pid(), std::time::Duration::ZERO), "another card's node proves nothing");
}

#[test]
fn open_files_and_rocm_are_never_added() {
    let machine = DrmMachine::new(&[radeon(0)]);
    let user = User::of(&machine, 0);
    with_rocm(&machine, &[(user.pid(), 7 << 30)]);
    machine.says(user.pid(), 0, &uses(12, "0000:03:00.0", "8192 MiB"));
    let snapshot = machine.snapshot();
    assert_eq!(only(&snapshot).processes.len(), 1);
    assert_eq!(row(only(&snapshot), user.pid()).used_bytes, Reading::Known(Bytes::gib(8)));
}

#[test]
fn a_gpu_that_sleeps_is_not_woken_and_its_use_is_unknown() {
    let machine = DrmMachine::new(&[radeon(0)]);
    machine.set("class/drm/card0/device/power/runtime_status", "suspended\n");
    let user = User::of(&machine, 0);
    machine.says(user.pid(), 0, &uses(12, "0000:03:00.0", "8192 MiB"));
    let snapshot = machine.snapshot();
    let device = only(&snapshot);
    assert!(device.asleep && device.processes.is_empty());
    assert_eq!(device.memory.total_bytes, Reading::Known(Bytes(25_753_026_560)), "reading it wakes nothing");
    assert_eq!((&device.utilization_percent, &device.power_watts), (&Reading::NotAvailable, &Reading::NotAvailable));
}

#[test]
fn intels_memory_is_that_of_the_control_groups_or_the_machines() {
    let [arc, integrated] = [
        Gpu { number: 1, driver: "xe", address: "0000:03:00.0", files: &[] },
        Gpu { number: 0, driver: "i915", address: "0000:00:02.0", files: &[] },
    ];
    let machine = DrmMachine::new(&[arc, integrated]);
    machine.set("fs/cgroup/dmem.capacity", "drm/0000:03:00.0/vram0 17179869184\n");
    let [user, other] = [User::of(&machine, 1), User::of(&machine, 0)];
    machine.says(user.pid(), 0, &sample("12-xe-b70-7.1"));
    machine.says(other.pid(), 0, &sample("10-i915-igpu"));
    let snapshot = machine.snapshot();
    let [integrated, arc] = &snapshot.devices[..] else { panic!("{snapshot:?}") };
    assert_eq!((arc.vendor, arc.memory.total_bytes.value()), (Vendor::Intel, Some(Bytes::gib(16))));
    let process = row(arc, user.pid());
    assert_eq!((process.used_bytes.value(), process.shared_bytes), (Some(Bytes::mib(16_000)), Some(Bytes::mib(2))));
    // Only if every process could be seen is what they use what the GPU has in use.
    let used = if snapshot.unseen_processes == 0 { Reading::Known(Bytes::mib(16_000)) } else { Reading::Denied };
    assert_eq!(arc.memory.used_bytes, used);
    assert_eq!(integrated.nature, Some(Nature::SharedMemory));
    assert_eq!(integrated.memory.total_bytes, snapshot.host.memory_total_bytes);
    assert_eq!(row(integrated, other.pid()).used_bytes, Reading::Known(Bytes((81_920 << 10) + 1_048_577)));
}

#[test]
fn an_i915_without_figures_is_unknown_and_not_zero() {
    let machine = DrmMachine::new(&[Gpu { number: 0, driver: "i915", address: "0000:00:02.0", files: &[] }]);
    let user = User::of(&machine, 0);
    machine.says(user.pid(), 0, &sample("07-i915-before-memory"));
    let snapshot = machine.snapshot();
    assert_eq!(row(only(&snapshot), user.pid()).used_bytes, Reading::Unsupported);
}

#[test]
fn a_process_that_is_ended_gives_its_memory_back() {
    let machine = DrmMachine::new(&[radeon(0)]);
    let used = machine.sys("class/drm/card0/device/mem_info_vram_used");
    // The shell stands for the kernel, which counts the memory as free once the process is gone.
    let script = format!(
        "sleep 1000 <{} >/dev/null & echo $!; exec >&-; wait; echo 1073741824 >{used}.new; mv {used}.new {used}",
        machine.node(0).display(),
        used = used.display(),
    );
    let mut shell = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    machine.says(pid, 0, &uses(12, "0000:03:00.0", "8192 MiB"));
    let before = machine.snapshot();
    let process = row(only(&before), pid);
    assert_eq!((process.used_bytes.value(), process.proved), (Some(Bytes::gib(8)), true));
    let key = process.key().unwrap();
    let output = machine.output(&["kill", "--yes", &key.to_string()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("8.0 GiB"), "{said}");
    assert!(ends_within(pid, PATIENCE));
    shell.wait().unwrap();
    let after = machine.snapshot();
    assert!(only(&after).processes.is_empty());
    assert_eq!(only(&after).memory.used_bytes, Reading::Known(Bytes::gib(1)));
}

/// Two equal GPUs that ROCm counts the other way round; the first in the order of the bus is full.
fn with_rocms_own_order() -> DrmMachine {
    let machine = DrmMachine::new(&[radeon(0), radeon(1)]);
    let nodes = "class/kfd/kfd/topology/nodes";
    for (node, gpu_id, minor) in [(1, 11, 129), (2, 22, 128)] {
        machine.set(&format!("{nodes}/{node}/gpu_id"), &format!("{gpu_id}\n"));
        machine.set(&format!("{nodes}/{node}/properties"), &format!("drm_render_minor {minor}\n"));
    }
    machine.set("class/drm/card0/device/mem_info_vram_used", "21474836480\n");
    machine.set("class/drm/card1/device/mem_info_vram_used", "20971520\n");
    machine.set("class/drm/card1/device/gpu_busy_percent", "0\n");
    machine
}

#[test]
fn a_rocm_log_is_matched_by_rocms_numbers_and_its_step_has_rocms_variable() {
    let machine = with_rocms_own_order();
    let user = User::of(&machine, 0);
    machine.says(user.pid(), 0, &uses(12, "0000:03:00.0", "16384 MiB"));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.txt");
    let text = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 8.00 GiB. GPU 1 has a total capacity of \
        23.98 GiB of which 3.98 GiB is free. Of the allocated memory 100.00 MiB is allocated by PyTorch, and 20.00 MiB is \
        reserved by PyTorch but unallocated.\n";
    fs::write(&log, text).unwrap();
    let output = machine.output(&["diagnose", "--json", log.to_str().unwrap()]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["ledger"]["device"], 0, "ROCm's GPU 1 is the first on the bus");
    let commands = told["plan"].as_array().unwrap().iter().flat_map(|fix| fix["steps"].as_array().unwrap());
    let commands: Vec<&str> = commands.filter_map(|step| step["command"].as_str()).collect();
    assert!(commands.iter().any(|command| command.contains("HIP_VISIBLE_DEVICES=0")), "{commands:?}");
    assert!(!commands.iter().any(|command| command.contains("CUDA_VISIBLE_DEVICES")), "{commands:?}");
}

#[test]
fn a_fit_names_the_gpu_as_its_maker_counts_it() {
    let machine = with_rocms_own_order();
    let output = machine.output(&["fit", "llama-3.1-8b", "--engine", "vllm"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("HIP_VISIBLE_DEVICES=0") && !said.contains("CUDA_"), "{said}");
    let arcs = ["0000:03:00.0", "0000:04:00.0"].iter().zip(0..);
    let arcs: Vec<Gpu<'_>> = arcs.map(|(address, number)| Gpu { number, driver: "xe", address, files: &[] }).collect();
    let machine = DrmMachine::new(&arcs);
    machine.set("fs/cgroup/dmem.capacity", "drm/0000:03:00.0/vram0 8589934592\ndrm/0000:04:00.0/vram0 25769803776\n");
    let ordinals: Vec<Option<u32>> = machine.snapshot().devices.iter().map(|device| device.ordinal).collect();
    assert_eq!(ordinals, [Some(0), Some(1)]);
}

#[test]
fn what_no_hardware_has_confirmed_is_said_once_and_not_of_nvidia() {
    let machine = DrmMachine::new(&[radeon(0), radeon(1)]);
    let users = [User::of(&machine, 0), User::of(&machine, 1)];
    machine.says(users[0].pid(), 0, &uses(7, "0000:03:00.0", "3 GiB"));
    machine.says(users[1].pid(), 0, &uses(7, "0000:04:00.0", "5 GiB"));
    let text = String::from_utf8(machine.output(&["ps"]).stdout).unwrap();
    assert_eq!(text.matches("not tried on hardware").count(), 1, "{text}");
    assert!(text.contains("2.0 GiB moved out of VRAM") && text.contains("slow, not failed"), "{text}");
    assert!(text.contains("100 MiB of 62.5 GiB system memory (GTT)"), "{text}");
}

#[test]
fn a_recording_to_give_away_has_no_names_and_can_be_read_again() {
    let machine = DrmMachine::new(&[radeon(0)]);
    let user = User::of(&machine, 0);
    machine.says(user.pid(), 0, &uses(12, "0000:03:00.0", "8192 MiB"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amd.jsonl");
    let arguments = ["sample", "--count", "1", "--record", path.to_str().unwrap()];
    let output = machine.output(&arguments);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().contains("\"boot_id\":null"));
    let snapshot: Snapshot = serde_json::from_str(lines.next().unwrap()).unwrap();
    let process = row(only(&snapshot), user.pid());
    assert_eq!(
        (process.used_bytes.value(), process.command.known().unwrap().as_str()),
        (Some(Bytes::gib(8)), "program-1")
    );
    assert_eq!((snapshot.host.name.as_str(), process.user.known().unwrap().as_str()), ("host", "user-1"));
    let again = machine.output(&arguments);
    assert!(!again.status.success(), "what is there is not overwritten");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// A `powershell.exe` first on the PATH that prints this.
fn windows_says(folder: &std::path::Path, script: &str) -> std::ffi::OsString {
    use std::os::unix::fs::PermissionsExt;
    let program = folder.join("powershell.exe");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = folder.as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    path
}

#[test]
fn windows_is_asked_only_with_the_option_and_its_processes_are_marked() {
    let machine = DrmMachine::new(&[radeon(0)]);
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("asked");
    let script = format!(
        "echo asked >{}; printf 'Hello\\r\\nmemory|pid_77_luid_0x0_0xD1_phys_0|6442450944|3221225472\\r\\nprocess|77|game\\r\\n'",
        asked.display()
    );
    let path = windows_says(folder.path(), &script);
    let ps = |arguments: &[&str]| {
        let mut command = machine.oomdoctor(arguments);
        String::from_utf8(command.env("PATH", &path).output().unwrap().stdout).unwrap()
    };
    let text = ps(&["ps"]);
    assert!(!text.contains("Windows") && !asked.exists(), "{text}");
    let text = ps(&["ps", "--windows"]);
    assert!(text.contains("Windows' processes, VRAM: game (77) 6.0 GiB"), "{text}");
    assert!(text.contains("3.0 GiB of GPU memory in system memory") && text.contains("slow, not failed"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&ps(&["ps", "--windows", "--json"])).unwrap();
    assert_eq!(json["windows"]["processes"][0]["pid"], 77);
    windows_says(folder.path(), "head -c 3000 /dev/urandom");
    assert!(ps(&["ps", "--windows"]).contains("Windows' processes are unknown"));
    fs::remove_file(folder.path().join("powershell.exe")).unwrap();
    assert!(ps(&["ps", "--windows"]).contains("powershell.exe is not on PATH"));
}
