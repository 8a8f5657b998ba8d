//! Owns the source lines below the frames of Python's tracebacks, whatever a logger puts before each line: of one frame the
//! lines that are indented further than its place. Also where indentation was lost or a narrow terminal broke lines.

use std::ops::Range;

use super::{LONGEST, Line, text_at};
use crate::log::expression::Expression;

/// Lines of other processes that may stand between two of one traceback.
const INTERLEAVED: usize = 60;
/// Lines of a statement whose indentation was lost.
const FLAT_STATEMENT: usize = 12;
/// Widths that terminals have as a rule.
const USUAL_WIDTHS: [usize; 5] = [80, 100, 120, 132, 160];

/// A frame's place: `File "…", line 12, in f`.
struct Place<'t> {
    /// What a logger puts before each line.
    prefix: &'t str,
    indent: usize,
    /// The line that it ends on.
    ends: usize,
}

/// The source lines below all frames.
pub(super) fn quoted(text: &str, lines: &[Line<'_>]) -> Vec<Range<usize>> {
    if !text.contains("File ") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for index in 0..lines.len() {
        if let Some(place) = place(lines, index) {
            below(lines, &place, &mut found);
        }
    }
    found
}

/// Reads a place, also one that a terminal broke into two or three lines.
fn place<'t>(lines: &[Line<'t>], index: usize) -> Option<Place<'t>> {
    let line = lines.get(index)?;
    let at = line.text.find("File \"").or_else(|| line.text.find("File \\\""))?;
    let (before, rest) = line.text.split_at_checked(at)?;
    let ends = if is_place(rest) { index } else { end_of_broken_place(lines, index, rest)? };
    let prefix = before.trim_end_matches([' ', '\t']);
    Some(Place { prefix, indent: before.len() - prefix.len(), ends })
}

/// The line on which a place ends that begins with `rest` and that a terminal broke.
fn end_of_broken_place(lines: &[Line<'_>], index: usize, rest: &str) -> Option<usize> {
    if rest.len() < 20 {
        return None;
    }
    let mut joined = rest.to_owned();
    (index + 1..lines.len()).take(2).find(|next| {
        joined.push_str(text_at(lines, *next).trim_end());
        is_place(&joined)
    })
}

/// Whether that begins with a place. A dump of threads has no comma behind the number and quotes nothing.
fn is_place(text: &str) -> bool {
    static PLACE: Expression = Expression::new(r#"^File \\?"[^"\n]{1,400}\\?", line \d+(?:, in \S|\s*$)"#);
    PLACE.is_match(text)
}

/// Whether a line begins or ends something else of a traceback: the next place, the exception, how two are linked.
fn is_other(text: &str) -> bool {
    static OTHER: Expression = Expression::new(
        r#"^\W{0,4}(?:File \\?"|Traceback \(most|During handling of|The above exception|\[Previous line|[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Killed)\b|[\w.]+: )"#,
    );
    OTHER.is_match(text.trim_start())
}

/// The rest of a line behind the same prefix; numbers such as times and PIDs may differ.
fn behind<'t>(prefix: &str, line: &'t str) -> Option<&'t str> {
    let mut rest = line;
    let mut wanted = prefix;
    while let Some(first) = wanted.chars().next() {
        if first.is_ascii_digit() {
            if !rest.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            wanted = wanted.trim_start_matches(|c: char| c.is_ascii_digit());
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        } else {
            (wanted, rest) = (wanted.strip_prefix(first)?, rest.strip_prefix(first)?);
        }
    }
    Some(rest)
}

fn below(lines: &[Line<'_>], place: &Place<'_>, found: &mut Vec<Range<usize>>) {
    let mut skipped = 0;
    let mut first = true;
    let mut is_flat = false;
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate().skip(place.ends + 1).take(LONGEST) {
        // Parts of one folded line have no prefix of their own.
        let Some(rest) = (if line.is_whole { behind(place.prefix, line.text) } else { Some(line.text) }) else {
            skipped += 1;
            if skipped > INTERLEAVED {
                break;
            }
            continue;
        };
        let indent = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let own_indent = if line.is_whole { place.indent } else { place.indent.min(2) };
        let is_deeper = indent > own_indent && !rest.trim().is_empty() && !(indent <= own_indent + 1 && is_other(rest));
        let is_next_flat = first && place.indent <= 1 && !is_other(rest) && !rest.trim().is_empty();
        let goes_on = is_flat && rows.len() < FLAT_STATEMENT && !is_other(rest) && is_open(lines, &rows);
        if is_deeper || is_next_flat || goes_on {
            is_flat |= !is_deeper;
            rows.push((index, line.text.len() - rest.len()));
        } else if first && is_rest_of_place(lines, index, place) {
            continue;
        } else if is_rest_of_row(lines, &rows, line, rest) {
            rows.push((index, 0));
        } else {
            break;
        }
        first = false;
    }
    found.extend(rows.iter().filter_map(|(index, from)| {
        let line = lines.get(*index)?;
        Some(line.at + from..line.at + line.text.len())
    }));
}

/// Whether a bracket is still open behind these rows.
fn is_open(lines: &[Line<'_>], rows: &[(usize, usize)]) -> bool {
    let text = rows.iter().filter_map(|(index, from)| lines.get(*index)?.text.get(*from..));
    text.flat_map(str::chars).fold(0_i64, |depth, c| match c {
        '(' | '[' | '{' => depth + 1,
        ')' | ']' | '}' => depth - 1,
        _ => depth,
    }) > 0
}

/// Whether a terminal broke the place's own line: a short rest at its beginning, and the source line below that.
fn is_rest_of_place(lines: &[Line<'_>], index: usize, place: &Place<'_>) -> bool {
    let (rest, below, width) = (text_at(lines, index), text_at(lines, index + 1), width(lines, place.ends));
    let is_deeper_below = below.len() - below.trim_start_matches(' ').len() > place.indent && !is_other(below);
    place.prefix.is_empty()
        && index == place.ends + 1
        && width >= 40
        && rest.chars().count() < width
        && !rest.starts_with(' ')
        && !is_other(rest)
        && is_deeper_below
}

fn width(lines: &[Line<'_>], index: usize) -> usize {
    text_at(lines, index).chars().count()
}

/// Whether a terminal broke the row above, which is as wide as the terminal was.
fn is_rest_of_row(lines: &[Line<'_>], rows: &[(usize, usize)], line: &Line<'_>, rest: &str) -> bool {
    let Some((last, _)) = rows.last() else { return false };
    let own = width(lines, *last);
    if own < 40 || !line.is_whole || rest.starts_with(' ') || rest.is_empty() || is_other(rest) {
        return false;
    }
    let near = last.saturating_sub(INTERLEAVED)..(last + INTERLEAVED).min(lines.len());
    let widths: Vec<usize> = near.map(|index| width(lines, index)).collect();
    let is_widest = widths.iter().all(|width| *width <= own);
    is_widest && (USUAL_WIDTHS.contains(&own) || widths.iter().filter(|width| **width == own).count() > 1)
}
