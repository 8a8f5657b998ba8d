//! Owns what is known by name of models that draw pictures and videos (`knowledge/models/images/`): their weights at
//! the usual widths. What they work in grows with the picture and is not reckoned. Bytes. Knows nothing of this machine.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{data, table};
use crate::units::{Bytes, whole};

/// Bits of a weight, with their scales: halves, fp8, and the 4-bit GGUF files (6.81 GB for FLUX.1's 11.9 billion).
const WIDTHS: [(&str, f64); 3] = [("16 bits", 16.0), ("8 bits (fp8)", 8.0), ("4 bits (GGUF Q4)", 4.6)];

/// A model that draws.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageModel {
    name: String,
    also: Vec<String>,
    /// Of the part that draws.
    billions: f64,
    /// So many of them, which work by turns.
    #[serde(default = "once")]
    turns: u8,
    /// Text encoders beside it, in billions.
    encoders: Vec<(String, f64)>,
    /// Where the figures are from, with the date.
    source: String,
}

fn once() -> u8 {
    1
}

fn all() -> &'static [ImageModel] {
    static ALL: OnceLock<Vec<ImageModel>> = OnceLock::new();
    ALL.get_or_init(|| {
        table::files(true).filter_map(|(_, text)| data::read::<Vec<ImageModel>>(text).ok()).flatten().collect()
    })
}

/// The model of this name, with an owner, a width or an ending behind it or without.
pub(crate) fn find(name: &str) -> Option<&'static ImageModel> {
    let asked = with_dashes(name.rsplit('/').next().unwrap_or(name));
    let names = all().iter().flat_map(|model| model.also.iter().chain([&model.name]).map(move |own| (model, own)));
    let fitting = names.filter(|(_, own)| {
        let rest = asked.strip_prefix(&with_dashes(own));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', ':']))
    });
    fitting.max_by_key(|(_, own)| own.len()).map(|(model, _)| model)
}

fn with_dashes(name: &str) -> String {
    name.to_lowercase().replace(['_', ' '], "-")
}

fn bytes(billions: f64, bits: f64) -> Bytes {
    Bytes(whole((billions * 1e9 * bits / 8.0).trunc()))
}

impl ImageModel {
    /// In sentences: its weights at each width, and which of them leave room in what is free.
    pub(crate) fn said(&self, free: Option<Bytes>) -> String {
        let turns = if self.turns > 1 { format!(" each of {}, one at a time", self.turns) } else { String::new() };
        let mut said =
            format!("The weights of {} take about {}{turns}.", self.name, at_each_width(self.billions).join(", "));
        for (name, billions) in self.encoders.iter().filter(|(_, billions)| *billions >= 0.5) {
            said += &format!(
                " Its text encoder {name} takes about {} beside them, unless it is moved out after the prompt is read.",
                at_each_width(*billions).join(", ")
            );
        }
        said += " What it works in comes on top, grows with the picture and its length, and is not reckoned here.";
        said + &free.map(|free| self.beside(free)).unwrap_or_default()
    }

    /// What each width leaves of what is free.
    fn beside(&self, free: Bytes) -> String {
        let weights = WIDTHS.iter().map(|(width, bits)| (width, bytes(self.billions, *bits)));
        let left = weights.filter(|(_, weights)| *weights < free);
        let left: Vec<String> = left.map(|(width, weights)| format!("{width} leave {}", free.less(weights))).collect();
        match left.as_slice() {
            [] => format!(" {free} is free: the weights alone do not fit, even in 4 bits."),
            left => format!(" {free} is free; beside the weights {} for that.", left.join(", ")),
        }
    }
}

fn at_each_width(billions: f64) -> Vec<String> {
    WIDTHS.iter().map(|(width, bits)| format!("{} in {width}", bytes(billions, *bits))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        assert!(all().len() > 5, "the file can be read");
        for model in all() {
            assert!(model.billions > 0.5 && model.source.contains("2026"), "{model:?}");
            assert_eq!(find(&model.name), Some(model));
        }
    }

    #[test]
    fn a_model_is_found_by_the_names_its_files_have() {
        let name = |asked: &str| find(asked).map(|model| model.name.as_str());
        assert_eq!(name("black-forest-labs/FLUX.1-dev"), Some("FLUX.1"));
        assert_eq!(name("flux1-dev-Q4_K_S.gguf"), Some("FLUX.1"));
        assert_eq!(name("flux2-klein-4b"), Some("FLUX.2-klein-4B"));
        assert_eq!(name("sd_xl_base_1.0.safetensors"), Some("SDXL"));
        assert_eq!(name("llama-3.1-8b"), None);
        assert_eq!(name("fluxion"), None);
    }

    #[test]
    fn its_weights_are_told_beside_what_is_free() {
        let said = find("flux1-dev").unwrap().said(Some(Bytes::gib(12)));
        assert!(said.contains("22.2 GiB in 16 bits, 11.1 GiB in 8 bits (fp8), 6.4 GiB in 4 bits"), "{said}");
        assert!(
            said.contains("beside the weights 8 bits (fp8) leave 939 MiB, 4 bits (GGUF Q4) leave 5.6 GiB"),
            "{said}"
        );
        assert!(find("flux2-dev").unwrap().said(Some(Bytes::gib(8))).contains("do not fit, even in 4 bits"));
        assert!(find("wan2.2-t2v-a14b").unwrap().said(None).contains("each of 2, one at a time"));
    }
}
