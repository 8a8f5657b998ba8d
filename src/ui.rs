//! Owns the drawing: the screen is a function of the model. One pane a file; nothing here changes anything.

mod ascii;
mod fit;
mod footer;
pub mod format;
mod header;
mod input;
mod overlay;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test that keeps pictures")]
mod pictures;
mod processes;
mod steps;
#[cfg(test)]
mod tests;
pub mod theme;
mod why;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Paragraph, Widget, Wrap};

use crate::app::Model;
use crate::app::keymap;
use crate::app::layout::SMALLEST;
use crate::app::model::{Click, Seen, Target};
use theme::Theme;

/// The whole screen as text, a line each, without styles: for tests and for pictures.
pub fn drawn(model: &Model) -> String {
    let area = Rect::new(0, 0, model.size.0, model.size.1);
    let mut buffer = Buffer::empty(area);
    view(model, area, &mut buffer);
    let row = |y: u16| -> String { (0..area.width).filter_map(|x| buffer.cell((x, y))).map(|c| c.symbol()).collect() };
    (0..area.height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

/// Draws the whole screen, and says what of it can be seen and clicked.
pub fn view(model: &Model, area: Rect, buffer: &mut Buffer) -> Seen {
    let theme = Theme::of(&model.config);
    let layout = model.layout();
    let mut targets = Vec::new();
    if layout.tiny {
        too_small(area, buffer);
        ascii::only(theme.unicode, buffer);
        return Seen { targets, cut: true };
    }
    header::render(model, &theme, layout.header, buffer);
    header::tabs(model, &theme, layout.tabs, buffer, &mut targets);
    processes::render(model, &theme, layout.processes, buffer, &mut targets);
    input::render(model, &theme, layout.input, buffer);
    why::render(model, &theme, layout.why, buffer);
    steps::render(model, &theme, layout.steps, buffer, &mut targets);
    footer::render(model, &theme, layout.footer, buffer, &mut targets);
    let cut = overlay::render(model, &theme, area, buffer, &mut targets);
    ascii::only(theme.unicode, buffer);
    Seen { targets, cut }
}

/// A click on this line of an area; `None` where it is out of sight.
fn line_target(inner: Rect, line: usize, does: Click) -> Option<Target> {
    let line = u16::try_from(line).ok().filter(|line| *line < inner.height)?;
    Some(Target { area: Rect { y: inner.y + line, height: 1, ..inner }, does, on_top: false })
}

/// The keys of a line such as `[y] end it   [n] leave it`, which begins at this place: a click on one is that key.
fn pressable(theme: &Theme, line: &Line<'_>, (mut x, y): (u16, u16), on_top: bool, targets: &mut Vec<Target>) {
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

fn too_small(area: Rect, buffer: &mut Buffer) {
    let text = format!(
        "oomdoctor needs {}×{} characters, this is {}×{}. Make the terminal larger, or use: oomdoctor diagnose FILE",
        SMALLEST.0, SMALLEST.1, area.width, area.height
    );
    Paragraph::new(text).wrap(Wrap { trim: true }).render(area, buffer);
}

/// A region's frame: its title says what it is, the focused one stands out by more than colour.
fn frame<'a>(theme: &Theme, title: impl Into<Line<'a>>, focused: bool) -> Block<'a> {
    let block = Block::bordered().title(title).border_style(if focused { theme.focus } else { theme.border });
    match (theme.unicode, focused) {
        (true, true) => block.border_type(BorderType::Thick),
        (true, false) => block.border_type(BorderType::Plain),
        (false, _) => block.border_set(if focused { theme::ASCII_FOCUS } else { theme::ASCII }),
    }
}
