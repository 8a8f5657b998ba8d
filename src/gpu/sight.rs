//! Owns what is said of memory and cards that can't be seen whole from here: why, and the way to see more. Said only
//! where something is really missing. The commands were looked up in their manuals on 2026-11-21: docker run (--pid),
//! kubectl debug, srun (--jobid, --overlap, --pty), fuser(1), nvidia-smi.

use super::windows::WindowsReading;
use super::{Device, Driver, GpuProcess, Nature, Reading, Snapshot, Vantage, Vendor};
use crate::units::Bytes;

/// Less unattributed VRAM than this is normal: the driver's contexts, a console.
const MATTERS: Bytes = Bytes::mib(256);

/// The unattributed VRAM of a device, if it is worth mentioning.
pub fn unexplained(device: &Device) -> Option<Bytes> {
    device.unaccounted_bytes.value().filter(|bytes| *bytes >= MATTERS && device.error.is_none())
}

/// What is special about a device, and why some of it is not shown.
pub fn of_device(snapshot: &Snapshot, device: &Device) -> Option<String> {
    if device.error.is_some() {
        return None;
    }
    if device.asleep {
        return Some("Asleep: not woken to be read, so its processes are unknown.".into());
    }
    Some(match device.nature? {
        Nature::Split if snapshot.devices.iter().any(|other| other.nature == Some(Nature::MigInstance)) => {
            "Split into instances (MIG): each is a card of its own here, with its memory and processes.".into()
        }
        Nature::Split => "Split into instances (MIG) that can't be seen from here: `nvidia-smi -L` lists them, `sudo \
             nvidia-smi` shows who uses them."
            .into(),
        Nature::MigInstance | Nature::Unknown => return None,
        Nature::VirtualShare => {
            "A virtual machine's share of a GPU (vGPU): only the host sees what else uses the GPU (run `nvidia-smi vgpu` \
             there)."
                .into()
        }
        Nature::Integrated => {
            "Has no memory of its own: the total is how much of the system memory it may use, and free is what both leave."
                .into()
        }
        Nature::SharedMemory if !device.processes.is_empty() => {
            "Shares the machine's memory: these figures count all programs, on the GPU or not.".into()
        }
        Nature::SharedMemory => {
            "Shares the machine's memory: these figures count all programs, on the GPU or not. The driver \
             lists nobody here: `top` shows who has memory."
                .into()
        }
    })
}

/// Memory that a full GPU had moved out of its VRAM, which the kernel's driver tells.
fn of_spilled(device: &Device) -> Option<String> {
    let spilled = device.processes.iter().filter_map(|row| Some((row.spilled_bytes?, row.pid)));
    let (most, pid) = spilled.max().filter(|(bytes, _)| *bytes >= MATTERS)?;
    Some(format!("{most} of PID {pid} was moved from VRAM to system memory because VRAM was full: slow, not failed."))
}

/// What a process has beside its figure: memory out of VRAM, the system memory that it uses through the GPU, and others who
/// have the same memory open.
pub fn of_memory(row: &GpuProcess) -> Option<String> {
    let spilled = row.spilled_bytes.filter(|bytes| *bytes >= MATTERS);
    let spilled = spilled.map(|bytes| format!("{bytes} moved out of VRAM"));
    let shared = row.shared_bytes.filter(|bytes| *bytes >= MATTERS && spilled.is_none());
    let shared = shared.map(|bytes| format!("and {bytes} system memory"));
    let with: Vec<String> = row.shared_with.iter().take(3).map(u32::to_string).collect();
    let more = if row.shared_with.len() > with.len() { ", …" } else { "" };
    let with = if with.is_empty() { None } else { Some(format!("shared with {}{more}", with.join(", "))) };
    let parts: Vec<String> = [spilled, shared, with].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The makers whose figures no real GPU has confirmed yet, of those here.
pub fn untried(snapshot: &Snapshot) -> Option<&'static str> {
    match (has_gpu_of(Vendor::Amd, snapshot), has_gpu_of(Vendor::Intel, snapshot)) {
        (true, true) => Some("AMD and Intel"),
        (true, false) => Some("AMD"),
        (false, true) => Some("Intel"),
        (false, false) => None,
    }
}

fn has_gpu_of(vendor: Vendor, snapshot: &Snapshot) -> bool {
    snapshot.devices.iter().any(|device| device.vendor == vendor)
}

/// Why VRAM on this device is unattributed, and how to find out who uses it.
pub fn of_unexplained(snapshot: &Snapshot, device: &Device) -> Option<String> {
    let bytes = unexplained(device)?;
    if snapshot.seen_from.contains(&Vantage::Wsl) {
        return None;
    }
    if snapshot.seen_from.contains(&Vantage::Kubernetes) {
        return Some(format!(
            "{bytes} may be another pod's: whoever runs the cluster sees it with `kubectl debug node/NODE -it \
             --image=IMAGE --profile=sysadmin -- chroot /host nvidia-smi`."
        ));
    }
    if snapshot.seen_from.contains(&Vantage::Container) {
        return Some(format!(
            "{bytes} may be in use outside this container: run oomdoctor on the host, or start the container with `docker run \
             --pid=host --gpus all`."
        ));
    }
    match snapshot.unseen_processes {
        0 => None,
        _ if device.vendor != Vendor::Nvidia => Some(
            "Other users' processes can't be looked at: `sudo oomdoctor` or `sudo fuser -v /dev/dri/*` shows whether they \
             use it."
                .into(),
        ),
        _ => Some(
            "Other users' processes can't be looked at: `sudo oomdoctor` or `sudo fuser -v /dev/nvidia*` shows whether they \
             use it."
                .into(),
        ),
    }
}

/// What can't be seen from here: of a GPU, by its index, or of all of them. What is so of several GPUs is said once.
pub fn remarks(snapshot: &Snapshot) -> Vec<(Option<u32>, String)> {
    let of_gpus = snapshot.devices.iter().flat_map(|device| {
        let texts = [of_device(snapshot, device), of_spilled(device), of_unexplained(snapshot, device)];
        texts.into_iter().flatten().map(|text| (Some(device.index), text))
    });
    let mut remarks: Vec<(Option<u32>, String)> = Vec::new();
    for (index, text) in of_gpus {
        match remarks.iter_mut().find(|(_, said)| *said == text) {
            Some((of, _)) => *of = None,
            None => remarks.push((index, text)),
        }
    }
    // Those of all GPUs come last.
    remarks.sort_by_key(|(index, _)| index.is_none());
    remarks.extend(of_machine(snapshot).map(|text| (None, text)));
    remarks.extend(of_driver(snapshot).map(|text| (None, text)));
    remarks.extend(snapshot.windows.iter().flat_map(WindowsReading::remarks).map(|text| (None, text)));
    remarks
}

/// Why NVIDIA's GPUs are missing beside others.
fn of_driver(snapshot: &Snapshot) -> Option<String> {
    match &snapshot.driver {
        Driver::Unavailable { unavailable } if !unavailable.is_empty() && !snapshot.devices.is_empty() => {
            Some(format!("NVIDIA: {unavailable}."))
        }
        Driver::Unavailable { .. } | Driver::Available { .. } => None,
    }
}

/// What narrows the view of the whole machine.
pub fn of_machine(snapshot: &Snapshot) -> Option<String> {
    snapshot.seen_from.iter().find_map(|vantage| of_vantage(snapshot, vantage))
}

fn of_vantage(snapshot: &Snapshot, vantage: &Vantage) -> Option<String> {
    let mut rows = snapshot.devices.iter().flat_map(|device| &device.processes);
    match vantage {
        Vantage::Wsl => {
            let has_figures = rows.any(|row| row.used_bytes.known().is_some());
            let text = "WSL2: Windows' driver tells no process's memory here. Windows' Task Manager does: Details, column \
                 Dedicated GPU memory. Or start oomdoctor with --windows.";
            let is_asked = snapshot.windows.is_some();
            (!has_figures && !is_asked && !snapshot.devices.is_empty()).then(|| text.to_owned())
        }
        Vantage::Container | Vantage::Kubernetes => {
            let text = "This is a container: processes outside it have no name here and can't be ended from here.";
            rows.any(|row| !row.proved).then(|| text.to_owned())
        }
        Vantage::SlurmJob(job) => {
            let is_any_closed = snapshot.devices.iter().any(|device| device.error.is_some());
            is_any_closed.then(|| format!("Inside Slurm job {job} only its own cards may be opened."))
        }
        Vantage::SlurmLogin => snapshot.unavailable().is_some().then(|| {
            "The cluster's GPUs are on other nodes: `srun --jobid=J --overlap --pty oomdoctor` runs inside your job J; `squeue --me` lists them."
                .to_owned()
        }),
        Vantage::Windows | Vantage::Macos | Vantage::Scheduler(_) | Vantage::Other(_) => None,
    }
}

/// What a process is to the multi-process service (MPS), if anything.
pub fn of_service(row: &GpuProcess) -> Option<&'static str> {
    let command = row.command.known().map_or("", String::as_str);
    if command.starts_with("nvidia-cuda-mps-server") || command.contains("/nvidia-cuda-mps-server") {
        return Some("serves MPS clients");
    }
    (row.kind == super::ProcessKind::Mps).then_some("MPS client")
}

/// The machine's memory as that of a board without its own; `None` if it has its own, or if that is unknown.
pub fn shared_memory(device: &Device, host: &super::Host) -> Option<super::DeviceMemory> {
    let no_total = matches!(device.memory.total_bytes, Reading::Unsupported | Reading::NotAvailable);
    if !no_total || device.error.is_some() {
        return None;
    }
    let total = host.memory_total_bytes.value()?;
    let available = host.memory_available_bytes.value()?;
    Some(super::DeviceMemory {
        total_bytes: Reading::Known(total),
        reserved_bytes: Reading::Unsupported,
        used_bytes: Reading::Known(total.less(available)),
        free_bytes: Reading::Known(available),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};

    fn machine(unaccounted: Bytes, seen_from: Vec<Vantage>) -> Snapshot {
        let mut card = device(0, vec![process(7, Bytes::gib(1))]);
        card.unaccounted_bytes = Reading::Known(unaccounted);
        Snapshot { devices: vec![card], seen_from, ..snapshot(0) }
    }

    fn said(now: &Snapshot) -> String {
        of_unexplained(now, &now.devices[0]).unwrap_or_default()
    }

    #[test]
    fn root_is_asked_for_only_where_memory_is_unexplained_and_somebody_is_not_seen() {
        let mut now = machine(Bytes::gib(9), vec![]);
        assert_eq!(said(&now), "", "everybody was looked at");
        now.unseen_processes = 3;
        assert!(said(&now).contains("sudo fuser -v /dev/nvidia*"), "{}", said(&now));
        now.devices[0].unaccounted_bytes = Reading::Known(Bytes::mib(200));
        assert_eq!(said(&now), "", "a little is a driver's everyday life");
        now.devices[0].unaccounted_bytes = Reading::Denied;
        assert_eq!(said(&now), "");
    }

    #[test]
    fn each_place_has_its_own_way_to_see_more() {
        assert!(said(&machine(Bytes::gib(9), vec![Vantage::Container])).contains("--pid=host --gpus all"));
        assert!(said(&machine(Bytes::gib(9), vec![Vantage::Kubernetes])).contains("--profile=sysadmin"));
        assert_eq!(said(&machine(Bytes::ZERO, vec![Vantage::Container])), "");
        assert_eq!(of_machine(&machine(Bytes::ZERO, vec![Vantage::Container])), None, "all that is listed is known");
        let mut hidden = machine(Bytes::ZERO, vec![Vantage::Container]);
        hidden.devices[0].processes[0].proved = false;
        assert!(of_machine(&hidden).unwrap().contains("can't be ended from here"));
        let mut login = machine(Bytes::ZERO, vec![Vantage::SlurmLogin]);
        assert_eq!(of_machine(&login), None);
        login.driver = Driver::Unavailable { unavailable: "no driver".into() };
        login.devices.clear();
        assert!(of_machine(&login).unwrap().contains("srun --jobid=J --overlap --pty oomdoctor"));
        let mut wsl = machine(Bytes::gib(9), vec![Vantage::Wsl]);
        assert_eq!(of_machine(&wsl), None, "a driver that tells figures");
        wsl.devices[0].processes[0].used_bytes = Reading::NotAvailable;
        assert!(of_machine(&wsl).unwrap().contains("Task Manager"));
    }

    #[test]
    fn a_board_without_memory_of_its_own_has_the_machines() {
        let now = snapshot(0);
        let mut board = device(0, vec![]);
        assert_eq!(shared_memory(&board, &now.host), None);
        board.memory.total_bytes = Reading::Unsupported;
        let memory = shared_memory(&board, &now.host).unwrap();
        assert_eq!(
            (memory.total_bytes, memory.free_bytes),
            (Reading::Known(Bytes::gib(125)), Reading::Known(Bytes::gib(84)))
        );
        board.error = Some("GPU is lost".into());
        assert_eq!(shared_memory(&board, &now.host), None);
    }

    #[test]
    fn memory_that_was_moved_out_of_vram_and_a_gpu_that_sleeps_are_said() {
        let mut now = machine(Bytes::ZERO, vec![]);
        assert_eq!((remarks(&now), untried(&now)), (vec![], None));
        let row = &mut now.devices[0].processes[0];
        row.spilled_bytes = Some(Bytes::mib(2));
        assert_eq!(of_memory(row), None, "a little is everyday life");
        (row.spilled_bytes, row.shared_with) = (Some(Bytes::gib(2)), vec![9]);
        assert_eq!(of_memory(row).as_deref(), Some("2.0 GiB moved out of VRAM, shared with 9"));
        assert!(remarks(&now)[0].1.contains("2.0 GiB of PID 7") && remarks(&now)[0].1.contains("slow"));
        (now.devices[0].asleep, now.devices[0].vendor) = (true, Vendor::Amd);
        assert!(remarks(&now)[0].1.contains("Asleep"));
        assert_eq!(untried(&now), Some("AMD"));
    }

    #[test]
    fn what_is_so_of_several_gpus_is_said_once() {
        let mut now = machine(Bytes::gib(9), vec![]);
        now.unseen_processes = 3;
        now.devices.push(now.devices[0].clone());
        now.devices[1].index = 1;
        assert_eq!(remarks(&now), [(None, said(&now))]);
        now.devices.pop();
        assert_eq!(remarks(&now), [(Some(0), said(&now))]);
    }
}
