//! Owns what other programs put before every line of a log: compose and CRI prefixes, the journal's, ranks', quotes.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::effort;

/// What it does not know it leaves. On bytes and without Unicode: that compiles in a tenth of the time.
static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let parts = [
        // Compose puts a blank on both sides of the bar; the columns of `sacct -P` have none.
        r"[\w.-]{1,60}(?:\s+\| ?|\| )",
        r"\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)? ?",
        r"std(?:out|err) [FP] ",
        r"\w{3} +\d+ \d\d:\d\d:\d\d \S+ [^\s:]+: ?",
        // Open MPI, as SageMaker changes it, and Horovod; kubectl.
        r"\[(?:\d{1,3},)?(?:mpirank:)?\d{1,5}(?:,[\w.-]{1,60})?\]<std(?:out|err|diag)>: ?",
        r"\[pod/[\w.-]+/[\w.-]+\] ?",
        r"\[(?:rank|default)?\d{1,5}\]:? ?",
        r"\([\w .-]{1,40} ?pid=\d+(?:, ip=[\d.]+)?\) ?",
        r"[>#] ",
    ];
    Regex::new(&format!("^(?-u:(?:{})+)", parts.join("|"))).ok()
});

/// How long the prefix at the line's beginning is; 0 where there is none.
pub(super) fn length(line: &str) -> usize {
    effort::count(line.len());
    PREFIX.as_ref().and_then(|prefix| prefix.find(line.as_bytes())).map_or(0, |found| found.end())
}

/// What a logger puts before its message: level, time and place.
static OF_LOGGER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let head = r"^(?-u:(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./:-]{1,80}\] ?)?)";
    Regex::new(head).ok()
});

/// How long all is that stands before the message of a line; 0 where nothing does.
pub(crate) fn before_message(line: &str) -> usize {
    let prefix = length(line);
    let rest = line.get(prefix..).unwrap_or_default();
    let of_logger = OF_LOGGER.as_ref().and_then(|head| head.find(rest.as_bytes())).map_or(0, |found| found.end());
    prefix + of_logger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_logger_writes_before_its_message_is_measured_too() {
        let head = "(EngineCore pid=4242) ERROR 11-20 10:00:00 [core.py:708] ";
        assert_eq!(before_message(&format!("{head}torch.OutOfMemoryError: CUDA")), head.len());
        assert_eq!(before_message("INFO 11-20 10:00:00 text"), 20);
        assert_eq!(before_message("ERROR in train.py"), 0);
    }

    #[test]
    fn prefixes_are_measured() {
        let cases = [
            ("worker-1  | Killed", 12),
            ("771.0|python|OUT_OF_MEMORY", 0),
            ("2026-11-20T10:00:00.1Z stderr F text", 32),
            ("Nov 20 10:00:00 box app[43]: text", 29),
            ("[rank0]: text", 9),
            ("[default3]:text", 11),
            ("[1,3]<stderr>:text", 14),
            ("[1,mpirank:3,algo-1]<stderr>:text", 29),
            ("[2]<stdout>:text", 12),
            ("[pod/train-worker-3/pytorch] text", 29),
            ("(EngineCore pid=78) text", 20),
            ("> text", 2),
            ("text | more", 7),
            ("RuntimeError: text", 0),
        ];
        for (line, want) in cases {
            assert_eq!(length(line), want, "{line}");
        }
    }
}
