//! Owns a recording that may be given away: the figures stay, and names of people, machines, programs and containers become
//! numbers, the same one for the same name throughout. Pure.

use std::collections::BTreeMap;

use super::{Driver, GpuProcess, Header, Reading, Snapshot, Vantage};

/// What each name has become so far.
#[derive(Debug, Default)]
pub struct Anonymous {
    users: BTreeMap<String, usize>,
    uids: BTreeMap<u32, u32>,
    programs: BTreeMap<String, usize>,
    containers: BTreeMap<String, usize>,
}

/// The number of a name, counted from 1.
fn number(known: &mut BTreeMap<String, usize>, name: &str) -> usize {
    let next = known.len() + 1;
    *known.entry(name.to_owned()).or_insert(next)
}

impl Anonymous {
    /// Without what identifies the machine.
    pub fn header(header: Header) -> Header {
        Header { boot_id: None, ..header }
    }

    /// The same figures without names.
    pub fn snapshot(&mut self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.host.name = "host".to_owned();
        // A reason may name a file in somebody's home folder.
        if let Driver::Unavailable { unavailable } = &mut snapshot.driver
            && unavailable.contains('/')
        {
            *unavailable = "no driver".to_owned();
        }
        for device in &mut snapshot.devices {
            if device.uuid.known().is_some() {
                device.uuid = Reading::Known(format!("GPU-00000000-0000-0000-0000-{:012}", device.index));
            }
            device.processes.iter_mut().for_each(|row| self.hide(row));
        }
        snapshot.launchers.iter_mut().for_each(|row| self.hide(row));
        snapshot.holders.iter_mut().for_each(|holder| self.hide(&mut holder.process));
        for vantage in &mut snapshot.seen_from {
            if let Vantage::SlurmJob(job) = vantage {
                *job = "1".to_owned();
            }
        }
        snapshot.seen_from.retain(|vantage| !matches!(vantage, Vantage::Other(_)));
        let of_windows = snapshot.windows.iter_mut().flat_map(|windows| &mut windows.processes);
        for process in of_windows {
            let is_wsl = process.name.as_deref().is_some_and(|name| name.starts_with("vmmem"));
            if !is_wsl && let Some(name) = &mut process.name {
                *name = format!("program-{}", number(&mut self.programs, name));
            }
        }
        snapshot
    }

    fn hide(&mut self, row: &mut GpuProcess) {
        if let Reading::Known(user) = &mut row.user {
            *user = format!("user-{}", number(&mut self.users, user));
        }
        if let Reading::Known(uid) = &mut row.uid
            && *uid != 0
        {
            let next = 1001 + u32::try_from(self.uids.len()).unwrap_or(0);
            *uid = *self.uids.entry(*uid).or_insert(next);
        }
        if let Reading::Known(command) = &mut row.command {
            *command = format!("program-{}", number(&mut self.programs, command));
        }
        if let Some(container) = &mut row.container {
            *container = format!("container-{}", number(&mut self.containers, container));
        }
        if let Some(protected) = &mut row.protected {
            *protected = "protected".to_owned();
        }
        (row.recognised_as, row.managed_by, row.server_command, row.image) = (None, None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::units::Bytes;

    #[test]
    fn no_name_is_left_and_the_figures_are() {
        let mut row = process(7, Bytes::gib(3));
        row.user = Reading::Known("ada".into());
        row.command = Reading::Known("/home/ada/env/bin/python secret.py --token x".into());
        row.recognised_as = Some("python secret.py".into());
        row.container = Some("adas-lab".into());
        row.managed_by = Some("service:ada.service".into());
        row.server_command = Some("ada serve".into());
        let other = GpuProcess { pid: 8, ..row.clone() };
        let mut now = snapshot(0);
        now.host.name = "adas-box".into();
        now.devices = vec![device(0, vec![row, other])];
        let hidden = Anonymous::default().snapshot(now.clone());
        let text = serde_json::to_string(&hidden).unwrap();
        for name in ["ada", "secret", "token", "GPU-00000000-aaaa"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        let rows = &hidden.devices[0].processes;
        assert_eq!(rows[0].command, rows[1].command, "one name stays one");
        assert_eq!(
            (rows[0].used_bytes.value(), rows[0].key()),
            (Some(Bytes::gib(3)), now.devices[0].processes[0].key())
        );
        assert_eq!(hidden.devices[0].memory, now.devices[0].memory);
    }
}
