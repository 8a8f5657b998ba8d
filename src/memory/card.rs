//! Owns a GPU as far as a model's fit is concerned, and which of several has most free memory. Bytes.

use std::cmp::Reverse;

use super::visible::Counted;
use crate::units::Bytes;

/// What is free for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The number that oomdoctor gives it.
    pub index: u32,
    /// How the programs that use it count it.
    pub counted: Counted,
    pub name: String,
    pub total: Bytes,
    pub free: Bytes,
    /// Several GPUs as one, over which llama.cpp lays out a model: what is free on each. Empty for one GPU.
    pub each: Vec<Bytes>,
}

impl Card {
    /// One that is known by its memory alone.
    pub fn of(free: Bytes, total: Bytes) -> Card {
        Card { index: 0, counted: Counted::default(), name: String::new(), total, free, each: Vec::new() }
    }

    /// What is free on it, or on each of several.
    pub fn room(&self) -> &[Bytes] {
        if self.each.is_empty() { std::slice::from_ref(&self.free) } else { &self.each }
    }

    /// Several as one, in their order; `None` where there is one only.
    pub fn together(cards: &[Card]) -> Option<Card> {
        let first = if let [first, _, ..] = cards { first } else { return None };
        let each: Vec<Bytes> = cards.iter().map(|card| card.free).collect();
        let free = each.iter().copied().fold(Bytes::ZERO, Bytes::plus);
        let total = cards.iter().map(|card| card.total).fold(Bytes::ZERO, Bytes::plus);
        Some(Card { free, total, each, ..first.clone() })
    }
}

/// The GPUs with most free memory first; of two with as much, the one of the lower index.
pub fn most_free_first(cards: &[Card]) -> Vec<&Card> {
    let mut sorted: Vec<&Card> = cards.iter().collect();
    sorted.sort_by_key(|card| (Reverse(card.free), card.index));
    sorted
}

/// Whether the GPUs are not all of one size: a library may then count them in another order, unless it is told not to.
pub fn differ(cards: &[Card]) -> bool {
    cards.iter().any(|card| Some(card.total) != cards.first().map(|first| first.total))
}
