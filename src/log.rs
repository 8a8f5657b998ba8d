//! Owns a log as a person pasted it: the raw text, clean lines that are harmless to print and easy to match, and
//! views that undo wrapping with the way back to the line a person sees. Knows nothing of entries or the screen.

pub(crate) mod beside;
mod clean;
mod excerpt;
mod expression;
pub(crate) mod needle;
pub(crate) mod prefix;
pub(crate) mod rotated;
mod source;
pub(crate) mod teller;
mod unfold;
mod view;

pub use clean::{LOOKED_AT, what_else};
pub use excerpt::Excerpt;
pub use expression::Expression;
pub use source::without_source;
pub use view::View;

use std::ops::Range;

use unicode_width::UnicodeWidthStr;

/// What stands, behind how much it was, where a part of a very long log was left out.
pub const LEFT_OUT: &str = "of this log left out here …";

/// What stands at the end of a compressed log that is cut off or damaged.
pub const CUT_OFF: &str = "… the compressed file is cut off or damaged here …";

/// The raw text is kept up to here: larger ones are not edited, and twice the text would be too much.
const RAW_KEPT: usize = 1 << 20;

/// A log, cleaned once; line numbers count from 1 as every pane shows them.
#[derive(Clone, Debug, Default)]
pub struct PastedLog {
    /// `None` where the clean text is the raw text, or is kept instead of it.
    raw: Option<String>,
    text: String,
    /// Where each clean line begins in `text`. Small figures: a log may be nothing but line ends.
    starts: Vec<u32>,
    /// The line of the file that each clean line is from; empty where it is the same.
    numbers: Vec<u32>,
    binary: bool,
}

impl PastedLog {
    /// A log out of text.
    pub fn new(text: impl Into<String>) -> PastedLog {
        let raw = text.into();
        let kept = (raw.len() <= RAW_KEPT).then(|| raw.clone());
        let (raw, numbers, is_unfolded) = match unfold::unfolded(&raw) {
            Some(unfolded) => (unfolded.text, unfolded.numbers, true),
            None => (raw, Vec::new(), false),
        };
        let (text, is_cleaned) = clean::clean(raw);
        let starts = line_starts(&text);
        let raw = if is_unfolded || is_cleaned { kept } else { None };
        PastedLog { raw, text, starts, numbers, binary: false }
    }

    /// A log out of whatever a file or a pipe held: UTF-8 with or without faults, UTF-16, or no text at all.
    pub fn from_bytes(bytes: Vec<u8>) -> PastedLog {
        match clean::decode(bytes) {
            Some(text) => PastedLog::new(text),
            None => PastedLog { binary: true, ..PastedLog::default() },
        }
    }

    /// The text of what a file or a pipe held; `None` where it is no text but binary.
    pub fn decode(bytes: Vec<u8>) -> Option<String> {
        clean::decode(bytes)
    }

    /// Whether parts of it were left out before it came here, since it is very long.
    pub fn is_shortened(&self) -> bool {
        memchr::memmem::find(self.text.as_bytes(), LEFT_OUT.as_bytes()).is_some()
    }

    /// Whether its compressed file was cut off or damaged.
    pub fn is_cut_off(&self) -> bool {
        self.text.trim_end().ends_with(CUT_OFF)
    }

    /// Whether this was no text ("this looks like a binary file"); such a log has no lines.
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// Whether nothing but blanks was given.
    pub fn is_empty(&self) -> bool {
        !self.binary && self.text.trim().is_empty()
    }

    /// The text as it came, faults in its encoding replaced; of one larger than 1 MiB the clean text.
    pub fn raw(&self) -> &str {
        self.raw.as_deref().unwrap_or(&self.text)
    }

    /// The clean text; its line ends are as they came (LF, CRLF or CR).
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many lines there are.
    pub fn line_count(&self) -> usize {
        self.starts.len()
    }

    /// Line `number`, counted from 1, without its line end.
    pub fn line(&self, number: usize) -> Option<&str> {
        self.text.get(self.line_range(number)?)
    }

    /// The line of the file that line `number` is from: text in JSON or HTML has more lines than the file.
    pub fn number_in_file(&self, number: usize) -> usize {
        let index = number.checked_sub(1).and_then(|index| self.numbers.get(index));
        index.map_or(number, |number| *number as usize)
    }

    /// All lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..=self.starts.len()).filter_map(|number| Some((number, self.line(number)?)))
    }

    /// Where line `number` lies in [`PastedLog::text`], without its line end.
    pub fn line_range(&self, number: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(number.checked_sub(1)?)? as usize;
        let end = self.starts.get(number).map_or(self.text.len(), |end| *end as usize);
        let line = self.text.get(start..end)?;
        Some(start..start + line.trim_end_matches(['\n', '\r']).len())
    }

    /// The number of the line that holds byte `offset` of [`PastedLog::text`].
    pub fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= offset).max(1)
    }

    /// The number of tiles in a line: 1 unless it is very long.
    pub fn tiles(&self, number: usize) -> usize {
        excerpt::tiles(self.length(number))
    }

    /// The line that holds byte `offset` of [`PastedLog::text`], and its tile.
    pub fn place_at(&self, offset: usize) -> (usize, usize) {
        let line = self.line_at(offset);
        let range = self.line_range(line).unwrap_or_default();
        (line, excerpt::tile_at(range.len(), offset.saturating_sub(range.start)))
    }

    /// The byte range of a tile in [`PastedLog::text`], without overlap.
    pub fn tile_range(&self, number: usize, tile: usize) -> Option<Range<usize>> {
        let line = self.line_range(number)?;
        let tile = excerpt::tile_range(line.len(), tile);
        Some(line.start + tile.start..line.start + tile.end)
    }

    /// The text of each tile of a line, without overlap.
    pub fn tile_texts(&self, number: usize) -> impl Iterator<Item = &str> {
        let line = self.line(number).unwrap_or_default();
        (0..excerpt::tiles(line.len())).map(move |tile| {
            let range = excerpt::tile_range(line.len(), tile);
            let (from, to) = (line.floor_char_boundary(range.start), line.floor_char_boundary(range.end));
            line.get(from..to).unwrap_or_default()
        })
    }

    /// The length of a line in bytes.
    pub fn length(&self, number: usize) -> usize {
        self.line_range(number).map_or(0, |range| range.len())
    }

    /// A tile of a line with its overlap.
    pub fn tile(&self, number: usize, tile: usize) -> Excerpt<'_> {
        Excerpt::of_tile(self.line(number).unwrap_or_default(), tile)
    }

    /// The tile that contains this column as contiguous text with its overlap, and its offset in the line.
    pub fn slice_around(&self, number: usize, column: usize) -> Option<(&str, usize)> {
        let line = self.line(number)?;
        let range = excerpt::tile_around(line, excerpt::tile_at(line.len(), column));
        Some((line.get(range.clone())?, range.start))
    }

    /// A part of a line plus both ends of the line, as text.
    pub fn with_ends(&self, number: usize, part: Range<usize>) -> String {
        let excerpt = Excerpt::with(self.line(number).unwrap_or_default(), part);
        excerpt.parts().map(|(_, text)| text).collect::<Vec<_>>().join("…")
    }

    /// The text around a match: the whole line unless it is very long.
    pub fn around(&self, number: usize, column: usize) -> Excerpt<'_> {
        Excerpt::around(self.line(number).unwrap_or_default(), column)
    }

    pub fn shown_around(&self, number: usize, column: usize) -> String {
        self.with_ends(number, excerpt::around(self.length(number), column))
    }

    /// The line as shown to the user for a match at this column, at most about 2 KiB of a very long one.
    pub fn shown_at(&self, number: usize, column: usize) -> String {
        Excerpt::shown_at(self.line(number).unwrap_or_default(), column)
    }

    /// Where [`PastedLog::around`] ends in [`PastedLog::text`].
    pub fn end_around(&self, number: usize, column: usize) -> Option<usize> {
        let line = self.line_range(number)?;
        let around = excerpt::around(line.len(), column);
        Some(self.text.ceil_char_boundary(line.start + around.end))
    }

    /// Lines `from..=to` as one text with wraps undone; see [`View`]. Line `number` is given as an excerpt, the others
    /// are reduced to both ends where they are long.
    pub fn joined(&self, from: usize, to: usize, number: usize, excerpt: Excerpt<'_>) -> View {
        View::joined((from..=to.min(self.line_count())).filter_map(|other| match other {
            _ if other == number => Some((number, excerpt)),
            _ => Some((other, Excerpt::of_ends(self.line(other)?))),
        }))
    }

    /// The last line of `from..=to`, or the one a few lines further where the text was still running over full lines.
    pub fn end_of_wrap(&self, from: usize, to: usize) -> usize {
        let full = (from..=to).map(|number| self.width(number)).max().unwrap_or(0);
        let mut last = to;
        while full >= 40 && last < to + 12 && self.width(last) == full {
            last += 1;
        }
        last.min(self.line_count())
    }

    /// A line's columns; the bytes of one that is wider than any terminal.
    fn width(&self, number: usize) -> usize {
        const WIDEST: usize = 4 << 10;
        let line = self.line(number).unwrap_or_default();
        if line.len() > WIDEST { line.len() } else { line.width() }
    }

    /// Line `number` alone, with a printed `\n` taken for a line end; both ends of a long one.
    pub fn single(&self, number: usize) -> View {
        View::single(number, &Excerpt::of_ends(self.line(number).unwrap_or_default()))
    }

    /// Line `number`; only the beginning of a long one.
    pub fn brief(&self, number: usize) -> Option<&str> {
        let (_, beginning) = Excerpt::of_ends(self.line(number)?).parts().next()?;
        Some(beginning)
    }
}

/// LF, CRLF and a lone CR (a progress bar's) each end a line. What lies beyond 4 GiB is one line.
fn line_starts(text: &str) -> Vec<u32> {
    let mut starts = Vec::new();
    if text.is_empty() {
        return starts;
    }
    starts.push(0);
    let bytes = text.as_bytes();
    for end in memchr::memchr2_iter(b'\n', b'\r', bytes) {
        let followed_by_lf = bytes.get(end) == Some(&b'\r') && bytes.get(end + 1) == Some(&b'\n');
        if !followed_by_lf && end + 1 < bytes.len() {
            let Ok(start) = u32::try_from(end + 1) else { break };
            starts.push(start);
        }
    }
    starts.shrink_to_fit();
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        PastedLog::new(text).lines().map(|(_, line)| line.to_string()).collect()
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        assert_eq!(lines("a\nb\r\nc\rd\n"), ["a", "b", "c", "d"]);
        assert_eq!(lines("\n\nx"), ["", "", "x"]);
        assert_eq!(lines(""), Vec::<String>::new());
    }

    #[test]
    fn a_line_is_found_by_offset_and_number() {
        let log = PastedLog::new("one\r\ntwo\nthree");
        assert_eq!(log.line(3), Some("three"));
        assert_eq!(log.line(4), None);
        assert_eq!(log.line(0), None);
        assert_eq!(log.line_at(0), 1);
        assert_eq!(log.line_at(5), 2);
        assert_eq!(log.text().get(log.line_range(2).unwrap()), Some("two"));
    }

    #[test]
    fn escapes_and_hidden_characters_are_gone_but_the_raw_text_is_kept() {
        let raw = "\u{1b}[31mCUDA\u{1b}[0m out\u{200b} of\u{0} memory\u{202e}";
        let log = PastedLog::new(raw);
        assert_eq!(log.line(1), Some("CUDA out of memory"));
        assert_eq!(log.raw(), raw);
    }

    #[test]
    fn binary_files_and_utf16_are_recognised() {
        assert!(PastedLog::from_bytes(b"\x7fELF\x02\x01\x01\0\0\0\0".to_vec()).is_binary());
        let wide: Vec<u8> = "\u{feff}Killed\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(PastedLog::from_bytes(wide).line(1), Some("Killed"));
        let half = PastedLog::from_bytes(b"out of memory \xe2\x96".to_vec());
        assert!(half.line(1).unwrap().starts_with("out of memory"));
        assert!(PastedLog::from_bytes(Vec::new()).is_empty());
    }
}
