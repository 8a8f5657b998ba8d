//! Owns the overlay about an image model that the person named: what it needs.

use super::{Body, Overlay, text_of};
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::knowledge::page::Page;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drawing {
    /// What is known of the model.
    pub text: String,
}

impl Overlay for Drawing {
    fn title(&self) -> &'static str {
        "Fit"
    }

    fn body(&self, model: &Model) -> Body {
        text_of(&Page::said(&self.text), page_width(model.size))
    }
}
