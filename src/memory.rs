//! Owns how much memory a model takes and which change makes it fit: headers of model files, shapes, weights, caches,
//! buffers, budgets. Pure arithmetic on what it is handed; every figure is in bytes and is a fact or "about".
//! The formulas are those of llama.cpp 0.5.0, vLLM 0.33.0, transformers 5.23.0 and DeepSpeed, read on 2026-11-20.
//! Never knows files, the clock, this machine or the screen.

pub mod cache;
pub mod card;
pub mod compute;
pub mod config;
mod data;
pub(crate) mod encoder;
pub mod engine;
pub mod estimate;
pub mod fits;
pub(crate) mod flags;
pub mod ggml;
pub mod gguf;
pub(crate) mod images;
pub(crate) mod inference;
pub(crate) mod knob;
pub(crate) mod knobs;
pub mod options;
pub(crate) mod quant;
pub(crate) mod refusal;
pub mod safetensors;
pub mod settings;
pub mod sglang;
pub mod shape;
pub mod split;
pub mod table;
#[cfg(test)]
mod tests;
pub(crate) mod together;
pub mod training;
pub mod visible;
pub mod vllm;
pub(crate) mod weights;
pub(crate) mod words;

pub use card::Card;
pub use engine::{Engine, Kind};
pub use estimate::{Estimate, Part, estimate};
pub use fits::{best_layers, fewest_host_experts, fits, longest};
pub use ggml::GgmlType;
pub(crate) use inference::{Dtype, Generating};
pub(crate) use knob::{Knob, Turn};
pub use options::Choice;
pub use settings::{Outputs, Settings};
pub use shape::{Figures, Is, ModelShape, Storage, from_gguf};
pub use training::{Optimizer, Recipe, Sharing, Step, Training};
pub(crate) use words::{context_in_words, share_in_words, tokens_in_words};
