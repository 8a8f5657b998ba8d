//! Owns whose a process of another machine is, as far as names tell, and what is told of other people's. User numbers are
//! each machine's own, so that the name of the user as whom it was reached decides.

use super::HostReading;
use crate::gpu::{GpuProcess, Reading, Snapshot};

/// Whether this process belongs to the user as whom the machine was reached: the one in the name that was asked for, else the
/// one that the configuration of `ssh` names.
pub fn is_own(host: &HostReading, local_user: &str, process: &GpuProcess) -> bool {
    let login = host.name.user().or(host.login.as_deref()).unwrap_or(local_user);
    process.user.known().is_some_and(|user| user == login)
}

/// The readings with the command lines of other people shortened to their program: many machines in one answer would
/// spread what only those who log in to one could read.
#[must_use]
pub fn with_short_commands(mut host: HostReading, local_user: &str) -> HostReading {
    let Ok((first, second)) = &host.seen else { return host };
    let (mut first, mut second) = (first.clone(), second.clone());
    for snapshot in [Some(&mut first), second.as_mut()].into_iter().flatten() {
        for process in everybody(snapshot) {
            if !is_own(&host, local_user, process) {
                shorten(process);
            }
        }
    }
    host.seen = Ok((first, second));
    host
}

fn everybody(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut GpuProcess> {
    let listed = snapshot.devices.iter_mut().flat_map(|device| &mut device.processes);
    listed.chain(&mut snapshot.launchers).chain(snapshot.holders.iter_mut().map(|holder| &mut holder.process))
}

fn shorten(process: &mut GpuProcess) {
    process.server_command = None;
    let Reading::Known(command) = &mut process.command else { return };
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    // A title that a program gave itself, such as `postgres: ada sales`, is no path.
    let program = first.rsplit('/').find(|part| !part.is_empty()).unwrap_or(first);
    *command = if words.next().is_some() { format!("{program} …") } else { program.to_owned() };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::hosts::{Through, Unavailable};
    use crate::units::Bytes;

    fn reading(name: &str, processes: Vec<GpuProcess>) -> HostReading {
        let seen = Snapshot { devices: vec![device(0, processes)], ..snapshot(0) };
        let host = HostReading::unavailable(name.parse().unwrap(), Through::Ssh, Unavailable::new("not tried"));
        HostReading { seen: Ok((Box::new(seen), None)), ..host }
    }

    fn runs(user: Option<&str>, command: &str) -> GpuProcess {
        let mut row = process(7, Bytes::gib(1));
        row.user = user.map_or(Reading::NotAvailable, |user| Reading::Known(user.to_owned()));
        row.command = Reading::Known(command.to_owned());
        row.server_command = Some("vllm serve --api-key secret".to_owned());
        row
    }

    #[test]
    fn the_name_before_the_host_decides_whose_a_process_is() {
        let mine = |host: &str, user| is_own(&reading(host, Vec::new()), "ada", &runs(user, "x"));
        assert!(mine("gpu1", Some("ada")) && mine("root@gpu1", Some("root")));
        assert!(!mine("gpu1", Some("bob")) && !mine("bob@gpu1", Some("ada")));
        let configured = HostReading { login: Some("carol".to_owned()), ..reading("gpu1", Vec::new()) };
        assert!(
            is_own(&configured, "ada", &runs(Some("carol"), "x"))
                && !is_own(&configured, "ada", &runs(Some("ada"), "x"))
        );
        assert!(!mine("gpu1", None), "an unknown owner is somebody else");
    }

    #[test]
    fn other_peoples_arguments_are_left_out_and_own_ones_kept() {
        let rows = [
            (Some("ada"), "/usr/bin/python train.py --key mine", "/usr/bin/python train.py --key mine"),
            (Some("bob"), "/home/bob/env/bin/python train.py --key secret", "python …"),
            (None, "/usr/bin/sleep", "sleep"),
            (Some("bob"), "", ""),
        ];
        let host = reading("gpu1", rows.iter().map(|(user, command, _)| runs(*user, command)).collect());
        let host = with_short_commands(host, "ada");
        let shown = &host.snapshot().unwrap().devices[0].processes;
        let commands: Vec<&str> = shown.iter().map(|row| row.command.known().unwrap().as_str()).collect();
        assert_eq!(commands, rows.map(|(.., shown)| shown));
        let servers: Vec<bool> = shown.iter().map(|row| row.server_command.is_some()).collect();
        assert_eq!(servers, [true, false, false, false]);
    }
}
