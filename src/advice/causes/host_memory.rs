//! Owns system memory: the machine's RAM ran out, not the GPU's.

use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::phrases::{and, line_of};
use crate::knowledge::EntryId;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::units::Bytes;

/// LM Studio's refusal before anything was loaded.
const ESTIMATE: EntryId = EntryId::LM_STUDIO_INSUFFICIENT_RESOURCES;

pub(super) fn find(case: &Case<'_>) -> Evidence {
    let (log, line) = (case.log, line_of(case.log));
    if !matches!(log.memory, Some(MemoryKind::Host | MemoryKind::Shm)) {
        return None;
    }
    Some(vec![match (&log.facts.victim_name, log.facts.victim_pid) {
        (Some(name), Some(pid)) => format!("the kernel ended {name} ({pid}){line}"),
        _ if log.memory == Some(MemoryKind::Shm) => {
            format!("the message is about /dev/shm, a piece of system memory{line}")
        }
        _ if is_estimate(log) => format!("the message is an estimate, made before the model is loaded{line}"),
        _ => format!("the message is about system memory, not VRAM{line}"),
    }])
}

fn is_estimate(log: &Diagnosis) -> bool {
    log.matches.first().is_some_and(|found| found.entry == ESTIMATE)
}

/// Whether Windows could promise no more memory, RAM and paging file together.
fn is_commit_limit(log: &Diagnosis) -> bool {
    log.matches
        .first()
        .is_some_and(|found| found.entry.as_str().ends_with("/winerror-1455") || found.text.contains("os error 1455"))
}

pub(super) fn say(case: &Case<'_>) -> String {
    and(what_ran_out(case.log), killed_another(case.log))
}

fn what_ran_out(log: &Diagnosis) -> String {
    let facts = &log.facts;
    if is_commit_limit(log) {
        return "Windows could promise no more memory: RAM and the paging file together were spoken for, not the GPU's memory.".into();
    }
    if is_estimate(log) {
        let needed = facts.requested_bytes.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string());
        return format!(
            "LM Studio refused to load the model: it estimates that {needed} is needed, more than it wants to take here. Nothing has run out."
        );
    }
    if log.memory == Some(MemoryKind::Shm) {
        return "Shared memory (/dev/shm) ran out, not the GPU's memory.".to_owned();
    }
    // Where the GPU's ran out as well, a note says so.
    let ran_out = match log.run.also {
        Some(_) => "The machine's own memory (RAM) ran out",
        None => "The machine's own memory (RAM) ran out, not the GPU's",
    };
    match (&facts.victim_name, facts.victim_rss_bytes) {
        (Some(name), Some(rss)) => format!("{ran_out}: the kernel ended {name}, which held {rss}."),
        (Some(name), None) => format!("{ran_out}: the kernel ended {name}."),
        _ => match (facts.requested_bytes, facts.free_bytes) {
            (Some(requested), Some(free)) => format!(
                "The machine's own memory (RAM) was short, not the GPU's: {requested} was needed and {free} was available."
            ),
            (Some(requested), None) => format!("{ran_out}: {requested} could not be had."),
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
            "What held most was not what it ended ({victim}) but {} ({}), with {}.",
            largest.name, largest.pid, largest.rss_bytes
        )
    })
}
