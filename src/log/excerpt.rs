//! Owns very long lines (32 KiB and more): they are searched in tiles of bounded size, and only the text around a match is
//! read for its figures. This keeps reading linear in the line's length. Shorter lines are always used whole.

use std::ops::Range;

/// Tile size. A line shorter than two tiles is a single tile.
const TILE: usize = 16 << 10;
/// Overlap before a tile: a message may begin before the literal that selected the tile.
const BEFORE: usize = 512;
/// Overlap after a tile: a message continues after that literal.
const BEHIND: usize = 1 << 10;
/// Bytes before and after a match that are read for its figures.
const AROUND: Range<usize> = 2 << 10..14 << 10;
/// Bytes before and after a match that are shown to the user.
const SHOWN: Range<usize> = 64..2 << 10;
/// Every excerpt also has the first and last bytes of the line: patterns check how a line begins and ends.
const ENDS: usize = 256;
/// Of a neighboring line, only this much of each end is read. Terminal lines are shorter.
const BESIDE: usize = 1 << 10;

/// The parts of a line that patterns run on: the whole line, or up to three parts of a very long one.
#[derive(Clone, Copy, Debug)]
pub struct Excerpt<'l> {
    line: &'l str,
    /// Each part with its offset in the line. The second and third may be empty.
    parts: [(usize, &'l str); 3],
}

/// The number of tiles in a line of this length.
pub(super) fn tiles(length: usize) -> usize {
    (length / TILE).max(1)
}

/// The tile that contains this column.
pub(super) fn tile_at(length: usize, column: usize) -> usize {
    (column / TILE).min(tiles(length) - 1)
}

/// The byte range of a tile, without overlap.
pub(super) fn tile_range(length: usize, tile: usize) -> Range<usize> {
    let end = if tile + 1 >= tiles(length) { length } else { (tile + 1) * TILE };
    (tile * TILE).min(end)..end
}

/// The byte range of a tile with its overlap, at character boundaries.
pub(super) fn tile_around(line: &str, tile: usize) -> Range<usize> {
    let range = tile_range(line.len(), tile);
    let end = range.end.saturating_add(BEHIND).min(line.len());
    line.floor_char_boundary(range.start.saturating_sub(BEFORE))..line.ceil_char_boundary(end)
}

/// The byte range that is read for a match at this column: the whole line unless it is very long.
pub(super) fn around(length: usize, column: usize) -> Range<usize> {
    if tiles(length) == 1 {
        return 0..length;
    }
    column.saturating_sub(AROUND.start)..column.saturating_add(AROUND.end).min(length)
}

impl<'l> Excerpt<'l> {
    /// A tile with its overlap.
    pub fn of_tile(line: &'l str, tile: usize) -> Excerpt<'l> {
        Excerpt::with(line, tile_around(line, tile))
    }

    /// The text around a column.
    pub fn around(line: &'l str, column: usize) -> Excerpt<'l> {
        Excerpt::with(line, around(line.len(), column))
    }

    /// The line as shown to the user: a very long one starts shortly before the column.
    pub fn shown_at(line: &str, column: usize) -> String {
        if tiles(line.len()) == 1 {
            return line.to_owned();
        }
        let from = line.floor_char_boundary(column.saturating_sub(SHOWN.start));
        let to = line.ceil_char_boundary(column.saturating_add(SHOWN.end).min(line.len()));
        let before = if from > 0 { "…" } else { "" };
        let behind = if to < line.len() { "…" } else { "" };
        format!("{before}{}{behind}", line.get(from..to).unwrap_or_default())
    }

    /// Both ends of the line.
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

    /// This part of the line plus both ends of the line.
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

    /// The parts with their offsets in the line, in order. Text is left out between two parts.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &'l str)> + use<'l> {
        let [first, second, third] = self.parts;
        std::iter::once(first).chain([second, third].into_iter().filter(|(_, text)| !text.is_empty()))
    }

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
    fn a_line_shorter_than_two_tiles_is_used_whole() {
        let line = "é".repeat(TILE - 1);
        assert_eq!(tiles(line.len()), 1);
        assert!(Excerpt::of_tile(&line, 0).is_whole() && Excerpt::around(&line, 9).is_whole());
        assert_eq!(Excerpt::shown_at(&line, 9_000), line);
        assert!(Excerpt::of_ends("").is_whole());
    }

    #[test]
    fn tiles_cover_the_line_and_parts_have_the_right_offsets() {
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
                        assert!(at >= end && line.get(at..).is_some_and(|rest| rest.starts_with(text)));
                        end = at + text.len();
                    }
                    assert_eq!(end, line.len(), "the excerpt ends with the line");
                }
                assert_eq!(covered, line.len());
            }
        }
    }

    #[test]
    fn excerpts_contain_the_text_at_their_column() {
        let mut line = "█".repeat(40_000);
        for at in (0..line.len()).step_by(3 * 777) {
            line.replace_range(at..at + 3, "HIT");
            assert!(Excerpt::around(&line, at).parts().any(|(_, text)| text.contains("HIT")), "{at}");
            assert!(Excerpt::shown_at(&line, at).find("HIT").is_some_and(|at| at < 100), "{at}");
            line.replace_range(at..at + 3, "█");
        }
    }
}
