//! Owns how many bits a number of the KV cache has: a type of ggml for each of K and V in llama.cpp, one of both in Ollama,
//! fp8 or the model's own in vLLM and SGLang.

use crate::memory::fits::longest;
use crate::memory::ggml::GgmlType;
use crate::memory::knob::*;
use crate::memory::knobs::context;
use crate::memory::words::context_in_words;

/// The type of K, and of V where it is turned. Values are bits.
pub(crate) static KNOB: Knob = Knob {
    name: "KV cache type",
    engines: &[Kind::LlamaCpp, Kind::Ollama, Kind::Vllm, Kind::Sglang],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["-ctk", "--cache-type-k"] },
        Spelling { of: Program::Vllm, names: &["--kv-cache-dtype"] },
        Spelling { of: Program::Sglang, names: &["--kv-cache-dtype"] },
        Spelling { of: Program::Ollama, names: &["OLLAMA_KV_CACHE_TYPE"] },
    ],
    fixes: &[FixId::QUANTISED_KV_CACHE],
    get: Some(|engine, _| match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => bits(settings.k_type),
        _ => half_bytes(engine).saturating_mul(4),
    }),
    set: Some(set),
    states: Some(states),
    is_usual: |engine| match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.k_type == GgmlType::F16,
        _ => half_bytes(engine) != 2,
    },
    cost: |_, _, _| 2,
    proposals,
    is_shown: |engine, shape| matches!(engine, Engine::Vllm(_) | Engine::Sglang(_)) || shape.attends(),
    ladder: Some(|engine, _| match engine {
        Engine::Vllm(_) | Engine::Sglang(_) => vec![8, 16],
        _ => vec![4, 8, 16],
    }),
    shown: Some(shown),
    ..Knob::PLAIN
};

/// The type of V alone, which only llama.cpp takes.
pub(crate) static OF_V: Knob = Knob {
    name: "type of V",
    engines: &[Kind::LlamaCpp],
    spelled: &[Spelling { of: Program::LlamaCpp, names: &["-ctv", "--cache-type-v"] }],
    states: Some(|engine, _| match engine {
        Engine::LlamaCpp(settings) => OF_V.option(engine, settings.v_type.name),
        _ => None,
    }),
    is_usual: |engine| !matches!(engine, Engine::LlamaCpp(settings) if settings.v_type != GgmlType::F16),
    ..Knob::PLAIN
};

/// Bytes of a cached number in halves.
fn half_bytes(engine: &Engine) -> u64 {
    match engine {
        Engine::Vllm(serving) => serving.kv_half_bytes,
        Engine::Sglang(serving) => serving.kv_half_bytes,
        _ => 4,
    }
}

fn bits(kind: GgmlType) -> u64 {
    kind.row_bytes(256).map_or(16, |bytes| bytes / 32)
}

fn set(engine: &mut Engine, _: &ModelShape, bits: u64) {
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => {
            let kind = match bits {
                ..8 => GgmlType::Q4_0,
                8 => GgmlType::Q8_0,
                _ => GgmlType::F16,
            };
            (settings.k_type, settings.v_type) = (kind, kind);
            // A quantised V is refused without flash attention.
            settings.flash_attention |= kind.is_quantised();
        }
        Engine::Vllm(serving) => serving.kv_half_bytes = bits / 4,
        Engine::Sglang(serving) => serving.kv_half_bytes = bits / 4,
        _ => {}
    }
}

fn states(engine: &Engine, _: Option<&ModelShape>) -> Option<Said> {
    let value = match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.k_type.name,
        Engine::Sglang(_) if half_bytes(engine) == 2 => "fp8_e4m3",
        _ if half_bytes(engine) == 2 => "fp8",
        _ => "auto",
    };
    KNOB.option(engine, value)
}

fn shown(engine: &Engine, _: &ModelShape) -> String {
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => match (settings.k_type.name, settings.v_type.name) {
            (k, v) if k == v => k.to_owned(),
            (k, v) => format!("{k}, V {v}"),
        },
        _ => if half_bytes(engine) == 2 { "fp8" } else { "auto" }.to_owned(),
    }
}

/// Eight bits; and with llama.cpp the longest context that then fits.
fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    match need.engine {
        Engine::Vllm(_) | Engine::Sglang(_) if half_bytes(&need.engine) > 2 => {
            vec![need.turn(&KNOB, 8, "the KV cache in fp8")]
        }
        Engine::LlamaCpp(settings) | Engine::Ollama(settings)
            if need.shape.attends() && !settings.k_type.is_quantised() =>
        {
            let eight = need.turn(&KNOB, 8, "the KV cache in q8_0");
            let longer = with_its_longest_context(need, eight.engine);
            [eight].into_iter().chain(longer).collect()
        }
        _ => Vec::new(),
    }
}

fn with_its_longest_context(need: &Need<'_>, eight: Engine) -> Option<Proposal> {
    let asked = need.engine.context(need.shape);
    let tokens = longest(eight, need.shape, need.card?).filter(|tokens| Some(*tokens) != asked)?;
    let both = eight.with_context(tokens);
    let words = format!("{} and the KV cache in q8_0", context_in_words(&both, need.shape).unwrap_or_default());
    let turns = [Turn { knob: &KNOB, to: 8 }, Turn { knob: &context::KNOB, to: tokens }];
    let proposal = need.propose(&turns, words, both);
    Some(Proposal { shortens: asked.is_some_and(|asked| asked > tokens), ..proposal })
}
