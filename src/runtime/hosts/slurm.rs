//! Owns asking Slurm for its machines.

use std::thread;
use std::time::{Duration, Instant};

use super::sampled::sampled;
use crate::hosts::name::{JobId, Partition};
use crate::hosts::slurm::{
    Job, Node, all_jobs_argv, job_argv, jobs, most_sampled, nodes, nodes_argv, note_jobs, partition_argv,
    partition_state, said_by, sample_argv, sampled_argv, why_no_step,
};
use crate::hosts::{Allotment, Asked, Given, HostName, HostReading, Through, Unavailable};
use crate::platform::Sampling;
use crate::runtime::commands::{Failure, whole};

/// The controller answers within this time, or it does not answer at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// A step is started and reads twice within this time.
const STEP: Duration = Duration::from_secs(15);
/// All tasks of a job are asked for their memory within this time.
const SAMPLED: Duration = Duration::from_secs(4);
/// So many nodes of a job are looked into; each needs a step of its own.
const MOST_STEPS: usize = 64;
/// So many steps run at once.
const AT_ONCE: usize = 16;

/// The machines that are asked for; empty where none are.
pub(super) fn read(asked: &Asked, sampling: &Sampling) -> Vec<HostReading> {
    if asked.slurm.is_none() && asked.job.is_none() {
        return Vec::new();
    }
    // What Slurm says of a node is told with a job's node, too, so one list serves both.
    let listed = list(asked.slurm.as_ref().and_then(Option::as_ref));
    let nodes = listed.as_deref().unwrap_or_default();
    let mut readings = match &asked.job {
        Some(job) => look_into(job, nodes, sampling).unwrap_or_else(|why| vec![unavailable(why)]),
        None => Vec::new(),
    };
    if asked.slurm.is_some() {
        readings.extend(nodes.iter().map(of_node));
        readings.extend(listed.as_ref().err().cloned().map(unavailable));
    }
    readings
}

/// Stands for all machines of Slurm, where none is known.
fn unavailable(why: Unavailable) -> HostReading {
    HostReading::unavailable(HostName::of_scheduler("slurm"), Through::Slurm, why)
}

fn list(partition: Option<&Partition>) -> Result<Vec<Node>, Unavailable> {
    let due = Instant::now() + PATIENCE;
    let state = match partition {
        Some(partition) => Some(ask(&partition_argv(partition), due)?),
        None => None,
    };
    let mut listed = nodes(&ask(&nodes_argv(), due)?);
    if let Some(partition) = partition {
        listed.retain(|node| node.is_in(partition));
        let state = state.as_deref().and_then(partition_state).unwrap_or("unknown");
        if state != "UP" {
            for node in &mut listed {
                node.closed_by(partition, state);
            }
        }
    }
    // A controller that tells of its nodes and not of its jobs is no failure: others' jobs may be private.
    if let Ok(printed) = ask(&all_jobs_argv(), due) {
        note_jobs(&mut listed, &printed);
    }
    if listed.is_empty() {
        let of = partition.map(|partition| format!(" in partition {}", partition.as_str())).unwrap_or_default();
        return Err(Unavailable::new(format!("Slurm has no nodes with GPUs{of}")));
    }
    Ok(listed)
}

fn of_node(node: &Node) -> HostReading {
    let why = Unavailable {
        why: "Slurm tells which GPUs were given, not how full they are".to_owned(),
        what_to_do: Some(format!("read it with --host {}, or with --job ID inside a job of yours", node.name)),
    };
    let allotment = Some(node.allotment.clone());
    HostReading { allotment, ..HostReading::unavailable(node.name.clone(), Through::Slurm, why) }
}

fn ask(argv: &[String], due: Instant) -> Result<String, Unavailable> {
    let said = whole(argv, due).map_err(|failure| match failure {
        Failure::NotInstalled => Unavailable {
            why: failure.in_words(argv),
            what_to_do: Some("run oomdoctor where Slurm's commands are, such as a login node".to_owned()),
        },
        Failure::Other(_) => Unavailable::new(format!("Slurm's controller: {}", failure.in_words(argv))),
    })?;
    let text = String::from_utf8_lossy(&said.text).into_owned();
    if !said.succeeded {
        let about = if said.about.trim().is_empty() { &text } else { &said.about };
        return Err(said_by("scontrol", about));
    }
    Ok(text)
}

/// The nodes of a running job, each read from inside of the job.
fn look_into(job: &JobId, listed: &[Node], sampling: &Sampling) -> Result<Vec<HostReading>, Unavailable> {
    let mut running = jobs(job, &ask(&job_argv(job), Instant::now() + PATIENCE)?)?;
    note_sampled(&mut running);
    let steps: Vec<(&Job, &HostName, &Given)> =
        running.iter().flat_map(|job| job.nodes.iter().map(move |(node, given)| (job, node, given))).collect();
    let mut readings = Vec::new();
    let (read, left) = steps.split_at(steps.len().min(MOST_STEPS));
    for some in read.chunks(AT_ONCE) {
        readings.extend(thread::scope(|scope| {
            let reading: Vec<_> =
                some.iter().map(|(job, node, _)| scope.spawn(|| read_step(&job.id, node, sampling))).collect();
            reading.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
        }));
    }
    let why = Unavailable::new(format!("only {MOST_STEPS} nodes of a job are read"));
    readings
        .extend(left.iter().map(|(_, node, _)| HostReading::unavailable((*node).clone(), Through::Slurm, why.clone())));
    for (reading, (_, node, given)) in readings.iter_mut().zip(&steps) {
        let of_node = listed.iter().find(|known| known.name == **node).map(|known| known.allotment.clone());
        reading.allotment = Some(of_node.unwrap_or_else(Allotment::unknown).given_to_only((*given).clone()));
    }
    Ok(readings)
}

/// Notes the system memory that Slurm sampled of jobs. Where it tells none, as of others' jobs, nothing is missing.
fn note_sampled(running: &mut [Job]) {
    let due = Instant::now() + SAMPLED;
    for job in running.iter_mut().take(MOST_STEPS) {
        let Ok(printed) = ask(&sampled_argv(&job.id), due) else { continue };
        let Some((name, sampled)) = most_sampled(&printed) else { continue };
        if let Some((_, given)) = job.nodes.iter_mut().find(|(node, _)| node.as_str() == name) {
            given.sampled_ram = Some(sampled);
        }
    }
}

fn read_step(job: &JobId, node: &HostName, sampling: &Sampling) -> HostReading {
    let argv = sample_argv(job, node, sampling.interval.as_secs_f64());
    let (boot_id, seen) = match whole(&argv, Instant::now() + STEP) {
        Err(failure) => (None, Err(Unavailable::new(failure.in_words(&argv)))),
        Ok(said) => match sampled(&said.text) {
            Some((boot_id, seen)) => (boot_id, Ok(seen)),
            None => (None, Err(why_no_step(&said.about))),
        },
    };
    HostReading { boot_id, ..HostReading::new(node.clone(), Through::Slurm, seen) }
}
