//! Owns the picture of a screen before it is cells: pieces at their places. From one picture to the next only the rows that
//! differ are painted, and of a row only the columns that do. There is one way to paint, for a part as for the whole screen, so
//! nothing goes stale.

mod change;
mod pen;

use std::io;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Widget};

use super::ascii;
pub use pen::Pen;

/// A screen as it should be. Later pieces lie on earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    area: Rect,
    unicode: bool,
    pieces: Vec<(Rect, Piece)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    /// A region's border and title.
    Frame(Box<Block<'static>>),
    /// Text, a line a row.
    Lines(Vec<Line<'static>>),
    /// What lies below is hidden.
    Blank,
    /// Cells that a widget painted.
    Cells(Buffer),
}

impl Picture {
    /// An empty screen of this size.
    pub fn new((columns, rows): (u16, u16), unicode: bool) -> Picture {
        Picture { area: Rect::new(0, 0, columns, rows), unicode, pieces: Vec::new() }
    }

    pub fn area(&self) -> Rect {
        self.area
    }

    /// A region's border and title.
    pub fn frame(&mut self, area: Rect, block: Block<'static>) {
        self.add(area, Piece::Frame(Box::new(block)));
    }

    /// As many of these lines as there are rows. Text at one place may not lie on text at another, but for what is on
    /// top of a `blank`.
    pub fn lines(&mut self, area: Rect, lines: impl IntoIterator<Item = Line<'static>>) {
        self.add(area, Piece::Lines(lines.into_iter().take(usize::from(area.height)).collect()));
    }

    /// Hides what is there so far.
    pub fn blank(&mut self, area: Rect) {
        self.add(area, Piece::Blank);
    }

    /// Something that paints itself.
    pub fn widget(&mut self, area: Rect, widget: impl Widget) {
        let area = area.intersection(self.area);
        let mut cells = Buffer::empty(area);
        widget.render(area, &mut cells);
        self.add(area, Piece::Cells(cells));
    }

    fn add(&mut self, area: Rect, piece: Piece) {
        let area = area.intersection(self.area);
        if !area.is_empty() {
            self.pieces.push((area, piece));
        }
    }

    /// The whole of it.
    pub fn painted(&self) -> Buffer {
        self.painted_on(Buffer::empty(self.area))
    }

    /// A part of it: all of the screen, or what differs of a row of text. `buffer` is empty, and of that part.
    fn painted_on(&self, mut buffer: Buffer) -> Buffer {
        let part = buffer.area;
        for (area, piece) in &self.pieces {
            match piece {
                _ if !area.intersects(part) => {}
                Piece::Lines(lines) => {
                    for (row, line) in area.rows().zip(lines) {
                        change::paint(line, row, part, &mut buffer);
                    }
                }
                _ if !within(*area, part) => {}
                Piece::Frame(block) => block.as_ref().render(*area, &mut buffer),
                Piece::Blank => put(&mut buffer, &Buffer::empty(*area)),
                Piece::Cells(cells) => put(&mut buffer, cells),
            }
        }
        ascii::only(self.unicode, &mut buffer);
        buffer
    }

    /// The parts that have to be painted where `before` is seen: columns of rows of text, or all of it.
    fn differences(&self, before: &Picture) -> Vec<Rect> {
        if self == before {
            return Vec::new();
        }
        if !self.differs_only_in_text(before) {
            return vec![self.area];
        }
        let mut rows = Vec::new();
        for ((area, now), (_, then)) in self.pieces.iter().zip(&before.pieces) {
            let (Piece::Lines(now), Piece::Lines(then)) = (now, then) else { continue };
            let changed = area.rows().enumerate().filter(|(at, _)| now.get(*at) != then.get(*at));
            rows.extend(changed.filter_map(|(at, row)| change::part(now.get(at), then.get(at), row)));
        }
        rows
    }

    /// Whether only text differs: every piece is at its place, and none lies on another.
    fn differs_only_in_text(&self, before: &Picture) -> bool {
        (self.area, self.unicode, self.pieces.len()) == (before.area, before.unicode, before.pieces.len())
            && self.pieces.iter().zip(&before.pieces).all(|(now, then)| differ_only_in_text(now, then))
    }
}

fn differ_only_in_text((area, piece): &(Rect, Piece), (area_before, piece_before): &(Rect, Piece)) -> bool {
    let are_text = matches!((piece, piece_before), (Piece::Lines(_), Piece::Lines(_)));
    area == area_before && (are_text || piece == piece_before && *piece != Piece::Blank)
}

fn within(area: Rect, part: Rect) -> bool {
    area.intersection(part) == area
}

/// Lays cells over others; those without a place there are left out.
fn put(buffer: &mut Buffer, cells: &Buffer) {
    for (position, cell) in cells.area.positions().zip(&cells.content) {
        if let Some(place) = buffer.cell_mut(position) {
            place.clone_from(cell);
        }
    }
}

/// What a terminal shows.
#[derive(Debug, Default)]
pub struct Shown {
    picture: Picture,
    /// Its cells, while one screen after the other is painted whole. Else none are kept.
    cells: Option<Buffer>,
    /// The cells of the rehearsal, which the first screen is painted on.
    spare: Option<Buffer>,
}

impl Shown {
    /// Whether it shows pictures of this size. If not, it has to be cleared.
    pub fn is_of(&self, area: Rect) -> bool {
        self.picture.area == area
    }

    pub fn blank(area: Rect) -> Shown {
        Shown { picture: Picture { area, ..Picture::default() }, ..Shown::default() }
    }

    /// Was cleared, and has this size from now on.
    pub fn clear(&mut self, area: Rect) {
        *self = Shown { spare: self.spare.take(), ..Shown::blank(area) };
    }

    /// Writes what differs. The picture has the size of what is shown.
    pub fn show<W: io::Write>(&mut self, picture: Picture, pen: &mut Pen<W>) -> io::Result<()> {
        pen.is_wide(picture.area.width);
        let before = std::mem::replace(&mut self.picture, picture);
        let parts = self.picture.differences(&before);
        if parts == [self.picture.area] {
            let is_blank = before.pieces.is_empty();
            let then = self.cells.take().or_else(|| (!is_blank).then(|| before.painted()));
            let blank = emptied(self.spare.take().unwrap_or_default(), self.picture.area);
            let now = self.cells.insert(self.picture.painted_on(blank));
            return pen.draw(std::iter::once((then.as_ref(), &*now)));
        }
        if !parts.is_empty() {
            self.cells = None;
        }
        let painted: Vec<[Buffer; 2]> = parts
            .into_iter()
            .map(|part| [&before, &self.picture].map(|picture| picture.painted_on(Buffer::empty(part))))
            .collect();
        pen.draw(painted.iter().map(|[then, now]| (Some(then), now)))
    }

    /// Goes through all that showing a first picture takes, and shows nothing. The first time it takes several times as long: its
    /// memory and its code have to be fetched. The picture may be smaller than the screen, which has this area: it takes less time,
    /// and runs the same code.
    pub fn rehearse(&mut self, picture: &Picture, area: Rect) {
        let mut painted = picture.painted();
        // With escape sequences on every system: without them an old console of Windows is drawn on by calls, not by what is written.
        let mut pen = Pen::new(io::sink(), true);
        pen.is_wide(picture.area.width);
        // Writing to nowhere can't fail.
        let _ = pen.draw(std::iter::once((None, &painted)));
        painted.resize(area);
        self.spare = Some(painted);
    }
}

/// Cells of this area, none of which has anything in it.
fn emptied(mut cells: Buffer, area: Rect) -> Buffer {
    cells.resize(area);
    cells.reset();
    cells
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use ratatui::text::Line;

    use super::testing::Terminal;
    use super::*;

    fn picture(texts: [&'static str; 3], over: Option<&'static str>) -> Picture {
        let mut picture = Picture::new((12, 5), true);
        picture.frame(Rect::new(0, 0, 12, 5), Block::bordered().title("list"));
        picture.lines(Rect::new(1, 1, 10, 3), texts.map(Line::raw));
        if let Some(text) = over {
            picture.blank(Rect::new(2, 2, 6, 2));
            picture.lines(Rect::new(3, 2, 4, 1), [Line::raw(text)]);
        }
        picture
    }

    #[test]
    fn only_rows_that_differ_are_painted_and_all_of_it_where_something_lies_on_top() {
        let mut terminal = Terminal::default();
        let mut rows = |texts, over| {
            let rows = terminal.show(picture(texts, over));
            terminal.assert_whole();
            rows
        };
        assert_eq!(rows(["one", "two", "three"], None), 5);
        assert_eq!(rows(["one", "two", "three"], None), 0);
        assert_eq!(rows(["one", "2", "three"], None), 1);
        assert_eq!(rows(["one", "2", "3"], Some("why?")), 5);
        assert_eq!(rows(["one", "2", "3"], Some("why?")), 0);
        assert_eq!(rows(["1", "2", "3"], Some("why?")), 5);
        assert_eq!(rows(["1", "2", "3"], None), 5);
    }

    #[test]
    fn nothing_of_a_rehearsal_or_of_a_screen_before_the_last_is_seen() {
        let mut terminal = Terminal::default();
        let rehearsed = picture(["rehearsed", "", "x"], Some("on top"));
        terminal.rehearse(&rehearsed, Rect::new(0, 0, 20, 9));
        for top in ["one", "two", "three"] {
            terminal.show(picture([top, "", ""], Some(top)));
            terminal.assert_whole();
        }
    }

    #[test]
    fn wide_characters_come_and_go_without_a_trace() {
        let mut terminal = Terminal::default();
        for texts in [["模型模型", "abc", ""], ["模", "模型 x", "ab"], ["a模型b", "", "模型"], ["", "模型", "ab模"]]
        {
            terminal.show(picture(texts, None));
            terminal.assert_whole();
        }
    }
}
