//! Owns what a model's weights take: by its name, and whether they were widened while loading. Bytes.

use super::names::NAMES;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind, Phase};
use crate::memory::table;
use crate::units::Bytes;

/// Loading takes up to a fifth more than the weights; twice as much and more is another data type.
const LOADING_FACTOR: f64 = 1.2;

/// Weights that take more in memory than in their file.
pub(crate) struct Widened {
    /// Bits of a weight as it was loaded, 16 or 32.
    pub to_bits: u32,
    pub shown_by: ShownBy,
}

/// What shows that weights were widened.
pub(crate) enum ShownBy {
    /// The log says so, with this data type.
    Log(String),
    /// The run had more bytes for each parameter than the model's file has.
    Bytes { had: Bytes, model: String, billions: f64, bits: f64, bits_in_file: f64 },
}

/// Whether the weights were widened while loading: by the log's own words, else by what the run had.
pub(crate) fn widened(diagnosis: &Diagnosis) -> Option<Widened> {
    if diagnosis.memory != Some(MemoryKind::Gpu) {
        return None;
    }
    let Some(data_type) = &diagnosis.run.widened else { return widened_by_bytes(diagnosis) };
    let is_loading = matches!(diagnosis.phase, Phase::Load | Phase::Startup | Phase::Unknown);
    let to_bits = if data_type.contains("32") { 32 } else { 16 };
    is_loading.then(|| Widened { to_bits, shown_by: ShownBy::Log(data_type.clone()) })
}

fn widened_by_bytes(diagnosis: &Diagnosis) -> Option<Widened> {
    let run = &diagnosis.run;
    // While PyTorch loads a model, weights are all that it has; a notebook may have more from before.
    let has_only_weights = diagnosis.phase == Phase::Load && diagnosis.raised_by.as_deref() == Some("pytorch");
    if !has_only_weights || run.notebook.is_some() {
        return None;
    }
    let name = run.model.as_deref()?;
    let (row, called) = table::called(table::rows().ok()?, name)?;
    let had = diagnosis.facts.allocated_bytes?;
    let (bits, bits_in_file) = (had.0 as f64 * 8.0 / (row.billions * 1e9), bits_in_file(name)?);
    if !bits.is_finite() || bits < bits_in_file * LOADING_FACTOR {
        return None;
    }
    let to_bits = if bits_in_file == 16.0 { 32 } else { 16 };
    let shown_by = ShownBy::Bytes { had, model: called.to_owned(), billions: row.billions, bits, bits_in_file };
    Some(Widened { to_bits, shown_by })
}

/// The weights of the model of this name as its file has them, about; `None` where no row of the table has it.
pub(crate) fn weights_by_name(name: &str) -> Option<Bytes> {
    let row = table::find(table::rows().ok()?, name)?;
    let bytes = row.billions * 1e9 * bits_in_file(name)? / 8.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a model's size")]
    Some(Bytes(bytes as u64))
}

/// Bits of a weight in the file of this name, with its scales; `None` where the name leaves them open.
fn bits_in_file(name: &str) -> Option<f64> {
    let name = name.to_lowercase();
    match () {
        () if contains_any(&name, &NAMES.weights_of_any_bits) => None,
        () if contains_any(&name, &NAMES.weights_of_four_bits) => Some(5.0),
        () if contains_any(&name, &NAMES.weights_of_eight_bits) => Some(9.0),
        () => Some(16.0),
    }
}

fn contains_any(name: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| name.contains(sign))
}
