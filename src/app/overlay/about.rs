//! Owns the overlay about the error: each entry that matched, explained.

use super::{Body, Hint, Outcome, Overlay, covered, text_of};
use crate::app::action::Action;
use crate::app::layout::page_width;
use crate::app::model::Model;
use crate::app::region::log;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Which of the entries that matched, the leading one first.
    pub which: usize,
}

impl Overlay for About {
    fn title(&self) -> &'static str {
        "About the error"
    }

    fn body(&self, model: &Model) -> Body {
        let pages = &model.input.pages;
        match pages.get(self.which).or(pages.first()) {
            Some(page) => text_of(page, page_width(model.size)),
            None => Body::Missing,
        }
    }

    fn hints(&self, model: &Model) -> Vec<Hint> {
        let mut hints = Vec::new();
        if model.input.pages.len() > 1 {
            hints.push(("Tab".to_owned(), "next match"));
        }
        hints.push(("Enter".to_owned(), "show in log"));
        hints
    }

    fn act(&self, model: &mut Model, _at: usize, action: Action) -> Outcome {
        match action {
            Action::Enter => {
                log::show_page(model, self.which);
                Outcome::Closes(Vec::new())
            }
            Action::NextRegion => self.turned(model, 1),
            Action::PreviousRegion => self.turned(model, -1),
            other => covered(other),
        }
    }
}

impl About {
    fn turned(&self, model: &Model, by: isize) -> Outcome {
        let count = model.input.pages.len().max(1);
        let which = self.which.saturating_add(count).saturating_add_signed(by) % count;
        Outcome::Opens(Box::new(About { which }), Vec::new())
    }
}

/// Explains the error, or closes the explanation.
pub(crate) fn toggle(model: &mut Model) {
    if model.input.pages.is_empty() {
        return model.say("No error yet: paste it first.");
    }
    if model.opened::<About>().is_some() {
        model.overlay = None;
    } else {
        model.open(About::default());
    }
}
