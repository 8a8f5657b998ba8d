//! Owns the type that transformers loads weights in. Values are bits.

use crate::memory::engine::{Engine, Kind};
use crate::memory::inference::Dtype;
use crate::memory::knob::{Dial, Knob, Need, Proposal, Said};
use crate::memory::shape::Storage;

pub(crate) static KNOB: Knob = Knob {
    name: "weights in",
    engines: &[Kind::Transformers],
    get: |engine, _| of(engine).map_or(0, bits),
    set: |engine, _, to| {
        if let Engine::Transformers(generating) = engine {
            generating.dtype = of_bits(to);
        }
    },
    states: |engine, _| Some(Said::Option(in_code(of(engine)?).to_owned())),
    cost: |_, _, _| 5,
    proposals,
    dial: Some(Dial {
        label: |_| "weights in",
        is_shown: |_, shape| shape.storage != Storage::Quantised,
        ladder: |_, _| vec![4, 8, 16, 32],
        shown: |engine, _| of(engine).map_or("", in_words).to_owned(),
    }),
    ..Knob::PLAIN
};

fn of(engine: &Engine) -> Option<Dtype> {
    if let Engine::Transformers(generating) = engine { Some(generating.dtype) } else { None }
}

fn bits(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::Nf4 => 4,
        Dtype::Int8 => 8,
        Dtype::Half | Dtype::Checkpoint => 16,
        Dtype::Float32 => 32,
    }
}

fn of_bits(bits: u64) -> Dtype {
    match bits {
        ..8 => Dtype::Nf4,
        8 => Dtype::Int8,
        16 => Dtype::Half,
        _ => Dtype::Float32,
    }
}

fn in_words(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Checkpoint => "as the file",
        Dtype::Float32 => "float32",
        Dtype::Half => "bfloat16",
        Dtype::Int8 => "8 bits",
        Dtype::Nf4 => "4 bits (NF4)",
    }
}

/// The arguments of `from_pretrained`.
pub(crate) fn in_code(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Checkpoint => "dtype=\"auto\"",
        Dtype::Float32 => "dtype=torch.float32",
        Dtype::Half => "dtype=torch.bfloat16",
        Dtype::Int8 => "quantization_config=BitsAndBytesConfig(load_in_8bit=True)",
        Dtype::Nf4 => {
            "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)"
        }
    }
}

/// Fewer bits than now: a GGUF file is unpacked, so that two bytes are the fewest.
fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let eight = (Dtype::Int8, "weights in 8 bits");
    let four = (Dtype::Nf4, "weights in NF4");
    let narrower = match (need.shape.storage, of(&need.engine)) {
        (_, None) => Vec::new(),
        (Storage::Plain, Some(Dtype::Float32 | Dtype::Half | Dtype::Checkpoint)) => vec![eight, four],
        (Storage::Plain, Some(Dtype::Int8)) => vec![four],
        (Storage::Gguf, Some(dtype)) if dtype != Dtype::Half => vec![(Dtype::Half, "weights in bfloat16")],
        _ => Vec::new(),
    };
    narrower.into_iter().map(|(dtype, words)| need.turn(&KNOB, bits(dtype), words)).collect()
}
