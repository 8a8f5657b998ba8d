//! Owns what the GPU names in a log say about the machine: whether the GPU that failed is one of this machine's.

use crate::advice::input::Situation;
use crate::advice::names::NAMES;
use crate::advice::naming::short_card;
use crate::gpu::{Device, Snapshot};
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::run::Card;
use crate::units::Bytes;

/// What the names say.
pub(crate) enum NamedGpus<'a> {
    /// No GPU is named, or the names of this machine's are not known.
    Nothing,
    /// The one that failed has the name of these here.
    Here(Vec<&'a Device>),
    /// None here has its name, but another GPU that the log names is here: it may be a processor's own graphics.
    Beside,
    /// None of the GPUs that the log names is here; the reason in words.
    Elsewhere(String),
}

/// Compares the names in the log with those of this machine's GPUs.
pub(crate) fn named<'a>(situation: &Situation<'_>, snapshot: &'a Snapshot) -> NamedGpus<'a> {
    let cards: Vec<&Card> = situation.diagnosis.run.cards.iter().filter(|card| model(&card.name).is_some()).collect();
    let failed = that_failed(situation, &cards);
    let Some(first) = failed.first() else { return NamedGpus::Nothing };
    let here = of_these_names(snapshot, &failed);
    if !here.is_empty() {
        return NamedGpus::Here(here);
    }
    if snapshot.devices.iter().any(|device| model_of(device).is_none()) {
        return NamedGpus::Nothing;
    }
    if !of_these_names(snapshot, &cards).is_empty() {
        return NamedGpus::Beside;
    }
    let mut names: Vec<&str> =
        snapshot.devices.iter().filter_map(|device| Some(short_card(device.name.known()?))).collect();
    names.dedup();
    let its = first.name.split(" (").next().unwrap_or(&first.name);
    NamedGpus::Elsewhere(format!("its GPU is {}, here there is {}", short_card(its), names.join(" and ")))
}

/// The VRAM of the GPU that failed, by its name alone. `None` where the log names GPUs of several models.
pub(crate) fn capacity(diagnosis: &Diagnosis) -> Option<Bytes> {
    let mut models = diagnosis.run.cards.iter().filter_map(|card| model(&card.name));
    let first = models.next()?;
    if models.any(|other| other != first) {
        return None;
    }
    NAMES.vram_mib.get(first.as_str()).map(|mib| Bytes::mib(*mib))
}

fn of_these_names<'a>(snapshot: &'a Snapshot, cards: &[&Card]) -> Vec<&'a Device> {
    let models: Vec<Option<String>> = cards.iter().map(|card| model(&card.name)).collect();
    let named = snapshot.devices.iter().filter(|device| device.name.known().is_some());
    named.filter(|device| models.contains(&model_of(device))).collect()
}

fn model_of(device: &Device) -> Option<String> {
    model(device.name.known()?)
}

/// The GPUs that may be the one that failed: by the backend's word for it, else by its number, else all of them.
fn that_failed<'c>(situation: &Situation<'_>, cards: &[&'c Card]) -> Vec<&'c Card> {
    let found: Vec<&Card> = cards.iter().filter(|card| failed(card, situation) == Some(true)).copied().collect();
    if found.is_empty() { cards.to_vec() } else { found }
}

/// Whether that GPU is the one that failed; `None` where the log does not number it.
fn failed(card: &Card, situation: &Situation<'_>) -> Option<bool> {
    let diagnosis = situation.diagnosis;
    let (backend, number) = backend_and_number(card.device.as_deref()?);
    let number = number?;
    let Some(word) = diagnosis.run.failed_on.as_deref() else { return Some(diagnosis.facts.device? == number) };
    let (failed_backend, failed_number) = backend_and_number(word);
    // A bare number is one of CUDA's, too.
    let is_same_backend = if backend.is_empty() { failed_backend == "cuda" } else { backend == failed_backend };
    Some(is_same_backend && failed_number == Some(number))
}

/// A backend's word for a GPU, such as `CUDA0`, in two parts. ROCm is CUDA's backend of ggml under another name.
fn backend_and_number(word: &str) -> (String, Option<u32>) {
    let backend = word.trim_end_matches(|c: char| c.is_ascii_digit()).replace("ROCm", "CUDA").to_lowercase();
    (backend, word.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok())
}

/// A GPU's model in a form that can be compared: two names with the same form are one model. "Ti", "SUPER", "Laptop" and
/// sizes are kept, since they make another GPU. `None` where the name was cut or says no model ("NVIDIA Graphics Device").
fn model(name: &str) -> Option<String> {
    let name = name.split(" MIG ").next().unwrap_or(name);
    // The Vulkan driver's own name stands behind: "(RADV NAVI22) (radv)".
    let bare = name.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    let bare = bare.split(" (").next()?.to_lowercase();
    let words: Vec<&str> =
        bare.split([' ', '-']).filter(|word| !word.is_empty() && !NAMES.makers.contains(word)).collect();
    let says_model = words.iter().any(|word| word.contains(|c: char| c.is_ascii_digit()))
        || ["amd", "intel", "apple", "radeon"].iter().any(|maker| words.contains(maker));
    (says_model && !bare.contains("..")).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::model;

    #[test]
    fn a_gpu_model_is_recognized_in_every_spelling_and_two_models_stay_two() {
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
