//! Owns the bookkeeping of one device: the rows merged so that no PID counts twice, and what no row accounts for.

use super::{GpuProcess, Reading};
use crate::units::Bytes;

/// What a device's `used` figure leaves unexplained by its rows: max(0, used − the sum of the known rows), and
/// whether rows without a figure may be that memory.
pub fn unaccounted(used: &Reading<Bytes>, rows: &[GpuProcess]) -> (Reading<Bytes>, bool) {
    let known = rows.iter().filter_map(|row| row.used_bytes.value()).fold(Bytes::ZERO, Bytes::plus);
    let unknown_rows = rows.iter().any(|row| row.used_bytes.known().is_none());
    (used.clone().map(|used| used.less(known)), unknown_rows)
}
