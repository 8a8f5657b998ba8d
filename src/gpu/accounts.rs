//! Owns the bookkeeping of one device: the driver's lists merged so that no PID counts twice, figures that cannot be
//! true set aside, and what no row accounts for.

use std::collections::BTreeMap;

use super::{ProcessKind, Reading, Rows};
use crate::units::Bytes;

/// A PID on one device: in one of the driver's lists, or out of all the lists it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// As the driver gave it; may be another namespace's, or nonsense.
    pub pid: u32,
    pub kind: ProcessKind,
    pub used_bytes: Reading<Bytes>,
}

/// The driver's figure for a row. All ones is the driver's "not available" (Windows, WSL2, some vGPU); more than the
/// card has is a driver's mistake (seen with R570), and no figure at all.
pub fn row_figure(raw: u64, total: Option<Bytes>) -> Reading<Bytes> {
    match total {
        _ if raw == u64::MAX => Reading::NotAvailable,
        Some(total) if raw > total.0 => Reading::Failed(format!("the driver gave {raw} bytes, more than the GPU has")),
        _ => Reading::Known(Bytes(raw)),
    }
}

/// Merges the three lists, by PID. A process in both the compute and the graphics list has the same memory in each,
/// so the larger figure is taken, not the sum; a client of the multi-process service is that above all.
pub fn merge(compute: &[Row], graphics: &[Row], mps: &[Row]) -> Vec<Row> {
    let mut merged: BTreeMap<u32, Row> = BTreeMap::new();
    for row in compute.iter().chain(graphics).chain(mps) {
        let seen = merged.entry(row.pid).or_insert_with(|| row.clone());
        seen.kind = both(seen.kind, row.kind);
        seen.used_bytes = larger(seen.used_bytes.clone(), &row.used_bytes);
    }
    merged.into_values().collect()
}

fn both(one: ProcessKind, other: ProcessKind) -> ProcessKind {
    match (one, other) {
        (ProcessKind::Mps, _) | (_, ProcessKind::Mps) => ProcessKind::Mps,
        (one, other) if one == other => one,
        _ => ProcessKind::Both,
    }
}

/// The larger of two figures of the same memory; one that is known wins over one that is not.
fn larger(one: Reading<Bytes>, other: &Reading<Bytes>) -> Reading<Bytes> {
    match (one.value(), other.value()) {
        (Some(one), Some(other)) => Reading::Known(one.max(other)),
        (None, Some(other)) => Reading::Known(other),
        _ => one,
    }
}

/// What a device's `used` figure leaves unexplained by its rows: max(0, used − the sum of the known rows), and
/// whether rows without a figure may be that memory.
pub fn unaccounted(used: &Reading<Bytes>, rows: &Rows) -> (Reading<Bytes>, bool) {
    let known = rows.iter().filter_map(|row| row.used_bytes.value()).fold(Bytes::ZERO, Bytes::plus);
    let unknown_rows = rows.iter().any(|row| row.used_bytes.known().is_none());
    (used.clone().map(|used| used.less(known)), unknown_rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    use ProcessKind::{Compute, Graphics, Mps};

    fn row(pid: u32, kind: ProcessKind, used_bytes: Reading<Bytes>) -> Row {
        Row { pid, kind, used_bytes }
    }

    #[test]
    fn a_pid_in_both_lists_counts_once_with_its_larger_figure() {
        let compute = [row(7, Compute, Reading::Known(Bytes::gib(2))), row(8, Compute, Reading::Known(Bytes::gib(1)))];
        let graphics = [row(7, Graphics, Reading::Known(Bytes::gib(3))), row(9, Graphics, Reading::NotAvailable)];
        let merged = merge(&compute, &graphics, &[]);
        let shown: Vec<_> = merged.iter().map(|row| (row.pid, row.kind, row.used_bytes.value())).collect();
        assert_eq!(
            shown,
            [(7, ProcessKind::Both, Some(Bytes::gib(3))), (8, Compute, Some(Bytes::gib(1))), (9, Graphics, None)]
        );
    }

    #[test]
    fn a_known_figure_wins_over_an_unknown_one_in_either_order() {
        for (one, other) in
            [(Reading::NotAvailable, Reading::Known(Bytes(5))), (Reading::Known(Bytes(5)), Reading::Denied)]
        {
            assert_eq!(
                merge(&[row(1, Compute, one)], &[row(1, Graphics, other)], &[])[0].used_bytes,
                Reading::Known(Bytes(5))
            );
        }
    }

    #[test]
    fn a_client_of_the_multi_process_service_stays_one() {
        let [compute, mps] = [Compute, Mps].map(|kind| [row(4, kind, Reading::Known(Bytes(1)))]);
        let merged = merge(&compute, &[], &mps);
        assert_eq!((merged.len(), merged[0].kind), (1, Mps));
    }

    #[test]
    fn figures_that_cannot_be_true_are_unknown() {
        let card = Some(Bytes::gib(24));
        assert_eq!(row_figure(u64::MAX, card), Reading::NotAvailable);
        assert!(matches!(row_figure(Bytes::gib(25).0, card), Reading::Failed(_)));
        assert_eq!(row_figure(Bytes::gib(24).0, card), Reading::Known(Bytes::gib(24)));
        assert_eq!(row_figure(0, None), Reading::Known(Bytes::ZERO));
    }
}
