//! Owns the model and the settings that a trial by hand begins with. Pure.

use std::sync::Arc;

use crate::memory::engine::Engine;
use crate::memory::shape::ModelShape;
use crate::memory::words::context_in_words;

/// What a trial begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    pub(super) name: String,
    pub(super) quantization: String,
    pub(super) shape: Arc<ModelShape>,
    pub(super) engine: Engine,
}

impl Basis {
    pub(super) fn new(name: &str, quantization: &str, shape: &ModelShape, engine: Engine) -> Basis {
        Basis { name: name.to_owned(), quantization: quantization.to_owned(), shape: Arc::new(shape.clone()), engine }
    }

    pub(super) fn context(&self) -> Option<String> {
        context_in_words(&self.engine, &self.shape)
    }

    pub(super) fn who_wants(&self) -> &'static str {
        self.engine.who_wants()
    }
}
