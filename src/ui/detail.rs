//! Owns the pane of the selected fix or process: what to do, the exact command, what to expect, why, and the keys.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::format::cut;
use super::pane;
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::PlannedFix;
use crate::app::Model;
use crate::app::action::Action;
use crate::app::detail::{LABEL, Paragraph, enter_in_words, lines_that_fit, paragraphs};
use crate::app::model::{Region, Source, Target};
use crate::app::rerun;
use crate::app::walk::EndingState;
use crate::gpu::ProcessKey;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture, targets: &mut Vec<Target>) {
    if area.is_empty() {
        return;
    }
    let inner = if model.is_small() {
        area
    } else {
        let block = pane::frame(theme, cut(&title(model), usize::from(area.width.saturating_sub(2))), false);
        let inner = block.inner(area);
        picture.frame(area, block);
        inner
    };
    let width = usize::from(inner.width.saturating_sub(1));
    // On a small screen the last line has the keys.
    let keys = if model.is_small() { Vec::new() } else { keys(model, theme, width) };
    let height = usize::from(inner.height);
    let room = height.saturating_sub(usize::from(!keys.is_empty()));
    let most = lines_that_fit(model, width, room);
    let mut lines: Vec<Line<'static>> =
        paragraphs(model).iter().flat_map(|paragraph| lines_of(paragraph, theme, width, most)).collect();
    // The last lines are cut first; `z` shows all.
    if lines.len() > room {
        lines.truncate(room.saturating_sub(1));
        if room > 0 {
            let goes_on = theme.sign("…", "...");
            let text = if model.zoomed {
                format!(" {goes_on} a larger screen shows all")
            } else {
                format!(" {goes_on} {} shows all", model.key(Action::Zoom))
            };
            lines.push(Line::styled(text, theme.quiet));
        }
    }
    // Keys that have no room in the first line stand in the free ones.
    for line in keys.into_iter().take(height.saturating_sub(lines.len())) {
        let y = inner.y + u16::try_from(lines.len()).unwrap_or(u16::MAX);
        pane::pressable(theme, &line, (inner.x, y), false, targets);
        lines.push(line);
    }
    picture.lines(inner, lines);
}

fn title(model: &Model) -> String {
    match (model.focus, model.selected(), model.current_step()) {
        (Region::Processes, Some(row), _) => format!(" {} ", crate::advice::name_of(&row.process)),
        (_, _, Some(step)) => format!(" {} ", step.title),
        _ => " Next ".to_owned(),
    }
}

fn lines_of(paragraph: &Paragraph, theme: &Theme, width: usize, most: usize) -> Vec<Line<'static>> {
    let (label, style) = match paragraph {
        Paragraph::Do(_) => ("", Style::new()),
        Paragraph::Command(_) => ("", theme.command),
        Paragraph::Labeled(label, _) => (*label, Style::new()),
        Paragraph::Proof(_) => ("", theme.good),
        Paragraph::Note(_) => ("", theme.quiet),
    };
    let wrapped = paragraph.wrapped(width, most).into_iter().enumerate();
    wrapped
        .map(|(at, line)| {
            let head = if at == 0 { label } else { "" };
            let head = if label.is_empty() { " ".to_owned() } else { format!(" {head:<LABEL$}") };
            Line::from(vec![Span::styled(head, theme.quiet), Span::styled(line, style)])
        })
        .collect()
}

/// What can be done with the selected fix; while memory is waited for, with the process that uses it.
fn keys(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let offers = match (model.focus, model.current_step()) {
        (Region::Processes, _) => of_process(model),
        (_, Some(planned)) => of_fix(model, planned),
        (_, None) => while_waiting(model),
    };
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut room = 0;
    for (action, words) in offers {
        let (key, words) = (model.key(action), format!(" {words}   "));
        let wide = key.width() + words.trim_end().width() + 1;
        if wide > room {
            lines.push(Line::raw(" "));
            room = width;
        }
        room = room.saturating_sub(key.width() + words.width());
        if let Some(line) = lines.last_mut() {
            line.spans.extend([Span::styled(key, theme.key), Span::raw(words)]);
        }
    }
    lines
}

fn of_process(model: &Model) -> Vec<(Action, &'static str)> {
    let Some(key) = model.selected().and_then(|row| row.process.key()) else { return Vec::new() };
    let marks = if model.processes.marked.contains(&key) { "unmark" } else { "mark" };
    let mut offers = Vec::new();
    if model.aims_at_marks() {
        offers.push((Action::End, "terminate marked…"));
    } else if may_end(model, key) {
        offers.push((Action::End, "terminate…"));
    }
    if may_end(model, key) {
        offers.push((Action::Mark, marks));
    }
    offers
}

/// A process that was signalled already, or has exited, is only waited for.
fn while_waiting(model: &Model) -> Vec<(Action, &'static str)> {
    let mut offers = Vec::new();
    let state = model.awaited().map(|ending| &ending.state);
    if matches!(state, Some(EndingState::Elsewhere { .. } | EndingState::Asked(_))) {
        offers.push((Action::End, "terminate…"));
    }
    if !model.steps_ahead().is_empty() && model.awaited().is_some() {
        offers.push((Action::Move(1), "another fix"));
    }
    offers
}

fn of_fix(model: &Model, planned: &PlannedFix) -> Vec<(Action, &'static str)> {
    let copies = planned.steps.iter().any(|step| step.command.is_some());
    let releases = model.release_of(planned).is_some();
    let mut offers = vec![(Action::Enter, enter_in_words(model, planned))];
    if planned.target.is_some_and(|target| may_end(model, target)) {
        offers.push((Action::End, "terminate…"));
    }
    if releases && copies {
        offers.push((Action::Copy, "copy command"));
    }
    if rerun::refused(model).is_none() && model.config.source == Source::Live {
        offers.push((Action::RunAgain, "run again…"));
    }
    offers.push((Action::Skip, "skip"));
    offers
}

/// Another user's process can be asked to release its memory, not terminated.
fn may_end(model: &Model, target: ProcessKey) -> bool {
    let row = model.snapshot().and_then(|snapshot| snapshot.find(target));
    model.refuses_all().is_none() && row.is_some_and(|(_, row)| model.config.viewer.may_end(row).is_ok())
}
