//! Owns telling a message from a quotation of it. Source code in a traceback, a diff or an editor quotes messages
//! although nothing failed, and so does prose between backticks unless a person reports a failure this way.

use std::collections::BTreeMap;

use super::document::{continues_prose, is_listed_change, stands_in_program};
use super::pattern::shows;
use crate::effort;
use crate::log::PastedLog;

/// How many lines above and below are checked for source code.
const NEAR: usize = 8;
/// How many lines a string is followed in either direction.
const LONG_STRING: usize = 30;

/// Decides which messages of a log are only quoted: in source code that a traceback, a diff or an editor shows, or in
/// prose. Answers are cached, since many entries match at the same place.
pub(super) struct Quotations<'l> {
    log: &'l PastedLog,
    known: BTreeMap<(usize, usize), bool>,
    lines: BTreeMap<usize, bool>,
    statements: BTreeMap<usize, usize>,
    parts: BTreeMap<(usize, usize), Part>,
}

impl<'l> Quotations<'l> {
    /// An empty cache for this log.
    pub(super) fn new(log: &'l PastedLog) -> Quotations<'l> {
        Quotations {
            log,
            known: BTreeMap::new(),
            lines: BTreeMap::new(),
            statements: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Whether the message at this place is only quoted.
    pub(super) fn holds(&mut self, number: usize, column: usize) -> bool {
        if let Some(known) = self.known.get(&(number, column)) {
            return *known;
        }
        let quoted = self.is_quoted(number, column) || self.stands_in_source(number, column);
        self.known.insert((number, column), quoted);
        quoted
    }

    /// Whether the line itself shows that it quotes. In a log that printed `\n`s fold into one line, only the part
    /// with the message counts.
    fn is_quoted(&mut self, number: usize, column: usize) -> bool {
        let Some((line, start)) = self.log.slice_around(number, column) else { return true };
        let column = column - start;
        effort::count(line.len());
        let from = line.get(..column).and_then(|before| before.rfind("\\n")).map_or(0, |at| at + 2);
        let to = line.get(column..).and_then(|after| after.find("\\n")).map_or(line.len(), |at| column + at);
        let (before, after) = (line.get(from..column).unwrap_or_default(), line.get(column..to).unwrap_or_default());
        let shown = line.get(from..to).unwrap_or(line);
        let part = self.parts.entry((number, start + from));
        let part = *part.or_insert_with(|| match (from == 0 && start > 0, to == line.len()) {
            (false, false) => Part::of(shown),
            // The part was cut at a tile's edge: patterns need the real ends of the line.
            _ => Part::of(&self.log.with_ends(number, start + from..start + to)),
        });
        part.is_quoted(before, after)
    }

    /// Whether the lines around show that the message stands in source code: in a diff, in a string or a comment among
    /// statements, or in a string over several lines.
    fn stands_in_source(&mut self, number: usize, column: usize) -> bool {
        let log = self.log;
        let Some((line, start)) = log.slice_around(number, column) else { return false };
        let around = self.lines.entry(number).or_insert_with(|| {
            let Some(line) = log.brief(number) else { return false };
            is_in_diff(log, number, line)
                || is_in_long_string(log, number)
                || is_comment(line) && is_beside_statement(log, number)
                || is_listed(log, number, line)
                || is_explained(log, number)
                || is_in_alert_rule(log, number, line)
                || is_listed_change(log, number)
                || stands_in_program(log, number)
                || continues_prose(log, number)
        });
        effort::count(line.len());
        let (before, after) = line.split_at_checked(column - start).unwrap_or((line, ""));
        *around
            || is_explained_beside(log, number, line, before)
            || is_in_string(before, after)
                && !looks_like_output(line)
                && *self.statements.entry(number).or_insert_with(|| statements(log, number)) >= 2
    }
}

/// The answers that are the same for all messages in a line, or in its part between two printed line ends.
#[derive(Clone, Copy)]
struct Part {
    /// The line is a page's heading, names a symptom or a test, or belongs to a form or a manual.
    is_of_a_page: bool,
    /// The line is source code.
    is_source: bool,
}

impl Part {
    fn of(line: &str) -> Part {
        effort::count(line.len());
        Part {
            is_of_a_page: is_heading(line)
                || ["quoted_symptom", "quoted_test", "quoted_form", "quoted_listed"]
                    .into_iter()
                    .any(|sign| shows(sign, line)),
            is_source: is_source(line) && !looks_like_output(line),
        }
    }

    /// Whether the message between them is only quoted.
    fn is_quoted(self, before: &str, after: &str) -> bool {
        effort::count(before.len() + after.len());
        is_in_backticks(before, after)
            || self.is_of_a_page
            || self.is_source && !after.is_empty() && !shows("quoted_raised", before)
    }
}

/// Whether a line of source code is shown, as a traceback, a diff or an editor does.
fn is_source(line: &str) -> bool {
    shows("quoted_source", line)
}

/// A page's heading names a kind of failure ("## CUDA out of memory"); one that reports a failure quotes its
/// message, colon and all.
fn is_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    (2..=6).contains(&(line.len() - text.len()))
        && text.starts_with(' ')
        && (!text.contains(':') || text.contains("\\["))
}

/// Whether an open backtick with words before it precedes, and what it quotes is no message that somebody reports.
fn is_in_backticks(before: &str, after: &str) -> bool {
    let Some((said, _)) = before.rsplit_once('`').filter(|(_, since)| !is_frame(since)) else { return false };
    let fence = said.len() - said.trim_end_matches('`').len();
    let (said, start) = (said.trim_end_matches('`'), said.len() + 1);
    let open = said.matches('`').count() % 2 == 0 || fence == 2;
    let has_words = said.split_whitespace().filter(|word| word.len() > 1).nth(1).is_some();
    let (rest, then) = after.split_once('`').unwrap_or((after, ""));
    // Only nearby prose can say what the quotation is about.
    let (said, rest, then) = (end_of(said), beginning_of(rest), beginning_of(then));
    let whole = format!("{}{rest}", end_of(before.get(start..).unwrap_or_default()));
    open && (shows("quoted_defined", then) || has_words && !is_reported(said, &whole, then))
}

/// Whether a backtick before this text opened a name, as in Ruby's frames and GNU's messages: "in `read': …".
fn is_frame(since: &str) -> bool {
    let name = since.split_once("':").map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || "_ ()<>?!=.:/-".contains(c)))
}

/// Bytes of prose that are read before and after a quotation.
const SENTENCES: usize = 2 << 10;

fn beginning_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SENTENCES)).unwrap_or(text)
}

fn end_of(text: &str) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(SENTENCES))..).unwrap_or(text)
}

/// A changed line beside another one, both indented behind their marks; or one added line of many.
fn is_in_diff(log: &PastedLog, number: usize, line: &str) -> bool {
    shows("quoted_changed", line) && count_beside(log, number, "quoted_changed") >= 1
        || shows("quoted_added", line) && count_beside(log, number, "quoted_added") >= 3
}

/// How many of the three lines above and below match.
fn count_beside(log: &PastedLog, number: usize, pattern: &str) -> usize {
    let near = (number.saturating_sub(3).max(1)..=number + 3).filter(|near| *near != number);
    near.filter(|near| log.brief(*near).is_some_and(|line| shows(pattern, line))).count()
}

/// Whether a quotation mark is open before the message and closed behind it, and the line is no log's.
fn is_in_string(before: &str, after: &str) -> bool {
    let is_of_log = before.starts_with(|c: char| c.is_ascii_digit() || c == '[') || before.contains("level=");
    let mut marks = ['"', '\''].into_iter();
    !is_of_log && marks.any(|mark| before.matches(mark).count() % 2 == 1 && after.contains(mark))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("# ") || line.starts_with("// ") || line.starts_with("#  ")
}

/// A page that quotes a message to say what it means. ("This error means" is ComfyUI's own word.)
fn is_explained(log: &PastedLog, number: usize) -> bool {
    let next = (number + 1..=number + 4).filter_map(|near| log.brief(near)).find(|line| !line.trim().is_empty());
    next.is_some_and(|line| shows("quoted_means", line))
}

/// A rule that watches for such a failure, with what it says when it fires.
fn is_in_alert_rule(log: &PastedLog, number: usize, line: &str) -> bool {
    let is_member = line.trim_start().trim_start_matches("- ").split_once(':').is_some_and(|(key, _)| is_key(key));
    let near = number.saturating_sub(NEAR).max(1)..=number + NEAR;
    is_member
        && near.into_iter().filter(|near| log.brief(*near).is_some_and(|line| shows("quoted_rule", line))).count() >= 2
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// A table's row whose other cell explains the message.
fn is_explained_beside(log: &PastedLog, number: usize, line: &str, before: &str) -> bool {
    if !is_table_row(line) {
        return false;
    }
    let above = (1..number).rev().take(LONG_STRING).map_while(|near| log.brief(near));
    let mut rows = above.take_while(|line| is_table_row(line));
    let has_head = rows.any(|line| line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')));
    let own = before.matches('|').count();
    has_head && line.split('|').enumerate().any(|(index, cell)| index != own && is_sentence(cell))
}

fn is_table_row(line: &str) -> bool {
    line.trim_start().starts_with('|') && line.matches('|').count() >= 3
}

fn is_sentence(cell: &str) -> bool {
    cell.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic)).count() >= 5
}

/// A name alone on its line beside another such: an index of names; or a word in a list of words.
fn is_listed(log: &PastedLog, number: usize, line: &str) -> bool {
    if (number.saturating_sub(3).max(1)..=number + 3)
        .all(|near| log.brief(near).is_some_and(|line| shows("quoted_word", line)))
    {
        return true;
    }
    let beside = [number.saturating_sub(1), number + 1];
    shows("quoted_name", line)
        && beside.iter().any(|near| log.brief(*near).is_some_and(|line| shows("quoted_name", line)))
}

/// How many of the lines around are statements of a program. A brace that ends a block of a program ends an object of JSON,
/// too.
fn statements(log: &PastedLog, number: usize) -> usize {
    let near = (number.saturating_sub(NEAR).max(1)..=number + NEAR).filter(|near| *near != number);
    let is_member = log.brief(number).is_some_and(|line| shows("quoted_member", line));
    near.filter(|near| is_statement(log, *near) && !(is_member && ends_object(log, *near))).count()
}

fn ends_object(log: &PastedLog, number: usize) -> bool {
    log.brief(number).is_some_and(|line| line.trim() == "}")
}

/// Whether the comment's lines stand below a statement, or right above one.
fn is_beside_statement(log: &PastedLog, number: usize) -> bool {
    let mut above = (number.saturating_sub(NEAR).max(1)..number).rev();
    let above = above.find(|near| log.brief(*near).is_some_and(|line| !is_comment(line) && !line.trim().is_empty()));
    let below = (number + 1..=number + NEAR).find(|near| log.brief(*near).is_some_and(|line| !is_comment(line)));
    above.into_iter().chain(below).any(|line| is_statement(log, line))
}

/// Whether the line is a statement of a program, and no frame of a traceback.
fn is_statement(log: &PastedLog, number: usize) -> bool {
    log.brief(number).is_some_and(|line| shows("quoted_statement", line))
        && !log.brief(number.saturating_sub(1)).is_some_and(|line| shows("quoted_frame", line))
}

/// Whether a string of three quotation marks is opened above, closed below, and neither in between.
fn is_in_long_string(log: &PastedLog, number: usize) -> bool {
    let above = (number.saturating_sub(LONG_STRING).max(1)..number).rev().filter_map(|near| log.brief(near));
    let below = (number + 1..=number + LONG_STRING).filter_map(|near| log.brief(near));
    let opens = first_with_marks(above).is_some_and(|line| {
        let line = line.trim_end_matches([' ', '\\']);
        ["= \"\"\"", "(\"\"\"", "=\"\"\""].into_iter().any(|end| line.ends_with(end))
    });
    opens && first_with_marks(below).is_some_and(|line| line.trim_start().starts_with("\"\"\""))
}

/// The first line with three quotation marks.
fn first_with_marks<'l>(mut lines: impl Iterator<Item = &'l str>) -> Option<&'l str> {
    lines.find(|line| line.contains("\"\"\""))
}

/// Whether prose reports a failure: the message is complete, somebody got it, and the text gives no advice.
fn is_reported(said: &str, message: &str, then: &str) -> bool {
    shows("quoted_whole", message)
        && shows("quoted_met", said)
        && !shows("quoted_advice", said)
        && !shows("quoted_explained", then)
}

/// `RuntimeError: …` and the like at the line's beginning is output, whatever else the line looks like.
fn looks_like_output(line: &str) -> bool {
    shows("quoted_output", line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_quoted(line: &str, column: usize) -> bool {
        Quotations::new(&PastedLog::new(line)).is_quoted(1, column)
    }

    #[test]
    fn source_and_prose_quote() {
        let quoted = [
            "## CUDA out of memory",
            "tests/test_oom.py::test_cuda_out_of_memory PASSED [ 10%]",
            "ok 1 - reports CUDA out of memory",
            " 1/2 Test #12: cuda_out_of_memory ...............   Passed    0.10 sec",
            "[       OK ] Alloc.CUDA out of memory (3 ms)",
            "- [ ] I have read the FAQ on CUDA out of memory",
            "[RESOLVED] CUDA out of memory on node 3",
            "  --retry N     retry N times after CUDA out of memory",
            r#"--> 444     raise RuntimeError("Insufficient VRAM for model")"#,
            "    except torch.cuda.OutOfMemoryError as e: # CUDA out of memory",
            r#"+    log_debug("Memory pressure for %s is greater","#,
            "    if 'out of memory' in str(e):",
            r#"    result = classify("RuntimeError: CUDA out of memory. Tried to allocate 2GB")"#,
            r#"+        "The worker ran out of memory. ";"#,
            "        'FATAL: Out of memory: Kill process 71 (node)',",
            r#"    LOG(ERROR) << "Failed to allocate memory""#,
            r#"        report_error (st, "out of memory") ;"#,
            "    if (status == cudaErrorMemoryAllocation)",
            "  CUDA_ERROR_OUT_OF_MEMORY = 2,",
            "    XX(FAIL, \"out of memory in the resolver\")            \\",
            "    status.set_error(\"Out of memory\")",
            "    PyErr_Format(PyExc_MemoryError,",
            "    oom = binding.Result.CUDA_ERROR_OUT_OF_MEMORY",
            " * Returns 0, or sets errno to ENOMEM. */",
        ];
        for line in quoted {
            assert!(is_quoted(line, 12), "{line}");
        }
        let said = [
            "You may see: `torch.OutOfMemoryError: CUDA out of memory",
            "If you get the error `RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB`, lower the batch size",
            "The message `CUDA out of memory. Tried to allocate 2.00 GiB` means that the card is full",
            "We catch every `RuntimeError: CUDA out of memory` here",
            "I use `torch.cuda.empty_cache` and `CUDA out of memory` handling",
            "1. Out of memory while quantising: This can be addressed by a shorter calibration",
            "Cómo solucionar el error CUDA out of memory",
            "Fix CUDA out of memory in ten steps",
            "It typically appears as \"CUDA error: out of memory\" where the batch is large",
            "### RuntimeError: \\[worker\\] CUDA error: out of memory",
            "#. Error message \"RuntimeError: CUDA out of memory.\" was printed in logs.",
            "README: `RuntimeError: CUDA out of memory` usually means that the batch is too large",
        ];
        for line in said {
            assert!(is_quoted(line, line.to_lowercase().find("out of memory").unwrap()), "{line}");
        }
        let reported = [
            "- The error \"CUDA out of memory\" came at step 40",
            "After two epochs I get the error `RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB`",
            "I run ```python run.py``` and get this: ```RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "On the second prompt it fails with `torch.OutOfMemoryError: CUDA out of memory.`",
            "Then I saw `CUDA out of memory. Tried to allocate 20.00 MiB` in the log",
            "I often get the error `Node Mul: out of memory, requested buffer of size 939524096` here",
            "It now keeps giving this error : `  raise ApiError(body.text) from None http.ApiError: out of memory (9.1 GiB)`",
        ];
        for line in reported {
            assert!(!is_quoted(line, line.find("out of memory").unwrap()), "{line}");
        }
        let real = [
            "RuntimeError: CUDA out of memory. Tried",
            "E   RuntimeError: CUDA error: out of memory",
            "[rank0]: torch.OutOfMemoryError: CUDA out of memory",
            "[E:onnxruntime:Default, call.cc:116] CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);",
            "| WARNING: ran out of memory with exception: CUDA out of memory. (GPU 0; 1.91 GiB cached);",
            "GGML_ASSERT(ctx->mem_buffer != NULL) failed",
            "  (GPU 0; 4.00 GiB total capacity; 2.57 GiB already allocated;",
            "CUDA error 2: out of memory, cudaMalloc(&data, bytes)",
            "std::runtime_error: out of memory, in alloc(int)",
            "| WARNING: ran out of memory",
        ];
        for line in real {
            assert!(!is_quoted(line, 5), "{line}");
        }
        let framed = "web | at pack.rb:12:in `block (2 levels) in read': out of memory (SomeError)";
        assert!(!is_quoted(framed, framed.find("out of memory").unwrap()), "a frame's name is no quotation");
    }

    fn quoted_at(text: &str) -> bool {
        let log = PastedLog::new(text);
        let number = text.lines().position(|line| line.contains("out of memory")).unwrap() + 1;
        Quotations::new(&log).stands_in_source(number, log.line(number).unwrap().find("out of memory").unwrap())
    }

    #[test]
    fn the_lines_around_tell_source_from_output() {
        let source = [
            "@@ -8,3 +8,3 @@\n-    log.warn(\n-        \"trying again after out of memory\"\n-    )",
            "def test_oom():\n    done = run(1, stderr=\"CUDA out of memory\")\n    assert done.status == 2",
            "+---\n+id: exit-137\n+title: killed\n+words: killed, out of memory\n+\n+## What it is",
            "def load():\n    # CUDA out of memory. Tried to allocate 2.00 GiB\n    batch = 4\n    return make(batch)",
            "import torch\ntorch.cuda.empty_cache()\n\n# RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n\nThis means that PyTorch found no room.",
            "int f()\n{\n    st = get();\n    say(\n      \"out of memory in %s\",\n      name);\n    return st;\n}",
            "def test():\n    log = \"\"\"\nRuntimeError: CUDA out of memory.\n\"\"\"\n    check(log)",
        ];
        for text in source {
            assert!(quoted_at(text), "{text}");
        }
        assert!(quoted_at(
            "| What | Why |\n|---|---|\n| CUDA out of memory | The model and its cache are larger than the card |"
        ));
        let output = [
            "| run | said |\n|---|---|\n| 3 | CUDA out of memory |",
            "import torch\nmodel = make()\nRuntimeError: CUDA out of memory.",
            "- epoch 1\n- CUDA out of memory\n- epoch 2",
            "# nvidia-smi\n# CUDA out of memory",
            "# RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n\nimport torch\nmodel = make()",
            "  File \"a.py\", line 3, in f\n    return g(x)\n  File \"a.py\", line 9, in g\n    return h(x)\nwhat(): \"CUDA out of memory\"",
            "import x\nfrom y import z\ntime=1 level=ERROR msg=\"CUDA out of memory\"",
        ];
        for text in output {
            assert!(!quoted_at(text), "{text}");
        }
    }
}
