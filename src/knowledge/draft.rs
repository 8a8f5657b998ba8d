//! Owns the first draft of an entry: a contributor gives a log, and gets a file to finish. Knows nothing of files.

use crate::log::{Expression, PastedLog};

/// Words that a decisive line is likely to hold, the most telling first.
const TELLING: [&str; 8] =
    ["out of memory", "outofmemory", "cannot allocate", "failed to allocate", "memory", "error", "fatal", "killed"];
/// How many lines before the decisive line the example keeps.
const EXAMPLE_LINES: usize = 30;

/// An entry in RON with what can be taken from the log; what only a person knows is marked TODO.
pub(crate) fn from_log(log: &PastedLog, today: &str) -> String {
    let (number, line) = decisive(log);
    let first = number.saturating_sub(EXAMPLE_LINES).max(1);
    let example: Vec<&str> =
        log.lines().filter(|(at, _)| (first..number + 3).contains(at)).map(|(_, text)| text).collect();
    let literal = literal(line);
    format!(
        "(
    title: \"TODO: a few words for a list\",
    oom: yes, // or maybe, or no
    memory: gpu, // or host, shm, unified, r#kv-cache
    status: Draft,
    certainty: likely,
    literals: [{literal:?}],
    when: (any: [r#\"{}\"#]),
    figures: [], // TODO: patterns that capture them, such as \"of {{requested_bytes}} refused\"
    why: \"TODO: why it happens, in two or three sentences a newcomer understands.\",
    fixes: [],
    references: [(source: \"TODO: where the message comes from\", checked: {today:?})],
    matches: [
        (
            log: r##\"{}\"##,
            facts: {{}}, // TODO: the figures that the log prints
        ),
    ],
    rejects: [], // TODO: two logs that look alike and are not this: (log: \"…\", why: \"…\")
)
",
        pattern(line),
        example.join("\n"),
    )
}

/// The last line with the most telling word; the last line where there is none.
fn decisive(log: &PastedLog) -> (usize, &str) {
    let telling =
        TELLING.iter().find_map(|word| log.lines().filter(|(_, line)| line.to_lowercase().contains(word)).last());
    telling.or_else(|| log.lines().last()).unwrap_or((1, ""))
}

/// The longest run of words without a figure: figures differ from log to log.
fn literal(line: &str) -> String {
    let runs = line.split(|c: char| c.is_ascii_digit());
    runs.map(str::trim).max_by_key(|run| run.len()).unwrap_or_default().to_owned()
}

/// The line as a pattern: its figures may be any.
fn pattern(line: &str) -> String {
    static FIGURE: Expression = Expression::new("[0-9]+");
    FIGURE.replaced(&regex::escape(line.trim()), r"\d+").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::load::Source;

    #[test]
    fn a_draft_loads_and_finds_its_own_log() {
        let log = PastedLog::new("step 1\nfoo.alloc: device 3 out of memory: wanted 512 MB (have 17)\nbye");
        let text = from_log(&log, "2026-11-20");
        let base = KnowledgeBase::from_sources(vec![Source::ron("entries/foo/alloc.ron", text.clone())]).unwrap();
        let other = PastedLog::new("foo.alloc: device 0 out of memory: wanted 9 MB (have 170)");
        for log in [log, other] {
            let found = base.diagnose(&log, None);
            assert_eq!(found.matches.first().map(|found| found.entry.as_str()), Some("foo/alloc"), "{text}");
        }
    }
}
