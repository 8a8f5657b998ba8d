//! Owns what happens next: a message changes the model and may ask for effects. No clock and no I/O: both the time
//! and the outcome of effects come in as arguments. Keys, mouse, feed, log and endings have a file each.

mod again;
mod allocations;
mod answers;
mod burst;
mod commands;
pub(crate) mod endings;
mod feed;
pub(crate) mod found;
pub(crate) mod hosts;
mod keep;
mod keys;
pub(crate) mod log;
mod mouse;
mod reading;
mod run_again;
mod typing;

pub use found::look_around;
pub use hosts::expect;
pub use log::{open_file, open_last, wait_for_pipe};

use super::action::Action;
use super::effect::Effect;
use super::model::{Model, Region, Seen};
use super::msg::{Cx, Msg};
use super::overlay::report::WrittenReport;
use super::overlay::uncopied::Uncopied;
use super::question::Question;

pub fn update(model: &mut Model, msg: Msg, cx: &Cx) -> Vec<Effect> {
    model.now = cx.now;
    model.wall = cx.wall;
    model.forget_old_notice();
    if let Msg::Drawn(shown) = msg {
        drawn(model, shown);
        return Vec::new();
    }
    let pace = model.pace();
    // A key acts when its time has come.
    let by_person = matches!(msg, Msg::Key(..) | Msg::Mouse(..) | Msg::Tick);
    if matches!(msg, Msg::Key(..) | Msg::Mouse(..) | Msg::Pasting | Msg::Paste(_)) {
        // Somebody is there, whatever the terminal says.
        model.looked_at.in_front = true;
    }
    let mut effects = of_person(model, msg);
    model.aim.follow(model.aimed_at(), by_person, model.now);
    if model.pace() < pace {
        model.feed.hastened = Some(model.now);
    }
    // Before the effect that ends the loop.
    if let Some(kept) = keep::story_to_keep(model) {
        effects.insert(0, Effect::Keep(Box::new(kept)));
    }
    effects
}

/// What a person does, and what the terminal says of them.
fn of_person(model: &mut Model, msg: Msg) -> Vec<Effect> {
    match msg {
        Msg::Key(key, at) => {
            // A terminal sends no key while it sends a paste.
            model.pasting = false;
            return keys::pressed(model, key, at);
        }
        Msg::Mouse(event, at) => return mouse::mouse(model, event, at),
        Msg::Tick => return pass_time(model),
        Msg::Pasting => log::pasting(model),
        Msg::Paste(text) => {
            model.pasting = false;
            return log::pasted(model, text).into_iter().collect();
        }
        Msg::Resumed => model.question.iter_mut().for_each(Question::hidden),
        Msg::Resize(columns, rows) => resized(model, columns, rows),
        Msg::InFront(in_front) => model.looked_at.in_front = in_front,
        Msg::OnBattery(on_battery) => model.looked_at.on_battery = on_battery,
        Msg::Terminate => return vec![model.leave()],
        other => return of_machine(model, other),
    }
    Vec::new()
}

/// What the machine says: readings, logs, and what became of effects.
fn of_machine(model: &mut Model, msg: Msg) -> Vec<Effect> {
    match msg {
        Msg::Sample(snapshot) => return feed::sample(model, *snapshot),
        Msg::Offered(text) => return log::offered(model, text).into_iter().collect(),
        Msg::Stdin { text, closed } => {
            return log::more_came_through_the_pipe(model, text, closed).into_iter().collect();
        }
        Msg::Dropped(text, files) => return allocations::dropped(model, text, files).into_iter().collect(),
        Msg::FileChanged(change) => return log::file_changed(model, change).into_iter().collect(),
        Msg::SnapshotsBeside(generation, files) => allocations::lie_beside(model, generation, files),
        Msg::Header(header) => feed::header(model, header),
        Msg::FeedDown(why) => model.home().down = Some(why),
        Msg::LogRead(read) => reading::log_was_read(model, *read),
        Msg::RunThatWorked(run) => reading::run_that_worked(model, *run),
        Msg::Trouble(text) => model.say(text),
        Msg::Unread(generation, why) => reading::log_was_not_read(model, generation, why),
        Msg::Glossary(page) => model.glossary = Some(page),
        Msg::Signal(key, report) => endings::signal_reported(model, key, report),
        Msg::Released(key, outcome) => endings::release_answered(model, key, outcome),
        Msg::Progress(progress) => model.walk.progress = Some(progress),
        Msg::Environment(key, variables) => again::has_environment(model, key, variables),
        Msg::Host(reading) => hosts::told(model, *reading),
        Msg::Found(kinds, places) => found::were_found(model, &kinds, places),
        Msg::FoundLog(id, read) => return found::was_read(model, &id, read).into_iter().collect(),
        Msg::Record(read) => run_again::record_was_read(model, read),
        Msg::RanAgain(run, outcome) => return run_again::ran(model, &run, outcome).into_iter().collect(),
        Msg::Written(Ok(path)) => model.open(WrittenReport { path }),
        Msg::Written(Err(why)) => model.say(format!("The report could not be written: {why}")),
        Msg::Copied(Ok(how)) => copied(model, how),
        Msg::Copied(Err(text)) => model.open(Uncopied { text }),
        Msg::Key(..) | Msg::Mouse(..) | Msg::Tick | Msg::Pasting | Msg::Paste(_) | Msg::Resumed | Msg::Resize(..) => {}
        Msg::InFront(_) | Msg::OnBattery(_) | Msg::Terminate | Msg::Drawn(_) => {}
    }
    Vec::new()
}

/// What the time alone brings: keys that stood alone, pastes that ended. Only when nothing is queued: after a stall
/// a key's neighbor may still be waiting there.
fn pass_time(model: &mut Model) -> Vec<Effect> {
    let now = model.now;
    let mut effects = Vec::new();
    if let Some(answer) = model.question.as_mut().and_then(|question| question.tick(now)) {
        effects.extend(answers::take_answer(model, answer));
    }
    let passed = model.gate.tick(now);
    effects.extend(burst::let_through(model, passed));
    effects
}

/// The time to read a question begins when it can be read.
fn drawn(model: &mut Model, shown: Seen) {
    model.targets = shown.targets;
    let (now, is_readable) = (model.now, !model.is_tiny());
    if let Some(question) = &mut model.question
        && is_readable
    {
        question.drawn(now, shown.cut);
    }
}

/// The old screen is no longer read, and the new one may have no room for the question.
fn resized(model: &mut Model, columns: u16, rows: u16) {
    model.size = (columns, rows);
    model.question.iter_mut().for_each(Question::hidden);
    if model.is_tiny() {
        model.question = None;
    }
}

/// Says that something was copied; beside a fix that terminates, copying is not all that can be done.
fn copied(model: &mut Model, how: &str) {
    let ends = if model.focus == Region::Input { None } else { model.end_in_words(40) };
    let key = model.key(Action::End);
    model.say(ends.map_or(format!("copied ({how})"), |words| format!("copied ({how}) · {key} {words}")));
}
