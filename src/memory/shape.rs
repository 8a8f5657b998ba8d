//! Owns the way from a GGUF header, a config.json or the table to a `ModelShape`. All three become a header first, so
//! that one set of rules (`rules`) says what each layer caches. Knows nothing of settings, engines or files.

mod figures;
mod known;
mod model;
mod rules;
mod tensors;

pub use figures::{Compressing, Experts, Figures, Mla, Recurrent, SharedKv, Window};
pub use known::of_transformers;
pub use model::{Cache, Compressed, Is, Layer, MOST_LAYERS, ModelShape, Storage};
pub use rules::from_gguf;
