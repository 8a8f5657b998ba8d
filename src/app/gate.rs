//! Owns the difference between a person's keys and a paste that arrives as keys: terminals without bracketed paste
//! send it as a burst. A burst never acts as commands, except for a few harmless keys, which a slow connection may deliver
//! together. It also tells a single key from one that may belong to a text that somebody types.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::keymap::Keymap;

/// A command key waits so long for a second one.
pub(crate) const ALONE: Duration = Duration::from_millis(25);
/// A burst ends after so much silence.
const SILENCE: Duration = Duration::from_millis(150);
/// The same of a burst in a line that is typed: somebody who types fast must see it soon.
const SILENCE_IN_A_LINE: Duration = Duration::from_millis(60);
/// A key that comes sooner than this after another one may belong to text that somebody types.
pub(crate) const APART: Duration = Duration::from_millis(300);
/// The same for Enter: who types a line often stops before it.
pub(crate) const APART_FROM_ENTER: Duration = Duration::from_millis(3000);
/// For Enter after another Enter, such as one that only said why nothing was asked.
const APART_TWO_ENTERS: Duration = Duration::from_millis(1000);
/// After a stray key closed a question, text is dropped until this much time has passed without any.
const HUSH: Duration = Duration::from_millis(600);

/// What a key turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A key that a person pressed.
    Key(KeyEvent),
    /// The same, less than [`APART`] (for Enter, [`APART_FROM_ENTER`]) after a key that is not a movement: it may be
    /// part of a text.
    Typed(KeyEvent),
    /// So few keys at once that they may be a person's whose line was slow.
    Few {
        /// Without those that acted already.
        keys: Vec<KeyEvent>,
        text: String,
        typed: bool,
    },
    /// A paste that came as keys.
    Paste(String),
}

/// A paste has more keys than this.
const FEW: usize = 3;

/// Holds back what may yet turn out to be a paste.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// The last printable key and when it came; `acted` where it did not have to wait.
    last: Option<Waiting>,
    /// A paste in progress.
    burst: Option<Burst>,
    /// When the last text key came that was no movement.
    text_at: Option<Duration>,
    /// The same of keys other than Enter.
    letter_at: Option<Duration>,
    /// Text is dropped; when the last of it came.
    hushed_at: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Burst {
    text: String,
    /// Its first keys, without one that acted already.
    keys: Vec<KeyEvent>,
    /// When its last key came.
    last: Duration,
    /// It ends after so much silence.
    silence: Duration,
    /// Its first key came right behind other text, or is to be dropped.
    typed: bool,
    dropped: bool,
}

impl Burst {
    fn push(&mut self, key: KeyEvent, character: char, now: Duration) {
        self.text.push(character);
        if self.keys.len() < FEW {
            self.keys.push(key);
        }
        self.last = now;
    }

    /// What it was. Of dropped keys only a paste is left: whoever pastes after a stray key loses nothing.
    fn passed(self) -> Option<Passed> {
        match self.text.chars().count() > FEW {
            true => Some(Passed::Paste(self.text)),
            false if self.dropped => None,
            false => Some(Passed::Few { keys: self.keys, text: self.text, typed: self.typed }),
        }
    }
}

/// Where a key is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where keys are commands.
    Screen,
    /// In a line that is typed.
    Line,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    key: KeyEvent,
    character: char,
    at: Duration,
    acted: bool,
    typed: bool,
    dropped: bool,
}

impl Gate {
    /// Takes a key; returns what is certain by now.
    pub fn key(&mut self, key: KeyEvent, now: Duration, keys: &Keymap) -> Vec<Passed> {
        let mut passed = self.tick(now);
        match text_of(key) {
            Some(character) => passed.extend(self.text(key, character, now, Place::Screen, keys)),
            None => {
                // A key that no paste can hold: what waited was a person's.
                passed.extend(self.release());
                passed.push(Passed::Key(key));
            }
        }
        passed
    }

    /// Takes a key for a line that is typed. There no key moves, and all of them stay in their order.
    pub fn key_of_a_line(&mut self, key: KeyEvent, now: Duration, keys: &Keymap) -> Vec<Passed> {
        let mut passed = self.tick(now);
        match text_of(key) {
            Some(character) => passed.extend(self.text(key, character, now, Place::Line, keys)),
            None => {
                passed.extend(self.release());
                passed.extend(self.burst.take().and_then(Burst::passed));
                passed.push(Passed::Key(key));
            }
        }
        passed
    }

    /// Takes a key that may be part of a text; returns it where it acts at once.
    fn text(&mut self, key: KeyEvent, character: char, now: Duration, place: Place, keys: &Keymap) -> Option<Passed> {
        let (typed, dropped) = (self.follows_text(key, now), self.is_hushed(now));
        self.heard(key, now, keys);
        if let Some(burst) = &mut self.burst {
            burst.push(key, character, now);
            return None;
        }
        match self.last.take() {
            // A held key repeats itself; only another key makes it a paste.
            Some(before) if before.acted && before.character == character => {}
            Some(before) => {
                let keys = if before.acted { vec![] } else { vec![before.key] };
                let Waiting { character: first, typed, dropped, .. } = before;
                let silence = if place == Place::Line { SILENCE_IN_A_LINE } else { SILENCE };
                let burst = Burst { text: first.into(), keys, last: now, silence, typed, dropped };
                self.burst.insert(burst).push(key, character, now);
                return None;
            }
            None => {}
        }
        let acted = moves(key, keys) && !dropped && place == Place::Screen;
        self.last = Some(Waiting { key, character, at: now, acted, typed, dropped });
        acted.then_some(Passed::Key(key))
    }

    /// A key went elsewhere: to a question, or into a line that is typed. What follows it may be the rest of a text.
    pub fn heard(&mut self, key: KeyEvent, now: Duration, keys: &Keymap) {
        if text_of(key).is_some() && !moves(key, keys) {
            self.text_at = Some(now);
            if key.code != KeyCode::Enter && !is_line_feed(key) {
                self.letter_at = Some(now);
            }
        }
    }

    /// A stray key closed a question: text from now on is the rest of what was typed, until there is silence.
    pub fn hush(&mut self, now: Duration) {
        self.hushed_at = Some(now);
    }

    fn follows_text(&self, key: KeyEvent, now: Duration) -> bool {
        let is_within =
            |before: Option<Duration>, apart: Duration| before.is_some_and(|before| now.saturating_sub(before) < apart);
        match key.code {
            KeyCode::Enter => is_within(self.letter_at, APART_FROM_ENTER) || is_within(self.text_at, APART_TWO_ENTERS),
            _ => is_within(self.text_at, APART),
        }
    }

    /// Whether text is dropped now; each dropped key makes it last longer.
    fn is_hushed(&mut self, now: Duration) -> bool {
        self.hushed_at = self.hushed_at.filter(|before| now.saturating_sub(*before) < HUSH).map(|_| now);
        self.hushed_at.is_some()
    }

    /// Time has passed; returns what is certain by now.
    pub fn tick(&mut self, now: Duration) -> Vec<Passed> {
        let mut passed = Vec::new();
        if self.last.is_some_and(|last| now.saturating_sub(last.at) >= ALONE) {
            passed.extend(self.release());
        }
        let ended = self.burst.take_if(|burst| now.saturating_sub(burst.last) >= burst.silence);
        passed.extend(ended.and_then(Burst::passed));
        passed
    }

    /// When `tick` will return something.
    pub fn wakes_at(&self) -> Option<Duration> {
        match (&self.last, &self.burst) {
            (_, Some(burst)) => Some(burst.last + burst.silence),
            (Some(last), None) => Some(last.at + ALONE),
            (None, None) => None,
        }
    }

    fn release(&mut self) -> Option<Passed> {
        let last = self.last.take().filter(|last| !last.acted && !last.dropped)?;
        Some(if last.typed { Passed::Typed(last.key) } else { Passed::Key(last.key) })
    }
}

/// Whether this key may be part of a text.
pub(crate) fn is_text(key: KeyEvent) -> bool {
    text_of(key).is_some()
}

/// The character that a paste would have had there. Terminals send CR for a line end in a paste, which is Enter; where
/// CR and LF both come, they stay one line end.
fn text_of(key: KeyEvent) -> Option<char> {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER) {
        return is_line_feed(key).then_some('\n');
    }
    match key.code {
        KeyCode::Char(character) => Some(character),
        KeyCode::Enter => Some('\r'),
        KeyCode::Tab => Some('\t'),
        _ => None,
    }
}

/// Whether this is how a line feed in a paste arrives: as Ctrl-J, and from Windows' console as Ctrl-Enter.
pub(crate) fn is_line_feed(key: KeyEvent) -> bool {
    key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('j') | KeyCode::Enter)
}

/// Whether this key is Ctrl-C: a no to whatever is open, else the way out.
pub(crate) fn is_ctrl_c(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL
}

/// Movement acts at once: it can do no harm even at the head of a paste. A line end never does, whatever it means.
fn moves(key: KeyEvent, keys: &Keymap) -> bool {
    !is_line_feed(key) && key.code != KeyCode::Enter && keys.only_moves(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn press(gate: &mut Gate, key: KeyEvent, at: Duration) -> Vec<Passed> {
        gate.key(key, at, &Keymap::default())
    }

    fn type_in_line(gate: &mut Gate, key: KeyEvent, at: Duration) -> Vec<Passed> {
        gate.key_of_a_line(key, at, &Keymap::default())
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
            passed.extend(press(&mut gate, key(code), ms(*at)));
        }
        let end = keys.last().map_or(0, |(at, _)| *at);
        passed.extend(gate.tick(ms(end + 1000)));
        assert_eq!(gate.wakes_at(), None);
        passed
    }

    fn char_key(character: char) -> Passed {
        Passed::Key(key(KeyCode::Char(character)))
    }

    fn typed(character: char) -> Passed {
        Passed::Typed(key(KeyCode::Char(character)))
    }

    #[test]
    fn keys_with_time_between_them_are_a_persons_and_soon_after_another_they_may_be_text() {
        assert_eq!(fed(&[(0, 'a'), (30, 'x')]), [char_key('a'), typed('x')]);
        assert_eq!(fed(&[(0, 'a'), (299, 'x'), (599, 'x')]), [char_key('a'), typed('x'), char_key('x')]);
        assert_eq!(fed(&[(0, 'j'), (100, 'x')]), [char_key('j'), char_key('x')], "who moves may ask at once");
        assert_eq!(fed(&[(0, 'a'), (100, 'j'), (200, 'x')]), [char_key('a'), char_key('j'), typed('x')]);
    }

    #[test]
    fn behind_a_stray_key_text_is_dropped_until_there_is_silence_but_no_paste_is_lost() {
        let mut gate = Gate::default();
        gate.hush(ms(0));
        for (at, character) in [(100, 'x'), (600, 'j'), (1100, 'y'), (1690, '\t')] {
            let code = if character == '\t' { KeyCode::Tab } else { KeyCode::Char(character) };
            assert_eq!((press(&mut gate, key(code), ms(at)), gate.tick(ms(at + 30))), (vec![], vec![]), "{character}");
        }
        let down = key(KeyCode::Down);
        assert_eq!(press(&mut gate, down, ms(1700)), [Passed::Key(down)], "no text has arrows");
        assert_eq!(
            (press(&mut gate, key(KeyCode::Char('x')), ms(2290)), gate.tick(ms(2330))),
            (vec![], vec![char_key('x')])
        );
        gate.hush(ms(3000));
        for (nth, character) in "pasted".chars().enumerate() {
            assert_eq!(press(&mut gate, key(KeyCode::Char(character)), ms(3001 + nth as u64)), []);
        }
        assert_eq!(gate.tick(ms(3500)), [Passed::Paste("pasted".into())]);
    }

    fn few(keys: &str, text: &str) -> Passed {
        let keys = keys.chars().map(|character| key(KeyCode::Char(character))).collect();
        Passed::Few { keys, text: text.into(), typed: false }
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
        assert_eq!(fed(&[(0, 'a'), (1, 'b'), (400, 'q')]), [few("ab", "ab"), char_key('q')]);
    }

    #[test]
    fn movement_acts_at_once_and_may_repeat() {
        let mut gate = Gate::default();
        assert_eq!(press(&mut gate, key(KeyCode::Char('j')), ms(0)), [char_key('j')]);
        assert_eq!(press(&mut gate, key(KeyCode::Char('j')), ms(5)), [char_key('j')]);
        assert_eq!(press(&mut gate, key(KeyCode::Down), ms(6)), [Passed::Key(key(KeyCode::Down))]);
        assert_eq!(fed(&[(0, 'l'), (3, 'o'), (4, 'g')]), [char_key('l'), few("og", "log")]);
    }

    #[test]
    fn what_moves_is_what_the_keymap_says() {
        let own = [("j", "end"), ("d", "down"), ("Enter", "up"), ("F9", "enter")];
        let keys = Keymap::with(&own.map(|(key, name)| (key.to_owned(), name.to_owned()))).unwrap();
        let [j, d, enter] = [KeyCode::Char('j'), KeyCode::Char('d'), KeyCode::Enter].map(key);
        let mut gate = Gate::default();
        assert_eq!((gate.key(j, ms(0), &keys), gate.key(j, ms(5), &keys)), (vec![], vec![]), "it would ask");
        assert_eq!(gate.tick(ms(400)), [few("jj", "jj")]);
        assert_eq!(gate.key(d, ms(1000), &keys), [char_key('d')]);
        assert_eq!(gate.tick(ms(2000)), []);
        assert_eq!(gate.key(enter, ms(9000), &keys), [], "a line end may be of a paste");
    }

    #[test]
    fn a_line_feed_is_text_however_the_console_sends_it() {
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::CONTROL);
        let ctrl_j = KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL);
        for line_feed in [enter, ctrl_j] {
            let mut gate = Gate::default();
            for (at, key) in [key(KeyCode::Char('q')), line_feed, line_feed, key(KeyCode::Char('x'))].iter().enumerate()
            {
                assert_eq!(press(&mut gate, *key, ms(at as u64)), [], "{line_feed:?}");
            }
            assert_eq!(gate.tick(ms(400)), [Passed::Paste("q\n\nx".into())]);
            assert_eq!(
                (press(&mut gate, line_feed, ms(9000)), gate.tick(ms(9030))),
                (vec![], vec![Passed::Key(line_feed)])
            );
        }
    }

    #[test]
    fn in_a_line_no_key_acts_at_once_and_a_burst_ends_before_the_key_behind_it() {
        let mut gate = Gate::default();
        let (j, h, left) = (key(KeyCode::Char('j')), key(KeyCode::Char('h')), key(KeyCode::Left));
        assert_eq!((type_in_line(&mut gate, j, ms(0)), gate.tick(ms(30))), (vec![], vec![char_key('j')]));
        assert_eq!((type_in_line(&mut gate, h, ms(400)), type_in_line(&mut gate, j, ms(401))), (vec![], vec![]));
        assert_eq!(type_in_line(&mut gate, left, ms(402)), [few("hj", "hj"), Passed::Key(left)]);
        assert_eq!(gate.wakes_at(), None);
        assert_eq!((type_in_line(&mut gate, h, ms(900)), type_in_line(&mut gate, j, ms(901))), (vec![], vec![]));
        assert_eq!(gate.tick(ms(901) + SILENCE_IN_A_LINE), [few("hj", "hj")]);
    }

    #[test]
    fn a_command_before_an_arrow_is_not_lost() {
        let mut gate = Gate::default();
        assert_eq!(press(&mut gate, key(KeyCode::Char('s')), ms(0)), []);
        assert_eq!(press(&mut gate, key(KeyCode::Down), ms(5)), [char_key('s'), Passed::Key(key(KeyCode::Down))]);
    }
}
