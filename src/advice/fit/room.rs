//! Owns what is free for the run: on the card that failed, or on each of those that llama.cpp lays a model out over; now,
//! else what was free when it began, as its log says. Bytes.

use super::setup::Kind;
use crate::advice::ledger::run_had;
use crate::advice::verdict::next_try;
use crate::advice::{Ledger, Place, Situation};
use crate::gpu::Device;
use crate::knowledge::diagnosis::{Diagnosis, Platform};
use crate::memory::engine::ollama_spreads;
use crate::memory::split::MOST_CARDS;
use crate::memory::{Engine, ModelShape, Settings};
use crate::units::Bytes;

/// What is free for the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub(super) free: Option<Bytes>,
    pub(super) capacity: Option<Bytes>,
    pub(super) is_now: bool,
    /// System memory that is available, in whole GiB, where it may be this machine's run.
    pub(super) ram: Option<Bytes>,
    /// Why `free` is not known, where it is not.
    pub(super) why_not: &'static str,
    /// Free and capacity of each card here, where llama.cpp lays the model out over them; the figures above are sums.
    pub(super) each: Vec<(Bytes, Bytes)>,
    /// Whether the log shows that it did so.
    is_spread: bool,
}

impl Room {
    /// The card with most free memory, free and in all, where Ollama keeps the model on it.
    pub fn one_of_ollamas(&self, settings: &Settings, shape: &ModelShape) -> Option<(Bytes, Bytes)> {
        let most = self.each.iter().max().copied().filter(|_| !self.is_spread);
        most.filter(|(free, _)| !ollama_spreads(shape, settings, *free))
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

/// What is free on each card of this machine, where llama.cpp would lay out a model over all of them, as it does by
/// itself; empty where the log speaks of one of them.
fn each_card(situation: &Situation<'_>, place: &Place<'_>) -> Vec<(Bytes, Bytes)> {
    let run = &situation.diagnosis.run;
    let foreign = matches!(run.platform(), Some(Platform::Mac | Platform::Windows));
    // A log with figures of its own is only held against a machine that is known to be its own.
    let is_ours = place.same_machine.unwrap_or(run.free_at_start_bytes.is_none()) && !foreign;
    let here = situation.snapshot.filter(|_| is_ours && run.visible_devices.is_none());
    let devices = here.map(|here| here.devices.as_slice()).unwrap_or_default();
    let all = match run.devices {
        Some(count) => count == devices.len() as u64,
        None => place.device.is_none(),
    };
    let lays_out = matches!(Kind::of(situation.diagnosis), Some(Kind::LlamaCpp | Kind::Ollama));
    let whole = devices.len() > 1 && devices.len() <= MOST_CARDS && devices.iter().all(|card| card.nature.is_none());
    if !(all && lays_out && whole) {
        return Vec::new();
    }
    let next = next_try(situation, place);
    let card = |device: &Device| {
        // What its next try has taken already is room for it, too.
        let taken = next.as_ref().map_or(Bytes::ZERO, |next| {
            let its_own = device.processes.iter().filter(|row| next.is(row));
            let here = its_own.filter_map(|row| row.used_bytes.value()).fold(Bytes::ZERO, Bytes::plus);
            here.max(next.holds_on(device))
        });
        Some((device.memory.free_bytes.value()?.plus(taken), device.memory.total_bytes.value()?))
    };
    devices.iter().map(card).collect::<Option<_>>().unwrap_or_default()
}

/// The same when the run began, as its log says; the cards' sizes are not known.
fn each_at_start(diagnosis: &Diagnosis) -> Vec<(Bytes, Bytes)> {
    let each = &diagnosis.run.free_at_start_each;
    let lays_out = matches!(Kind::of(diagnosis), Some(Kind::LlamaCpp | Kind::Ollama));
    let several = lays_out && (2..=MOST_CARDS).contains(&each.len());
    each.iter().filter(|_| several).map(|free| (*free, *free)).collect()
}

/// Free now; else what was free for this run when it began, as its log says.
pub fn room(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Room {
    let run = &situation.diagnosis.run;
    let several = situation.snapshot.is_some_and(|here| here.devices.len() > 1) && place.same_machine != Some(false);
    let why_not = match place.device {
        None if several => "the log does not tell which of this machine's GPUs it was",
        _ => "what is free on the card is not known",
    };
    let foreign = matches!(run.platform(), Some(Platform::Mac | Platform::Windows));
    let host = situation.snapshot.map(|here| &here.host).filter(|_| place.same_machine != Some(false) && !foreign);
    let ram = host.and_then(|host| host.memory_available_bytes.value()).map(|free| Bytes(free.0 >> 30 << 30));
    let each = each_card(situation, place);
    let is_spread = run.devices.is_some_and(|many| many > 1);
    if !each.is_empty() {
        let sum = |of: fn(&(Bytes, Bytes)) -> Bytes| Some(each.iter().map(of).fold(Bytes::ZERO, Bytes::plus));
        let (free, capacity) = (sum(|card| card.0), sum(|card| card.1));
        return Room { free, capacity, is_now: true, ram, why_not, each, is_spread };
    }
    // What was free on several cards together is not held against one of them.
    let spread = is_spread && run.free_at_start_bytes.is_some();
    match ledger {
        Some(ledger) if ledger.is_now && !spread => {
            // What its next try has taken already is room for it, too.
            let taken = place.device.zip(next_try(situation, place)).map(|(device, next)| next.holds_on(device));
            let free = ledger.available_bytes.map(|free| free.plus(taken.unwrap_or(Bytes::ZERO)));
            Room { free, capacity: ledger.capacity_bytes, is_now: true, ram, why_not, each, is_spread }
        }
        _ => {
            let facts = &situation.diagnosis.facts;
            // What the run itself held when it failed would be free for it again.
            let then = || facts.free_bytes.map(|free| free.plus(run_had(situation.diagnosis).unwrap_or(Bytes::ZERO)));
            let capacity = facts.total_bytes;
            Room {
                free: run.free_at_start_bytes.or_else(|| then().filter(|_| capacity.is_some())),
                capacity,
                is_now: false,
                ram,
                why_not,
                each: each_at_start(situation.diagnosis),
                is_spread,
            }
        }
    }
}
