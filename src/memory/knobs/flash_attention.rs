//! Owns flash attention of llama.cpp and Ollama, without which a quantized V cache is refused. 1 where it is on.

use crate::memory::knob::*;

pub(crate) static KNOB: Knob = Knob {
    name: "flash attention",
    engines: &[Kind::LlamaCpp, Kind::Ollama, Kind::Train],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["-fa", "--flash-attn"] },
        Spelling { of: Program::Ollama, names: &["OLLAMA_FLASH_ATTENTION"] },
    ],
    printed: &["flash_attn"],
    fixes: &[FixId::FLASH_ATTENTION],
    get: Some(|engine, _| u64::from(is_on(engine))),
    set: Some(|engine, _, to| match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.flash_attention = to > 0,
        Engine::Train(training) => training.step.flash_attention = to > 0,
        _ => {}
    }),
    states: Some(states),
    is_usual: |engine| match engine {
        Engine::LlamaCpp(settings) => {
            settings.flash_attention && !settings.k_type.is_quantised() && !settings.v_type.is_quantised()
        }
        Engine::Ollama(settings) => settings.flash_attention && !settings.k_type.is_quantised(),
        _ => true,
    },
    proposals,
    ..Knob::PLAIN
};

pub(crate) fn is_on(engine: &Engine) -> bool {
    match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => settings.flash_attention,
        Engine::Train(training) => training.step.flash_attention,
        _ => false,
    }
}

fn states(engine: &Engine, _: Option<&ModelShape>) -> Option<Said> {
    match engine {
        Engine::Ollama(settings) => {
            KNOB.option(engine, u8::from(settings.flash_attention || settings.k_type.is_quantised()))
        }
        _ => KNOB.option(engine, if is_on(engine) { "on" } else { "off" }),
    }
}

fn proposals(need: &Need<'_>) -> Vec<Proposal> {
    let flags = match need.engine {
        Engine::LlamaCpp(_) => "-fa on",
        Engine::Ollama(_) => "OLLAMA_FLASH_ATTENTION=1",
        _ => return Vec::new(),
    };
    if is_on(&need.engine) || !need.shape.attends() {
        return Vec::new();
    }
    vec![need.turn(&KNOB, 1, "flash attention").with_flags(flags)]
}
