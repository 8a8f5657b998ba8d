//! Owns the glossary: the terms of the field, explained.

use super::{Body, Hint, Outcome, Overlay, covered, text_of};
use crate::app::action::Action;
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::app::overlay::help::Help;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glossary;

impl Overlay for Glossary {
    fn title(&self) -> &'static str {
        "Glossary"
    }

    fn body(&self, model: &Model) -> Body {
        match &model.glossary {
            Some(page) => text_of(page, page_width(model.size)),
            None => Body::Missing,
        }
    }

    fn hints(&self, _model: &Model) -> Vec<Hint> {
        vec![("Tab".to_owned(), "the keys")]
    }

    fn act(&self, _model: &mut Model, _at: usize, action: Action) -> Outcome {
        match action {
            Action::NextRegion | Action::PreviousRegion => Outcome::Opens(Box::new(Help), Vec::new()),
            Action::Help => Outcome::Closes(Vec::new()),
            other => covered(other),
        }
    }
}
