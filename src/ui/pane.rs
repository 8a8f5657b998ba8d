//! Owns what every pane is made of: its frame, and the places of it that can be clicked.

use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType};

use super::picture::Picture;
use super::theme::{ASCII, ASCII_ON_TOP, Theme};
use crate::app::Model;
use crate::app::keymap;
use crate::app::model::{Click, Region, Target};

/// A click on this line of an area; `None` where it is out of sight.
pub(super) fn line_target(inner: Rect, line: usize, does: Click) -> Option<Target> {
    let line = u16::try_from(line).ok().filter(|line| *line < inner.height)?;
    Some(Target { area: Rect { y: inner.y + line, height: 1, ..inner }, does, on_top: false })
}

/// The keys of a line such as `[y] end it   [n] leave it`, which begins at this place: a click on one is that key.
pub(super) fn pressable(
    theme: &Theme,
    line: &Line<'_>,
    (mut x, y): (u16, u16),
    on_top: bool,
    targets: &mut Vec<Target>,
) {
    let mut key = None;
    for span in &line.spans {
        let width = u16::try_from(span.width()).unwrap_or(u16::MAX);
        if span.style == theme.key {
            key = keymap::code(span.content.trim().trim_matches(['[', ']']));
        }
        if let Some(code) = key {
            targets.push(Target { area: Rect { x, y, width, height: 1 }, does: Click::Press(code), on_top });
        }
        x = x.saturating_add(width);
    }
}

/// Where a region's text goes: on a large screen inside a frame with its title.
pub(super) fn region(
    model: &Model,
    theme: &Theme,
    title: String,
    region: Region,
    area: Rect,
    picture: &mut Picture,
) -> Rect {
    if model.is_small() {
        return area;
    }
    let block = frame(theme, title, model.focus == region);
    let inner = block.inner(area);
    picture.frame(area, block);
    inner
}

/// A region's frame. Its title says what it is; that of the focused one is bold, behind a pointer. The lines stay as they
/// are: over a slow line they would take most of what going to another region costs.
pub(super) fn frame(theme: &Theme, title: String, focused: bool) -> Block<'static> {
    let title = match title.strip_prefix(' ') {
        Some(rest) if focused => Line::styled(format!("{}{rest}", theme.sign("▸", ">")), theme.focus),
        _ => Line::raw(title),
    };
    let block = Block::bordered().title(title).border_style(theme.border);
    if theme.unicode { block.border_type(BorderType::Plain) } else { block.border_set(ASCII) }
}

/// The frame of what lies over the regions.
pub(super) fn frame_on_top(theme: &Theme, title: impl Into<Line<'static>>) -> Block<'static> {
    let block = Block::bordered().title(title).border_style(theme.title);
    if theme.unicode { block.border_type(BorderType::Thick) } else { block.border_set(ASCII_ON_TOP) }
}
