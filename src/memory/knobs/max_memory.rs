//! Owns what transformers may put of the weights on the GPU (`device_map="auto"` with `max_memory`). Values are bytes; 0 for
//! no limit.

use crate::memory::estimate::SPARE;
use crate::memory::inference;
use crate::memory::knob::*;

pub(crate) static KNOB: Knob = Knob {
    name: "weights on the GPU",
    engines: &[Kind::Transformers],
    get: Some(|engine, _| limit(engine).map_or(0, |most| most.0)),
    set: Some(|engine, _, to| {
        if let Engine::Transformers(generating) = engine {
            generating.max_memory = (to > 0).then_some(Bytes(to));
        }
    }),
    states: Some(|engine, _| {
        let most = limit(engine)?.0 >> 30;
        let text = format!("device_map=\"auto\", max_memory={{0: \"{most}GiB\", \"cpu\": \"999GiB\"}}");
        Some(Said::Option(text))
    }),
    cost: |_, _, _| 8,
    proposals: |need| part_in_ram(need).into_iter().collect(),
    ..Knob::PLAIN
};

fn limit(engine: &Engine) -> Option<Bytes> {
    if let Engine::Transformers(generating) = engine { generating.max_memory } else { None }
}

/// With less than half of the weights on the GPU it would crawl.
fn part_in_ram(need: &Need<'_>) -> Option<Proposal> {
    let Engine::Transformers(generating) = need.engine else { return None };
    if generating.max_memory.is_some() {
        return None;
    }
    let most = inference::largest_max_memory(need.shape, &generating, need.card?.free.less(SPARE))?;
    let all = inference::weight_bytes(need.shape, generating.dtype).ok()?;
    let words = format!("{most} of the weights on the GPU and the rest in system memory");
    (all / 2..all).contains(&most.0).then(|| need.turn(&KNOB, most.0, words))
}
