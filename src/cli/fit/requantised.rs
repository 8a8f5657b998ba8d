//! Owns what vLLM and SGLang are asked to take in fewer bits than what was named has: another checkpoint, reckoned from
//! the same shapes. Knows no engine.

use super::flags::FitArgs;
use super::located::{Located, Source};
use crate::memory::quant::{self, Shape};
use crate::memory::{Is, Storage, weights};

/// The word for it, such as `AWQ`, where `--dtype` asks for what the model is not in; a folder is then reckoned anew.
/// `None` where it is in that already, or in other few bits that nothing turns into these.
pub(super) fn asked(args: &FitArgs, model: &str, located: &mut Located) -> Option<String> {
    let word = args.dtype.as_deref()?;
    let (word, mix) = quant::in_name(&format!("model-{word}")).filter(|(_, mix)| quant::of_checkpoint(mix))?;
    let shape = &mut located.shape;
    match located.source {
        Source::Table => {
            let said = quant::in_name(model).map(|(_, said)| said);
            let is_other = said != Some(mix) && shape.quantization.as_deref() == Some(mix);
            if is_other {
                shape.quantization = Some(word.clone());
            }
            is_other.then_some(word)
        }
        Source::Checkpoint if shape.storage == Storage::Plain => {
            let shapes: Vec<Shape> =
                shape.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.dims.clone())).collect();
            let (layers, experts) = (shape.layer_count(), shape.experts);
            let model = quant::Model { architecture: &shape.architecture, layers, experts, shared_by: 0 };
            let tensors = quant::mixed(&shapes, mix, model)?;
            let count = usize::try_from(shape.layer_count()).ok()?;
            shape.weights = Ok(weights::sums_of(&tensors, count));
            (shape.weights_are, shape.storage) = (Is::About, Storage::Quantised);
            shape.quantization = Some(word.clone());
            Some(word)
        }
        _ => None,
    }
}
