//! Owns asking Kubernetes for its machines.

use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::sampled::sampled;
use crate::gpu::Vantage;
use crate::hosts::kubernetes::{
    Claims, LookedAt, Pods, as_reading, claims_argv, exec_argv, may_list_all_argv, no_exec, node, node_argv, nodes,
    nodes_argv, pod, pod_argv, pods_argv, said_by_kubectl, slices_argv,
};
use crate::hosts::name::PodName;
use crate::hosts::{Allotment, Asked, HostName, HostReading, Seen, Through, Unavailable};
use crate::runtime::commands::{Failure, Said, whole};

/// A little more than kubectl itself waits for the cluster, so that its own message is seen.
const PATIENCE: Duration = Duration::from_secs(12);

/// The machines that are asked for; empty where none are.
pub(super) fn read(asked: &Asked) -> Vec<HostReading> {
    thread::scope(|scope| {
        let pod = asked.pod.as_ref().map(|name| scope.spawn(|| look_into(name).unwrap_or_else(unavailable)));
        let mut readings = Vec::new();
        if asked.kubernetes {
            readings.extend(list().unwrap_or_else(|why| vec![unavailable(why)]));
        }
        // What is known of the pod itself replaces what the list says of it.
        readings.extend(pod.and_then(|pod| pod.join().ok()));
        readings
    })
}

/// Stands for all machines of Kubernetes, where none is known.
fn unavailable(why: Unavailable) -> HostReading {
    HostReading::unavailable(HostName::of_scheduler("kubernetes"), Through::Kubernetes, why)
}

fn list() -> Result<Vec<HostReading>, Unavailable> {
    thread::scope(|scope| {
        let slices = scope.spawn(|| ask(&slices_argv()));
        let nodes_asked = scope.spawn(|| ask(&nodes_argv()));
        let may_list_all = may_list_all()?;
        let claims = scope.spawn(move || ask(&claims_argv(may_list_all)));
        let pods = ask(&pods_argv(may_list_all)).and_then(|printed| Pods::read(&printed, may_list_all));
        let printed = nodes_asked.join().unwrap_or_else(|_| Err(Unavailable::new("kubectl was not asked")))?;
        let claims = Claims::read(answer_of(slices).as_deref(), answer_of(claims).as_deref(), may_list_all);
        nodes(&printed, &pods, &claims)
    })
}

/// `None` where the question failed: a cluster need not have what was asked for.
fn answer_of(question: ScopedJoinHandle<'_, Result<String, Unavailable>>) -> Option<String> {
    question.join().ok()?.ok()
}

/// Whether the person may see the pods of all namespaces.
fn may_list_all() -> Result<bool, Unavailable> {
    let said = run(&may_list_all_argv())?;
    // It exits with 1 for "no", too.
    match String::from_utf8_lossy(&said.text).trim() {
        "yes" => Ok(true),
        "no" => Ok(false),
        // "no - RBAC: …" says which rule.
        text if text.starts_with("no ") => Ok(false),
        _ => Err(said_by_kubectl(&said.about)),
    }
}

fn run(argv: &[String]) -> Result<Said, Unavailable> {
    whole(argv, Instant::now() + PATIENCE).map_err(|failure| match failure {
        Failure::NotInstalled => Unavailable {
            why: failure.in_words(argv),
            what_to_do: Some("run oomdoctor where kubectl reaches the cluster".to_owned()),
        },
        Failure::Other(_) => Unavailable::new(format!("kubectl: {}", failure.in_words(argv))),
    })
}

fn ask(argv: &[String]) -> Result<String, Unavailable> {
    let said = run(argv)?;
    if !said.succeeded {
        return Err(said_by_kubectl(&said.about));
    }
    Ok(String::from_utf8_lossy(&said.text).into_owned())
}

fn look_into(name: &PodName) -> Result<HostReading, Unavailable> {
    let looked_at = pod(&ask(&pod_argv(name))?)?;
    let Some(host) = looked_at.node.clone() else {
        return Err(Unavailable::new(format!("the pod is on no node yet: {}", looked_at.phase)));
    };
    let of_node = ask(&node_argv(&host)).ok().and_then(|printed| node(&printed));
    let seen = look_inside(&looked_at, &host);
    let allotment = Some(of_node.unwrap_or_else(Allotment::unknown).given_to_only(looked_at.given));
    Ok(HostReading { allotment, ..HostReading::new(host, Through::Kubernetes, seen) })
}

/// The GPUs that a container sees, as its `nvidia-smi` prints them.
fn look_inside(pod: &LookedAt, host: &HostName) -> Seen {
    let Some(container) = &pod.container else {
        return Err(Unavailable::new(format!("the pod has no running container: {}", pod.phase)));
    };
    let said = run(&exec_argv(pod, container))?;
    if !said.succeeded {
        return Err(no_exec(container, &String::from_utf8_lossy(&said.text), &said.about));
    }
    let now = jiff::Timestamp::now().as_second();
    let (_, (mut snapshot, _)) = sampled(&as_reading(host, now, &said.text))
        .ok_or_else(|| Unavailable::new(format!("what nvidia-smi of container {container} printed is not clear")))?;
    // Only the GPUs of this container are seen, and of their processes none.
    snapshot.seen_from = vec![Vantage::Kubernetes];
    Ok((snapshot, None))
}
