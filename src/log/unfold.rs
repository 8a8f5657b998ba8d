//! Owns containers of text: JSON whose strings hold a log, pages of HTML. The text in them becomes lines as a person would
//! see them, and each remembers its line in the file. What is no container stays untouched.

mod html;
mod json;

use crate::effort;

/// Text under way, and of which line of the file each of its lines is.
#[derive(Debug)]
pub(super) struct Unfolded {
    pub(super) text: String,
    pub(super) numbers: Vec<u32>,
}

/// The lines in a container; `None` where the text is none.
pub(super) fn unfolded(raw: &str) -> Option<Unfolded> {
    effort::count(raw.len());
    if html::is_page(raw) { Some(html::lines(raw)) } else { json::lines(raw) }
}

/// What ends a line once a log is clean.
const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

/// How many lines end in a part of a file.
fn line_ends(raw: &str) -> u32 {
    effort::count(raw.len());
    let ends = raw.matches(LINE_ENDS).count() - raw.matches("\r\n").count();
    u32::try_from(ends).unwrap_or(u32::MAX)
}

impl Unfolded {
    fn new() -> Unfolded {
        Unfolded { text: String::new(), numbers: vec![1] }
    }

    /// Ends the line, and begins one that stands in line `number` of the file.
    fn end_line(&mut self, number: u32) {
        self.text.push('\n');
        self.numbers.push(number);
    }

    fn is_at_line_start(&self) -> bool {
        self.text.is_empty() || self.text.ends_with('\n')
    }

    /// Ends the line if it has begun; what follows stands in line `number` of the file.
    fn start_line(&mut self, number: u32) {
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
    fn push_text(&mut self, text: &str, number: u32) {
        self.push(text, |_| number);
    }

    /// Adds a part of the file as it stands, from line `number` on; says in which line it ends.
    fn push_raw(&mut self, raw: &str, number: u32) -> u32 {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: [&str; 34] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\n",
        "\r\n",
        "\r",
        " ",
        "\"message\":",
        "\"text\":[",
        "\"a\\nb\"",
        "\"a\"",
        "\"values\":[[",
        "\"1770000000000000000\"",
        "\"MESSAGE\":[65,10]",
        "\"traceback\":[",
        "\"evalue\":\"a\",",
        "\"labels\":{",
        "7",
        "null",
        "x",
        "é\u{2028}",
        "app | ",
        "<html>",
        "<pre>",
        "</pre>",
        "<br>",
        "<a>1</a>",
        "<!--",
        "&lt;",
    ];

    proptest! {
        /// Whatever a container holds, each of its lines has a number, and none is beyond the file.
        #[test]
        fn each_line_knows_its_line_in_the_file(parts in proptest::collection::vec(0..PARTS.len(), 0..60), start in 0..3_usize) {
            let start = ["", "{\"log\":\"a\\n\",", "<!DOCTYPE html>\n"][start];
            let raw: String = [start].into_iter().chain(parts.into_iter().map(|part| PARTS[part])).collect();
            if let Some(unfolded) = unfolded(&raw) {
                prop_assert_eq!(unfolded.numbers.len(), unfolded.text.matches('\n').count() + 1, "{:?}", &unfolded.text);
                prop_assert!(!unfolded.text.contains(['\r', '\u{2028}']), "{:?}", &unfolded.text);
                prop_assert!(unfolded.numbers.is_sorted(), "{:?}", &unfolded);
                let last = unfolded.numbers.last().copied().unwrap_or(0);
                prop_assert!(last <= line_ends(&raw) + 1, "{:?}: {:?}", &raw, &unfolded);
            }
        }
    }
}
