//! Owns reading a checkpoint's folder: its config.json, the headers of its safetensors, and the index that says which
//! files there should be. Knows nothing of settings or of what fits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::Path;

use super::located::{Located, MOST_TEXT, Source, files, open};
use crate::memory::{Figures, Is, ModelShape, Storage, config, from_gguf, quant, safetensors, weights};
use crate::platform::regular;

/// The index of a model with hundreds of thousands of tensors.
const MOST_INDEX: u64 = 64 << 20;

/// The model in a folder with a config.json.
pub(super) fn read(path: &Path, config: &Path) -> Result<Located, String> {
    let (file, length) = open(config)?;
    if length > MOST_TEXT {
        return Err(format!("{} has {length} bytes, which no real one has", config.display()));
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, MOST_TEXT), &mut text)
        .map_err(|error| format!("{} can't be read: {error}", config.display()))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let read = config::read(&text, &name).map_err(|error| format!("{}: {error}", path.display()))?;
    let said = read.quantised.as_deref().and_then(|word| quant::in_name(&format!("x-{word}")));
    let mut shape = from_gguf(&read.figures.as_gguf(said.map_or("BF16", |(_, mix)| mix)));
    shape.weights_are = Is::About;
    shape.encoder = read.encoder;
    let index = index(path);
    let by_dtypes = stored_weights(path, &read.figures, &mut shape, read.quantised.is_some())?;
    let quantised = read.quantised.or(by_dtypes.clone().flatten());
    shape.storage = if quantised.is_some() { Storage::Quantised } else { Storage::Plain };
    shape.quantization = quantised.or(read.dtype);
    let missing = index.as_ref().and_then(|index| index.missing(path));
    let note = match (&missing, by_dtypes) {
        (Some(missing), _) => {
            shape.weights_are = Is::About;
            let whole = index.and_then(|index| index.metadata.total_size).filter(|whole| *whole > 0);
            if let (Ok(sums), Some(whole)) = (&mut shape.weights, whole) {
                *sums = sums.scaled(whole, sums.in_file());
            }
            Some(format!("the model is not all here: {missing} (an unfinished download?)"))
        }
        (None, None) => Some("the folder has no safetensors: weights by the shapes in config.json".into()),
        (None, Some(_)) => None,
    };
    let partial = missing.is_some();
    Ok(Located { note, partial, ..Located::new(shape, Some(path.to_owned()), Source::Checkpoint) })
}

/// What `model.safetensors.index.json` says of a model in several files.
#[derive(serde::Deserialize)]
struct Index {
    #[serde(default)]
    metadata: IndexMetadata,
    weight_map: BTreeMap<String, String>,
}

#[derive(Default, serde::Deserialize)]
struct IndexMetadata {
    total_size: Option<u64>,
}

/// The index of a folder; `None` where there is none that can be read.
fn index(folder: &Path) -> Option<Index> {
    serde_json::from_slice(&regular::read(&folder.join("model.safetensors.index.json"), MOST_INDEX).ok()?).ok()
}

impl Index {
    /// Its files that are not in the folder, in words; `None` where all are.
    fn missing(&self, folder: &Path) -> Option<String> {
        let names: BTreeSet<&str> = self.weight_map.values().map(String::as_str).collect();
        let gone = names.iter().copied().filter(|name| {
            let is_plain = Path::new(name).components().count() == 1;
            !(is_plain && folder.join(name).exists())
        });
        let gone: Vec<&str> = gone.collect();
        match gone.as_slice() {
            [] => None,
            [one] => Some(format!("{one} is missing")),
            [first, ..] => Some(format!("{} of {} files are missing, such as {first}", gone.len(), names.len())),
        }
    }
}

/// Puts the stored tensors' sums in; `None` where there are none, else how they are quantized where their dtypes say so.
/// What is packed into integers does not count as parameters.
fn stored_weights(
    path: &Path,
    figures: &Figures,
    shape: &mut ModelShape,
    is_quantised: bool,
) -> Result<Option<Option<String>>, String> {
    let files = files(path, "safetensors")?;
    if files.is_empty() {
        return Ok(None);
    }
    let mut sizes: Vec<(String, u64)> = Vec::new();
    let (mut parameters, mut all, mut packed): (u64, u64, u64) = (0, 0, 0);
    let mut narrow = None;
    for file in &files {
        let (source, length) = open(file)?;
        let tensors = safetensors::read(BufReader::new(source), length)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        for (name, stored) in tensors {
            parameters = parameters.saturating_add(stored.elements());
            // Embeddings stay as they were, and are most of a small model.
            let in_layer = name.contains("layers.");
            all = all.saturating_add(if in_layer { stored.bytes } else { 0 });
            if let (Some(word), true) = (safetensors::narrow(&stored.dtype), in_layer) {
                packed = packed.saturating_add(stored.bytes);
                narrow = narrow.or(Some(word));
            }
            sizes.push((name, stored.bytes));
        }
        if sizes.len() > 300_000 {
            return Err(format!("{} has too many tensors to be a model", path.display()));
        }
    }
    let layers = usize::try_from(figures.layers).unwrap_or(0);
    shape.weights = Ok(weights::sums(sizes.iter().map(|(name, bytes)| (name.as_str(), *bytes)), layers));
    shape.weights_are = Is::Fact;
    let narrow = if packed >= all / 2 { narrow } else { None };
    if narrow.is_none() && !is_quantised {
        shape.parameters = Some(parameters);
    }
    Ok(Some(narrow.map(str::to_owned)))
}
