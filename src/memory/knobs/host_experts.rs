//! Owns how many layers of a mixture of experts leave their experts in system memory: the first so many.

use crate::memory::fits::fewest_host_experts;
use crate::memory::knob::*;
use crate::memory::settings::Settings;

pub(crate) static KNOB: Knob = Knob {
    name: "experts in RAM",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["--n-cpu-moe", "-ncmoe"] },
        Spelling { of: Program::Ollama, names: &["LLAMA_ARG_N_CPU_MOE"] },
    ],
    fixes: &[FixId::EXPERTS_ON_CPU],
    placeholder: |_, count| Some(("host_experts", count.to_string())),
    get: Some(|engine, shape| layers(engine).min(shape.layer_count())),
    number: |engine| match engine {
        Engine::LlamaCpp(settings) | Engine::Ollama(settings) => Some(&mut settings.host_experts),
        _ => None,
    },
    states: Some(|engine, _| match (engine, layers(engine)) {
        (Engine::LlamaCpp(_), u64::MAX) => Some(Said::Option("--cpu-moe".to_owned())),
        (_, count) => KNOB.option(engine, count),
    }),
    is_usual: |engine| layers(engine) == 0,
    cost: |_, _, _| 4,
    proposals: |need| more(need).into_iter().collect(),
    // Dimensions that are not all known may hide experts.
    frees_nothing: |_, shape| shape.experts == 0 && !shape.tensors.is_empty(),
    is_shown: |_, shape| shape.experts > 0,
    ladder: Some(|_, shape| (0..=shape.layer_count()).collect()),
    shown: Some(shown),
    ..Knob::PLAIN
};

fn layers(engine: &Engine) -> u64 {
    KNOB.number_of(engine).unwrap_or(0)
}

fn shown(engine: &Engine, shape: &ModelShape) -> String {
    match KNOB.value(engine, shape) {
        0 => "none".to_owned(),
        count => format!("{count} of {} layers", shape.layer_count()),
    }
}

/// As few as must, with all layers on the GPU.
fn more(need: &Need<'_>) -> Option<Proposal> {
    let mut engine = need.engine;
    let (Engine::LlamaCpp(settings) | Engine::Ollama(settings)) = &mut engine else { return None };
    let count = fewest_host_experts(need.shape, settings, need.card.map(Card::room)?)?;
    if count <= settings.host_experts {
        return None;
    }
    *settings = Settings { gpu_layers: None, host_experts: count, ..*settings };
    let turns = [Turn { knob: &KNOB, to: count }];
    Some(need.propose(&turns, format!("the experts of {count} layers in system memory"), engine))
}
