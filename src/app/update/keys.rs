//! Owns what keys and mouse do: first whoever is asked (question, prompt, editor), then the gate that keeps pastes
//! from acting as commands, then the keymap's actions.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui_textarea::TextArea;
use unicode_width::UnicodeWidthStr;

use super::{ask, endings, feed, fit, input, leave, let_through, say};
use crate::app::action::Action;
use crate::app::effect::Effect;
use crate::app::gate::{Passed, is_line_feed, is_text};
use crate::app::layout;
use crate::app::model::{Click, Model, Overlay, Pipe, Prompt, Purpose, Region, RowId, SinceItWorked};
use crate::app::question::{Answer, Asked, Heard, Question};
use crate::app::summary;
use crate::app::symptoms::SYMPTOMS;
use crate::app::walk::{EndingState, Mark, StepId};
use crate::gpu::ProcessKey;
use crate::report::Report;
use crate::report::markdown::{Paper, markdown};

/// A log longer than this is not put into the editor.
const EDITABLE: usize = 256 * 1024;
/// What comes at once and is longer than this is no line that somebody types.
const LONGEST_LINE: usize = 4 << 10;

/// A key as it comes from the terminal.
pub(super) fn pressed(model: &mut Model, key: KeyEvent, at: Duration) -> Vec<Effect> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    if model.is_tiny() {
        // Nothing can be read, so nothing can be meant but to leave.
        let leaves = ctrl_c || key.code == KeyCode::Char('q');
        return if leaves { vec![leave(model)] } else { Vec::new() };
    }
    if let Some(question) = &mut model.question {
        if ctrl_c {
            // It is a no to whatever is asked; but who says it again to "leave?" wants to leave.
            let leaves = matches!(question.asked, Asked::Quit(_));
            model.question = None;
            return if leaves { vec![leave(model)] } else { Vec::new() };
        }
        let is_open = question.is_open(at);
        let heard = question.key(key, at);
        return match heard {
            Heard::Stays => {
                model.gate.heard(key, at);
                Vec::new()
            }
            Heard::Closes => closed(model, key, at),
            Heard::Answer(Answer::No) if !is_open && key.code == KeyCode::Char('n') => closed(model, key, at),
            Heard::Answer(answer) => answered(model, answer),
        };
    }
    if model.input.typing.is_some() {
        model.gate.heard(key, at);
        return typed(model, key).into_iter().collect();
    }
    if model.prompt.is_some() && !model.config.marks_pastes {
        let passed = model.gate.key_of_a_line(key, at);
        return let_through(model, passed);
    }
    if model.prompt.is_some() {
        model.gate.heard(key, at);
        prompted(model, key);
        return Vec::new();
    }
    let passed = model.gate.key(key, at);
    let_through(model, passed)
}

/// A key that is no answer closed the question, or a no came before anybody can have read it. Text that goes on behind
/// it does nothing: it must not ask again and be an answer then. A paste that came as keys is still read.
fn closed(model: &mut Model, key: KeyEvent, at: Duration) -> Vec<Effect> {
    model.question = None;
    if !is_text(key) {
        return Vec::new();
    }
    say(model, "Not an answer: question closed, nothing was done.".into());
    model.gate.hush(at);
    let passed = model.gate.key(key, at);
    let_through(model, passed)
}

/// Whether this key would ask before a signal or a request.
pub(super) fn asks(model: &Model, key: KeyEvent) -> bool {
    let releases = || model.current_step().is_some_and(|step| model.release_of(step).is_some());
    match model.config.keys.action(key, model.focus) {
        _ if model.overlay.is_some() => false,
        Some(Action::End) => true,
        Some(Action::Enter) => model.focus == Region::Steps && releases(),
        _ => false,
    }
}

/// What the gate made of keys while a line is typed, where a paste may be among them.
pub(super) fn passed_to_prompt(model: &mut Model, passed: Passed) -> Vec<Effect> {
    match passed {
        Passed::Key(key) | Passed::Typed(key) => {
            prompted(model, key);
            Vec::new()
        }
        Passed::Few { text, .. } | Passed::Paste(text) => burst_into_prompt(model, text).into_iter().collect(),
    }
}

/// Keys that came at once: one line is typed as it stands, and several are a paste. No line end among them submits.
fn burst_into_prompt(model: &mut Model, text: String) -> Option<Effect> {
    let line = text.trim_end_matches(['\r', '\n']);
    let is_typed = line.len() <= LONGEST_LINE && !line.contains(['\r', '\n']);
    match &mut model.prompt {
        Some(prompt) if is_typed => prompt.text.push_str(line),
        _ => return input::pasted(model, text),
    }
    prompt_changed(model);
    None
}

/// A key that is certainly a person's.
pub(super) fn certain(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    if let Some(Overlay::Actions(wanted, at)) = &mut model.overlay {
        let typed = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Char(character) if typed => (wanted.push(character), *at = 0).1,
            KeyCode::Backspace => drop(wanted.pop()),
            KeyCode::Enter => return pick(model),
            _ => {
                return model.config.keys.action(key, model.focus).map(|action| act(model, action)).unwrap_or_default();
            }
        }
        return Vec::new();
    }
    let action = match key.code {
        // What Enter means in the region below is covered by what lies on top.
        KeyCode::Enter if model.overlay.is_some() => Some(Action::Enter),
        KeyCode::Left | KeyCode::Char('h') if model.overlay == Some(Overlay::Trial) => Some(Action::Turn(-1)),
        KeyCode::Right | KeyCode::Char('l') if model.overlay == Some(Overlay::Trial) => Some(Action::Turn(1)),
        KeyCode::Backspace if model.overlay == Some(Overlay::Trial) => Some(Action::Back),
        KeyCode::Char('f' | 'm') if model.overlay == Some(Overlay::Trial) => {
            model.config.keys.action(key, Region::Steps)
        }
        _ => model.config.keys.action(key, model.focus),
    };
    if action.is_none() && model.overlay.is_none() {
        hint(model, key);
    }
    action.map(|action| act(model, action)).unwrap_or_default()
}

/// A key that belongs to another region says where that is.
fn hint(model: &mut Model, key: KeyEvent) {
    let Some((binding, region)) = model.config.keys.meant_elsewhere(key, model.focus) else { return };
    let place = match region {
        Region::Processes => "the processes",
        Region::Input => "the log",
        Region::Steps => "the fixes",
    };
    let tab = model.key(Action::NextRegion);
    let text = format!("[{}] ({}) is a key of {place}: {tab} goes there.", binding.shown, binding.words);
    say(model, text);
}

/// Whether keys that came at once may act: none of them ends, confirms, takes, skips or leaves anything, wherever the
/// ones before it lead.
pub(super) fn are_harmless(model: &Model, keys: &[KeyEvent]) -> bool {
    let regions = [Region::Processes, Region::Input, Region::Steps];
    let means = |key: &KeyEvent, region| model.config.keys.action(*key, region);
    let typed = |key: &KeyEvent| matches!((&model.overlay, key.code), (Some(Overlay::Actions(..)), KeyCode::Char(_)));
    keys.iter().all(|key| {
        typed(key)
            || regions.iter().all(|region| means(key, *region).is_none_or(Action::is_harmless))
                && key.code != KeyCode::Enter
    })
}

/// Whether keys that came at once, all of them as a text, move in the list of processes and then ask about one. That the
/// row was not drawn yet does no harm: the question names it, and hears nothing before it was read.
pub(super) fn only_ask(model: &Model, keys: &[KeyEvent], text: &str) -> bool {
    let means = |key: KeyEvent| model.config.keys.action(key, Region::Processes);
    let moves = |key: char| {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
        matches!(means(key), Some(Action::Move(_)))
    };
    let before = text.chars().count().saturating_sub(1);
    let asks = keys.last().is_some_and(|last| means(*last) == Some(Action::End));
    model.focus == Region::Processes && model.overlay.is_none() && asks && text.chars().take(before).all(moves)
}

/// Keys that came at once and are harmless. They are typed where one of them opened a line to type into.
pub(super) fn together(model: &mut Model, keys: &[KeyEvent]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for key in keys {
        if model.prompt.is_some() {
            prompted(model, *key);
        } else {
            effects.extend(certain(model, *key));
        }
    }
    effects
}

/// Does the action that is selected in the list of all, where it means something.
fn pick(model: &mut Model) -> Vec<Effect> {
    let Some(Overlay::Actions(wanted, at)) = model.overlay.take() else { return Vec::new() };
    let keys = std::sync::Arc::clone(&model.config.keys);
    let Some(picked) = keys.actions(&wanted).get(at).copied() else { return Vec::new() };
    model.focus = picked.region.unwrap_or(model.focus);
    match picked.action {
        // Enter chose it here, and Enter asks about no signal: typed text may hold `:`, a word and Enter.
        Action::End => {
            say(model, format!("{} terminates the highlighted process.", model.key(Action::End)));
            Vec::new()
        }
        Action::Enter => {
            say(model, format!("{} copies the command or takes the fix.", model.key(Action::Enter)));
            Vec::new()
        }
        action => act(model, action),
    }
}

/// A question was answered.
pub(super) fn answered(model: &mut Model, answer: Answer) -> Vec<Effect> {
    let unread = model.question.as_ref().filter(|_| answer != Answer::No).and_then(Question::unread);
    if let Some(word) = unread {
        say(model, word.into());
        return Vec::new();
    }
    let Some(question) = model.question.take() else { return Vec::new() };
    // What was said of the question is over with it.
    model.notice = None;
    match (question.asked, answer) {
        (Asked::Paste(text), answer) => input::second_paste(model, text, answer).into_iter().collect(),
        (_, Answer::No | Answer::Append | Answer::Again) => Vec::new(),
        (Asked::End(victims, signal), Answer::Yes) => endings::confirmed(model, victims, signal),
        (Asked::Release(victim, release), Answer::Yes) => {
            endings::release_confirmed(model, *victim, release).into_iter().collect()
        }
        (Asked::Quit(_), Answer::Yes) => vec![leave(model)],
    }
}

fn typed(model: &mut Model, key: KeyEvent) -> Option<Effect> {
    let editor = model.input.typing.as_mut()?;
    let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    if is_line_feed(key) {
        // The editor's own Ctrl-J would delete what stands before it.
        editor.insert_newline();
        return None;
    }
    if key.code != KeyCode::Esc && !ctrl_c {
        editor.input(key);
        return None;
    }
    let text = model.input.typing.take()?.lines().join("\n");
    let unchanged = model.input.log.as_ref().is_some_and(|log| log.raw().trim_end() == text.trim_end());
    if text.trim().is_empty() || unchanged {
        return None;
    }
    Some(input::open(model, text, "typed".into()))
}

fn prompted(model: &mut Model, key: KeyEvent) {
    let Some(prompt) = &mut model.prompt else { return };
    let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    match if ctrl_c { KeyCode::Esc } else { key.code } {
        KeyCode::Char(character) if !key.modifiers.contains(KeyModifiers::CONTROL) => prompt.text.push(character),
        KeyCode::Backspace => {
            prompt.text.pop();
        }
        KeyCode::Esc => {
            if prompt.purpose == Purpose::Filter {
                model.processes.filter.clear();
            }
            model.prompt = None;
            return feed::keep_selection(model);
        }
        KeyCode::Enter => {
            let Some(prompt) = model.prompt.take() else { return };
            return match prompt.purpose {
                Purpose::Filter => {}
                Purpose::Search => {
                    model.input.search = prompt.text;
                    input::hit(model, true);
                }
                Purpose::Command => input::ran(model, &prompt.text),
                Purpose::Model => input::named(model, &prompt.text),
            };
        }
        _ => return,
    }
    prompt_changed(model);
}

/// A filter is seen while it is typed.
fn prompt_changed(model: &mut Model) {
    if let Some(prompt) = model.prompt.as_ref().filter(|prompt| prompt.purpose == Purpose::Filter) {
        model.processes.filter = prompt.text.clone();
        feed::keep_selection(model);
    }
}

/// Does what the person means.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    match action {
        Action::NextRegion => return turn(model, 1).into_iter().collect(),
        Action::PreviousRegion => return turn(model, -1).into_iter().collect(),
        Action::Move(by) => moved(model, by),
        Action::Turn(by) => fit::turned(model, by),
        Action::Page(by) if model.overlay == Some(Overlay::Trial) => fit::turned(model, -by.saturating_mul(8)),
        Action::Page(by) => moved(model, by.saturating_mul(page(model))),
        Action::First => moved(model, i32::MIN / 2),
        Action::Last => moved(model, i32::MAX / 2),
        Action::Enter => return enter(model),
        Action::Escape => escape(model),
        Action::Mark => mark(model),
        // Whom it would end is covered.
        Action::End if model.overlay.is_some() => {}
        Action::End => end(model),
        Action::Back if model.overlay == Some(Overlay::Trial) => fit::reset(model),
        // What it would change is covered: the key only uncovers it.
        Action::Skip | Action::Back | Action::DidNotHelp if model.overlay.is_some() => model.overlay = None,
        Action::Skip => leave_step(model, Mark::Skipped),
        Action::Back => back(model),
        Action::Copy => return copy(model).into_iter().collect(),
        Action::About => about(model),
        Action::Previous => return input::previous(model).into_iter().collect(),
        Action::Reread => return input::reread(model).into_iter().collect(),
        Action::Works => works(model),
        Action::FailedAgain => failed_again(model),
        Action::DidNotHelp => did_not_help(model),
        Action::LogThatWorked => log_that_worked(model),
        Action::Command => what_ran(model),
        Action::Model => which_model(model),
        Action::Fit => fit::open(model),
        Action::Rules => rules(model),
        Action::Log => show_log(model),
        Action::Sort => {
            model.processes.sort = model.processes.sort.next();
            model.processes.still = None;
        }
        Action::Actions => toggle(model, Overlay::Actions(String::new(), 0)),
        Action::Search => search(model),
        Action::Report => return report(model).into_iter().collect(),
        Action::NextHit => input::hit(model, true),
        Action::PreviousHit => input::hit(model, false),
        Action::Zoom => model.zoomed = !model.zoomed,
        Action::Pause => pause(model),
        Action::Help if matches!(model.overlay, Some(Overlay::Help(_) | Overlay::Words(_))) => model.overlay = None,
        Action::Help => model.overlay = Some(Overlay::Help(0)),
        Action::Symptoms => toggle(model, Overlay::Symptoms(0)),
        Action::Suspend if model.config.can_suspend => return vec![Effect::Suspend],
        Action::Suspend => {
            let quit = model.key(Action::Quit);
            say(model, format!("There is no shell here to suspend to; {quit} quits."));
        }
        Action::Quit => return quit(model).into_iter().collect(),
    }
    Vec::new()
}

/// As they are read: side by side, or on small screens the log behind the others. Without a verdict there are no fixes.
fn order(model: &Model) -> &'static [Region] {
    match (model.has_fixes(), model.is_small()) {
        (false, _) => &[Region::Processes, Region::Input],
        (true, true) => &[Region::Processes, Region::Steps, Region::Input],
        (true, false) => &[Region::Processes, Region::Input, Region::Steps],
    }
}

/// Shows the log, and goes back from it to the fixes or processes.
fn show_log(model: &mut Model) {
    model.overlay = None;
    let beside = if model.advice.is_some() { Region::Steps } else { Region::Processes };
    model.focus = if model.focus == Region::Input { beside } else { Region::Input };
}

/// The next region; in an explanation the next entry that matched, in the help its other half.
fn turn(model: &mut Model, by: isize) -> Option<Effect> {
    model.overlay = match model.overlay {
        Some(Overlay::Help(_)) => Some(Overlay::Words(0)),
        Some(Overlay::Words(_)) => Some(Overlay::Help(0)),
        Some(Overlay::Trial | Overlay::Fit(_)) => {
            fit::turned_over(model);
            return None;
        }
        Some(Overlay::About(which, _)) => {
            let many = model.input.pages.len().max(1);
            Some(Overlay::About(which.saturating_add(many).saturating_add_signed(by) % many, 0))
        }
        _ => {
            focus(model, by);
            return None;
        }
    };
    let unknown = matches!(model.overlay, Some(Overlay::Words(_))) && model.glossary.is_none();
    unknown.then_some(Effect::LoadKnowledge)
}

fn focus(model: &mut Model, by: isize) {
    let order = order(model);
    let here = order.iter().position(|region| *region == model.focus).unwrap_or(0);
    let next = here.saturating_add(order.len()).saturating_add_signed(by) % order.len();
    // Whom a step is about stays highlighted in the list.
    let highlighted = model.highlighted();
    model.focus = order.get(next).copied().unwrap_or(Region::Processes);
    if model.focus == Region::Processes && highlighted.is_some() {
        model.processes.selected = highlighted;
        model.processes.was_selected = true;
    }
}

fn page(model: &Model) -> i32 {
    if model.lines_to_read().is_some() {
        return i32::try_from(layout::page_height(model.size).saturating_sub(1).max(1)).unwrap_or(1);
    }
    let layout = model.layout();
    let area = match model.focus {
        Region::Processes => layout.processes,
        Region::Input => layout.input,
        Region::Steps => layout.steps,
    };
    i32::from(area.height.saturating_sub(3).max(1))
}

fn moved(model: &mut Model, by: i32) {
    if let Some(Overlay::Symptoms(at)) = &mut model.overlay {
        *at = shifted(*at, by, SYMPTOMS.len());
        return;
    }
    if let Some(Overlay::Actions(wanted, at)) = &mut model.overlay {
        *at = shifted(*at, by, model.config.keys.actions(wanted).len());
        return;
    }
    if model.overlay == Some(Overlay::Trial) {
        return fit::selected(model, by);
    }
    if let Some(lines) = model.lines_to_read() {
        let last = lines.saturating_sub(layout::page_height(model.size));
        if let Some(top) = model.overlay.as_mut().and_then(Overlay::top) {
            // The window may have become larger since.
            *top = shifted((*top).min(last), by, last + 1);
        }
        return;
    }
    match model.focus {
        Region::Processes => {
            let rows = model.rows();
            let here = rows.iter().position(|row| Some(row.id) == model.processes.selected);
            // Where nothing is selected, the first movement selects the first row, unless it asks for the last.
            let from_outside = if by >= i32::MAX / 2 { rows.len().saturating_sub(1) } else { 0 };
            let next = here.map_or(from_outside, |here| shifted(here, by, rows.len()));
            let next = rows.get(next).map(|row| row.id);
            let order = rows.into_iter().map(|row| row.id).collect();
            select(model, next, order);
        }
        Region::Input => {
            let lines = model.input.log.as_ref().map_or(0, |log| log.line_count());
            let here = model.input.top.unwrap_or_else(|| decisive_top(model));
            model.input.top = Some(shifted(here, by, lines));
        }
        Region::Steps => {
            let ahead = model.steps_ahead();
            let from = model.cursor(&ahead).map_or(0, |at| shifted(at, by, ahead.len()));
            let next = ahead.get(from).map(|step| StepId::of(step));
            model.walk.cursor = next;
        }
    }
}

/// Selects a row in the list as it stands there.
fn select(model: &mut Model, row: Option<RowId>, order: Vec<RowId>) {
    model.processes.selected = row;
    model.processes.was_selected |= row.is_some();
    model.processes.still = Some((model.now, order));
}

/// Shows the line of the log that this page speaks of.
fn go_to_line(model: &mut Model, which: usize) {
    model.overlay = None;
    let line = model.input.pages.get(which).and_then(|page| page.line);
    model.focus = Region::Input;
    model.input.top = line.map(|line| top_for(model, line));
}

/// The first line to show so that the decisive one stands a third down.
pub fn decisive_top(model: &Model) -> usize {
    let line = model.input.diagnosis.as_ref().and_then(|d| d.matches.first()).map_or(1, |found| found.line);
    top_for(model, line)
}

/// The line, counted from 0, from which on this one (counted from 1) stands a third down: long lines before
/// it take several rows.
fn top_for(model: &Model, line: usize) -> usize {
    let area = model.layout().input;
    let columns = usize::from(area.width).saturating_sub(layout::LOG_MARGIN).max(1);
    let mut room = usize::from(area.height / 3);
    let mut top = line.saturating_sub(1);
    while let Some(before) = model.input.log.as_ref().and_then(|log| log.line(top)) {
        let rows = before.width().div_ceil(columns).max(1);
        if rows > room {
            break;
        }
        room -= rows;
        top -= 1;
    }
    top
}

fn shifted(here: usize, by: i32, len: usize) -> usize {
    here.saturating_add_signed(by as isize).min(len.saturating_sub(1))
}

fn enter(model: &mut Model) -> Vec<Effect> {
    if let Some(Overlay::Symptoms(at)) = model.overlay {
        model.overlay = None;
        let picked = SYMPTOMS.get(at).map(|symptom| input::pasted(model, symptom.line.to_owned()));
        return picked.flatten().into_iter().collect();
    }
    if let Some(Overlay::About(which, _)) = model.overlay {
        go_to_line(model, which);
        return Vec::new();
    }
    if model.overlay == Some(Overlay::Trial) {
        return fit::taken(model).into_iter().collect();
    }
    if model.overlay.is_some() {
        // Enter is about what lies on top, not about what it covers.
        model.overlay = None;
        return Vec::new();
    }
    match model.focus {
        Region::Processes => copy_command_to_end(model).into_iter().collect(),
        Region::Input => {
            type_into(model);
            Vec::new()
        }
        Region::Steps => take_step(model),
    }
}

fn type_into(model: &mut Model) {
    let text = model.input.log.as_ref().map_or("", |log| log.raw());
    if text.len() > EDITABLE {
        return say(model, "This log is too long to edit here; paste more and choose append instead.".into());
    }
    model.input.typing = Some(Box::new(TextArea::new(text.lines().map(str::to_owned).collect())));
}

fn take_step(model: &mut Model) -> Vec<Effect> {
    let Some(step) = model.current_step().cloned() else {
        if let Some(name) = model.awaited().map(|ending| ending.victim.name.clone()) {
            say(model, format!("Still waiting for {name}. The arrow keys select another fix."));
        }
        return Vec::new();
    };
    let commands: Vec<String> = step.steps.iter().filter_map(|step| step.command.clone()).collect();
    match step.target {
        Some(target) if model.release_of(&step).is_some() => {
            endings::ask_to_release(model, target);
            return Vec::new();
        }
        Some(target) if step.gentle && !survived(model, target) => {
            let action = step.steps.first().map(|step| step.action.clone()).unwrap_or_default();
            let what = if commands.is_empty() { action } else { commands.join("\n") };
            endings::free_elsewhere(model, target, what);
            return if commands.is_empty() { Vec::new() } else { vec![Effect::Copy(commands.join("\n"))] };
        }
        // Only x asks about a signal.
        Some(target) => {
            let command = if commands.is_empty() { command_to_end(target) } else { commands.join("\n") };
            return vec![Effect::Copy(command)];
        }
        None if step.waits_for.is_some() => {
            model.walk.waits_for = step.waits_for;
            say(model, "Watching: the terminal rings once there is room. Esc stops.".into());
            return Vec::new();
        }
        None => {
            model.walk.leave(&step, Mark::Taken);
            model.walk.since.get_or_insert(model.wall);
            super::advise_anew(model);
        }
    }
    let [works, again, back] = [Action::Works, Action::FailedAgain, Action::Back].map(|action| model.key(action));
    say(model, format!("Run the job again. {works} worked · {again} failed again · {back} undo"));
    if commands.is_empty() { Vec::new() } else { vec![Effect::Copy(commands.join("\n"))] }
}

/// It was asked to close before and did not.
fn survived(model: &Model, key: ProcessKey) -> bool {
    model.ending_of(key).is_some_and(|ending| matches!(ending.state, EndingState::Survived(_)))
}

fn leave_step(model: &mut Model, mark: Mark) {
    if let Some(step) = model.current_step().cloned() {
        model.walk.leave(&step, mark);
    }
}

/// The step that was just taken, else the selected one, was tried in vain: neither it nor what does less is offered again.
fn did_not_help(model: &mut Model) {
    let title = if let Some(behind) = model.walk.just_taken() {
        (behind.mark, behind.enough) = (Mark::DidNotHelp, false);
        behind.title.clone()
    } else if let Some(step) = model.current_step().cloned() {
        model.walk.leave(&step, Mark::DidNotHelp);
        if let Some(behind) = model.walk.behind.last_mut() {
            // It was tried before this log, whose command has it already.
            (behind.changes, behind.enough) = (None, false);
        }
        step.title
    } else {
        return say(model, "There is no fix here to mark.".into());
    };
    super::advise_anew(model);
    let back = model.key(Action::Back);
    say(model, format!("Did not help: {title}. It is left out, with weaker fixes. {back} undoes this."));
}

/// The next paste is the log of a run that worked.
fn log_that_worked(model: &mut Model) {
    if model.input.diagnosis.is_none() {
        return say(model, "Paste the error first, then the log of a run that worked.".into());
    }
    model.input.since_it_worked = SinceItWorked::Awaited;
    model.walk.before = None;
    say(model, "Paste the log of a run that worked. Esc cancels.".into());
}

fn back(model: &mut Model) {
    if model.walk.behind.pop().is_none() {
        say(model, "Nothing to undo.".into());
    } else {
        // What was said of the fix is no longer so.
        model.notice = None;
    }
    model.walk.cursor = None;
    super::advise_anew(model);
}

fn works(model: &mut Model) {
    if model.advice.is_none() {
        return say(model, "Paste the error first.".into());
    }
    model.walk.works = true;
    model.overlay = Some(Overlay::Done(0));
}

/// Everything that is on the screen, as a text for others.
fn report(model: &mut Model) -> Option<Effect> {
    let made = || {
        let (log, diagnosis, advice) =
            (model.input.log.as_ref()?, model.input.diagnosis.as_ref()?, model.advice.as_ref()?);
        let snapshot = model.snapshot();
        let since = model.input.since_it_worked.known();
        let report =
            Report { snapshot, no_reading: model.feed.down.as_deref(), since, ..Report::of(diagnosis, advice) };
        let (walked, names) = (summary::walked(model), Some(&model.config.names));
        Some(markdown(&Paper { report, log, origin: &model.input.origin, at: model.wall, walked: &walked, names }))
    };
    let made = made();
    if made.is_none() {
        say(model, "Nothing to report yet: paste the error first.".into());
    }
    made.map(Effect::WriteReport)
}

/// The next paste is the new failure: no question about replacing.
pub(super) fn failed_again(model: &mut Model) {
    let Some(diagnosis) = model.input.diagnosis.clone() else {
        return say(model, "No earlier failure to compare with: paste the error.".into());
    };
    model.walk.before = Some(Box::new(diagnosis));
    model.input.since_it_worked.cancel();
    model.walk.was_not_enough();
    say(model, "Paste the new error: it is compared with the one before.".into());
}

fn escape(model: &mut Model) {
    if model.walk.waits_for.take().is_some() {
        return say(model, "No longer waiting for memory.".into());
    }
    let awaited_a_log = model.input.since_it_worked.cancel();
    if model.overlay.take().is_some() || model.notice.take().is_some() || awaited_a_log {
        return;
    }
    if !model.processes.filter.is_empty() {
        model.processes.filter.clear();
        return feed::keep_selection(model);
    }
    model.zoomed = false;
}

fn mark(model: &mut Model) {
    let Some(row) = model.selected() else { return say(model, model.no_target()) };
    match model.config.viewer.may_end(row.process) {
        Ok(key) => {
            if !model.processes.marked.remove(&key) {
                model.processes.marked.insert(key);
            }
            moved(model, 1);
        }
        Err(refusal) => say(model, endings::sentence(&refusal)),
    }
}

/// `x`: asks about the processes that are highlighted.
fn end(model: &mut Model) {
    if model.aim.unseen_until().is_some_and(|until| model.now < until) {
        return say(model, "The highlight just moved to another process. Look again.".into());
    }
    let is_in_list = model.focus == Region::Processes && model.processes.marked.is_empty();
    let selected = if is_in_list { model.selected() } else { None };
    let refused = selected.and_then(|row| model.config.viewer.may_end(row.process).err());
    match (model.refuses_all().or(refused), &model.aimed_at()[..]) {
        (Some(refusal), _) => say(model, endings::sentence(&refusal)),
        (None, []) => say(model, model.no_target()),
        (None, keys) => endings::ask_to_end(model, keys),
    }
}

/// The command that does the same as `x`, for a shell.
fn command_to_end(key: ProcessKey) -> String {
    format!("oomdoctor kill {key}")
}

/// Enter in the list: copies the command that would terminate the selected process.
fn copy_command_to_end(model: &mut Model) -> Option<Effect> {
    let Some(row) = model.selected() else {
        say(model, model.no_target());
        return None;
    };
    match model.config.viewer.may_end(row.process) {
        Ok(key) => Some(Effect::Copy(command_to_end(key))),
        Err(refusal) => {
            say(model, endings::sentence(&refusal));
            None
        }
    }
}

fn copy(model: &mut Model) -> Option<Effect> {
    let text = match model.focus {
        Region::Processes => model.selected().and_then(|row| row.process.command.known().cloned()),
        Region::Input => model.input.diagnosis.as_ref().and_then(|d| d.matches.first()).map(|found| found.text.clone()),
        Region::Steps => model.current_step().and_then(|step| step.steps.iter().find_map(|step| step.command.clone())),
    };
    if text.is_none() {
        say(model, "Nothing to copy here.".into());
    }
    text.map(Effect::Copy)
}

fn about(model: &mut Model) {
    if model.input.pages.is_empty() {
        return say(model, "No error yet: paste it first.".into());
    }
    model.overlay = match model.overlay {
        Some(Overlay::About(..)) => None,
        _ => Some(Overlay::About(0, 0)),
    };
}

/// Which rules led to these causes and steps, where there are any.
fn rules(model: &mut Model) {
    if matches!(model.overlay, Some(Overlay::Rules(_))) {
        model.overlay = None;
    } else if model.advice.is_some() {
        model.overlay = Some(Overlay::Rules(0));
    } else {
        say(model, "No error to explain yet: paste one first.".to_owned());
    }
}

fn toggle(model: &mut Model, overlay: Overlay) {
    model.overlay = if model.overlay.as_ref() == Some(&overlay) { None } else { Some(overlay) };
}

fn search(model: &mut Model) {
    let purpose = match model.focus {
        Region::Processes => Purpose::Filter,
        Region::Input => Purpose::Search,
        Region::Steps => return,
    };
    model.prompt = Some(Prompt { purpose, text: String::new() });
}

/// "What did you run?": what is known stands there to be changed.
fn what_ran(model: &mut Model) {
    let known = model.input.command.clone();
    let logged = || model.input.diagnosis.as_ref().and_then(|diagnosis| diagnosis.run.command.clone());
    let text = known.or_else(logged).unwrap_or_default();
    model.prompt = Some(Prompt { purpose: Purpose::Command, text });
}

fn which_model(model: &mut Model) {
    model.overlay = None;
    let text = model.input.model.clone().unwrap_or_default();
    model.prompt = Some(Prompt { purpose: Purpose::Model, text });
}

fn pause(model: &mut Model) {
    model.feed.paused = !model.feed.paused;
}

fn quit(model: &mut Model) -> Option<Effect> {
    let walking = model.advice.as_ref().is_some_and(|advice| !advice.plan.is_empty())
        && !model.walk.works
        && (!model.walk.behind.is_empty() || !model.endings.is_empty());
    let ending = model.endings.iter().any(|e| matches!(e.state, EndingState::Sending | EndingState::Waiting));
    if model.input.pipe == Pipe::Open {
        ask(
            model,
            Asked::Quit(
                "The piped job still runs. Its output stays open after quitting, so it does not die of a broken pipe."
                    .into(),
            ),
        );
    } else if ending {
        ask(model, Asked::Quit("A terminated process has not exited yet.".into()));
    } else if walking {
        ask(model, Asked::Quit("Some fixes were tried.".into()));
    } else {
        return Some(leave(model));
    }
    None
}

/// The mouse: a click does what stands there, or focuses and selects; the wheel scrolls what it is over.
pub(super) fn mouse(model: &mut Model, event: MouseEvent, moment: Duration) -> Vec<Effect> {
    if model.input.typing.is_some() || model.is_tiny() {
        return Vec::new();
    }
    let by: i32 = match event.kind {
        MouseEventKind::Down(MouseButton::Left) => return clicked(model, event.column, event.row, moment),
        MouseEventKind::ScrollDown => 3,
        MouseEventKind::ScrollUp => -3,
        _ => return Vec::new(),
    };
    if model.question.is_some() {
        return Vec::new();
    }
    if model.overlay == Some(Overlay::Trial) {
        // Each step chooses another setting.
        moved(model, by.signum());
    } else if model.overlay.is_some() {
        moved(model, by);
    } else if let Some(region) = model.layout().region_at(event.column, event.row) {
        let before = std::mem::replace(&mut model.focus, region);
        moved(model, by);
        model.focus = before;
    }
    Vec::new()
}

/// What stands on top was drawn last and is meant first.
fn clicked(model: &mut Model, column: u16, row: u16, moment: Duration) -> Vec<Effect> {
    let at = ratatui::layout::Position::new(column, row);
    let covered = model.question.is_some() || model.overlay.is_some();
    let target = model.targets.iter().rev().find(|target| target.area.contains(at)).filter(|t| t.on_top || !covered);
    match target.map(|target| target.does) {
        // The same way as a key from the keyboard: a question hears it no sooner, and a burst of clicks is no answer.
        Some(Click::Press(code)) => return pressed(model, KeyEvent::new(code, KeyModifiers::NONE), moment),
        Some(Click::Row(id)) => {
            model.focus = Region::Processes;
            let order = model.rows().into_iter().map(|row| row.id).collect();
            select(model, Some(id), order);
        }
        Some(Click::Step(at)) => {
            model.focus = Region::Steps;
            let step = model.steps_ahead().get(at).map(|step| StepId::of(step));
            model.walk.cursor = step.or(model.walk.cursor.take());
        }
        Some(Click::Log) => model.focus = Region::Input,
        Some(Click::Sort) => {
            model.focus = Region::Processes;
            return act(model, Action::Sort);
        }
        Some(Click::Item(item)) => {
            if let Some(Overlay::Symptoms(at) | Overlay::Actions(_, at)) = &mut model.overlay {
                // The first click selects, so that what is done was read before.
                if std::mem::replace(at, item) == item {
                    return certain(model, KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
                }
            }
        }
        // A click is a key, too: an answer that waits for another key is not sent.
        None if covered => drop(model.question.take_if(|question| question.is_sending())),
        None => model.focus = model.layout().region_at(column, row).unwrap_or(model.focus),
    }
    Vec::new()
}
