//! Owns a GPU as far as a model's fit is concerned, which of several has most free memory, and what lets a program see
//! some of them alone. Bytes.

use std::cmp::Reverse;

use super::engine::Engine;
use crate::units::Bytes;

/// What is free for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub index: u32,
    pub uuid: Option<String>,
    pub name: String,
    pub total: Bytes,
    pub free: Bytes,
    /// Several GPUs as one, over which llama.cpp lays out a model: what is free on each. Empty for one GPU.
    pub each: Vec<Bytes>,
}

impl Card {
    /// One that is known by its memory alone.
    pub fn of(free: Bytes, total: Bytes) -> Card {
        Card { index: 0, uuid: None, name: String::new(), total, free, each: Vec::new() }
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

/// Whether the GPUs are not all of one size: CUDA then counts the fastest first, unless it is told not to.
pub fn differ(cards: &[Card]) -> bool {
    cards.iter().any(|card| Some(card.total) != cards.first().map(|first| first.total))
}

/// What lets a program see those with most free memory alone, where it would take others; empty where it takes them
/// anyway or there are too few.
pub fn only_most_free(count: usize, cards: &[Card]) -> String {
    let mut chosen: Vec<u32> = most_free_first(cards).into_iter().take(count).map(|card| card.index).collect();
    chosen.sort_unstable();
    if count > cards.len() || cards.iter().map(|card| card.index).take(count).eq(chosen.iter().copied()) {
        return String::new();
    }
    let said: Vec<String> = chosen.iter().map(u32::to_string).collect();
    format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={} ", said.join(","))
}

/// What lets a program see this GPU alone. vLLM and SGLang read the variable as numbers (vllm-project/vllm#13815); in
/// the order of the bus they are the driver's.
pub fn only_on(card: &Card, engine: &Engine) -> String {
    let takes_numbers = matches!(engine, Engine::Vllm(_) | Engine::Sglang(_));
    match &card.uuid {
        Some(uuid) if !takes_numbers => format!("CUDA_VISIBLE_DEVICES={uuid}"),
        _ => format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={}", card.index),
    }
}
