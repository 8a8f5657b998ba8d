//! Owns what is free for the run: on the GPU that failed, or on each of those that llama.cpp lays a model out over; now,
//! else what was free when it began, as its log says. Bytes.

use super::setup::kind_of;
use crate::advice::figures::run_had;
use crate::gpu::{Device, Snapshot};
use crate::knowledge::diagnosis::{Diagnosis, Platform};
use crate::memory::engine::ollama_spreads;
use crate::memory::split::MOST_CARDS;
use crate::memory::{Card, Engine, Kind, ModelShape, Settings};
use crate::units::Bytes;

/// What this machine has for the next attempt of the run that failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine<'a> {
    /// `None` to read the log alone.
    pub snapshot: Option<&'a Snapshot>,
    /// Whether the log is this machine's; `None` where that is not known.
    pub is_the_logs: Option<bool>,
    /// The GPU that the run failed on.
    pub failed_on: Option<&'a Device>,
    /// VRAM of that GPU now; `None` where only the log tells of it.
    pub vram_now: Option<Vram>,
    /// What a new attempt of the run, already started, uses on each GPU, by the driver's index: room that it has.
    pub used_by_next_try: Vec<(u32, Bytes)>,
}

/// A GPU's VRAM, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vram {
    pub free: Option<Bytes>,
    pub total: Option<Bytes>,
}

impl Machine<'_> {
    fn used_by_next_try_on(&self, device: &Device) -> Bytes {
        let used = self.used_by_next_try.iter().find(|(index, _)| *index == device.index);
        used.map_or(Bytes::ZERO, |(_, bytes)| *bytes)
    }
}

/// What is free for the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    pub(super) free: Option<Bytes>,
    pub(super) capacity: Option<Bytes>,
    pub(super) is_now: bool,
    /// VRAM now of the GPU that failed, without what a new attempt uses.
    pub(super) failed_gpu: Option<Vram>,
    /// System memory that is available, in whole GiB, where it may be this machine's run.
    pub(super) ram: Option<Bytes>,
    /// Why `free` is not known, where it is not.
    pub(super) why_not: &'static str,
    /// Free and capacity of each GPU here, where llama.cpp lays the model out over them; the figures above are sums.
    pub(super) each: Vec<(Bytes, Bytes)>,
    /// Whether the log shows that it did so.
    is_spread: bool,
}

impl Room {
    /// System memory that is available.
    pub(crate) fn ram(&self) -> Option<Bytes> {
        self.ram
    }

    /// The GPU with most free memory, free and in all, where Ollama keeps the model on it.
    pub fn one_of_ollamas(&self, settings: &Settings, shape: &ModelShape) -> Option<(Bytes, Bytes)> {
        if self.is_spread {
            return None;
        }
        let most = self.each.iter().max().copied();
        most.filter(|(free, _)| !ollama_spreads(shape, settings, *free))
    }

    /// The GPU that a change must fit; several over which a model is laid out count as one.
    pub(super) fn as_card(&self) -> Option<Card> {
        let free = self.free?;
        let each = self.each.iter().map(|(free, _)| *free).collect();
        Some(Card { each, ..Card::of(free, self.capacity.unwrap_or(free)) })
    }

    /// What there is of it for this engine.
    pub fn of(self, engine: &Engine, shape: &ModelShape) -> Room {
        let Engine::Ollama(settings) = engine else { return self };
        match self.one_of_ollamas(settings, shape) {
            Some((free, total)) => Room { free: Some(free), capacity: Some(total), each: Vec::new(), ..self },
            None => self,
        }
    }
}

/// Whether llama.cpp or Ollama ran the model: both lay it out over all GPUs.
fn lays_out_over_gpus(diagnosis: &Diagnosis) -> bool {
    matches!(kind_of(diagnosis), Some(Kind::LlamaCpp | Kind::Ollama))
}

/// Whether the log is of a system that this program doesn't read VRAM of.
fn is_of_another_system(diagnosis: &Diagnosis) -> bool {
    matches!(diagnosis.run.platform(), Some(Platform::Mac | Platform::Windows))
}

/// What is free on each GPU of this machine, where llama.cpp would lay out a model over all of them, as it does by
/// itself; empty where the log speaks of one of them.
fn each_gpu(diagnosis: &Diagnosis, machine: &Machine<'_>) -> Vec<(Bytes, Bytes)> {
    let run = &diagnosis.run;
    // A log with figures of its own is only compared with a machine that is known to be its own.
    let is_this_machines = machine.is_the_logs.unwrap_or(run.free_at_start_bytes.is_none());
    if !is_this_machines || is_of_another_system(diagnosis) || run.visible_devices.is_some() {
        return Vec::new();
    }
    let devices = machine.snapshot.map(|here| here.devices.as_slice()).unwrap_or_default();
    let uses_all = match run.devices {
        Some(count) => count == devices.len() as u64,
        None => machine.failed_on.is_none(),
    };
    let are_whole_gpus = (2..=MOST_CARDS).contains(&devices.len()) && devices.iter().all(|gpu| gpu.nature.is_none());
    if !(uses_all && are_whole_gpus && lays_out_over_gpus(diagnosis)) {
        return Vec::new();
    }
    let each = devices.iter().map(|gpu| {
        let free = gpu.memory.free_bytes.value()?.plus(machine.used_by_next_try_on(gpu));
        Some((free, gpu.memory.total_bytes.value()?))
    });
    each.collect::<Option<_>>().unwrap_or_default()
}

/// The same when the run began, as its log says; the GPUs' sizes are not known.
fn each_gpu_at_start(diagnosis: &Diagnosis) -> Vec<(Bytes, Bytes)> {
    let each = &diagnosis.run.free_at_start_each;
    if !lays_out_over_gpus(diagnosis) || !(2..=MOST_CARDS).contains(&each.len()) {
        return Vec::new();
    }
    each.iter().map(|free| (*free, *free)).collect()
}

/// System memory that is available here, in whole GiB, where it may be the run's.
fn available_ram(diagnosis: &Diagnosis, machine: &Machine<'_>) -> Option<Bytes> {
    if machine.is_the_logs == Some(false) || is_of_another_system(diagnosis) {
        return None;
    }
    let available = machine.snapshot?.host.memory_available_bytes.value()?;
    Some(Bytes(available.0 >> 30 << 30))
}

fn sum(bytes: impl Iterator<Item = Bytes>) -> Option<Bytes> {
    Some(bytes.fold(Bytes::ZERO, Bytes::plus))
}

/// Free now; else what was free for this run when it began, as its log says.
pub(crate) fn room(diagnosis: &Diagnosis, machine: &Machine<'_>) -> Room {
    let run = &diagnosis.run;
    let has_several = machine.snapshot.is_some_and(|here| here.devices.len() > 1) && machine.is_the_logs != Some(false);
    let room = Room {
        why_not: match machine.failed_on {
            None if has_several => "the log does not tell which of this machine's GPUs it was",
            _ => "what is free on the GPU is not known",
        },
        failed_gpu: machine.vram_now,
        ram: available_ram(diagnosis, machine),
        is_spread: run.devices.is_some_and(|many| many > 1),
        ..Room::default()
    };
    let each = each_gpu(diagnosis, machine);
    if !each.is_empty() {
        let (free, capacity) = (sum(each.iter().map(|gpu| gpu.0)), sum(each.iter().map(|gpu| gpu.1)));
        return Room { free, capacity, is_now: true, each, ..room };
    }
    // What was free on several GPUs together is not compared with one of them.
    let is_of_several = room.is_spread && run.free_at_start_bytes.is_some();
    match machine.vram_now {
        Some(now) if !is_of_several => {
            let taken = machine.failed_on.map_or(Bytes::ZERO, |gpu| machine.used_by_next_try_on(gpu));
            Room { free: now.free.map(|free| free.plus(taken)), capacity: now.total, is_now: true, ..room }
        }
        _ => at_start(diagnosis, room),
    }
}

/// What was free when the run began; else what was free when it failed, and what it used itself then.
fn at_start(diagnosis: &Diagnosis, room: Room) -> Room {
    let facts = &diagnosis.facts;
    let mut free = diagnosis.run.free_at_start_bytes;
    if free.is_none() && facts.total_bytes.is_some() {
        free = facts
            .free_bytes
            .map(|free| free.plus(run_had(diagnosis).unwrap_or(Bytes::ZERO)))
            .or(diagnosis.run.working_set_bytes);
    }
    Room { free, capacity: facts.total_bytes, each: each_gpu_at_start(diagnosis), ..room }
}
