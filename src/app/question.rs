//! Owns the question before something that can't be undone. It names its victims, and it can't be answered by a
//! burst of keys: early keys are ignored, and `y` counts only alone.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::gate::ALONE;
use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;
use crate::gpu::ProcessKey;
use crate::gpu::guard::Signal;
use crate::gpu::running::Running;
use crate::units::{Bytes, WallTime};

/// Keys of a question's first moments on the screen were meant for something else.
pub const DEAF: Duration = Duration::from_millis(400);

/// The same key again so soon is held down: more than the pause before a keyboard repeats it is another press.
const HELD: Duration = Duration::from_millis(250);

/// A process as the question names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its identity.
    pub key: ProcessKey,
    /// What it is, as people know it, with its PID.
    pub name: String,
    /// The same without the PID, where it says more than the command line.
    pub what: Option<String>,
    /// Its command line.
    pub command: String,
    /// See [`Running`].
    pub image: Option<u32>,
    /// Its user.
    pub user: String,
    /// Whether that is the viewer.
    pub yours: bool,
    /// When it was started.
    pub started_at: Option<WallTime>,
    /// What it holds, over all devices; `None` where the driver does not say.
    pub held: Option<Bytes>,
    /// On which devices.
    pub devices: Vec<u32>,
    /// What speaks for ending it.
    pub evidence: Vec<String>,
    /// Who may start it again.
    pub supervisor: Option<Supervisor>,
    /// Whom it should end with: that one is signalled first, and it only if it is still there afterwards.
    pub follows: Option<ProcessKey>,
}

impl Victim {
    /// What it is, in the words that say most of it.
    pub fn called(&self) -> &str {
        let command = Some(self.command.as_str()).filter(|command| !command.is_empty());
        self.what.as_deref().or(command).unwrap_or("a process without a name")
    }

    /// What it runs.
    pub fn running(&self) -> Running {
        Running { command: self.command.clone(), image: self.image }
    }

    /// What it holds and where, in a few words.
    pub fn holding(&self) -> String {
        let devices: Vec<String> = self.devices.iter().map(u32::to_string).collect();
        match (self.held, devices.is_empty()) {
            (Some(Bytes::ZERO), true) => "no GPU memory itself".into(),
            (None, true) => "GPU memory unknown".into(),
            (held, _) => format!("{} on GPU {}", crate::advice::amount(held), devices.join(", ")),
        }
    }
}

/// The workers among the victims, in lines that name each: a line each where there is room, else as many to a line as
/// fit.
pub fn workers(victims: &[Victim], width: usize, room: usize) -> Vec<String> {
    let workers: Vec<&Victim> = victims.iter().filter(|victim| victim.follows.is_some()).collect();
    let (with, without): (Vec<&Victim>, Vec<&Victim>) =
        workers.into_iter().partition(|victim| victim.held.is_some_and(|held| held > Bytes::ZERO));
    let line = |victim: &&Victim| format!("  {}  {}  {}", victim.key.pid, victim.holding(), victim.called());
    let helpers = folded(&without, width);
    if with.len() + helpers.len() <= room {
        return with.iter().map(line).chain(helpers).collect();
    }
    folded(&with, width).into_iter().chain(helpers).collect()
}

/// Those that are called alike together, each with its PID, and with its bytes where it has any.
fn folded(victims: &[&Victim], width: usize) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for victim in victims {
        if !names.contains(&victim.called()) {
            names.push(victim.called());
        }
    }
    let one = |victim: &&Victim| match victim.held {
        Some(held) if held > Bytes::ZERO => format!("{} ({held})", victim.key.pid),
        _ => victim.key.pid.to_string(),
    };
    let text = |name: &str| {
        let alike: Vec<String> = victims.iter().filter(|victim| victim.called() == name).map(one).collect();
        let many = if alike.len() == 1 { String::new() } else { format!("{} × ", alike.len()) };
        format!("  {many}{name}: {}", alike.join(", "))
    };
    names
        .into_iter()
        .flat_map(|name| {
            let options = textwrap::Options::new(width.max(20)).subsequent_indent("    ");
            textwrap::wrap(&text(name), options).into_iter().map(|line| line.into_owned()).collect::<Vec<_>>()
        })
        .collect()
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// End these?
    End(Vec<Victim>, Signal),
    /// Ask its own program to give memory back?
    Release(Box<Victim>, Release),
    /// A second paste: replace the first or append to it?
    Paste(String),
    /// Leave although something is still open; the text says what.
    Quit(String),
}

/// A question that is on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub asked: Asked,
    /// Since when it stands on the terminal; `None` until it was drawn.
    shown: Option<Duration>,
    /// Part of it has no room on the screen: then it takes no yes.
    cut: bool,
    last_key: Option<(KeyCode, Duration)>,
    waiting: Option<(char, Duration)>,
}

/// When a letter has stood alone long enough. A `q` opened the question that it answers: where it is held down, the next
/// one comes sooner.
fn certain_at((character, at): (char, Duration)) -> Duration {
    at + if character == 'q' { HELD } else { ALONE }
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Do it; for a paste: replace.
    Yes,
    /// Append the paste.
    Append,
    /// The paste is the error of a second failure.
    Again,
    /// Leave it.
    No,
}

impl Question {
    /// A question that is not on the screen yet.
    pub fn new(asked: Asked) -> Question {
        Question { asked, shown: None, cut: false, last_key: None, waiting: None }
    }

    /// It is on the terminal now, all of it or `cut`. Since it could be read whole is what counts.
    pub fn drawn(&mut self, now: Duration, cut: bool) {
        if std::mem::replace(&mut self.cut, cut) && !cut {
            self.hidden();
        }
        self.shown.get_or_insert(now);
    }

    /// Why it can't be answered with a yes: whom it names was not all to be read.
    pub fn unread(&self) -> Option<&'static str> {
        self.cut.then_some(match self.asked {
            Asked::End(..) => "Make the terminal larger to read all of it; nothing was signalled.",
            Asked::Release(..) => "Make the terminal larger to read all of it; nothing was asked.",
            Asked::Paste(_) | Asked::Quit(_) => "Make the terminal larger to read all of it; nothing was done.",
        })
    }

    /// The screen was somebody else's for a while: what was typed before it is drawn again is no answer.
    pub fn hidden(&mut self) {
        (self.shown, self.waiting) = (None, None);
    }

    /// Takes a key pressed at this moment; `No` counts at once, anything else only after it stood alone.
    pub fn key(&mut self, key: KeyEvent, at: Duration) -> Option<Answer> {
        // A key that is held down is one answer at most, and never to a question that it opened itself.
        if key.kind == KeyEventKind::Repeat {
            return None;
        }
        let before = self.last_key.replace((key.code, at));
        let crowded = before.is_some_and(|(code, before)| {
            let apart = if code == key.code { HELD } else { ALONE };
            at.saturating_sub(before) < apart
        });
        let waited = self.waiting.take();
        if self.shown.is_none_or(|shown| at < shown + DEAF) {
            return None;
        }
        // A key that has stood alone long enough is answered even if its tick comes late.
        if let Some(answer) = waited.filter(|_| !crowded).and_then(|(character, _)| self.meaning(character)) {
            return Some(answer);
        }
        match key.code {
            // Esc and a letter right behind it arrive as Alt with the letter: it began with a no.
            _ if key.modifiers.contains(KeyModifiers::ALT) => Some(Answer::No),
            _ if !(key.modifiers - KeyModifiers::SHIFT).is_empty() => None,
            KeyCode::Esc => Some(Answer::No),
            KeyCode::Char('n') if !matches!(self.asked, Asked::Paste(_)) => Some(Answer::No),
            KeyCode::Char(character) if !crowded && self.meaning(character).is_some() => {
                self.waiting = Some((character, at));
                None
            }
            _ => None,
        }
    }

    /// Time has passed: a key that stood alone is an answer.
    pub fn tick(&mut self, now: Duration) -> Option<Answer> {
        let (character, _) = self.waiting.take_if(|waiting| now >= certain_at(*waiting))?;
        self.meaning(character)
    }

    /// When `tick` will have something to say.
    pub fn wakes_at(&self) -> Option<Duration> {
        self.waiting.map(certain_at)
    }

    fn meaning(&self, character: char) -> Option<Answer> {
        match (&self.asked, character) {
            (Asked::End(..) | Asked::Release(..) | Asked::Quit(_), 'y') | (Asked::Paste(_), 'r') => Some(Answer::Yes),
            (Asked::Quit(_), 'q') => Some(Answer::Yes),
            (Asked::Paste(_), 'a') => Some(Answer::Append),
            (Asked::Paste(_), 'e') => Some(Answer::Again),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::KeyModifiers;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn after_a_stop_the_question_is_deaf_again() {
        let mut question = Question::new(Asked::Quit(String::new()));
        question.drawn(ms(0), false);
        question.hidden();
        let yes = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE);
        assert_eq!(question.key(yes, ms(5000)).or_else(|| question.tick(ms(5100))), None);
        question.drawn(ms(6000), false);
        assert_eq!(question.key(yes, ms(6100)).or_else(|| question.tick(ms(6200))), None);
        assert_eq!(question.key(yes, ms(6900)).or_else(|| question.tick(ms(7000))), Some(Answer::Yes));
    }

    #[test]
    fn only_the_bare_letter_is_a_yes() {
        let pressed = |modifiers, kind| {
            let mut question = Question::new(Asked::Quit(String::new()));
            question.drawn(ms(0), false);
            let key = KeyEvent::new_with_kind(KeyCode::Char('y'), modifiers, kind);
            question.key(key, ms(600)).or_else(|| question.tick(ms(900)))
        };
        assert_eq!(pressed(KeyModifiers::NONE, KeyEventKind::Press), Some(Answer::Yes));
        assert_eq!(pressed(KeyModifiers::CONTROL, KeyEventKind::Press), None);
        assert_eq!(pressed(KeyModifiers::ALT, KeyEventKind::Press), Some(Answer::No), "Esc and y in one piece");
        assert_eq!(pressed(KeyModifiers::NONE, KeyEventKind::Repeat), None);
    }

    #[test]
    fn a_second_q_leaves_but_one_that_is_held_down_does_not() {
        let leave = || Asked::Quit(String::new());
        assert_eq!(answer(leave(), &[(500, 'q')]), Some(Answer::Yes));
        assert_eq!(answer(leave(), &[(300, 'q')]), None, "deaf");
        let held: Vec<(u64, char)> = (0..20).map(|nth| (500 + 33 * nth, 'q')).collect();
        assert_eq!(answer(leave(), &held), None);
        assert_eq!(answer(end(), &[(500, 'q')]), None, "it ends no process");
    }

    #[test]
    fn everybody_is_named_also_where_the_driver_gives_no_figures() {
        let victim = |pid: u32, what: &str, held: Option<Bytes>| Victim {
            key: ProcessKey { pid, start_ticks: 1 },
            name: String::new(),
            what: Some(what.into()),
            command: String::new(),
            image: None,
            user: String::new(),
            yours: true,
            started_at: None,
            held,
            devices: vec![],
            evidence: vec![],
            supervisor: None,
            follows: Some(ProcessKey { pid: 1, start_ticks: 1 }),
        };
        let mut victims: Vec<Victim> = (10..14).map(|pid| victim(pid, "VLLM::Worker", None)).collect();
        victims.push(victim(20, "rank", Some(Bytes::gib(9))));
        assert_eq!(workers(&victims, 60, 9), ["  20  9.0 GiB on GPU   rank", "  4 × VLLM::Worker: 10, 11, 12, 13"]);
        assert_eq!(workers(&victims, 60, 1), ["  rank: 20 (9.0 GiB)", "  4 × VLLM::Worker: 10, 11, 12, 13"]);
    }

    /// Opens a question at 0, types these, waits; gives the first answer.
    fn answer(asked: Asked, keys: &[(u64, char)]) -> Option<Answer> {
        let mut question = Question::new(asked);
        question.drawn(ms(0), false);
        let mut given = None;
        let mut end = 0;
        for (at, character) in keys {
            given = given.or(question.tick(ms(*at)));
            given = given.or(question.key(KeyEvent::new(KeyCode::Char(*character), KeyModifiers::NONE), ms(*at)));
            end = *at;
        }
        given.or(question.tick(ms(end + 500)))
    }

    fn end() -> Asked {
        Asked::End(vec![], Signal::Term)
    }

    #[test]
    fn a_lone_y_after_the_first_moments_is_yes() {
        assert_eq!(answer(end(), &[(500, 'y')]), Some(Answer::Yes));
        assert_eq!(answer(end(), &[(500, 'n')]), Some(Answer::No));
    }

    #[test]
    fn an_early_y_is_not_heard() {
        assert_eq!(answer(end(), &[(0, 'y')]), None);
        assert_eq!(answer(end(), &[(399, 'y')]), None);
    }

    #[test]
    fn what_was_typed_before_it_was_drawn_is_no_answer() {
        let y = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE);
        let mut question = Question::new(end());
        assert_eq!(question.key(y, ms(900)), None);
        assert_eq!(question.tick(ms(5000)), None);
        question.drawn(ms(5000), false);
        assert_eq!(question.key(y, ms(901)), None);
        assert_eq!(question.tick(ms(9000)), None);
    }

    #[test]
    fn a_y_within_a_burst_is_no_answer() {
        assert_eq!(answer(end(), &[(500, 'x'), (510, 'y')]), None);
        assert_eq!(answer(end(), &[(500, 'y'), (510, 'e'), (520, 's')]), None);
        assert_eq!(answer(end(), &[(395, 'a'), (410, 'y')]), None);
        assert_eq!(answer(end(), &[(500, 'y'), (501, 'y')]), None);
    }

    #[test]
    fn a_paste_question_knows_its_three_answers_only() {
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'r')]), Some(Answer::Yes));
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'a')]), Some(Answer::Append));
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'e')]), Some(Answer::Again));
        assert_eq!(answer(Asked::Paste("x".into()), &[(500, 'y')]), None);
        assert_eq!(answer(end(), &[(500, 'r')]), None);
    }
}
