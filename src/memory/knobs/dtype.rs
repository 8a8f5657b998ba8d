//! Owns the type that transformers loads weights in. Values are bits.

use crate::memory::inference::Dtype;
use crate::memory::knob::*;
use crate::memory::shape::Storage;

pub(crate) static KNOB: Knob = Knob {
    name: "weights in",
    engines: &[Kind::Transformers],
    get: Some(|engine, _| row(engine).map_or(0, |(_, bits, ..)| *bits)),
    set: Some(|engine, _, to| {
        if let Engine::Transformers(generating) = engine {
            let known = TYPES.iter().find(|(_, bits, ..)| *bits == to);
            generating.dtype = known.map_or(Dtype::Float32, |(dtype, ..)| *dtype);
        }
    }),
    states: Some(|engine, _| Some(Said::Option(row(engine)?.3.to_owned()))),
    cost: |_, _, _| 5,
    proposals,
    is_shown: |_, shape| shape.storage != Storage::Quantised,
    ladder: Some(|_, _| vec![4, 8, 16, 32]),
    shown: Some(|engine, _| row(engine).map_or("", |(_, _, words, _)| words).to_owned()),
    ..Knob::PLAIN
};

/// Types with their bits, in words, and as the argument of `from_pretrained`.
const TYPES: [(Dtype, u64, &str, &str); 5] = [
    (Dtype::Nf4, 4, "4 bits (NF4)", NF4),
    (Dtype::Int8, 8, "8 bits", "quantization_config=BitsAndBytesConfig(load_in_8bit=True)"),
    (Dtype::Half, 16, "bfloat16", "dtype=torch.bfloat16"),
    (Dtype::Checkpoint, 16, "as the file", "dtype=\"auto\""),
    (Dtype::Float32, 32, "float32", "dtype=torch.float32"),
];

pub(crate) const NF4: &str = "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)";

fn row(engine: &Engine) -> Option<&'static (Dtype, u64, &'static str, &'static str)> {
    let Engine::Transformers(generating) = engine else { return None };
    TYPES.iter().find(|(dtype, ..)| *dtype == generating.dtype)
}

/// Fewer bits than now: a GGUF file is unpacked, so that two bytes are the fewest.
fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let (eight, four) = ((8, "weights in 8 bits"), (4, "weights in NF4"));
    let narrower = match (need.shape.storage, row(&need.engine).map(|(dtype, ..)| *dtype)) {
        (_, None) => Vec::new(),
        (Storage::Plain, Some(Dtype::Float32 | Dtype::Half | Dtype::Checkpoint)) => vec![eight, four],
        (Storage::Plain, Some(Dtype::Int8)) => vec![four],
        (Storage::Gguf, Some(dtype)) if dtype != Dtype::Half => vec![(16, "weights in bfloat16")],
        _ => Vec::new(),
    };
    narrower.into_iter().map(|(bits, words)| need.turn(&KNOB, bits, words)).collect()
}
