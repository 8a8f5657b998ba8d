//! Owns which devices exist and were given where a cluster allocates them by claims (Dynamic Resource Allocation).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::answer::{List, Metadata, read, shown};
use crate::hosts::name::is_name_of_kubernetes;
use crate::units::Bytes;

/// A device's pool and name: names are unique in a pool only.
type DeviceName = (String, String);

/// What a cluster's ResourceSlices and ResourceClaims say of GPUs. Empty where it has none.
#[derive(Debug, Default)]
pub struct Claims {
    nodes: BTreeMap<String, OfNode>,
    /// The devices of each pool that were given.
    given: BTreeMap<String, BTreeSet<String>>,
    /// The devices of each pod.
    of_pods: BTreeMap<String, BTreeSet<DeviceName>>,
    /// Whether the claims of all namespaces were read.
    is_given_known: bool,
}

#[derive(Debug, Default)]
struct OfNode {
    pools: BTreeSet<String>,
    whole: BTreeSet<DeviceName>,
    gpu_name: Option<String>,
    gpu_memory: Option<Bytes>,
}

/// What is known of the devices of one node.
pub(super) struct Supply {
    pub total: u64,
    pub given: Option<u64>,
    pub gpu_name: Option<String>,
    pub gpu_memory: Option<Bytes>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceSlice {
    spec: SliceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SliceSpec {
    driver: String,
    node_name: Option<String>,
    pool: Pool,
    devices: Option<Vec<Device>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pool {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Device {
    name: String,
    attributes: Option<BTreeMap<String, Value>>,
    capacity: Option<BTreeMap<String, Value>>,
    /// In v1beta1 both are one level deeper.
    basic: Option<Box<Device>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceClaim {
    metadata: Metadata,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimStatus {
    allocation: Option<Allocation>,
    reserved_for: Option<Vec<Consumer>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Allocation {
    devices: Results,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Results {
    results: Option<Vec<Allocated>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Allocated {
    driver: String,
    pool: String,
    device: String,
    /// A monitor's access, which takes nothing away.
    admin_access: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Consumer {
    resource: String,
    name: String,
}

/// Drivers of GPUs are named `gpu.nvidia.com`, `gpu.amd.com`, …; others give out network cards or domains.
fn is_of_gpus(driver: &str) -> bool {
    driver.starts_with("gpu.")
}

impl Device {
    fn attribute(&self, name: &str) -> Option<&str> {
        let own = self.attributes.as_ref().and_then(|attributes| attributes.get(name)?.get("string")?.as_str());
        own.or_else(|| self.basic.as_ref()?.attributes.as_ref()?.get(name)?.get("string")?.as_str())
    }

    fn printed_memory(&self) -> Option<&str> {
        self.capacity.as_ref()?.get("memory")?.get("value")?.as_str()
    }

    fn memory(&self) -> Option<Bytes> {
        let text = self.printed_memory().or_else(|| self.basic.as_ref()?.printed_memory())?;
        ["Ki", "Mi", "Gi", "Ti"]
            .iter()
            .zip([10, 20, 30, 40])
            .find_map(|(unit, power)| Bytes::parse_number(text.strip_suffix(unit)?, 1 << power))
    }
}

impl Claims {
    /// From what `slices_argv` and `claims_argv` printed; what could not be asked is unknown. `is_all` says whether the
    /// claims are those of all namespaces.
    pub fn read(slices: Option<&str>, claims: Option<&str>, is_all: bool) -> Claims {
        let mut known = Claims::default();
        let slices: Option<List<ResourceSlice>> = slices.and_then(|printed| read(printed).ok());
        for slice in slices.and_then(|list| list.items).unwrap_or_default() {
            known.take_slice(slice.spec);
        }
        let claims: Option<List<ResourceClaim>> = claims.and_then(|printed| read(printed).ok());
        known.is_given_known = is_all && claims.is_some();
        for claim in claims.and_then(|list| list.items).unwrap_or_default() {
            known.take_claim(claim);
        }
        known
    }

    fn take_slice(&mut self, spec: SliceSpec) {
        if !is_of_gpus(&spec.driver) {
            return;
        }
        let Some(node) = spec.node_name else { return };
        let of_node = self.nodes.entry(node).or_default();
        of_node.pools.insert(spec.pool.name.clone());
        for device in spec.devices.unwrap_or_default() {
            // MIG instances and pass-through functions of the same GPU are further devices.
            if device.attribute("type").is_none_or(|kind| kind == "gpu") {
                of_node.gpu_name = of_node.gpu_name.take().or(device.attribute("productName").map(shown));
                of_node.gpu_memory = of_node.gpu_memory.or(device.memory());
                of_node.whole.insert((spec.pool.name.clone(), device.name));
            }
        }
    }

    fn take_claim(&mut self, claim: ResourceClaim) {
        let namespace = &claim.metadata.namespace;
        let consumers = claim.status.reserved_for.unwrap_or_default();
        let pods = consumers.iter().filter(|one| {
            one.resource == "pods" && is_name_of_kubernetes(&one.name) && is_name_of_kubernetes(namespace)
        });
        let pods: BTreeSet<String> = pods.map(|one| format!("pod:{namespace}/{}", one.name)).collect();
        let results = claim.status.allocation.and_then(|allocation| allocation.devices.results).unwrap_or_default();
        for result in results {
            if is_of_gpus(&result.driver) && result.admin_access != Some(true) {
                for pod in &pods {
                    let device = (result.pool.clone(), result.device.clone());
                    self.of_pods.entry(pod.clone()).or_default().insert(device);
                }
                self.given.entry(result.pool).or_default().insert(result.device);
            }
        }
    }

    /// The whole GPUs of a node; `None` where it has none that are claimed.
    pub(super) fn of_node(&self, node: &str) -> Option<Supply> {
        let of_node = self.nodes.get(node).filter(|of_node| !of_node.whole.is_empty())?;
        let mut given: Vec<DeviceName> = Vec::new();
        for pool in &of_node.pools {
            let devices = self.given.get(pool).into_iter().flatten();
            given.extend(devices.map(|device| (pool.clone(), device.clone())));
        }
        // A GPU cannot be given whole once one of its instances was given, and Kubernetes does not tell here which GPU an
        // instance belongs to.
        let is_clear = self.is_given_known && given.iter().all(|device| of_node.whole.contains(device));
        Some(Supply {
            total: of_node.whole.len() as u64,
            given: is_clear.then_some(given.len() as u64),
            gpu_name: of_node.gpu_name.clone(),
            gpu_memory: of_node.gpu_memory,
        })
    }

    /// The names of the devices that a pod was given on its node.
    pub(super) fn of_pod(&self, source: &str, node: &str) -> Vec<String> {
        let Some(of_node) = self.nodes.get(node) else { return Vec::new() };
        let devices = self.of_pods.get(source).into_iter().flatten();
        devices.filter(|(pool, _)| of_node.pools.contains(pool)).map(|(_, device)| shown(device)).collect()
    }
}
