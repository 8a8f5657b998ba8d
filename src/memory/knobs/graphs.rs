//! Owns vLLM's CUDA graphs, 1 where they are captured.

use crate::memory::knob::*;

pub(crate) static KNOB: Knob = Knob {
    name: "CUDA graphs",
    engines: &[Kind::Vllm],
    spelled: &[Spelling { of: Program::Vllm, names: &["--enforce-eager"] }],
    fixes: &[FixId::NO_CUDA_GRAPHS],
    get: Some(|engine, _| u64::from(!is_eager(engine))),
    set: Some(|engine, _, to| {
        if let Engine::Vllm(serving) = engine {
            serving.eager = to == 0;
        }
    }),
    states: Some(|engine, _| {
        let option = if is_eager(engine) { "--enforce-eager" } else { "--no-enforce-eager" };
        Some(Said::Option(option.to_owned()))
    }),
    is_usual: |engine| !is_eager(engine),
    cost: |_, _, _| 4,
    proposals: |need| match need.engine {
        Engine::Vllm(serving) if !serving.eager => vec![need.turn(&KNOB, 0, "no CUDA graphs")],
        _ => Vec::new(),
    },
    ladder: Some(|_, _| vec![0, 1]),
    shown: Some(|engine, _| if is_eager(engine) { "off" } else { "on" }.to_owned()),
    ..Knob::PLAIN
};

fn is_eager(engine: &Engine) -> bool {
    matches!(engine, Engine::Vllm(serving) if serving.eager)
}
