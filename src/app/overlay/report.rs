//! Owns the overlay after a report was written: its path, and what to check before sharing it.

use super::{Body, Overlay, text_of};
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::app::summary;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenReport {
    pub path: String,
}

impl Overlay for WrittenReport {
    fn title(&self) -> &'static str {
        "Report"
    }

    fn body(&self, model: &Model) -> Body {
        let width = page_width(model.size);
        text_of(&summary::written(&self.path, width), width)
    }
}
