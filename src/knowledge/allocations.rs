//! Owns the join of what a log says with what the allocator's snapshots show: figures that the log lacks, and the fixes
//! that a finding asks for.

use std::sync::LazyLock;

use serde::Deserialize;

use super::diagnosis::{Diagnosis, MemoryKind, Oom, Shown};
use crate::allocations::figures;
use crate::allocations::findings::{self, Finding, FindingKind};
use crate::allocations::told::{Allocator, Filled};
use crate::ids::FixId;
use crate::packed;
use crate::units::Bytes;

/// How far the size that a message prints may be from the snapshot's, which is exact.
const ROUNDING_PERCENT: u64 = 2;

/// Which fixes a finding asks for: a row of `knowledge/advice/findings.ron`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    finding: FindingKind,
    /// The best first.
    fixes: Vec<FixId>,
    /// Fixes that change nothing because of it.
    #[serde(default)]
    not: Vec<FixId>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/findings.ron")));

/// Whether a snapshot may be of this failure: the same size was asked for, as far as both tell. A profile of JAX tells no
/// request, so the log of a failure in JAX is enough.
pub fn is_of(filled: &Filled, diagnosis: &Diagnosis) -> bool {
    if filled.allocator == Allocator::Jax {
        return diagnosis.raised_by.as_deref() == Some("jax");
    }
    match (filled.request.as_ref(), diagnosis.facts.requested_bytes) {
        (Some(request), Some(printed)) => request.bytes.within_percent(printed, ROUNDING_PERCENT),
        _ => false,
    }
}

/// That the snapshot that leads is of another failure than the log, by the sizes that were asked for; `None` where it is the
/// log's, or one of them does not tell.
pub fn other_failure(diagnosis: &Diagnosis) -> Option<String> {
    let asked = diagnosis.allocations.first()?.request.as_ref()?.bytes;
    let printed = diagnosis.facts.requested_bytes?;
    (!asked.within_percent(printed, ROUNDING_PERCENT)).then(|| {
        format!(
            "The snapshot is of another failure than the log: {asked} was asked for in the snapshot, {printed} in the log."
        )
    })
}

/// Adds what the snapshots of a run show to what its log says. The rank that failed first leads.
pub fn add(diagnosis: &mut Diagnosis, mut filled: Vec<Filled>) {
    figures::lead_with_the_first_failure(&mut filled);
    // Of a log that prints the failing size, the rank with that size is the one that it is about.
    if let Some(at) = filled.iter().position(|one| is_of(one, diagnosis)) {
        filled.get_mut(..=at).into_iter().for_each(|before| before.rotate_right(1));
    }
    diagnosis.allocations = filled;
    let is_of_the_gpu = diagnosis.memory.is_none_or(|memory| memory == MemoryKind::Gpu);
    if diagnosis.oom == Oom::No || !is_of_the_gpu || other_failure(diagnosis).is_some() {
        return;
    }
    let mut filled = std::mem::take(&mut diagnosis.allocations);
    let among_ranks = findings::among_ranks(&filled);
    if let Some(leading) = filled.first_mut().filter(|leading| leading.request.is_some()) {
        complete(diagnosis, leading, among_ranks);
    }
    diagnosis.allocations = filled;
}

fn complete(diagnosis: &mut Diagnosis, leading: &mut Filled, among_ranks: Vec<Finding>) {
    let facts = &mut diagnosis.facts;
    // The process's own figure, or what is in use on the GPU and not by others that the log names.
    let others = facts.other_processes.iter().fold(Bytes::ZERO, |sum, other| sum.plus(other.bytes));
    let used = facts.total_bytes.zip(facts.free_bytes).map(|(total, free)| total.less(free).less(others));
    if let Some(used) = facts.process_bytes.or(used) {
        leading.set_outside(used.less(leading.reserved_at_least()));
    }
    leading.findings.extend(among_ranks);
    if let Some(capacity) = facts.total_bytes {
        leading.findings.retain(|finding| findings::stands(finding, capacity));
    }
    facts.device = facts.device.or(Some(leading.device));
    if let Some(request) = &leading.request {
        facts.requested_bytes = facts.requested_bytes.or(Some(request.bytes));
        facts.free_bytes = facts.free_bytes.or(Some(request.free_bytes));
    }
    facts.allocated_bytes = facts.allocated_bytes.or(Some(leading.allocated_bytes));
    if let (None, Some(totals)) = (facts.reserved_bytes, &leading.totals) {
        facts.reserved_unallocated_bytes = facts.reserved_unallocated_bytes.or(Some(totals.unused_bytes()));
    }
    // What the snapshot shows is exact: it comes before what the log may mean.
    let shown = leading.findings.iter().filter_map(shown);
    diagnosis.signs.splice(0..0, shown.collect::<Vec<_>>());
    if leading.findings.iter().all(|finding| finding.kind != FindingKind::Fragmentation) {
        let that = "the snapshot shows no pieces that would be enough together".to_owned();
        let withholds = vec![FixId::EXPANDABLE_SEGMENTS, FixId::GROW_BLOCKS_AGAIN];
        diagnosis.signs.push(Shown { that, fixes: Vec::new(), withholds, condition: None, version_matters: false });
    }
}

fn shown(finding: &Finding) -> Option<Shown> {
    let row = ROWS.iter().find(|row| row.finding == finding.kind)?;
    Some(Shown {
        that: finding.said.clone(),
        fixes: row.fixes.clone(),
        withholds: row.not.clone(),
        condition: None,
        version_matters: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::KnowledgeBase;

    #[test]
    fn every_fix_of_a_finding_exists() {
        let base = KnowledgeBase::built_in().unwrap();
        for row in ROWS.iter() {
            for fix in row.fixes.iter().chain(&row.not) {
                assert!(base.fix(*fix).is_some(), "{:?}: {fix}", row.finding);
            }
        }
    }

    /// The log of a request for so much, on a GPU of 24 GiB, with a snapshot of a request for 2 GiB.
    fn with_snapshot(requested: &str) -> Diagnosis {
        let log = format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU 0 has a total capacity of 23.99 GiB of which 700.00 MiB is free.\n"
        );
        let mut diagnosis = KnowledgeBase::built_in().unwrap().diagnose(&crate::log::PastedLog::new(log), None);
        let snapshot = include_bytes!("../../tests/snapshots/sick.4.pickle").as_slice();
        let dump = crate::allocations::read::read(snapshot).unwrap();
        add(&mut diagnosis, figures::filled(&dump, "oom.pickle"));
        diagnosis
    }

    #[test]
    fn a_snapshot_of_another_failure_is_shown_as_such_and_asks_for_no_fix() {
        let own = with_snapshot("2.00 GiB");
        assert_eq!(other_failure(&own), None);
        assert!(own.signs.iter().any(|sign| sign.fixes.contains(&FixId::EXPANDABLE_SEGMENTS)));
        let other = with_snapshot("5.00 GiB");
        let note = other_failure(&other).unwrap();
        assert!(note.contains("2.0 GiB") && note.contains("5.0 GiB"), "{note}");
        assert!(other.signs.iter().all(|sign| !sign.that.contains("PyTorch had")));
        assert_eq!((other.allocations.len(), other.facts.allocated_bytes), (1, None));
    }

    #[test]
    fn a_request_is_large_only_beside_the_whole_gpu_where_that_is_known() {
        let found = |bytes: Bytes| {
            let said = String::new();
            Finding { kind: FindingKind::LargeRequest, bytes, at: None, said }
        };
        assert!(findings::stands(&found(Bytes::gib(6)), Bytes::gib(24)));
        assert!(!findings::stands(&found(Bytes::gib(5)), Bytes::gib(24)));
    }
}
