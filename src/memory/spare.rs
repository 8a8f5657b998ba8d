//! Owns what must stay free on a card so that a model counts as fitting, for every surface that says so, and what
//! llama.cpp does by itself where less would stay. Source: llama.cpp 0.6.0's common/fit.cpp (`-fitt`, 1024 MiB a card;
//! in use from 0.5 on) and Ollama's llm/llama_server.go, read on 2026-11-21. Bytes. vLLM and SGLang have a share of
//! their own instead.

use super::estimate::Estimate;
use super::options::tokens_in_words;
use super::search::{best_layers, fewest_host_experts, largest_context};
use super::{Engine, ModelShape, compute};
use crate::units::Bytes;

/// What stays free on each card: llama.cpp wants that much, and elsewhere estimates are "about" and needs change.
pub(crate) const SPARE: Bytes = Bytes::gib(1);
/// llama.cpp makes a context that was not asked for no shorter than this (`-fitc`).
const LEAST_CONTEXT: u64 = 4096;

/// What a sum, in which `buffer` is the compute buffer with its margin, wants of a card: the margin is part
/// of what is spare.
pub(crate) fn wanted(total: Bytes, buffer: u64) -> Bytes {
    let margin = Bytes(compute::margin(buffer));
    total.less(margin).plus(margin.max(SPARE))
}

impl Estimate {
    /// What must be free on so many cards together so that it fits llama.cpp; `None` where a part is not known.
    pub fn wanted(&self, cards: u64) -> Option<Bytes> {
        let cards = cards.max(1);
        let margin = compute::margin(self.compute.bytes?.0 / cards).saturating_mul(cards);
        Some(self.total()?.less(Bytes(margin)).plus(Bytes(margin.max(SPARE.0.saturating_mul(cards)))))
    }
}

impl Engine {
    /// What must be free on the card so that it fits; `None` where a part is not known. Of an engine with a share of
    /// its own, what it takes.
    pub fn wanted(&self, estimate: &Estimate) -> Option<Bytes> {
        match self {
            Engine::LlamaCpp(settings) | Engine::Ollama(settings) => estimate.wanted(settings.devices),
            Engine::Vllm(_) | Engine::Sglang(_) => estimate.total(),
            Engine::Transformers(_) | Engine::Train(_) => estimate.total().map(|total| total.plus(SPARE)),
        }
    }

    /// Who wants it, in the words of a sentence.
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
        let own = matches!(self, Engine::LlamaCpp(_)) && settings.context.is_none();
        let shorter = free.first().filter(|_| own && free.len() == 1);
        let shorter = shorter.and_then(|free| largest_context(shape, settings, *free));
        if let Some(tokens) = shorter.filter(|tokens| *tokens >= LEAST_CONTEXT) {
            let about = tokens_in_words(tokens / 1024 * 1024);
            return format!(" By itself it takes about {about} tokens of context instead.");
        }
        let all = shape.layer_count().saturating_add(1);
        let moved = match fewest_host_experts(shape, settings, free).filter(|count| *count > 0) {
            Some(count) => format!("leaves the experts of {count} layers in RAM"),
            None => match best_layers(shape, settings, free).filter(|count| *count < all) {
                Some(count) => format!("moves {} of {all} layers to RAM", all.saturating_sub(count)),
                None => return String::new(),
            },
        };
        format!(
            " By itself it {moved}, which is slower; {force} keeps all on the card{}.",
            if free.len() > 1 { "s" } else { "" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::options::{self, Card};
    use crate::memory::settings::{Outputs, Settings};
    use crate::memory::table;

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
        let fits = |context| options::fits(&Engine::LlamaCpp(asked(context)), &shape, Some(&card(free)));
        assert_eq!((fits(12_288), fits(14_336)), (Some(true), Some(false)));
        let said = Engine::LlamaCpp(asked(16_384)).by_itself(&shape, &[free]);
        assert_eq!(said, " By itself it moves 2 of 33 layers to RAM, which is slower; -ngl all keeps all on the card.");
    }

    fn card(free: Bytes) -> Card {
        Card { index: 0, uuid: None, name: "x".into(), total: Bytes::gib(80), free, each: Vec::new() }
    }

    #[test]
    fn the_margin_of_an_estimate_is_part_of_what_is_spare() {
        assert_eq!(wanted(Bytes::gib(5), 100 << 20), Bytes::gib(6).less(Bytes::mib(64)));
        assert_eq!(wanted(Bytes::gib(30), 20 << 30), Bytes::gib(30), "a tenth of 20 GiB is more");
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
