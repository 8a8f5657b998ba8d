//! Owns what can be told of a training run by the parameters it says it trains, where the model itself is not known:
//! the optimizer's states. About; AdamW is assumed. Bytes.

use super::answer::FitAdvice;
use super::effect::Effect;
use crate::knowledge::FixId;
use crate::knowledge::diagnosis::Diagnosis;
use crate::memory::shape::Is;
use crate::memory::training::{Optimizer, Recipe, bytes};
use crate::units::Bytes;

/// What the log's own count of trained parameters says. `None` where it prints none.
pub(crate) fn advice(diagnosis: &Diagnosis) -> Option<FitAdvice> {
    let trained = diagnosis.run.trainable_parameters?;
    let [full, eight_bit] = [Optimizer::AdamW, Optimizer::AdamW8bit]
        .map(|optimizer| bytes(trained, Recipe::Mixed.trained(optimizer).optimizer));
    let saved = Bytes(full.saturating_sub(eight_bit));
    let effect = Effect { frees: Some((saved, Is::About)), ..Effect::of(FixId::EIGHT_BIT_OPTIMIZER) };
    Some(FitAdvice {
        engine: "training",
        effects: vec![effect],
        why_not_known: Some("the log does not name the model".into()),
        notes: vec![format!("AdamW is assumed to train the {trained} parameters that the log counts")],
        ..FitAdvice::default()
    })
}
