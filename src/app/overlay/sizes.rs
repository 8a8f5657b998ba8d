//! Owns the overlay with the sizes of the run's model and the options that make it fit.

use super::{Body, Hint, Outcome, Overlay, covered, text_of};
use crate::app::action::Action;
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::app::overlay::trial::FitTrial;
use crate::app::summary;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes;

impl Overlay for Sizes {
    fn title(&self) -> &'static str {
        "Fit: sizes and options"
    }

    fn body(&self, model: &Model) -> Body {
        match summary::fit(model) {
            Some(page) => text_of(&page, page_width(model.size)),
            None => Body::Missing,
        }
    }

    fn hints(&self, model: &Model) -> Vec<Hint> {
        let mut hints = Vec::new();
        if model.trial.is_some() {
            hints.push(("Tab".to_owned(), "the settings"));
        }
        hints.push((model.config.keys.key_of(Action::Model).unwrap_or("m").to_owned(), "another model"));
        hints
    }

    fn act(&self, model: &mut Model, _at: usize, action: Action) -> Outcome {
        match action {
            Action::NextRegion | Action::PreviousRegion if model.trial.is_some() => {
                Outcome::Opens(Box::new(FitTrial), Vec::new())
            }
            Action::NextRegion | Action::PreviousRegion => Outcome::Stays,
            Action::Fit => Outcome::Closes(Vec::new()),
            other => covered(other),
        }
    }
}
