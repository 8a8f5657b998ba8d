//! Owns which processes of a reading belong together: launchers and servers with their workers; processes that the driver
//! does not list; and what narrows the view. The groups are formed where /proc is read; see `GpuProcess::group`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use serde_with::SerializeDisplay;
use strum::{Display, EnumString};

use super::recognise::kin::is_named_as_a_worker;
use super::{GpuProcess, ProcessKey, Snapshot};

/// A process with the driver's device files open that the driver does not list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Holder {
    /// The process. How much VRAM it uses is unknown.
    #[serde(flatten)]
    pub process: GpuProcess,
    /// The device files that it has open, such as `/dev/nvidia0`.
    pub devices: Vec<String>,
    /// The driver's indices of those GPUs, as far as they are known.
    pub gpus: Vec<u32>,
}

impl<'de> Deserialize<'de> for Holder {
    /// Streams of earlier versions lack some fields.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Beside {
            devices: Vec<String>,
            #[serde(default)]
            gpus: Vec<u32>,
        }
        let mut map = Map::deserialize(deserializer)?;
        map.entry("kind").or_insert("unlisted".into());
        map.entry("proved").or_insert(true.into());
        let map = Value::Object(map);
        let Beside { devices, gpus } = Beside::deserialize(&map).map_err(D::Error::custom)?;
        Ok(Holder { process: GpuProcess::deserialize(map).map_err(D::Error::custom)?, devices, gpus })
    }
}

/// What narrows the view from where a reading was taken: `container`, `kubernetes`, `slurm:JOB` (within a job), `slurm`
/// (a node outside a job), `scheduler:NAME`, `wsl`, `windows`, `macos`, or a word of a later version.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDisplay, Deserialize, JsonSchema, Display, EnumString)]
#[serde(from = "String")]
#[schemars(with = "String")]
#[strum(serialize_all = "kebab-case")]
pub enum Vantage {
    /// `container`: one with a PID namespace of its own, so that processes outside it have no name here.
    Container,
    /// `kubernetes`: a container that it runs.
    Kubernetes,
    /// `slurm:81234`: inside that job, where only its cards may be opened.
    #[strum(to_string = "slurm:{0}")]
    SlurmJob(String),
    /// `slurm`: a node of such a cluster, outside any job.
    #[strum(to_string = "slurm")]
    SlurmLogin,
    /// `scheduler:pbs`: inside a job of another scheduler, by its short name.
    #[strum(to_string = "scheduler:{0}")]
    Scheduler(String),
    /// `wsl`: Windows' Linux, where the driver tells no process's memory.
    Wsl,
    /// `windows`: a build for Windows, which reads no GPUs.
    Windows,
    /// `macos`: a build for macOS, which reads no GPUs.
    Macos,
    /// A word of a later version.
    #[strum(default)]
    Other(String),
}

impl From<String> for Vantage {
    fn from(word: String) -> Vantage {
        match word.split_once(':') {
            Some(("slurm", job)) => Vantage::SlurmJob(job.to_owned()),
            Some(("scheduler", name)) => Vantage::Scheduler(name.to_owned()),
            _ => word.parse().unwrap_or(Vantage::Other(word)),
        }
    }
}

impl GpuProcess {
    /// True if the process that started it has exited although this one works for it, so its memory is of no use.
    pub fn has_lost_its_parent(&self) -> bool {
        // A service is a child of PID 1 by right, and leads its own session; what was started from a shell does not.
        let left =
            self.parent_pid.value() == Some(1) && self.session.value().is_some_and(|session| session != self.pid);
        let label = self.recognised_as.as_deref().unwrap_or_default();
        let command = self.command.known().map_or("", String::as_str);
        // An orphan's new parent (a user's systemd, a container's init) is not its leader.
        left || self.proved && self.group.is_none() && is_named_as_a_worker(label, command)
    }
}

impl Snapshot {
    /// All processes of this reading: those that the driver lists (once per device), launchers, and unlisted ones.
    pub fn everybody(&self) -> impl Iterator<Item = &GpuProcess> {
        let listed = self.devices.iter().flat_map(|device| &device.processes);
        listed.chain(&self.launchers).chain(self.holders.iter().map(|holder| &holder.process))
    }

    /// A process of this reading to be kept beside it, without a copy where a GPU lists it.
    pub(crate) fn shared(&self, process: &GpuProcess) -> Arc<GpuProcess> {
        let mut listed = self.devices.iter().flat_map(|device| device.processes.shared());
        let shared = listed.find(|row| std::ptr::eq(row.as_ref(), process));
        shared.map_or_else(|| Arc::new(process.clone()), Arc::clone)
    }

    /// The process with this identity, whether or not the driver lists it.
    pub fn process(&self, key: ProcessKey) -> Option<&GpuProcess> {
        self.everybody().find(|process| process.key() == Some(key))
    }

    /// The processes that end with it: the workers that it or one of its workers started, the nearest first. Only proved
    /// members of its group count whose parents lead to it, each parent older than its child.
    pub fn below(&self, key: ProcessKey) -> Vec<ProcessKey> {
        let Some(group) = self.process(key).and_then(|process| process.group) else { return Vec::new() };
        let members: Vec<(ProcessKey, u32)> = self
            .everybody()
            .filter(|process| process.group == Some(group) && process.proved)
            .filter_map(|process| Some((process.key()?, process.parent_pid.value()?)))
            .collect();
        let mut found = vec![key];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            for (child, above) in &members {
                if *above == parent.pid && child.start_ticks >= parent.start_ticks && !found.contains(child) {
                    found.push(*child);
                }
            }
            at += 1;
        }
        found.split_off(1)
    }

    /// The topmost process of this one's group, if that is another one.
    pub fn leader_of(&self, process: &GpuProcess) -> Option<&GpuProcess> {
        self.process(process.group.filter(|leader| process.key() != Some(*leader))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::units::Bytes;

    fn of(pid: u32, parent: u32, leader: u32) -> GpuProcess {
        let mut row = process(pid, Bytes::gib(1));
        row.parent_pid = crate::gpu::Reading::Known(parent);
        row.group = process(leader, Bytes::ZERO).key();
        row
    }

    fn pids(keys: Vec<ProcessKey>) -> Vec<u32> {
        keys.into_iter().map(|key| key.pid).collect()
    }

    #[test]
    fn who_ends_with_whom_follows_the_parents_and_not_the_group_alone() {
        let mut vague = of(45, 40, 40);
        vague.proved = false;
        let rows = vec![of(41, 40, 40), of(42, 40, 40), of(43, 42, 40), of(44, 1, 44), vague, of(39, 42, 40)];
        let mut now = Snapshot { devices: vec![device(0, rows)], launchers: vec![of(40, 9, 40)], ..snapshot(0) };
        let key = |pid: u32| process(pid, Bytes::ZERO).key().unwrap();
        assert_eq!(pids(now.below(key(40))), [41, 42, 43]);
        assert_eq!(pids(now.below(key(42))), [43], "39 is older than 42: its parent was another process of that PID");
        assert_eq!(pids(now.below(key(41))), [0; 0]);
        assert_eq!(pids(now.below(key(99))), [0; 0]);
        let again = ProcessKey { start_ticks: 1, ..key(40) };
        assert_eq!(pids(now.below(again)), [0; 0], "another process of the same PID");
        let holder = Holder { process: of(46, 41, 40), devices: vec!["/dev/nvidia0".into()], gpus: vec![] };
        now.holders.push(holder);
        assert_eq!(pids(now.below(key(40))), [41, 42, 46, 43], "the nearest first");
        assert_eq!(now.leader_of(&of(43, 42, 40)).map(|leader| leader.pid), Some(40));
        assert_eq!(now.leader_of(&now.launchers[0]), None);
    }

    #[test]
    fn a_holder_of_an_earlier_stream_is_read_and_a_new_one_comes_back_as_it_was() {
        let early = r#"{"pid": 5, "start_ticks": 6, "user": null, "command": "x", "devices": ["/dev/nvidia0"]}"#;
        let holder: Holder = serde_json::from_str(early).unwrap();
        assert_eq!((holder.process.key().map(|key| key.start_ticks), holder.process.proved), (Some(6), true));
        assert_eq!(holder.process.kind, crate::gpu::ProcessKind::Unlisted);
        let json = serde_json::to_value(&holder).unwrap();
        assert_eq!((&json["pid"], &json["devices"][0]), (&5.into(), &"/dev/nvidia0".into()));
        assert_eq!(serde_json::from_value::<Holder>(json).unwrap(), holder);
    }

    #[test]
    fn a_vantage_is_a_word_and_one_that_is_not_known_does_not_end_the_reading() {
        let seen = vec![Vantage::Wsl, Vantage::SlurmJob("77".into()), Vantage::Scheduler("pbs".into())];
        assert_eq!(serde_json::to_string(&seen).unwrap(), r#"["wsl","slurm:77","scheduler:pbs"]"#);
        assert_eq!(serde_json::from_str::<Vec<Vantage>>(r#"["wsl","slurm:77","scheduler:pbs"]"#).unwrap(), seen);
        let read: Vec<Vantage> = serde_json::from_str(r#"["kubernetes","orbit"]"#).unwrap();
        assert_eq!(read, [Vantage::Kubernetes, Vantage::Other("orbit".into())]);
    }
}
