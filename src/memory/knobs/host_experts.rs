//! Owns how many layers of a mixture of experts leave their experts in system memory: the first so many.

use crate::ids::FixId;
use crate::memory::card::Card;
use crate::memory::engine::{Engine, Kind};
use crate::memory::knob::{Dial, Knob, Need, Program, Proposal, Said, Spelling, Turn};
use crate::memory::search::fewest_host_experts;
use crate::memory::settings::Settings;
use crate::memory::shape::ModelShape;

pub(crate) static KNOB: Knob = Knob {
    name: "experts in RAM",
    engines: &[Kind::LlamaCpp, Kind::Ollama],
    spelled: &[
        Spelling { of: Program::LlamaCpp, names: &["--n-cpu-moe", "-ncmoe"] },
        Spelling { of: Program::Ollama, names: &["LLAMA_ARG_N_CPU_MOE"] },
    ],
    fixes: &[FixId::EXPERTS_ON_CPU],
    placeholder: |_, count| Some(("host_experts", count.to_string())),
    get: |engine, shape| layers(engine).min(shape.layer_count()),
    set: |engine, _, to| {
        if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine {
            settings.host_experts = to;
        }
    },
    states: |engine, _| {
        Some(Said::Option(match (engine, layers(engine)) {
            (Engine::Ollama(_), count) => format!("LLAMA_ARG_N_CPU_MOE={count}"),
            (_, u64::MAX) => "--cpu-moe".to_owned(),
            (_, count) => format!("--n-cpu-moe {count}"),
        }))
    },
    is_usual: |engine| layers(engine) == 0,
    cost: |_, _, _| 4,
    proposals: |need| more(need).into_iter().collect(),
    // Dimensions that are not all known may hide experts.
    frees_nothing: |_, shape| shape.experts == 0 && !shape.tensors.is_empty(),
    dial: Some(Dial {
        label: |_| "experts in RAM",
        is_shown: |_, shape| shape.experts > 0,
        ladder: |_, shape| (0..=shape.layer_count()).collect(),
        shown,
    }),
    ..Knob::PLAIN
};

fn layers(engine: &Engine) -> u64 {
    if let Engine::LlamaCpp(settings) | Engine::Ollama(settings) = engine { settings.host_experts } else { 0 }
}

fn shown(engine: &Engine, shape: &ModelShape) -> String {
    match (KNOB.get)(engine, shape) {
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
