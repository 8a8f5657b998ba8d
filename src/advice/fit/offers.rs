//! Owns what is offered: the choices that fit in the order of what they cost, the model's sizes by quantization, and what
//! would fit where no choice does. Bytes. Knows no log.

use super::answer::{FitChoice, Size};
use super::effect::{self, Run};
use super::model::Known;
use crate::memory::knobs::quantization::{at_mixes, in_four_bits};
use crate::memory::knobs::{context, kv_type, layers};
use crate::memory::{Card, Choice, Engine, Figures, ModelShape, Settings, context_in_words, fits, table};
use crate::units::Bytes;

/// So many other models or quantizations are named where nothing else is left.
pub(crate) const MOST_INSTEAD: usize = 3;

/// The choices that fit, what costs least first; of one kind only the first.
pub(crate) fn ranked(all: &[Choice], engine: &Engine, shape: &ModelShape) -> Vec<Choice> {
    let mut fitting: Vec<Choice> = all.iter().filter(|choice| choice.fits == Some(true)).cloned().collect();
    // A longer context than was asked for needs no second change.
    if fitting.iter().any(|choice| choice.only_turn().is_some_and(|turn| turn.knob == &kv_type::KNOB)) {
        fitting.retain(|choice| !is_kv_type_and_context(choice));
    }
    fitting.sort_by_key(|choice| cost(choice, engine, shape));
    fitting
}

fn is_kv_type_and_context(choice: &Choice) -> bool {
    choice.turns.len() > 1 && choice.turned(&kv_type::KNOB).is_some()
}

/// What a choice costs the person, by what its knobs cost. Several changes at once cost more than any of them.
fn cost(choice: &Choice, engine: &Engine, shape: &ModelShape) -> u8 {
    let has_context = choice.turns.iter().any(|turn| turn.knob == &context::KNOB);
    match choice.turns.len() {
        2.. if is_kv_type_and_context(choice) => 6,
        2.. if has_context => 8,
        _ => choice.turns.iter().map(|turn| (turn.knob.cost)(engine, shape, turn.to)).max().unwrap_or(0),
    }
}

/// Whether all that fits is a smaller half of the layers on the GPU, which is slow.
pub(crate) fn is_poor(fitting: &[Choice], shape: &ModelShape) -> bool {
    let half = shape.layer_count() / 2;
    fitting.iter().all(|choice| choice.turned(&layers::KNOB).is_some_and(|count| count < half))
}

/// A choice as it is told.
pub(crate) fn said(choice: &Choice, run: &Run<'_>, free: Option<Bytes>) -> FitChoice {
    let frees = effect::frees(choice, run.estimate, run.engine, run.shape);
    FitChoice {
        change: choice.change.clone(),
        total_bytes: choice.total,
        free_after_bytes: free.zip(choice.total).map(|(free, total)| free.less(total)),
        frees_bytes: frees.map(|(bytes, _)| bytes),
        frees_is: frees.map(|(_, is)| is),
        fits: choice.fits,
        flags: choice.flags.clone(),
        download_bytes: effect::download(choice),
        fixes: effect::fixes_of(choice).to_vec(),
    }
}

/// The model's sizes by quantization with the run's other settings. Files of them are llama.cpp's.
pub(crate) fn sizes(engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Vec<Size> {
    if engine.kind().is_torch() {
        return Vec::new();
    }
    let sizes = at_mixes(shape).into_iter().filter_map(|(mix, shape)| {
        Some(Size {
            quantization: mix.to_owned(),
            file_bytes: Bytes(shape.weights.as_ref().ok()?.in_file()),
            total_bytes: engine.estimate(&shape).total(),
            fits: fits(&engine, &shape, card),
        })
    });
    sizes.collect()
}

/// What would fit where no single change does: this model smaller and with a short context, then smaller models of its
/// family, then others; the largest first.
pub(crate) fn instead(known: &Known, engine: Engine, card: Option<&Card>) -> Vec<String> {
    let short = with_little_context(engine, &known.shape);
    let at = context_in_words(&short, &known.shape).map(|words| format!(" at {words}")).unwrap_or_default();
    let is_torch = engine.kind().is_torch();
    let mixes = if is_torch { Vec::new() } else { at_mixes(&known.shape) };
    let mut own = mixes.iter().filter(|(_, shape)| fits(&short, shape, card) == Some(true));
    let mut instead: Vec<String> = own.next().map(|(mix, _)| format!("{} {mix}{at}", known.name)).into_iter().collect();
    if let Some((engine, shape)) = in_four_bits(short, &known.shape)
        && fits(&engine, &shape, card) == Some(true)
    {
        instead.push(format!("{} in 4 bits{at}", known.name));
    }
    let mix = if is_torch { "BF16" } else { "Q4_K_M" };
    for row in others(&known.name) {
        if instead.len() >= MOST_INSTEAD {
            break;
        }
        if fits(&short, &table::shape(row, mix), card) == Some(true) {
            instead.push(format!("{} {mix}{at}", row.name));
        }
    }
    instead
}

/// The engine with nothing that takes more than one short conversation needs.
fn with_little_context(mut engine: Engine, shape: &ModelShape) -> Engine {
    if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = &mut engine {
        *settings = Settings { flash_attention: true, parallel: 1, gpu_layers: None, ..*settings };
    }
    engine.with_context(engine.context(shape).unwrap_or(4096).min(4096))
}

/// The table's other models, those of the same family first, then the largest.
fn others(name: &str) -> Vec<&'static Figures> {
    let Ok(rows) = table::rows() else { return Vec::new() };
    let family = table::near(rows, name);
    let own = table::find(rows, name).map(|row| row.name);
    let mut others: Vec<&Figures> = rows.iter().filter(|row| Some(&row.name) != own.as_ref()).collect();
    others.sort_by(|a, b| {
        let family_first = family.contains(&b.name.as_str()).cmp(&family.contains(&a.name.as_str()));
        family_first.then(b.billions.total_cmp(&a.billions))
    });
    others
}
