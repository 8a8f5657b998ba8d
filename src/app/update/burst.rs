//! Owns what becomes of keys once the gate knows what they are: a person's, too many at once, or a paste.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{keys, log, typing};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::gate::Passed;
use crate::app::model::{Model, Region};
use crate::app::overlay::commands::Commands;

/// Shorter text on one line is two fingers on the keyboard, or a word that a slow line delivered at once.
const SHORTEST_LOG: usize = 12;
/// The same where a log is open: nobody is asked about replacing it because of a few words.
const SHORTEST_SECOND_LOG: usize = 60;
/// No name of a command is longer.
const LONGEST_COMMAND: usize = 24;

/// Keys that are certain by now act; a paste that came as keys goes where pastes go.
pub(super) fn let_through(model: &mut Model, passed: Vec<Passed>) -> Vec<Effect> {
    passed.into_iter().flat_map(|passed| let_one_through(model, passed)).collect()
}

fn let_one_through(model: &mut Model, passed: Passed) -> Vec<Effect> {
    match passed {
        // It waited while the screen became too small to read what it would do.
        Passed::Key(_) | Passed::Typed(_) | Passed::Few { .. } if model.is_tiny() => Vec::new(),
        // A question that an earlier key of this batch opened must not be answered by a later one.
        Passed::Key(_) | Passed::Typed(_) | Passed::Few { .. } if model.question.is_some() => Vec::new(),
        passed if model.prompt.is_some() && !model.config.marks_pastes => {
            typing::passed_to_prompt(model, passed).into_iter().collect()
        }
        Passed::Typed(key) if would_ask(model, key) => {
            refuse_to_ask(model, key);
            Vec::new()
        }
        Passed::Key(key) | Passed::Typed(key) => keys::act_on_key(model, key),
        Passed::Few { keys, text, typed } => {
            if are_harmless(model, &keys) || !typed && only_ask(model, &keys, &text) {
                return act_on_keys(model, &keys);
            }
            too_fast(model, &text);
            Vec::new()
        }
        Passed::Paste(text) => match meant(model, &text) {
            Meant::Log => log::pasted(model, text).into_iter().collect(),
            Meant::Command(name) => {
                model.open(Commands { wanted: name });
                Vec::new()
            }
            Meant::MoreOfCommand(letters) => {
                if let Some(typed) = model.overlay.as_mut().and_then(|open| open.overlay.typed()) {
                    typed.push_str(&letters);
                }
                Vec::new()
            }
            Meant::Nothing => {
                too_fast(model, &text);
                Vec::new()
            }
        },
    }
}

/// What text can mean that came at once as keys.
enum Meant {
    Log,
    /// `:` and a word: the list of commands with that word.
    Command(String),
    /// Letters for the list of commands that is open.
    MoreOfCommand(String),
    Nothing,
}

/// A slow line delivers typed words at once, too, and neither of them may ask about replacing the log. A paste that a
/// terminal marks does not come this way.
fn meant(model: &mut Model, text: &str) -> Meant {
    let line = text.trim();
    let length = line.chars().count();
    let is_one_line = !line.contains(['\r', '\n']);
    let is_word = length <= LONGEST_COMMAND && is_one_line;
    if is_word && model.overlay.as_mut().is_some_and(|open| open.overlay.typed().is_some()) {
        return Meant::MoreOfCommand(line.to_owned());
    }
    if is_word && let Some(name) = line.strip_prefix(':') {
        return Meant::Command(name.trim().to_owned());
    }
    let is_first = model.input.log.is_none() && model.input.awaited.is_none();
    let shortest = if is_first { SHORTEST_LOG } else { SHORTEST_SECOND_LOG };
    if !is_one_line || length >= shortest { Meant::Log } else { Meant::Nothing }
}

fn too_fast(model: &mut Model, text: &str) {
    model.say(match text.trim() {
        "" => "Several keys came at once, and none was taken. Press the last one again.".into(),
        typed => format!("\"{typed}\" came too fast to be keys and is too short to be a log: ignored"),
    });
}

/// Whether this key would ask before a signal or a request.
fn would_ask(model: &Model, key: KeyEvent) -> bool {
    if model.overlay.is_some() {
        return false;
    }
    match model.config.keys.action(key, model.focus) {
        Some(Action::End | Action::RunAgain) => true,
        Some(Action::Enter) => model.focus == Region::Steps && offers_release(model),
        _ => false,
    }
}

fn offers_release(model: &Model) -> bool {
    model.current_step().is_some_and(|step| model.release_of(step).is_some())
}

/// A key that may be part of a text asks nothing.
fn refuse_to_ask(model: &mut Model, key: KeyEvent) {
    model.say(match key.code {
        KeyCode::Enter => "Nothing is asked right after other keys, as in typed text: wait 3 s, then press Enter.",
        _ => "That key came right behind another one, as in a word: nothing is asked. Press it again.",
    });
}

/// Whether keys that came at once may act: none of them terminates, confirms, takes, skips or leaves anything, wherever the
/// ones before it lead.
fn are_harmless(model: &mut Model, keys: &[KeyEvent]) -> bool {
    let is_typed_into = model.overlay.as_mut().is_some_and(|open| open.overlay.typed().is_some());
    keys.iter().all(|key| {
        let is_typed = is_typed_into && matches!(key.code, KeyCode::Char(_));
        is_typed || key.code != KeyCode::Enter && is_harmless_everywhere(model, *key)
    })
}

fn is_harmless_everywhere(model: &Model, key: KeyEvent) -> bool {
    let regions = [Region::Processes, Region::Input, Region::Steps];
    regions.iter().all(|region| model.config.keys.action(key, *region).is_none_or(Action::is_harmless))
}

/// Whether keys that came at once, all of them as a text, move in the list of processes and then ask about one. A row that was
/// not drawn yet does no harm: the question names it, and takes no answer before it was read.
fn only_ask(model: &Model, keys: &[KeyEvent], text: &str) -> bool {
    let before = text.chars().count().saturating_sub(1);
    let asks = keys.last().is_some_and(|last| in_list(model, *last) == Some(Action::End));
    let is_in_list = model.focus == Region::Processes && model.overlay.is_none();
    is_in_list && asks && text.chars().take(before).all(|letter| moves_in_list(model, letter))
}

fn moves_in_list(model: &Model, letter: char) -> bool {
    let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
    matches!(in_list(model, key), Some(Action::Move(_)))
}

/// What a key means in the list of processes.
fn in_list(model: &Model, key: KeyEvent) -> Option<Action> {
    model.config.keys.action(key, Region::Processes)
}

/// Keys that came at once and are harmless. They are typed where one of them opened a line to type into.
fn act_on_keys(model: &mut Model, keys: &[KeyEvent]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for key in keys {
        if model.prompt.is_some() {
            typing::type_into_prompt(model, *key);
        } else {
            effects.extend(keys::act_on_key(model, *key));
        }
    }
    effects
}
