//! Owns where llama.cpp keeps the KV cache. No engine here has it as a setting: what its fix does is reckoned from the sum.

use crate::memory::knob::*;

pub(crate) static KNOB: Knob = Knob {
    name: "KV cache in RAM",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[Spelling { of: Program::LlamaCpp, names: &["--no-kv-offload", "-nkvo"] }],
    fixes: &[FixId::KV_CACHE_ON_CPU],
    ..Knob::PLAIN
};
