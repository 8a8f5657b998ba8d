//! Owns the last line: what was just said, a line being typed, or the keys that work now.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::format::cut;
use super::theme::Theme;
use crate::app::Model;
use crate::app::keymap::BINDINGS;
use unicode_width::UnicodeWidthStr;

/// Draws the line.
pub fn render(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    if let Some(prompt) = &model.prompt {
        let what = if prompt.filters { "filter" } else { "search" };
        return Line::raw(cut(&format!(" {what}: {}_", prompt.text), width)).render(area, buffer);
    }
    if let Some((text, _)) = &model.notice {
        return Line::styled(cut(&format!(" {text}"), width), theme.title).render(area, buffer);
    }
    let mut spans = Vec::new();
    let mut used = 1;
    let here = BINDINGS.iter().filter(|binding| binding.region.is_none_or(|region| region == model.focus));
    for binding in here.filter(|binding| !binding.words.is_empty() && !binding.ctrl) {
        let width_of = binding.shown.width() + binding.words.width() + 4;
        if used + width_of > width {
            continue;
        }
        used += width_of;
        spans.push(Span::styled(format!(" {}", binding.shown), theme.key));
        spans.push(Span::styled(format!(" {} {}", binding.words, theme.sign("·", "|")), theme.quiet));
    }
    Line::from(spans).render(area, buffer);
}
