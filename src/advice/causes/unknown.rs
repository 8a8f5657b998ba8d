//! Owns the failures of which the log does not tell the cause, and those that the program's own mistake caused.

use super::evidence::line_of;
use super::rule::{About, Blames, Rule, SpeaksOfSize};
use crate::advice::case::Case;
use crate::advice::figures::{live_need, run_had, used_by_others_at_crash};
use crate::advice::phrases::plain;
use crate::advice::verdict::{CauseKind, Strength};
use crate::knowledge::diagnosis::Diagnosis;
use crate::units::Bytes;

pub(crate) const ABOUT: About = About {
    id: CauseKind::Unknown,
    name: "unknown",
    blames: Blames::TheRun,
    speaks_of_size: SpeaksOfSize::Always,
    is_solved_by_another_gpu: false,
    say: plain,
    prevent,
};

pub(crate) const MISTAKE_OF_THE_PROGRAM: Rule =
    Rule { about: &ABOUT, name: "the size is a mistake of the program", strength: Strength::Proven, find: mistake };

pub(crate) const NOTHING_KNOWN: Rule =
    Rule { about: &ABOUT, name: "no other rule holds", strength: Strength::Hint, find: what_is_sure };

fn mistake(case: &Case<'_>) -> Option<Vec<String>> {
    let is_mistake = case.log.run.told == Some(CauseKind::Unknown);
    is_mistake
        .then(|| vec![format!("no machine has so much: the size is a mistake of the program{}", line_of(case.log))])
}

/// The plain arithmetic, where nothing shows who or what used the rest.
fn what_is_sure(case: &Case<'_>) -> Option<Vec<String>> {
    Some(short_at_start(case.log).or_else(|| short_at_failure(case.log)).into_iter().collect())
}

fn short_at_start(log: &Diagnosis) -> Option<String> {
    let (needed, run) = (live_need(log)?, &log.run);
    let free = run.free_at_start_bytes?;
    let is_short = needed > free && run.devices.is_none_or(|many| many == 1);
    let line = line_of(log);
    is_short.then(|| {
        format!(
            "it needed at least {needed}{line}, and {free} was free when it began; what held the rest the log doesn't say"
        )
    })
}

fn short_at_failure(log: &Diagnosis) -> Option<String> {
    let facts = &log.facts;
    let (requested, free, line) = (facts.requested_bytes?, facts.free_bytes?, line_of(log));
    if requested <= free || live_need(log)? == Bytes::ZERO {
        return None;
    }
    let own = if used_by_others_at_crash(log).is_some() { run_had(log).zip(facts.total_bytes) } else { None };
    Some(match own {
        Some((had, all)) => format!("it held {had} of {all} itself and asked for {requested} more{line}"),
        None => format!("it asked for {requested}{line}, and {free} was free; what held the rest the log doesn't say"),
    })
}

fn prevent(_is_training: bool) -> &'static str {
    "Keep the whole log next time (python -u job.py 2>&1 | tee job.log): it says more than its last line."
}
