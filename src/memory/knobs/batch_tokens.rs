//! Owns how many tokens a server computes at once: what llama.cpp is handed (`-b`) and computes (`-ub`), and what vLLM
//! batches over all requests.

use crate::memory::knob::*;
use crate::memory::settings::Settings;

/// The part of the present micro-batch that its fix proposes.
const SMALLER_BY: u64 = 4;

pub(crate) static KNOB: Knob = Knob {
    name: "tokens at once",
    engines: &[Kind::LlamaCpp, Kind::Vllm],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["-b", "--batch-size"] },
        Spelling { of: Program::Vllm, names: &["--max-num-batched-tokens"] },
    ],
    number: |engine| match engine {
        Engine::LlamaCpp(settings) => Some(&mut settings.batch),
        Engine::Vllm(serving) => Some(&mut serving.batched_tokens),
        _ => None,
    },
    is_usual: |engine| match engine {
        Engine::LlamaCpp(settings) => settings.batch == Settings::default().batch,
        Engine::Vllm(serving) => serving.batched_tokens == serving.usual_at_once.0,
        _ => true,
    },
    ..Knob::PLAIN
};

/// llama.cpp's micro-batch: what its compute buffer grows with.
pub(crate) static MICRO: Knob = Knob {
    name: "micro-batch",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[Spelling { of: Program::LlamaCpp, names: &["-ub", "--ubatch-size"] }],
    printed: &["n_ubatch"],
    fixes: &[FixId::SMALLER_MICRO_BATCH],
    number: |engine| match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => Some(&mut settings.micro_batch),
        _ => None,
    },
    is_usual: |engine| !matches!(engine, Engine::LlamaCpp(settings) if settings.micro_batch != Settings::default().micro_batch),
    step: |engine| {
        let mut smaller = *engine;
        let tokens = (MICRO.number)(&mut smaller)?;
        *tokens = (*tokens / SMALLER_BY).max(1);
        Some(smaller)
    },
    ..Knob::PLAIN
};
