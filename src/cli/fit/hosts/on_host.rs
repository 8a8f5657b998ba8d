//! Owns how a model fits on each of several machines: which is best, whose exit makes it fit, and what runs it there.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use crate::advice::fit::holders::Holder;
use crate::advice::name_of;
use crate::cli::fit::answer::{Answer, Held};
use crate::cli::fit::command::command;
use crate::cli::fit::machine::Machine;
use crate::cli::fit::wanted::Wanted;
use crate::cli::watched::Watched;
use crate::gpu::activity::Activity;
use crate::gpu::usage::is_service;
use crate::gpu::{Device, GpuProcess, ProcessKey, Snapshot};
use crate::hosts::{Asked, HostReading, Through, people};
use crate::memory::flags::quoted;
use crate::memory::{Card, Engine};
use crate::units::Bytes;

/// Ending a process that uses less than this makes no model fit.
const WORTH_NAMING: Bytes = Bytes::mib(256);

/// How a model fits on a machine, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// In what is free now, as it was asked for.
    Fits,
    /// With a change of its settings: see `change`.
    FitsChanged,
    /// Once processes that are idle now have exited: see `once_exited`.
    FitsOnceExited,
    DoesNotFit,
    /// See `why_not_known`.
    Unknown,
}

/// A model on one machine.
pub(super) struct OnHost<'a> {
    pub reading: &'a HostReading,
    pub verdict: Verdict,
    /// The sums; or why there are none.
    pub answer: Result<Answer<'a>, String>,
    /// The idle processes whose exit makes it fit as it is; empty where nothing does, or where it fits.
    pub once_exited: Vec<Exiting>,
    /// What runs it there; `None` where no way to start something there is known.
    pub command: Option<String>,
}

/// An idle process that uses VRAM which the model needs.
#[derive(Clone, Debug)]
pub(super) struct Exiting {
    pub key: ProcessKey,
    pub user: Option<String>,
    pub name: String,
    pub bytes: Bytes,
    pub gpu: u32,
    /// For how long it was seen idle.
    pub idle_seconds: u64,
    /// How long ago it started.
    pub age: Option<String>,
    pub is_own: bool,
    /// What ends it there; only for the person's own.
    pub command: Option<String>,
}

/// The model on each machine, best first.
pub(super) fn ranked<'a>(
    wanted: &Wanted<'a>,
    readings: &'a [HostReading],
    user: &str,
    asked: &Asked,
) -> Vec<OnHost<'a>> {
    let mut all: Vec<OnHost> = readings.iter().map(|reading| on_host(wanted, reading, user, asked)).collect();
    all.sort_by_key(|on_host| {
        (on_host.verdict, on_host.has_none_to_give(asked), Reverse(on_host.kept()), Reverse(on_host.room()))
    });
    all
}

fn on_host<'a>(wanted: &Wanted<'a>, reading: &'a HostReading, user: &str, asked: &Asked) -> OnHost<'a> {
    let watched = Watched::of_host(reading).map(|(_, watched)| watched);
    let there = match (&watched, &reading.seen) {
        (Some(watched), _) => Ok(not_given(watched.snapshot.clone(), reading, asked)),
        (None, Err(why)) => Err(why.to_string()),
        (None, Ok(_)) => Err("it was not read".to_owned()),
    };
    let mut answer = answer_there(wanted, &there, wanted.args.gpu);
    let mut once = match (&answer, &watched) {
        (Ok(answer), Some(watched)) => once_exited(answer, watched, reading, user),
        _ => Vec::new(),
    };
    // Another GPU may have less free memory, but only idle processes that use the rest.
    let other = match (&answer, &watched) {
        (Ok(known), Some(watched)) if known.fits == Some(false) && once.is_empty() && known.held.len() == 1 => {
            on_another_gpu(known, watched, wanted.args.gpu, |gpu| {
                let answer = answer_there(wanted, &there, Some(gpu)).ok()?;
                let once = once_exited(&answer, watched, reading, user);
                Some((answer, once))
            })
        }
        _ => None,
    };
    if let Some((there, exiting)) = other {
        once = exiting;
        // A change fits on the GPU with most free memory, if on any.
        if answer.as_ref().is_ok_and(|known| known.best().is_none()) {
            answer = Ok(there);
        }
    }
    let verdict = match &answer {
        Ok(Answer { fits: Some(true), .. }) => Verdict::Fits,
        Ok(answer) if answer.best().is_some() => Verdict::FitsChanged,
        Ok(_) if !once.is_empty() => Verdict::FitsOnceExited,
        Ok(Answer { fits: Some(false), .. }) => Verdict::DoesNotFit,
        _ => Verdict::Unknown,
    };
    let command = answer.as_ref().ok().and_then(|answer| command_there(answer, reading, asked));
    OnHost { reading, verdict, answer, once_exited: once, command }
}

/// Whether the model fits on a machine; on this GPU where one is named.
fn answer_there<'a>(
    wanted: &Wanted<'a>,
    there: &Result<Snapshot, String>,
    gpu: Option<u32>,
) -> Result<Answer<'a>, String> {
    wanted.on(Machine::of(there.clone(), gpu)?, None)
}

/// The answer for another GPU, where the exit of idle processes is enough: of those with the least memory.
fn on_another_gpu<'a>(
    known: &Answer<'a>,
    watched: &Watched,
    wish: Option<u32>,
    attempt: impl Fn(u32) -> Option<(Answer<'a>, Vec<Exiting>)>,
) -> Option<(Answer<'a>, Vec<Exiting>)> {
    if wish.is_some() {
        return None;
    }
    let tried = known.card.as_ref().map(|card| card.index);
    let others = watched.snapshot.devices.iter().filter(|device| has_idle_process(device, watched));
    let others = others.map(|device| device.index).filter(|index| Some(*index) != tried);
    let found = others.filter_map(attempt).filter(|(_, once)| !once.is_empty());
    found.min_by_key(|(_, once)| {
        let bytes = once.iter().fold(Bytes::ZERO, |sum, exiting| sum.plus(exiting.bytes));
        (once.iter().any(|exiting| !exiting.is_own), bytes)
    })
}

fn has_idle_process(device: &Device, watched: &Watched) -> bool {
    device.processes.iter().any(|process| watched.activity(device, process).is_idle())
}

impl OnHost<'_> {
    /// What stays free on the GPU that decides.
    pub(super) fn room(&self) -> Option<Bytes> {
        let answer = self.answer.as_ref().ok()?;
        Some(answer.card.as_ref()?.free.less(answer.estimate.total()?))
    }

    /// What the model takes there with the change that makes it fit: the more, the less is given up. `None` where it needs none.
    fn kept(&self) -> Option<Bytes> {
        if self.verdict != Verdict::FitsChanged {
            return None;
        }
        self.answer.as_ref().ok()?.best()?.total
    }

    /// The driver's indices of the GPUs that it would use.
    pub(super) fn gpus(&self) -> Vec<u32> {
        let Ok(answer) = &self.answer else { return Vec::new() };
        answer.held.iter().map(|held| held.card.index).collect()
    }

    /// Whether its scheduler gives no GPU of it to a new job.
    fn has_none_to_give(&self, asked: &Asked) -> bool {
        asked.job.is_none() && self.reading.allotment.as_ref().is_some_and(|all| !all.is_open || all.is_all_given())
    }

    pub(super) fn why_not_known(&self) -> Option<String> {
        match (&self.answer, self.verdict) {
            (Err(why), _) => Some(why.clone()),
            (Ok(answer), Verdict::Unknown) => {
                Some(answer.why_not_known.clone().unwrap_or_else(|| "a figure is missing".to_owned()))
            }
            (Ok(_), _) => None,
        }
    }
}

/// The machine without the GPUs that its scheduler gave to others, where it tells which; with all where it gave all.
fn not_given(mut snapshot: Snapshot, reading: &HostReading, asked: &Asked) -> Snapshot {
    let given = reading.allotment.as_ref().and_then(|allotment| allotment.given_indices.as_ref());
    // Inside of a job the GPUs that are given are its own.
    if let (Some(given), None) = (given, &asked.job)
        && snapshot.devices.iter().any(|device| !given.contains(&device.index))
    {
        snapshot.devices.retain(|device| !given.contains(&device.index));
    }
    snapshot
}

/// The fewest idle processes whose exit makes it fit: the person's own where these are enough.
fn once_exited(answer: &Answer, watched: &Watched, reading: &HostReading, user: &str) -> Vec<Exiting> {
    let all: Vec<Exiting> =
        answer.held.iter().flat_map(|held| idle_on(answer, &held.card, watched, reading, user)).collect();
    [true, false]
        .into_iter()
        .map(|only_own| fewest(answer, &all, only_own))
        .find(|few| !few.is_empty())
        .unwrap_or_default()
}

fn fewest(answer: &Answer, all: &[Exiting], only_own: bool) -> Vec<Exiting> {
    let held = answer.held.iter().map(|held| {
        let there = all.iter().filter(|exiting| exiting.gpu == held.card.index && (exiting.is_own || !only_own));
        let mut holders: Vec<Holder> = there.map(Exiting::as_holder).collect();
        holders.sort_by_key(|holder| Reverse(holder.bytes));
        Held { holders, ..held.clone() }
    });
    let held: Vec<Held> = held.collect();
    let keys: Vec<ProcessKey> = answer.in_the_way_of(&held).iter().map(|holder| holder.key).collect();
    all.iter().filter(|exiting| keys.contains(&exiting.key)).cloned().collect()
}

impl Exiting {
    fn as_holder(&self) -> Holder {
        let command = self.command.clone().unwrap_or_default();
        Holder { key: self.key, name: self.name.clone(), bytes: self.bytes, command, is_idle: true }
    }
}

fn idle_on(answer: &Answer, card: &Card, watched: &Watched, reading: &HostReading, user: &str) -> Vec<Exiting> {
    let Some(device) = answer.machine.device(card) else { return Vec::new() };
    let rows = device.processes.iter();
    rows.filter_map(|process| exiting(device, process, watched, reading, user)).collect()
}

fn exiting(
    device: &Device,
    process: &GpuProcess,
    watched: &Watched,
    reading: &HostReading,
    user: &str,
) -> Option<Exiting> {
    let Activity::Idle(idle) = watched.activity(device, process) else { return None };
    let key = process.proved_key()?;
    let bytes = process.used_bytes.value().filter(|bytes| *bytes >= WORTH_NAMING)?;
    if process.protected.is_some() || is_service(process) || !is_idle_everywhere(process, watched) {
        return None;
    }
    let is_own = people::is_own(reading, user, process);
    Some(Exiting {
        key,
        user: process.user.known().cloned(),
        name: name_of(process),
        bytes,
        gpu: device.index,
        idle_seconds: idle.as_secs(),
        age: process.started_at.value().map(|start| start.age_at(watched.snapshot.taken_at)),
        is_own,
        command: if is_own && reading.through == Through::Ssh { reading.kill(&[key]) } else { None },
    })
}

/// Whether it, and all that run with it under one launcher, are idle on every GPU.
fn is_idle_everywhere(process: &GpuProcess, watched: &Watched) -> bool {
    let mut together = watched
        .snapshot
        .on_gpus()
        .filter(|(_, other)| other.key() == process.key() || process.group.is_some() && other.group == process.group);
    together.all(|(device, other)| watched.activity(device, other).is_idle())
}

/// What runs the model there: through ssh, or as a job where Slurm gives out the GPUs.
fn command_there(answer: &Answer, reading: &HostReading, asked: &Asked) -> Option<String> {
    // What transformers and a trainer take is code or options, not a command.
    let is_program = match answer.engine {
        Engine::Transformers(_) | Engine::Train(_) => false,
        Engine::Vllm(_) | Engine::Sglang(_) | Engine::LlamaCpp(_) | Engine::Ollama(_) => true,
    };
    let line = command(answer).filter(|line| is_program && !line.starts_with('-') && !line.contains('\n'))?;
    let is_of_slurm = reading.through == Through::Slurm || reading.allotment.is_some() && asked.slurm.is_some();
    if is_of_slurm {
        let gpus = answer.held.len().max(1);
        // Slurm sets the variable itself, to the GPUs that it gives.
        let line = line.split(' ').skip_while(|word| word.starts_with("CUDA_")).collect::<Vec<_>>().join(" ");
        return Some(format!("srun --nodelist={} --gpus={gpus} {line}", reading.name));
    }
    reading.through.is_ssh().then(|| reading.name.ssh_command(&quoted(&line)))
}

#[cfg(test)]
mod tests;
