//! Owns what keys do in the log: scrolling, searching, editing; and which line is shown first.

use unicode_width::UnicodeWidthStr;

use crate::app::editor;
use crate::app::layout::LOG_MARGIN;
use crate::app::model::{Model, Region};
use crate::app::prompt::{Prompt, Purpose};
use crate::app::scroll::shifted;

pub(super) fn moved(model: &mut Model, by: i32) {
    let lines = model.input.log.as_ref().map_or(0, |log| log.line_count());
    let here = model.input.top.unwrap_or_else(|| decisive_top(model));
    model.input.top = Some(shifted(here, by, lines));
}

/// Opens the editor with the log.
pub(super) fn edit(model: &mut Model) {
    let text = model.input.log.as_ref().map_or("", |log| log.raw());
    match editor::with_text(text) {
        Some(editor) => model.input.typing = Some(Box::new(editor)),
        None => model.say("This log is too long to edit here; paste more and choose append instead."),
    }
}

pub(super) fn ask_for_search(model: &mut Model) {
    model.prompt = Some(Prompt::new(Purpose::Search, ""));
}

/// Searches for this text and goes to its first hit.
pub(crate) fn search(model: &mut Model, text: String) {
    model.input.search = text;
    go_to_hit(model, true);
}

/// The lines that contain what was searched for, counted from 0.
fn hits(model: &Model) -> Vec<usize> {
    let wanted = model.input.search.to_lowercase();
    match &model.input.log {
        Some(log) if !wanted.is_empty() => {
            let found = log.lines().filter(|(_, line)| line.to_lowercase().contains(&wanted));
            found.map(|(number, _)| number - 1).collect()
        }
        _ => Vec::new(),
    }
}

/// Goes to the next or the previous hit, around the end.
pub(crate) fn go_to_hit(model: &mut Model, is_forward: bool) {
    let hits = hits(model);
    let here = model.input.top;
    let next = if is_forward {
        hits.iter().find(|line| here.is_none_or(|here| **line > here)).or(hits.first())
    } else {
        hits.iter().rev().find(|line| here.is_none_or(|here| **line < here)).or(hits.last())
    };
    match next {
        Some(line) => model.input.top = Some(*line),
        None if model.input.search.is_empty() => {}
        None => model.say(format!("\"{}\" is not in this log", model.input.search)),
    }
}

/// Shows the line of the log that this page is about.
pub(crate) fn show_page(model: &mut Model, which: usize) {
    let line = model.input.pages.get(which).and_then(|page| page.row);
    model.focus = Region::Input;
    model.input.top = line.map(|line| top_for(model, line));
}

/// The text of the decisive line.
pub(super) fn decisive_line(model: &Model) -> Option<String> {
    Some(model.input.diagnosis.as_ref()?.matches.first()?.text.clone())
}

/// The first line to show, counted from 0: the decisive line is a third down.
pub(crate) fn decisive_top(model: &Model) -> usize {
    let line = model.input.diagnosis.as_ref().and_then(|d| d.matches.first()).map_or(1, |found| found.row);
    top_for(model, line)
}

/// The first line to show, counted from 0, where this one (counted from 1) is a third down: long lines before it take several
/// rows.
fn top_for(model: &Model, line: usize) -> usize {
    let area = model.layout().input;
    let columns = usize::from(area.width).saturating_sub(LOG_MARGIN).max(1);
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
