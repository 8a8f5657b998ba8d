//! Owns what the console's key events mean as text: releases are no keys, AltGr makes characters, and a character of an
//! Alt code comes with the release of Alt. Checked against crossterm 0.29's `event/sys/windows/parse.rs`, 2026-11-22.

use std::collections::BTreeSet;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A function that makes keys of events, or nothing.
pub(super) type Taken = Box<dyn FnMut(Event) -> Option<Event> + Send>;

/// What was pressed and not released yet.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// The characters of the keys that are down, in lower case: Shift may be up before its letter is.
    held: BTreeSet<char>,
}

impl Console {
    /// What an event means; `None` where it is no key of its own.
    pub(super) fn take(&mut self, event: Event) -> Option<Event> {
        let Event::Key(key) = event else {
            if event == Event::FocusLost {
                // What is down now comes up in another window.
                self.held.clear();
            }
            return Some(event);
        };
        match (key.kind, key.code) {
            (KeyEventKind::Release, KeyCode::Char(character)) => {
                let was_held = self.held.remove(&name(character));
                // Another layer of the layout, such as AltGr's, may be gone by now: then a key that is down was released.
                let is_some_key = was_held || self.held.pop_last().is_some();
                // Of ASCII it may be a key that was pressed in another window, where it must not act.
                let is_alt_code = !is_some_key && !character.is_ascii();
                is_alt_code.then(|| Event::Key(KeyEvent::new(key.code, KeyModifiers::NONE)))
            }
            (KeyEventKind::Release, _) => None,
            (_, KeyCode::Char(character)) => {
                // Of what takes two UTF-16 units crossterm tells no release.
                if character.len_utf16() == 1 {
                    self.held.insert(name(character));
                }
                Some(Event::Key(without_alt_gr(key, character)))
            }
            _ => Some(Event::Key(key)),
        }
    }
}

/// What a key is called whether or not Shift is down.
fn name(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

/// AltGr is Ctrl and Alt together, and with it symbols are typed and pasted: `@`, `{`, `€`. No layout types ASCII
/// letters or digits so.
fn without_alt_gr(key: KeyEvent, character: char) -> KeyEvent {
    let alt_gr = KeyModifiers::CONTROL | KeyModifiers::ALT;
    if !key.modifiers.contains(alt_gr) || character.is_ascii_alphanumeric() {
        return key;
    }
    KeyEvent { modifiers: key.modifiers - alt_gr, ..key }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(character: char, modifiers: KeyModifiers, kind: KeyEventKind) -> Event {
        Event::Key(KeyEvent::new_with_kind(KeyCode::Char(character), modifiers, kind))
    }

    fn taken(events: &[Event]) -> Vec<(KeyCode, KeyModifiers)> {
        let mut console = Console::default();
        let keys = events.iter().filter_map(|event| console.take(event.clone())?.as_key_event());
        keys.map(|key| (key.code, key.modifiers)).collect()
    }

    #[test]
    fn a_key_is_one_key_and_its_release_none() {
        use KeyEventKind::{Press, Release, Repeat};
        let none = KeyModifiers::NONE;
        let x = (KeyCode::Char('x'), none);
        assert_eq!(taken(&[key('x', none, Press), key('x', none, Repeat), key('x', none, Release)]), [x, x]);
        assert_eq!(taken(&[key('x', none, Release)]), [], "it was pressed in another window");
        let enter = Event::Key(KeyEvent::new_with_kind(KeyCode::Enter, none, Release));
        assert_eq!(taken(&[enter]), [], "it started this program");
    }

    #[test]
    fn a_release_types_nothing_after_shift_or_alt_gr_is_up() {
        use KeyEventKind::{Press, Release};
        let (none, shift) = (KeyModifiers::NONE, KeyModifiers::SHIFT);
        let alt_gr = KeyModifiers::CONTROL | KeyModifiers::ALT;
        let one = |character| (KeyCode::Char(character), none);
        let shifted = (KeyCode::Char('Ö'), shift);
        assert_eq!(taken(&[key('Ö', shift, Press), key('ö', none, Release)]), [shifted]);
        assert_eq!(
            taken(&[key('§', none, Press), key('3', none, Release), key('é', none, Release)]),
            [one('§'), one('é')]
        );
        assert_eq!(taken(&[key('3', none, Press), key('§', shift, Release)]), [one('3')], "Shift came behind it");
        assert_eq!(
            taken(&[key('€', alt_gr, Press), key('e', none, Release), key('é', none, Release)]),
            [one('€'), one('é')]
        );
        assert_eq!(taken(&[key('x', none, Press), Event::FocusLost, key('é', none, Release)]), [one('x'), one('é')]);
        let held = [key('Ö', shift, Press), key('ö', none, Press), key('ö', none, Release), key('é', none, Release)];
        assert_eq!(taken(&held), [shifted, one('ö'), one('é')], "one key, held while Shift went up");
        assert_eq!(taken(&[key('😀', none, Press), key('é', none, Release)]), [one('😀'), one('é')]);
    }

    #[test]
    fn characters_of_alt_gr_and_of_alt_codes_are_text() {
        use KeyEventKind::{Press, Release};
        let alt_gr = KeyModifiers::CONTROL | KeyModifiers::ALT;
        assert_eq!(taken(&[key('@', alt_gr, Press)]), [(KeyCode::Char('@'), KeyModifiers::NONE)]);
        assert_eq!(taken(&[key('x', alt_gr, Press)]), [(KeyCode::Char('x'), alt_gr)], "Ctrl-Alt-X types nothing");
        assert_eq!(taken(&[key('é', KeyModifiers::NONE, Release)]), [(KeyCode::Char('é'), KeyModifiers::NONE)]);
    }
}
