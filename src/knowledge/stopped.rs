//! Owns the question whether a log without a memory error just stops: it ends in mid-work, without an error and without
//! a word that the work is done. What killed the run from outside left nothing in its log.

use super::run::Run;
use crate::ids::FixId;
use crate::log::{Expression, PastedLog};

/// How many lines at the end tell.
const TAIL: usize = 60;

/// What a running job prints: a time, a step, a share that is done.
static WORKS: Expression =
    Expression::new(r"\d\d:\d\d:\d\d|\b[0-9]{1,3}%|(?i-u:\b(?:epoch|step|iter(?:ation)?|loss)\b)");
/// What ends a log with a reason of its own.
static FAILED: Expression = Expression::new(
    r"(?i-u:traceback|error|exception|\bfatal|\bpanic|\bfail|abort|core dumped|segmentation|signal \d|killed|refused|denied|not found|cannot|usage:)",
);
/// What says that the work is done.
static DONE: Expression = Expression::new(
    r"(?i-u:\b(?:done|finished|complete[d]?|saved|saving|success\w*|exit(?:ed|ing)?|shut(?:ting)? ?down|bye)\b)|\b100%",
);

/// Whether the log stops in mid-work.
pub(super) fn just_stops(log: &PastedLog) -> bool {
    let count = log.line_count();
    let lines = (count.saturating_sub(TAIL) + 1..=count).filter_map(|number| log.line(number));
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let Some((last, _)) = lines.split_last() else { return false };
    let has_failed = lines.iter().any(|line| FAILED.is_match(line));
    let works = lines.iter().filter(|line| WORKS.is_match(line)).count() > 1;
    works && !has_failed && !DONE.is_match(last)
}

/// What finds out who ended the run. Who runs in a cluster rarely reads the kernel's log of the node.
pub(super) fn fixes(run: &Run) -> &'static [FixId] {
    if run.is_allocated() || run.pod.is_some() {
        &[FixId::SEE_HOW_IT_ENDED]
    } else {
        &[FixId::SEE_THE_KERNEL_LOG, FixId::SEE_HOW_IT_ENDED]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_stops_where_neither_an_error_nor_an_end_is_its_last_word() {
        let work = "2026-11-20T09:58:41Z INFO epoch 3 step 1200 loss 1.902\n2026-11-20T09:59:21Z INFO epoch 3 step 1250 loss 1.897\n";
        assert!(just_stops(&PastedLog::new(work)));
        for end in [
            "ValueError: bad shape",
            "Segmentation fault (core dumped)",
            "saved checkpoint to out/1250",
            "Training completed.",
        ] {
            assert!(!just_stops(&PastedLog::new(format!("{work}{end}\n"))), "{end}");
        }
        assert!(!just_stops(&PastedLog::new("hello\nworld\n")), "no job's log");
    }
}
