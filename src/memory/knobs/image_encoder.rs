//! Owns whether the image encoder of llama.cpp and Ollama stays in system memory, 1 where it does.

use crate::memory::knob::*;

pub(crate) static KNOB: Knob = Knob {
    name: "image encoder in RAM",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["--no-mmproj-offload"] },
        Spelling { of: Program::Ollama, names: &["LLAMA_ARG_MMPROJ_OFFLOAD"] },
    ],
    get: Some(|engine, _| u64::from(is_in_ram(engine))),
    set: Some(|engine, _, to| {
        if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine {
            settings.host_projector = to > 0;
        }
    }),
    states: Some(|engine, _| is_in_ram(engine).then(|| Said::Option(in_ram(engine).to_owned()))),
    cost: |_, _, _| 2,
    proposals: |need| match need.engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings)
            if need.shape.projector > 0 && !settings.host_projector =>
        {
            vec![need.turn(&KNOB, 1, "the image encoder in system memory").with_flags(in_ram(&need.engine))]
        }
        _ => Vec::new(),
    },
    ..Knob::PLAIN
};

fn is_in_ram(engine: &Engine) -> bool {
    matches!(engine, Engine::LlamaCpp(settings) | Engine::Ollama(settings) if settings.host_projector)
}

/// Ollama's server starts llama-server, which reads the variable itself (llama.cpp 0.6.0, common/arg.cpp).
fn in_ram(engine: &Engine) -> &'static str {
    if let Engine::Ollama(_) = engine { "LLAMA_ARG_MMPROJ_OFFLOAD=0" } else { "--no-mmproj-offload" }
}
