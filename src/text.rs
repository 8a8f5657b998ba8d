//! Owns what makes foreign text harmless to print: command lines, process names and log lines may hold terminal
//! escapes, bidirectional overrides and characters of no width that make one thing look like another.

use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text with every control, bidirectional and zero-width character made visible as `·`; tabs become spaces.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain || !text.chars().any(|c| c == '\t' || is_harmful(c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| match c {
                '\t' => ' ',
                c if is_harmful(c) => '·',
                c => c,
            })
            .collect(),
    )
}

/// The same for a text of several lines.
pub fn harmless_lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

/// JSON with the same value in which no character can control a terminal that it is printed on: those that JSON leaves as
/// they are become escapes.
pub fn harmless_json(json: String) -> String {
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Within strings JSON itself escapes the other controls; between values there are line ends.
        if c < ' ' || !is_harmful(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// A line in pieces of at most so many columns, with nothing left out.
pub fn broken(line: &str, width: usize) -> Vec<String> {
    let (mut pieces, mut columns) = (vec![String::new()], 0);
    for character in line.chars() {
        let wide = character.width().unwrap_or(0);
        columns += wide;
        if columns > width.max(1) {
            pieces.push(String::new());
            columns = wide;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces
}

/// The text wrapped to so many columns, in at most so many lines; "…" ends what goes on.
pub fn shortened(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = textwrap::wrap(text, width.max(1)).into_iter().map(Cow::into_owned).collect();
    if lines.len() <= most {
        return lines;
    }
    lines.truncate(most);
    if let Some(last) = lines.last_mut() {
        // Whole words give way: half of one reads as another.
        while last.width() + 2 > width && !last.is_empty() {
            let end = last.trim_end().rfind(' ').unwrap_or(0);
            last.truncate(end);
        }
        last.truncate(last.trim_end().len());
        last.push_str(" …");
    }
    lines
}

/// So many characters of a foreign text are quoted in a sentence.
const MOST_QUOTED: usize = 160;

/// What a machine or a file said, harmless to print and short.
pub(crate) fn short_quote(line: &str) -> String {
    let line = harmless(line.trim());
    let mut short: String = line.chars().take(MOST_QUOTED).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// A foreign word as an argument in a command to copy. `None` where it is no name: a word that begins with `-` would be an
/// option, and one that a shell reads would be more than a word. Brackets, as in `gpu[01-04]`, are quoted.
pub(crate) fn name_as_argument(word: &str) -> Option<Cow<'_, str>> {
    let is_name = word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "._/:[]-".contains(c));
    match is_name {
        true if word.contains(['[', ']']) => Some(Cow::Owned(format!("'{word}'"))),
        true => Some(Cow::Borrowed(word)),
        false => None,
    }
}

/// Whether a character can move the cursor, change the terminal or hide what is there.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn json_says_the_same_and_controls_no_terminal() {
        let value =
            BTreeMap::from([("command", "sleep \u{9b}2J \u{202e}x\u{7f} \u{e0041} 模型\n"), ("é\u{feff}", "\u{200b}")]);
        for json in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            let harmless = harmless_json(json);
            assert!(harmless.chars().all(|c| c == '\n' || !is_harmful(c)) && harmless.contains("模型"));
            let read: BTreeMap<String, String> = serde_json::from_str(&harmless).unwrap();
            let read: BTreeMap<&str, &str> = read.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(read, value);
        }
        assert_eq!(harmless_json("{\n  \"a\": 1\n}".to_owned()), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn a_line_is_broken_without_a_loss() {
        for width in 0..9 {
            let pieces = broken("docker  stop 模型 x", width);
            assert_eq!(pieces.concat(), "docker  stop 模型 x");
            assert!(pieces.iter().all(|piece| piece.chars().count() <= width.max(1)));
        }
        assert_eq!(broken("", 5), [""]);
    }

    #[test]
    fn escapes_and_invisible_characters_show() {
        assert_eq!(harmless("python\u{1b}[2J train\u{202e}yp.\tx"), "python·[2J train·yp. x");
        assert_eq!(harmless("größer 模型"), "größer 模型");
    }
}
