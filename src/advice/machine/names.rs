//! Owns what the GPU names in a log say about the machine: whether the GPU that failed is one of this machine's.

use crate::advice::input::Situation;
use crate::advice::names::NAMES;
use crate::advice::naming::short_card;
use crate::gpu::{Device, Snapshot, Vendor};
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
    if snapshot.devices.iter().any(|device| models_of(device).is_empty() || may_be_called(device, &failed)) {
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
    let models: Vec<String> = cards.iter().filter_map(|card| model(&card.name)).collect();
    snapshot.devices.iter().filter(|device| models_of(device).iter().any(|model| models.contains(model))).collect()
}

/// The models that a GPU of here may be: lists of names have one line for several, `Radeon RX 7900 XT/7900 XTX`.
fn models_of(device: &Device) -> Vec<String> {
    let Some(name) = device.name.known() else { return Vec::new() };
    let (first, others) = name.split_once('/').unwrap_or((name, ""));
    let family: Vec<&str> = first.split(' ').take_while(|word| !word.contains(|c: char| c.is_ascii_digit())).collect();
    let others = others.split('/').map(str::trim).filter(|other| !other.is_empty());
    let others = others.map(|other| match family.iter().any(|word| other.starts_with(word)) {
        true => other.to_owned(),
        false => format!("{} {other}", family.join(" ")),
    });
    [first.to_owned()].into_iter().chain(others).filter_map(|name| model(&name)).collect()
}

/// Whether a GPU of here may be one that the log names by its maker alone, as ROCm does where it does not know the model
/// ("AMD Radeon Graphics").
fn may_be_called(device: &Device, failed: &[&Card]) -> bool {
    device.vendor == Vendor::Amd
        && failed.iter().any(|card| model(&card.name).as_deref() == Some("amd radeon graphics"))
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
/// sizes are kept, since they make another GPU. `None` where the name was cut or says no model ("NVIDIA Graphics Device",
/// or a GPU that no list names: "GPU 1002:744c").
fn model(name: &str) -> Option<String> {
    let name = name.split(" MIG ").next().unwrap_or(name);
    // The Vulkan driver's own name stands behind: "(RADV NAVI22) (radv)".
    let bare = name.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    let bare = bare.split(" (").next()?.to_lowercase();
    let mut words: Vec<&str> =
        bare.split([' ', '-']).filter(|word| !word.is_empty() && !NAMES.makers.contains(word)).collect();
    let has_number = words.iter().any(|word| word.contains(|c: char| c.is_ascii_digit()));
    // Drivers write "Intel(R) Arc(TM) A770 Graphics" or "AMD Radeon RX 7900 XTX", and lists "Arc A770" or "Radeon RX 7900 XTX".
    words.retain(|word| !has_number || !["amd", "intel", "graphics"].contains(word));
    let says_model = has_number || ["amd", "intel", "apple", "radeon"].iter().any(|maker| words.contains(maker));
    (says_model && !bare.contains("..") && !bare.contains(':')).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{model, models_of};
    use crate::gpu::testing::device;
    use crate::gpu::{Device, Reading};

    #[test]
    fn a_gpu_model_is_recognized_in_every_spelling_and_two_models_stay_two() {
        let same = [
            ("NVIDIA GeForce RTX 3060", "GeForce RTX 3060"),
            ("NVIDIA GeForce RTX 4060 Laptop GPU", "RTX 4060 Laptop"),
            ("Tesla T4", "NVIDIA T4"),
            ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-40GB"),
            ("AMD Radeon RX 6700 XT (RADV NAVI22) (radv)", "AMD Radeon RX 6700 XT"),
            ("AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX"),
            ("Intel(R) Arc(TM) A770 Graphics", "Intel Arc A770"),
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
        assert_eq!(model("GPU 1002:744c"), None);
    }

    #[test]
    fn a_line_of_a_list_of_names_may_be_for_several_models() {
        let models = |name: &str| models_of(&Device { name: Reading::Known(name.into()), ..device(0, vec![]) });
        let several = models("AMD Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M");
        assert_eq!(several, ["radeon rx 7900 xt", "radeon rx 7900 xtx", "radeon rx 7900 gre", "radeon rx 7900m"]);
        assert_eq!(models("AMD Radeon 880M / 890M"), ["radeon 880m", "radeon 890m"]);
        assert_eq!(models("GPU 1002:744c"), Vec::<String>::new());
    }
}
