//! Owns what all overlays have in common: how one is opened and closed, what it shows, what keys do to it. An overlay lies
//! over the regions, below a question. Each has a file: implement `Overlay`, and open it where its action is done.

pub(crate) mod about;
pub(crate) mod allocations;
pub(crate) mod commands;
pub(crate) mod done;
pub(crate) mod drawing;
pub(crate) mod found;
pub(crate) mod glossary;
pub(crate) mod help;
pub(crate) mod machines;
pub(crate) mod reasons;
pub(crate) mod recording;
pub(crate) mod report;
pub(crate) mod sizes;
pub(crate) mod symptoms;
pub(crate) mod trial;
pub(crate) mod uncopied;

use std::any::Any;
use std::fmt;

use crossterm::event::KeyEvent;

use super::action::Action;
use super::effect::Effect;
use super::keymap::Keymap;
use super::layout::page_height;
use super::model::Model;
use super::scroll::shifted;
use crate::knowledge::page::{Page, Tone};

/// Something that is laid over the screen.
pub trait Overlay: Any + fmt::Debug + ClonedOverlay {
    fn title(&self) -> &'static str;

    fn body(&self, model: &Model) -> Body;

    /// The keys named at its foot besides those that every overlay has.
    fn hints(&self, _model: &Model) -> Vec<Hint> {
        Vec::new()
    }

    /// What a key means here and nowhere else.
    fn action(&self, _key: KeyEvent, _keys: &Keymap) -> Option<Action> {
        None
    }

    /// The text that letters are typed into, for an overlay that has one.
    fn typed(&mut self) -> Option<&mut String> {
        None
    }

    /// Does what the person means; `at` is the first line shown or the selected item.
    fn act(&self, _model: &mut Model, _at: usize, action: Action) -> Outcome {
        covered(action)
    }

    /// Lines that a notch of the wheel moves.
    fn wheel_lines(&self) -> i32 {
        3
    }
}

/// Clones an overlay behind its trait. Every overlay that is `Clone` has it.
pub trait ClonedOverlay {
    fn cloned(&self) -> Box<dyn Overlay>;
}

impl<T: Overlay + Clone> ClonedOverlay for T {
    fn cloned(&self) -> Box<dyn Overlay> {
        Box::new(self.clone())
    }
}

/// What an overlay shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Lines that are read and scrolled.
    Text(Vec<Line>),
    /// Items to pick from, between lines that always stay.
    List { above: Vec<Line>, items: Vec<Item>, if_empty: &'static str, most_shown: usize, below: Vec<Line> },
    /// What it would show has not been loaded.
    Missing,
    /// `ui` draws it from the model.
    Drawn,
}

/// A line by its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Text(Tone, String),
    /// One key, or two beside each other, each with its words; padded to its place.
    Keys(Vec<(String, String)>),
}

/// An item to pick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key that does the same.
    pub key: Option<String>,
    pub words: String,
}

/// A key and what it does.
pub(crate) type Hint = (String, &'static str);

/// What an overlay makes of an action.
#[derive(Debug)]
pub enum Outcome {
    /// It means what it means without an overlay.
    Passes,
    Stays,
    Closes(Vec<Effect>),
    /// Another overlay replaces it.
    Opens(Box<dyn Overlay>, Vec<Effect>),
    /// It closes, and this is done.
    Does(Action),
}

/// What happens to an action that is about the regions below: nothing that the person cannot see is changed.
pub(crate) fn covered(action: Action) -> Outcome {
    match action {
        Action::End => Outcome::Stays,
        // The key only uncovers what it would change.
        Action::Enter | Action::Mark | Action::Skip | Action::Back | Action::DidNotHelp | Action::RunAgain => {
            Outcome::Closes(Vec::new())
        }
        _ => Outcome::Passes,
    }
}

/// The page at the width that it has here.
pub(crate) fn text_of(page: &Page, width: usize) -> Body {
    Body::Text(page.lines(width).into_iter().map(|(tone, text)| Line::Text(tone, text)).collect())
}

/// The overlay that is open, and how far it was scrolled.
#[derive(Debug)]
pub struct OpenOverlay {
    pub overlay: Box<dyn Overlay>,
    /// The first line shown, or the selected item.
    pub at: usize,
}

impl Clone for OpenOverlay {
    fn clone(&self) -> OpenOverlay {
        OpenOverlay { overlay: self.overlay.as_ref().cloned(), at: self.at }
    }
}

impl OpenOverlay {
    fn as_a<T: Overlay>(&self) -> Option<&T> {
        let overlay: &dyn Any = self.overlay.as_ref();
        overlay.downcast_ref()
    }

    /// Moves the text or the selection by this many lines.
    pub(crate) fn moved(&mut self, model: &Model, by: i32) {
        match self.overlay.body(model) {
            Body::Text(lines) => {
                let last = lines.len().saturating_sub(page_height(model.size));
                // The window may have become larger since.
                self.at = shifted(self.at.min(last), by, last + 1);
            }
            Body::List { items, .. } => self.at = shifted(self.at, by, items.len()),
            Body::Missing | Body::Drawn => {}
        }
    }
}

impl Model {
    /// Opens an overlay in the place of the one that may be open.
    pub(crate) fn open(&mut self, overlay: impl Overlay) {
        self.overlay = Some(OpenOverlay { overlay: Box::new(overlay), at: 0 });
    }

    /// The open overlay, if it is of this type.
    pub(crate) fn opened<T: Overlay>(&self) -> Option<&T> {
        self.overlay.as_ref()?.as_a()
    }

    /// Opens an overlay; closes it where it is open as it would be opened.
    pub(crate) fn toggle<T: Overlay + PartialEq>(&mut self, overlay: T) {
        let is_at_start = self.overlay.as_ref().is_some_and(|open| open.at == 0);
        if is_at_start && self.opened() == Some(&overlay) {
            self.overlay = None;
        } else {
            self.open(overlay);
        }
    }

    /// Hands an action to the open overlay: the effects, or the action where it is for the program.
    pub(crate) fn act_on_overlay(&mut self, action: Action) -> Result<Vec<Effect>, Action> {
        let Some(open) = self.overlay.take() else { return Err(action) };
        match open.overlay.act(self, open.at, action) {
            Outcome::Passes => {
                self.overlay = Some(open);
                Err(action)
            }
            Outcome::Stays => {
                self.overlay = Some(open);
                Ok(Vec::new())
            }
            Outcome::Closes(effects) => Ok(effects),
            Outcome::Opens(overlay, effects) => {
                self.overlay = Some(OpenOverlay { overlay, at: 0 });
                Ok(effects)
            }
            Outcome::Does(action) => Err(action),
        }
    }

    /// Moves what lies on top; whether anything does.
    pub(crate) fn move_overlay(&mut self, by: i32) -> bool {
        let Some(mut open) = self.overlay.take() else { return false };
        open.moved(self, by);
        self.overlay = Some(open);
        true
    }
}
