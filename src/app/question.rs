//! Owns the question before something that can't be undone. It names every process that it is about. Typed text can't
//! answer it: no answer is accepted before the question could be read, every key that is not an answer closes it, and an
//! answer counts only if no other key follows it.

mod victim;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

pub(crate) use victim::{Victim, telling_apart, workers};

use super::gate::ALONE;
use super::run_again::RunAgain;
use crate::advice::release::Release;
use crate::gpu::guard::Signal;

/// A question about a process accepts no answer for this long after it was drawn, or after the last early answer.
/// People type text at up to 300 ms a key, so text in progress never leaves a gap of this length.
pub(crate) const READ: Duration = Duration::from_millis(600);

/// An answer about a process counts only if no other key follows within this time: a little more than the 300
/// ms of slow typing.
pub(crate) const SETTLE: Duration = Duration::from_millis(320);

/// Who answers sooner than this after the question was drawn may be typing a text slowly, a key at a time: then the answer
/// waits as long for another key as it came after the question, and a third longer.
pub(crate) const DELIBERATE: Duration = Duration::from_millis(1500);

/// The same for a request, which Enter asks about: people answer prompts of a shell with `y` and Enter, and
/// stop between the two.
pub(crate) const SETTLE_REQUEST: Duration = Duration::from_millis(1500);

/// The same two times for questions that signal nothing and lose nothing: `q`, `q` leaves without a long wait.
const READ_BRIEFLY: Duration = Duration::from_millis(400);
const SETTLE_BRIEFLY: Duration = Duration::from_millis(250);

/// No PID has more digits.
const MOST_DIGITS: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    End(Vec<Victim>, Signal),
    /// Ask its own program to free memory?
    Release(Box<Victim>, Release),
    /// Run this command again?
    RunAgain(Box<RunAgain>),
    /// A second paste: replace the first or append to it?
    Paste(String),
    /// Leave although something is still open; the text says what.
    Quit(String),
}

/// A question that is on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub asked: Asked,
    /// Since when it is on the terminal; `None` until it was drawn.
    shown: Option<Duration>,
    /// Part of it does not fit on the screen: then it takes no yes.
    cut: bool,
    /// The last key that came too early to be an answer; the time to read starts anew with it.
    early: Option<Duration>,
    /// An answer that counts unless another key follows.
    waiting: Option<Waiting>,
    /// The digits of the PID typed so far, where the answer is a PID, and when the last one was typed.
    typed: (String, Option<Duration>),
}

/// An answer that waits for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    key: KeyCode,
    answer: Answer,
    /// It counts from then on.
    until: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Do it; for a paste: replace.
    Yes,
    Append,
    /// The paste is the error of a second failure.
    Again,
    No,
}

/// What a question makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Answer(Answer),
    /// The key is not an answer, so the question closes.
    Closes,
    /// The question stays open.
    Stays,
}

/// What the dialog shows of its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Too new to be answered. `hurried`: somebody tried.
    Reading {
        /// An answer came too early.
        hurried: bool,
    },
    /// It takes an answer; where that is a PID, with the digits typed so far.
    Open(String),
    /// This answer counts unless another key follows.
    Sending(KeyCode),
}

impl Question {
    /// A question that is not on the screen yet.
    pub fn new(asked: Asked) -> Question {
        Question { asked, shown: None, cut: false, early: None, waiting: None, typed: (String::new(), None) }
    }

    /// It is on the terminal now, all of it or `cut`. The time to read begins when all of it can be read.
    pub fn drawn(&mut self, now: Duration, cut: bool) {
        if std::mem::replace(&mut self.cut, cut) && !cut {
            self.hidden();
        }
        self.shown.get_or_insert(now);
    }

    /// Why it can't be answered with a yes: not all of what it names could be read.
    pub fn unread(&self) -> Option<&'static str> {
        self.cut.then_some(match self.asked {
            Asked::End(..) => "Make the terminal larger to read all of it; nothing was signalled.",
            Asked::Release(..) => "Make the terminal larger to read all of it; nothing was asked.",
            Asked::RunAgain(_) => "Make the terminal larger to read all of it; nothing was run.",
            Asked::Paste(_) | Asked::Quit(_) => "Make the terminal larger to read all of it; nothing was done.",
        })
    }

    /// Another program had the screen: what was typed before the question is drawn again is no answer.
    pub fn hidden(&mut self) {
        (self.shown, self.waiting) = (None, None);
        self.typed = (String::new(), None);
    }

    /// The PID that has to be typed instead of `y`: the first process in the question that another user owns.
    pub fn wants_pid(&self) -> Option<u32> {
        match &self.asked {
            Asked::End(victims, _) => victims.iter().find(|victim| !victim.yours).map(|victim| victim.key.pid),
            Asked::Release(..) | Asked::RunAgain(_) | Asked::Paste(_) | Asked::Quit(_) => None,
        }
    }

    /// What the dialog shows of its answers at this moment.
    pub fn stage(&self, now: Duration) -> Stage {
        match (self.waiting, self.is_open(now)) {
            (Some(waiting), _) => Stage::Sending(waiting.key),
            (None, true) => Stage::Open(self.typed.0.clone()),
            (None, false) => Stage::Reading { hurried: self.early.is_some() },
        }
    }

    /// Whether an answer pressed at this moment counts.
    pub fn is_open(&self, at: Duration) -> bool {
        self.opens_at().is_some_and(|opens| at >= opens)
    }

    fn opens_at(&self) -> Option<Duration> {
        let (read, _) = self.times();
        Some(self.since()? + read)
    }

    /// Since when it stands there to be read.
    fn since(&self) -> Option<Duration> {
        Some(self.shown?.max(self.early.unwrap_or_default()))
    }

    /// How long it is only read, and how long an answer waits for another key at least.
    fn times(&self) -> (Duration, Duration) {
        match self.asked {
            Asked::End(..) | Asked::RunAgain(_) => (READ, SETTLE),
            Asked::Release(..) => (READ, SETTLE_REQUEST),
            Asked::Paste(_) => (READ_BRIEFLY, SETTLE),
            Asked::Quit(_) => (READ_BRIEFLY, SETTLE_BRIEFLY),
        }
    }

    /// Takes a key pressed at this moment. A no counts at once.
    pub fn key(&mut self, key: KeyEvent, at: Duration) -> Heard {
        let is_modifier = matches!(key.code, KeyCode::Modifier(_) | KeyCode::CapsLock | KeyCode::NumLock);
        // A key that is held down is one answer at most, and never to a question that it opened itself.
        if key.kind == KeyEventKind::Repeat || is_modifier {
            return Heard::Stays;
        }
        if let Some(waiting) = self.waiting.take() {
            return match key.code {
                // It stood alone long enough; only its tick came late.
                _ if at >= waiting.until => Heard::Answer(waiting.answer),
                // Where the terminal does not tell a held key from pressed ones, the same key again may be that.
                again if again == waiting.key => self.came_early(at),
                _ => self.stray(at),
            };
        }
        if key.modifiers.contains(KeyModifiers::ALT) {
            // Esc and a letter right behind it arrive as Alt with the letter: it began with a no.
            return Heard::Answer(Answer::No);
        }
        if !(key.modifiers - KeyModifiers::SHIFT).is_empty() {
            return self.stray(at);
        }
        match (key.code, self.wants_pid()) {
            (KeyCode::Esc, _) => Heard::Answer(Answer::No),
            (KeyCode::Char('n'), _) if !matches!(self.asked, Asked::Paste(_)) => Heard::Answer(Answer::No),
            (KeyCode::Char(digit), Some(_)) if digit.is_ascii_digit() => self.digit(digit, at),
            (KeyCode::Backspace, Some(_)) => {
                self.typed.0.pop();
                Heard::Stays
            }
            (KeyCode::Enter, Some(pid)) if self.typed.0 == pid.to_string() => self.answer(key.code, Answer::Yes, at),
            (_, Some(_)) => self.stray(at),
            (KeyCode::Char(character), None) => match self.meaning(character) {
                Some(answer) => self.answer(key.code, answer, at),
                None => self.stray(at),
            },
            _ => self.stray(at),
        }
    }

    /// An answer: from the moment on that it counts, it waits for another key.
    fn answer(&mut self, key: KeyCode, answer: Answer, at: Duration) -> Heard {
        if !self.is_open(at) {
            return self.came_early(at);
        }
        self.waiting = Some(Waiting { key, answer, until: at + self.settle(at) });
        Heard::Stays
    }

    /// How long an answer that is pressed at this moment waits for another key.
    fn settle(&self, at: Duration) -> Duration {
        let (_, settle) = self.times();
        let thought = self.since().map_or(Duration::ZERO, |since| at.saturating_sub(since));
        // A PID is no text that somebody types by chance.
        let may_be_typed = matches!(self.asked, Asked::End(..) | Asked::Release(..) | Asked::RunAgain(_))
            && self.wants_pid().is_none();
        if may_be_typed && thought < DELIBERATE { settle.max(thought * 4 / 3) } else { settle }
    }

    fn came_early(&mut self, at: Duration) -> Heard {
        self.early = Some(at);
        self.typed = (String::new(), None);
        Heard::Stays
    }

    /// A digit of the PID. Digits of a paste come faster than any finger.
    fn digit(&mut self, digit: char, at: Duration) -> Heard {
        let pasted = self.typed.1.is_some_and(|before| at.saturating_sub(before) < ALONE);
        if pasted || !self.is_open(at) {
            return self.came_early(at);
        }
        if self.typed.0.len() >= MOST_DIGITS {
            return self.stray(at);
        }
        self.typed.0.push(digit);
        self.typed.1 = Some(at);
        Heard::Stays
    }

    /// A key that is not an answer. Only the question about a paste stays open, since closing it would lose the paste.
    fn stray(&mut self, at: Duration) -> Heard {
        if matches!(self.asked, Asked::Paste(_)) {
            return self.came_early(at);
        }
        Heard::Closes
    }

    /// Whether an answer waits for its time to be over.
    pub fn is_sending(&self) -> bool {
        self.waiting.is_some()
    }

    /// Time has passed: a key that stood alone is an answer.
    pub fn tick(&mut self, now: Duration) -> Option<Answer> {
        let waiting = self.waiting.take_if(|waiting| now >= waiting.until)?;
        Some(waiting.answer)
    }

    /// When `tick` will return an answer, or the dialog shows something else.
    pub fn wakes_at(&self, now: Duration) -> Option<Duration> {
        match self.waiting {
            Some(waiting) => Some(waiting.until),
            None => self.opens_at().filter(|opens| *opens > now),
        }
    }

    fn meaning(&self, character: char) -> Option<Answer> {
        match (&self.asked, character) {
            (Asked::End(..) | Asked::Release(..) | Asked::RunAgain(_) | Asked::Quit(_), 'y')
            | (Asked::Paste(_), 'r') => Some(Answer::Yes),
            (Asked::Quit(_), 'q') => Some(Answer::Yes),
            (Asked::Paste(_), 'a') => Some(Answer::Append),
            (Asked::Paste(_), 'e') => Some(Answer::Again),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::victim::tests::victim;
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn press(character: char) -> KeyEvent {
        let code = if character == '\r' { KeyCode::Enter } else { KeyCode::Char(character) };
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn after_a_stop_the_question_has_to_be_read_again() {
        let mut question = Question::new(end());
        question.drawn(ms(0), false);
        question.hidden();
        assert_eq!((question.key(press('y'), ms(5000)), question.tick(ms(5400))), (Heard::Stays, None));
        question.drawn(ms(6000), false);
        assert_eq!((question.key(press('y'), ms(6500)), question.tick(ms(6900))), (Heard::Stays, None));
        assert_eq!((question.key(press('y'), ms(8100)), question.tick(ms(8420))), (Heard::Stays, Some(Answer::Yes)));
    }

    #[test]
    fn only_the_bare_letter_is_a_yes() {
        let pressed = |modifiers, kind| {
            let mut question = Question::new(end());
            question.drawn(ms(0), false);
            let key = KeyEvent::new_with_kind(KeyCode::Char('y'), modifiers, kind);
            (question.key(key, ms(1600)), question.tick(ms(1920)))
        };
        assert_eq!(pressed(KeyModifiers::NONE, KeyEventKind::Press), (Heard::Stays, Some(Answer::Yes)));
        assert_eq!(pressed(KeyModifiers::CONTROL, KeyEventKind::Press), (Heard::Closes, None));
        let esc_and_y = (Heard::Answer(Answer::No), None);
        assert_eq!(pressed(KeyModifiers::ALT, KeyEventKind::Press), esc_and_y, "Esc and y in one piece");
        assert_eq!(pressed(KeyModifiers::NONE, KeyEventKind::Repeat), (Heard::Stays, None));
    }

    #[test]
    fn a_text_that_is_typed_at_any_steady_pace_is_no_answer() {
        for pace in (300..3000).step_by(20) {
            let keys = [(pace, 'y'), (2 * pace, 'z')];
            let waits_for_z = pace < 1500;
            assert_eq!(answer(end(), &keys), if waits_for_z { None } else { Some(Answer::Yes) }, "{pace} ms a key");
        }
    }

    #[test]
    fn a_second_q_leaves_but_one_that_is_held_down_does_not() {
        let leave = || Asked::Quit(String::new());
        assert_eq!(answer(leave(), &[(500, 'q')]), Some(Answer::Yes));
        assert_eq!(answer(leave(), &[(300, 'q')]), None, "too early");
        let held: Vec<(u64, char)> = (0..20).map(|nth| (500 + 33 * nth, 'q')).collect();
        assert_eq!(answer(leave(), &held), None);
        assert_eq!(answer(end(), &[(700, 'q')]), None, "it ends no process");
    }

    /// Opens a question at 0, types these, waits; gives the first answer. `None` also where it was closed.
    fn answer(asked: Asked, keys: &[(u64, char)]) -> Option<Answer> {
        let mut question = Question::new(asked);
        question.drawn(ms(0), false);
        let mut end = 0;
        for (at, character) in keys {
            if let Some(answer) = question.tick(ms(*at)) {
                return Some(answer);
            }
            match question.key(press(*character), ms(*at)) {
                Heard::Answer(answer) => return Some(answer),
                Heard::Closes => return None,
                Heard::Stays => end = *at,
            }
        }
        question.tick(ms(end + 2500))
    }

    fn closes(asked: Asked, keys: &[(u64, char)]) -> bool {
        let mut question = Question::new(asked);
        question.drawn(ms(0), false);
        keys.iter().any(|(at, character)| question.key(press(*character), ms(*at)) == Heard::Closes)
    }

    fn end() -> Asked {
        Asked::End(vec![], Signal::Term)
    }

    #[test]
    fn a_y_alone_after_600_ms_is_yes_once_320_ms_have_passed_without_another_key() {
        assert_eq!(answer(end(), &[(600, 'y')]), Some(Answer::Yes));
        assert_eq!(answer(end(), &[(599, 'n')]), Some(Answer::No));
        let mut question = Question::new(end());
        question.drawn(ms(0), false);
        assert_eq!(question.stage(ms(599)), Stage::Reading { hurried: false });
        assert_eq!((question.stage(ms(600)), question.wakes_at(ms(0))), (Stage::Open(String::new()), Some(ms(600))));
        assert_eq!((question.key(press('y'), ms(1900)), question.tick(ms(2219))), (Heard::Stays, None));
        assert_eq!(question.stage(ms(2219)), Stage::Sending(KeyCode::Char('y')), "that it was taken is seen at once");
        assert_eq!((question.wakes_at(ms(2219)), question.tick(ms(2220))), (Some(ms(2220)), Some(Answer::Yes)));
    }

    #[test]
    fn an_early_y_starts_the_time_to_read_anew_and_says_so() {
        for early in [0, 300, 599] {
            assert_eq!(answer(end(), &[(early, 'y')]), None, "{early}");
            assert_eq!(answer(end(), &[(early, 'y'), (early + 599, 'y')]), None, "{early}");
            assert_eq!(answer(end(), &[(early, 'y'), (early + 600, 'y')]), Some(Answer::Yes), "{early}");
        }
        let mut question = Question::new(end());
        question.drawn(ms(0), false);
        question.key(press('y'), ms(500));
        assert_eq!(question.stage(ms(1099)), Stage::Reading { hurried: true });
    }

    #[test]
    fn what_was_typed_before_it_was_drawn_is_no_answer() {
        let mut question = Question::new(end());
        assert_eq!((question.key(press('y'), ms(900)), question.tick(ms(5000))), (Heard::Stays, None));
        question.drawn(ms(5000), false);
        assert_eq!((question.key(press('y'), ms(901)), question.tick(ms(9000))), (Heard::Stays, None));
    }

    #[test]
    fn any_key_that_is_no_answer_closes_it_at_any_time() {
        for at in [0, 100, 599, 700, 90_000] {
            for key in ['e', 'x', ' ', '\r', 'Y', 'q', '7'] {
                assert!(closes(end(), &[(at, key)]), "{key:?} after {at} ms");
                assert!(closes(end(), &[(700, 'y'), (710 + at.min(250), key)]), "{key:?} behind a y");
            }
        }
        assert_eq!(answer(end(), &[(700, 'y'), (1000, 'e'), (1700, 'y')]), None);
        assert_eq!(answer(end(), &[(1600, 'y'), (1920, 'e')]), Some(Answer::Yes), "it was sent by then");
        assert_eq!(answer(end(), &[(700, 'y'), (999, 'y')]), None, "held down, perhaps");
    }

    fn of_ada() -> Asked {
        let mut theirs = victim(4242, "sleep", None);
        theirs.yours = false;
        Asked::End(vec![victim(7, "sleep", None), theirs], Signal::Term)
    }

    #[test]
    fn another_users_process_needs_its_pid_typed() {
        let typed = [(700, '4'), (800, '2'), (900, '4'), (1000, '2')];
        assert_eq!(answer(of_ada(), &[&typed[..], &[(1100, '\r')]].concat()), Some(Answer::Yes));
        assert_eq!(answer(of_ada(), &typed), None, "without Enter");
        assert!(closes(of_ada(), &[(700, 'y')]) && closes(of_ada(), &[(700, '\r')]));
        assert!(closes(of_ada(), &[(700, '4'), (800, '\r')]), "another PID");
        assert!(closes(of_ada(), &[&typed[..], &[(1100, '\r'), (1200, 'l')]].concat()), "text goes on behind it");
        let pasted = [(700, '4'), (700, '2'), (701, '4'), (701, '2'), (702, '\r')];
        assert!(closes(of_ada(), &pasted), "faster than fingers");
        let early: Vec<(u64, char)> = typed.iter().map(|(at, digit)| (at - 500, *digit)).collect();
        assert!(closes(of_ada(), &[&early[..], &[(2000, '\r')]].concat()), "digits of before it could be read");
    }

    #[test]
    fn a_paste_question_knows_its_three_answers_only_and_loses_no_paste() {
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'r')]), Some(Answer::Yes));
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'a')]), Some(Answer::Append));
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'e')]), Some(Answer::Again));
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'y')]), None);
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'y'), (700, 'r')]), None, "typed text");
        assert!(!closes(Asked::Paste("x".into()), &[(500, 'y'), (1000, 'q')]));
        assert_eq!(answer(end(), &[(700, 'r')]), None);
    }
}
