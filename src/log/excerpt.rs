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
/// What is shown of it.
const SHOWN: Range<usize> = 64..2 << 10;
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

    /// What a person is shown for what stands at a place, which comes soon.
    pub fn shown_at(line: &str, column: usize) -> String {
        if tiles(line.len()) == 1 {
            return line.to_owned();
        }
        let from = line.floor_char_boundary(column.saturating_sub(SHOWN.start));
        let to = line.ceil_char_boundary(column.saturating_add(SHOWN.end).min(line.len()));
        let mark = |cut: bool| if cut { "…" } else { "" };
        let shown = line.get(from..to).unwrap_or_default();
        format!("{}{shown}{}", mark(from > 0), mark(to < line.len()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ordinary_length_is_looked_at_whole() {
        let line = "é".repeat(TILE - 1);
        assert_eq!(tiles(line.len()), 1);
        assert!(Excerpt::of_tile(&line, 0).is_whole() && Excerpt::around(&line, 9).is_whole());
        assert_eq!(Excerpt::shown_at(&line, 9_000), line);
        assert!(Excerpt::of_ends("").is_whole());
    }

    #[test]
    fn the_tiles_of_a_line_cover_it_and_their_parts_stand_where_they_say() {
        for unit in ["x", "é", "█x"] {
            for length in [2 * TILE, 2 * TILE + 3, 5 * TILE - 1, 9 * TILE + 77] {
                let line = unit.repeat(length / unit.len());
                let mut covered = 0;
                for tile in 0..tiles(line.len()) {
                    let range = tile_range(line.len(), tile);
                    assert_eq!((range.start, tile_at(line.len(), range.start)), (covered, tile));
                    covered = range.end;
                    let mut end = 0;
                    for (at, text) in Excerpt::of_tile(&line, tile).parts() {
                        assert!(at >= end && line[at..].starts_with(text));
                        end = at + text.len();
                    }
                    assert_eq!(end, line.len(), "the end is there");
                }
                assert_eq!(covered, line.len());
            }
        }
    }

    #[test]
    fn what_stands_at_a_place_is_in_what_is_looked_at_and_in_what_is_shown() {
        let mut line = "█".repeat(40_000);
        for at in (0..line.len()).step_by(3 * 777) {
            line.replace_range(at..at + 3, "HIT");
            assert!(Excerpt::around(&line, at).parts().any(|(_, text)| text.contains("HIT")), "{at}");
            assert!(Excerpt::shown_at(&line, at).find("HIT").is_some_and(|at| at < 100), "{at}");
            line.replace_range(at..at + 3, "█");
        }
    }
}
