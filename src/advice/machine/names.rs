//! Owns what the cards' names in a log say of the machine: whether the one that failed is one of this machine's.

use crate::advice::{Situation, short_card};
use crate::gpu::{Device, Snapshot};
use crate::knowledge::run::Card;

/// What the names say.
pub enum Named<'a> {
    /// No card is named, or one of this machine's can't be told.
    Nothing,
    /// The one that failed is called as these here are.
    Here(Vec<&'a Device>),
    /// It is called as none here is, though another that the log names is here: perhaps a processor's own graphics.
    Beside,
    /// None of those it names is here; the reason in words.
    Elsewhere(String),
}

/// Holds the names in the log against those of this machine's cards.
pub fn named<'a>(situation: &Situation<'_>, snapshot: &'a Snapshot) -> Named<'a> {
    let cards: Vec<&Card> = situation.diagnosis.run.cards.iter().filter(|card| model(&card.name).is_some()).collect();
    let failed = that_failed(situation, &cards);
    let called =
        |card: &Card, device: &Device| device.name.known().is_some_and(|name| model(name) == model(&card.name));
    let here = |cards: &[&Card]| -> Vec<&'a Device> {
        snapshot.devices.iter().filter(|device| cards.iter().any(|card| called(card, device))).collect()
    };
    let Some(first) = failed.first() else { return Named::Nothing };
    let found = here(&failed);
    if !found.is_empty() {
        return Named::Here(found);
    }
    if snapshot.devices.iter().any(|device| device.name.known().and_then(|name| model(name)).is_none()) {
        return Named::Nothing;
    }
    if !here(&cards).is_empty() {
        return Named::Beside;
    }
    let mut names: Vec<&str> =
        snapshot.devices.iter().filter_map(|device| Some(short_card(device.name.known()?))).collect();
    names.dedup();
    let its = first.name.split(" (").next().unwrap_or(&first.name);
    Named::Elsewhere(format!("its GPU is {}, here there is {}", short_card(its), names.join(" and ")))
}

/// The cards that may be the one that failed: by the backend's word for it, else by its number, else all of them.
fn that_failed<'c>(situation: &Situation<'_>, cards: &[&'c Card]) -> Vec<&'c Card> {
    let diagnosis = situation.diagnosis;
    let number = |word: &str| word.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok();
    // ROCm is CUDA's backend of ggml, under another name; a bare number is one of CUDA's, too.
    let word = |word: &str| word.trim_end_matches(|c: char| c.is_ascii_digit()).replace("ROCm", "CUDA").to_lowercase();
    let is = |card: &Card| {
        let device = card.device.as_deref()?;
        let (backend, at) = (word(device), number(device)?);
        match diagnosis.run.failed_on.as_deref() {
            Some(failed) => {
                let same = if backend.is_empty() { word(failed) == "cuda" } else { backend == word(failed) };
                Some(same && number(failed) == Some(at))
            }
            None => Some(diagnosis.facts.device? == at),
        }
    };
    let found: Vec<&Card> = cards.iter().filter(|card| is(card) == Some(true)).copied().collect();
    if found.is_empty() { cards.to_vec() } else { found }
}

/// A card's model in a form that can be compared: two names with the same are one model, "Ti", "SUPER", "Laptop" and
/// sizes kept, since they are other cards. `None` where the name was cut or tells no model ("NVIDIA Graphics Device").
fn model(name: &str) -> Option<String> {
    /// What some programs and drivers leave out.
    const MAKERS: &[&str] = &["nvidia", "geforce", "tesla", "corporation", "gpu"];
    let name = name.split(" MIG ").next().unwrap_or(name);
    // The Vulkan driver's own name stands behind: "(RADV NAVI22) (radv)".
    let bare = name.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    let bare = bare.split(" (").next()?.to_lowercase();
    let words: Vec<&str> = bare.split([' ', '-']).filter(|word| !word.is_empty() && !MAKERS.contains(word)).collect();
    let tells = words.iter().any(|word| word.contains(|c: char| c.is_ascii_digit()))
        || ["amd", "intel", "apple", "radeon"].iter().any(|maker| words.contains(maker));
    (tells && !bare.contains("..")).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::model;

    #[test]
    fn the_same_model_however_it_is_printed_and_never_two_models() {
        let same = [
            ("NVIDIA GeForce RTX 3060", "GeForce RTX 3060"),
            ("NVIDIA GeForce RTX 4060 Laptop GPU", "RTX 4060 Laptop"),
            ("Tesla T4", "NVIDIA T4"),
            ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-40GB"),
            ("AMD Radeon RX 6700 XT (RADV NAVI22) (radv)", "AMD Radeon RX 6700 XT"),
        ];
        for (one, other) in same {
            assert_eq!(model(one), model(other), "{one}");
        }
        let models = [
            "NVIDIA GeForce RTX 3060",
            "NVIDIA GeForce RTX 3060 Ti",
            "NVIDIA GeForce RTX 3060 Laptop GPU",
            "NVIDIA GeForce RTX 4070",
            "NVIDIA GeForce RTX 4070 SUPER",
            "NVIDIA GeForce RTX 4070 Ti SUPER",
            "Quadro RTX 4000",
            "NVIDIA RTX 4000 Ada Generation",
            "Quadro 4000",
            "NVIDIA A100-SXM4-40GB",
            "NVIDIA A100-SXM4-80GB",
            "AMD Radeon RX 6700 XT",
            "AMD Radeon Graphics",
            "Apple M2 Pro",
        ];
        for (at, one) in models.iter().enumerate() {
            for other in models.iter().skip(at + 1) {
                assert_ne!(model(one), model(other), "{one} {other}");
            }
        }
        assert_eq!((model("NVIDIA Graphics Device"), model("NVIDIA GeForce RTX 40...")), (None, None));
    }
}
