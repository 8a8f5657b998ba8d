//! Owns what is known of several machines at once: what names one, what was read of it or why nothing was, and what a
//! scheduler says of its GPUs. Knows no command runner, no screen. Nothing here leads to a signal: a machine that is reached
//! through the network is only read.

pub mod kubernetes;
pub mod name;
pub mod nvidia_smi;
pub mod people;
pub mod prometheus;
pub mod slurm;
pub mod ssh;
pub(crate) mod summary;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;

pub use self::name::HostName;
use crate::gpu::{ProcessKey, Snapshot};
use crate::text::harmless;
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
    /// Whether other people's command lines are told whole.
    pub full: bool,
}

impl Asked {
    /// Whether only this machine is meant.
    pub fn is_nothing(&self) -> bool {
        *self == Asked { send: self.send, full: self.full, ..Asked::default() }
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

impl Through {
    /// Whether the machine was reached over `ssh`, so that a command can be run there.
    pub fn is_ssh(self) -> bool {
        match self {
            Through::Ssh | Through::NvidiaSmi => true,
            Through::Slurm | Through::Kubernetes | Through::Prometheus => false,
        }
    }
}

/// Where this program is on another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnProgram {
    /// Where the shell finds it.
    #[default]
    OnPath,
    /// In a place that PATH does not have.
    At(String),
    /// Nowhere: it was only there for the time of a reading, or not at all.
    Lent,
}

impl OwnProgram {
    /// By the path that the machine told; one that no shell would take as it stands is not used.
    fn at(path: &str) -> OwnProgram {
        let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
        if path.starts_with('/') && is_plain { OwnProgram::At(path.to_owned()) } else { OwnProgram::Lent }
    }
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
    /// The most system memory that Slurm sampled of one task of the running job, where that task is on this machine; null
    /// where it is on another one, or where Slurm tells none.
    pub sampled_ram: Option<SampledRam>,
}

/// The resident memory of a task as Slurm sampled it every few seconds: it used at least as much at its peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SampledRam {
    pub bytes: Bytes,
    /// The step of the job, such as 4711.batch.
    pub step: String,
    /// The number of the task in its step; null where Slurm does not tell it.
    pub task: Option<u64>,
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
    /// Whether none is left to give.
    pub fn is_all_given(&self) -> bool {
        self.gpus.zip(self.given).is_some_and(|(gpus, given)| given >= gpus)
    }

    /// What was given away, harmless to print: "5 of 8 given, MIXED".
    pub(crate) fn in_words(&self) -> String {
        let mut text = format!("{} of {} given", or_unknown(self.given), or_unknown(self.gpus));
        if !self.state.is_empty() {
            text.push_str(&format!(", {}", self.state));
        }
        if !self.is_open {
            text.push_str(", takes no jobs");
        }
        harmless(&text).into_owned()
    }

    /// Of a machine about which its scheduler says nothing.
    pub fn unknown() -> Allotment {
        Allotment { state: "unknown".to_owned(), ..Allotment::default() }
    }

    /// The same as it concerns one job or pod.
    #[must_use]
    pub fn given_to_only(self, given: Given) -> Allotment {
        Allotment { given_to: vec![given], ..self }
    }

    /// Adds the jobs or pods of another answer. Where both answers know the same job, the other one replaces it.
    fn take(&mut self, other: Allotment) {
        for given in other.given_to {
            match self.given_to.iter_mut().find(|known| known.source == given.source) {
                Some(known) => {
                    let sampled_ram = known.sampled_ram.take();
                    *known = given;
                    known.sampled_ram = known.sampled_ram.take().or(sampled_ram);
                }
                None => self.given_to.push(given),
            }
        }
    }
}

fn or_unknown(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

impl fmt::Display for Given {
    /// Harmless to print, such as "slurm:4711 of ada: GPU 0, 1".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self.user.as_ref().map(|user| format!(" of {user}")).unwrap_or_default();
        let gpus = match (self.devices.as_slice(), self.gpus) {
            ([], Some(1)) => "1 GPU".to_owned(),
            ([], count) => format!("{} GPUs", or_unknown(count)),
            (devices, _) => format!("GPU {}", devices.join(", ")),
        };
        let ram = self.sampled_ram.as_ref().map(|ram| format!(", {ram}")).unwrap_or_default();
        f.write_str(&harmless(&format!("{}{owner}: {gpus}{ram}", self.source)))
    }
}

impl fmt::Display for SampledRam {
    /// "≥ 1.2 GiB RAM in task 3 of step 4711.0 (sampled)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task.map(|task| format!("task {task} of ")).unwrap_or_default();
        write!(f, "≥ {} RAM in {task}step {} (sampled)", self.bytes, self.step)
    }
}

/// Who uses a GPU, where the source of a reading tells that without processes; or only that somebody does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeviceUser {
    /// The position of the GPU in the snapshot's `devices`.
    pub device: usize,
    /// Such as "pod ml/llama-0 (train)" or "job 81234", harmless to print; null where nobody is named.
    pub name: Option<String>,
    /// Every look at the GPU in so many last seconds found it at 0 %, so it is idle for at least as long; null where it was
    /// in use, or where nobody knows.
    #[serde(rename = "idle_seconds", serialize_with = "seconds")]
    #[schemars(with = "Option<u64>")]
    pub idle_for: Option<Duration>,
}

/// An optional time in whole seconds.
pub(crate) fn seconds<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs()).serialize(serializer)
}

/// A reading and a later one where there is one, or why there is none.
pub type Seen = Result<(Box<Snapshot>, Option<Box<Snapshot>>), Unavailable>;

/// A machine as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct HostReading {
    pub name: HostName,
    /// Other names that lead to the same machine.
    pub also: Vec<HostName>,
    /// See `gpu::Header`.
    pub boot_id: Option<String>,
    pub through: Through,
    pub program: OwnProgram,
    /// The user as whom `ssh` reached it, where its configuration names one.
    pub login: Option<String>,
    /// A reading, and a later one where there is one. Their names are harmless to print.
    pub seen: Seen,
    /// How old the oldest figure was when it was asked for, where another program had taken it before.
    pub age: Option<Duration>,
    /// Who uses its GPUs, where the source tells more than processes.
    pub users: Vec<DeviceUser>,
    /// What a scheduler says of it.
    pub allotment: Option<Allotment>,
}

impl HostReading {
    pub fn unavailable(name: HostName, through: Through, why: Unavailable) -> HostReading {
        HostReading::new(name, through, Err(why))
    }

    /// A reading without the fields that only some sources tell.
    pub fn new(name: HostName, through: Through, seen: Seen) -> HostReading {
        let (also, users) = (Vec::new(), Vec::new());
        let (program, boot_id, login, age) = (OwnProgram::default(), None, None, None);
        HostReading { name, also, boot_id, through, program, login, seen, age, users, allotment: None }
    }

    /// The last reading.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        let (first, second) = self.seen.as_ref().ok()?;
        Some(second.as_ref().unwrap_or(first))
    }
}

/// The only item; `None` where there are several, so that none is taken for the right one by chance.
pub(crate) fn only_one<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    if items.next().is_none() { Some(first) } else { None }
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

    /// Whether a log means this machine by this name: the machine's own name, or one by which it was asked for. User, domain
    /// and case do not count.
    pub fn is_called(&self, name: &str) -> bool {
        let wanted = name::short(name);
        let mut names = std::iter::once(&self.name).chain(&self.also).map(HostName::as_str).chain([self.own_name()]);
        !wanted.is_empty() && names.any(|known| name::short(known) == wanted)
    }

    /// The command that ends these processes there, after it has shown them and asked; `None` where this program is not
    /// there to do so.
    pub fn kill(&self, keys: &[ProcessKey]) -> Option<String> {
        let keys: Vec<String> = keys.iter().map(ProcessKey::to_string).collect();
        self.own_command(&format!("oomdoctor kill {}", keys.join(" "))).map(|line| self.name.ssh_command(&line))
    }

    /// This command line of this program with the path that the program has there.
    pub(crate) fn own_command(&self, line: &str) -> Option<String> {
        match (&self.program, line.strip_prefix("oomdoctor ")) {
            (OwnProgram::At(path), Some(rest)) => Some(format!("{path} {rest}")),
            (OwnProgram::Lent, Some(_)) => None,
            (_, None) | (OwnProgram::OnPath, _) => Some(line.to_owned()),
        }
    }

    /// What a person can do who wants to end a process where this program is not.
    pub fn how_to_install(&self) -> String {
        format!(
            "oomdoctor is not installed on {0}; install it to end a process there: ssh {0} 'pip install --user oomdoctor'",
            self.name
        )
    }

    /// The machine's own name where that was read, without its domain.
    pub fn own_name(&self) -> &str {
        let name = self.snapshot().map_or(self.name.as_str(), |snapshot| &snapshot.host.name);
        // An address has no domain.
        if name.parse::<IpAddr>().is_ok() { name } else { name::without_domain(name) }
    }

    /// Fills in what only the other reading of the same machine has, and adds its names.
    fn take(&mut self, other: HostReading) {
        match (&mut self.allotment, other.allotment) {
            (Some(own), Some(others)) => own.take(others),
            (own, others) => *own = own.take().or(others),
        }
        self.boot_id = self.boot_id.take().or(other.boot_id);
        self.login = self.login.take().or(other.login);
        if self.snapshot().is_none() && other.seen.is_ok() {
            (self.seen, self.through, self.program) = (other.seen, other.through, other.program);
            (self.age, self.users) = (other.age, other.users);
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
    fn two_addresses_of_one_network_are_two_machines() {
        let machines = merged(vec![
            reading("10.0.0.3", None, Through::Prometheus),
            reading("10.0.0.5", None, Through::Kubernetes),
        ]);
        assert_eq!(machines.len(), 2);
    }

    #[test]
    fn a_command_names_the_place_of_the_program_and_is_not_offered_where_there_is_none() {
        let at = |path: &str| HostReading { program: OwnProgram::at(path), ..reading("gpu1", None, Through::Ssh) };
        let key = ProcessKey { pid: 7, start_ticks: 9 };
        let kill = at("/home/ada/.local/bin/oomdoctor").kill(&[key]).unwrap();
        assert_eq!(kill, "ssh -t gpu1 /home/ada/.local/bin/oomdoctor kill 7@9");
        for path in ["relative", "/a b", "/a;reboot", "/$(x)", ""] {
            assert_eq!(at(path).kill(&[key]), None, "{path}");
        }
        assert_eq!(at("/x").own_command("scancel 7").as_deref(), Some("scancel 7"));
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
