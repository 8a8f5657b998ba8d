//! Owns what kubectl answers: the parts that its lists share, and what it says about a failure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::hosts::Unavailable;
use crate::hosts::name::is_name_of_kubernetes;
use crate::text::harmless;

/// Enough of a name or a message to be understood.
const MOST_SHOWN: usize = 120;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub node_name: Option<String>,
    pub containers: Option<Vec<ContainerSpec>>,
    pub init_containers: Option<Vec<ContainerSpec>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerSpec {
    pub name: String,
    pub restart_policy: Option<String>,
    pub resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    pub limits: Option<BTreeMap<String, Value>>,
    pub requests: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub items: Option<Vec<T>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub name: String,
    pub namespace: String,
    pub labels: Option<BTreeMap<String, String>>,
}

pub(super) fn read<'t, T: Deserialize<'t>>(printed: &'t str) -> Result<T, Unavailable> {
    serde_json::from_str(printed)
        .map_err(|error| Unavailable::new(format!("what kubectl printed is not clear: {}", shown(&error.to_string()))))
}

pub(super) fn shown(text: &str) -> String {
    harmless(text).chars().take(MOST_SHOWN).collect()
}

/// A count of devices as Kubernetes writes it; memory and the like have units, devices don't.
pub(super) fn count(quantity: &Value) -> Option<u64> {
    quantity.as_u64().or_else(|| quantity.as_str()?.parse().ok())
}

pub(super) fn source_of(metadata: &Metadata) -> Option<String> {
    let is_named = is_name_of_kubernetes(&metadata.namespace) && is_name_of_kubernetes(&metadata.name);
    is_named.then(|| format!("pod:{}/{}", metadata.namespace, metadata.name))
}

/// What kubectl said about its failure, with what a person can do.
pub fn said_by_kubectl(said: &str) -> Unavailable {
    // Its log lines begin with a letter and the date; what it tells people comes last.
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let line = line.map(|line| line.trim_start_matches("error: ").trim_start_matches("Error from server "));
    let Some(line) = line else { return Unavailable::new("kubectl failed without a message") };
    let is_unset = line.contains("localhost:8080") || line.contains("no configuration has been provided");
    let what_to_do = if is_unset {
        Some("choose a cluster: kubectl config use-context NAME".to_owned())
    } else if line.contains("must be logged in") || line.contains("Unauthorized") {
        Some("log in to the cluster, then try kubectl get nodes".to_owned())
    } else {
        None
    };
    Unavailable { why: format!("kubectl: {}", shown(line)), what_to_do }
}
