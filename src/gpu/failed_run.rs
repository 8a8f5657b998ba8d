//! Owns the machine as a failed run that is still alive leaves it: its VRAM counts as free, and the other processes of
//! its job are not to be ended. Pure.

use super::{Device, GpuProcess, Reading, Snapshot};

/// Said where a rank of the same job is asked about.
const SAME_JOB: &str = "a process of the job that failed";

/// A failed run among the processes of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    /// The driver's indices of the devices on which it has memory.
    pub devices: Vec<u32>,
    /// The command line of the launcher that started it with other ranks, such as `torchrun …`.
    pub launched_by: Option<String>,
}

impl Snapshot {
    /// The snapshot as it will be once the process `pid` has exited, and what that process is. `None` where it can't be
    /// told from the others: the driver lists processes under PIDs of another namespace.
    ///
    /// A failed Python process keeps its VRAM until its traceback is printed and it exits, and a notebook's kernel keeps
    /// it for longer, but the next try can use all of it.
    #[must_use]
    pub fn once_exited(&self, pid: u32) -> Option<(Snapshot, FailedRun)> {
        let rows: Vec<&GpuProcess> = self.devices.iter().flat_map(|device| &device.processes).collect();
        let run = rows.iter().find(|row| is_run(row, pid));
        if run.is_none() && rows.iter().any(|row| !row.proved) {
            return None;
        }
        let group = run.and_then(|run| run.group);
        let launcher = self.launchers.iter().find(|launcher| group.is_some() && launcher.key() == group);
        let launched_by = launcher.and_then(|row| row.command.known()).cloned();
        let used_by_run = self.devices.iter().filter(|device| device.processes.iter().any(|row| is_run(row, pid)));
        let devices = used_by_run.map(|device| device.index).collect();
        let mut after = self.clone();
        for device in &mut after.devices {
            free_vram_of(device, pid);
            for row in device.processes.iter_mut().filter(|row| row.group.is_some() && row.group == group) {
                row.protected.get_or_insert_with(|| SAME_JOB.to_owned());
            }
        }
        Some((after, FailedRun { devices, launched_by }))
    }
}

/// A PID that is not proved to be that process here may be another one's.
fn is_run(row: &GpuProcess, pid: u32) -> bool {
    row.pid == pid && row.proved
}

/// Removes the process, and counts its VRAM as free; what is free is unknown where its share is.
fn free_vram_of(device: &mut Device, pid: u32) {
    for row in device.processes.iter().filter(|row| is_run(row, pid)) {
        let memory = &mut device.memory;
        let known = (memory.free_bytes.value(), memory.used_bytes.value(), row.used_bytes.value());
        (memory.free_bytes, memory.used_bytes) = match known {
            (Some(free), Some(used), Some(freed)) => {
                (Reading::Known(free.plus(freed.min(used))), Reading::Known(used.less(freed)))
            }
            _ => (Reading::NotAvailable, Reading::NotAvailable),
        };
    }
    device.processes.retain(|row| !is_run(row, pid));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::ProcessKey;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::units::Bytes;

    fn machine(rows: Vec<GpuProcess>) -> Snapshot {
        Snapshot { devices: vec![device(0, rows), device(1, vec![])], ..snapshot(0) }
    }

    fn free(machine: &Snapshot) -> Option<Bytes> {
        machine.devices[0].memory.free_bytes.value()
    }

    #[test]
    fn the_vram_of_the_failed_run_counts_as_free_and_its_row_is_gone() {
        let (run, other) = (process(7, Bytes::gib(9)), process(8, Bytes::gib(4)));
        let (after, found) = machine(vec![run, other.clone()]).once_exited(7).unwrap();
        assert_eq!(free(&after), free(&machine(vec![other.clone()])));
        assert_eq!(after.devices[0].processes, vec![other].into());
        assert_eq!(found, FailedRun { devices: vec![0], launched_by: None });
    }

    #[test]
    fn a_run_without_vram_leaves_the_machine_as_it_is() {
        let here = machine(vec![process(8, Bytes::gib(4))]);
        let (after, found) = here.once_exited(7).unwrap();
        assert_eq!(after, here);
        assert_eq!(found, FailedRun { devices: vec![], launched_by: None });
    }

    #[test]
    fn free_vram_is_unknown_where_the_runs_share_is() {
        let mut run = process(7, Bytes::gib(9));
        run.used_bytes = Reading::NotAvailable;
        let (after, _) = machine(vec![run]).once_exited(7).unwrap();
        assert_eq!(free(&after), None);
    }

    #[test]
    fn a_run_is_not_looked_for_among_pids_of_another_namespace() {
        let mut foreign = process(7, Bytes::gib(9));
        foreign.proved = false;
        assert_eq!(machine(vec![foreign]).once_exited(7), None);
    }

    #[test]
    fn ranks_of_the_same_job_are_protected_and_their_launcher_is_named() {
        let key = ProcessKey { pid: 6, start_ticks: 6000 };
        let of_job = |pid: u32| GpuProcess { group: Some(key), ..process(pid, Bytes::gib(2)) };
        let launcher = GpuProcess { command: Reading::Known("torchrun train.py".into()), ..of_job(6) };
        let rows = vec![of_job(7), of_job(8), process(9, Bytes::gib(1))];
        let here = Snapshot { launchers: vec![launcher], ..machine(rows) };
        let (after, found) = here.once_exited(7).unwrap();
        let protected =
            |pid: u32| after.devices[0].processes.iter().find(|row| row.pid == pid).map(|row| row.protected.is_some());
        assert_eq!((protected(7), protected(8), protected(9)), (None, Some(true), Some(false)));
        assert_eq!(found.launched_by.as_deref(), Some("torchrun train.py"));
    }
}
