//! Owns the window of an overlay or a question: its place on the screen, its frame, and what of it can be clicked.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::app::model::{Click, Target};
use crate::ui::format::cut;
use crate::ui::pane;
use crate::ui::picture::Picture;
use crate::ui::theme::Theme;

pub(super) struct Window {
    pub title: String,
    pub lines: Vec<Line<'static>>,
    /// How many of the last lines have keys, each of which can be clicked.
    pub lines_of_keys: usize,
    pub items: Option<Items>,
    /// Where it lies; in the middle of the screen if nothing is said.
    pub place: Option<Rect>,
}

/// Lines that can be picked.
pub(super) struct Items {
    /// The first line that is an item, and which item it is.
    pub first_line: usize,
    pub first: usize,
    pub count: usize,
}

impl Window {
    /// The window in the middle of the screen.
    pub(super) fn centered(lines: &[Line<'_>], width: usize, area: Rect) -> Rect {
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
        let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(4).min(area.width);
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
    }

    pub(super) fn draw(self, theme: &Theme, width: usize, picture: &mut Picture, targets: &mut Vec<Target>) {
        let over = self.place.unwrap_or_else(|| Window::centered(&self.lines, width, picture.area()));
        picture.blank(over);
        let title = cut(&format!(" {} ", self.title), usize::from(over.width.saturating_sub(2)));
        let block = pane::frame_on_top(theme, Span::styled(title, theme.title));
        let inner = block.inner(over);
        picture.frame(over, block);
        let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
        let rows_from_below = (inner.y..inner.bottom()).rev();
        for (keys, y) in self.lines.iter().rev().zip(rows_from_below).take(self.lines_of_keys) {
            pane::pressable(theme, keys, (inner.x, y), true, targets);
        }
        if let Some(items) = self.items {
            let rows = 0..items.count;
            let lines =
                rows.filter_map(|row| pane::line_target(inner, items.first_line + row, Click::Item(items.first + row)));
            targets.extend(lines.map(|target| Target { on_top: true, ..target }));
        }
        picture.lines(inner, self.lines);
    }
}
