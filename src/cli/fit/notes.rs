//! Owns what a person should know beside an answer's command line: a folder that has to be converted first, where Ollama's
//! settings go, what stays on the GPU without a layer. Sentences without the full stop. Knows no figures.

use super::answer::Answer;
use super::command::{command, placeholder};
use super::located::Source;
use crate::memory::Engine;
use crate::memory::flags::quoted;
use crate::text::harmless;

/// Read in Ollama's docs/faq.mdx on 2026-11-21.
const AS_A_SERVICE: &str = "where Ollama runs as a service already, its variables are set there: sudo systemctl edit ollama.service, below [Service] a line Environment=\"NAME=VALUE\" for each, then sudo systemctl daemon-reload and sudo systemctl restart ollama";
const OF_ITS_MODELFILE: &str = "the model's Modelfile sets num_ctx, before which OLLAMA_CONTEXT_LENGTH does nothing: /set parameter counts for one conversation, PARAMETER num_ctx in the Modelfile for all";
const ON_NO_LAYERS: &str = "with no layers on the card a GPU build still computes long prompts there: its compute buffer and the driver's context are what this takes";

/// The answer's notes, with those of its engine.
pub(super) fn with(answer: &Answer) -> Vec<String> {
    let mut notes = answer.notes.clone();
    let (of_llama, settings) = match &answer.engine {
        Engine::LlamaCpp(settings) => (true, Some(settings)),
        Engine::Ollama(settings) => (false, Some(settings)),
        _ => (false, None),
    };
    if let (Source::Checkpoint, Some(_), Some(folder)) = (answer.located.source, settings, &answer.located.file) {
        let folder = quoted(&harmless(&folder.to_string_lossy()));
        // llama.cpp's README of its converter and Ollama's docs/import.mdx, read on 2026-11-21.
        let how = match of_llama {
            true => format!(
                "llama.cpp runs GGUF files: convert the folder first, in llama.cpp's own folder: python convert_hf_to_gguf.py {folder} --outfile MODEL.gguf"
            ),
            false => format!(
                "Ollama runs models of its own store: put FROM {folder} into a file named Modelfile, then ollama create NAME -f Modelfile"
            ),
        };
        notes.insert(0, how);
    }
    let of_ollama = settings.is_some() && !of_llama;
    let line = if of_ollama { command(answer).unwrap_or_default() } else { String::new() };
    let more = [
        (settings.is_some_and(|settings| settings.gpu_layers == Some(0)), ON_NO_LAYERS),
        (line.contains(" num_ctx "), OF_ITS_MODELFILE),
        (line.contains('='), AS_A_SERVICE),
    ];
    notes.extend(more.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned()));
    notes.extend(placeholder(answer));
    notes
}
