//! Owns the rows of the process list as they were found last. They are asked for in many places between two readings and hardly
//! ever differ; whatever they are found from is compared each time, so they are never old.

use std::cell::RefCell;
use std::sync::Arc;

use super::processes::{RowId, Sort};
use crate::gpu::{GpuProcess, Snapshot};
use crate::units::Bytes;

/// A line of the list.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its identity in any order of the list.
    pub id: RowId,
    pub process: Arc<GpuProcess>,
    /// How it stands to the others.
    pub stands: Stands,
    /// The driver does not list it.
    pub unlisted: bool,
}

/// How a row stands to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    Alone,
    Head {
        workers: usize,
        /// What they and it use together on all devices; `None` where the driver does not say.
        together: Option<Bytes>,
    },
    /// Below the one it works for.
    Worker,
    /// Not listed by the driver, with its device files open.
    Holder,
}

/// All that the rows are found from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis<'a> {
    pub snapshot: &'a Arc<Snapshot>,
    pub filter: &'a str,
    pub sort: Sort,
    pub kept_order: Option<&'a [RowId]>,
}

/// The rows, once they were asked for.
#[derive(Clone, Debug, Default)]
pub struct List(RefCell<Option<Found>>);

#[derive(Clone, Debug)]
struct Found {
    snapshot: Arc<Snapshot>,
    filter: String,
    sort: Sort,
    kept_order: Option<Vec<RowId>>,
    rows: Arc<[Row]>,
}

impl List {
    pub(crate) fn rows(&self, basis: Basis<'_>, find: impl FnOnce() -> Vec<Row>) -> Arc<[Row]> {
        if let Some(found) = &*self.0.borrow()
            && found.rests_on(basis)
        {
            return Arc::clone(&found.rows);
        }
        let rows: Arc<[Row]> = find().into();
        self.0.replace(Some(Found {
            snapshot: Arc::clone(basis.snapshot),
            filter: basis.filter.to_owned(),
            sort: basis.sort,
            kept_order: basis.kept_order.map(<[RowId]>::to_vec),
            rows: Arc::clone(&rows),
        }));
        rows
    }
}

impl Found {
    fn rests_on(&self, basis: Basis<'_>) -> bool {
        Arc::ptr_eq(&self.snapshot, basis.snapshot)
            && (self.filter.as_str(), self.sort, self.kept_order.as_deref())
                == (basis.filter, basis.sort, basis.kept_order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::snapshot;

    #[test]
    fn rows_are_found_anew_where_anything_differs_that_they_are_found_from() {
        let (first, second) = (Arc::new(snapshot(0)), Arc::new(snapshot(0)));
        let order = [RowId { device: 0, pid: 7, start_ticks: None }];
        let basis = Basis { snapshot: &first, filter: "", sort: Sort::Vram, kept_order: None };
        let (list, mut count) = (List::default(), 0);
        for (on, expected) in [
            (basis, 1),
            (basis, 1),
            (Basis { snapshot: &second, ..basis }, 2),
            (Basis { filter: "x", ..basis }, 3),
            (basis, 4),
            (Basis { sort: Sort::Pid, ..basis }, 5),
            (Basis { kept_order: Some(&order), ..basis }, 6),
            (Basis { kept_order: Some(&order), ..basis }, 6),
            (Basis { kept_order: Some(&[]), ..basis }, 7),
            (basis, 8),
        ] {
            list.rows(on, || {
                count += 1;
                Vec::new()
            });
            assert_eq!(count, expected, "{on:?}");
        }
    }
}
