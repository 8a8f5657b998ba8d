//! Owns how settings read in a sentence: tokens, shares, an engine's context, and what llama.cpp does by itself where
//! less would stay free than it wants. Source: llama.cpp 0.6.0's common/fit.cpp and Ollama's llm/llama_server.go, read
//! on 2026-11-21.

use super::engine::Engine;
use super::fits::{best_layers, fewest_host_experts, largest_context};
use super::settings::Settings;
use super::shape::ModelShape;
use crate::units::Bytes;

/// llama.cpp makes a context that was not asked for no shorter than this (`-fitc`).
const LEAST_CONTEXT: u64 = 4096;

/// `32K` where it is a whole number of them.
pub(crate) fn tokens_in_words(tokens: u64) -> String {
    if tokens >= 1024 && tokens.is_multiple_of(1024) { format!("{}K", tokens / 1024) } else { tokens.to_string() }
}

/// A share in thousandths as an option takes it: `0.85`.
pub(crate) fn share_in_words(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share in thousandths from its digits, such as `0.85` or `.9`.
pub(crate) fn share_from_words(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    format!("{}{digits}", if whole.is_empty() { "0" } else { whole }).parse().ok()
}

/// An engine's context in the words of a sentence, of several requests what each has; `None` where it is not known.
pub(crate) fn context_in_words(engine: &Engine, shape: &ModelShape) -> Option<String> {
    let tokens = engine.context(shape)?;
    Some(match engine {
        Engine::Train(_) => format!("sequences of {tokens} tokens"),
        Engine::LlamaCpp(settings) if settings.parallel > 1 && !settings.unified => format!(
            "{} ({} for each of {} requests)",
            of_context(tokens),
            tokens_in_words(each_of(tokens, settings)),
            settings.parallel
        ),
        Engine::Ollama(settings) if settings.parallel > 1 => {
            format!("{} for each of {} requests", of_context(each_of(tokens, settings)), settings.parallel)
        }
        _ => of_context(tokens),
    })
}

fn of_context(tokens: u64) -> String {
    match tokens {
        1 => "1 token of context".to_owned(),
        _ => format!("{} tokens of context", tokens_in_words(tokens)),
    }
}

/// What each slot has of a context that all of them share.
fn each_of(tokens: u64, settings: &Settings) -> u64 {
    tokens.checked_div(settings.parallel.max(1)).unwrap_or(tokens)
}

impl Engine {
    /// Who wants VRAM left free, in the words of a sentence.
    pub fn who_wants(&self) -> &'static str {
        match self {
            Engine::LlamaCpp(_) => "llama.cpp",
            Engine::Ollama(_) => "Ollama's llama.cpp",
            _ => "an estimate",
        }
    }

    /// What it does by itself where there is room for the model but not for what is to stay free, in a sentence that
    /// follows; empty for an engine that does nothing.
    pub fn by_itself(&self, shape: &ModelShape, free: &[Bytes]) -> String {
        let (settings, force) = match self {
            Engine::LlamaCpp(settings) => (settings, "-ngl all"),
            Engine::Ollama(settings) => (settings, "/set parameter num_gpu 99"),
            _ => return String::new(),
        };
        // What a person has set is not changed: it is loaded as it is.
        if settings.gpu_layers.is_some() || settings.host_experts > 0 {
            return " It is loaded all the same, as you set where its layers go.".into();
        }
        if matches!(self, Engine::LlamaCpp(_))
            && settings.context.is_none()
            && let [free] = free
            && let Some(tokens) = largest_context(shape, settings, *free).filter(|tokens| *tokens >= LEAST_CONTEXT)
        {
            let about = tokens_in_words(tokens / 1024 * 1024);
            return format!(" By itself it takes about {about} tokens of context instead.");
        }
        let s = if free.len() > 1 { "s" } else { "" };
        match moved_to_ram(shape, settings, free) {
            Some(moved) => format!(" By itself it {moved}, which is slower; {force} keeps all on the GPU{s}."),
            None => String::new(),
        }
    }
}

/// What llama.cpp moves to system memory so that the rest fits.
fn moved_to_ram(shape: &ModelShape, settings: &Settings, free: &[Bytes]) -> Option<String> {
    if let Some(count) = fewest_host_experts(shape, settings, free).filter(|count| *count > 0) {
        return Some(format!("leaves the experts of {count} layers in RAM"));
    }
    let all = shape.layer_count().saturating_add(1);
    let count = best_layers(shape, settings, free).filter(|count| *count < all)?;
    Some(format!("moves {} of {all} layers to RAM", all.saturating_sub(count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::card::Card;
    use crate::memory::fits::fits;
    use crate::memory::settings::Outputs;
    use crate::memory::table;
    use crate::memory::visible::Counted;

    fn model(name: &str) -> ModelShape {
        table::shape(&table::find(table::rows().unwrap(), name).unwrap(), "Q4_K_M")
    }

    fn asked(context: u64) -> Settings {
        Settings { context: Some(context), outputs: Outputs::Slots, ..Settings::default() }
    }

    /// llama.cpp 0.6.0's own fit for an 8B in Q4_K_M (248 MiB smaller) with 7044 MiB free beside the driver's context:
    /// 12288 tokens are loaded whole, 16384 with two layers fewer.
    #[test]
    fn what_fits_is_what_llama_cpp_loads_whole() {
        let (shape, free) = (model("llama-3.1-8b"), Bytes::mib(7044 + 248 + 400));
        let fits_at = |context| fits(&Engine::LlamaCpp(asked(context)), &shape, Some(&card(free)));
        assert_eq!((fits_at(12_288), fits_at(14_336)), (Some(true), Some(false)));
        let said = Engine::LlamaCpp(asked(16_384)).by_itself(&shape, &[free]);
        assert_eq!(said, " By itself it moves 2 of 33 layers to RAM, which is slower; -ngl all keeps all on the GPU.");
    }

    fn card(free: Bytes) -> Card {
        Card { index: 0, counted: Counted::default(), name: "x".into(), total: Bytes::gib(80), free, each: Vec::new() }
    }

    #[test]
    fn what_it_does_by_itself_follows_from_what_was_set() {
        let (dense, experts) = (model("llama-3.1-8b"), model("qwen3-30b-a3b"));
        let own = Settings { context: None, ..asked(0) };
        let said = Engine::LlamaCpp(own).by_itself(&dense, &[Bytes::gib(8)]);
        assert!(said.contains("tokens of context instead"), "{said}");
        let said = Engine::Ollama(asked(8192)).by_itself(&experts, &[Bytes::gib(16)]);
        assert!(said.contains("leaves the experts of ") && said.contains("num_gpu 99"), "{said}");
        let forced = Settings { gpu_layers: Some(99), ..asked(8192) };
        assert!(Engine::LlamaCpp(forced).by_itself(&dense, &[Bytes::gib(5)]).contains("loaded all the same"));
    }
}
