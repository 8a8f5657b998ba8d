//! Owns which key means what, and the words for it: help and footer are made from this table and can't disagree.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::Action;
use super::model::Region;

/// One key of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The key.
    pub code: KeyCode,
    /// Whether Ctrl is held.
    pub ctrl: bool,
    /// What it means.
    pub action: Action,
    /// Where it means that; `None`: everywhere.
    pub region: Option<Region>,
    /// How it is written: `Tab`, `x`.
    pub shown: &'static str,
    /// What it does, in two or three words; empty for a second spelling of another key.
    pub words: &'static str,
}

const fn key(code: KeyCode, action: Action, shown: &'static str, words: &'static str) -> Binding {
    Binding { code, ctrl: false, action, region: None, shown, words }
}

const fn ctrl(character: char, action: Action, shown: &'static str, words: &'static str) -> Binding {
    Binding { code: KeyCode::Char(character), ctrl: true, action, region: None, shown, words }
}

const fn at(region: Region, binding: Binding) -> Binding {
    Binding { region: Some(region), ..binding }
}

/// Every key. A region's own meaning comes before the general one.
pub const BINDINGS: &[Binding] = &[
    at(Region::Steps, key(KeyCode::Enter, Action::Enter, "Enter", "take the step")),
    at(Region::Steps, key(KeyCode::Char('s'), Action::Skip, "s", "skip")),
    at(Region::Steps, key(KeyCode::Backspace, Action::Back, "Backspace", "back")),
    at(Region::Steps, key(KeyCode::Char('w'), Action::Works, "w", "it works now")),
    at(Region::Steps, key(KeyCode::Char('e'), Action::FailedAgain, "e", "it failed again")),
    at(Region::Steps, key(KeyCode::Char('r'), Action::Command, "r", "what I ran")),
    at(Region::Steps, key(KeyCode::Char('m'), Action::Model, "m", "which model")),
    at(Region::Steps, key(KeyCode::Char('f'), Action::Fit, "f", "will it fit?")),
    at(Region::Processes, key(KeyCode::Enter, Action::End, "Enter", "end it…")),
    at(Region::Processes, key(KeyCode::Char(' '), Action::Mark, "Space", "mark")),
    at(Region::Processes, key(KeyCode::Char('/'), Action::Search, "/", "filter")),
    at(Region::Input, key(KeyCode::Enter, Action::Enter, "Enter", "type")),
    at(Region::Input, key(KeyCode::Char('/'), Action::Search, "/", "search")),
    at(Region::Input, key(KeyCode::Char('n'), Action::NextHit, "n", "next hit")),
    at(Region::Input, key(KeyCode::Char('N'), Action::PreviousHit, "N", "previous hit")),
    at(Region::Input, key(KeyCode::Char('u'), Action::Previous, "u", "last log back")),
    key(KeyCode::Char('x'), Action::End, "x", "end…"),
    key(KeyCode::Char('c'), Action::Copy, "c", "copy"),
    key(KeyCode::Char('i'), Action::About, "i", "about this error"),
    key(KeyCode::Char('o'), Action::Symptoms, "o", "no log? pick what you saw"),
    key(KeyCode::Tab, Action::NextRegion, "Tab", "region"),
    key(KeyCode::BackTab, Action::PreviousRegion, "Shift-Tab", ""),
    key(KeyCode::Up, Action::Move(-1), "↑↓", "move"),
    key(KeyCode::Down, Action::Move(1), "↓", ""),
    key(KeyCode::Char('k'), Action::Move(-1), "k", ""),
    key(KeyCode::Char('j'), Action::Move(1), "j", ""),
    key(KeyCode::Left, Action::PreviousRegion, "←", ""),
    key(KeyCode::Right, Action::NextRegion, "→", ""),
    key(KeyCode::Char('h'), Action::PreviousRegion, "h", ""),
    key(KeyCode::Char('l'), Action::NextRegion, "l", ""),
    key(KeyCode::PageUp, Action::Page(-1), "PgUp/PgDn", "page"),
    key(KeyCode::PageDown, Action::Page(1), "PgDn", ""),
    key(KeyCode::Home, Action::First, "Home/End", "first, last"),
    key(KeyCode::End, Action::Last, "End", ""),
    key(KeyCode::Char('z'), Action::Zoom, "z", "zoom"),
    key(KeyCode::Char('p'), Action::Pause, "p", "pause"),
    key(KeyCode::Char('W'), Action::Report, "W", "write a report"),
    key(KeyCode::Char('?'), Action::Help, "?", "help"),
    key(KeyCode::Char('q'), Action::Quit, "q", "quit"),
    key(KeyCode::Esc, Action::Escape, "Esc", "close"),
    ctrl('c', Action::Quit, "Ctrl-C", "quit"),
    ctrl('z', Action::Suspend, "Ctrl-Z", "stop for now"),
];

/// What a key means in this region.
pub fn action(key: KeyEvent, region: Region) -> Option<Action> {
    let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER) {
        return None;
    }
    BINDINGS
        .iter()
        .find(|binding| {
            binding.code == key.code && binding.ctrl == ctrl && binding.region.is_none_or(|at| at == region)
        })
        .map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_keys_mean_what_it_says() {
        let press = |character| KeyEvent::new(KeyCode::Char(character), KeyModifiers::NONE);
        assert_eq!(action(press('x'), Region::Processes), Some(Action::End));
        assert_eq!(action(press('s'), Region::Steps), Some(Action::Skip));
        assert_eq!(action(press('s'), Region::Input), None);
        assert_eq!(action(press('u'), Region::Input), Some(Action::Previous));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), Region::Input), Some(Action::Quit));
        assert_eq!(action(press('c'), Region::Input), Some(Action::Copy));
    }
}
