//! Owns how cells become bytes: over a slow line every one of them is waited for. Attributes and colors change in one
//! sequence that holds only what changes, and of the ways to a place the shortest is taken.

use std::io;

use crossterm::style::Colored;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// Writes cells to a terminal.
#[derive(Debug)]
pub struct Pen<W: io::Write> {
    terminal: W,
    /// Whether the terminal understands escape sequences: a console of an old Windows does not.
    has_escapes: bool,
    has_colors: bool,
    /// The columns of the terminal.
    columns: u16,
}

/// The style that is in effect on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ink {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

/// As terminals begin.
const PLAIN: Ink = Ink { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };

/// What can be seen where there is no character.
const SEEN_ON_BLANKS: Modifier = Modifier::REVERSED
    .union(Modifier::UNDERLINED)
    .union(Modifier::CROSSED_OUT)
    .union(Modifier::SLOW_BLINK)
    .union(Modifier::RAPID_BLINK);

/// Attributes, the numbers that turn them on, and the numbers that turn them off; one turns off two of them.
const ATTRIBUTES: [(Modifier, u8, u8); 9] = [
    (Modifier::BOLD, 1, 22),
    (Modifier::DIM, 2, 22),
    (Modifier::ITALIC, 3, 23),
    (Modifier::UNDERLINED, 4, 24),
    (Modifier::SLOW_BLINK, 5, 25),
    (Modifier::RAPID_BLINK, 6, 25),
    (Modifier::REVERSED, 7, 27),
    (Modifier::HIDDEN, 8, 28),
    (Modifier::CROSSED_OUT, 9, 29),
];

impl<W: io::Write> Pen<W> {
    /// A pen for a terminal; without escape sequences it goes the way of crossterm, which knows the calls of old consoles.
    pub fn new(terminal: W, has_escapes: bool) -> Pen<W> {
        Pen { terminal, has_escapes, has_colors: !Colored::ansi_color_disabled_memoized(), columns: 0 }
    }

    /// The terminal has so many columns from now on.
    pub(super) fn is_wide(&mut self, columns: u16) {
        self.columns = columns;
    }

    /// Where to write what is no cell.
    pub fn terminal(&mut self) -> &mut W {
        &mut self.terminal
    }

    /// Writes where two pictures of the same part of the screen differ, the first of which is none where nothing is there yet,
    /// and leaves the terminal in its own style.
    pub(super) fn draw<'a>(&mut self, parts: impl Iterator<Item = (Option<&'a Buffer>, &'a Buffer)>) -> io::Result<()> {
        if !self.has_escapes {
            let cells = parts.flat_map(|(then, now)| changed(then, now));
            return CrosstermBackend::new(&mut self.terminal).draw(cells);
        }
        let mut frame = Frame { written: String::new(), at: None, ink: PLAIN, columns: self.columns };
        for (then, now) in parts {
            frame.write(then, now, self.has_colors);
        }
        frame.change_to(PLAIN);
        self.terminal.write_all(frame.written.as_bytes())
    }
}

/// A cell that has to be written, with its column and its row.
type Changed<'a> = (u16, u16, &'a Cell);

/// The cells that have to be written, row by row.
fn changed<'a>(then: Option<&'a Buffer>, now: &'a Buffer) -> Box<dyn Iterator<Item = Changed<'a>> + 'a> {
    match then {
        Some(then) => Box::new(then.diff_iter(now)),
        None => Box::new(not_empty(now)),
    }
}

fn not_empty(cells: &Buffer) -> impl Iterator<Item = Changed<'_>> {
    let area = cells.area;
    let rows = cells.content.chunks(usize::from(area.width).max(1));
    rows.zip(area.top()..).flat_map(move |(row, y)| {
        // The cells that the character before them lies on are no characters.
        let mut covered = 0_usize;
        (area.left()..).zip(row).filter_map(move |(x, cell)| {
            if covered > 0 {
                covered -= 1;
                return None;
            }
            covered = width(cell).saturating_sub(1);
            (*cell != Cell::EMPTY).then_some((x, y, cell))
        })
    })
}

/// The columns that a cell's character takes.
fn width(cell: &Cell) -> usize {
    // Nearly all are of one column, which tables of characters need not be asked for.
    if matches!(cell.symbol().as_bytes(), [b' '..=b'~']) { 1 } else { cell.symbol().width() }
}

/// What is written for one picture, and how the terminal stands after it.
#[derive(Debug)]
struct Frame {
    written: String,
    /// The cursor's place: its row, and its column where every terminal agrees on it.
    at: Option<(Option<u16>, u16)>,
    ink: Ink,
    columns: u16,
}

impl Frame {
    fn write(&mut self, then: Option<&Buffer>, now: &Buffer, has_colors: bool) {
        let mut rest = changed(then, now).peekable();
        let mut columns = Vec::new();
        while let Some((x, y, cell)) = rest.next() {
            let next = rest.peek().filter(|(_, row, _)| *row == y).map(|(x, ..)| *x);
            columns.push(x);
            // The second half of a wide character goes with its first where that is printed over, but not everywhere where
            // that is erased.
            let covered = then.and_then(|then| then.cell((x, y))).map_or(1, width);
            let end = next.unwrap_or(now.area.right());
            columns.extend((x..end).take(covered).skip(width(cell)));
            if next.is_none() {
                self.write_row(&Row { cells: now, y, has_colors }, &columns);
                columns.clear();
            }
        }
    }

    /// Writes the cells of these columns. Blanks are erased where that is shorter.
    fn write_row(&mut self, row: &Row<'_>, columns: &[u16]) {
        let end = row.cells.area.right();
        let blank_from = (row.cells.area.x..end).rev().take_while(|x| row.is_plain_blank(*x)).last().unwrap_or(end);
        let mut rest = columns.iter().copied().peekable();
        while let Some(x) = rest.next() {
            self.fill_gap(row, x);
            self.go_to(x, row.y);
            if x >= blank_from && end == self.columns && usize::from(end - x) > ERASE_LINE.len() {
                self.change_to(PLAIN);
                self.written.push_str(ERASE_LINE);
                return;
            }
            let blanks = (x..end).take_while(|x| row.is_plain_blank(*x)).count();
            let run = u16::try_from(blanks).unwrap_or(0);
            let mut last = x;
            while let Some(next) = rest.next_if(|next| *next < x + run) {
                last = next;
            }
            let count = if run == 0 { 1 } else { last - x + 1 };
            let least = if rest.peek().is_some() { LEAST_JUMPED } else { LEAST_ERASED };
            if count >= least {
                self.change_to(PLAIN);
                self.written.push_str("\x1b[");
                push_number(&mut self.written, count.into());
                self.written.push('X');
            } else {
                (x..x + count).for_each(|x| self.put(row, x));
            }
        }
    }

    /// Writes what lies between the cursor and a column of its row again, where that is shorter than to jump over it.
    fn fill_gap(&mut self, row: &Row<'_>, to: u16) {
        let Some((Some(from), y)) = self.at else { return };
        if y != row.y || from >= to {
            return;
        }
        let jump = "\x1b[G".len() + 1 + (to + 1).checked_ilog10().unwrap_or(0) as usize;
        let gap = (from..to).take(jump + 1).map(|x| self.plain_length(row, x));
        let length = gap.sum::<Option<usize>>();
        if length.is_some_and(|length| length <= jump) {
            (from..to).for_each(|x| self.put(row, x));
        }
    }

    /// The bytes of a cell that can be written without a word about its style, and is of one column.
    fn plain_length(&self, row: &Row<'_>, x: u16) -> Option<usize> {
        let cell = row.cells.cell((x, row.y))?;
        (width(cell) == 1 && self.can_write(cell, row.has_colors)).then(|| cell.symbol().len())
    }

    fn go_to(&mut self, x: u16, y: u16) {
        if self.at != Some((Some(x), y)) {
            push_way(&mut self.written, self.at, (x, y));
            self.at = Some((Some(x), y));
        }
    }

    /// Writes a cell where the cursor is.
    fn put(&mut self, row: &Row<'_>, x: u16) {
        let Some(cell) = row.cells.cell((x, row.y)) else { return };
        if !self.can_write(cell, row.has_colors) {
            self.change_to(ink_of(cell, row.has_colors));
        }
        self.written.push_str(cell.symbol());
        // Not every terminal agrees on how wide a wide character is, and on where the cursor stands behind the last column.
        let next = x + 1;
        let is_sure = width(cell) == 1;
        self.at = (next < self.columns).then_some((is_sure.then_some(next), row.y));
    }

    /// Whether a cell looks right in the style that is in effect: of a blank much can't be seen.
    fn can_write(&self, cell: &Cell, has_colors: bool) -> bool {
        let ink = ink_of(cell, has_colors);
        let seen = |of: Ink| (of.bg, of.modifier.intersection(SEEN_ON_BLANKS));
        let is_blank = cell.symbol() == " " && seen(ink).1.is_empty();
        ink == self.ink || is_blank && seen(ink) == seen(self.ink)
    }

    /// Changes the style, in the shorter of two ways: by what differs, or from the beginning.
    fn change_to(&mut self, ink: Ink) {
        if self.ink == ink {
            return;
        }
        let before = self.ink;
        push_shorter(&mut self.written, |text| push_change(text, before, ink), |text| push_style(text, ink));
        self.ink = ink;
    }
}

/// A row of the picture that is written.
struct Row<'a> {
    cells: &'a Buffer,
    y: u16,
    has_colors: bool,
}

impl Row<'_> {
    /// Whether erasing leaves the same as writing.
    fn is_plain_blank(&self, x: u16) -> bool {
        self.cells.cell((x, self.y)).is_some_and(|cell| {
            let ink = ink_of(cell, self.has_colors);
            cell.symbol() == " " && ink.bg == Color::Reset && !ink.modifier.intersects(SEEN_ON_BLANKS)
        })
    }
}

const ERASE_LINE: &str = "\x1b[K";

/// From so many blanks on it is shorter to erase them, and to go on behind them.
const LEAST_ERASED: u16 = 6;
const LEAST_JUMPED: u16 = 10;

fn ink_of(cell: &Cell, has_colors: bool) -> Ink {
    let (fg, bg) = if has_colors { (cell.fg, cell.bg) } else { (Color::Reset, Color::Reset) };
    Ink { fg, bg, modifier: cell.modifier }
}

// A screen takes a thousand sequences, so each is written where it is sent from: none takes memory of its own.

/// Appends the shorter of two sequences that mean the same; of two as long, the first.
fn push_shorter(text: &mut String, first: impl FnOnce(&mut String), second: impl FnOnce(&mut String)) {
    let start = text.len();
    first(text);
    let middle = text.len();
    second(text);
    if text.len() - middle < middle - start {
        text.drain(start..middle);
    } else {
        text.truncate(middle);
    }
}

/// Appends the shortest way to a place. Within a row it names the column: a distance would be wrong behind a character of
/// doubtful width.
fn push_way(text: &mut String, from: Option<(Option<u16>, u16)>, (x, y): (u16, u16)) {
    match from {
        Some((_, row)) if row <= y => {
            push_shorter(text, |text| push_place(text, x, y), |text| push_way_down(text, y - row, x));
        }
        _ => push_place(text, x, y),
    }
}

fn push_place(text: &mut String, x: u16, y: u16) {
    text.push_str("\x1b[");
    push_number(text, u32::from(y) + 1);
    if x > 0 {
        text.push(';');
        push_number(text, u32::from(x) + 1);
    }
    text.push('H');
}

fn push_way_down(text: &mut String, lines: u16, x: u16) {
    (0..lines).for_each(|_| text.push_str("\r\n"));
    if x > 0 {
        text.push_str("\x1b[");
        push_number(text, u32::from(x) + 1);
        text.push('G');
    } else if lines == 0 {
        text.push('\r');
    }
}

/// Appends the sequence from one style to another.
fn push_change(text: &mut String, from: Ink, to: Ink) {
    text.push_str("\x1b[");
    let mut kept = from.modifier;
    for (attribute, _, off) in ATTRIBUTES {
        let goes = from.modifier.contains(attribute) && !to.modifier.contains(attribute);
        if goes && kept.contains(attribute) {
            push_part(text, off.into());
            // What the same number turns off has to be turned on again.
            ATTRIBUTES.iter().filter(|(.., other)| *other == off).for_each(|(other, ..)| kept.remove(*other));
        }
    }
    push_parts_that_turn_on(text, to.modifier.difference(kept));
    push_colors(text, from, to);
    end_style(text);
}

/// Appends the sequence to a style from any other.
fn push_style(text: &mut String, to: Ink) {
    text.push_str("\x1b[");
    if to != PLAIN {
        push_part(text, 0);
    }
    push_parts_that_turn_on(text, to.modifier);
    push_colors(text, PLAIN, to);
    end_style(text);
}

fn push_parts_that_turn_on(text: &mut String, attributes: Modifier) {
    for (attribute, on, _) in ATTRIBUTES {
        if attributes.contains(attribute) {
            push_part(text, on.into());
        }
    }
}

fn push_colors(text: &mut String, from: Ink, to: Ink) {
    for (before, now, base) in [(from.fg, to.fg, 30), (from.bg, to.bg, 40)] {
        if before != now {
            push_color(text, now, base);
        }
    }
}

/// Appends a color, by numbers from 30 on of characters and from 40 on of what is behind them.
fn push_color(text: &mut String, color: Color, base: u32) {
    let number = match color {
        Color::Reset => 9,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        Color::Indexed(_) | Color::Rgb(..) => 8,
    };
    push_part(text, base + number);
    match color {
        Color::Indexed(index) => [5, index].into_iter().for_each(|part| push_part(text, part.into())),
        Color::Rgb(red, green, blue) => [2, red, green, blue].into_iter().for_each(|part| push_part(text, part.into())),
        _ => {}
    }
}

/// Appends one of the numbers of a style.
fn push_part(text: &mut String, number: u32) {
    push_number(text, number);
    text.push(';');
}

/// Ends the numbers of a style.
fn end_style(text: &mut String) {
    if text.ends_with(';') {
        text.pop();
    }
    text.push('m');
}

fn push_number(text: &mut String, number: u32) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.extend(char::from_digit(number % 10, 10));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::super::testing::look;
    use super::*;

    /// A color of every kind.
    const COLORS: [Color; 8] = [
        Color::Reset,
        Color::Red,
        Color::LightGreen,
        Color::White,
        Color::DarkGray,
        Color::Indexed(3),
        Color::Indexed(173),
        Color::Rgb(1, 200, 30),
    ];
    const SYMBOLS: [&str; 7] = [" ", " ", "a", "─", "模", "…", "x"];

    type Piece = (u16, u16, u16, usize, usize, usize, u16);

    fn picture(pieces: &[Piece], area: Rect) -> Buffer {
        let mut buffer = Buffer::empty(area);
        for (x, y, length, symbol, fg, bg, modifier) in pieces {
            let modifier = Modifier::from_bits_truncate(*modifier);
            let style = Style::new().fg(COLORS[*fg]).bg(COLORS[*bg]).add_modifier(modifier);
            // Nothing covers half of a wide character: ratatui and terminals do not agree on what then stays.
            let (x, columns) = (2 * x, usize::from(2 * length).min(usize::from(area.width - 2 * x)));
            buffer.set_stringn(x, *y, SYMBOLS[*symbol].repeat(columns), columns, style);
        }
        // The emulator knows a cell as bold or as dim, not as both.
        for cell in buffer.content.iter_mut().filter(|cell| cell.modifier.contains(Modifier::BOLD)) {
            cell.modifier.remove(Modifier::DIM);
        }
        buffer
    }

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let color = 0..COLORS.len();
        let piece = (0_u16..20, 0_u16..9, 1_u16..20, 0..SYMBOLS.len(), color.clone(), color, 0_u16..512);
        prop::collection::vec(piece, 0..12)
    }

    fn written(part: (Option<&Buffer>, &Buffer), has_escapes: bool) -> Vec<u8> {
        let mut written = Vec::new();
        let mut pen = Pen::new(&mut written, has_escapes);
        pen.is_wide(40);
        pen.draw(std::iter::once(part)).unwrap();
        written
    }

    #[test]
    fn both_halves_of_a_wide_character_are_erased() {
        let of = |text: &str| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
            buffer.set_string(0, 0, text, Style::new());
            buffer
        };
        let before = of(&("模".repeat(19) + " |"));
        let erased = written((Some(&before), &of(&(" ".repeat(39) + "|"))), true);
        assert_eq!(String::from_utf8(erased).unwrap(), "\x1b[1H\x1b[38X", "tmux keeps the half that is not erased");
        let other = written((Some(&before), &of(&("型".repeat(19) + " |"))), true);
        assert!(!String::from_utf8(other).unwrap().contains(' '), "a half that is covered again is not written");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn a_terminal_shows_what_it_shows_by_ratatuis_own_way(
            story in prop::collection::vec((pieces(), any::<bool>()), 1..6)
        ) {
            let whole = Rect::new(0, 0, 40, 9);
            let mut now = Buffer::empty(whole);
            let mut bit_by_bit = vt100::Parser::new(whole.height, whole.width, 0);
            for (pieces, only_a_part) in story {
                let then = now.clone();
                now = picture(&pieces, whole);
                // A part of the screen is written as the whole is.
                let part = Rect::new(6, 2, 20, 4);
                let part = if only_a_part { part } else { whole };
                let (then_part, now_part) = (cut_out(&then, part), cut_out(&now, part));
                now = then.clone();
                super::super::put(&mut now, &now_part);
                bit_by_bit.process(&written((Some(&then_part), &now_part), true));
                let mut as_a_whole = vt100::Parser::new(whole.height, whole.width, 0);
                as_a_whole.process(&written((Some(&Buffer::empty(whole)), &now), false));
                prop_assert_eq!(written((None, &now), true), written((Some(&Buffer::empty(whole)), &now), true));
                for place in whole.positions() {
                    let [own, other] = [&bit_by_bit, &as_a_whole].map(|one| look(one.screen(), place));
                    prop_assert_eq!(own, other, "{}", place);
                }
            }
        }
    }

    fn cut_out(of: &Buffer, part: Rect) -> Buffer {
        let mut cells = Buffer::empty(part);
        super::super::put(&mut cells, of);
        cells
    }
}
