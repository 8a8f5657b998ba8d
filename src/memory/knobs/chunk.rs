//! Owns how many tokens of a prompt SGLang prefills at once.

use crate::memory::knob::*;
use crate::memory::sglang;
use crate::memory::words::tokens_in_words;

pub(crate) static KNOB: Knob = Knob {
    name: "prefill at once",
    engines: &[Kind::Sglang],
    spelled: &[Spelling { of: Program::Sglang, names: &["--chunked-prefill-size"] }],
    printed: &["chunked_prefill_size"],
    number: |engine| if let Engine::Sglang(serving) = engine { Some(&mut serving.chunk) } else { None },
    is_usual: |engine| !matches!(engine, Engine::Sglang(serving) if serving.chunk != serving.usual_chunk),
    cost: |_, _, _| 2,
    proposals: |need| smaller(need).into_iter().collect(),
    ladder: Some(|_, _| vec![512, 1024, 2048, 4096, 8192, 16_384]),
    shown: Some(|engine, shape| tokens_in_words(KNOB.value(engine, shape))),
    ..Knob::PLAIN
};

/// Smaller pieces leave more of the GPU to the pool.
fn smaller(need: &Need<'_>) -> Option<Proposal> {
    const SMALL: u64 = 2048;
    let Engine::Sglang(serving) = need.engine else { return None };
    let mut small = sglang::Serving { chunk: SMALL, ..serving };
    small.fraction = sglang::possible_fraction(need.shape, &small, need.card?.free);
    if serving.chunk <= SMALL || small.fraction == 0 {
        return None;
    }
    let turns = [Turn { knob: &KNOB, to: SMALL }];
    Some(need.propose(&turns, "prefills of 2K tokens at once and a pool of what they leave", Engine::Sglang(small)))
}
