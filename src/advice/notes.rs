//! Owns the verdict's notes: what else must be known to read the figures, each in a sentence or two.

use super::case::Case;
use super::figures::{contradiction, is_negligible};
use super::naming::name_of;
use super::retry;
use crate::gpu::activity::Activity;
use crate::gpu::{Device, GpuProcess};
use crate::knowledge::diagnosis::MemoryKind;
use crate::knowledge::run::AlsoRanOut;
use crate::knowledge::{Facts, Others};
use crate::units::Bytes;

/// The notes of a case, in the order in which they are shown.
pub(crate) fn notes(case: &Case<'_>, is_hopeless: bool) -> Vec<String> {
    let notes = [
        first_failure(&case.log.facts, case.log.run.others.unwrap_or_default()),
        shortened(case),
        cut_off(case),
        limit(case),
        contradiction(&case.log.facts),
        on_other_gpus(case),
        other_memory(case),
        later_failure(case),
        several_retries(case).or_else(|| started_since(case)),
        is_hopeless.then(|| "By the model's sums, no set of the changes below is enough.".to_owned()),
    ];
    notes.into_iter().flatten().collect()
}

/// Which rank failed first, and that the others are consequences. A host alone may be one of several that have nothing to
/// do with each other, such as the pods of a deployment.
fn first_failure(facts: &Facts, others: Others) -> Option<String> {
    let first = facts.first_failure.as_ref()?;
    let on_host = first.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
    let on_gpu = first.device.map_or_else(String::new, |device| format!(" (GPU {device})"));
    Some(match (first.rank, first.pid, first.device, &first.host) {
        (Some(rank), ..) => format!("Rank {rank}{on_host}{on_gpu} failed first; {}.", others_ended(others, "rank")),
        (None, Some(pid), ..) => {
            format!("Process {pid}{on_host}{on_gpu} failed first; {}.", others_ended(others, "worker"))
        }
        (None, None, _, Some(host)) => format!("{host}{on_gpu} failed first."),
        (None, None, Some(device), None) => {
            format!("The rank on GPU {device} failed first; {}.", others_ended(others, "rank"))
        }
        (None, None, None, None) => return None,
    })
}

/// What became of the others.
fn others_ended(others: Others, kind: &str) -> String {
    let all = match others.count {
        Some(1) => format!("the other {kind}"),
        Some(count) => format!("the other {count} {kind}s"),
        None => format!("the other {kind}s"),
    };
    match others.also_failed {
        0 => format!("{all} stopped because of it"),
        failed if Some(failed) == others.count => format!("{all} failed in the same way"),
        1 => format!("1 other {kind} failed in the same way"),
        failed => format!("{failed} other {kind}s failed in the same way"),
    }
}

/// Line numbers are not the file's.
fn shortened(case: &Case<'_>) -> Option<String> {
    let said = "The log is long: parts that say nothing of memory were left out, and line numbers count what was kept.";
    case.log.is_shortened.then(|| said.to_owned())
}

/// What follows the end of a damaged file is unknown.
pub(super) fn cut_off(case: &Case<'_>) -> Option<String> {
    let said = "The compressed file is cut off or damaged: only what comes before that was read.";
    case.log.is_cut_off.then(|| said.to_owned())
}

/// Who sets the limit that was reached, and the command that shows it.
fn limit(case: &Case<'_>) -> Option<String> {
    let limit = case.log.run.limit?;
    let shown = limit
        .shown_by
        .as_ref()
        .map_or_else(String::new, |command| format!(" Show it: {}", case.log.run.named_in(command)));
    Some(format!("Limit: {}, set by {}.{shown}", limit.name, limit.set_by))
}

/// Processes that other ranks name and that still use memory of their GPUs.
fn on_other_gpus(case: &Case<'_>) -> Option<String> {
    let named = case.other_ranks.iter().flat_map(|rank| &rank.log.facts.other_processes);
    let pids: Vec<String> = named.map(|named| named.pid.to_string()).collect();
    (!pids.is_empty()).then(|| {
        format!(
            "Processes that the log names also use other ranks' GPUs: {}. The run would fail there again.",
            pids.join(", ")
        )
    })
}

/// Another memory that ran out as well: the steps are for the one that leads.
fn other_memory(case: &Case<'_>) -> Option<String> {
    let AlsoRanOut { memory, line, limit } = case.log.run.also.as_ref()?;
    Some(match limit {
        Some(limit) => format!("{}, too (line {line}).", limit.said),
        None if *memory == MemoryKind::Host => format!("System memory ran out, too (line {line})."),
        None => format!("GPU memory ran out, too (line {line})."),
    })
}

/// What a later attempt in the same log ended with.
fn later_failure(case: &Case<'_>) -> Option<String> {
    let (said, line) = case.log.run.ended_with.as_ref()?;
    Some(format!("The log goes on after that, and a later attempt ended with something else (line {line}): {said}"))
}

fn several_retries(case: &Case<'_>) -> Option<String> {
    let (count, together) = retry::several(&case.retries)?;
    Some(format!(
        "{count} processes of what failed were started since and use {together} together. Any of them may be your next try: none is offered."
    ))
}

/// A process that was started after the failure and uses what a retry needs. It is never offered, since it
/// may be the retry.
fn started_since(case: &Case<'_>) -> Option<String> {
    case.short_by_ledger().filter(|short| *short > Bytes::ZERO)?;
    let (_, short) = case.shown_need()?;
    let device = case.place.device_here()?;
    if !case.ledger.as_ref()?.is_now {
        return None;
    }
    let (row, bytes) = largest_started_since(case, device)?;
    if is_negligible(bytes, device.memory.total_bytes.value()) {
        return None;
    }
    let is_own = case.situation.viewer.is_some_and(|viewer| viewer.owns(row));
    let is_busy = Activity::of(case.situation.history, Some(device), row).is_busy();
    let why = match retry::is_recognizable(&case.situation) {
        true if is_own && is_busy => "it came later, so it is not why your run failed, and it is busy: wait for it",
        true if is_own => "it came later, so it is not why your run failed. You can terminate it from the list",
        true => "it came later, so it is not why your run failed, and it is another user's: ask them",
        false => "it may be your own next try",
    };
    Some(format!(
        "{} was started after your run failed and uses {bytes} now; {} is short. It is not offered: {why}.",
        name_of(row),
        case.bound(short)
    ))
}

fn largest_started_since<'a>(case: &Case<'_>, device: &'a Device) -> Option<(&'a GpuProcess, Bytes)> {
    let since = device.processes.iter().filter(|row| {
        let is_retry = case.retry.is_some_and(|retry| retry.is_process(row));
        case.situation.was_there_before(row) == Some(false) && !row.has_lost_its_parent() && !is_retry
    });
    since.map(|row| (row, row.used_bytes.value().unwrap_or(Bytes::ZERO))).max_by_key(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::FirstFailure;

    #[test]
    fn the_first_failure_is_named_with_what_is_known_and_no_more() {
        let said = |host: Option<&str>, rank, pid, device, count, also_failed| {
            let first = FirstFailure { host: host.map(str::to_owned), rank, pid, device, line: 1 };
            let facts = Facts { first_failure: Some(first), ..Facts::default() };
            first_failure(&facts, Others { count, also_failed }).unwrap_or_default()
        };
        let whole = said(Some("node07"), Some(3), Some(7), Some(2), Some(7), 0);
        assert_eq!(whole, "Rank 3 on node07 (GPU 2) failed first; the other 7 ranks stopped because of it.");
        assert!(said(None, Some(3), None, None, None, 0).contains("the other ranks stopped"));
        assert!(said(None, Some(3), None, None, Some(1), 0).contains("the other rank stopped"));
        let alike = said(None, Some(3), None, None, Some(7), 2);
        assert!(alike.contains("2 other ranks") && !alike.contains("stopped"), "{alike}");
        assert!(said(None, None, Some(7), None, None, 0).starts_with("Process 7 failed"));
        // Pods of a deployment do not depend on each other.
        let pod = said(Some("web-1"), None, None, Some(0), None, 0);
        assert!(pod.starts_with("web-1 (GPU 0) failed") && !pod.contains("stopped"), "{pod}");
        assert_eq!(said(None, None, None, None, None, 0), "");
    }
}
