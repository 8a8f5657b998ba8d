//! Owns the log's pane: the log with its line numbers, the decisive line marked, the figures found in it underlined.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::format::{broken, cut, paragraph};
use super::pane;
use super::picture::Picture;
use super::theme::Theme;
use crate::app::Model;
use crate::app::action::Action;
use crate::app::model::{Change, Pipe, Region};
use crate::app::region::log::decisive_top;
use crate::knowledge::diagnosis::Diagnosis;
use crate::log::PastedLog;
use crate::log::prefix::before_message;

/// Line number and marker.
const GUTTER: usize = 7;

/// What stands before the message of a line may take this part of a row.
const LEFT_TO_PREFIXES: usize = 3;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture) {
    if area.is_empty() {
        return;
    }
    let block = pane::frame(theme, title(model, usize::from(area.width)), model.focus == Region::Input);
    let inner = block.inner(area);
    picture.frame(area, block);
    if let Some(editor) = &model.input.typing {
        return picture.widget(inner, editor.as_ref());
    }
    let Some(log) = &model.input.log else { return empty(model, theme, inner, picture) };
    let found = model.input.diagnosis.as_ref().and_then(figures_line);
    let foot = u16::from(found.is_some() && inner.height > 4);
    let body = Rect { height: inner.height - foot, ..inner };
    picture.lines(body, lines(model, theme, log, body));
    if let Some(found) = found
        && foot > 0
    {
        let at = Rect { y: inner.bottom() - 1, height: 1, ..inner };
        picture.lines(at, [Line::styled(cut(&found, usize::from(inner.width)), theme.quiet)]);
    }
}

fn title(model: &Model, width: usize) -> String {
    let title = match &model.input.log {
        _ if model.input.typing.is_some() => " Log: type the error, Esc when done ".to_owned(),
        Some(log) => {
            let shortened = model.input.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.is_shortened);
            let lines = match log.line_count() {
                1 => "line",
                _ if shortened => "lines kept of more",
                _ => "lines",
            };
            let count = log.line_count();
            let title = format!(" Log · {count} {lines}, {} ", model.input.origin);
            let more = unread(model);
            let long = match &more {
                Some(more) => format!("{title}· {more} "),
                None => format!("{title}· paste the next error here "),
            };
            let title = match more {
                _ if long.width() + 2 <= width => long,
                // The unread lines matter more than the name.
                Some(more) => format!(" Log · {more} "),
                None => title,
            };
            recorded(model, &title, count, width).unwrap_or(title)
        }
        None => " Log: paste the error here ".to_owned(),
    };
    cut(&title, width.saturating_sub(2))
}

/// The title with the key of the recording of the log's run: what the memory did before the failure.
fn recorded(model: &Model, title: &str, count: usize, width: usize) -> Option<String> {
    model.input.record.as_ref()?;
    let key = model.key(Action::Recording);
    let titles = [format!("{title}· {key} recording "), format!(" Log · {count} lines · {key} recording ")];
    titles.into_iter().find(|title| title.width() + 2 <= width)
}

/// What the log's file contains that was not read.
fn unread(model: &Model) -> Option<String> {
    if model.input.own {
        return None;
    }
    let file = model.input.file.as_ref()?;
    let key = model.key(Action::Reread);
    Some(match file.change? {
        Change::Grew(0) => format!("grown: {key} reads it"),
        Change::Grew(1) => format!("1 line more: {key} reads it"),
        Change::Grew(lines) => format!("{lines} lines more: {key} reads them"),
        Change::Anew => format!("begun anew: {key} reads it"),
        Change::Gone => "no longer there".to_owned(),
    })
}

fn empty(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture) {
    let width = usize::from(area.width);
    if let Some(why) = &model.input.trouble {
        return picture.lines(area, paragraph(why, width, theme.alarm));
    }
    let mut lines = match (&model.input.awaited, model.input.pipe) {
        (Some(_), _) => paragraph("Reading the log…", width, theme.quiet),
        (None, Pipe::Open) => paragraph("Waiting for the piped job's output…", width, theme.quiet),
        _ => Vec::new(),
    };
    if lines.is_empty() {
        if model.found_failure().is_some() {
            let (read, list) = (model.key(Action::ReadFound), model.key(Action::FoundLogs));
            let offer = format!("{read} reads the failed log that was found here, {list} lists all.");
            lines.extend(paragraph(&offer, width, theme.quiet));
            lines.push(Line::raw(""));
        }
        for text in [
            "Paste the error here, anywhere on this screen (Ctrl-Shift-V in most terminals).",
            "",
            "Or start it with the log:",
            "  oomdoctor crash.log",
            "  python -u train.py 2>&1 | oomdoctor",
            "",
            &format!(
                "No log? {} lists common messages to pick from. oomdoctor --demo shows an example.",
                model.key(Action::Symptoms)
            ),
        ] {
            lines.extend(paragraph(text, width, theme.quiet));
            if text.is_empty() {
                lines.push(Line::raw(""));
            }
        }
    }
    picture.lines(area, lines);
}

fn lines(model: &Model, theme: &Theme, log: &PastedLog, area: Rect) -> Vec<Line<'static>> {
    let top = model.input.top.unwrap_or_else(|| decisive_top(model));
    let width = usize::from(area.width).saturating_sub(GUTTER);
    let height = usize::from(area.height);
    let mut lines = Vec::new();
    for number in top + 1.. {
        if lines.len() >= height {
            break;
        }
        let Some(text) = log.line(number) else { break };
        // Wrap only the visible part of a very long line; 8 bytes a cell leave room for combining marks.
        let seen = text.floor_char_boundary((height - lines.len()).saturating_mul(width.max(1)).saturating_mul(8));
        lines.extend(log_line(model, theme, number, text.get(..seen).unwrap_or(text), width));
    }
    lines.truncate(height);
    lines
}

fn log_line(model: &Model, theme: &Theme, number: usize, text: &str, width: usize) -> Vec<Line<'static>> {
    let diagnosis = model.input.diagnosis.as_ref();
    let decisive = diagnosis.and_then(|d| d.matches.first()).is_some_and(|found| found.row == number);
    let base = if decisive { theme.decisive } else { Style::new() };
    let searched = !model.input.search.is_empty() && text.to_lowercase().contains(&model.input.search.to_lowercase());
    let base = if searched { base.patch(theme.selected) } else { base };
    let marker = if decisive { theme.sign("▶", ">") } else { " " };
    let gutter = if decisive { base } else { theme.quiet };
    let mut shown = Vec::new();
    let log = model.input.log.as_ref();
    let in_file = log.map_or(number, |log| log.number_in_file(number));
    let start = if searched { 0 } else { start_of_message(text, width) };
    let mut pieces = styled(diagnosis, theme, number, (text, start), base);
    if start > 0 {
        pieces.insert(0, (theme.sign("…", "~").to_owned(), theme.quiet));
    }
    for (row, line) in broken(&pieces, width).into_iter().enumerate() {
        let label = if row == 0 { format!("{marker}{in_file:>5} ") } else { " ".repeat(GUTTER) };
        let mut spans = vec![Span::styled(label, gutter)];
        spans.extend(line.spans);
        shown.push(Line::from(spans));
    }
    shown
}

/// Where a line begins to be shown: what would take most of a row before the message is left out.
pub(super) fn start_of_message(text: &str, width: usize) -> usize {
    let start = before_message(text);
    let columns = text.get(..start).map_or(0, |before| before.width());
    if columns > width / LEFT_TO_PREFIXES && text.len() > start { start } else { 0 }
}

/// The line from a byte on in pieces: the figures found in it are underlined.
fn styled(
    diagnosis: Option<&Diagnosis>,
    theme: &Theme,
    number: usize,
    (text, start): (&str, usize),
    base: Style,
) -> Vec<(String, Style)> {
    let mut spans: Vec<_> = diagnosis
        .into_iter()
        .flat_map(|d| &d.figures)
        .filter(|figure| figure.row == number)
        .map(|figure| figure.span.clone())
        .collect();
    spans.sort_by_key(|span| span.start);
    let mut pieces = Vec::new();
    let mut done = start;
    for span in spans {
        if span.start < done {
            continue;
        }
        let (Some(before), Some(figure)) = (text.get(done..span.start), text.get(span.clone())) else { continue };
        pieces.push((before.replace('\t', "    "), base));
        pieces.push((figure.to_owned(), base.patch(theme.figure)));
        done = span.end;
    }
    pieces.push((text.get(done..).unwrap_or_default().replace('\t', "    "), base));
    pieces
}

/// The figures in words, under the log.
fn figures_line(diagnosis: &Diagnosis) -> Option<String> {
    let line = diagnosis.matches.first()?.line;
    let facts = &diagnosis.facts;
    let mut said: Vec<String> = [
        ("asked", facts.requested_bytes),
        ("total", facts.total_bytes),
        ("free", facts.free_bytes),
        ("limit", facts.limit_bytes),
    ]
    .into_iter()
    .filter_map(|(word, bytes)| bytes.map(|bytes| format!("{word} {bytes}")))
    .collect();
    if let (Some(asked), room) = (facts.context_tokens, facts.max_tokens) {
        said.push(match room {
            Some(room) => format!("context {asked} tokens, room for {room}"),
            None => format!("context {asked} tokens"),
        });
    }
    said.push(format!("line {line}"));
    Some(said.join(" · "))
}
