//! Owns which kind of program ran the failed model, as far as its memory arithmetic is known here.

use crate::knowledge::diagnosis::{Diagnosis, Phase};

/// Which kind of program ran the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// llama.cpp and what is built on it.
    LlamaCpp,
    Ollama,
    Vllm,
    Sglang,
    Transformers,
    Train,
}

impl Kind {
    /// By what the person ran and whose code complained. `None` where nothing here knows its arithmetic.
    pub fn of(diagnosis: &Diagnosis) -> Option<Kind> {
        let words = || [&diagnosis.program, &diagnosis.raised_by].into_iter().flatten().map(String::as_str);
        if words().any(|word| word == "ollama") {
            return Some(Kind::Ollama);
        }
        words().find_map(|word| match word {
            "llama.cpp" | "llama-server" | "llama-cpp-python" | "koboldcpp" | "lm studio" | "llamafile" => {
                Some(Kind::LlamaCpp)
            }
            "vllm" => Some(Kind::Vllm),
            "sglang" => Some(Kind::Sglang),
            "transformers" | "accelerate" | "pytorch" | "trl" | "trl grpo" | "peft" | "bitsandbytes" => {
                Some(match diagnosis.phase {
                    Phase::Training => Kind::Train,
                    _ => Kind::Transformers,
                })
            }
            _ => None,
        })
    }

    /// Whether weights are named by dtype rather than by quantisation.
    pub fn is_torch(self) -> bool {
        matches!(self, Kind::Vllm | Kind::Sglang | Kind::Transformers | Kind::Train)
    }
}
