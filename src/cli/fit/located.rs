//! Owns what is known of a model that was found, and reading files and folders of models. Only regular files are opened.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::memory::ModelShape;
use crate::platform::regular;

/// Where a model was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Gguf,
    /// A folder with a config.json.
    Checkpoint,
    Ollama,
    /// The table: no file.
    Table,
}

/// A model that was found.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub shape: ModelShape,
    /// Its file or folder.
    pub file: Option<PathBuf>,
    /// Where it was found.
    pub source: Source,
    /// The image encoder's file, where one is given (`--mmproj`).
    pub encoder: Option<PathBuf>,
    /// Tokens of context that Ollama keeps with the model (`PARAMETER num_ctx`).
    pub num_ctx: Option<u64>,
    /// Layers on the GPU that Ollama keeps with the model (`PARAMETER num_gpu`).
    pub num_gpu: Option<u64>,
    /// What a person should know of how it was found.
    pub note: Option<String>,
    /// Whether files of it are missing.
    pub partial: bool,
}

/// Folders of files that no real checkpoint exceeds.
const MOST_FILES: usize = 2000;
/// A manifest or an index is small.
pub(super) const MOST_TEXT: u64 = 4 << 20;

impl Located {
    pub(super) fn new(shape: ModelShape, file: Option<PathBuf>, source: Source) -> Located {
        Located { shape, file, source, encoder: None, num_ctx: None, num_gpu: None, note: None, partial: false }
    }
}

/// Opens a regular file; a pipe or a device would be waited for.
pub(super) fn open(path: &Path) -> Result<(File, u64), String> {
    let opened = regular::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (length, file) = opened.map_err(|error| format!("{} can't be read: {error}", path.display()))?;
    Ok((file, length))
}

/// The files of a folder with one of two endings, in order.
pub(super) fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{} can't be read: {error}", folder.display()))?;
    let paths = entries.flatten().take(MOST_FILES).map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|this| this == ending)).collect();
    found.sort();
    Ok(found)
}
