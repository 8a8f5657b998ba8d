//! Owns a text that hundreds of patterns are tried on: one pass finds which short sequences of bytes it has, and most
//! patterns are ruled out because the text lacks a sequence that each of their matches contains.

use std::borrow::Cow;

use regex::bytes::Captures;

use super::pattern::Pattern;
use crate::effort;
use crate::log::needle::Needles;

/// How many bits a sequence's slot has.
const SLOT_BITS: u32 = 17;

/// A text and its sequences.
pub(super) struct Searched<'t> {
    text: Cow<'t, str>,
    /// A bit for each slot, set where a sequence of the text belongs to it.
    slots: Vec<u64>,
}

impl<'t> Searched<'t> {
    pub(super) fn new(text: impl Into<Cow<'t, str>>) -> Searched<'t> {
        let text = text.into();
        effort::count(text.len());
        let mut slots = vec![0_u64; 1 << (SLOT_BITS - 6)];
        let of_four = text.as_bytes().array_windows().map(|sequence| slot(*sequence));
        let of_three = text.as_bytes().array_windows().map(|sequence| slot_of_three(*sequence));
        for slot in of_four.chain(of_three) {
            if let Some(bits) = slots.get_mut(slot >> 6) {
                *bits |= 1 << (slot & 63);
            }
        }
        Searched { text, slots }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text, where it may hold a match of this pattern.
    pub(super) fn text_for(&self, pattern: &Pattern) -> Option<&str> {
        self.may_match(pattern.needles()).then_some(&*self.text)
    }

    /// All matches of this pattern with their groups.
    pub(super) fn captures<'s>(&'s self, pattern: &'s Pattern) -> impl Iterator<Item = Captures<'s>> {
        self.text_for(pattern).into_iter().flat_map(|text| pattern.captures(text))
    }

    /// Whether it has a match of this pattern.
    pub(super) fn shows(&self, pattern: &Pattern) -> bool {
        self.text_for(pattern).is_some_and(|text| pattern.is_match(text))
    }

    fn may_match(&self, needles: &Needles) -> bool {
        needles.may_be_met(|word| {
            if let Ok(word) = word.as_bytes().try_into() {
                return self.is_set(slot_of_three(word));
            }
            word.as_bytes().array_windows().all(|sequence| self.is_set(slot(*sequence)))
        })
    }

    fn is_set(&self, slot: usize) -> bool {
        self.slots.get(slot >> 6).is_some_and(|bits| bits >> (slot & 63) & 1 == 1)
    }
}

fn slot_of_three([first, second, third]: [u8; 3]) -> usize {
    slot([first, second, third, 0])
}

/// The slot of a sequence, which is that of its other cases, too: by multiplication with the golden ratio.
fn slot(sequence: [u8; 4]) -> usize {
    const ONE_CASE: u32 = 0x2020_2020;
    ((u32::from_le_bytes(sequence) | ONE_CASE).wrapping_mul(0x9E37_79B1) >> (32 - SLOT_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_that_matches_is_never_ruled_out(
            before in ".{0,20}",
            word in "[A-Za-z_\\]é]{3,9}",
            after in ".{0,20}",
            ignores_case in any::<bool>(),
        ) {
            let found = if ignores_case { word.to_ascii_uppercase() } else { word.clone() };
            let text = format!("{before}{found}{after}");
            let needles = Needles::of(&format!("{}{word}", if ignores_case { "(?i)" } else { "" }));
            prop_assert!(needles.may_match(&text) && Searched::new(text).may_match(&needles));
        }
    }

    #[test]
    fn a_text_without_a_word_of_the_pattern_is_ruled_out() {
        let text = Searched::new("epoch 3 step 120 loss 0.31 gpu memory 17.20 GiB cached");
        let may_match = |pattern: &str| text.text_for(&pattern.to_owned().into()).is_some();
        assert!(may_match("gpu memory") && may_match("(?i)GPU MEMORY {requested_bytes}") && may_match(r"\d+"));
        assert!(
            !may_match("gpu mem(?:ory )?sdk")
                && !may_match("gpu memories")
                && !may_match("(?:evaluation|validation) loss")
        );
    }
}
