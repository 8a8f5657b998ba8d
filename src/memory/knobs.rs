//! Owns the table of knobs: every setting that decides how much memory a model takes, each described in a file of its own.
//! A new one is that file and a row here.

pub(crate) mod batch;
pub(crate) mod batch_tokens;
pub(crate) mod checkpointing;
pub(crate) mod chunk;
pub(crate) mod context;
pub(crate) mod dtype;
pub(crate) mod flash_attention;
pub(crate) mod gpus;
pub(crate) mod graphs;
pub(crate) mod host_experts;
pub(crate) mod image_encoder;
pub(crate) mod kv_offload;
pub(crate) mod kv_type;
pub(crate) mod layers;
pub(crate) mod max_memory;
pub(crate) mod optimizer;
pub(crate) mod quantization;
pub(crate) mod recipe;
pub(crate) mod share;
pub(crate) mod sharing;
pub(crate) mod slots;
#[cfg(test)]
mod tests;

use super::engine::Engine;
use super::knob::{Knob, Program, Said};
use super::shape::ModelShape;

/// For a knob without options, or without a dial.
const NONE: u8 = u8::MAX;

/// All knobs, in the order in which they are proposed: what costs nothing or little first. With each its place among the
/// options on a command line, and among the knobs that a person turns.
#[rustfmt::skip]
pub(crate) static KNOBS: &[(&Knob, u8, u8)] = &[
    //                        option  dial
    (&gpus::KNOB,                  8, NONE),
    (&gpus::PIPELINE,              9, NONE),
    (&flash_attention::KNOB,       2, NONE),
    (&slots::KNOB,                 1, 7),
    (&slots::SEQUENCES,           11, NONE),
    (&share::KNOB,                 5, 9),
    (&chunk::KNOB,                 7, 10),
    (&kv_type::KNOB,               3, 3),
    (&kv_type::OF_V,               4, NONE),
    (&kv_offload::KNOB,         NONE, NONE),
    (&image_encoder::KNOB,        15, NONE),
    (&host_experts::KNOB,         14, 5),
    (&layers::KNOB,               13, 4),
    (&graphs::KNOB,                6, 11),
    (&dtype::KNOB,                16, 6),
    (&max_memory::KNOB,           17, NONE),
    (&checkpointing::KNOB,        21, 12),
    (&batch::KNOB,                20, 8),
    (&batch_tokens::KNOB,         10, NONE),
    (&batch_tokens::MICRO,        12, NONE),
    (&optimizer::KNOB,            19, 1),
    (&sharing::KNOB,            NONE, 13),
    (&recipe::KNOB,               18, 0),
    (&quantization::KNOB,       NONE, NONE),
    (&context::KNOB,               0, 2),
];

pub(crate) fn all() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().map(|(knob, ..)| *knob)
}

/// The knobs that a person can turn for this model, in the order of the screen.
pub(crate) fn dials(engine: &Engine, shape: &ModelShape) -> Vec<&'static Knob> {
    let mut rows: Vec<_> = KNOBS.iter().filter(|(knob, ..)| is_turned_by_hand(knob, engine, shape)).collect();
    rows.sort_by_key(|(.., dial)| dial);
    rows.into_iter().map(|(knob, ..)| *knob).collect()
}

fn is_turned_by_hand(knob: &Knob, engine: &Engine, shape: &ModelShape) -> bool {
    knob.has(engine) && knob.ladder.is_some() && (knob.is_shown)(engine, shape)
}

/// What a command line says of this engine's knobs, in its order.
pub(crate) fn flags(engine: &Engine) -> Vec<Said> {
    in_order_of_options(engine).filter_map(|knob| knob.flag(engine)).collect()
}

/// What turns the knobs of `then` into those of `now`, in the order of a command line.
pub(crate) fn changes(now: &Engine, then: &Engine, shape: &ModelShape) -> Vec<Said> {
    in_order_of_options(now).filter_map(|knob| knob.changed(now, then, shape)).collect()
}

fn in_order_of_options(engine: &Engine) -> impl Iterator<Item = &'static Knob> {
    let mut rows: Vec<_> = KNOBS.iter().filter(|(knob, place, _)| *place != NONE && knob.has(engine)).collect();
    rows.sort_by_key(|(_, place, _)| place);
    rows.into_iter().map(|(knob, ..)| *knob)
}

/// All spellings of a program's option, where it is one of a knob's.
pub(crate) fn spellings(program: Program, option: &str) -> Option<&'static [&'static str]> {
    let mut spelled = all().flat_map(|knob| knob.spelled).filter(|spelling| spelling.of == program);
    spelled.find(|spelling| spelling.names.contains(&option)).map(|spelling| spelling.names)
}
