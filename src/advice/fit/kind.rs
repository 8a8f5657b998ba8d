//! Owns which kind of program ran the failed model, as far as its memory arithmetic is known here.

use crate::knowledge::Program;
use crate::knowledge::diagnosis::{Diagnosis, Phase};
use crate::memory::engine::Kind;

/// By what the person ran and whose code complained. `None` where nothing here knows its arithmetic.
pub(crate) fn kind_of(diagnosis: &Diagnosis) -> Option<Kind> {
    let words = [&diagnosis.program, &diagnosis.raised_by].into_iter().flatten().map(String::as_str);
    if words.clone().any(|word| word == "ollama") {
        return Some(Kind::Ollama);
    }
    words.into_iter().find_map(|word| match Program::known(word)?.computes_like() {
        Program::LLAMA_CPP => Some(Kind::LlamaCpp),
        Program::VLLM => Some(Kind::Vllm),
        Program::SGLANG => Some(Kind::Sglang),
        Program::PYTORCH if diagnosis.phase == Phase::Training => Some(Kind::Train),
        Program::PYTORCH => Some(Kind::Transformers),
        _ => None,
    })
}
