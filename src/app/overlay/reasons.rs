//! Owns the overlay "Why": the evidence, the sums, and the rules that led to these causes and fixes.

use super::{Body, Overlay, text_of};
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::app::summary;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reasons;

impl Overlay for Reasons {
    fn title(&self) -> &'static str {
        "Why"
    }

    fn body(&self, model: &Model) -> Body {
        match summary::rules(model) {
            Some(page) => text_of(&page, page_width(model.size)),
            None => Body::Missing,
        }
    }
}

/// Shows the reasons, where there is an error to explain, or closes them.
pub(crate) fn toggle(model: &mut Model) {
    if model.opened::<Reasons>().is_some() {
        model.overlay = None;
    } else if model.advice.is_some() {
        model.open(Reasons);
    } else {
        model.say("No error to explain yet: paste one first.");
    }
}
