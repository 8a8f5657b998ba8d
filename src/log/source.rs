//! Owns which parts of a log quote source code: the lines below a traceback's frames, the excerpts of rich, IPython, pytest,
//! pdb and compilers, diffs, and program files that were printed or written in the shell. Such a line shows what code
//! says, not what a run was given. A command line, a printed configuration and a session's own input are no excerpts.
//! Knows nothing of entries.

mod frames;

use std::borrow::Cow;
use std::ops::Range;

use super::expression::Expression;
use super::prefix;

/// How far an excerpt is followed in either direction from the line that shows it.
const LONGEST: usize = 400;

/// The text with each quoted line of source code overwritten with blanks. Offsets and line ends stay as they are.
pub fn without_source(text: &str) -> Cow<'_, str> {
    let quoted = quoted(text);
    if quoted.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.as_bytes().to_vec();
    for range in quoted {
        bytes.get_mut(range).unwrap_or_default().fill(b' ');
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The parts that quote source code. Ranges may overlap and are on character boundaries.
fn quoted(text: &str) -> Vec<Range<usize>> {
    let lines = Line::all(text);
    let mut found = frames::quoted(text, &lines);
    let rules =
        [box_of_rich, arrow, gutter, marker, pytest, debugger, hunk, warning, kernel, printed_file, here_document];
    // What belongs to an excerpt begins none: else each line of a long one would look for all the others.
    let mut is_code = vec![false; lines.len()];
    for (index, line) in lines.iter().enumerate() {
        for rule in rules {
            if is_code.get(index) == Some(&true) {
                break;
            }
            for row in rule(&lines, index, line) {
                if let Some(is_code) = is_code.get_mut(row) {
                    *is_code = true;
                }
            }
        }
        if let Some(signature) = signature(&lines, index) {
            found.push(line.at + line.text.len() - signature..line.at + line.text.len());
        }
    }
    found.extend(lines.iter().zip(is_code).filter(|(_, is_code)| *is_code).map(|(line, _)| line.range()));
    found
}

/// A line, or the part of one that was folded into a string with printed `\n`s.
struct Line<'t> {
    at: usize,
    text: &'t str,
    /// Whether it begins a line of the text itself.
    is_whole: bool,
}

impl<'t> Line<'t> {
    fn all(text: &'t str) -> Vec<Line<'t>> {
        let mut lines = Vec::new();
        let mut at = 0;
        let bytes = text.as_bytes();
        let ends = memchr::memchr2_iter(b'\n', b'\r', bytes).map(|end| end + 1);
        for end in ends.chain((!bytes.ends_with(b"\n") && !bytes.ends_with(b"\r")).then_some(bytes.len())) {
            let line = text.get(at..end).unwrap_or_default();
            let own = line.trim_end_matches(['\n', '\r']);
            // A path on Windows may have a `\n` in it, too.
            let is_folded = own.contains("\\n") && (own.contains("\\n  File ") || own.contains("Traceback (most"));
            if is_folded {
                let mut offset = at;
                for (index, part) in own.split("\\n").enumerate() {
                    lines.push(Line { at: offset, text: part, is_whole: index == 0 });
                    offset += part.len() + 2;
                }
            } else {
                lines.push(Line { at, text: own, is_whole: true });
            }
            at += line.len();
        }
        lines
    }

    fn range(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    /// Without what other programs put before it.
    fn content(&self) -> &'t str {
        self.text.get(prefix::length(self.text)..).unwrap_or_default()
    }
}

/// The line itself and those around it, without a gap, that belong to the excerpt by themselves.
fn with_neighbors(lines: &[Line<'_>], index: usize, belongs: fn(&str) -> bool) -> Vec<usize> {
    let above = (0..index).rev().take(LONGEST).take_while(|index| belongs(text_at(lines, *index)));
    let below = (index + 1..lines.len()).take(LONGEST).take_while(|index| belongs(text_at(lines, *index)));
    above.chain([index]).chain(below).collect()
}

/// A line's text; empty beyond the end, which belongs to no excerpt.
fn text_at<'t>(lines: &[Line<'t>], index: usize) -> &'t str {
    lines.get(index).map_or("", |line| line.text)
}

/// A box that rich draws round a traceback: all of it but the places of its frames. Local variables are none of
/// the run's settings either.
fn box_of_rich(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static PLACE: Expression = Expression::new(r"^\W*\S.*:\d+ in \S+\s*\W*$");
    let begins = !line.text.is_ascii()
        && line.text.contains("Traceback (most recent call last)")
        && line.text.contains(['─', '━', '═'])
        && line.content().trim_start().starts_with(['╭', '┌', '┏', '╔']);
    if !begins {
        return Vec::new();
    }
    let below = lines.iter().enumerate().skip(index + 1).take(LONGEST * 10);
    let inside = below.take_while(|(_, line)| !line.content().trim_start().starts_with(['╰', '└', '┗', '╚']));
    inside.filter(|(_, line)| !PLACE.is_match(line.text)).map(|(index, _)| index).collect()
}

/// IPython's `---> 12 code`, and rich's `❱ 12 │ code` where its box is gone, with the numbered lines around.
fn arrow(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static ARROW: Expression = Expression::new(r"^[\s│|]*(?:-{1,}>|❱)\s*\d+(?:\s|$)");
    let can_be = line.text.contains("->") || line.text.contains('❱');
    if !can_be || !ARROW.is_match(line.content()) {
        return Vec::new();
    }
    with_neighbors(lines, index, |text| {
        static NUMBERED: Expression =
            Expression::new(r"^[\s│|]*(?:(?:-{1,}>|❱)\s*)?(?:\d+(?:\s|$)|\(\.\.\.\)|\.{3}\s*$)");
        let content = text.get(prefix::length(text)..).unwrap_or_default();
        NUMBERED.is_match(content) || NUMBERED.is_match(text)
    })
}

/// `> 12 | code` among `11 | code`, as JavaScript's tools print it.
fn gutter(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static POINTED: Expression = Expression::new(r"^\s*>\s*\d+\s*[|│]\s");
    if !line.text.contains('>') || !POINTED.is_match(line.text) {
        return Vec::new();
    }
    with_neighbors(lines, index, |text| {
        static ROW: Expression = Expression::new(r"^\s*>?\s*\d*\s*[|│](?:\s|$)");
        ROW.is_match(text)
    })
}

/// The line above a compiler's or an interpreter's mark: `^~~~`, also behind a gutter.
fn marker(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static MARK: Expression = Expression::new(r"^[\s│|]*[~-]*\^[\^~-]*\s*$");
    if !line.text.contains('^') || !MARK.is_match(line.content()) {
        return Vec::new();
    }
    let Some(above) = index.checked_sub(1) else { return Vec::new() };
    let text = text_at(lines, above);
    // Another process's line may stand in between.
    let has_same_prefix = (prefix::length(text) > 0) == (prefix::length(line.text) > 0);
    let has_same_gutter = !line.text.contains(['|', '│']) || text.contains(['|', '│']);
    if has_same_prefix && has_same_gutter { vec![above] } else { Vec::new() }
}

/// pytest's `>   code` with the function around it, and what it tells of an assertion.
fn pytest(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static COMPARED: Expression = Expression::new(r"^E {3,}(?:assert |[+?-] )");
    if line.text.starts_with('E') && COMPARED.is_match(line.text) {
        return vec![index];
    }
    let is_pointed = line.text.strip_prefix('>').is_some_and(|rest| rest.starts_with("   ") && !rest.trim().is_empty());
    let mut end = index + 1;
    while end <= index + LONGEST && text_at(lines, end).starts_with("    ") {
        end += 1;
    }
    // A quoted mail has a `>` before each line, too; below pytest's stand its message or a place.
    let follows = text_at(lines, end);
    let is_pytest = follows.starts_with("E   ") || follows.is_empty();
    if !is_pointed || !is_pytest {
        return Vec::new();
    }
    let above = (0..index).rev().take(LONGEST).take_while(|index| {
        let text = text_at(lines, *index);
        text.is_empty() || text.starts_with("    ")
    });
    above.chain(index..end).collect()
}

/// pdb's `-> code`, and the lines that its `list` numbers.
fn debugger(_: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static LISTED: Expression = Expression::new(r"^\s*\d+\s*B?(?:->|>>)?\s*\t");
    let is_one = line.text.starts_with("-> ") || line.text.contains('\t') && LISTED.is_match(line.text);
    if is_one { vec![index] } else { Vec::new() }
}

/// A hunk of a diff: as many lines as its head says.
fn hunk(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static HEAD: Expression = Expression::new(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@");
    if !line.text.starts_with("@@ ") {
        return Vec::new();
    }
    let Some(found) = HEAD.captures(line.text) else { return Vec::new() };
    let [mut old, mut new]: [usize; 2] =
        [1, 2].map(|group| found.get(group).map_or(Ok(1), |count| count.as_str().parse()).unwrap_or(0));
    let mut rows = vec![index];
    for (index, line) in lines.iter().enumerate().skip(index + 1).take(LONGEST) {
        let (is_old, is_new) = match line.text.bytes().next() {
            _ if old == 0 && new == 0 => break,
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            Some(b' ') | None => (1, 1),
            Some(b'\\') => (0, 0),
            Some(_) => break,
        };
        (old, new) = (old.saturating_sub(is_old), new.saturating_sub(is_new));
        rows.push(index);
    }
    rows
}

/// The line of code that Python prints below a warning.
fn warning(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static WARNING: Expression = Expression::new(r"\.py:\d+: \w*Warning: ");
    if !line.text.contains("Warning: ") || !WARNING.is_match(line.text) {
        return Vec::new();
    }
    let is_code = lines.get(index + 1).is_some_and(|line| line.content().starts_with("  "));
    if is_code { vec![index + 1] } else { Vec::new() }
}

/// The beginning of a kernel that Triton prints down to the mark: `at 12:4:`.
fn kernel(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static PLACE: Expression = Expression::new(r"(?:^|\s)at \d+:\d+:\s*$");
    if !line.text.trim_end().ends_with(':') || !PLACE.is_match(line.text) {
        return Vec::new();
    }
    let mut below = lines.iter().skip(index + 1).take(LONGEST);
    let length = below.position(|line| line.content().trim() == "^").unwrap_or(0);
    (index + 1..index + 1 + length).collect()
}

/// Names of files that are programs. A shell's script is none here: it is a list of command lines.
const PROGRAMS: [&str; 15] =
    [".py", ".pyx", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".js", ".ts", ".mjs", ".rs", ".go", ".java", ".jl"];

fn names_program(words: &str) -> bool {
    let mut words = words.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    words.any(|word| PROGRAMS.iter().any(|ending| word.ends_with(ending)))
}

/// What stands before the command on a shell's line, and the command.
fn typed(line: &str) -> Option<(&str, &str)> {
    let at = line.bytes().take(60).position(|byte| matches!(byte, b'$' | b'#' | b'>' | b'%'))?;
    let (prompt, rest) = line.split_at_checked(at + 1)?;
    rest.starts_with(' ').then(|| (prompt, rest.trim_start()))
}

/// A program that was printed in the shell, up to the next prompt or to what is no code.
fn printed_file(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static READ: Expression =
        Expression::new(r"^(?:cat|bat|head|tail|less|more|nl|sed|grep|rg|git (?:diff|show))\s(?:[^|<;&]*)$");
    static OUTPUT: Expression = Expression::new(
        r"^(?:\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|(?:INFO|WARNING|ERROR|DEBUG|Traceback)\b|[\w.]+(?:Error|Exception): )",
    );
    let Some((prompt, command)) = typed(line.text) else { return Vec::new() };
    if !READ.is_match(command) || !names_program(command) {
        return Vec::new();
    }
    let below = lines.iter().skip(index + 1).take(LONGEST);
    let file = below.take_while(|line| !is_like_prompt(line.text, prompt) && !OUTPUT.is_match(line.text));
    (index + 1..).zip(file).map(|(index, _)| index).collect()
}

/// Whether a command was typed at a prompt like this one. A root's prompt looks like a comment, but for
/// the command behind it.
fn is_like_prompt(text: &str, prompt: &str) -> bool {
    typed(text).is_some_and(|(own, command)| {
        own.len().abs_diff(prompt.len()) <= 40
            && own.ends_with(prompt.chars().next_back().unwrap_or('$'))
            && (own.trim() != "#" || command.starts_with(|c: char| c.is_ascii_lowercase() || c == '.'))
    })
}

/// A program that was written with a here-document. One that an interpreter reads is the session's own input.
fn here_document(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Vec<usize> {
    static BEGINS: Expression = Expression::new(r#"(?:cat|tee)\b.*<<-?\s*\\?['"]?(\w+)"#);
    if !line.text.contains("<<") || !names_program(line.text) {
        return Vec::new();
    }
    let Some(word) = BEGINS.captures(line.text).and_then(|found| found.get(1)) else { return Vec::new() };
    let mut below = lines.iter().skip(index + 1).take(LONGEST * 4);
    let end = below.position(|line| line.text.trim().trim_start_matches("> ") == word.as_str());
    (index + 1..index + 1 + end.unwrap_or(0)).collect()
}

/// How many bytes at the line's end are a function's signature, as IPython prints it behind a frame's place.
fn signature(lines: &[Line<'_>], index: usize) -> Option<usize> {
    static PLACE: Expression = Expression::new(r"^\s*(?:File )?\S.*?(?:\.\w+|>)(?::\d+)?,? in [\w.<>]+(\(.*)$");
    static NUMBERED: Expression = Expression::new(r"^\s*(?:-+>\s*)?\d+(?:\s|$)");
    let line = lines.get(index)?;
    if !line.text.contains(" in ") || !NUMBERED.is_match(text_at(lines, index + 1)) {
        return None;
    }
    Some(PLACE.captures(line.text)?.get(1)?.len())
}

#[cfg(test)]
mod tests;
