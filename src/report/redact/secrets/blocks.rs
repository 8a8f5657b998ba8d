//! Owns secrets of several lines: keys and certificates between BEGIN and END, on several lines or on one, with or without
//! the prefix of a log, and where either mark was cut off; and the values of YAML that stand below their key.

use std::ops::Range;

use crate::effort;

/// The longest line of a block that tools write.
const LONGEST: usize = 120;
/// The shortest line of a block, except for its last.
const WIDE: usize = 40;

/// Adds the ranges of such keys in a text.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    let mut inside = false;
    // Wide lines and the narrow one behind them, which belong to a block if its END follows.
    let mut maybe: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let begins = mark(line, ["-----BEGIN ", "---- BEGIN ", "Private-Lines:"]);
        let ends = mark(line, ["-----END ", "---- END ", "Private-MAC:"]);
        if let Some(begins) = begins {
            let rest = line.get(begins + 11..).unwrap_or_default();
            let body = rest.find("----").map_or(line.len(), |dashes| begins + 11 + dashes + 5);
            let end = ends.filter(|end| *end > body).unwrap_or(line.trim_end().len());
            if body < end {
                places.push(start + body..start + end);
            }
            inside = ends.is_none_or(|end| end < begins);
            maybe.clear();
        } else if let Some(end) = ends {
            places.append(&mut maybe);
            // The END may stand on the last line of the key.
            let before = line.get(..end).unwrap_or_default().trim_end();
            let word = before.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
            if before.len() - word >= 16 {
                places.push(start + word..start + before.len());
            }
            inside = false;
        } else if let Some(body) = body(line).filter(|body| body.len() >= WIDE || !line.contains(": ")) {
            let place = start + body.start..start + body.end;
            if inside {
                // A short line is the last one, even if the END was cut off.
                inside = body.len() >= WIDE && !line.trim_end().ends_with('=');
                places.push(place);
            } else if body.len() >= WIDE || maybe.last().is_some_and(|last| last.len() >= WIDE) {
                maybe.push(place);
            }
        } else {
            maybe.clear();
            // A block may begin with headers (`Proc-Type: 4,ENCRYPTED`) and a blank line.
            inside = inside && (line.trim().is_empty() || line.contains(':'));
        }
        start += line.len();
    }
}

/// The place of the first of these marks, on a line about a key or a certificate.
fn mark(line: &str, signs: [&str; 3]) -> Option<usize> {
    let is_about_a_key = ["KEY", "CERTIFICATE", "PGP", "SSH", "Private-"].iter().any(|word| line.contains(word));
    if !is_about_a_key {
        return None;
    }
    signs.iter().find_map(|sign| line.find(sign))
}

/// The range of a line's last word, if it may be part of a key in base64.
fn body(line: &str) -> Option<Range<usize>> {
    let line = line.trim_end().trim_end_matches(['"', '\'', ',', '\\']);
    let start = line.rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '|')).map_or(0, |blank| blank + 1);
    let word = line.get(start..)?;
    let is_base64 = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    (!word.is_empty() && word.len() <= LONGEST && is_base64).then_some(start..line.len())
}

/// The lines below a key of YAML whose value is `|` or `>` (a block scalar).
pub(super) struct Below<'t> {
    text: &'t str,
    /// What a log has before each line, up to the blanks before the key.
    prefix: &'t str,
    range: Range<usize>,
}

/// What stands below the key that begins at `key`, up to the first line that is not indented further than the key. `None`
/// where its value is another one.
pub(super) fn below<'t>(text: &'t str, key: usize, value: &Range<usize>) -> Option<Below<'t>> {
    // A tag may stand before it.
    let sign = text.get(value.clone())?.rsplit([' ', '\t']).next()?;
    let is_sign =
        sign.starts_with(['|', '>']) && sign.bytes().skip(1).all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte));
    if !is_sign {
        return None;
    }
    let behind = end_of_line(text.get(value.end..)?)?;
    let block = text.get(value.end + behind.len() + 1..)?;
    if !(behind.trim().is_empty() || behind.trim_start().starts_with('#')) {
        return None;
    }
    // The value may stand on a line below the name: `- name: X`, `value: |`.
    let line_start = text.get(..value.start)?.rfind('\n').map_or(0, |end| end + 1);
    let before_key = text.get(line_start..key.max(line_start)).unwrap_or_default();
    // An item of a list may begin with the key.
    let prefix = before_key.trim_end_matches([' ', '-', '"', '\'']);
    let own_line = text.get(line_start + prefix.len()..value.start)?;
    let key_column = own_line.len() - own_line.trim_start_matches([' ', '-']).len();
    let is_within = |line: &&str| match line.strip_prefix(prefix) {
        Some(line) => line.trim().is_empty() || indentation(line) > key_column,
        None => line.trim().is_empty(),
    };
    let length: usize = block.split_inclusive('\n').take_while(is_within).map(str::len).sum();
    effort::count(length);
    let start = value.end + behind.len() + 1;
    Some(Below { text, prefix, range: start..start + length })
}

/// The rest of a line, if that is short. Otherwise a line of many keys would be read once for each.
fn end_of_line(rest: &str) -> Option<&str> {
    let near = rest.get(..rest.floor_char_boundary(LONGEST))?;
    effort::count(near.len());
    Some(near.split_once('\n')?.0)
}

impl Below<'_> {
    pub(super) fn end(&self) -> usize {
        self.range.end
    }

    /// The lines that are not blank, each without the blanks around it.
    pub(super) fn lines(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = self.range.start;
        self.text.get(self.range.clone()).unwrap_or_default().split_inclusive('\n').filter_map(move |line| {
            let own = line.strip_prefix(self.prefix).unwrap_or(line);
            let from = start + line.len() - own.trim_start().len();
            start += line.len();
            let length = own.trim().len();
            (length > 0).then_some(from..from + length)
        })
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
