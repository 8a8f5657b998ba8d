//! Owns the names of quantisations: llama-quantize's mixes, makers' variants of them and what checkpoints come in; which
//! one a file's name, a log or a person means. Which tensor then gets which type is `mix`'s, so that the size of a model
//! at another quantisation, or of one that is only known by its shapes, can be summed. Names as of 2026-11-21
//! (llama.cpp 0.6.0). Knows nothing of files.

mod rules;
mod table;

pub(crate) use rules::{Model, Shape, mixed, named, plain};
use table::TABLE;

/// The mixes that are offered, from the largest to the smallest: those that most models are given out in.
pub(crate) const MIXES: [&str; 10] =
    ["F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS", "Q3_K_M"];

/// Whether only checkpoints, or models that were trained in few bits, come in this.
pub(crate) fn is_own(mix: &str) -> bool {
    TABLE.checkpoints.iter().any(|known| known.name == mix)
}

/// Whether checkpoints are given out in this, and GGUF files are not.
pub(crate) fn of_checkpoint(mix: &str) -> bool {
    is_own(mix) && mix != "MXFP4"
}

/// The mix of this name, or the one that is meant by it or nearest: `Q4_K_M` of `q4`, `UD-Q4_K_XL` of `Q4_K_XL`.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let upper = name.to_uppercase();
    if let Some(known) = named(&upper).or_else(|| named(&format!("UD-{upper}"))) {
        return Some(known);
    }
    let longer = plain().filter(|known| upper.strip_prefix(known).is_some_and(|rest| rest.starts_with('_')));
    longer
        .max_by_key(|known| known.len())
        .or_else(|| TABLE.nearest.iter().find(|(head, _)| upper.starts_with(head)).map(|(_, mix)| mix.as_str()))
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
    let checkpoint = TABLE.checkpoints.iter().find(|known| known.words.iter().any(|known| known == word))?;
    Some(if checkpoint.name == "MXFP4" && is_repository { "NVFP4" } else { &checkpoint.name })
}

/// What llama.cpp and Ollama would run of a model that a name says to be a checkpoint in few bits: the file
/// of about as many.
pub(crate) fn as_file(mix: &'static str) -> &'static str {
    TABLE.checkpoints.iter().find(|known| known.name == mix).and_then(|known| known.as_file.as_deref()).unwrap_or(mix)
}

/// The name that `general.file_type` stands for.
pub(crate) fn file_type(number: u64) -> Option<&'static str> {
    TABLE.file_types.get(&number).map(String::as_str)
}

/// The quantization of a name as Ollama has it (`mixtral`, `llama3.2:1b`), with whether that model's own size says so;
/// `None` for names of another form.
pub(crate) fn of_library(name: &str) -> Option<(&'static str, bool)> {
    let lower = name.to_lowercase();
    let (family, tag) = lower.split_once(':').unwrap_or((&lower, ""));
    if lower.contains('/') {
        return None;
    }
    let known = TABLE.library.iter().find(|row| {
        row.families.iter().any(|known| known == family)
            && (row.tags.is_empty() || row.tags.iter().any(|known| known == tag))
    });
    match known {
        Some(row) => Some((&row.mix, true)),
        None if tag.is_empty() => None,
        None => Some(("Q4_K_M", false)),
    }
}

#[cfg(test)]
mod tests;
