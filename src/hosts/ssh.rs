//! Owns how a machine is reached through the `ssh` that people have: its arguments, and what its end means. No option weakens
//! what ssh checks.

use super::{HostName, Unavailable};

/// How a machine is read: no terminal, no question that nobody would answer, and a connection that ends when the other side
/// is silent.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=5",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=2",
];

/// The command that runs `remote` on this machine.
pub fn argv(host: &HostName, remote: &str) -> Vec<String> {
    let mut argv = vec!["ssh".to_owned()];
    argv.extend(OPTIONS.map(str::to_owned));
    argv.extend([host.to_string(), "--".to_owned(), remote.to_owned()]);
    argv
}

/// Why ssh, or what it ran, ended without a reading: `code` is its exit code, `said` its standard error.
pub fn why(_host: &HostName, code: Option<i32>, said: &str) -> Unavailable {
    match code {
        Some(127) => Unavailable::new("oomdoctor is not installed there"),
        _ => Unavailable::new(said.trim().lines().last().unwrap_or("ssh ended without a reading").to_owned()),
    }
}
