//! Owns the overlay with a text that could not be copied, shown alone so that the person can select it.

use super::{Body, Line, Overlay};
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::knowledge::page::Tone;
use crate::text::broken;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uncopied {
    pub text: String,
}

impl Overlay for Uncopied {
    fn title(&self) -> &'static str {
        "Could not be copied: select it here"
    }

    fn body(&self, model: &Model) -> Body {
        let width = page_width(model.size);
        // Whoever selects the text wants each of its blanks.
        let lines = self.text.lines().flat_map(|line| broken(line, width));
        Body::Text(lines.map(|line| Line::Text(Tone::Text, line)).collect())
    }
}
