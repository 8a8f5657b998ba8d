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

/// A knob, and where it stands among the others.
pub(crate) struct Row {
    pub knob: &'static Knob,
    /// Its place among the options on a command line.
    place: u8,
    /// Its place among the knobs that a person turns.
    dial: u8,
}

const fn row(knob: &'static Knob, place: u8, dial: u8) -> Row {
    Row { knob, place, dial }
}

/// For a knob without options, or without a dial.
const NONE: u8 = u8::MAX;

/// All knobs, in the order in which they are proposed: what costs nothing or little first.
#[rustfmt::skip]
pub(crate) static KNOBS: &[Row] = &[
    //                           option  dial
    row(&gpus::KNOB,                  8, NONE),
    row(&gpus::PIPELINE,              9, NONE),
    row(&flash_attention::KNOB,       2, NONE),
    row(&slots::KNOB,                 1, 7),
    row(&slots::SEQUENCES,           11, NONE),
    row(&share::KNOB,                 5, 9),
    row(&chunk::KNOB,                 7, 10),
    row(&kv_type::KNOB,               3, 3),
    row(&kv_type::OF_V,               4, NONE),
    row(&kv_offload::KNOB,         NONE, NONE),
    row(&image_encoder::KNOB,        15, NONE),
    row(&host_experts::KNOB,         14, 5),
    row(&layers::KNOB,               13, 4),
    row(&graphs::KNOB,                6, 11),
    row(&dtype::KNOB,                16, 6),
    row(&max_memory::KNOB,           17, NONE),
    row(&checkpointing::KNOB,        21, 12),
    row(&batch::KNOB,                20, 8),
    row(&batch_tokens::KNOB,         10, NONE),
    row(&batch_tokens::MICRO,        12, NONE),
    row(&optimizer::KNOB,            19, 1),
    row(&sharing::KNOB,            NONE, 13),
    row(&recipe::KNOB,               18, 0),
    row(&quantization::KNOB,       NONE, NONE),
    row(&context::KNOB,               0, 2),
];

pub(crate) fn all() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().map(|row| row.knob)
}

/// The knobs that a person can turn for this model, in the order of the screen.
pub(crate) fn dials(engine: &Engine, shape: &ModelShape) -> Vec<&'static Knob> {
    let mut rows: Vec<&Row> = KNOBS.iter().filter(|row| is_turned_by_hand(row.knob, engine, shape)).collect();
    rows.sort_by_key(|row| row.dial);
    rows.into_iter().map(|row| row.knob).collect()
}

fn is_turned_by_hand(knob: &Knob, engine: &Engine, shape: &ModelShape) -> bool {
    knob.has(engine) && knob.dial.as_ref().is_some_and(|dial| (dial.is_shown)(engine, shape))
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
    let mut rows: Vec<&Row> = KNOBS.iter().filter(|row| row.place != NONE && row.knob.has(engine)).collect();
    rows.sort_by_key(|row| row.place);
    rows.into_iter().map(|row| row.knob)
}

/// All spellings of a program's option, where it is one of a knob's.
pub(crate) fn spellings(program: Program, option: &str) -> Option<&'static [&'static str]> {
    let mut spelled = all().flat_map(|knob| knob.spelled).filter(|spelling| spelling.of == program);
    spelled.find(|spelling| spelling.names.contains(&option)).map(|spelling| spelling.names)
}
