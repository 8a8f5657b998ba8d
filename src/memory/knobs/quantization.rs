//! Owns in how many bits a model's file or checkpoint has its weights. Another one is a download, no option.

use crate::memory::ggml::GgmlType;
use crate::memory::inference::{self, Dtype, Generating};
use crate::memory::knob::*;
use crate::memory::quant::{self, MIXES, Shape};
use crate::memory::shape::{Is, Storage};
use crate::memory::weights;

/// Values are places in `MIXES`; past them, a checkpoint in four bits.
pub(crate) static KNOB: Knob = Knob {
    name: "quantization",
    engines: &[Kind::LlamaCpp, Kind::Ollama, Kind::Vllm, Kind::Sglang],
    fixes: &[FixId::SMALLER_QUANTISATION],
    placeholder: |_, place| Some(("quantisation", (*MIXES.get(usize::try_from(place).ok()?)?).to_owned())),
    cost: |_, _, _| 5,
    proposals: |need| match need.engine {
        Engine::LlamaCpp(_) | Engine::Ollama(_) if need.fits == Some(false) => smaller_file(need).into_iter().collect(),
        Engine::Vllm(_) | Engine::Sglang(_) if need.fits != Some(true) => {
            four_bit_checkpoint(need).into_iter().collect()
        }
        _ => Vec::new(),
    },
    ..Knob::PLAIN
};

/// The model at each mix that files are given out in, from the largest to the smallest; their sizes are about. Empty
/// where its tensors are not known one by one, or are trained in a type of their own (gpt-oss).
pub(crate) fn at_mixes(shape: &ModelShape) -> Vec<(&'static str, ModelShape)> {
    let own_type = shape.tensors.iter().any(|tensor| tensor.kind == GgmlType::MXFP4);
    if own_type || shape.architecture == "gpt-oss" {
        return Vec::new();
    }
    let shapes: Vec<Shape> = shape.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dims.clone())).collect();
    let count = usize::try_from(shape.layer_count()).unwrap_or(0);
    let kv_heads = shape.layers.iter().flatten().find_map(|layer| Some(layer.cache?.heads));
    let shared_by = if shape.mla { shape.heads } else { shape.heads.checked_div(kv_heads.unwrap_or(0)).unwrap_or(0) };
    let (architecture, layers, experts) = (shape.architecture.as_str(), shape.layer_count(), shape.experts);
    let model = quant::Model { architecture, layers, experts, shared_by };
    let narrow = MIXES.into_iter().filter(|mix| !["F32", "BF16", "F16"].contains(mix));
    let at_mix = narrow.filter_map(|mix| {
        let tensors = quant::mixed(&shapes, mix, model).filter(|found| !found.is_empty())?;
        let weights = Ok(weights::sums_of(&tensors, count));
        Some((mix, ModelShape { weights, weights_are: Is::About, quantization: Some(mix.into()), ..shape.clone() }))
    });
    at_mix.collect()
}

/// The model in 4 bits where weights are not named by mixes: NF4 while loading (transformers), or a checkpoint that was
/// quantised already (vLLM; AWQ and GPTQ take about as much). `None` where it has so few bits already. About.
pub(crate) fn in_four_bits(engine: Engine, shape: &ModelShape) -> Option<(Engine, ModelShape)> {
    let sums = shape.weights.as_ref().ok()?;
    let four = inference::in_dtype(shape, Dtype::Nf4).ok().filter(|four| sums.in_file() / 3 > four / 2)?;
    match engine {
        Engine::Transformers(generating) if generating.dtype != Dtype::Nf4 && shape.storage == Storage::Plain => {
            Some((Engine::Transformers(Generating { dtype: Dtype::Nf4, ..generating }), shape.clone()))
        }
        Engine::Vllm(_) | Engine::Sglang(_) => {
            let weights = Ok(sums.scaled(four, sums.in_file()));
            let storage = Storage::Quantised;
            Some((engine, ModelShape { weights, weights_are: Is::About, storage, ..shape.clone() }))
        }
        _ => None,
    }
}

/// The words for a checkpoint that was quantised to four bits.
pub(crate) const FOUR_BITS: &str = "a checkpoint in 4 bits (AWQ or GPTQ)";
/// The turn to it.
pub(crate) const TO_FOUR_BITS: Turn = Turn { knob: &KNOB, to: MIXES.len() as u64 };

fn four_bit_checkpoint(need: &Need<'_>) -> Option<Proposal> {
    let (_, four) = in_four_bits(need.engine, need.shape)?;
    Some(other_file(need, TO_FOUR_BITS, FOUR_BITS.to_owned(), four))
}

fn other_file(need: &Need<'_>, turn: Turn, words: String, shape: ModelShape) -> Proposal {
    let proposal = need.propose(&[turn], words, need.engine);
    Proposal { shape: Some(Box::new(shape)), flags: Flags::Nothing, is_own_command: false, ..proposal }
}

/// The largest smaller quantisation that fits, or the smallest of all; its size is about.
fn smaller_file(need: &Need<'_>) -> Option<Proposal> {
    let now = need.shape.weights.as_ref().ok()?.in_file();
    let from = need.shape.quantization.as_deref().unwrap_or("this file");
    let mut last = None;
    for (mix, smaller) in at_mixes(need.shape) {
        if smaller.weights.as_ref().is_ok_and(|sums| sums.in_file() >= now / 100 * 97) {
            continue;
        }
        let place = MIXES.iter().position(|known| *known == mix)?;
        let turn = Turn { knob: &KNOB, to: place as u64 };
        let proposal = other_file(need, turn, format!("{mix} instead of {from}"), smaller);
        let is_enough = proposal.fits(need.shape) == Some(true);
        last = Some(proposal);
        if is_enough {
            break;
        }
    }
    last
}
