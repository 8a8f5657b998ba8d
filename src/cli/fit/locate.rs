//! Owns finding the model a person names on this machine: a file, a folder, Ollama's store, the Hugging Face cache,
//! LM Studio's folder, else the embedded table. Nothing is downloaded; only regular files are opened, headers only.
//! Knows nothing of settings or of what fits.

use std::path::{Path, PathBuf};

use super::checkpoint;
use super::located::{Located, MOST_TEXT, Source, files, open};
use super::meant::Meant;
use super::stores::{self, Found, Stored};
use crate::memory::encoder::compute_bytes;
use crate::memory::gguf::{self, Gguf, split_names};
use crate::memory::{ModelShape, Storage, from_gguf, table};
use crate::platform::regular;
use crate::text::harmless;

/// Finds the model. `meant` is its quantization where only the table knows it.
pub(super) fn locate(name: &str, meant: &Meant) -> Result<Located, String> {
    let path = Path::new(name);
    if path.exists() {
        return at_path(path);
    }
    if name.ends_with(".gguf") || name.starts_with(['/', '.', '~']) || path.is_absolute() {
        return Err(format!("{name} does not exist; name a GGUF file, a folder with config.json, or a model"));
    }
    match stores::find(name) {
        Some(found) => in_store(&found),
        None => from_table(name, meant),
    }
}

/// A model that a store has.
pub(super) fn in_store(found: &Found) -> Result<Located, String> {
    match found {
        Found::Ollama(stored) => of_ollama(stored),
        Found::Path(path) => at_path(path),
    }
}

/// A model of Ollama's store, with its image encoder and what its Modelfile sets.
fn of_ollama(stored: &Stored) -> Result<Located, String> {
    let mut shape = from_gguf(&read_gguf(&stored.blob)?);
    shape.storage = Storage::Gguf;
    if let Some(file) = &stored.projector {
        (shape.projector, shape.encoding) = encoder(file)?;
    }
    let parameters = stored.parameters.as_deref().and_then(parameters).unwrap_or_default();
    let file = Some(stored.blob.clone());
    let [num_ctx, num_gpu] =
        ["num_ctx", "num_gpu"].map(|name| parameters.get(name)?.as_u64().filter(|number| *number > 0));
    Ok(Located { num_ctx, num_gpu, ..Located::new(shape, file, Source::Ollama) })
}

/// The parameters of a Modelfile, as Ollama keeps them; `None` where they can't be read, which changes no size.
fn parameters(file: &Path) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_slice(&regular::read(file, MOST_TEXT).ok()?).ok()
}

/// Bytes of an image or audio encoder's tensors (`--mmproj`), and what it computes in. The error says where it is none.
pub(super) fn encoder(file: &Path) -> Result<(u64, u64), String> {
    let Gguf { metadata, tensors } = read_gguf(file)?;
    if tensors.iter().any(|tensor| tensor.name == "token_embd.weight") {
        let file = file.display();
        return Err(format!("{file} is a language model, not an image encoder; name the file with mmproj in its name"));
    }
    let weights = tensors.iter().fold(0, |sum: u64, tensor| sum.saturating_add(tensor.bytes));
    Ok((weights, compute_bytes(&metadata)))
}

fn from_table(name: &str, meant: &Meant) -> Result<Located, String> {
    let rows = table::rows()?;
    let Some((row, called)) = table::called(rows, name) else {
        let near = table::suggestion(rows, name);
        return Err(format!(
            "{} is neither on this machine nor in the table of models{}",
            harmless(name),
            if near.is_empty() { "; name a GGUF file, a folder with config.json, or another model" } else { &near }
        ));
    };
    let doubt = if row.unverified.is_empty() {
        String::new()
    } else {
        format!("; not verified: {}", row.unverified.join(", "))
    };
    let mix = table::own_mix(&row, &meant.mix);
    let mut shape = table::shape(&row, mix);
    let taken = if mix == meant.mix {
        shape.quantization = Some(meant.shown.clone());
        meant.why.clone()
    } else {
        format!("{mix}, in which it is published")
    };
    let note = format!("no file of it was found here: figures of {called} from the table, {taken}{doubt}");
    Ok(Located { note: Some(note), ..Located::new(shape, None, Source::Table) })
}

/// The model in a file or a folder.
fn at_path(path: &Path) -> Result<Located, String> {
    if path.is_dir() { folder(path) } else { gguf_file(path) }
}

fn gguf_file(path: &Path) -> Result<Located, String> {
    let first = read_gguf(path)?;
    let gguf = with_parts(path, first)?;
    let shape = ModelShape { storage: Storage::Gguf, ..from_gguf(&gguf) };
    let beside = encoder_beside(path)
        .map(|file| format!("its folder contains an image encoder; --mmproj {} counts it in", file.display()));
    // llama.cpp is given the first part.
    let parts = path.file_name().and_then(|name| split_names(name.to_str()?));
    let first = parts.and_then(|names| names.into_iter().next()).map(|name| path.with_file_name(name));
    let file = first.unwrap_or_else(|| path.to_owned());
    Ok(Located { note: beside, ..Located::new(shape, Some(file), Source::Gguf) })
}

/// An image encoder's file in the same folder, as `mmproj-model-f16.gguf`.
fn encoder_beside(model: &Path) -> Option<PathBuf> {
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_encoder =
        |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().contains("mmproj"));
    files(folder, "gguf").ok()?.into_iter().find(|file| is_encoder(file) && file != model)
}

fn read_gguf(path: &Path) -> Result<Gguf, String> {
    let (file, length) = open(path)?;
    gguf::read(file, length).map_err(|error| format!("{}: {error}", path.display()))
}

/// The model with all parts of a split file; only the first has the metadata.
fn with_parts(path: &Path, this: Gguf) -> Result<Gguf, String> {
    let names = path.file_name().and_then(|name| split_names(name.to_str()?));
    let Some(names) = names.filter(|names| names.len() > 1) else { return Ok(this) };
    let mut whole: Option<Gguf> = None;
    for name in names {
        let part = read_gguf(&path.with_file_name(&name))?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => whole.join(part).map_err(|error| format!("{name}: {error}"))?,
        }
    }
    whole.ok_or_else(|| "the split file has no parts".to_owned())
}

fn folder(path: &Path) -> Result<Located, String> {
    let config = path.join("config.json");
    if config.exists() {
        return checkpoint::read(path, &config);
    }
    // Of a split model the first part stands for all; projectors are no models.
    let found = files(path, "gguf")?;
    let models = found.iter().filter(|file| {
        let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let is_part = split_names(&name).is_some_and(|names| names.first() != Some(&name));
        !is_part && !name.contains("mmproj")
    });
    let models: Vec<&PathBuf> = models.collect();
    match models.as_slice() {
        [only] => gguf_file(only),
        [] => Err(format!("{} contains no GGUF file and no config.json", path.display())),
        several => {
            let names: Vec<String> =
                several.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())).collect();
            Err(format!("{} contains several models; name one of {}", path.display(), names.join(", ")))
        }
    }
}
