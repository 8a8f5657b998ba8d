//! Owns the verdict's pane: the sentence, the sums as a picture that adds up, what was needed, the evidence.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::format::{bar, cut, paragraph};
use super::picture::Picture;
use super::theme::Theme;
use crate::advice::ledger::Share;
use crate::advice::{Advice, words};
use crate::app::Model;
use crate::app::model::Region;
use crate::units::Bytes;

pub(super) fn render(model: &Model, theme: &Theme, area: Rect, picture: &mut Picture) {
    if area.is_empty() {
        return;
    }
    let block = super::frame(theme, " Why ", model.focus == Region::Steps);
    let inner = block.inner(area);
    picture.frame(area, block);
    let width = usize::from(inner.width).saturating_sub(2);
    let lines = match &model.advice {
        Some(advice) => verdict(model, advice, theme, width),
        None => nothing_yet(model, theme, width),
    };
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    picture.lines(inner, shortened(lines, usize::from(inner.height), width));
}

/// What has no room is said to go on.
fn shortened(mut lines: Vec<Line<'static>>, height: usize, width: usize) -> Vec<Line<'static>> {
    if lines.len() <= height {
        return lines;
    }
    lines.truncate(height);
    if let Some(last) = lines.pop() {
        let text: String = last.spans.iter().map(|span| span.content.as_ref()).collect();
        let text = text.trim_end();
        let fits = text.chars().count() + 2 <= width;
        let said = if fits { format!("{text} …") } else { cut(text, width.saturating_sub(2)) };
        let style = last.spans.first().map_or(last.style, |span| last.style.patch(span.style));
        lines.push(Line::styled(said, style));
    }
    lines
}

/// The sentence first, then the picture where there is room for it, then what was needed and the evidence.
fn verdict(model: &Model, advice: &Advice, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = paragraph(&advice.verdict.sentence, width, theme.sentence);
    // Of a second failure, how it differs is what one asks first.
    lines.extend(model.compared().iter().flat_map(|text| paragraph(text, width, theme.title)));
    if !model.is_small() {
        lines.extend(picture(advice, theme, width));
    }
    for text in words::verdict(advice).iter().skip(1) {
        lines.extend(paragraph(text, width, Style::new()));
    }
    lines
}

/// The sums: a bar over the whole width, and the same in words.
fn picture(advice: &Advice, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let Some(ledger) = &advice.ledger else { return Vec::new() };
    let (Some(capacity), Some(sums)) = (ledger.capacity_bytes, words::sums(advice)) else { return Vec::new() };
    let mut parts: Vec<(Bytes, Style, &'static str)> = Vec::new();
    for (at, held) in ledger.held_by.iter().enumerate() {
        parts.push(match held.share {
            Share::Driver => (held.bytes, theme.held, theme.sign("▒", "~")),
            Share::Other => (held.bytes, theme.held, theme.sign("▓", "=")),
            Share::Process | Share::Run if at % 2 == 0 => (held.bytes, theme.used, theme.sign("█", "#")),
            Share::Process | Share::Run => (held.bytes, theme.used, theme.sign("▆", "%")),
        });
    }
    let mut spans = vec![Span::raw(theme.sign("▕", "["))];
    spans.extend(bar(theme, capacity, &parts, width.saturating_sub(2).min(100)));
    spans.push(Span::raw(theme.sign("▏", "]")));
    let mut lines = vec![Line::from(spans)];
    lines.extend(paragraph(&sums, width, theme.quiet));
    lines
}

/// No log yet: how to give one, and what is worth a look meanwhile.
fn nothing_yet(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    if model.input.awaited.is_some() {
        return paragraph("Reading the log…", width, theme.quiet);
    }
    let mut lines = paragraph(
        "Paste the error of the job that died: I say what ran out, who holds it, and what to do.",
        width,
        theme.sentence,
    );
    if let Some(row) = model.largest_idle()
        && let Some(bytes) = row.process.used_bytes.value()
        && let Some(key) = row.process.key()
    {
        let (name, idle) = (crate::advice::name_of(row.process), model.activity_of(key));
        let text = format!("Largest idle process: {name}, {bytes} on GPU {}, {idle}.", row.id.device);
        lines.extend(paragraph(&text, width, theme.quiet));
    }
    lines
}
