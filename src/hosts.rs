//! Owns what is known of several machines at once: what names one, what was read of it or why nothing was, and what a
//! scheduler says of its GPUs. Knows no command runner, no screen. Nothing here leads to a signal: a machine that is reached
//! through the network is only read.

pub mod kubernetes;
pub mod name;
pub mod nvidia_smi;
pub mod prometheus;
pub mod slurm;
pub mod ssh;

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;

pub use self::name::HostName;
use crate::gpu::Snapshot;
use crate::units::{Bytes, WallTime};

/// Which machines are asked for, and through what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Machines to be reached through `ssh`.
    pub hosts: Vec<HostName>,
    /// Whether this program may be copied to a machine that has none.
    pub send: bool,
    /// The nodes of Slurm; of one partition where that is named.
    pub slurm: Option<Option<name::Partition>>,
    /// A running job of Slurm to look into.
    pub job: Option<name::JobId>,
    /// The nodes and pods of Kubernetes.
    pub kubernetes: bool,
    /// A pod to look into: its namespace and its name.
    pub pod: Option<name::PodName>,
    /// A Prometheus server.
    pub prometheus: Option<prometheus::Server>,
}

impl Asked {
    /// Whether only this machine is meant.
    pub fn is_nothing(&self) -> bool {
        *self == Asked { send: self.send, ..Asked::default() }
    }
}

/// What a machine was read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Through {
    /// This program, over `ssh`.
    Ssh,
    /// `nvidia-smi`, over `ssh`: without start times, so nothing is proved.
    NvidiaSmi,
    Slurm,
    Kubernetes,
    Prometheus,
}

/// Why nothing is known of a machine, and what a person can do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{why}{}", .what_to_do.as_ref().map(|what| format!("; {what}")).unwrap_or_default())]
pub struct Unavailable {
    /// Such as "Connection refused".
    pub why: String,
    /// Such as "connect once by hand: ssh gpu1".
    pub what_to_do: Option<String>,
}

impl Unavailable {
    pub fn new(why: impl Into<String>) -> Unavailable {
        Unavailable { why: why.into(), what_to_do: None }
    }
}

/// What a scheduler says of a machine's GPUs: who was given them, never how full they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Allotment {
    /// All GPUs that may be given to jobs; null where that is unknown.
    pub gpus: Option<u64>,
    /// How many of them were given away.
    pub given: Option<u64>,
    /// The indices of those given away, where the scheduler tells.
    pub given_indices: Option<Vec<u32>>,
    /// The name of the GPUs, where it tells.
    pub gpu_name: Option<String>,
    /// The state in its own words, such as MIXED or Ready.
    pub state: String,
    /// Whether it gives out GPUs of this machine at all: not one that is drained, reserved or cordoned.
    pub is_open: bool,
    /// The VRAM of one GPU, where the scheduler tells.
    pub gpu_memory_bytes: Option<Bytes>,
    /// The system memory that may be given to jobs, where the scheduler tells.
    pub ram_bytes: Option<Bytes>,
    /// How much of that was given away.
    pub ram_given_bytes: Option<Bytes>,
    /// Parts of GPUs that are given out instead of whole ones; they are not in `gpus`.
    pub slices: Vec<Slice>,
    /// The jobs or pods that were given GPUs, as far as the scheduler tells and was asked.
    pub given_to: Vec<Given>,
}

/// A kind of part of a GPU, such as a MIG instance or a time slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Slice {
    /// As the scheduler names it, such as nvidia.com/mig-1g.10gb.
    pub name: String,
    pub total: u64,
    /// Null where it is unknown.
    pub given: Option<u64>,
}

/// A job or pod that was given GPUs of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Given {
    /// As `oomdoctor diagnose --from` takes it: slurm:4711 or pod:NAMESPACE/NAME.
    pub source: String,
    /// What its owner calls it, where that is more than its source.
    pub name: Option<String>,
    /// The owner, where the scheduler tells.
    pub user: Option<String>,
    /// The number of GPUs that it was given on this machine; null where that is unknown.
    pub gpus: Option<u64>,
    /// Which ones: indices of Slurm, or names of devices of Kubernetes. Empty where the scheduler does not tell.
    pub devices: Vec<String>,
    /// The file that its output goes to, where the scheduler tells.
    pub output: Option<String>,
    /// The containers of a pod.
    pub containers: Vec<Container>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Container {
    pub name: String,
    /// Such as "running" or "waiting: CrashLoopBackOff".
    pub state: String,
    pub restarts: u64,
    /// How it ended the last time; null where it did not.
    pub last_end: Option<End>,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct End {
    /// Such as OOMKilled.
    pub reason: String,
    pub exit_code: Option<i64>,
    pub at: Option<WallTime>,
}

impl Allotment {
    /// Takes over which jobs or pods another answer knows; of one that both know, that answer.
    fn take(&mut self, other: Allotment) {
        for given in other.given_to {
            match self.given_to.iter_mut().find(|known| known.source == given.source) {
                Some(known) => *known = given,
                None => self.given_to.push(given),
            }
        }
    }
}

/// A machine as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct HostReading {
    pub name: HostName,
    /// Other names that lead to the same machine.
    pub also: Vec<HostName>,
    /// See `gpu::Header`.
    pub boot_id: Option<String>,
    pub through: Through,
    /// A reading, and a later one where there is one. Their names are harmless to print.
    pub seen: Result<(Box<Snapshot>, Option<Box<Snapshot>>), Unavailable>,
    /// What a scheduler says of it.
    pub allotment: Option<Allotment>,
}

impl HostReading {
    pub fn unavailable(name: HostName, through: Through, why: Unavailable) -> HostReading {
        HostReading { name, also: Vec::new(), boot_id: None, through, seen: Err(why), allotment: None }
    }

    /// The last reading.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        let (first, second) = self.seen.as_ref().ok()?;
        Some(second.as_ref().unwrap_or(first))
    }
}

/// Joins what was read of the same machine under several names, and what a scheduler says of a machine with its reading.
pub fn merged(readings: Vec<HostReading>) -> Vec<HostReading> {
    let mut machines: Vec<HostReading> = Vec::new();
    for reading in readings {
        match machines.iter_mut().find(|machine| machine.is_same_machine(&reading)) {
            Some(machine) => machine.take(reading),
            None => machines.push(reading),
        }
    }
    machines
}

impl HostReading {
    fn is_same_machine(&self, other: &HostReading) -> bool {
        match (&self.boot_id, &other.boot_id) {
            (Some(one), Some(other)) => one == other,
            // A scheduler calls a machine by the name that the machine has itself, up to the domain.
            _ if self.through != other.through => self.own_name() == other.own_name(),
            _ => self.name == other.name,
        }
    }

    /// The machine's own name where that was read, without its domain.
    fn own_name(&self) -> &str {
        let name = self.snapshot().map_or(self.name.as_str(), |snapshot| &snapshot.host.name);
        name.split('.').next().unwrap_or(name)
    }

    /// Takes over what another reading of the same machine knows more.
    fn take(&mut self, other: HostReading) {
        match (&mut self.allotment, other.allotment) {
            (Some(own), Some(others)) => own.take(others),
            (own, others) => *own = own.take().or(others),
        }
        self.boot_id = self.boot_id.take().or(other.boot_id);
        if self.snapshot().is_none() && other.seen.is_ok() {
            (self.seen, self.through) = (other.seen, other.through);
        }
        for name in std::iter::once(other.name).chain(other.also) {
            if name != self.name && !self.also.contains(&name) {
                self.also.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, boot_id: Option<&str>, through: Through) -> HostReading {
        let why = Unavailable::new("not tried");
        let name = name.parse().unwrap();
        HostReading { boot_id: boot_id.map(str::to_owned), ..HostReading::unavailable(name, through, why) }
    }

    #[test]
    fn two_names_of_one_boot_are_one_machine() {
        let machines = merged(vec![
            reading("gpu1", Some("a"), Through::Ssh),
            reading("gpu2", Some("b"), Through::Ssh),
            reading("big", Some("a"), Through::Ssh),
            reading("gone", None, Through::Ssh),
        ]);
        let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(names, ["gpu1", "gpu2", "gone"]);
        assert_eq!(machines[0].also, ["big".parse().unwrap()]);
    }

    #[test]
    fn what_a_scheduler_says_joins_the_reading_of_its_node() {
        let allotment = Allotment { gpus: Some(8), given: Some(5), ..Allotment::default() };
        let node = HostReading { allotment: Some(allotment), ..reading("gpu1.cluster", None, Through::Slurm) };
        let machines = merged(vec![reading("gpu1", Some("a"), Through::Ssh), node]);
        assert_eq!(machines.len(), 1);
        assert_eq!(machines[0].allotment.as_ref().unwrap().given, Some(5));
    }
}
