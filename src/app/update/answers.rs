//! Owns what becomes of the answer to a question.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};

use super::{endings, log, run_again};
use crate::app::effect::Effect;
use crate::app::gate::{is_ctrl_c, is_text};
use crate::app::model::Model;
use crate::app::question::{Answer, Asked, Heard};

/// A key while a question is open: its effects, or the key itself where text goes on behind the question that it closed.
pub(super) fn take_key(model: &mut Model, key: KeyEvent, at: Duration) -> Result<Vec<Effect>, KeyEvent> {
    let Some(question) = &mut model.question else { return Err(key) };
    if is_ctrl_c(key) {
        // It is a no to whatever is asked; but a second one to "leave?" leaves.
        let leaves = matches!(question.asked, Asked::Quit(_));
        model.question = None;
        return Ok(if leaves { vec![model.leave()] } else { Vec::new() });
    }
    let is_open = question.is_open(at);
    match question.key(key, at) {
        Heard::Stays => {
            model.gate.heard(key, at, &model.config.keys);
            Ok(Vec::new())
        }
        Heard::Closes => close(model, key, at),
        // A no before anybody can have read the question may be part of a text.
        Heard::Answer(Answer::No) if !is_open && key.code == KeyCode::Char('n') => close(model, key, at),
        Heard::Answer(answer) => Ok(take_answer(model, answer)),
    }
}

/// A key that is no answer closed the question. Text that goes on behind it does nothing: it must not ask again and then be
/// an answer. A paste that came as keys is still read.
fn close(model: &mut Model, key: KeyEvent, at: Duration) -> Result<Vec<Effect>, KeyEvent> {
    model.question = None;
    if !is_text(key) {
        return Ok(Vec::new());
    }
    model.say("Not an answer: question closed, nothing was done.");
    model.gate.hush(at);
    Err(key)
}

/// A question was answered.
pub(super) fn take_answer(model: &mut Model, answer: Answer) -> Vec<Effect> {
    let Some(question) = model.question.take() else { return Vec::new() };
    if answer != Answer::No
        && let Some(word) = question.unread()
    {
        model.say(word);
        model.question = Some(question);
        return Vec::new();
    }
    // A notice about the question is outdated.
    model.notice = None;
    match (question.asked, answer) {
        (Asked::Paste(text), answer) => log::second_paste(model, text, answer).into_iter().collect(),
        (_, Answer::No | Answer::Append | Answer::Again) => Vec::new(),
        (Asked::End(victims, signal), Answer::Yes) => endings::confirmed(model, victims, signal),
        (Asked::Release(victim, release), Answer::Yes) => {
            endings::release_confirmed(model, *victim, release).into_iter().collect()
        }
        (Asked::RunAgain(run), Answer::Yes) => vec![run_again::confirmed(model, run)],
        (Asked::Quit(_), Answer::Yes) => vec![model.leave()],
    }
}
