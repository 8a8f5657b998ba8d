//! Owns keys and certificates in blocks: what stands between their BEGIN and END, on lines of its own or on one, behind a
//! log's prefix too, and where one of the two was cut off.

use std::ops::Range;

/// A line of a block is no longer than this, as tools write it.
const LONGEST: usize = 120;
/// And all but its last are at least this long.
const WIDE: usize = 40;

/// Where a text holds them.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    let mut inside = false;
    // Wide lines and the narrow one behind them: a block's, should its END follow.
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
            // The last line's rest before its END.
            let before = line.get(..end).unwrap_or_default().trim_end();
            let word = before.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
            if before.len() - word >= 16 {
                places.push(start + word..start + before.len());
            }
            inside = false;
        } else if let Some(body) = body(line).filter(|body| body.len() >= WIDE || !line.contains(": ")) {
            let place = start + body.start..start + body.end;
            if inside {
                // A short line is the last one, should the END have been cut off.
                inside = body.len() >= WIDE && !line.trim_end().ends_with('=');
                places.push(place);
            } else if body.len() >= WIDE || maybe.last().is_some_and(|last| last.len() >= WIDE) {
                maybe.push(place);
            }
        } else {
            maybe.clear();
            // Its headers (`Proc-Type: 4,ENCRYPTED`), and the blank line behind them.
            inside = inside && (line.trim().is_empty() || line.contains(':'));
        }
        start += line.len();
    }
}

/// Where one of these signs stands on a line that speaks of a key or a certificate.
fn mark(line: &str, signs: [&str; 3]) -> Option<usize> {
    let is_about_a_key = ["KEY", "CERTIFICATE", "PGP", "SSH", "Private-"].iter().any(|word| line.contains(word));
    if !is_about_a_key {
        return None;
    }
    signs.iter().find_map(|sign| line.find(sign))
}

/// A line's last word, if it could be a part of a key in base64.
fn body(line: &str) -> Option<Range<usize>> {
    let line = line.trim_end().trim_end_matches(['"', '\'', ',', '\\']);
    let start = line.rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '|')).map_or(0, |blank| blank + 1);
    let word = line.get(start..)?;
    let is_base64 = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    (!word.is_empty() && word.len() <= LONGEST && is_base64).then_some(start..line.len())
}
