//! Owns limits: one that was set for the run, below what the memory has.

use super::context;
use super::host_memory::killed_another;
use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::naming::capitalized;
use crate::advice::phrases::{and, line_of};
use crate::advice::verdict::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::knowledge::limit::{ADDRESS_SPACE, Limit};
use crate::units::Bytes;

/// An engine that may use no more than this share of the GPU was given a limit.
const SMALL_SHARE: f64 = 0.7;
/// Who terminates processes where nobody else watches.
pub(super) const KERNEL: &str = "the kernel";

pub(super) fn find(case: &Case<'_>) -> Evidence {
    let (log, line) = (case.log, line_of(case.log));
    match log.run.limit {
        Some(limit) if limit.cause == CauseKind::Limit => {
            return Some(vec![format!("the message is about {}{line}", limit.name)]);
        }
        Some(_) => return None,
        None => {}
    }
    if let Some(limit) = log.facts.limit() {
        return Some(vec![format!("a limit of {limit} was set for it{line}")]);
    }
    if log.run.told == Some(CauseKind::Limit) {
        return Some(vec![format!("the message is about a limit that was set for it{line}")]);
    }
    Some(vec![small_share(log)?])
}

/// A small share of the GPU that the log's own command line shows.
fn small_share(log: &Diagnosis) -> Option<String> {
    if log.memory != Some(MemoryKind::KvCache) && log.raised_by.as_deref() != Some("jax") {
        return None;
    }
    let share = log.run.share.as_ref()?;
    let is_small = share.parse::<f64>().is_ok_and(|share| share <= SMALL_SHARE);
    is_small.then(|| format!("only {share} of the GPU was allowed to it"))
}

pub(super) fn say(case: &Case<'_>) -> String {
    let log = case.log;
    if log.memory == Some(MemoryKind::KvCache) {
        let limit = small_share(log).unwrap_or_else(|| "one was set for it".into());
        return format!("{} Its limit is low: {limit}.", context::cache_in_words(log));
    }
    match log.run.limit {
        Some(limit) => and(happened(limit, log), killed_another(log)),
        None => with_figures("Your run reached a limit that was set for its memory", log.facts.limit(), log),
    }
}

/// What happened at the limit, its figures, and which process was terminated because of it.
pub(super) fn happened(limit: &Limit, log: &Diagnosis) -> String {
    let said = with_figures(&limit.said, size_of(limit, log), log);
    // Without a PID it is not known that this process was terminated: macOS names the largest one.
    let (Some(victim), Some(_)) = (&log.facts.victim_name, log.facts.victim_pid) else { return said };
    let used = log.facts.victim_rss_bytes.map_or_else(String::new, |rss| format!(", which used {rss}"));
    format!("{said} Terminated by {}: {victim}{used}.", limit.ended_by.as_deref().unwrap_or(KERNEL))
}

/// The size of the limit: as the message prints it, else as a setting in the log has it.
fn size_of(limit: &Limit, log: &Diagnosis) -> Option<Bytes> {
    let run = &log.run;
    let set = limit.setting.as_ref().and_then(|setting| run.settings.get(setting.as_str())).map(|bytes| Bytes(*bytes));
    let of_addresses = if limit.id == ADDRESS_SPACE { run.address_limit_kib } else { None };
    log.facts.limit().or(set).or_else(|| Some(Bytes(of_addresses?.saturating_mul(1024))))
}

fn with_figures(said: &str, limit: Option<Bytes>, log: &Diagnosis) -> String {
    let facts = &log.facts;
    let used = facts.process_bytes.or(facts.allocated_bytes);
    let figures =
        [("limit", limit), ("used", used), ("requested", facts.requested_bytes), ("available", facts.free_bytes)];
    let figures: Vec<String> =
        figures.iter().filter_map(|(what, bytes)| bytes.map(|bytes| format!("{what} {bytes}"))).collect();
    if figures.is_empty() { format!("{said}.") } else { format!("{said}. {}.", capitalized(&figures.join(", "))) }
}
