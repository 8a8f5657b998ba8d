//! Owns the embedded table of models (`knowledge/models/`): our own figures with a source for each row, found by a
//! name that need not be exact. Sizes of weights from it are about: the file's quantisation is assumed, and where
//! our shapes and the published count of parameters differ by more than 2 %, the count decides.
//! Knows nothing of this machine's files.

use std::sync::OnceLock;

use ron::extensions::Extensions;

use super::quant::{self, OWN_MIXES};
use super::shape::{Figures, Is, ModelShape, Storage, from_gguf};
use super::weights::WeightSums;
use crate::packed;

/// The folder knowledge/models/, packed by `build.rs`.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/models"));

/// Its files by their paths in knowledge/: of language models, or in its folder `images`.
pub(super) fn files(images: bool) -> impl Iterator<Item = (String, String)> {
    packed::files(EMBEDDED).into_iter().filter(move |(path, _)| path.starts_with("models/images/") == images)
}

/// All rows, in the order of the files' names, or the first thing wrong with them. Read once.
pub fn rows() -> Result<&'static [Figures], String> {
    static ROWS: OnceLock<Result<Vec<Figures>, String>> = OnceLock::new();
    ROWS.get_or_init(read).as_deref().map_err(Clone::clone)
}

fn read() -> Result<Vec<Figures>, String> {
    let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
    let mut rows = Vec::new();
    for (path, text) in files(false) {
        let read: Vec<Figures> = options.from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        rows.extend(read);
    }
    Ok(rows)
}

/// The parts of a name: `Llama-3.1-8B-Instruct` has llama, 3.1, 8b, instruct.
fn words(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    let mut words: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut last = ' ';
    for c in lower.chars() {
        // A number begins a word of its own after letters: qwen2.5 is qwen and 2.5; 8b and a3b stay whole.
        let begins =
            c.is_ascii_digit() && last.is_alphabetic() && current.chars().filter(|c| c.is_alphabetic()).count() > 1;
        if !(c.is_alphanumeric() || c == '.') || begins {
            words.extend((!current.is_empty()).then(|| std::mem::take(&mut current)));
        }
        if c.is_alphanumeric() || c == '.' {
            current.push(c);
        }
        last = c;
    }
    words.extend((!current.is_empty()).then_some(current));
    words
}

/// Words that do not tell one model from another of the table.
const NOISE: [&str; 14] =
    ["instruct", "it", "chat", "base", "gguf", "hf", "latest", "meta", "text", "preview", "v", "v0.1", "hub", "gptq"];

/// The row that a name means: all words of the row's name must be in it, and the row with the most of them wins.
/// A size in the query that the row lacks rules it out. `None` where nothing fits or two do equally.
pub fn find(rows: &[Figures], query: &str) -> Option<Figures> {
    let tail = query.rsplit('/').next().unwrap_or(query);
    let asked = words(tail);
    let telling = |words: &[String]| -> Vec<String> {
        words.iter().filter(|word| !NOISE.contains(&word.as_str())).cloned().collect()
    };
    let asked = telling(&asked);
    if asked.is_empty() {
        return None;
    }
    // A row may stand for several names: "DeepSeek-V3 / R1".
    let names = rows.iter().flat_map(|row| {
        let names = row.name.split(" / ").chain(row.also.iter().map(String::as_str));
        names.map(move |name| (row, telling(&words(name))))
    });
    let mut fitting: Vec<(usize, &Figures)> = names
        .filter(|(_, name)| !name.is_empty() && name.iter().all(|word| asked.contains(word)))
        .filter(|(_, name)| asked.iter().all(|word| name.contains(word) || !tells_size(word)))
        .map(|(row, name)| (name.len(), row))
        .collect();
    fitting.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let Some((best, row)) = fitting.first() else { return by_part(rows, &asked) };
    let rivals = fitting.iter().filter(|(count, other)| count == best && other.name != row.name).count();
    (rivals == 0).then(|| (*row).clone())
}

/// The only row that has all words of the query, and perhaps more.
fn by_part(rows: &[Figures], asked: &[String]) -> Option<Figures> {
    let mut fitting = rows.iter().filter(|row| {
        let name = words(&row.name);
        asked.iter().any(|word| tells_size(word)) && asked.iter().all(|word| name.contains(word))
    });
    let row = fitting.next()?;
    fitting.next().is_none().then(|| row.clone())
}

/// Names of rows that share the query's first word, for a person to choose from.
pub fn near<'a>(rows: &'a [Figures], query: &str) -> Vec<&'a str> {
    let asked = words(query.rsplit('/').next().unwrap_or(query));
    let Some(first) = asked.first() else { return Vec::new() };
    rows.iter().filter(|row| words(&row.name).first() == Some(first)).map(|row| row.name.as_str()).collect()
}

/// Whether a word is a size such as 8b or a3b, which must not be ignored.
fn tells_size(word: &str) -> bool {
    let number = word.trim_start_matches('a').trim_end_matches(['b', 'm']);
    number != word && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'x')
}

/// The mix that is meant where this one is asked for: a checkpoint of two bytes may have been given out in fewer, and
/// what was trained in four bits (gpt-oss) is in no other.
pub fn own_mix<'a>(row: &Figures, mix: &'a str) -> &'a str {
    match (row.stored.as_deref(), mix) {
        (_, mix) if OWN_MIXES.contains(&mix) => mix,
        (Some("MXFP4"), "F32" | "BF16" | "F16") => "MXFP4, BF16",
        (Some("MXFP4"), _) => "MXFP4",
        (Some("INT4"), "BF16") => "INT4, BF16",
        (Some("FP8"), "BF16") => "FP8",
        _ => mix,
    }
}

/// The model of a row at a mix, or at its own. Its cache is as well known as the row, its weights are about.
pub fn shape(row: &Figures, mix: &str) -> ModelShape {
    let mix = own_mix(row, mix);
    let mut shape = from_gguf(&row.as_gguf(mix));
    shape.quantization = Some(mix.to_owned());
    if quant::of_checkpoint(mix) {
        shape.storage = Storage::Quantised;
    }
    shape.weights_are = Is::About;
    if !row.unverified.is_empty() {
        shape.cache_is = Is::About;
    }
    let published = parameters(row);
    if let (Some(published), Some(ours), Ok(weights)) = (published, shape.parameters, shape.weights.as_mut()) {
        if published.abs_diff(ours) > ours / 50 {
            scale(weights, published, ours);
            shape.tensors.clear();
        }
        shape.parameters = Some(published);
    }
    // Encoders stay in two bytes.
    shape.vision = count(row.vision).unwrap_or(0).saturating_mul(2);
    shape
}

/// The published count.
fn parameters(row: &Figures) -> Option<u64> {
    count(row.billions)
}

fn count(billions: f64) -> Option<u64> {
    if !(0.001..=100_000.0).contains(&billions) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held to 10^5 above")]
    Some((billions * 1e9).round() as u64)
}

fn scale(weights: &mut WeightSums, by: u64, of: u64) {
    let scaled = |bytes: u64| {
        let product = u128::from(bytes).saturating_mul(by.into()).checked_div(of.into()).unwrap_or(0);
        u64::try_from(product).unwrap_or(u64::MAX)
    };
    for layer in &mut weights.layers {
        layer.dense = scaled(layer.dense);
        layer.experts = scaled(layer.experts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Settings, estimate};

    #[test]
    fn every_row_has_a_source_and_adds_up() {
        let rows = rows().unwrap();
        assert!(rows.len() >= 80);
        for row in rows {
            assert!(row.source.contains("2026-"), "{}", row.name);
            assert!(row.layers > 0 && row.hidden > 0 && row.vocab > 0 && row.context > 0, "{}", row.name);
            let shape = shape(row, "Q4_K_M");
            let known = shape.layers.as_ref().is_ok_and(|layers| layers.len() as u64 == row.layers);
            // Its compressed caches are not reckoned, and it says so.
            if row.architecture == "deepseek4" {
                assert!(shape.layers.is_err() && row.source.contains("not reckoned"), "{}", row.name);
                continue;
            }
            assert!(known, "{}: {:?}", row.name, shape.layers.err());
            let estimate = estimate(&shape, &Settings { context: Some(8192), ..Settings::default() });
            let in_file = estimate.weights_in_file.bytes.unwrap().0 as f64;
            let bits = in_file * 8.0 / (row.billions * 1e9);
            if row.stored.as_deref() == Some("MXFP4") {
                assert!((4.3..4.7).contains(&bits), "{}: {bits} bits a parameter", row.name);
                continue;
            }
            // Rows that are no whole number of blocks are stored in larger types.
            let most = if row.hidden % 256 == 0 { 6.4 } else { 8.5 };
            assert!((4.2..most).contains(&bits), "{}: {bits} bits a parameter", row.name);
        }
    }

    #[test]
    fn a_name_means_one_row_and_doubts_are_named() {
        let rows = rows().unwrap();
        let mut names: Vec<Vec<String>> = Vec::new();
        for row in rows {
            for name in row.name.split(" / ").chain(row.also.iter().map(String::as_str)) {
                assert!(!names.contains(&words(name)), "{name} is there twice");
                names.push(words(name));
                let found = find(rows, name).map(|row| row.name);
                assert_eq!(found.as_deref(), Some(row.name.as_str()), "{name} leads elsewhere");
            }
            for doubt in &row.unverified {
                assert!(["context", "params_b", "shape"].contains(&doubt.as_str()), "{}: {doubt}", row.name);
            }
            let doubtful = row.source.contains("unchecked");
            assert!(!doubtful || row.unverified.contains(&"shape".to_owned()), "{}: {}", row.name, row.source);
        }
    }

    #[test]
    fn shapes_without_a_doubt_give_the_published_count() {
        for row in rows().unwrap().iter().filter(|row| row.unverified.is_empty()) {
            let ours = from_gguf(&row.as_gguf("F16")).parameters.unwrap() as f64 / 1e9;
            assert!((ours / row.billions - 1.0).abs() < 0.02, "{}: {ours} for {}", row.name, row.billions);
        }
    }

    #[test]
    fn a_model_that_was_trained_in_four_bits_is_as_large_as_its_file() {
        let row = find(rows().unwrap(), "gpt-oss-120b").unwrap();
        let gib = |mix: &str| shape(&row, mix).weights.unwrap().in_file() as f64 / f64::from(1 << 30);
        // 59.02 GiB is what llama.cpp prints; the checkpoint's 65.2 GB are 60.8 GiB.
        assert!((gib("Q4_K_M") / 59.02 - 1.0).abs() < 0.01, "{}", gib("Q4_K_M"));
        assert!((gib("BF16") / 60.8 - 1.0).abs() < 0.02, "{}", gib("BF16"));
        // 671 billion, of which all but 1.8 in a byte.
        let row = find(rows().unwrap(), "deepseek-ai/DeepSeek-R1").unwrap();
        let bytes = shape(&row, "BF16").weights.unwrap().in_file();
        assert!((671_000_000_000..690_000_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn names_are_found_as_people_write_them() {
        let rows = rows().unwrap();
        for (query, name) in [
            ("llama3.1:8b", Some("Llama-3.1-8B")),
            ("meta-llama/Llama-3.1-8B-Instruct", Some("Llama-3.1-8B")),
            ("Qwen/Qwen2.5-7B-Instruct", Some("Qwen2.5-7B")),
            ("qwen3-30b-a3b", Some("Qwen3-30B-A3B")),
            ("qwen3:30b", Some("Qwen3-30B-A3B")),
            ("mistral:7b", Some("Mistral-7B-v0.1")),
            ("gemma-3-27b-it", Some("Gemma-3-27b-it")),
            ("gpt-oss:20b", Some("gpt-oss-20b")),
            ("deepseek-r1", Some("DeepSeek-V3 / R1")),
            ("mixtral-8x7b-instruct-v0.1", Some("Mixtral-8x7B-v0.1")),
            ("llama-3.1-9b", None),
            ("deepseek-r1:14b", Some("Qwen2.5-14B")),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", Some("Qwen2.5-32B")),
            ("deepseek-r1:70b", Some("Llama-3.3-70B")),
            ("deepseek-r1:671b", Some("DeepSeek-V3 / R1")),
            ("qwen3-coder:30b", Some("Qwen3-30B-A3B")),
            ("Mistral-Small-3.2-24B-Instruct-2506", Some("Mistral-Small-3 24B")),
            ("devstral:24b", Some("Mistral-Small-3 24B")),
            ("qwen2.5vl:7b", Some("Qwen2.5-7B")),
            ("phi4:14b", Some("phi-4")),
            ("llama4:scout", Some("Llama-4-Scout-17B-16E")),
            ("qwen3.5:9b", Some("Qwen3.5-9B")),
            ("gemma4:e4b", Some("Gemma-4-E4B")),
            ("gemma4:26b", Some("Gemma-4-26B-A4B")),
            ("gemma3n:e4b", Some("Gemma-3n-E4B")),
            ("google/gemma-3n-E2B-it", Some("Gemma-3n-E2B")),
            ("zai-org/GLM-5.2", Some("GLM-5.2")),
            ("zai-org/GLM-5", Some("GLM-5")),
            ("zai-org/GLM-4.7-Flash", Some("GLM-4.7-Flash")),
            ("moonshotai/Kimi-K2-Instruct-0905", Some("Kimi-K2")),
            ("moonshotai/Kimi-K2.5", Some("Kimi-K2-Thinking")),
            ("mistralai/Ministral-3-8B-Instruct-2512", Some("Ministral-3-8B")),
            ("nemotron-3-nano:30b", Some("Nemotron-3-Nano-30B-A3B")),
            ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", Some("Nemotron-3-Nano-30B-A3B")),
            ("granite4:small-h", Some("Granite-4.0-H-Small")),
            ("qwen3-coder-next", Some("Qwen3-Next-80B-A3B")),
            ("Qwen/Qwen3.8-27B", Some("Qwen3.5-27B / Qwen3.6-27B")),
            ("no-such-model", None),
            ("", None),
        ] {
            assert_eq!(find(rows, query).map(|row| row.name).as_deref(), name, "{query}");
        }
    }
}
