//! Owns containers of text: JSON whose strings hold a log, pages of HTML. The text in them becomes lines as a person would
//! see them, and each remembers its line in the file. What is no container stays untouched.

mod html;
mod json;
mod lines;

pub(super) use lines::Unfolded;

use crate::effort;

/// The lines in a container; `None` where the text is none.
pub(super) fn unfolded(raw: &str) -> Option<Unfolded> {
    effort::count(raw.len());
    if html::is_page(raw) { Some(html::lines(raw)) } else { json::lines(raw) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::lines::line_ends;
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
