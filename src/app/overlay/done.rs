//! Owns the overlay after the run worked: what was done, and what prevents the failure next time.

use super::{Body, Hint, Overlay, text_of};
use crate::app::action::Action;
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::app::summary;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done;

impl Overlay for Done {
    fn title(&self) -> &'static str {
        "Done"
    }

    fn body(&self, model: &Model) -> Body {
        text_of(&summary::page(model), page_width(model.size))
    }

    fn hints(&self, model: &Model) -> Vec<Hint> {
        vec![(model.config.keys.key_of(Action::Quit).unwrap_or("q").to_owned(), "leave")]
    }
}
