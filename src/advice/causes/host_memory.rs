//! Owns system memory: the machine's RAM ran out, not the GPU's.

use super::limit::{KERNEL, happened};
use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::phrases::{and, line_of};
use crate::advice::verdict::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::units::Bytes;

pub(super) fn find(case: &Case<'_>) -> Evidence {
    let (log, line, limit) = (case.log, line_of(case.log), case.log.run.limit);
    let is_of_the_run = limit.is_some_and(|limit| limit.cause == CauseKind::Limit);
    if is_of_the_run || !matches!(log.memory, Some(MemoryKind::Host | MemoryKind::Shm)) {
        return None;
    }
    let ended_by = limit.and_then(|limit| limit.ended_by.as_deref()).unwrap_or(KERNEL);
    Some(vec![match (&log.facts.victim_name, log.facts.victim_pid, limit) {
        (Some(name), Some(pid), _) => format!("{ended_by} terminated {name} ({pid}){line}"),
        (_, _, Some(limit)) => format!("the message is about {}{line}", limit.name),
        _ => format!("the message is about system memory, not VRAM{line}"),
    }])
}

pub(super) fn say(case: &Case<'_>) -> String {
    and(what_ran_out(case.log), killed_another(case.log))
}

fn what_ran_out(log: &Diagnosis) -> String {
    let facts = &log.facts;
    if let Some(limit) = log.run.limit {
        return happened(limit, log);
    }
    // Where the GPU's ran out as well, a note says so.
    let ran_out = match log.run.also {
        Some(_) => "The machine's own memory (RAM) ran out",
        None => "The machine's own memory (RAM) ran out, not the GPU's",
    };
    match (&facts.victim_name, facts.victim_rss_bytes) {
        (Some(name), Some(rss)) => format!("{ran_out}: the kernel terminated {name}, which used {rss}."),
        (Some(name), None) => format!("{ran_out}: the kernel terminated {name}."),
        _ => match (facts.requested_bytes, facts.free_bytes) {
            (Some(requested), Some(free)) => format!(
                "The machine's own memory (RAM) was short, not the GPU's: {requested} was needed and {free} was available."
            ),
            (Some(requested), None) => format!("{ran_out}: {requested} was refused."),
            _ => format!("{ran_out}."),
        },
    }
}

/// The kernel does not always end the process that uses most: by its own table, in a sentence, where that was another one.
pub(super) fn killed_another(log: &Diagnosis) -> Option<String> {
    let (largest, facts) = (log.run.largest.as_ref()?, &log.facts);
    let victim = facts.victim_pid.filter(|pid| *pid != largest.pid)?;
    let used = facts.victim_rss_bytes.unwrap_or(Bytes::ZERO);
    let is_much_larger = u128::from(largest.rss_bytes.0) * 2 >= u128::from(used.0) * 3;
    is_much_larger.then(|| {
        format!(
            "The largest process was not the terminated one ({victim}) but {} ({}), with {}.",
            largest.name, largest.pid, largest.rss_bytes
        )
    })
}
