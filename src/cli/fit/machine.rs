//! Owns what `oomdoctor fit` must know of this machine: its cards, which of them is meant, who could let go on it.

use crate::advice::fit::holders::{self, Holder};
use crate::cli::{Global, live};
use crate::gpu::guard::Viewer;
use crate::gpu::{Device, Driver, Snapshot};
use crate::memory::Engine;
use crate::memory::options::Card;
use crate::units::Bytes;

/// The cards of this machine, which of them is meant, and why there is none.
pub struct Machine {
    /// Those that can be read.
    pub cards: Vec<Card>,
    chosen: Option<usize>,
    /// Why there is none.
    pub no_card: Option<String>,
    snapshot: Option<Snapshot>,
}

impl Machine {
    /// The one that is meant.
    pub fn card(&self) -> Option<&Card> {
        self.chosen.and_then(|at| self.cards.get(at))
    }

    /// The card that decides for this engine: the chosen one; of a model that several share evenly, the one with least
    /// free memory among as many as it takes. Why there is none, where there are too few.
    pub fn card_for(&self, engine: &Engine, wish: Option<u32>) -> (Option<&Card>, Option<String>) {
        let ranks = usize::try_from(engine.ranks()).unwrap_or(usize::MAX);
        if ranks == 1 || wish.is_some() && self.cards.len() >= ranks {
            return (self.card(), None);
        }
        let mut free: Vec<&Card> = self.cards.iter().collect();
        free.sort_by_key(|card| std::cmp::Reverse(card.free));
        let there = self.cards.len();
        match free.get(ranks.saturating_sub(1)) {
            Some(least) => (Some(*least), None),
            // Of a run on many machines each card is like this one.
            None if matches!(engine, Engine::Train(_)) => (self.card(), None),
            None => (None, Some(format!("it is to run on {ranks} cards and this machine has {there}"))),
        }
    }

    /// System memory that is available.
    pub fn host_available(&self) -> Option<Bytes> {
        self.snapshot.as_ref()?.host.memory_available_bytes.value()
    }

    /// Who could let go of memory on the chosen card.
    pub fn holders(&self, viewer: &Viewer) -> Vec<Holder> {
        let chosen = self.card().map(|card| card.index);
        let devices = self.snapshot.iter().flat_map(|snapshot| &snapshot.devices);
        let device = devices.into_iter().find(|device| Some(device.index) == chosen);
        device.map(|device| holders::idle(device, viewer)).unwrap_or_default()
    }
}

/// Reads this machine once; without a wish the card with most free memory is meant.
pub fn machine(global: &Global, wish: Option<u32>) -> Result<Machine, String> {
    let (snapshot, (cards, no_card)) = match live::read_one_snapshot(global) {
        Ok((_, snapshot)) => {
            let snapshot = snapshot.harmless();
            let cards = cards(&snapshot);
            (Some(snapshot), cards)
        }
        Err(error) => (None, (Vec::new(), Some(error.to_string()))),
    };
    let places = cards.iter().enumerate();
    let chosen = match wish {
        Some(index) if !cards.is_empty() => {
            let found = places.into_iter().find(|(_, card)| card.index == index);
            Some(found.ok_or_else(|| format!("there is no GPU {index} that can be read"))?)
        }
        _ => places.max_by_key(|(_, card)| (card.free, std::cmp::Reverse(card.index))),
    };
    let chosen = chosen.map(|(at, _)| at);
    Ok(Machine { cards, chosen, no_card, snapshot })
}

/// The cards that can be read, or why there is none.
fn cards(snapshot: &Snapshot) -> (Vec<Card>, Option<String>) {
    let card = |device: &Device| {
        Some(Card {
            index: device.index,
            uuid: device.uuid.known().cloned(),
            name: device.name.known().cloned().unwrap_or_else(|| "GPU".into()),
            total: device.memory.total_bytes.value()?,
            free: device.memory.free_bytes.value()?,
        })
    };
    let cards: Vec<Card> = snapshot.devices.iter().filter(|device| device.error.is_none()).filter_map(card).collect();
    let why = match &snapshot.driver {
        Driver::Unavailable { unavailable } => unavailable.clone(),
        Driver::Available { .. } => "no card's free memory can be read".into(),
    };
    let why = cards.is_empty().then_some(why);
    (cards, why)
}
