//! Owns what a pod requests of the GPUs.

use std::collections::BTreeMap;

use super::answer::{ContainerSpec, PodSpec, count};

/// Whether a unit of this resource is a whole GPU.
pub(super) fn is_whole(resource: &str) -> bool {
    resource == "nvidia.com/gpu" || resource == "amd.com/gpu"
}

/// Whether a unit of this resource is a part of a GPU: a MIG instance, a time slice, a partition of an AMD GPU.
pub(super) fn is_part(resource: &str) -> bool {
    let Some((vendor, name)) = resource.split_once('/') else { return false };
    match vendor {
        "nvidia.com" => name == "gpu.shared" || name.starts_with("mig-"),
        "amd.com" => ["spx", "dpx", "qpx", "cpx"].iter().any(|mode| name.starts_with(mode)),
        _ => false,
    }
}

type Counts = BTreeMap<String, u64>;

/// What a pod takes of each resource of GPUs: its containers at once, or the largest of those that run before them, whatever
/// is more. A container that starts before them and stays (a sidecar) counts beside all that come after it.
pub(super) fn requested(spec: &PodSpec) -> Counts {
    let (mut before, mut sidecars) = (Counts::new(), Counts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = added(sidecars, &own);
            before = larger(before, &sidecars);
        } else {
            before = larger(before, &added(own, &sidecars));
        }
    }
    let all = spec.containers.iter().flatten().map(of_container).fold(sidecars, |sum, own| added(sum, &own));
    larger(all, &before)
}

fn of_container(container: &ContainerSpec) -> Counts {
    let mut counts = Counts::new();
    // Of devices a request is its limit, and may be left out.
    for list in [&container.resources.limits, &container.resources.requests] {
        for (name, quantity) in list.iter().flatten().filter(|(name, _)| is_whole(name) || is_part(name)) {
            counts.extend(count(quantity).map(|count| (name.clone(), count)));
        }
    }
    counts
}

fn added(mut sum: Counts, other: &Counts) -> Counts {
    for (name, count) in other {
        let own = sum.entry(name.clone()).or_default();
        *own = own.saturating_add(*count);
    }
    sum
}

fn larger(mut most: Counts, other: &Counts) -> Counts {
    for (name, count) in other {
        let own = most.entry(name.clone()).or_default();
        *own = (*own).max(*count);
    }
    most
}
