//! Owns what `oomdoctor fit` must know of a machine: its GPUs, which of them is meant, which processes could free memory on it.

use crate::advice::counted;
use crate::advice::fit::holders::{self, Holder};
use crate::advice::offer::Seen;
use crate::gpu::guard::Viewer;
use crate::gpu::{Device, Nature, Snapshot, Vendor};
use crate::memory::card::most_free_first;
use crate::memory::{Card, Engine};
use crate::platform::{Sampling, machine};
use crate::units::Bytes;

/// The GPUs of a machine, which of them is meant, and why there is none.
pub(super) struct Machine {
    /// Those that can be read.
    pub cards: Vec<Card>,
    chosen: Option<Card>,
    /// Why there is none.
    pub no_card: Option<String>,
    snapshot: Option<Snapshot>,
}

impl Machine {
    /// A machine as it was read, or why it was not. Fails where the GPU that is wished for is not there.
    pub(super) fn of(read: Result<Snapshot, String>, wish: Option<u32>) -> Result<Machine, String> {
        let (snapshot, (cards, no_card)) = match read {
            Ok(snapshot) => {
                let cards = cards(&snapshot);
                (Some(snapshot), cards)
            }
            Err(why) => (None, (Vec::new(), Some(why))),
        };
        let chosen = match wish {
            Some(index) if !cards.is_empty() => {
                let found = cards.iter().find(|card| card.index == index);
                Some(found.ok_or_else(|| format!("there is no readable GPU {index}; `oomdoctor ps` lists the GPUs"))?)
            }
            _ => most_free_first(&cards).first().copied(),
        };
        let chosen = chosen.cloned();
        Ok(Machine { cards, chosen, no_card, snapshot })
    }

    /// The one that is meant.
    pub(super) fn card(&self) -> Option<&Card> {
        self.chosen.as_ref()
    }

    /// The GPUs that this engine would use, the one that decides last: the chosen one; of a model that several share
    /// evenly, as many as it takes, those with most free memory. Why there are none, where there are too few.
    pub(super) fn cards_for(&self, engine: &Engine, wish: Option<u32>) -> (Vec<&Card>, Option<String>) {
        let ranks = usize::try_from(engine.ranks()).unwrap_or(usize::MAX);
        let chosen = self.card().into_iter().collect();
        if ranks == 1 || wish.is_some() && self.cards.len() >= ranks {
            return (chosen, None);
        }
        let there = self.cards.len();
        match most_free_first(&self.cards).get(..ranks) {
            Some(most) => (most.to_vec(), None),
            // Of a run on many machines each GPU is like this one.
            None if matches!(engine, Engine::Train(_)) => (chosen, None),
            None => (Vec::new(), Some(format!("it needs {ranks} GPUs and this machine has {there}"))),
        }
    }

    /// System memory that is available.
    pub(super) fn host_available(&self) -> Option<Bytes> {
        self.snapshot.as_ref()?.host.memory_available_bytes.value()
    }

    /// What would be free on a GPU if all that are listed there ended, whoever's they are; nothing where nobody is.
    pub(super) fn emptied(&self, card: &Card) -> Option<Bytes> {
        let device = self.device(card)?;
        let held = device.processes.iter().filter_map(|row| row.used_bytes.value()).fold(Bytes::ZERO, Bytes::plus);
        let reserved = device.memory.reserved_bytes.value().unwrap_or(Bytes::ZERO);
        (held > Bytes::ZERO).then(|| card.free.plus(held).min(card.total.less(reserved)))
    }

    /// The processes that could free memory on a GPU.
    pub(super) fn holders(&self, card: &Card, viewer: &Viewer) -> Vec<Holder> {
        let seen = self.snapshot.as_ref().map(|snapshot| Seen { snapshot, history: None, viewer });
        self.device(card).zip(seen).map(|(device, seen)| holders::not_busy(device, seen)).unwrap_or_default()
    }

    /// A GPU as it was read.
    pub(super) fn device(&self, card: &Card) -> Option<&Device> {
        self.snapshot.as_ref()?.devices.iter().find(|device| device.index == card.index)
    }
}

/// Reads this machine once; without a wish the GPU with most free memory is meant.
pub(super) fn machine(sampling: &Sampling, wish: Option<u32>) -> Result<Machine, String> {
    Machine::of(machine::read_once(sampling).map(Snapshot::harmless), wish)
}

/// Whose GPUs a model would run on: of several makers the one of the largest that is no part of a processor. A model is
/// not split over GPUs of two makers.
fn main_maker(snapshot: &Snapshot) -> Option<Vendor> {
    let shares_memory = |device: &Device| matches!(device.nature, Some(Nature::SharedMemory | Nature::Integrated));
    let largest =
        snapshot.devices.iter().max_by_key(|device| (!shares_memory(device), device.memory.total_bytes.value()));
    largest.map(|device| device.vendor)
}

/// The GPUs that can be read, or why there is none.
fn cards(snapshot: &Snapshot) -> (Vec<Card>, Option<String>) {
    let maker = main_maker(snapshot);
    let readable = snapshot
        .devices
        .iter()
        .filter(|device| device.error.is_none() && maker.is_none_or(|made| device.vendor == made));
    let cards = readable.filter_map(|device| {
        Some(Card {
            index: device.index,
            counted: counted(device),
            name: device.name.known().cloned().unwrap_or_else(|| "GPU".into()),
            total: device.memory.total_bytes.value()?,
            free: device.memory.free_bytes.value()?,
            each: Vec::new(),
        })
    });
    let cards: Vec<Card> = cards.collect();
    let why = snapshot.unavailable().unwrap_or("the free VRAM of no GPU can be read").to_owned();
    let why = cards.is_empty().then_some(why);
    (cards, why)
}
