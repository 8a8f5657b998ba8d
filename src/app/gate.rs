//! Owns the difference between a person's keys and a paste that arrives as keys: terminals without bracketed paste
//! send it as a burst. A burst never acts as commands, but for a few keys that can do no harm: a slow line brings those
//! together, too.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A command key waits so long for a second one.
pub const ALONE: Duration = Duration::from_millis(25);
/// A burst ends after so much silence.
pub const SILENCE: Duration = Duration::from_millis(150);

/// What a key turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A key that a person pressed.
    Key(KeyEvent),
    /// So few keys at once that they may be a person's whose line was slow: without those that acted already, and all of
    /// them as a text.
    Few(Vec<KeyEvent>, String),
    /// A paste that came as keys.
    Paste(String),
}

/// No paste is so short.
const FEW: usize = 3;

/// Holds back what may yet turn out to be a paste.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// The last printable key and when it came; `acted` where it did not have to wait.
    last: Option<Waiting>,
    /// A paste in progress.
    burst: Option<Burst>,
}

#[derive(Clone, Debug)]
struct Burst {
    text: String,
    /// Its first keys, without one that acted already.
    keys: Vec<KeyEvent>,
    /// When its last key came.
    last: Duration,
}

impl Burst {
    fn push(&mut self, key: KeyEvent, character: char, now: Duration) {
        self.text.push(character);
        if self.keys.len() < FEW {
            self.keys.push(key);
        }
        self.last = now;
    }

    fn passed(self) -> Passed {
        if self.text.chars().count() > FEW { Passed::Paste(self.text) } else { Passed::Few(self.keys, self.text) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    key: KeyEvent,
    character: char,
    at: Duration,
    acted: bool,
}

impl Gate {
    /// Takes a key; gives what is certain by now.
    pub fn key(&mut self, key: KeyEvent, now: Duration) -> Vec<Passed> {
        let mut passed = self.tick(now);
        let Some(character) = text_of(key) else {
            // A key that no paste can hold: what waited was a person's.
            passed.extend(self.release());
            passed.push(Passed::Key(key));
            return passed;
        };
        if let Some(burst) = &mut self.burst {
            burst.push(key, character, now);
            return passed;
        }
        match self.last.take() {
            // A held key repeats itself; only another key makes it a paste.
            Some(before) if before.acted && before.character == character => {}
            Some(before) => {
                let keys = if before.acted { vec![] } else { vec![before.key] };
                let burst = Burst { text: before.character.into(), keys, last: now };
                self.burst.insert(burst).push(key, character, now);
                return passed;
            }
            None => {}
        }
        let acted = moves(key);
        self.last = Some(Waiting { key, character, at: now, acted });
        if acted {
            passed.push(Passed::Key(key));
        }
        passed
    }

    /// Time has passed; gives what is certain by now.
    pub fn tick(&mut self, now: Duration) -> Vec<Passed> {
        let mut passed = Vec::new();
        if self.last.is_some_and(|last| now.saturating_sub(last.at) >= ALONE) {
            passed.extend(self.release());
        }
        let ended = self.burst.take_if(|burst| now.saturating_sub(burst.last) >= SILENCE);
        passed.extend(ended.map(Burst::passed));
        passed
    }

    /// When `tick` will have something to say.
    pub fn wakes_at(&self) -> Option<Duration> {
        match (&self.last, &self.burst) {
            (_, Some(burst)) => Some(burst.last + SILENCE),
            (Some(last), None) => Some(last.at + ALONE),
            (None, None) => None,
        }
    }

    fn release(&mut self) -> Option<Passed> {
        self.last.take().filter(|last| !last.acted).map(|last| Passed::Key(last.key))
    }
}

/// The character that a paste would have had there. Terminals send CR for a line end in a paste, which is Enter; where
/// CR and LF both come, they stay one line end.
fn text_of(key: KeyEvent) -> Option<char> {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER) {
        // A line feed in a paste arrives as Ctrl-J.
        return (key.modifiers == KeyModifiers::CONTROL && key.code == KeyCode::Char('j')).then_some('\n');
    }
    match key.code {
        KeyCode::Char(character) => Some(character),
        KeyCode::Enter => Some('\r'),
        KeyCode::Tab => Some('\t'),
        _ => None,
    }
}

/// Movement acts at once: it can do no harm even at the head of a paste.
fn moves(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char('h' | 'j' | 'k' | 'l') | KeyCode::Tab)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Feeds characters at these milliseconds, then waits long enough.
    fn fed(keys: &[(u64, char)]) -> Vec<Passed> {
        let mut gate = Gate::default();
        let mut passed = Vec::new();
        for (at, character) in keys {
            let code = if *character == '\r' { KeyCode::Enter } else { KeyCode::Char(*character) };
            passed.extend(gate.key(key(code), ms(*at)));
        }
        let end = keys.last().map_or(0, |(at, _)| *at);
        passed.extend(gate.tick(ms(end + 1000)));
        assert_eq!(gate.wakes_at(), None);
        passed
    }

    fn char_key(character: char) -> Passed {
        Passed::Key(key(KeyCode::Char(character)))
    }

    #[test]
    fn keys_with_time_between_them_are_a_persons() {
        assert_eq!(fed(&[(0, 'x'), (30, 'y')]), [char_key('x'), char_key('y')]);
    }

    fn few(keys: &str, text: &str) -> Passed {
        Passed::Few(keys.chars().map(|character| key(KeyCode::Char(character))).collect(), text.into())
    }

    #[test]
    fn two_keys_within_25_ms_are_no_certain_command_and_more_than_three_a_paste() {
        assert_eq!(fed(&[(0, 'x'), (10, 'y')]), [few("xy", "xy")]);
        assert_eq!(fed(&[(0, 'x'), (10, 'y'), (20, 'x')]), [few("xyx", "xyx")]);
        assert_eq!(fed(&[(0, 'j'), (10, 'z')]), [char_key('j'), few("z", "jz")], "the first one acted at once");
        assert_eq!(fed(&[(0, 'x'), (0, '\r'), (100, 'y'), (240, 'q')]), [Passed::Paste("x\ryq".into())]);
    }

    #[test]
    fn silence_ends_a_paste() {
        assert_eq!(fed(&[(0, 'a'), (1, 'b'), (200, 'q')]), [few("ab", "ab"), char_key('q')]);
    }

    #[test]
    fn movement_acts_at_once_and_may_repeat() {
        let mut gate = Gate::default();
        assert_eq!(gate.key(key(KeyCode::Char('j')), ms(0)), [char_key('j')]);
        assert_eq!(gate.key(key(KeyCode::Char('j')), ms(5)), [char_key('j')]);
        assert_eq!(gate.key(key(KeyCode::Down), ms(6)), [Passed::Key(key(KeyCode::Down))]);
        assert_eq!(fed(&[(0, 'l'), (3, 'o'), (4, 'g')]), [char_key('l'), few("og", "log")]);
    }

    #[test]
    fn a_command_before_an_arrow_is_not_lost() {
        let mut gate = Gate::default();
        assert_eq!(gate.key(key(KeyCode::Char('s')), ms(0)), []);
        assert_eq!(gate.key(key(KeyCode::Down), ms(5)), [char_key('s'), Passed::Key(key(KeyCode::Down))]);
    }
}
