//! Owns an engine's flags and command lines in its own form, put together from what each knob says, as today's versions
//! take them: llama.cpp 0.5.0, Ollama 0.30, vLLM 0.33.0, transformers 5.23.0 (2026-11-20). Knows nothing of figures.

use std::path::Path;

use super::engine::{Engine, Kind};
use super::knob::Said;
use super::knobs::{self, layers, sharing};
use super::shape::ModelShape;

impl Engine {
    /// The flags that say these settings, in the engine's own form; empty where it has none.
    pub fn flags(&self) -> String {
        let said = knobs::flags(self);
        let options = options(&said);
        match self {
            Engine::Train(training) => sharing::launch(training, options.join(" ")),
            Engine::Transformers(_) => options.join(", "),
            _ => {
                let variables = Some(options.join(" ")).filter(|text| !text.is_empty());
                variables.into_iter().chain(in_chat(&said)).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// A whole line to run, where the model has a name or a file to run.
    pub fn command(&self, file: Option<&Path>, encoder: Option<&Path>, name: &str) -> Option<String> {
        let program = match self {
            Engine::LlamaCpp(_) => llama_server(file, encoder, name),
            Engine::Ollama(_) => return Some(self.ollama_serve()),
            // Its plugin for GGUF files wants the tokenizer of the model that they were made from.
            Engine::Vllm(_) if name.ends_with(".gguf") => {
                format!("vllm serve {} --tokenizer BASE-REPOSITORY", quoted(name))
            }
            Engine::Vllm(_) => format!("vllm serve {}", quoted(name)),
            Engine::Sglang(_) => format!("python -m sglang.launch_server --model-path {}", quoted(name)),
            Engine::Transformers(_) | Engine::Train(_) => return None,
        };
        Some(format!("{program} {}", self.flags()).trim_end().to_owned())
    }

    /// Ollama's server with its variables, and what is typed inside `ollama run`.
    fn ollama_serve(&self) -> String {
        let said = knobs::flags(self);
        let (variables, in_chat) = (options(&said), in_chat(&said));
        let mut lines = Vec::new();
        if !variables.is_empty() || in_chat.is_empty() {
            lines.push([variables, vec!["ollama serve".to_owned()]].concat().join(" "));
        }
        lines.extend(in_chat.into_iter().map(|line| format!("{line}   (inside `ollama run`)")));
        lines.join("\n")
    }

    /// The command that says what is changed from another setting of the same engine, in the form of the knowledge
    /// base's fixes; `None` where nothing is, or where it is no command line that says it.
    pub fn changed_from(&self, from: &Engine, shape: &ModelShape) -> Option<String> {
        let changes = options(&knobs::changes(self, from, shape)).join(" ");
        if self == from {
            return None;
        }
        let program = match self.kind() {
            Kind::LlamaCpp => "llama-server",
            Kind::Vllm => "vllm serve",
            Kind::Sglang => "python -m sglang.launch_server",
            Kind::Ollama => return (!changes.is_empty()).then(|| format!("{changes} ollama serve")),
            // Their settings are arguments in code, which are said whole.
            Kind::Transformers | Kind::Train => {
                let flags = self.flags();
                return (flags != from.flags() && flags.contains(['-', '=', '('])).then_some(flags);
            }
        };
        (!changes.is_empty()).then(|| format!("{program} {changes}"))
    }

    /// How many layers are on the GPU, where this engine takes that from its chat or its Modelfile alone (Ollama), and
    /// it is not as it was.
    pub fn layers_set_from(&self, from: &Engine, shape: &ModelShape) -> Option<String> {
        match layers::KNOB.changed(self, from, shape)? {
            Said::InChat(line) => Some(line),
            Said::Option(_) => None,
        }
    }
}

/// llama-server with its model: a repository of GGUF files is fetched by its name.
fn llama_server(file: Option<&Path>, encoder: Option<&Path>, name: &str) -> String {
    let is_repository = name.contains('/') && name.to_lowercase().contains("gguf");
    let model = match file {
        Some(file) => format!("-m {}", quoted(&file.to_string_lossy())),
        None if is_repository => format!("-hf {}", quoted(name)),
        None => "-m MODEL.gguf".to_owned(),
    };
    match encoder {
        Some(encoder) => format!("llama-server {model} --mmproj {}", quoted(&encoder.to_string_lossy())),
        None => format!("llama-server {model}"),
    }
}

/// What is said on a command line or in code.
fn options(said: &[Said]) -> Vec<String> {
    let options = said.iter().filter_map(|one| if let Said::Option(text) = one { Some(text.clone()) } else { None });
    options.collect()
}

/// What is typed inside `ollama run`.
fn in_chat(said: &[Said]) -> Vec<String> {
    let lines = said.iter().filter_map(|one| if let Said::InChat(text) = one { Some(text.clone()) } else { None });
    lines.collect()
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-:@+=".contains(c)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
