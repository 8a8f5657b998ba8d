//! Owns what is offered: the choices that fit in the order of what they cost, the model's sizes by quantisation, and what
//! would fit where no choice does. Bytes. Knows no log.

use super::answer::{FitChoice, Size};
use super::effect;
use super::model::Known;
use crate::memory::options::{self, Card, Change, Choice};
use crate::memory::{Engine, Estimate, ModelShape, Settings, table};
use crate::units::Bytes;

/// So many other models or quantisations are named where nothing else is left.
pub const MOST_INSTEAD: usize = 3;

/// The choices that fit, what costs least first; of one kind only the first.
pub fn ranked(all: &[Choice], engine: &Engine, shape: &ModelShape) -> Vec<Choice> {
    let asked = engine.context(shape).unwrap_or(u64::MAX);
    let units = shape.layer_count().saturating_add(1);
    let rank = |choice: &Choice| match choice.kind {
        Change::OtherCard | Change::FlashAttention | Change::Utilization(_) | Change::AllCards => 0,
        Change::OneSlot | Change::Checkpointing | Change::OneSequence | Change::TensorParallel(_) => 1,
        Change::Chunk(_) | Change::Stage(_) | Change::HostEncoder => 2,
        Change::KvCache => 2,
        Change::Context(tokens) if tokens >= asked / 2 => 3,
        Change::NoGraphs | Change::Experts(_) | Change::SmallOptimizer => 4,
        Change::Mix(_) | Change::FourBits | Change::Dtype(_) | Change::Adapter => 5,
        Change::KvCacheAndContext(_) => 6,
        Change::MaxMemory(_) | Change::Together(_) => 8,
        Change::Context(_) => 7,
        Change::Layers(count) if count >= units / 2 => 8,
        Change::Layers(_) => 9,
    };
    let mut fitting: Vec<Choice> = all.iter().filter(|choice| choice.fits == Some(true)).cloned().collect();
    // A longer context than was asked for needs no second change.
    let plain = fitting.iter().any(|choice| choice.kind == Change::KvCache);
    fitting.retain(|choice| !(plain && matches!(choice.kind, Change::KvCacheAndContext(_))));
    fitting.sort_by_key(rank);
    fitting
}

/// Whether all that fits is a smaller half of the layers on the card, which is slow.
pub fn is_poor(fitting: &[Choice], shape: &ModelShape) -> bool {
    let half = shape.layer_count() / 2;
    fitting.iter().all(|choice| matches!(choice.kind, Change::Layers(count) if count < half))
}

/// A choice as it is told.
pub fn said(choice: &Choice, before: &Estimate, free: Option<Bytes>, engine: &Engine, shape: &ModelShape) -> FitChoice {
    let frees = effect::frees(choice, before, engine, shape);
    FitChoice {
        change: choice.change.clone(),
        total_bytes: choice.total,
        free_after_bytes: free.zip(choice.total).map(|(free, total)| free.less(total)),
        frees_bytes: frees.map(|(bytes, _)| bytes),
        frees_is: frees.map(|(_, is)| is),
        fits: choice.fits,
        flags: choice.flags.clone(),
        download_bytes: if let Change::Mix(_) = choice.kind { choice.estimate.weights_in_file.bytes } else { None },
        fixes: effect::fixes(choice.kind, engine).0.to_vec(),
    }
}

/// The model's sizes by quantisation with the run's other settings. Files of them are llama.cpp's.
pub fn sizes(engine: Engine, shape: &ModelShape, card: Option<&Card>) -> Vec<Size> {
    if !matches!(engine, Engine::LlamaCpp(_) | Engine::Ollama(_)) {
        return Vec::new();
    }
    let size = |(mix, shape): (&'static str, ModelShape)| {
        Some(Size {
            quantization: mix.to_owned(),
            file_bytes: Bytes(shape.weights.as_ref().ok()?.in_file()),
            total_bytes: engine.estimate(&shape).total(),
            fits: options::fits(&engine, &shape, card),
        })
    };
    options::at_mixes(shape).into_iter().filter_map(size).collect()
}

/// What would fit where no single change does: this model smaller and with a short context, then smaller models of its
/// family, then others; the largest first.
pub fn instead(known: &Known, engine: Engine, card: Option<&Card>) -> Vec<String> {
    let Ok(rows) = table::rows() else { return Vec::new() };
    let plain = |settings: Settings| Settings { flash_attention: true, parallel: 1, gpu_layers: None, ..settings };
    let engine = match engine {
        Engine::LlamaCpp(settings) => Engine::LlamaCpp(plain(settings)),
        Engine::Ollama(settings) => Engine::Ollama(plain(settings)),
        other => other,
    };
    let short = engine.with_context(engine.context(&known.shape).unwrap_or(4096).min(4096));
    let fits = |shape: &ModelShape| options::fits(&short, shape, card) == Some(true);
    let mix = if let Engine::LlamaCpp(_) | Engine::Ollama(_) = engine { "Q4_K_M" } else { "BF16" };
    let at = options::context_in_words(&short, &known.shape).map(|words| format!(" at {words}"));
    let at = at.unwrap_or_default();
    let own = options::at_mixes(&known.shape).into_iter().filter(|_| mix == "Q4_K_M");
    let own = own.filter(|(_, shape)| fits(shape)).map(|(mix, _)| format!("{} {mix}{at}", known.name));
    let in_four_bits = options::in_four_bits(short, &known.shape);
    let in_four_bits = in_four_bits.filter(|(engine, shape)| options::fits(engine, shape, card) == Some(true));
    let in_four_bits = in_four_bits.map(|_| format!("{} in 4 bits{at}", known.name));
    let family = table::near(rows, &known.name);
    let same_row = table::find(rows, &known.name).map(|row| row.name);
    let mut others: Vec<_> = rows.iter().filter(|row| Some(&row.name) != same_row.as_ref()).collect();
    others.sort_by(|a, b| {
        let near = |name: &str| !family.contains(&name);
        near(&a.name).cmp(&near(&b.name)).then(b.billions.total_cmp(&a.billions))
    });
    let others = others.into_iter().filter(|row| fits(&table::shape(row, mix)));
    own.take(1)
        .chain(in_four_bits)
        .chain(others.map(|row| format!("{} {mix}{at}", row.name)))
        .take(MOST_INSTEAD)
        .collect()
}
