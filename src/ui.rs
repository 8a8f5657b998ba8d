//! Owns the drawing: the screen is a function of the model. One pane a file; nothing here changes anything.

mod ascii;
mod detail;
mod fixes;
mod footer;
pub(crate) mod format;
mod gpus;
mod header;
mod input;
mod overlay;
mod pane;
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

use ratatui::style::Style;

use crate::app::Model;
use crate::app::layout::SMALLEST;
use crate::app::model::Seen;
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

fn too_small(picture: &mut Picture) {
    let area = picture.area();
    let text = format!(
        "oomdoctor needs {}×{} characters, this is {}×{}. Make the terminal larger, or use: oomdoctor diagnose FILE",
        SMALLEST.0, SMALLEST.1, area.width, area.height
    );
    picture.lines(area, format::paragraph(&text, usize::from(area.width), Style::new()));
}
