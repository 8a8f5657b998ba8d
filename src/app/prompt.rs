//! Owns the line that is typed at the foot of the screen: what it is for, and what each key does to it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::gate::is_ctrl_c;

/// What a typed line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Only the processes that contain it are listed.
    Filter,
    /// It is searched for in the log.
    Search,
    /// It is the command line that failed.
    Command,
    /// It is the model that did not fit.
    Model,
}

impl Purpose {
    /// What to type, and which keys end it.
    pub(crate) fn in_words(self) -> (&'static str, &'static str) {
        match self {
            Purpose::Filter => ("filter", "Enter done, Esc leave"),
            Purpose::Search => ("search", "Enter done, Esc leave"),
            Purpose::Model => ("model, such as llama 3.1 8b Q4_K_M", "Enter done, Esc skip"),
            Purpose::Command => ("command that failed", "Enter done, Esc skip"),
        }
    }

    /// Whether a paste goes into the line: no log is meant for it.
    pub(crate) fn takes_pastes(self) -> bool {
        matches!(self, Purpose::Command | Purpose::Model)
    }
}

/// A line being typed at the foot of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// What was typed so far.
    pub text: String,
}

/// What a key did to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Changed,
    Nothing,
    Submitted,
    Cancelled,
}

impl Prompt {
    pub(crate) fn new(purpose: Purpose, text: impl Into<String>) -> Prompt {
        Prompt { purpose, text: text.into() }
    }

    /// Types a key into the line, or ends it.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Typed {
        match key.code {
            _ if is_ctrl_c(key) => Typed::Cancelled,
            KeyCode::Esc => Typed::Cancelled,
            KeyCode::Enter => Typed::Submitted,
            KeyCode::Char(character) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.text.push(character);
                Typed::Changed
            }
            KeyCode::Backspace => {
                self.text.pop();
                Typed::Changed
            }
            _ => Typed::Nothing,
        }
    }
}
