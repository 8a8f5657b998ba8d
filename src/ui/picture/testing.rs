//! Owns a terminal that tests can look at.

use ratatui::backend::CrosstermBackend;
use ratatui::layout::Position;

use super::*;
use crate::app::Model;

#[derive(Default)]
pub(crate) struct Terminal {
    shown: Shown,
    screen: vt100::Parser,
}

impl Terminal {
    pub(crate) fn draw(&mut self, model: &Model) {
        self.show(crate::ui::view(model).0);
    }

    /// How many rows were painted for it.
    pub(crate) fn show(&mut self, picture: Picture) -> usize {
        let area = picture.area();
        if !self.shown.is_of(area) {
            (self.screen, self.shown) = (vt100::Parser::new(area.height, area.width, 0), Shown::blank(area));
        }
        let parts = picture.differences(&self.shown.picture);
        let mut written = Vec::new();
        self.shown.show(picture, &mut CrosstermBackend::new(&mut written)).unwrap();
        self.screen.process(&written);
        parts.iter().map(|part| usize::from(part.height)).sum()
    }

    /// It looks as if all of its picture had been drawn on an empty screen.
    pub(crate) fn assert_whole(&self) {
        let mut whole = Terminal::default();
        whole.show(self.shown.picture.clone());
        for place in self.shown.picture.area().positions() {
            assert_eq!(self.look(place), whole.look(place), "{place}\n{}", self.screen.screen().contents());
        }
    }

    fn look(&self, place: Position) -> impl PartialEq + std::fmt::Debug {
        let cell = self.screen.screen().cell(place.y, place.x).unwrap();
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let weight = (cell.bold(), cell.dim(), cell.italic());
        (text.to_owned(), cell.fgcolor(), cell.bgcolor(), weight, cell.underline(), cell.inverse())
    }
}
