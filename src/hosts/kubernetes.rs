//! Owns what Kubernetes says of its nodes and pods: which commands ask for it, and what their JSON means.
//! Formats: kubernetes.io/docs/reference/kubernetes-api (Node, Pod, ResourceClaim, ResourceSlice v1), labels of
//! github.com/NVIDIA/k8s-device-plugin and gpu-feature-discovery (2026-11-23); tried with kubectl 1.32.4.

mod answer;
mod claims;
mod pod;
mod requests;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub use self::answer::said_by_kubectl;
use self::answer::{List, Metadata, count, read, shown, source_of};
pub use self::claims::Claims;
pub use self::pod::{LookedAt, as_reading, no_exec, pod};
use self::requests::{is_part, is_whole, requested};
use super::name::{PodName, is_name_of_kubernetes};
use super::nvidia_smi::GPUS;
use super::{Allotment, Given, HostName, HostReading, Slice, Through, Unavailable};
use crate::units::Bytes;

fn argv(parts: &[&str]) -> Vec<String> {
    ["kubectl"].iter().chain(parts).map(|part| (*part).to_owned()).collect()
}

/// kubectl gives up after this time. Its own message says more than that it was ended at a deadline.
const PATIENCE: &str = "--request-timeout=8s";

/// Whether the person may see the pods of all namespaces: prints yes or no.
pub fn may_list_all_argv() -> Vec<String> {
    argv(&["auth", "can-i", "list", "pods", "-A", PATIENCE])
}

/// Those of pods that use what they request: all that were not refused and have not ended. A pod whose init containers run is
/// still pending.
pub fn pods_argv(of_all: bool) -> Vec<String> {
    let unfinished = "--field-selector=status.phase!=Succeeded,status.phase!=Failed";
    let mut argv = argv(&["get", "pods", "-o", "json", unfinished, PATIENCE]);
    argv.extend(of_all.then(|| "-A".to_owned()));
    argv
}

pub fn nodes_argv() -> Vec<String> {
    argv(&["get", "nodes", "-o", "json", PATIENCE])
}

/// What one node is.
pub fn node_argv(node: &HostName) -> Vec<String> {
    argv(&["get", "node", node.as_str(), "-o", "json", PATIENCE])
}

/// Which devices were given (Dynamic Resource Allocation, DRA). A cluster without them fails.
pub fn claims_argv(of_all: bool) -> Vec<String> {
    let mut argv = argv(&["get", "resourceclaims", "-o", "json", PATIENCE]);
    argv.extend(of_all.then(|| "-A".to_owned()));
    argv
}

/// Which devices there are. A cluster without Dynamic Resource Allocation fails.
pub fn slices_argv() -> Vec<String> {
    argv(&["get", "resourceslices", "-o", "json", PATIENCE])
}

pub fn pod_argv(pod: &PodName) -> Vec<String> {
    let mut argv = argv(&["get", "pod", &pod.name, "-o", "json", PATIENCE]);
    argv.extend(pod.namespace.iter().flat_map(|namespace| ["-n".to_owned(), namespace.clone()]));
    argv
}

/// Asks `nvidia-smi` in a container for the GPUs that it sees. Without a terminal and without input. Not for processes: the
/// driver's PIDs are none of the container's.
pub fn exec_argv(pod: &LookedAt, container: &str) -> Vec<String> {
    let gpus = format!("--query-gpu={GPUS}");
    let smi = ["nvidia-smi", &gpus, "--format=csv,noheader,nounits"];
    argv(&[&["exec", "-n", &pod.namespace, &pod.name, "-c", container, "--"], &smi[..]].concat())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    metadata: Metadata,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Option<Vec<Taint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: Option<BTreeMap<String, Value>>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

/// What a pod takes of the node that it is on.
struct Taken {
    node: String,
    source: String,
    of: BTreeMap<String, u64>,
}

/// Which pods the machines gave GPUs to.
pub struct Pods {
    taken: Vec<Taken>,
    /// Whether these are the pods of all namespaces.
    is_all: bool,
}

impl Pods {
    /// Those of what `pods_argv` printed.
    pub fn read(printed: &str, is_all: bool) -> Result<Pods, Unavailable> {
        let list: List<pod::Pod> = read(printed)?;
        let taken = list.items.unwrap_or_default().iter().filter_map(taken).collect();
        Ok(Pods { taken, is_all })
    }
}

fn taken(pod: &pod::Pod) -> Option<Taken> {
    if pod.has_ended() {
        return None;
    }
    Some(Taken { node: pod.node()?.to_owned(), source: source_of(&pod.metadata)?, of: requested(&pod.spec) })
}

/// A reading of each node that has GPUs. `pods` may be unknown, and `claims` where the cluster has none.
pub fn nodes(
    printed: &str,
    pods: &Result<Pods, Unavailable>,
    claims: &Claims,
) -> Result<Vec<HostReading>, Unavailable> {
    let list: List<Node> = read(printed)?;
    // Grouped once, since a large cluster has thousands of both.
    let mut of_node: BTreeMap<&str, Vec<&Taken>> = BTreeMap::new();
    for taken in pods.iter().flat_map(|pods| &pods.taken) {
        of_node.entry(&taken.node).or_default().push(taken);
    }
    let is_all = pods.as_ref().is_ok_and(|pods| pods.is_all);
    let why = match pods {
        Ok(pods) if pods.is_all => "Kubernetes tells who requested the GPUs, not how full they are".to_owned(),
        Ok(_) => "the pods of other namespaces can't be listed, so which GPUs are free is unknown".to_owned(),
        Err(why) => format!("the pods can't be listed, so which GPUs are free is unknown: {}", why.why),
    };
    let mut readings = Vec::new();
    for node in list.items.unwrap_or_default() {
        let name = node.metadata.name.as_str();
        if !is_name_of_kubernetes(name) {
            continue;
        }
        let Ok(host) = name.parse::<HostName>() else { continue };
        let taken = of_node.get(name).map(Vec::as_slice).unwrap_or_default();
        let Some(allotment) = allotment(&node, taken, is_all, claims) else { continue };
        let what_to_do = Some(format!("read it with --host {host}, or look into a pod with --pod NAMESPACE/POD"));
        let why = Unavailable { why: why.clone(), what_to_do };
        readings.push(HostReading {
            allotment: Some(allotment),
            ..HostReading::unavailable(host, Through::Kubernetes, why)
        });
    }
    if readings.is_empty() {
        return Err(Unavailable::new("Kubernetes has no nodes with GPUs"));
    }
    Ok(readings)
}

/// What is known of one node, as `node_argv` printed it; `None` if it is not clear or has no GPUs.
pub fn node(printed: &str) -> Option<Allotment> {
    allotment(&read(printed).ok()?, &[], false, &Claims::default())
}

impl Node {
    fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }
}

/// How many units of a resource a node has, and how many of them were given to pods; the latter is unknown where not all pods
/// can be listed.
struct Units {
    total: u64,
    given: Option<u64>,
}

/// What a node has: its whole GPUs, once for each resource that counts them, and parts of GPUs.
fn whole_and_parts(node: &Node, taken: &[&Taken], is_all: bool) -> (Vec<Units>, Vec<Slice>) {
    let replicas = node.label("nvidia.com/gpu.replicas").and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
    let sharing = node.label("nvidia.com/gpu.sharing-strategy").filter(|how| *how != "none").unwrap_or("shared");
    let (mut whole, mut slices) = (Vec::new(), Vec::new());
    for (resource, quantity) in node.status.allocatable.iter().flatten() {
        let Some(total) = count(quantity).filter(|total| *total > 0) else { continue };
        let given = is_all.then(|| taken.iter().filter_map(|one| one.of.get(resource)).sum::<u64>());
        // With replicas, several pods are given the same GPU.
        if is_whole(resource) && replicas > 1 {
            let name = format!("{resource} ({}, {replicas} on one GPU)", shown(sharing));
            slices.push(Slice { name, total, given });
        } else if is_whole(resource) {
            whole.push(Units { total, given });
        } else if is_part(resource) {
            slices.push(Slice { name: shown(resource), total, given });
        }
    }
    (whole, slices)
}

/// `None` where the node has no GPUs.
fn allotment(node: &Node, taken: &[&Taken], is_all: bool, claims: &Claims) -> Option<Allotment> {
    let (mut whole, slices) = whole_and_parts(node, taken, is_all);
    let claimed = claims.of_node(&node.metadata.name);
    whole.extend(claimed.as_ref().map(|claimed| Units { total: claimed.total, given: claimed.given }));
    if whole.is_empty() && slices.is_empty() {
        return None;
    }
    let (state, is_open) = state(node);
    let names = ["nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"];
    let gpu_name = names.iter().find_map(|name| node.label(name)).map(shown);
    let gpu_memory = node.label("nvidia.com/gpu.memory").and_then(|mebibytes| mebibytes.parse().ok()).map(Bytes::mib);
    let (claimed_name, claimed_memory) =
        claimed.map(|claimed| (claimed.gpu_name, claimed.gpu_memory)).unwrap_or_default();
    Some(Allotment {
        // `None` where the node gives out only parts of GPUs: that is not the same as a node without GPUs.
        gpus: whole.iter().map(|units| units.total).reduce(u64::saturating_add),
        given: whole.iter().map(|units| units.given).reduce(|one, other| Some(one?.saturating_add(other?))).flatten(),
        given_indices: None,
        gpu_name: gpu_name.or(claimed_name),
        state,
        is_open,
        gpu_memory_bytes: gpu_memory.or(claimed_memory),
        ram_bytes: None,
        ram_given_bytes: None,
        slices,
        given_to: given_to(taken, &node.metadata.name, claims),
    })
}

impl Taken {
    /// The sum over the resources of this kind; `None` where the pod requests none of them.
    fn count_of(&self, is_of_kind: fn(&str) -> bool) -> Option<u64> {
        let counts = self.of.iter().filter(|(name, _)| is_of_kind(name)).map(|(_, count)| *count);
        counts.reduce(u64::saturating_add)
    }
}

/// The pods that have GPUs of a node, or parts of them.
fn given_to(taken: &[&Taken], node: &str, claims: &Claims) -> Vec<Given> {
    let mut given = Vec::new();
    for one in taken {
        let devices = claims.of_pod(&one.source, node);
        let (whole, parts) = (one.count_of(is_whole), one.count_of(is_part));
        let claimed = Some(devices.len() as u64).filter(|count| *count > 0);
        if whole.or(parts).or(claimed).is_none_or(|count| count == 0) {
            continue;
        }
        given.push(Given {
            source: one.source.clone(),
            gpus: match (whole, claimed) {
                (Some(whole), Some(claimed)) => Some(whole.saturating_add(claimed)),
                (whole, claimed) => whole.or(claimed),
            },
            devices,
            ..Given::default()
        });
    }
    given
}

/// The state in words, and whether pods that ask for GPUs may come.
fn state(node: &Node) -> (String, bool) {
    let ready = node.status.conditions.iter().flatten().find(|condition| condition.r#type == "Ready");
    let mut words = match ready.map(|condition| condition.status.as_str()) {
        Some("True") => vec!["Ready".to_owned()],
        Some("False") => vec!["NotReady".to_owned()],
        _ => vec!["Unknown".to_owned()],
    };
    let mut is_open = ready.is_some_and(|condition| condition.status == "True") && !node.spec.unschedulable;
    if node.spec.unschedulable {
        words.push("cordoned".to_owned());
    }
    for taint in node.spec.taints.iter().flatten() {
        // A taint of the GPUs themselves only keeps away the pods that ask for none, and one for a cordon was said.
        let keeps_away = taint.effect == "NoSchedule" || taint.effect == "NoExecute";
        if keeps_away && !is_whole(&taint.key) && !taint.key.starts_with("node.kubernetes.io/") {
            is_open = false;
            let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
            words.push(format!("taint {}", shown(&format!("{}{value}:{}", taint.key, taint.effect))));
        }
    }
    words.truncate(8);
    (words.join(", "), is_open)
}

#[cfg(test)]
mod tests;
