//! Owns telling a document from a log. Guides, manuals, changelogs and source files contain messages about memory
//! although nothing failed. A bug report also has headings and code, but it is not a document.

use super::pattern::shows;
use crate::effort;
use crate::log::PastedLog;

/// A longer text is a log, never a page.
const PAGE: usize = 512 << 10;
/// How many lines a page's head takes at most.
const HEAD: usize = 200;
/// How many lines above and below are checked for the text of a program.
const NEAR: usize = 12;

/// Whether the whole text is a page about failures, or a program's source, rather than a failure's log.
pub(crate) fn is_document(log: &PastedLog) -> bool {
    let text = log.text();
    text.len() <= PAGE
        && (has_head(text)
            || is_changelog(text)
            || !holds_traces(text, false) && is_program(text)
            || !holds_traces(text, true)
                && (is_manual(text) || is_guide(text) || has_problems(text) || are_release_notes(text)))
}

/// The lines of a text. A very long line is cut: no page has one.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    const LONGEST: usize = 4 << 10;
    effort::count(text.len());
    text.lines().map(|line| line.get(..line.floor_char_boundary(LONGEST)).unwrap_or(line))
}

fn count(text: &str, is_counted: impl Fn(&str) -> bool) -> usize {
    lines(text).filter(|line| is_counted(line)).count()
}

/// A page's head as site generators read it (a title between two lines of dashes or plus signs), or a
/// comment with its licence.
fn has_head(text: &str) -> bool {
    let mut lines = lines(text).skip_while(|line| line.trim().is_empty());
    let first = lines.next().unwrap_or_default().trim_end();
    let end = match first {
        "---" | "+++" => first,
        _ if first.starts_with("<!--") => "-->",
        _ => return false,
    };
    let head: Vec<&str> = lines.take(HEAD).take_while(|line| line.trim_end() != end).collect();
    head.len() < HEAD && (shows("page_key", first) || head.iter().any(|line| shows("page_key", line)))
}

/// Whether the text has what only a run prints (a frame, a timestamp) or, if `told`, what only its user writes, as "my".
fn holds_traces(text: &str, told: bool) -> bool {
    lines(text).any(|line| shows("page_printed", line) || told && shows("page_told", line))
}

/// reStructuredText: directives, targets, roles and headings that are underlined.
fn is_manual(text: &str) -> bool {
    count(text, |line| shows("page_markup", line)) >= 3
}

/// Versions as headings, their changes as lists below.
fn is_changelog(text: &str) -> bool {
    count(text, |line| shows("page_version", line)) >= 3
        && count(text, |line| line.starts_with("- ") || line.starts_with("* ")) >= 6
}

/// A chapter about problems.
fn has_problems(text: &str) -> bool {
    lines(text).any(|line| shows("page_problems", line))
}

/// A list of changes, of which some quote what they mend.
fn are_release_notes(text: &str) -> bool {
    let changes = count(text, |line| shows("page_change", line));
    changes >= 3 && changes * 3 >= count(text, is_listed) && lines(text).any(|line| shows("page_release", line))
}

fn is_listed(line: &str) -> bool {
    ["- ", "* ", "+ ", "• "].iter().any(|mark| line.trim_start().starts_with(mark))
}

/// Whether the line is a change in a list of changes, or stands in the message of a commit.
pub(crate) fn is_listed_change(log: &PastedLog, number: usize) -> bool {
    let Some(line) = log.brief(number) else { return false };
    let is_beside = |sign: &str| {
        [number.saturating_sub(1), number.saturating_sub(2), number + 1, number + 2]
            .into_iter()
            .any(|near| log.brief(near).is_some_and(|line| shows(sign, line)))
    };
    shows("page_change", line) && (is_beside("page_change") || is_beside("page_changes"))
        || is_listed(line) && stands_below(log, number, "page_changes", is_listed)
        || shows("page_commits", line) && is_beside("page_commits")
        || line.starts_with("    ") && stands_below(log, number, "page_commit", |line| line.starts_with("    "))
}

/// Whether such a line stands above, with only lines of the same kind and empty ones in between.
fn stands_below(log: &PastedLog, number: usize, sign: &str, is_same: fn(&str) -> bool) -> bool {
    let above = (number.saturating_sub(NEAR).max(1)..number).rev().filter_map(|near| log.brief(near));
    above.into_iter().find(|line| !line.trim().is_empty() && !is_same(line)).is_some_and(|line| shows(sign, line))
}

fn is_guide(text: &str) -> bool {
    let headings = count(text, |line| shows("page_heading", line));
    let advices = count(text, |line| shows("page_advice", line));
    headings >= 2 && advices >= 3 && headings + advices >= 6
}

/// A program's source as a whole.
fn is_program(text: &str) -> bool {
    if is_json(text) {
        return false;
    }
    let lines: Vec<&str> = lines(text).filter(|line| !line.trim().is_empty()).collect();
    // A report in JSON, pasted with the command that shows it.
    if lines.iter().filter(|line| shows("quoted_member", line)).count() * 2 >= lines.len() {
        return false;
    }
    let (code, plain) = shares(&lines);
    let opens = lines.first().is_some_and(|line| is_code(line) || is_plain(line));
    opens && lines.len() >= 25 && code * 5 >= lines.len() * 2 && (code + plain) * 4 >= lines.len() * 3
}

/// Whether the text begins as JSON does, which is indented like a program.
fn is_json(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix(['{', '[']);
    inside.is_some_and(|inside| inside.trim_start().starts_with(['"', '{', '[']))
}

/// How many of the lines are surely code, and how many others may be.
fn shares(lines: &[&str]) -> (usize, usize) {
    let (code, rest): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| is_code(line));
    (code.len(), rest.into_iter().filter(|line| is_plain(line)).count())
}

/// What only programs have: a definition, a block's beginning or end, a statement's end, a comment over lines.
fn is_code(line: &str) -> bool {
    shows("page_code", line)
}

/// What stands in programs and elsewhere: a comment, an indented line.
fn is_plain(line: &str) -> bool {
    line.trim_start().starts_with('#') || line.starts_with("    ") && !line.trim().is_empty()
}

/// Whether the line stands in a program's text: statements and comments above and below, and nothing that a run prints.
pub(crate) fn stands_in_program(log: &PastedLog, number: usize) -> bool {
    if log.brief(number).is_none_or(|line| shows("page_output", line)) {
        return false;
    }
    let above = block(log, (number.saturating_sub(NEAR).max(1)..number).rev());
    let below = block(log, number + 1..=number + NEAR);
    if above.iter().chain(&below).any(|line| shows("page_output", line)) {
        return false;
    }
    let ((code_above, plain_above), (code_below, plain_below)) = (shares(&above), shares(&below));
    let code = code_above + code_below;
    code_above >= 2
        && code_below >= 2
        && code >= 6
        && (code + plain_above + plain_below) * 4 >= (above.len() + below.len()) * 3
}

/// The lines at these places, without empty ones, up to the fence of a code block.
fn block(log: &PastedLog, places: impl Iterator<Item = usize>) -> Vec<&str> {
    let lines = places.map_while(|near| log.brief(near));
    let inside = lines.take_while(|line| !["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence)));
    inside.filter(|line| !line.trim().is_empty()).collect()
}

/// Whether the line continues a sentence of the line above it, in prose that is no personal report.
pub(crate) fn continues_prose(log: &PastedLog, number: usize) -> bool {
    // Words of a person who tells what happened to them.
    let mut near = (number.saturating_sub(NEAR).max(1)..=number + NEAR).filter_map(|near| log.brief(near));
    let above = number.checked_sub(1).and_then(|above| log.brief(above));
    above.is_some_and(|line| shows("page_begun", line))
        && log.brief(number).is_some_and(|line| shows("page_goes_on", line))
        && !near.any(|line| shows("page_own", line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB";

    fn document(text: &str) -> bool {
        is_document(&PastedLog::new(text.replace("MESSAGE", MESSAGE)))
    }

    #[test]
    fn pages_and_sources_are_documents() {
        let function = "def load(path):\n    # MESSAGE\n    data = read(path)\n    return data\n\n";
        let documents = [
            "---\ntitle: Troubleshooting\n---\n\n## Memory\n\nMESSAGE\n",
            "<!--Copyright 2026 The Team.-->\n<!--\ntext\n-->\n# Memory\n\nMESSAGE\n",
            "# Troubleshooting\n\n## Memory\n\n```\nMESSAGE\n```\n\n- Lower the resolution\n- Use a quantized model\n- Start with a smaller one\n\n## Black images\n\nSet the flag.\n",
            "常见错误\n\nMESSAGE\n\n解决方案\n\n1. 减小批量大小\n\n2. 使用混合精度\n\n请使用 autocast\n\n3. 梯度检查点\n",
            "app-1.104\n\n- NEW: Added --autofit\n- Fixed MESSAGE with two models\n- Tiles are used at once, no \"MESSAGE\" any more\n\nEdit: 1.104.1 - Fixed a crash\n",
            "## Troubleshooting\n\n### `MESSAGE`\n\nClose other programs.\n",
            ".. _memory:\n\nMemory\n------\n\n.. code-block:: console\n\n   MESSAGE\n\nSee :ref:`flags`.\n",
            "# 1.2.0\n\n- MESSAGE is told\n- a\n\n# 1.1.0\n\n- b\n- c\n\n# 1.0.0\n\n- d\n- e\n",
            &format!("import os\n\n{}", function.repeat(7)),
        ];
        for text in documents {
            assert!(document(text), "{text}");
        }
    }

    #[test]
    fn what_somebody_reports_is_none() {
        let reports = [
            "# Memory\n\nAfter an hour I get\n\n```\nMESSAGE\n```\n\n## Tried\n\n- Lower the resolution\n- Use a smaller model\n- Set the flag\n- Try again\n",
            "### What happened?\n\nMESSAGE\n\n### Fix\n\nReduce the batch\nUse less\nTry more\nSet it\n",
            "# Memory\n\n## Log\n\nTraceback (most recent call last):\n  File \"run.py\", line 3, in <module>\nMESSAGE\n\n- Lower it\n- Use less\n- Try more\n- Set it\n",
            "# load\n# 2026-02-03 10:11:12 MESSAGE\n# Reduce it\n# Use less\n# Try more\n# Set it\n",
            "import torch\nmodel = make()\nmodel.cuda()\nMESSAGE\n",
            "llama_context: n_ctx = 4096\nllama_context: n_batch = 512\nMESSAGE\n",
            "- Updated the driver\n- Changed the batch size\n- Added swap\n\nMESSAGE\n",
            "MESSAGE\n\nTroubleshooting:\n- lower the batch size\n",
            "---\nMESSAGE\n---\n",
        ];
        for text in reports {
            assert!(!document(text), "{text}");
        }
    }

    fn at(text: &str, check: fn(&PastedLog, usize) -> bool) -> bool {
        let log = PastedLog::new(text.replace("MESSAGE", MESSAGE));
        let number = (1..=log.line_count()).find(|number| log.line(*number).unwrap().contains("memory")).unwrap();
        check(&log, number)
    }

    #[test]
    fn a_program_around_a_message_is_told_from_a_run() {
        let inside = "    if (!block) {\n        report(st);\n        return 1;\n    }\n        risk of out of memory failure. It raises\n    if (next) {\n        free(next);\n        return 0;\n    }\n";
        assert!(at(inside, stands_in_program));
        let run = "model = make()\nfor batch in data:\n    step(batch)\n    return x\nMESSAGE\nimport os\ndef f():\n    return 1\nx = 2\n";
        assert!(!at(run, stands_in_program));
        let traced = "  File \"a.py\", line 3, in f\n    return g(x)\n  out of memory\n  File \"a.py\", line 9, in g\n    return h(x)\n";
        assert!(!at(traced, stands_in_program));
    }

    #[test]
    fn a_change_and_a_commit_quote_what_they_mend() {
        let changes = [
            "* Fix MESSAGE by @ada in https://example.org/pull/12\n* Bump tokio from 1.2 to 1.3 by @bob",
            "### Fixed\n\n- MESSAGE when resuming\n- a typo",
            "tool (1.2-3) unstable; urgency=medium\n\n  * Fix \"MESSAGE\" with large files\n  * Drop old flags",
            "commit 3f2a1b0c9d8e\nAuthor: Ada <ada@example.org>\nDate:   Sat Feb 3\n\n    Fix MESSAGE in validation\n",
            "3f2a1b0 (HEAD -> main) fix: MESSAGE on resume\n4f2a1b1 feat: a flag\n",
        ];
        for text in changes {
            assert!(at(text, is_listed_change), "{text}");
        }
        let told = [
            "- Updated the driver\n- Still: MESSAGE\n",
            "Errors:\n  - MESSAGE\n  - job 3 failed\n",
            "    MESSAGE\n    at step 3\n",
        ];
        for text in told {
            assert!(!at(text, is_listed_change), "{text}");
        }
    }

    #[test]
    fn prose_that_goes_on_is_no_message() {
        let prose = "reaches the limit of the pool here and allows the\nout-of-memory error to be tested.\n";
        assert!(at(prose, continues_prose));
        let told = "I started it again with a smaller model and got an\nout of memory error after a while.\n";
        assert!(!at(told, continues_prose));
        assert!(!at("loading model shards: 4/9 done\nout of memory\n", continues_prose));
    }
}
