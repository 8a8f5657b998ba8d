//! Owns the names of quantisations: llama-quantize's mixes, makers' variants of them and what checkpoints come in; which
//! one a file's name, a log or a person means. Which tensor then gets which type is `mix`'s, so that the size of a model
//! at another quantisation, or of one that is only known by its shapes, can be summed. Names as of 2026-11-21
//! (llama.cpp 0.6.0). Knows nothing of files.

mod library;
mod mix;
mod model;
mod rules;

pub(crate) use library::of_library;
pub(crate) use mix::{mixed, named, plain};
pub(crate) use model::{Model, OWN_MIXES, Shape};

/// The mixes that are offered, from the largest to the smallest: those that most models are given out in.
pub(crate) const MIXES: [&str; 10] =
    ["F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", "Q3_K_M"];

/// Whether checkpoints are given out in this, and GGUF files are not.
pub(crate) fn of_checkpoint(mix: &str) -> bool {
    OWN_MIXES.contains(&mix) && mix != "MXFP4"
}

/// The plain mix that stands for all whose names begin so.
const NEAREST: [(&str, &str); 15] = [
    ("IQ4", "IQ4_XS"),
    ("IQ3", "IQ3_M"),
    ("IQ2", "IQ2_M"),
    ("IQ1", "IQ1_M"),
    ("TQ", "TQ2_0"),
    ("MXFP4", "MXFP4_MOE"),
    ("Q2", "Q2_K"),
    ("Q3", "Q3_K_M"),
    ("Q4", "Q4_K_M"),
    ("NVFP4", "Q4_K_M"),
    ("Q5", "Q5_K_M"),
    ("Q6", "Q6_K"),
    ("Q8", "Q8_0"),
    ("FP16", "F16"),
    ("FP32", "F32"),
];

/// The mix of this name, or the one that is meant by it or nearest: `Q4_K_M` of `q4`, `UD-Q4_K_XL` of `Q4_K_XL`.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let upper = name.to_uppercase();
    if let Some(known) = named(&upper).or_else(|| named(&format!("UD-{upper}"))) {
        return Some(known);
    }
    let longer = plain().filter(|known| upper.strip_prefix(known).is_some_and(|rest| rest.starts_with('_')));
    longer
        .max_by_key(|known| known.len())
        .or_else(|| NEAREST.iter().find(|(head, _)| upper.starts_with(head)).map(|(_, mix)| *mix))
        .or_else(|| nearest(upper.strip_prefix("UD-")?))
}

/// What a model's name says of its quantisation, in capitals, and the mix that is meant: `Q4_K_M` of
/// `llama-3.1-8b-instruct-Q4_K_M.gguf` and of `llama 3.1 8b q4`, `AWQ` of `Qwen2.5-32B-Instruct-AWQ`.
pub(crate) fn in_name(name: &str) -> Option<(String, &'static str)> {
    let tail = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".gguf");
    let upper = tail.to_uppercase();
    let mut words: Vec<&str> =
        upper.rsplit(['-', '.', ':', ' ', ',']).filter(|word| !word.is_empty()).take(6).collect();
    let dynamic = words.iter().position(|word| *word == "UD").and_then(|place| place.checked_sub(1));
    words.truncate(5);
    let of_file = words.iter().enumerate().find_map(|(place, word)| {
        if !is_mix(word) {
            return None;
        }
        let word = if dynamic == Some(place) { format!("UD-{word}") } else { (*word).to_owned() };
        let mix = nearest(&word)?;
        Some((word, mix))
    });
    // GPTQ-Int8 has eight: what stands last tells.
    of_file.or_else(|| words.iter().find_map(|word| Some(((*word).to_owned(), checkpoint_mix(word, name)?))))
}

/// Whether a word in capitals is a mix's name: letters as Q, IQ, TQ, BF or FP before a digit.
fn is_mix(word: &str) -> bool {
    let digits = word.trim_start_matches("BF").trim_start_matches("FP").trim_start_matches(['I', 'T', 'Q', 'F']);
    digits.len() < word.len() && digits.starts_with(|c: char| c.is_ascii_digit())
}

/// What a checkpoint with this word in its name comes in. Repositories of safetensors that have MXFP4 in theirs hold a
/// checkpoint in four bits; GGUF files and free names mean the experts.
fn checkpoint_mix(word: &str, name: &str) -> Option<&'static str> {
    let is_repository = name.contains('/') && !name.to_lowercase().contains("gguf");
    Some(match word {
        "FP8" | "INT8" | "8BIT" | "W8A8" | "W8A16" => "FP8",
        "AWQ" | "GPTQ" | "BITSANDBYTES" | "INT4" | "4BIT" | "NF4" | "W4A16" => "4-bit",
        "NVFP4" | "FP4" => "NVFP4",
        "MXFP4" if is_repository => "NVFP4",
        "MXFP4" => "MXFP4",
        _ => return None,
    })
}

/// What llama.cpp and Ollama would run of a model that a name says to be a checkpoint in few bits: the file
/// of about as many.
pub(crate) fn as_file(mix: &'static str) -> &'static str {
    match mix {
        "4-bit" | "NVFP4" => "Q4_K_M",
        "FP8" => "Q8_0",
        file => file,
    }
}

/// The name that `general.file_type` stands for.
pub(crate) fn file_type(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4",
        39 => "NVFP4",
        40 => "Q1_0",
        41 => "Q2_0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
