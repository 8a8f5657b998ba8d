//! Owns what Kubernetes says of one pod: where it runs, how its containers are, and why none of them can be looked into.

use serde::Deserialize;
use serde_json::Value;

use super::answer::{ContainerSpec, Metadata, PodSpec, read, said_by_kubectl, shown, source_of};
use super::requests::{is_part, is_whole, requested};
use crate::hosts::name::is_name_of_kubernetes;
use crate::hosts::{Container, End, Given, HostName, Unavailable};
use crate::units::WallTime;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub metadata: Metadata,
    pub spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    reason: Option<String>,
    init_container_statuses: Option<Vec<Status>>,
    container_statuses: Option<Vec<Status>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    name: String,
    restart_count: u64,
    state: State,
    last_state: State,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<Value>,
    waiting: Option<Ended>,
    terminated: Option<Ended>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Ended {
    reason: Option<String>,
    exit_code: Option<i64>,
    finished_at: Option<String>,
}

impl Pod {
    pub(super) fn has_ended(&self) -> bool {
        self.status.phase == "Succeeded" || self.status.phase == "Failed"
    }

    /// Those that run and can be named to kubectl.
    fn running_containers(&self) -> impl Iterator<Item = &ContainerSpec> {
        let nameable = self.spec.containers.iter().flatten().filter(|one| is_name_of_kubernetes(&one.name));
        nameable.filter(|one| self.status.is_running(&one.name))
    }

    pub(super) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|node| is_name_of_kubernetes(node))
    }
}

impl PodStatus {
    fn is_running(&self, container: &str) -> bool {
        let mut statuses = self.container_statuses.iter().flatten();
        statuses.any(|status| status.name == container && status.state.running.is_some())
    }
}

impl ContainerSpec {
    fn asks_for_gpus(&self) -> bool {
        let lists = [&self.resources.limits, &self.resources.requests];
        lists.into_iter().flatten().any(|list| list.keys().any(|name| is_whole(name) || is_part(name)))
    }
}

impl Ended {
    /// Such as ": CrashLoopBackOff"; empty where there is none.
    fn shown_reason(&self) -> String {
        self.reason.as_deref().map_or_else(String::new, |why| format!(": {}", shown(why)))
    }
}

impl Status {
    fn told(&self) -> Container {
        let state = match (&self.state.running, &self.state.waiting, &self.state.terminated) {
            (Some(_), ..) => "running".to_owned(),
            (_, Some(waiting), _) => format!("waiting{}", waiting.shown_reason()),
            (.., Some(ended)) => format!("terminated{}", ended.shown_reason()),
            _ => "unknown".to_owned(),
        };
        let end = self.state.terminated.as_ref().or(self.last_state.terminated.as_ref());
        let last_end = end.map(|end| End {
            reason: shown(end.reason.as_deref().unwrap_or("unknown")),
            exit_code: end.exit_code,
            at: end.finished_at.as_ref().and_then(|at| at.parse().ok()).map(WallTime),
        });
        Container { name: shown(&self.name), state, restarts: self.restart_count, last_end }
    }
}

/// A pod that a person named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedAt {
    pub namespace: String,
    pub name: String,
    /// `None` while the pod waits for a node.
    pub node: Option<HostName>,
    pub given: Given,
    /// The running container that most probably sees GPUs.
    pub container: Option<String>,
    /// Why no container can be looked into, in the words of its phase.
    pub phase: String,
}

/// What `pod_argv` printed.
pub fn pod(printed: &str) -> Result<LookedAt, Unavailable> {
    let pod: Pod = read(printed)?;
    let Some(source) = source_of(&pod.metadata) else { return Err(Unavailable::new("kubectl printed no pod")) };
    let gpus = requested(&pod.spec).iter().filter(|(name, _)| is_whole(name)).map(|(_, count)| *count).max();
    let status = &pod.status;
    let statuses = [&status.init_container_statuses, &status.container_statuses];
    let containers = statuses.into_iter().flatten().flatten().map(Status::told).collect();
    let with_gpus = pod.running_containers().find(|one| one.asks_for_gpus());
    let container = with_gpus.or_else(|| pod.running_containers().next()).map(|one| one.name.clone());
    let reason = status.reason.as_ref().map(|reason| format!(" ({})", shown(reason))).unwrap_or_default();
    Ok(LookedAt {
        node: pod.node().and_then(|node| node.parse().ok()),
        given: Given { source, gpus, containers, ..Given::default() },
        container,
        phase: format!("{}{reason}", shown(&status.phase)),
        namespace: pod.metadata.namespace,
        name: pod.metadata.name,
    })
}

/// What `exec_argv` printed, in the form of `nvidia_smi::Lines`; `now` in seconds since 1970.
pub fn as_reading(node: &HostName, now: i64, printed: &[u8]) -> Vec<u8> {
    let printed = String::from_utf8_lossy(printed);
    // No row of a GPU begins like the marks between the sections.
    let rows: Vec<&str> = printed.lines().filter(|row| !row.trim_start().starts_with("oomdoctor-")).collect();
    let head = format!("oomdoctor-smi\noomdoctor-name\n{node}\noomdoctor-time\n{now}\noomdoctor-gpus\n");
    format!("{head}{}\noomdoctor-end\n", rows.join("\n")).into_bytes()
}

/// Why `nvidia-smi` told nothing in a container, from what it printed and what kubectl said.
pub fn no_exec(container: &str, printed: &str, said: &str) -> Unavailable {
    let missing = ["executable file not found", "no such file or directory", "exit code 127"];
    if missing.iter().any(|sign| said.contains(sign)) {
        return Unavailable::new(format!("the image of container {container} has no nvidia-smi"));
    }
    if said.contains("forbidden") || said.contains("Forbidden") {
        return Unavailable::new("not permitted to exec in this pod (pods/exec)");
    }
    // nvidia-smi says what is wrong where it prints its rows.
    match printed.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => Unavailable::new(format!("nvidia-smi of container {container}: {}", shown(line))),
        None => said_by_kubectl(said),
    }
}
