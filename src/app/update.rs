//! Owns what happens next: a message changes the model and may ask for effects. No clock and no I/O: both the time
//! and the outcome of effects come in as arguments. Key handling, the feed, the log and endings have a file each.

mod endings;
mod feed;
pub(crate) mod fit;
mod input;
mod keys;

use std::time::Duration;

use crossterm::event::KeyCode;

pub use input::{open_file, open_last, wait_for_pipe};
pub use keys::decisive_top;

use super::action::Action;
use super::effect::Effect;
use super::gate::Passed;
use super::last;
use super::model::{Model, Region, Seen, Source};
use super::msg::{Cx, Msg};
use super::question::{Asked, Question, Victim};
use crate::advice::{Situation, advise};
use crate::gpu::guard::Refusal;

/// How long a word to the person stands.
pub const NOTICE: Duration = Duration::from_secs(8);
/// A burst shorter than this is two fingers on the keyboard, not a log.
const SHORTEST_PASTE: usize = 4;

pub fn update(model: &mut Model, msg: Msg, cx: &Cx) -> Vec<Effect> {
    model.now = cx.now;
    model.wall = cx.wall;
    forget_old_notice(model);
    let mut effects = Vec::new();
    let pace = model.pace();
    // A key acts when its time has come.
    let by_person = matches!(msg, Msg::Key(..) | Msg::Mouse(..) | Msg::Tick);
    if matches!(msg, Msg::Key(..) | Msg::Mouse(..) | Msg::Pasting | Msg::Paste(_)) {
        // Whatever the terminal says: somebody is there.
        model.looked_at.in_front = true;
    }
    match msg {
        Msg::Key(key, at) => {
            // While it comes in, a paste holds all there is to type.
            model.pasting = false;
            effects.extend(keys::pressed(model, key, at));
        }
        Msg::Drawn(shown) => {
            drawn(model, shown);
            return effects;
        }
        Msg::Resumed => model.question.iter_mut().for_each(Question::hidden),
        Msg::Mouse(event, at) => effects.extend(keys::mouse(model, event, at)),
        Msg::Pasting => input::pasting(model),
        Msg::Paste(text) => {
            model.pasting = false;
            effects.extend(input::pasted(model, text));
        }
        Msg::Offered(text) => effects.extend(input::offered(model, text)),
        Msg::InFront(in_front) => model.looked_at.in_front = in_front,
        Msg::OnBattery(on_battery) => model.looked_at.on_battery = on_battery,
        Msg::Resize(columns, rows) => resized(model, columns, rows),
        Msg::Tick => effects.extend(pass_time(model)),
        Msg::Header(header) => feed::header(model, header),
        Msg::Sample(snapshot) => effects.extend(feed::sample(model, *snapshot)),
        Msg::FeedDown(why) => model.feed.down = Some(why),
        Msg::LogRead(read) => input::read(model, *read),
        Msg::RunThatWorked(run) => input::run_that_worked(model, *run),
        Msg::Trouble(text) => say(model, text),
        Msg::Unread(generation, why) => input::unread(model, generation, why),
        Msg::Glossary(page) => model.glossary = Some(page),
        Msg::Stdin { text, closed } => effects.extend(input::piped(model, text, closed)),
        Msg::FileChanged(change) => effects.extend(input::changed(model, change)),
        Msg::Signal(key, report) => endings::reported(model, key, report),
        Msg::Released(key, outcome) => endings::released(model, key, outcome),
        Msg::Environment(key, variables) => {
            if let Some(again) = model.walk.again.as_mut().filter(|again| again.key == key) {
                again.variables = variables;
            }
        }
        Msg::Written(Ok(path)) => model.overlay = Some(super::model::Overlay::Written(path, 0)),
        Msg::Written(Err(why)) => say(model, format!("The report could not be written: {why}")),
        Msg::Copied(Ok(how)) => copied(model, how),
        Msg::Copied(Err(text)) => model.overlay = Some(super::model::Overlay::Text(text, 0)),
        Msg::Terminate => effects.push(leave(model)),
    }
    model.aim.follow(model.aimed_at(), by_person, model.now);
    if model.pace() < pace {
        model.feed.hastened = Some(model.now);
    }
    // Before the effect that ends the loop.
    if let Some(kept) = last::due(model) {
        effects.insert(0, Effect::Keep(Box::new(kept)));
    }
    effects
}

fn forget_old_notice(model: &mut Model) {
    if model.notice.as_ref().is_some_and(|(_, said)| model.now.saturating_sub(*said) >= NOTICE) {
        model.notice = None;
    }
}

/// What the time alone brings: keys that stood alone, pastes that ended. Only when nothing is queued: after a stall
/// a key's neighbour may still be waiting there.
fn pass_time(model: &mut Model) -> Vec<Effect> {
    let now = model.now;
    let mut effects = Vec::new();
    if let Some(answer) = model.question.as_mut().and_then(|question| question.tick(now)) {
        effects.extend(keys::answered(model, answer));
    }
    let passed = model.gate.tick(now);
    effects.extend(let_through(model, passed));
    effects
}

/// Keys that are certain by now act; a paste that came as keys goes where pastes go.
fn let_through(model: &mut Model, passed: Vec<Passed>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for item in passed {
        match item {
            // It waited while the screen became too small to read what it would do.
            Passed::Key(_) | Passed::Typed(_) | Passed::Few { .. } if model.is_tiny() => {}
            // A question that an earlier key of this batch opened must not be answered by a later one.
            Passed::Key(_) | Passed::Typed(_) | Passed::Few { .. } if model.question.is_some() => {}
            item if model.prompt.is_some() && !model.config.marks_pastes => {
                effects.extend(keys::passed_to_prompt(model, item));
            }
            Passed::Typed(key) if keys::asks(model, key) => {
                let text = match key.code {
                    KeyCode::Enter => {
                        "Nothing is asked right after other keys, as in typed text: wait 3 s, then press Enter."
                    }
                    _ => "That key came right behind another one, as in a word: nothing is asked. Press it again.",
                };
                say(model, text.into());
            }
            Passed::Key(key) | Passed::Typed(key) => effects.extend(keys::certain(model, key)),
            Passed::Few { keys, text, typed }
                if keys::are_harmless(model, &keys) || !typed && keys::only_ask(model, &keys, &text) =>
            {
                effects.extend(keys::together(model, &keys));
            }
            Passed::Few { text, .. } => too_fast(model, &text),
            Passed::Paste(text) if text.trim().chars().count() < SHORTEST_PASTE => too_fast(model, &text),
            Passed::Paste(text) => effects.extend(input::pasted(model, text)),
        }
    }
    effects
}

fn too_fast(model: &mut Model, text: &str) {
    say(model, format!("\"{}\" came too fast to be keys and is too short to be a log: ignored", text.trim()));
}

/// The question counts from when it can be read.
fn drawn(model: &mut Model, shown: Seen) {
    model.targets = shown.targets;
    let now = model.now;
    let readable = !model.is_tiny();
    if let Some(question) = model.question.as_mut().filter(|_| readable) {
        question.drawn(now, shown.cut);
    }
}

/// What stood on the old screen is no longer read, and may have no room on the new one.
fn resized(model: &mut Model, columns: u16, rows: u16) {
    model.size = (columns, rows);
    model.question.iter_mut().for_each(Question::hidden);
    if model.is_tiny() {
        model.question = None;
    }
}

/// A word to the person at the foot of the screen.
fn say(model: &mut Model, text: String) {
    model.notice = Some((text, model.now));
}

/// Puts a question on the screen; one that stands there already is kept.
fn ask(model: &mut Model, asked: Asked) {
    if model.question.is_none() {
        model.overlay = None;
        model.question = Some(Question::new(asked));
    }
}

/// Beside a step that terminates, copying is not all that can be done.
fn copied(model: &mut Model, how: &str) {
    let ends = if model.focus == Region::Input { None } else { model.end_in_words(40) };
    let key = model.key(Action::End);
    let text = ends.map_or(format!("copied ({how})"), |words| format!("copied ({how}) · {key} {words}"));
    say(model, text);
}

fn leave(model: &mut Model) -> Effect {
    model.leaving = true;
    Effect::Quit
}

/// Joins log and machine anew.
pub fn advise_anew(model: &mut Model) {
    let live = model.config.source != Source::Recorded;
    // What was taken is in the command already: the next step builds on it.
    let command = model.rerun();
    let tried = model.walk.tried();
    model.advice = model.input.diagnosis.as_ref().map(|diagnosis| {
        advise(&Situation {
            diagnosis,
            fixes: &model.input.fixes,
            snapshot: model.feed.latest.as_deref(),
            history: Some(&model.feed.history),
            viewer: Some(&model.config.viewer).filter(|_| live),
            crashed_by: model.input.crashed_by,
            zone: Some(&model.config.zone),
            command: command.as_deref(),
            model: model.input.model.as_deref(),
            own: None,
            ran_on: &[],
            has_run_here: false,
            taken: model.taken(),
            tried: &tried,
            before: model.advice.as_ref().map(|advice| &advice.remembered),
        })
    });
}

/// Who works for one of these and is not signalled with it, each with the reason in a few words.
pub fn left_out(model: &Model, named: &[Victim]) -> Vec<(u32, String)> {
    endings::left_out(model, named)
}

/// A refusal as a sentence.
pub fn in_words(refusal: &Refusal) -> String {
    endings::sentence(refusal)
}

/// What speaks for ending this row's process, for the list.
pub fn evidence_of(model: &Model, row: &crate::gpu::GpuProcess) -> Vec<String> {
    row.key().map(|key| endings::evidence(model, row, key)).unwrap_or_default()
}
