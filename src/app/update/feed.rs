//! Owns what a reading changes: the newest snapshot, what was watched, the selection, the endings' proof, the advice.

use std::sync::Arc;

use crate::app::model::{Model, RowId};
use crate::gpu::{Header, SCHEMA, Snapshot};

/// The sampler's first line. A newer schema is refused by name.
pub fn header(model: &mut Model, header: Header) {
    if header.schema > SCHEMA {
        model.feed.down =
            Some(format!("its readings are of schema {}, this program reads up to {SCHEMA}", header.schema));
        return;
    }
    model.feed.down = None;
    model.feed.header = Some(header);
}

/// A reading.
pub fn sample(model: &mut Model, snapshot: Snapshot) {
    let snapshot = snapshot.harmless();
    model.feed.received = Some(model.now);
    model.feed.down = None;
    if model.feed.paused {
        return;
    }
    model.feed.history.note(&snapshot);
    for ending in &mut model.endings {
        ending.watch(&snapshot, model.now);
    }
    model.processes.marked.retain(|key| snapshot.find(*key).is_some());
    model.feed.latest = Some(Arc::new(snapshot));
    keep_selection(model);
    super::advise_anew(model);
}

/// The selection stays on its process; where that has left, the first row is selected.
pub fn keep_selection(model: &mut Model) {
    let rows: Vec<RowId> = model.rows().into_iter().map(|(id, ..)| id).collect();
    let still = model.processes.selected.filter(|selected| rows.contains(selected));
    model.processes.selected = still.or(rows.first().copied());
}
