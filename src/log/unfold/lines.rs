//! Owns text under way out of a container, line by line, each with its line in the file.

use crate::effort;

/// Text under way, and of which line of the file each of its lines is.
#[derive(Debug)]
pub(in crate::log) struct Unfolded {
    pub(in crate::log) text: String,
    pub(in crate::log) numbers: Vec<u32>,
}

/// What ends a line once a log is clean.
const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

/// How many lines end in a part of a file.
pub(super) fn line_ends(raw: &str) -> u32 {
    effort::count(raw.len());
    let ends = raw.matches(LINE_ENDS).count() - raw.matches("\r\n").count();
    u32::try_from(ends).unwrap_or(u32::MAX)
}

impl Unfolded {
    pub(super) fn new() -> Unfolded {
        Unfolded { text: String::new(), numbers: vec![1] }
    }

    /// Ends the line, and begins one that stands in line `number` of the file.
    pub(super) fn end_line(&mut self, number: u32) {
        self.text.push('\n');
        self.numbers.push(number);
    }

    pub(super) fn is_at_line_start(&self) -> bool {
        self.text.is_empty() || self.text.ends_with('\n')
    }

    /// Ends the line if it has begun; what follows stands in line `number` of the file.
    pub(super) fn start_line(&mut self, number: u32) {
        let blanks = self.text.len() - self.text.trim_end_matches([' ', '\t']).len();
        self.text.truncate(self.text.len() - blanks);
        if self.is_at_line_start() {
            if let Some(last) = self.numbers.last_mut() {
                *last = number;
            }
        } else {
            self.end_line(number);
        }
    }

    /// Adds text that stands in line `number` of the file, whatever line ends it has.
    pub(super) fn push_text(&mut self, text: &str, number: u32) {
        self.push(text, |_| number);
    }

    /// Adds a part of the file as it stands, from line `number` on; says in which line it ends.
    pub(super) fn push_raw(&mut self, raw: &str, number: u32) -> u32 {
        let mut last = number;
        self.push(raw, |ends| {
            last = number.saturating_add(ends);
            last
        });
        last
    }

    /// Adds text; `number_after` says in which line of the file the text behind its n-th line end stands.
    fn push(&mut self, text: &str, mut number_after: impl FnMut(u32) -> u32) {
        effort::count(text.len());
        let (mut ends, mut rest) = (0, text);
        while let Some(at) = rest.find(LINE_ENDS) {
            let (line, end) = rest.split_at(at);
            self.text.push_str(line);
            let width = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(1, char::len_utf8) };
            ends += 1;
            self.end_line(number_after(ends));
            rest = end.get(width..).unwrap_or_default();
        }
        self.text.push_str(rest);
    }
}
