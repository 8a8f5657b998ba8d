//! Owns views: one or several lines as a text in which wraps are undone, with the way back to the lines.
//! Terminals wrap inside words and numbers: their full lines are joined as they are. Where lines end for another reason
//! (rich wraps at spaces inside a box) a space stands between them. Patterns let any space be missing or several.

use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::excerpt::Excerpt;
use super::prefix;
use crate::effort;

/// Blanks that are too many to mean anything, and how many of them are kept.
const LONG_RUN: &str = "                ";
const KEPT_OF_RUN: usize = 6;

/// A text made of lines, and where each part came from.
#[derive(Clone, Debug, Default)]
pub struct View {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where the part begins in the view.
    at: usize,
    line: usize,
    /// Where it begins in that line.
    from: usize,
    /// How much of the line it is; what joins it to the next part is none of it.
    len: usize,
}

impl View {
    /// One line; a `\n` printed as two characters ends a line inside the view.
    pub fn single(number: usize, line: &Excerpt) -> View {
        let mut view = View::default();
        view.push(number, line, 0);
        view
    }

    /// Several lines joined; box borders, trailing blanks, and prefixes and indentation that the first line
    /// has too are dropped.
    pub fn joined<'a>(lines: impl Iterator<Item = (usize, Excerpt<'a>)>) -> View {
        let lines: Vec<(usize, Excerpt)> = lines.collect();
        let widths: Vec<usize> = lines.iter().map(|(_, line)| width(line)).collect();
        let full = FullLines::of(&widths);
        let indent = lines.first().map_or(0, |(_, line)| margin(beginning(line), usize::MAX));
        let mut view = View::default();
        for (index, (number, line)) in lines.iter().enumerate() {
            let skipped = if index == 0 { 0 } else { margin(beginning(line), indent) };
            if index > 0 && !view.runs_on(&full, widths.get(index - 1).copied().unwrap_or(0)) {
                view.text.push(' ');
            }
            if line.is_whole() {
                let (from, inner) = inside_box(line.line().get(skipped..).unwrap_or_default());
                view.push_unescaped(*number, from + skipped, inner);
            } else {
                view.push(*number, line, skipped);
            }
        }
        view
    }

    /// Whether a line of that width goes on in the next one without a space: it is as wide as the terminal was. A single
    /// widest line of an odd width proves little, so a number ends with it.
    fn runs_on(&self, full: &FullLines, width: usize) -> bool {
        let digits = self.text.ends_with(|c: char| c.is_ascii_digit());
        let usual = matches!(full.width, 80 | 100 | 120 | 132 | 160);
        width == full.width && (full.count > 1 || usual || !digits)
    }

    /// The text patterns run on.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Which line and which byte of it stands at `offset` of the view.
    pub fn locate(&self, offset: usize) -> Option<(usize, usize)> {
        let index = self.parts.partition_point(|part| part.at <= offset).checked_sub(1)?;
        let part = self.parts.get(index)?;
        Some((part.line, part.from + offset - part.at))
    }

    /// The stretch as line number and byte range; where it runs over a wrap, the part on its first line.
    pub fn span(&self, range: Range<usize>) -> Option<(usize, Range<usize>)> {
        let (line, start) = self.locate(range.start)?;
        let index = self.parts.partition_point(|part| part.at <= range.start).checked_sub(1)?;
        let part = self.parts.get(index)?;
        let start = start.min(part.from + part.len);
        Some((line, start..start + range.end.min(part.at + part.len).saturating_sub(range.start)))
    }

    /// Where byte `column` of line `number` stands in the view.
    pub fn offset_of(&self, number: usize, column: usize) -> Option<usize> {
        let part = self.parts.iter().rev().find(|part| part.line == number && part.from <= column)?;
        Some((part.at + (column - part.from).min(part.len)).min(self.text.len()))
    }

    /// Where line `number` begins in the view.
    pub fn start_of(&self, number: usize) -> Option<usize> {
        self.parts.iter().find(|part| part.line == number).map(|part| part.at)
    }

    /// Appends a line's excerpt without its first `skipped` bytes. The ellipsis keeps `^` and `$` from matching at a cut.
    fn push(&mut self, number: usize, line: &Excerpt, skipped: usize) {
        for (index, (from, text)) in line.parts().enumerate() {
            let skipped = if index == 0 { skipped } else { 0 };
            if index > 0 {
                self.text.push('…');
            }
            self.push_unescaped(number, from + skipped, text.get(skipped..).unwrap_or_default());
        }
    }

    fn push_unescaped(&mut self, line: usize, from: usize, text: &str) {
        effort::count(text.len());
        let mut offset = from;
        for (index, piece) in text.split("\\n").enumerate() {
            if index > 0 {
                self.text.push('\n');
                offset += 2;
            }
            self.push_narrowed(line, offset, piece);
            offset += piece.len();
        }
    }

    /// Appends text in which a long run of blanks is a short one: terminals pad lines to their width, which must not
    /// part a message.
    fn push_narrowed(&mut self, line: usize, from: usize, piece: &str) {
        let mut start = 0;
        while let Some(run) = piece.get(start..).and_then(|rest| rest.find(LONG_RUN)) {
            let kept = start + run + KEPT_OF_RUN;
            self.push_part(line, from + start, piece.get(start..kept).unwrap_or_default());
            let rest = piece.get(kept..).unwrap_or_default();
            start = kept + rest.len() - rest.trim_start_matches(' ').len();
        }
        self.push_part(line, from + start, piece.get(start..).unwrap_or_default());
    }

    fn push_part(&mut self, line: usize, from: usize, text: &str) {
        self.parts.push(Part { at: self.text.len(), line, from, len: text.len() });
        self.text.push_str(text);
    }
}

/// The prefix of the line and the blanks behind it, at most `limit` bytes.
fn margin(line: &str, limit: usize) -> usize {
    if limit == 0 {
        return 0;
    }
    let prefix = prefix::length(line);
    let rest = line.get(prefix..).unwrap_or_default();
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    (prefix + blanks).min(limit.max(prefix))
}

/// The widest lines: where there are several, they are most likely as wide as the terminal was.
struct FullLines {
    width: usize,
    count: usize,
}

impl FullLines {
    fn of(widths: &[usize]) -> FullLines {
        let width = widths.iter().copied().max().filter(|width| *width >= 40).unwrap_or(usize::MAX);
        FullLines { width, count: widths.iter().filter(|one| **one == width).count() }
    }
}

/// A line that is not whole is wider than any terminal, so its exact width is not needed.
fn width(line: &Excerpt) -> usize {
    if line.is_whole() { line.line().width() } else { line.line().len() }
}

fn beginning<'l>(line: &Excerpt<'l>) -> &'l str {
    line.parts().next().map_or("", |(_, text)| text)
}

/// The line without the column at its end in which rich names the statement that logged it: `  gui.py:638`.
fn before_place(line: &str) -> &str {
    let Some((text, place)) = line.rsplit_once("  ") else { return line };
    let is_place = place.trim_start().rsplit_once(".py:").is_some_and(|(name, number)| {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && name.chars().all(is_of_name)
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    });
    if is_place { text.trim_end() } else { line }
}

/// What stands between a box's borders, and where it begins; the whole line where there is no box.
fn inside_box(line: &str) -> (usize, &str) {
    const BORDER: [char; 4] = ['│', '┃', '║', '╎'];
    let trimmed = before_place(line.trim_end());
    let unframed = trimmed.trim_end_matches(BORDER).trim_end();
    let Some(inner) = unframed.trim_start().strip_prefix(BORDER) else { return (0, unframed) };
    let inner = inner.trim_start();
    (unframed.len() - inner.len(), inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(lines: &[(usize, &str)]) -> View {
        View::joined(lines.iter().map(|(number, line)| (*number, Excerpt::of_ends(line))))
    }

    #[test]
    fn wraps_are_undone_and_located() {
        let full = "RuntimeError: CUDA out of memory. allocate 2.0";
        let other = "0 GiB, and so on to the end of a second line o";
        let view = joined(&[(3, full), (4, other), (5, "f text.  "), (6, "next")]);
        assert!(view.text().starts_with("RuntimeError: CUDA out of memory. allocate 2.00 GiB, and"));
        assert!(view.text().ends_with("line of text. next"));
        assert_eq!(view.locate(46), Some((4, 0)));
        assert_eq!(view.span(43..51), Some((3, 43..46)));
        assert_eq!(view.start_of(4), Some(46));
    }

    #[test]
    fn the_column_with_the_statement_is_dropped() {
        let view = joined(&[
            (1, "ERROR    CUDA out of memory. Tried to allocate 3.21 GiB (GPU 0; 8.00 GiB total    gui.py:638"),
            (2, "         capacity; 5.47 GiB already allocated"),
        ]);
        let words: Vec<&str> = view.text().split_whitespace().collect();
        assert!(words.join(" ").contains("8.00 GiB total capacity; 5.47 GiB already allocated"), "{words:?}");
        assert_eq!(before_place("see  notes.py"), "see  notes.py");
    }

    #[test]
    fn numbers_on_two_lines_stay_two() {
        let view = joined(&[(1, "ggml_gallocr: failed to allocate CUDA0 size 12"), (2, "2026-11-20 next")]);
        assert!(view.text().contains("size 12 2026"));
    }

    #[test]
    fn boxes_are_opened() {
        let view = joined(&[(1, "│ Error: 2.00    │"), (2, "│ GiB            │")]);
        assert_eq!(view.text(), "Error: 2.00 GiB");
        assert_eq!(view.locate(0), Some((1, 4)));
    }

    #[test]
    fn what_runs_over_a_line_end_spans_no_more_than_its_first_line_has() {
        let view = joined(&[(1, "failed to allocate 524288"), (2, "bytes")]);
        assert_eq!(view.text(), "failed to allocate 524288 bytes");
        assert_eq!(view.span(19..31), Some((1, 19..25)));
        assert_eq!(View::single(1, &Excerpt::of_ends(r"524288\nbytes")).span(0..12), Some((1, 0..6)));
    }

    #[test]
    fn a_long_run_of_blanks_is_narrowed_and_what_follows_is_still_located() {
        let line = format!("fatal:{}out of memory, 12{}bytes", " ".repeat(120), " ".repeat(40));
        let view = View::single(3, &Excerpt::of_ends(&line));
        assert_eq!(view.text(), "fatal:      out of memory, 12      bytes");
        assert_eq!(view.locate(12), Some((3, 126)));
        assert_eq!(view.offset_of(3, 126), Some(12));
        assert_eq!(view.span(12..15), Some((3, 126..129)));
    }

    #[test]
    fn a_printed_newline_ends_a_line() {
        let view = View::single(1, &Excerpt::of_ends(r"out of memory\nggml: failed"));
        assert_eq!(view.text(), "out of memory\nggml: failed");
        assert_eq!(view.locate(14), Some((1, 15)));
    }
}
