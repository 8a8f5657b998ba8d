//! Owns where programs keep the models they downloaded: Ollama's manifests and blobs, the Hugging Face cache, LM
//! Studio's folder. Answers with a path or nothing; a name can't lead out of the stores.
//! Places as of 2026-11-20. Knows nothing of what is in a model.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::platform::{here, regular};

/// Manifests have under 2 KB.
const MOST_MANIFEST: u64 = 1 << 20;
const MOST_ENTRIES: usize = 2000;
/// More models than anyone looks through.
const MOST_LISTED: usize = 200;

/// Whether a part of a name is a plain one, which names a file and no way elsewhere.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\\', '\0'])
}

#[derive(Deserialize)]
struct Manifest {
    layers: Vec<ManifestLayer>,
}

#[derive(Deserialize)]
struct ManifestLayer {
    #[serde(rename = "mediaType")]
    media_type: String,
    digest: String,
}

/// A model of Ollama's store.
pub(super) struct Stored {
    pub blob: PathBuf,
    /// The image encoder's file, where it has one of its own.
    pub projector: Option<PathBuf>,
    /// What its Modelfile sets, as JSON.
    pub parameters: Option<PathBuf>,
}

/// A folder that a variable names; an empty one counts as none.
fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where a variable names a folder, its program looks nowhere else.
fn ollama_roots() -> Vec<PathBuf> {
    if let Some(named) = set("OLLAMA_MODELS") {
        return vec![named];
    }
    let user = here::home().map(|home| home.join(".ollama/models"));
    let system = ["/usr/share/ollama/.ollama/models", "/var/lib/ollama/models"].map(PathBuf::from);
    user.into_iter().chain(system).collect()
}

/// A model in Ollama's store: `llama3.1:8b`, `user/model:tag`, `hf.co/user/repository:quant`.
fn in_ollama(root: &Path, name: &str) -> Option<Stored> {
    let (name, tag) = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((name, "latest"));
    let parts: Vec<&str> = name.split('/').collect();
    if !parts.iter().chain([&tag]).all(|part| is_plain(part)) {
        return None;
    }
    let manifests = root.join("manifests");
    let folder = match parts.as_slice() {
        [model] => manifests.join("registry.ollama.ai/library").join(model),
        [user, model] => manifests.join("registry.ollama.ai").join(user).join(model),
        [host, user, model] => manifests.join(host).join(user).join(model),
        _ => return None,
    };
    let file = folder.join(tag);
    let manifest: Manifest = serde_json::from_slice(&regular::read(&file, MOST_MANIFEST).ok()?).ok()?;
    Some(Stored {
        blob: manifest.blob(root, "image.model")?,
        projector: manifest.blob(root, "image.projector"),
        parameters: manifest.blob(root, "image.params"),
    })
}

impl Manifest {
    /// The file of a layer of this kind.
    fn blob(&self, root: &Path, kind: &str) -> Option<PathBuf> {
        let layer = self.layers.iter().find(|layer| layer.media_type.ends_with(kind))?;
        let digest = layer.digest.strip_prefix("sha256:").filter(|digest| is_digest(digest))?;
        Some(root.join("blobs").join(format!("sha256-{digest}")))
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The newest snapshot of a repository in the Hugging Face cache: `meta-llama/Llama-3.1-8B`.
fn hugging_face(name: &str) -> Option<PathBuf> {
    let (owner, repository) = name.split_once('/').filter(|(owner, rest)| is_plain(owner) && is_plain(rest))?;
    hub_roots().into_iter().find_map(|root| {
        let folder = root.join(format!("models--{owner}--{repository}"));
        let revision = regular::read(&folder.join("refs/main"), 256)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .filter(|revision| is_plain(revision.trim()));
        let snapshots = folder.join("snapshots");
        let named = revision.map(|revision| snapshots.join(revision.trim())).filter(|path| path.is_dir());
        named.or_else(|| entries(&snapshots).into_iter().find(|path| path.is_dir()))
    })
}

fn hub_roots() -> Vec<PathBuf> {
    let named = set("HF_HUB_CACHE").or_else(|| set("HF_HOME").map(|home| home.join("hub")));
    named.or_else(|| here::home().map(|home| home.join(".cache/huggingface/hub"))).into_iter().collect()
}

fn lm_studio_roots() -> Vec<PathBuf> {
    let places = here::home().map(|home| vec![home.join(".lmstudio/models"), home.join(".cache/lm-studio/models")]);
    places.unwrap_or_default()
}

/// A model in LM Studio's folder: `publisher/repository`, a repository or a file's name without its ending.
fn lm_studio(name: &str) -> Option<PathBuf> {
    if !name.split('/').all(is_plain) || name.split('/').count() > 3 {
        return None;
    }
    lm_studio_roots().into_iter().filter(|root| root.is_dir()).find_map(|root| {
        let direct = root.join(name);
        if direct.exists() {
            return Some(direct);
        }
        below(&root, 1).into_iter().find_map(|repository| {
            let whole = repository.file_name().is_some_and(|this| this.to_string_lossy().eq_ignore_ascii_case(name));
            if whole { Some(repository) } else { entries(&repository).into_iter().find(|file| is_called(file, name)) }
        })
    })
}

fn is_called(file: &Path, name: &str) -> bool {
    file.file_stem().is_some_and(|stem| stem.to_string_lossy().eq_ignore_ascii_case(name))
}

/// What a folder holds, in order; nothing where it can't be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().take(MOST_ENTRIES).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What lies so many folders below this one.
fn below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let level = entries(folder);
    if depth == 0 { level } else { level.iter().flat_map(|path| below(path, depth - 1)).take(MOST_ENTRIES).collect() }
}

/// The name that Ollama gives the model of a manifest: without the registry and the library's own folder.
fn ollama_name(manifests: &Path, file: &Path) -> Option<String> {
    let parts: Vec<String> =
        file.strip_prefix(manifests).ok()?.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let [host, user, model, tag] = parts.as_slice() else { return None };
    Some(match (host.as_str(), user.as_str()) {
        ("registry.ollama.ai", "library") => format!("{model}:{tag}"),
        ("registry.ollama.ai", user) => format!("{user}/{model}:{tag}"),
        (host, user) => format!("{host}/{user}/{model}:{tag}"),
    })
}

/// A model that a store has.
pub(super) enum Found {
    Ollama(Stored),
    /// A file or a folder.
    Path(PathBuf),
}

/// The model of that name in the first store that has it.
pub(super) fn find(name: &str) -> Option<Found> {
    let stored = ollama_roots().iter().find_map(|root| in_ollama(root, name)).map(Found::Ollama);
    stored.or_else(|| hugging_face(name).or_else(|| lm_studio(name)).map(Found::Path))
}

/// The models of all stores, each once and by its name as `fit` takes it.
pub(super) fn all() -> Vec<(String, Found)> {
    let mut found: Vec<(String, Found)> = Vec::new();
    for root in ollama_roots() {
        let folder = root.join("manifests");
        let names = below(&folder, 3).into_iter().filter_map(|file| ollama_name(&folder, &file));
        found.extend(names.filter_map(|name| in_ollama(&root, &name).map(|stored| (name, Found::Ollama(stored)))));
    }
    for repository in hub_roots().iter().flat_map(|root| entries(root)) {
        let name = name_of(&repository).strip_prefix("models--").map(|name| name.replacen("--", "/", 1));
        found.extend(name.and_then(|name| hugging_face(&name).map(|path| (name, Found::Path(path)))));
    }
    let files = lm_studio_roots().into_iter().flat_map(|root| below(&root, 2));
    let files =
        files.filter(|file| file.extension().is_some_and(|this| this == "gguf") && !name_of(file).contains("mmproj"));
    found.extend(files.map(|file| (name_of(&file).trim_end_matches(".gguf").to_owned(), Found::Path(file))));
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.dedup_by(|(one, _), (other, _)| one == other);
    found.truncate(MOST_LISTED);
    found
}
