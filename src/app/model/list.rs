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
pub(crate) struct From<'a> {
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
    pub(crate) fn rows(&self, from: From<'_>, find: impl FnOnce() -> Vec<Row>) -> Arc<[Row]> {
        if let Some(found) = &*self.0.borrow()
            && found.is_from(from)
        {
            return Arc::clone(&found.rows);
        }
        let rows: Arc<[Row]> = find().into();
        self.0.replace(Some(Found {
            snapshot: Arc::clone(from.snapshot),
            filter: from.filter.to_owned(),
            sort: from.sort,
            kept_order: from.kept_order.map(<[RowId]>::to_vec),
            rows: Arc::clone(&rows),
        }));
        rows
    }
}

impl Found {
    fn is_from(&self, from: From<'_>) -> bool {
        Arc::ptr_eq(&self.snapshot, from.snapshot)
            && (self.filter.as_str(), self.sort, self.kept_order.as_deref())
                == (from.filter, from.sort, from.kept_order)
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
        let from = From { snapshot: &first, filter: "", sort: Sort::Vram, kept_order: None };
        let (list, mut count) = (List::default(), 0);
        for (from, expected) in [
            (from, 1),
            (from, 1),
            (From { snapshot: &second, ..from }, 2),
            (From { filter: "x", ..from }, 3),
            (from, 4),
            (From { sort: Sort::Pid, ..from }, 5),
            (From { kept_order: Some(&order), ..from }, 6),
            (From { kept_order: Some(&order), ..from }, 6),
            (From { kept_order: Some(&[]), ..from }, 7),
            (from, 8),
        ] {
            list.rows(from, || {
                count += 1;
                Vec::new()
            });
            assert_eq!(count, expected, "{from:?}");
        }
    }
}
