//! Owns how many layers llama.cpp and Ollama keep on the GPU; the output counts as one.

use crate::memory::fits::best_layers;
use crate::memory::knob::*;

pub(crate) static KNOB: Knob = Knob {
    name: "layers",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["-ngl", "--gpu-layers", "--n-gpu-layers"] },
        Spelling { of: Program::KoboldCpp, names: &["--gpulayers", "--gpu-layers"] },
    ],
    fixes: &[FixId::OFFLOAD_FEWER_LAYERS],
    placeholder: |_, count| Some(("layers", count.to_string())),
    get: Some(|engine, shape| set_layers(engine).map_or(shape.units(), |count| count.min(shape.units()))),
    set: Some(|engine, shape, to| {
        if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine {
            settings.gpu_layers = Some(to).filter(|to| *to < shape.units());
        }
    }),
    states: Some(states),
    is_usual: |engine| set_layers(engine).is_none(),
    // With few layers on the GPU it is the processor that computes.
    cost: |_, shape, count| if count >= shape.units() / 2 { 8 } else { 9 },
    proposals: |need| fewer(need).into_iter().collect(),
    label: Some(|_| "layers on the GPU"),
    ladder: Some(|_, shape| (0..=shape.units()).collect()),
    shown: Some(|engine, shape| format!("{} of {}", KNOB.value(engine, shape), shape.units())),
    ..Knob::PLAIN
};

/// `None` for all of them.
fn set_layers(engine: &Engine) -> Option<u64> {
    if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine { settings.gpu_layers } else { None }
}

fn states(engine: &Engine, shape: Option<&ModelShape>) -> Option<Said> {
    let count = set_layers(engine);
    match engine {
        // Its server has no option for it: the chat or the Modelfile alone.
        Engine::Ollama(_) => {
            let count = count.map_or_else(|| "-1".to_owned(), |count| count.to_string());
            Some(Said::InChat(format!("/set parameter num_gpu {count}")))
        }
        _ => Some(Said::Option(format!("-ngl {}", count.or(shape.map(ModelShape::units))?))),
    }
}

/// As many as fit.
fn fewer(need: &Need<'_>) -> Option<Proposal> {
    let (Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = need.engine else { return None };
    let free = need.card.map(Card::room)?;
    let (all, now) = (need.shape.units(), KNOB.value(&need.engine, need.shape));
    let count = best_layers(need.shape, &settings, free).filter(|count| (1..now).contains(count))?;
    let s = if free.len() > 1 { "s" } else { "" };
    Some(need.turn(&KNOB, count, format!("{count} of {all} layers on the GPU{s}")))
}
