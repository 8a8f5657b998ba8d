//! Owns the embedded table of models (`knowledge/models/`): our own figures with a source for each row, found by a
//! name as people, Ollama and the hub write it (`names`). Sizes of weights from it are about: the file's quantisation is assumed, and where
//! our shapes and the published count of parameters differ by more than 2 %, the count decides.
//! Knows nothing of this machine's files.

mod names;

use std::sync::OnceLock;

use super::data;
use super::quant;
use super::shape::{Figures, Is, ModelShape, Storage, from_gguf};
use crate::packed;
use crate::units::whole;
pub use names::{called, find, near, suggestion};
use names::{telling, without_quantization};

/// The folder knowledge/models/, packed by `build.rs`.
static EMBEDDED: &str = include_str!(concat!(env!("OUT_DIR"), "/models"));

/// Its files by their paths in knowledge/: of language models, or in its folder `images`.
pub(super) fn files(images: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    packed::files(EMBEDDED).into_iter().filter(move |(path, _)| path.starts_with("models/images/") == images)
}

/// All rows, in the order of the files' names, or the first thing wrong with them. Read once.
pub fn rows() -> Result<&'static [Figures], String> {
    static ROWS: OnceLock<Result<Vec<Figures>, String>> = OnceLock::new();
    ROWS.get_or_init(read).as_deref().map_err(Clone::clone)
}

/// Whether two names mean the same model, be it in the table or not.
pub fn is_same_model(one: &str, other: &str) -> bool {
    rows().is_ok_and(|rows| match (find(rows, one), find(rows, other)) {
        (Some(one), Some(other)) => one.name == other.name,
        _ => telling(&without_quantization(one)) == telling(&without_quantization(other)),
    })
}

fn read() -> Result<Vec<Figures>, String> {
    let mut rows = Vec::new();
    for (path, text) in files(false) {
        let read: Vec<Figures> = data::read(text).map_err(|error| format!("{path}: {error}"))?;
        rows.extend(read.into_iter().flat_map(Figures::with_variants));
    }
    Ok(rows)
}

/// The mix that is meant where this one is asked for: a checkpoint of two bytes may have been given out in fewer, and
/// what was trained in four bits (gpt-oss) is in no other.
pub fn own_mix<'a>(row: &Figures, mix: &'a str) -> &'a str {
    match (row.stored.as_deref(), mix) {
        (_, mix) if quant::is_own(mix) => mix,
        (Some("MXFP4"), "F32" | "BF16" | "F16") => "MXFP4, BF16",
        (Some("MXFP4"), _) => "MXFP4",
        (Some("INT4"), "BF16") => "INT4, BF16",
        (Some("FP4"), "BF16") => "MXFP4, BF16",
        (Some("FP8"), "BF16") => "FP8",
        _ => mix,
    }
}

/// Whether the model of this name was trained in four bits: fewer or other bits of it are not given out, and in 16 bits
/// it takes four times as much.
pub(crate) fn is_trained_in_four_bits(name: &str) -> bool {
    rows().ok().and_then(|rows| find(rows, name)).is_some_and(|row| row.stored.as_deref() == Some("MXFP4"))
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
    if let (Some(published), Some(ours), Ok(weights)) = (count(row.billions), shape.parameters, shape.weights.as_mut())
    {
        if published.abs_diff(ours) > ours / 50 {
            weights.layers = weights.layers.iter().map(|layer| layer.scaled(published, ours)).collect();
            shape.tensors.clear();
        }
        shape.parameters = Some(published);
    }
    // Encoders stay in two bytes.
    shape.vision = count(row.vision).unwrap_or(0).saturating_mul(2);
    shape
}

fn count(billions: f64) -> Option<u64> {
    (0.001..=100_000.0).contains(&billions).then(|| whole(billions * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::estimate::estimate;
    use crate::memory::settings::Settings;
    use crate::memory::shape::{Compressed, Layer};

    #[test]
    fn every_row_has_a_source_and_adds_up() {
        let rows = rows().unwrap();
        assert!(rows.len() >= 80);
        for row in rows {
            assert!(row.source.contains("2026-"), "{}", row.name);
            assert!(row.layers > 0 && row.hidden > 0 && row.vocab > 0 && row.context > 0, "{}", row.name);
            let shape = shape(row, "Q4_K_M");
            let known = shape.layers.as_ref().is_ok_and(|layers| layers.len() as u64 == row.layers);
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

    /// Elements of K and V a token in layers that see the whole context, and how many see a window, entered a second
    /// time from sources other than the rows': a catalogue of configurations (stored public file 66535357975), loaders'
    /// tests of headers (68938166277, 65865534003) and llama.cpp 0.6.0's own patterns.
    #[test]
    fn caches_are_those_of_a_second_source() {
        for (name, elements, windows) in [
            ("qwen3-coder:480b", 62 * 8 * 256, 0),
            ("llama4:maverick", 12 * 8 * 256, 36),
            ("mistral-nemo", 40 * 8 * 256, 0),
            ("mistral-medium-3.5", 88 * 8 * 256, 0),
            ("devstral-2:123b", 88 * 8 * 256, 0),
            ("mistral-large-3", 61 * 576, 0),
            ("nemotron-3-super", 8 * 2 * 256, 0),
            ("kimi-linear", 7 * 576, 0),
            ("kimi-k3", 24 * 576, 0),
            ("glm-4.7-flash", 47 * 576, 0),
            ("minimax-m3", 60 * 4 * 256 + 57 * 128, 0),
            ("granite4.1:8b", 40 * 8 * 256, 0),
            ("granite4.1:30b", 64 * 8 * 256, 0),
            ("granite4:micro", 40 * 8 * 128, 0),
            ("granite4:tiny-h", 4 * 4 * 256, 0),
            ("granite4:micro-h", 4 * 8 * 128, 0),
            ("hunyuan-a13b", 32 * 8 * 256, 0),
            ("seed-oss", 64 * 8 * 256, 0),
            ("command-r-08-2024", 40 * 8 * 256, 0),
            ("ernie-4.5:21b", 28 * 4 * 256, 0),
            ("nemotron-nano-9b-v2", 4 * 8 * 256, 0),
            ("lfm2:8b-a1b", 48 * 128, 0),
            ("lfm2.5:8b", 48 * 128, 0),
            ("step-3.5-flash", 12 * 8 * 256, 33),
            ("olmo-3:32b", 16 * 8 * 256, 48),
            ("exaone-4.0-32b", 16 * 8 * 256, 48),
            ("muse-glimmer", 13 * 2 * 256, 39),
            ("laguna-xs.2", 10 * 8 * 256, 30),
            ("deepseek-v4-flash", 0, 43),
            ("deepseek-v4-pro", 0, 61),
        ] {
            let layers = shape(&find(rows().unwrap(), name).unwrap(), "Q4_K_M").layers.unwrap();
            let caches = || layers.iter().filter_map(|layer| layer.cache);
            let whole: u64 = caches().filter(|cache| !cache.windowed).map(|cache| cache.k + cache.v).sum();
            let windowed = caches().filter(|cache| cache.windowed).count();
            assert_eq!((whole, windowed), (elements, windows), "{name}");
            // Rows of four tokens with the indexer's keys, and rows of 128.
            let rows = |tokens, k| {
                let of = |layer: &&Layer| layer.compressed == Some(Compressed { tokens, k });
                layers.iter().filter(of).count()
            };
            let expected = match name {
                "deepseek-v4-flash" => (21, 20),
                "deepseek-v4-pro" => (30, 31),
                _ => (0, 0),
            };
            assert_eq!((rows(4, 640), rows(128, 512)), expected, "{name}");
        }
    }

    #[test]
    fn doubts_are_named() {
        for row in rows().unwrap() {
            for doubt in &row.unverified {
                assert!(["context", "params_b", "shape", "vision"].contains(&doubt.as_str()), "{}: {doubt}", row.name);
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
}
