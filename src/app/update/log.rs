//! Owns what happens to the log: pasted, typed, piped, read, brought back. Nothing that was pasted is lost.

use std::path::{Path, PathBuf};

use crate::app::action::Action;
use crate::app::dropped;
use crate::app::effect::Effect;
use crate::app::last::Story;
use crate::app::model::{Allocations, Change, Followed, Model, Pipe, Region, SinceItWorked};
use crate::app::question::{Answer, Asked};
use crate::app::region::fixes;

pub(super) const NO_TEXT: &str = "This is a binary file, not a log. Paste the text that the program printed.";

/// A job script or a compose file has this much at most; what is longer was meant as a log.
const LONGEST_COMMAND: usize = 16 << 10;

/// A paste. While typing it goes into the editor; where a log is there already, the person decides.
pub(crate) fn pasted(model: &mut Model, text: String) -> Option<Effect> {
    let text = with_line_feeds(&text);
    if text.trim().is_empty() {
        pasting(model);
        model.pasting = false;
        model.say("The paste was empty: copy the error text first, then paste it here.");
        return None;
    }
    if let Some(editor) = &mut model.input.typing {
        editor.insert_str(&text);
        return None;
    }
    if let Some(prompt) = &mut model.prompt
        && prompt.purpose.takes_pastes()
        && prompt.text.len() + text.len() <= LONGEST_COMMAND
    {
        prompt.text.push_str(&one_line(&text));
        return None;
    }
    let is_awaited = model.input.since_it_worked == SinceItWorked::Awaited;
    let is_asked = model.question.as_ref().is_some_and(|question| matches!(question.asked, Asked::Paste(_)));
    if !is_awaited
        && !is_asked
        && let Some(paths) = dropped::paths(&text)
    {
        model.question = None;
        return Some(Effect::LookAtPaths { text, paths });
    }
    pasted_text(model, text)
}

/// A paste that is a log itself.
pub(super) fn pasted_text(model: &mut Model, text: String) -> Option<Effect> {
    // A paste is no answer: whatever was asked is not done. One that waits for its own answer is not lost.
    let waiting = match model.question.take().map(|question| question.asked) {
        Some(Asked::Paste(earlier)) => Some(earlier),
        _ => None,
    };
    let text = waiting.map_or(text.clone(), |earlier| joined(earlier, &text));
    model.prompt = None;
    model.overlay = None;
    if model.input.since_it_worked.cancel() {
        model.input.since_it_worked = SinceItWorked::Reading;
        model.notice = None;
        return Some(Effect::ReadLogThatWorked(text));
    }
    if model.input.log.as_ref().is_some_and(|log| log.raw().trim() == text.trim()) {
        model.say("This log is open already.");
        return None;
    }
    let there = model.input.log.is_some() || model.input.awaited.is_some();
    if there && model.walk.before.is_none() {
        model.ask(Asked::Paste(text));
        return None;
    }
    let origin = format!("pasted {}", clock(model));
    Some(open(model, text, origin))
}

/// A paste that is still to come. It is no answer, and no key behind it is one to what was asked before it.
pub(super) fn pasting(model: &mut Model) {
    model.pasting = true;
    model.question.take_if(|question| !matches!(question.asked, Asked::Paste(_)));
}

/// A command that was written over several lines, in one.
fn one_line(text: &str) -> String {
    text.replace("\\\n", " ").replace("`\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The answer to "replace or append?".
pub(super) fn second_paste(model: &mut Model, text: String, answer: Answer) -> Option<Effect> {
    match answer {
        Answer::No => None,
        Answer::Yes | Answer::Again => {
            if answer == Answer::Again {
                fixes::failed_again(model);
                model.notice = None;
            }
            let origin = format!("pasted {}", clock(model));
            Some(open(model, text, origin))
        }
        Answer::Append => {
            let being_read = model.input.awaited.as_ref().and_then(|(_, text)| text.clone());
            let is_a_pane = being_read.is_some() && model.input.is_a_pane;
            let first = being_read.or_else(|| model.input.log.as_ref().map(|log| log.raw().to_owned()));
            let whole = joined(first.unwrap_or_default(), &text);
            let origin = format!("{}, more at {}", model.input.origin, clock(model));
            let record = model.input.record.take();
            let effect = open_found(model, whole, origin, is_a_pane);
            // It is still the log of that run.
            model.input.record = record;
            Some(effect)
        }
    }
}

/// Terminals send CR for a line end in a paste.
fn with_line_feeds(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The time of day in the person's time zone.
fn clock(model: &Model) -> String {
    model.wall.time_of_day(&model.config.zone)
}

/// A log that comes by itself; one that is there already is not touched.
pub(super) fn offered(model: &mut Model, text: String) -> Option<Effect> {
    let empty = model.input.log.is_none() && model.input.awaited.is_none() && model.input.typing.is_none();
    empty.then(|| open(model, text, "of the recorded crash".into()))
}

fn joined(mut first: String, second: &str) -> String {
    if !first.is_empty() && !first.ends_with('\n') {
        first.push('\n');
    }
    first + second
}

/// Asks for a log to be read. The previous one is kept.
pub(super) fn open(model: &mut Model, text: String, origin: String) -> Effect {
    open_found(model, text, origin, false)
}

/// The same for a log that may be the whole text of a pane.
pub(super) fn open_found(model: &mut Model, text: String, origin: String, is_a_pane: bool) -> Effect {
    keep_previous(model);
    model.input.is_a_pane = is_a_pane;
    model.input.crashed_by = Some(model.wall);
    model.input.story = None;
    model.input.record = None;
    model.input.origin = origin;
    model.input.own = true;
    model.allocations = Allocations::default();
    ask_for(model, text)
}

/// Keeps the open log before another one replaces it.
fn keep_previous(model: &mut Model) {
    if let Some(log) = &model.input.log {
        model.input.previous = Some((log.raw().to_owned(), model.input.origin.clone()));
    }
}

pub(super) fn ask_for(model: &mut Model, text: String) -> Effect {
    let being_read = Some(text.clone());
    let effect = ask_for_more(model, text);
    model.input.awaited = Some((model.input.generation, being_read));
    effect
}

/// The same for a log that will soon be read again with more lines: no second copy of it is kept meanwhile.
fn ask_for_more(model: &mut Model, text: String) -> Effect {
    model.input.generation += 1;
    model.input.trouble = None;
    model.input.awaited = Some((model.input.generation, None));
    let snapshots = model.allocations.files.clone();
    Effect::ReadLog { generation: model.input.generation, text, snapshots, is_a_pane: model.input.is_a_pane }
}

/// The log or memory snapshot named on the command line, with snapshots of the same run.
pub fn open_file(model: &mut Model, path: PathBuf, snapshots: Vec<PathBuf>) -> Effect {
    model.input.origin = file_name(&path);
    model.allocations = Allocations { files: snapshots, is_to_show: true, ..Allocations::default() };
    read_file(model, path, false)
}

/// A file that was dropped onto the terminal. It is not looked at for more.
pub(super) fn open_dropped(model: &mut Model, path: PathBuf, snapshots: Vec<PathBuf>) -> Effect {
    model.overlay = None;
    keep_previous(model);
    model.input.story = None;
    model.input.record = None;
    let effect = open_file(model, path, snapshots);
    model.input.file = None;
    model.input.own = true;
    effect
}

/// The name of a file without its folder.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| crate::text::harmless(&name.to_string_lossy()).into_owned())
}

fn read_file(model: &mut Model, path: PathBuf, adds: bool) -> Effect {
    model.input.generation += 1;
    model.input.trouble = None;
    model.input.awaited = Some((model.input.generation, None));
    model.input.own = false;
    model.input.file = Some(Followed { path: path.clone(), change: None, adds });
    Effect::ReadFile { generation: model.input.generation, path, snapshots: model.allocations.files.clone() }
}

/// The log's file changed. It is read again like a pipe that says more, unless the person took a fix already or gave a log of
/// their own.
pub(super) fn file_changed(model: &mut Model, change: Change) -> Option<Effect> {
    let walk = &model.walk;
    let walking = !walk.behind.is_empty() || walk.works || walk.before.is_some() || walk.waits_for.is_some();
    let begun = walking || !model.endings.is_empty() || model.question.is_some();
    let own = model.input.own || model.input.typing.is_some();
    let file = model.input.file.as_mut()?;
    let before = file.change.replace(change.after(file.change));
    let name = file_name(&file.path);
    if !own && !begun && change != Change::Gone {
        return reread(model);
    }
    // Once, not every second: the log's title goes on saying it.
    if !own && (before.is_none() || change == Change::Gone) {
        let word = match change {
            Change::Grew(_) | Change::Anew => {
                format!("{} {} reads it.", change_in_words(&name, change), model.key(Action::Reread))
            }
            Change::Gone => change_in_words(&name, change),
        };
        model.say(word);
    }
    None
}

fn change_in_words(name: &str, change: Change) -> String {
    match change {
        Change::Grew(0) => format!("{name} has grown."),
        Change::Grew(1) => format!("{name} has grown by 1 line."),
        Change::Grew(lines) => format!("{name} has grown by {lines} lines."),
        Change::Anew => format!("{name} was truncated or replaced: it begins anew."),
        Change::Gone => format!("{name} no longer exists. What was read stays here."),
    }
}

/// Reads the log's file again. A file that grew continues the walk; one that begins anew is another log.
pub(super) fn reread(model: &mut Model) -> Option<Effect> {
    let Some(file) = model.input.file.clone() else {
        model.say("No file is open that could be read again.");
        return None;
    };
    let adds = !model.input.own && !matches!(file.change, Some(Change::Anew | Change::Gone));
    let adds = adds && model.walk.before.is_none();
    if !adds {
        keep_previous(model);
    }
    model.input.origin = file_name(&file.path);
    Some(read_file(model, file.path, adds))
}

/// Opens the log of the last session, with its story once it is read.
pub fn open_last(model: &mut Model, text: String, story: Story) -> Effect {
    model.input.origin = story.origin.clone();
    model.input.command = story.command.clone();
    model.input.model = story.model.clone();
    model.input.record = story.record.clone();
    model.input.crashed_by = story.crashed_by;
    model.input.own = true;
    model.input.story = Some(Box::new(story));
    ask_for(model, text)
}

/// A job pipes its output into the program: leaving before its end would break the pipe.
pub fn wait_for_pipe(model: &mut Model) {
    model.input.pipe = Pipe::Open;
    model.focus = Region::Input;
}

/// More of standard input. A log that the person gave themselves stays; `u` shows what came through the pipe.
pub(super) fn more_came_through_the_pipe(model: &mut Model, text: Option<String>, closed: bool) -> Option<Effect> {
    model.input.pipe = if closed { Pipe::Closed } else { Pipe::Open };
    let Some(text) = text else {
        // What the person gave themselves stays.
        if !model.input.own {
            model.input.awaited = None;
            model.input.trouble = Some(NO_TEXT.into());
        }
        return None;
    };
    let origin = if closed { "from the pipe, ended" } else { "from the pipe, still open" };
    if model.input.own {
        model.input.previous = Some((text, origin.into()));
        return None;
    }
    model.input.origin = origin.into();
    if text.is_empty() {
        if closed && model.input.log.is_none() {
            model.say("Nothing came through the pipe.");
        }
        return None;
    }
    model.input.crashed_by = Some(model.wall);
    Some(if closed { ask_for(model, text) } else { ask_for_more(model, text) })
}

/// Opens the previous log again.
pub(super) fn previous(model: &mut Model) -> Option<Effect> {
    match model.input.previous.take() {
        Some((text, origin)) => {
            let from_pipe = origin.starts_with("from the pipe");
            let effect = open(model, text, origin);
            model.input.own = !from_pipe;
            Some(effect)
        }
        None => {
            model.say("There is no earlier log.");
            None
        }
    }
}
