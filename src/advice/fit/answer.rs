//! Owns the answer to whether the run's model fits: what it takes, what is free, which changes make it fit. Bytes and tokens.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::effect::Effect;
use super::model::Known;
use crate::internal::Internal;
use crate::knowledge::FixId;
use crate::memory::{Engine, Estimate, Is, ModelShape};
use crate::units::Bytes;

/// Which model, and how sure that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitModel {
    /// As the table or the log names it.
    pub name: String,
    /// Its quantisation or dtype.
    pub quantization: Option<String>,
    /// How it was found, in words.
    pub how: String,
    /// Its layers, where known.
    pub layers: Option<u64>,
    /// Its parameters, where known.
    pub parameters: Option<u64>,
}

impl FitModel {
    pub(super) fn of(known: &Known) -> FitModel {
        FitModel {
            name: known.name.clone(),
            quantization: Some(known.quantization.clone()),
            how: known.how.clone(),
            layers: Some(known.shape.layer_count()).filter(|count| *count > 0),
            parameters: known.shape.parameters,
        }
    }
}

/// A change that makes it fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitChoice {
    /// In words that follow "with".
    pub change: String,
    /// What it then takes on the GPU; of an engine's own pool, what one request takes of it.
    pub total_bytes: Option<Bytes>,
    /// What is then free on the GPU.
    pub free_after_bytes: Option<Bytes>,
    /// What the change frees.
    pub frees_bytes: Option<Bytes>,
    /// How sure that is.
    pub frees_is: Option<Is>,
    /// Whether it then fits.
    pub fits: Option<bool>,
    /// The change's flags in the engine's own form.
    pub flags: Option<String>,
    /// What must be downloaded for it.
    pub download_bytes: Option<Bytes>,
    /// The fixes of the knowledge base that make this change, any of them; none for a change that no fix makes.
    #[serde(skip)]
    pub fixes: Vec<FixId>,
}

/// One line of the model's sizes by quantisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Size {
    pub quantization: String,
    /// The file, about: what a download takes.
    pub file_bytes: Bytes,
    /// What it takes with the run's other settings.
    pub total_bytes: Option<Bytes>,
    pub fits: Option<bool>,
}

/// Whether it fits, and what would make it.
#[serde_with::apply(Internal => #[serde(skip)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FitAdvice {
    /// Which model; `None` where only the engine's own pool is spoken of.
    pub model: Option<FitModel>,
    /// The program, as in sentences.
    pub engine: &'static str,
    /// Tokens of context it was held against.
    pub context_tokens: Option<u64>,
    /// What it takes, part by part; `None` where only the engine's own pool is spoken of.
    pub parts: Option<Estimate>,
    pub total_bytes: Option<Bytes>,
    /// Free for it: now, else when the run began.
    pub free_now_bytes: Option<Bytes>,
    pub card_bytes: Option<Bytes>,
    /// What a choice must leave free.
    pub headroom_bytes: Bytes,
    /// Whether it fits as it is, with the headroom.
    pub fits: Option<bool>,
    /// Whether a setting or the model's data type was assumed, so that the sums may not be this run's.
    pub is_assumed: bool,
    /// Why that is not known.
    pub why_not_known: Option<String>,
    /// Choices that fit, best first.
    pub choices: Vec<FitChoice>,
    /// The model's sizes, from the largest.
    pub sizes: Vec<Size>,
    /// Models or quantisations that would fit, where no choice does.
    pub instead: Vec<String>,
    /// What was assumed, and what can't be known.
    pub notes: Vec<String>,
    /// What each fix of the knowledge base would do.
    pub(super) effects: Internal<Vec<Effect>>,
    /// The settings and the model that a trial of other settings begins with, where both are known.
    pub(super) basis: Internal<Option<(Engine, Arc<ModelShape>)>>,
    /// What is free is what is free now, not what was when the log was written.
    pub(super) is_now: Internal<bool>,
    /// What a choice may take of each GPU, where the model is laid out over several.
    pub(super) each: Internal<Vec<Bytes>>,
}

impl FitAdvice {
    /// Whether the model is laid out over several GPUs of this machine; its figures are then of all of them.
    pub fn is_on_several(&self) -> bool {
        !self.each.is_empty()
    }

    /// What a fix of the knowledge base would do here; `None` where that can't be told.
    pub fn effect_of(&self, fix: FixId) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.fix == fix)
    }

    /// What it takes and what the GPU has, where that is less: terminating processes does not make it fit as it is.
    pub fn beyond(&self) -> Option<(Bytes, Bytes)> {
        self.total_bytes.zip(self.card_bytes).filter(|(total, card)| self.fits == Some(false) && total > card)
    }

    /// Its weights and what the GPU has, where its weights alone are more: no setting helps, however empty the GPU is.
    pub fn weights_beyond(&self) -> Option<(Bytes, Bytes)> {
        let weights = self.parts.as_ref()?.weights.bytes?;
        self.card_bytes.map(|card| (weights, card)).filter(|(weights, card)| weights > card)
    }

    /// What must be free on the GPU so that it fits as it is. About.
    pub fn wants(&self) -> Option<Bytes> {
        Some(self.total_bytes?.plus(self.headroom_bytes))
    }

    /// What is short on the GPU so that it fits as it is. About.
    pub fn missing(&self) -> Option<Bytes> {
        let missing = self.wants()?.less(self.free_now_bytes?);
        (self.is_now && !self.is_on_several()).then_some(missing)
    }

    /// What must be free for the model in all, with its room to spare, and what is short by that, where more is short than by the
    /// log's sums: a run that failed early had not requested all of it. Both as shown, so that the free memory is their difference.
    pub(crate) fn beyond_the_log(&self, short_by_log: Bytes) -> Option<(Bytes, Bytes)> {
        if self.missing()? <= short_by_log {
            return None;
        }
        let short = self.shown_missing()?.as_shown(false);
        Some((self.free_now_bytes?.as_shown(false).plus(short), short))
    }

    /// The same as the difference of the figures as they are shown.
    pub fn shown_missing(&self) -> Option<Bytes> {
        self.missing()?;
        Some(self.total_bytes?.as_shown(false).plus(self.headroom_bytes).less(self.free_now_bytes?.as_shown(false)))
    }
}
