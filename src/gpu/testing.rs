//! Owns the machines that tests of the domain, the app and the screen are written against.

use super::*;

/// A moment so many seconds after the tests' noon.
pub(crate) fn noon_plus(second: i64) -> WallTime {
    WallTime(jiff::Timestamp::from_second(1_795_176_000 + second).unwrap())
}

/// A process of user 1000 on a device, started an hour before noon, its start ticks a thousand times its PID.
pub(crate) fn process(pid: u32, used: Bytes) -> GpuProcess {
    GpuProcess {
        pid,
        kind: ProcessKind::Compute,
        container: None,
        managed_by: None,
        recognised_as: None,
        protected: None,
        server_command: None,
        proved: true,
        group: None,
        image: None,
        start_ticks: Reading::Known(u64::from(pid) * 1000),
        started_at: Reading::Known(noon_plus(-3600)),
        used_bytes: Reading::Known(used),
        sm_percent: Reading::Known(0),
        uid: Reading::Known(1000),
        user: Reading::Known("ada".into()),
        command: Reading::Known("python train.py".into()),
        parent_pid: Reading::Known(900),
        session: Reading::Known(800),
        state: Reading::Known('S'),
        cpu_ticks: Reading::Known(10),
        shared_bytes: None,
        spilled_bytes: None,
        shared_with: vec![],
    }
}

/// A 24 GiB card with 0.4 GiB reserved and these processes.
pub(crate) fn device(index: u32, processes: Vec<GpuProcess>) -> Device {
    let processes = Rows::from(processes);
    let used = processes.iter().filter_map(|row| row.used_bytes.value()).fold(Bytes::mib(200), Bytes::plus);
    let total = Bytes::gib(24);
    let reserved = Bytes::mib(410);
    let (unaccounted_bytes, unaccounted_includes_unknown_rows) =
        accounts::unaccounted(&Reading::Known(used), &processes);
    Device {
        index,
        error: None,
        memory: DeviceMemory {
            total_bytes: Reading::Known(total),
            reserved_bytes: Reading::Known(reserved),
            used_bytes: Reading::Known(used),
            free_bytes: Reading::Known(total.less(reserved).less(used)),
        },
        unaccounted_includes_unknown_rows,
        processes,
        nature: None,
        uuid: Reading::Known(format!("GPU-0000000{index}-aaaa-bbbb-cccc-dddddddddddd")),
        bus_id: Reading::Known(format!("00000000:0{index}:00.0")),
        name: Reading::Known("NVIDIA GeForce RTX 4090".into()),
        unaccounted_bytes,
        utilization_percent: Reading::Known(0),
        temperature_celsius: Reading::Known(45),
        power_watts: Reading::Known(30),
        vendor: Vendor::Nvidia,
        kernel_driver: None,
        ordinal: None,
        asleep: false,
        shared_total_bytes: None,
        shared_used_bytes: None,
    }
}

/// One empty card, so many seconds after noon.
pub(crate) fn snapshot(second: i64) -> Snapshot {
    Snapshot {
        taken_at: noon_plus(second),
        host: Host {
            name: "gpu-box".into(),
            memory_total_bytes: Reading::Known(Bytes::gib(125)),
            memory_available_bytes: Reading::Known(Bytes::gib(84)),
            swap_total_bytes: Reading::Known(Bytes::gib(8)),
            swap_free_bytes: Reading::Known(Bytes::gib(8)),
        },
        driver: Driver::Available { version: "570.124.06".into(), cuda_version: Some("12.8".into()) },
        devices: vec![device(0, vec![])],
        holders: vec![],
        launchers: vec![],
        unseen_processes: 0,
        seen_from: vec![],
        windows: None,
    }
}
