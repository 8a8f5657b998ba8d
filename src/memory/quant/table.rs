//! Owns the form of the table of quantizations (`knowledge/memory/quantizations.ron`), which says what each part means.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::rules::{Role, Rule};
use crate::memory::data;
use crate::memory::ggml::GgmlType;

/// The table. Read once.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| data::read(TEXT).unwrap_or_default());

pub(super) const TEXT: &str = include_str!("../../../knowledge/memory/quantizations.ron");

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub mixes: Vec<(String, GgmlType)>,
    pub file_types: BTreeMap<u64, String>,
    pub nearest: Vec<(String, String)>,
    pub variants: Vec<Variant>,
    pub of_2026: Vec<String>,
    pub checkpoints: Vec<Checkpoint>,
    pub library: Vec<InLibrary>,
    pub never: Vec<String>,
    pub roles: Vec<(String, Role)>,
    pub rules: Vec<Rule>,
    pub instead: Vec<(Vec<GgmlType>, GgmlType)>,
}

/// A maker's variant of a plain mix.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    pub name: String,
    pub of: String,
    pub ends: Option<GgmlType>,
    #[serde(default = "unchanged")]
    pub per_mille: [u64; 4],
}

fn unchanged() -> [u64; 4] {
    [1000; 4]
}

/// A quantization that only checkpoints come in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub name: String,
    #[serde(default)]
    pub words: Vec<String>,
    pub experts: Option<GgmlType>,
    pub layers: Option<GgmlType>,
    pub rest: Option<GgmlType>,
    pub as_file: Option<String>,
}

impl Checkpoint {
    /// The type of a tensor with this name; what is not said is in bf16.
    pub(super) fn kind(&self, name: &str) -> GgmlType {
        let experts = if name.contains("_exps.") { self.experts } else { None };
        let in_layers = if name.starts_with("blk.") { self.layers } else { None };
        experts.or(in_layers).or(self.rest).unwrap_or(GgmlType::BF16)
    }
}

/// What Ollama's library has models of these families in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InLibrary {
    pub families: Vec<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    pub mix: String,
}
