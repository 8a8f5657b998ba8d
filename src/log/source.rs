//! Owns which parts of a log quote source code: the lines below a traceback's frames, the excerpts of rich, IPython, pytest,
//! pdb and compilers, diffs, and program files that were printed or written in the shell. Such a line shows what code
//! says, not what a run was given. A command line, a printed configuration and a session's own input are no excerpts.
//! Knows nothing of entries.

mod frames;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

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
                is_code.get_mut(row).into_iter().for_each(|is_code| *is_code = true);
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
        for line in text.split_inclusive(['\n', '\r']) {
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

/// The lines that an excerpt found at some line consists of.
type Excerpt = std::vec::IntoIter<usize>;

fn none() -> Excerpt {
    Vec::new().into_iter()
}

fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// The line itself and those around it, without a gap, that belong to the excerpt by themselves.
fn with_neighbors(lines: &[Line<'_>], index: usize, belongs: fn(&str) -> bool) -> Excerpt {
    let fits = |index: &usize| lines.get(*index).is_some_and(|line| belongs(line.text));
    let above = (0..index).rev().take(LONGEST).take_while(fits);
    let below = (index + 1..lines.len()).take(LONGEST).take_while(fits);
    above.chain([index]).chain(below).collect::<Vec<_>>().into_iter()
}

/// A box that rich draws round a traceback: all of it but the places of its frames. Local variables are none of
/// the run's settings either.
fn box_of_rich(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^\W*\S.*:\d+ in \S+\s*\W*$"));
    let begins = line.text.contains("Traceback (most recent call last)")
        && line.text.contains(['─', '━', '═'])
        && line.content().trim_start().starts_with(['╭', '┌', '┏', '╔']);
    if !begins {
        return none();
    }
    let is_end = |index: usize| {
        lines.get(index).is_some_and(|line| line.content().trim_start().starts_with(['╰', '└', '┗', '╚']))
    };
    let inside = (index + 1..lines.len()).take(LONGEST * 10).take_while(|index| !is_end(*index));
    let code = inside.filter(|index| lines.get(*index).is_some_and(|line| !matches(&PLACE, line.text)));
    code.collect::<Vec<_>>().into_iter()
}

/// IPython's `---> 12 code`, and rich's `❱ 12 │ code` where its box is gone, with the numbered lines around.
fn arrow(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static ARROW: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^[\s│|]*(?:-{1,}>|❱)\s*\d+(?:\s|$)"));
    let can_be = line.text.contains("->") || line.text.contains('❱');
    if !can_be || !matches(&ARROW, line.content()) {
        return none();
    }
    with_neighbors(lines, index, |text| {
        static NUMBERED: LazyLock<Option<Regex>> =
            LazyLock::new(|| regex(r"^[\s│|]*(?:(?:-{1,}>|❱)\s*)?(?:\d+(?:\s|$)|\(\.\.\.\)|\.{3}\s*$)"));
        let content = text.get(prefix::length(text)..).unwrap_or_default();
        matches(&NUMBERED, content) || matches(&NUMBERED, text)
    })
}

/// `> 12 | code` among `11 | code`, as JavaScript's tools print it.
fn gutter(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static POINTED: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^\s*>\s*\d+\s*[|│]\s"));
    if !line.text.contains('>') || !matches(&POINTED, line.text) {
        return none();
    }
    with_neighbors(lines, index, |text| {
        static ROW: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^\s*>?\s*\d*\s*[|│](?:\s|$)"));
        matches(&ROW, text)
    })
}

/// The line above a compiler's or an interpreter's mark: `^~~~`, also behind a gutter.
fn marker(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static MARK: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^[\s│|]*[~-]*\^[\^~-]*\s*$"));
    if !line.text.contains('^') || !matches(&MARK, line.content()) {
        return none();
    }
    // Another process's line may stand in between.
    let is_alike = |above: &Line<'_>| {
        let has_gutter = line.text.contains(['|', '│']);
        (prefix::length(above.text) > 0) == (prefix::length(line.text) > 0)
            && (!has_gutter || above.text.contains(['|', '│']))
    };
    let above = index.checked_sub(1).filter(|above| lines.get(*above).is_some_and(is_alike));
    above.into_iter().collect::<Vec<_>>().into_iter()
}

/// pytest's `>   code` with the function around it, and what it tells of an assertion.
fn pytest(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static COMPARED: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^E {3,}(?:assert |[+?-] )"));
    if matches(&COMPARED, line.text) {
        return vec![index].into_iter();
    }
    let text = |index: usize| lines.get(index).map_or("", |line| line.text);
    let is_code = |index: &usize| text(*index).starts_with("    ");
    let is_pointed = line.text.strip_prefix('>').is_some_and(|rest| rest.starts_with("   ") && !rest.trim().is_empty());
    let below: Vec<usize> = (index + 1..lines.len()).take(LONGEST).take_while(is_code).collect();
    // A quoted mail has a `>` before each line, too; below pytest's stand its message or a place.
    let follows = text(index + 1 + below.len());
    let is_pytest = follows.starts_with("E   ") || follows.is_empty();
    if !is_pointed || !is_pytest {
        return none();
    }
    let above = (0..index).rev().take(LONGEST).take_while(|index| text(*index).is_empty() || is_code(index));
    above.chain([index]).chain(below).collect::<Vec<_>>().into_iter()
}

/// pdb's `-> code`, and the lines that its `list` numbers.
fn debugger(_: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static LISTED: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^\s*\d+\s*B?(?:->|>>)?\s*\t"));
    let is_one = line.text.starts_with("-> ") || line.text.contains('\t') && matches(&LISTED, line.text);
    is_one.then_some(index).into_iter().collect::<Vec<_>>().into_iter()
}

/// A hunk of a diff: as many lines as its head says.
fn hunk(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@"));
    let found = HEAD.as_ref().filter(|_| line.text.starts_with("@@ ")).and_then(|head| head.captures(line.text));
    let Some(found) = found else { return none() };
    let count = |group| found.get(group).map_or(Some(1), |count| count.as_str().parse::<usize>().ok()).unwrap_or(0);
    let (mut old, mut new) = (count(1), count(2));
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
    rows.into_iter()
}

/// The line of code that Python prints below a warning.
fn warning(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static WARNING: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"\.py:\d+: \w*Warning: "));
    if !line.text.contains("Warning: ") || !matches(&WARNING, line.text) {
        return none();
    }
    let below = lines.get(index + 1).is_some_and(|line| line.content().starts_with("  "));
    below.then_some(index + 1).into_iter().collect::<Vec<_>>().into_iter()
}

/// The beginning of a kernel that Triton prints down to the mark: `at 12:4:`.
fn kernel(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"(?:^|\s)at \d+:\d+:\s*$"));
    if !line.text.trim_end().ends_with(':') || !matches(&PLACE, line.text) {
        return none();
    }
    let is_mark = |index: &usize| lines.get(*index).is_some_and(|line| line.content().trim() == "^");
    let Some(end) = (index + 1..lines.len()).take(LONGEST).find(is_mark) else { return none() };
    (index + 1..end).collect::<Vec<_>>().into_iter()
}

/// Names of files that are programs. A shell's script is none here: it is a list of command lines.
const PROGRAMS: [&str; 15] =
    [".py", ".pyx", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".js", ".ts", ".mjs", ".rs", ".go", ".java", ".jl"];

fn names_program(words: &str) -> bool {
    let ends = |word: &str| PROGRAMS.iter().any(|ending| word.trim_matches(['"', '\'']).ends_with(ending));
    words.split_whitespace().any(ends)
}

/// What stands before the command on a shell's line, and the command.
fn typed(line: &str) -> Option<(&str, &str)> {
    let at = line.match_indices(['$', '#', '>', '%']).map(|(at, _)| at).find(|at| *at < 60)?;
    let (prompt, rest) = line.split_at_checked(at + 1)?;
    rest.starts_with(' ').then(|| (prompt, rest.trim_start()))
}

/// A program that was printed in the shell, up to the next prompt or to what is no code.
fn printed_file(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static READ: LazyLock<Option<Regex>> =
        LazyLock::new(|| regex(r"^(?:cat|bat|head|tail|less|more|nl|sed|grep|rg|git (?:diff|show))\s(?:[^|<;&]*)$"));
    static OUTPUT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        regex(
            r"^(?:\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|(?:INFO|WARNING|ERROR|DEBUG|Traceback)\b|[\w.]+(?:Error|Exception): )",
        )
    });
    let can_be = names_program(line.text);
    let Some((prompt, command)) = typed(line.text).filter(|_| can_be) else { return none() };
    if !matches(&READ, command) || !names_program(command) {
        return none();
    }
    // A root's prompt looks like a comment, but for the command behind it.
    let is_prompt = |text: &str| {
        typed(text).is_some_and(|(own, command)| {
            own.len().abs_diff(prompt.len()) <= 40
                && own.ends_with(prompt.chars().next_back().unwrap_or('$'))
                && (!own.trim().eq("#") || command.starts_with(|c: char| c.is_ascii_lowercase() || c == '.'))
        })
    };
    let is_file =
        |index: &usize| lines.get(*index).is_some_and(|line| !is_prompt(line.text) && !matches(&OUTPUT, line.text));
    (index + 1..lines.len()).take(LONGEST).take_while(is_file).collect::<Vec<_>>().into_iter()
}

/// A program that was written with a here-document. One that an interpreter reads is the session's own input.
fn here_document(lines: &[Line<'_>], index: usize, line: &Line<'_>) -> Excerpt {
    static BEGINS: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r#"(?:cat|tee)\b.*<<-?\s*\\?['"]?(\w+)"#));
    let found = BEGINS.as_ref().filter(|_| line.text.contains("<<") && names_program(line.text));
    let word = found.and_then(|begins| begins.captures(line.text)).and_then(|found| found.get(1));
    let Some(word) = word.map(|word| word.as_str()) else { return none() };
    let is_end =
        |index: &usize| lines.get(*index).is_some_and(|line| line.text.trim().trim_start_matches("> ") == word);
    let Some(end) = (index + 1..lines.len()).take(LONGEST * 4).find(is_end) else { return none() };
    (index + 1..end).collect::<Vec<_>>().into_iter()
}

/// How many bytes at the line's end are a function's signature, as IPython prints it behind a frame's place.
fn signature(lines: &[Line<'_>], index: usize) -> Option<usize> {
    static PLACE: LazyLock<Option<Regex>> =
        LazyLock::new(|| regex(r"^\s*(?:File )?\S.*?(?:\.\w+|>)(?::\d+)?,? in [\w.<>]+(\(.*)$"));
    static NUMBERED: LazyLock<Option<Regex>> = LazyLock::new(|| regex(r"^\s*(?:-+>\s*)?\d+(?:\s|$)"));
    let line = lines.get(index)?;
    let below = lines.get(index + 1).filter(|_| line.text.contains(" in "))?;
    let found = PLACE.as_ref().filter(|_| matches(&NUMBERED, below.text))?.captures(line.text)?;
    Some(found.get(1)?.len())
}

#[cfg(test)]
mod tests;
