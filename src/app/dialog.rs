//! Owns what the program says and asks: the notice at the foot of the screen, the question, and how a key is written there.

use std::time::Duration;

use super::action::Action;
use super::effect::Effect;
use super::model::Model;
use super::question::{Asked, Question};

/// How long a notice stays.
pub(crate) const NOTICE: Duration = Duration::from_secs(8);

/// After this long a person has read a notice, if they press a key.
const READ: Duration = Duration::from_secs(1);

impl Model {
    /// How the key of this action is written: `[x]`.
    pub fn key(&self, action: Action) -> String {
        format!("[{}]", self.config.keys.key_of(action).unwrap_or("?"))
    }

    /// Shows a notice at the foot of the screen.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.notice = Some((text.into(), self.now));
    }

    /// Removes a notice that can have been read, because the person goes on.
    pub(crate) fn forget_read_notice(&mut self) {
        self.notice.take_if(|(_, said)| self.now.saturating_sub(*said) >= READ);
    }

    /// Removes a notice that has been shown long enough.
    pub(crate) fn forget_old_notice(&mut self) {
        self.notice.take_if(|(_, said)| self.now.saturating_sub(*said) >= NOTICE);
    }

    /// Puts a question on the screen; an open question is kept.
    pub(crate) fn ask(&mut self, asked: Asked) {
        if self.question.is_none() {
            self.overlay = None;
            self.question = Some(Question::new(asked));
        }
    }

    /// Ends the loop after this message.
    pub(crate) fn leave(&mut self) -> Effect {
        self.leaving = true;
        Effect::Quit
    }
}
