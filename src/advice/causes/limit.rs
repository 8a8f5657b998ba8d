//! Owns limits: one that was set for the run, below what the memory has.

use super::context;
use super::host_memory::killed_another;
use super::rule::Evidence;
use crate::advice::case::Case;
use crate::advice::phrases::{and, line_of};
use crate::advice::verdict::CauseKind;
use crate::knowledge::diagnosis::{Diagnosis, MemoryKind};
use crate::units::Bytes;

/// An engine that may use no more than this share of the GPU was given a limit.
const SMALL_SHARE: f64 = 0.7;

pub(super) fn find(case: &Case<'_>) -> Evidence {
    let (log, line) = (case.log, line_of(case.log));
    if let Some(limit) = log.facts.limit_bytes {
        return Some(vec![format!("a limit of {limit} was set for it{line}")]);
    }
    if log.run.told == Some(CauseKind::Limit) {
        return Some(vec![format!("the message is about a limit that was set for it{line}")]);
    }
    Some(vec![set_in_command(log)?])
}

/// A limit that the log's own command line shows.
fn set_in_command(log: &Diagnosis) -> Option<String> {
    let run = &log.run;
    if let (Some(kib), Some(MemoryKind::Host)) = (run.address_limit_kib, log.memory) {
        let limit = Bytes(kib.saturating_mul(1024));
        return Some(format!("the shell's limit on addresses (ulimit -v) was {limit}"));
    }
    if log.memory != Some(MemoryKind::KvCache) && log.raised_by.as_deref() != Some("jax") {
        return None;
    }
    let share = run.share.as_ref()?;
    let is_small = share.parse::<f64>().is_ok_and(|share| share <= SMALL_SHARE);
    is_small.then(|| format!("only {share} of the card was allowed to it"))
}

pub(super) fn say(case: &Case<'_>) -> String {
    if case.log.memory == Some(MemoryKind::KvCache) {
        let limit = set_in_command(case.log).unwrap_or_else(|| "one was set for it".into());
        return format!("{} Its limit is low: {limit}.", context::cache_in_words(case.log));
    }
    if case.log.raised_by.as_deref() == Some("llama.cpp") {
        let requested = case.log.facts.requested_bytes.map(|bytes| format!(" of {bytes}")).unwrap_or_default();
        return format!("The card's driver allows no single buffer{requested}; that is not the end of its memory.");
    }
    let (whose, (what, whole)) = (whose(case.log), what_and_whole(case.log));
    let said = match case.log.facts.limit_bytes {
        Some(limit) => format!("{whose} hit a limit of {limit} of {what} that was set for it."),
        None => format!("{whose} hit a limit on its {what} that was set for it; that is not {whole} end."),
    };
    and(said, killed_another(case.log))
}

fn whose(log: &Diagnosis) -> &'static str {
    match log.run.manager().or(log.raised_by.as_deref()) {
        Some("slurm" | "pbs" | "lsf" | "sge") => "Your job",
        Some("kubernetes" | "docker") => "Your container",
        Some("systemd") => "Your service",
        _ => "Your run",
    }
}

fn what_and_whole(log: &Diagnosis) -> (&'static str, &'static str) {
    match log.memory {
        Some(MemoryKind::Host) => ("system memory", "the machine's"),
        _ => ("memory", "the card's"),
    }
}
