//! Owns the JSON of `oomdoctor fit MODEL --host …`.

use schemars::JsonSchema;
use serde::Serialize;

use super::on_host::{Exiting, OnHost, Verdict};
use super::words::{change, sentence};
use crate::cli::fit::wanted::Wanted;
use crate::gpu::SCHEMA;
use crate::hosts::{Allotment, Through};
use crate::units::{Bytes, WallTime};

/// What `oomdoctor fit MODEL --json` prints for several machines: on which of them the model fits.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli) struct FitHosts<'a> {
    /// The version of this format.
    schema: u32,
    /// The model as it was named on the command line.
    model: &'a str,
    /// Whether it fits on one of them in what is free now; null where it fits on none that could be read, and others could not.
    fits: Option<bool>,
    /// The answer in one sentence.
    answer: String,
    /// The machines, best first.
    hosts: Vec<HostFit<'a>>,
}

/// The model on one machine.
#[derive(Serialize, JsonSchema)]
struct HostFit<'a> {
    /// Its name as it was asked for, or as its scheduler has it.
    host: &'a str,
    /// Other names that lead to the same machine.
    also: Vec<&'a str>,
    through: Through,
    /// When it was read, by its own clock; null where it was not.
    taken_at: Option<WallTime>,
    verdict: Verdict,
    /// The driver's indices of the GPUs that it would use there.
    gpus: Vec<u32>,
    /// VRAM needed in bytes; null where it is unknown.
    total_bytes: Option<Bytes>,
    /// VRAM that is free on the GPU that decides, in bytes; null where it is unknown.
    free_now_bytes: Option<Bytes>,
    /// The change of its settings with which it fits there, in words that follow "with"; null where it fits as it is, or
    /// no known change is enough.
    change: Option<&'a str>,
    /// The idle processes whose exit makes it fit there as it is.
    once_exited: Vec<ExitingProcess<'a>>,
    /// The command line that runs it there so that it fits; null where there is none.
    command: Option<&'a str>,
    /// Why it is unknown whether it fits there; null where it is known.
    why_not_known: Option<String>,
    /// What a scheduler says of its GPUs; null where none was asked.
    allotment: Option<&'a Allotment>,
}

/// An idle process on another machine.
#[derive(Serialize, JsonSchema)]
struct ExitingProcess<'a> {
    pid: u32,
    /// Field 22 of /proc/PID/stat there.
    start_ticks: u64,
    /// Its user there; null where that is unknown.
    user: Option<&'a str>,
    /// What people call it.
    name: &'a str,
    /// VRAM that it uses on this GPU, in bytes.
    bytes: Bytes,
    /// The driver's index of the GPU.
    gpu: u32,
    /// How long it was seen to use neither GPU nor CPU.
    idle_seconds: u64,
    /// Whether it belongs to the user as whom the machine was reached.
    is_own: bool,
    /// What ends it there; null for another user's.
    command: Option<&'a str>,
}

impl<'a> FitHosts<'a> {
    pub(super) fn of(wanted: &'a Wanted<'a>, all: &'a [OnHost<'a>]) -> FitHosts<'a> {
        FitHosts {
            schema: SCHEMA,
            model: wanted.model,
            fits: fits_on_any(all),
            answer: sentence(all),
            hosts: all.iter().map(HostFit::of).collect(),
        }
    }
}

/// `None` where it fits on none that could be compared, and others could not.
fn fits_on_any(all: &[OnHost]) -> Option<bool> {
    if all.iter().any(|on_host| on_host.verdict == Verdict::Fits) {
        return Some(true);
    }
    if all.iter().any(|on_host| on_host.verdict == Verdict::Unknown) { None } else { Some(false) }
}

impl<'a> HostFit<'a> {
    fn of(on_host: &'a OnHost<'a>) -> HostFit<'a> {
        let (reading, answer) = (on_host.reading, on_host.answer.as_ref().ok());
        HostFit {
            host: reading.name.as_str(),
            also: reading.also.iter().map(|name| name.as_str()).collect(),
            through: reading.through,
            taken_at: reading.snapshot().map(|snapshot| snapshot.taken_at),
            verdict: on_host.verdict,
            gpus: on_host.gpus(),
            total_bytes: answer.and_then(|answer| answer.estimate.total()),
            free_now_bytes: answer.and_then(|answer| answer.card.as_ref()).map(|card| card.free),
            change: if on_host.verdict == Verdict::Fits { None } else { change(on_host) },
            once_exited: on_host.once_exited.iter().map(ExitingProcess::of).collect(),
            command: on_host.command.as_deref(),
            why_not_known: on_host.why_not_known(),
            allotment: reading.allotment.as_ref(),
        }
    }
}

impl<'a> ExitingProcess<'a> {
    fn of(exiting: &'a Exiting) -> ExitingProcess<'a> {
        ExitingProcess {
            pid: exiting.key.pid,
            start_ticks: exiting.key.start_ticks,
            user: exiting.user.as_deref(),
            name: &exiting.name,
            bytes: exiting.bytes,
            gpu: exiting.gpu,
            idle_seconds: exiting.idle_seconds,
            is_own: exiting.is_own,
            command: exiting.command.as_deref(),
        }
    }
}
