//! Owns very long lines: which part of one is looked at for what stands at a place in it, so that no line costs more
//! than its length, whatever it holds. Lines of ordinary length are looked at whole.

use std::ops::Range;

/// A line of up to twice this length is one tile.
const TILE: usize = 16 << 10;
/// What is looked at before a tile: a message may begin before its telling words.
const BEFORE: usize = 512;
/// What is looked at behind it: a message goes on behind them.
const BEHIND: usize = 1 << 10;
/// What is looked at around a place: a message with all of its figures.
const AROUND: Range<usize> = 2 << 10..14 << 10;
/// Of a very long line its beginning and its end are looked at too: who prints it, and what it ends with.
const ENDS: usize = 256;
/// Of a line beside the one in question no more than this is looked at, from each end: a terminal's lines are shorter.
const BESIDE: usize = 1 << 10;

/// What is looked at of a line: all of it, or several parts.
#[derive(Clone, Copy, Debug)]
pub struct Excerpt<'l> {
    line: &'l str,
    /// Where the parts begin in the line, and the parts. Those behind the first may be empty.
    parts: [(usize, &'l str); 3],
}

/// In how many tiles a line of this length is searched.
pub fn tiles(length: usize) -> usize {
    (length / TILE).max(1)
}

/// In which of them this place lies.
pub fn tile_at(length: usize, column: usize) -> usize {
    (column / TILE).min(tiles(length) - 1)
}

/// Where a tile begins and ends in its line.
pub fn tile_range(length: usize, tile: usize) -> Range<usize> {
    let end = if tile + 1 >= tiles(length) { length } else { (tile + 1) * TILE };
    (tile * TILE).min(end)..end
}

/// The same with what lies around it.
pub fn tile_around(line: &str, tile: usize) -> Range<usize> {
    let range = tile_range(line.len(), tile);
    let end = range.end.saturating_add(BEHIND).min(line.len());
    line.floor_char_boundary(range.start.saturating_sub(BEFORE))..line.ceil_char_boundary(end)
}

/// How much of a line of this length may belong to a message at this place: all of it, unless it is very long.
pub fn around(length: usize, column: usize) -> Range<usize> {
    if tiles(length) == 1 {
        return 0..length;
    }
    column.saturating_sub(AROUND.start)..column.saturating_add(AROUND.end).min(length)
}

impl<'l> Excerpt<'l> {
    /// A tile with what lies around it.
    pub fn of_tile(line: &'l str, tile: usize) -> Excerpt<'l> {
        Excerpt::with(line, tile_around(line, tile))
    }

    /// What stands around a place.
    pub fn around(line: &'l str, column: usize) -> Excerpt<'l> {
        Excerpt::with(line, around(line.len(), column))
    }

    /// The beginning and the end.
    pub fn of_ends(line: &'l str) -> Excerpt<'l> {
        if line.len() <= 2 * BESIDE {
            return Excerpt::whole(line);
        }
        let (first, last) = (line.floor_char_boundary(BESIDE), line.ceil_char_boundary(line.len() - BESIDE));
        Excerpt::of(line, [0..first, last..line.len(), 0..0])
    }

    fn whole(line: &'l str) -> Excerpt<'l> {
        Excerpt::of(line, [0..line.len(), 0..0, 0..0])
    }

    /// That part of a line, and the line's ends.
    pub fn with(line: &'l str, part: Range<usize>) -> Excerpt<'l> {
        let head = 0..line.floor_char_boundary(ENDS);
        let tail = line.ceil_char_boundary(line.len().saturating_sub(ENDS))..line.len();
        let mut part = line.floor_char_boundary(part.start)..line.ceil_char_boundary(part.end.min(line.len()));
        let behind = if part.end < tail.start { tail } else { 0..0 };
        if behind.is_empty() {
            part.end = line.len();
        }
        if part.start <= head.end {
            Excerpt::of(line, [0..part.end, behind, 0..0])
        } else {
            Excerpt::of(line, [head, part, behind])
        }
    }

    fn of(line: &'l str, parts: [Range<usize>; 3]) -> Excerpt<'l> {
        Excerpt { line, parts: parts.map(|part| (part.start, line.get(part).unwrap_or_default())) }
    }

    /// The parts with where they begin in the line, in order; something is left out between them.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &'l str)> + use<'l> {
        let [first, second, third] = self.parts;
        std::iter::once(first).chain([second, third].into_iter().filter(|(_, text)| !text.is_empty()))
    }

    /// The line itself, all of it.
    pub fn line(&self) -> &'l str {
        self.line
    }

    /// Whether nothing is left out.
    pub fn is_whole(&self) -> bool {
        let [(_, first), _, _] = self.parts;
        first.len() == self.line.len()
    }
}
