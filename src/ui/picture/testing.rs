//! Owns a terminal that tests can look at.

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

    pub(crate) fn rehearse(&mut self, picture: &Picture, area: Rect) {
        self.shown.rehearse(picture, area);
    }

    /// How many rows were painted for it.
    pub(crate) fn show(&mut self, picture: Picture) -> usize {
        let area = picture.area();
        if !self.shown.is_of(area) {
            self.screen = vt100::Parser::new(area.height, area.width, 0);
            self.shown.clear(area);
        }
        let parts = picture.differences(&self.shown.picture);
        let mut written = Vec::new();
        self.shown.show(picture, &mut Pen::new(&mut written, true)).unwrap();
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
        look(self.screen.screen(), place)
    }
}

/// What can be seen of a cell: where there is no character, neither its color nor its weight.
pub(super) fn look(screen: &vt100::Screen, place: Position) -> impl PartialEq + std::fmt::Debug {
    let cell = screen.cell(place.y, place.x).unwrap();
    let text = if cell.has_contents() { cell.contents() } else { " " };
    let is_bare = text == " " && !cell.inverse() && !cell.underline();
    let fg = if is_bare { vt100::Color::Default } else { cell.fgcolor() };
    let weight = if is_bare { (false, false, false) } else { (cell.bold(), cell.dim(), cell.italic()) };
    (text.to_owned(), fg, cell.bgcolor(), weight, cell.underline(), cell.inverse())
}

/// How many bytes it takes to show one screen after the other, but for the first.
pub(crate) fn bytes_between(screens: &[Picture], has_escapes: bool) -> usize {
    let Some(first) = screens.first() else { return 0 };
    let (mut shown, mut written) = (Shown::blank(first.area()), Vec::new());
    shown.show(first.clone(), &mut Pen::new(&mut written, has_escapes)).unwrap();
    let of_first = written.len();
    for picture in screens {
        shown.show(picture.clone(), &mut Pen::new(&mut written, has_escapes)).unwrap();
    }
    written.len() - of_first
}
