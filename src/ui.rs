//! Owns the drawing: the screen is a function of the model. One pane a file; nothing here changes anything.

mod ascii;
mod detail;
mod fit;
mod fixes;
mod footer;
pub(crate) mod format;
mod gpus;
mod header;
mod input;
mod overlay;
pub mod picture;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test that keeps pictures")]
mod pictures;
mod processes;
mod proofs;
#[cfg(test)]
mod tests;
pub(crate) mod theme;
mod verdict;

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType};

use crate::app::Model;
use crate::app::keymap;
use crate::app::layout::SMALLEST;
use crate::app::model::{Click, Region, Seen, Target};
use picture::Picture;
use theme::Theme;

/// The whole screen as text, a line each, without styles: for tests and for pictures.
pub fn drawn(model: &Model) -> String {
    let (picture, _) = view(model);
    let (area, buffer) = (picture.area(), picture.painted());
    let row = |y: u16| -> String { (0..area.width).filter_map(|x| buffer.cell((x, y))).map(|c| c.symbol()).collect() };
    (0..area.height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

/// What is to be seen, and what of it can be seen and clicked.
pub fn view(model: &Model) -> (Picture, Seen) {
    let theme = Theme::of(&model.config);
    let layout = model.layout();
    let (mut picture, mut targets) = (Picture::new(model.size, theme.unicode), Vec::new());
    let seen = &mut picture;
    if layout.tiny {
        too_small(seen);
        return (picture, Seen { targets, cut: true });
    }
    header::render(model, &theme, layout.header, seen);
    verdict::render(model, &theme, layout.verdict, seen, &mut targets);
    processes::render(model, &theme, layout.processes, seen, &mut targets);
    input::render(model, &theme, layout.input, seen);
    fixes::render(model, &theme, layout.steps, seen, &mut targets);
    detail::render(model, &theme, layout.detail, seen, &mut targets);
    footer::render(model, &theme, layout.footer, seen, &mut targets);
    let cut = overlay::render(model, &theme, seen, &mut targets);
    (picture, Seen { targets, cut })
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

fn too_small(picture: &mut Picture) {
    let area = picture.area();
    let text = format!(
        "oomdoctor needs {}×{} characters, this is {}×{}. Make the terminal larger, or use: oomdoctor diagnose FILE",
        SMALLEST.0, SMALLEST.1, area.width, area.height
    );
    picture.lines(area, format::paragraph(&text, usize::from(area.width), Style::new()));
}

/// Where a region's text goes: on a large screen inside a frame with its title.
fn region(model: &Model, theme: &Theme, title: String, region: Region, area: Rect, picture: &mut Picture) -> Rect {
    if model.is_small() {
        return area;
    }
    let block = frame(theme, title, model.focus == region);
    let inner = block.inner(area);
    picture.frame(area, block);
    inner
}

/// A region's frame: its title says what it is, the focused one stands out by more than colour.
fn frame(theme: &Theme, title: impl Into<Line<'static>>, focused: bool) -> Block<'static> {
    let block = Block::bordered().title(title).border_style(if focused { theme.focus } else { theme.border });
    match (theme.unicode, focused) {
        (true, true) => block.border_type(BorderType::Thick),
        (true, false) => block.border_type(BorderType::Plain),
        (false, _) => block.border_set(if focused { theme::ASCII_FOCUS } else { theme::ASCII }),
    }
}
