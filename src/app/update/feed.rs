//! Owns what a reading changes: the newest snapshot, what was watched, the selection, the endings' proof, the advice.

use std::sync::Arc;

use super::{again, hosts};
use crate::app::advise::advise_and_keep_the_step;
use crate::app::effect::Effect;
use crate::app::model::Model;
use crate::app::region::processes::keep_selection;
use crate::app::walk::EndingState;
use crate::gpu::{Header, SCHEMA, Snapshot};
use crate::units::Bytes;

/// The sampler's first line. A newer schema is refused by name.
pub(super) fn header(model: &mut Model, header: Header) {
    if header.schema > SCHEMA {
        model.home().down =
            Some(format!("its readings are of schema {}, this program reads up to {SCHEMA}", header.schema));
        return;
    }
    let home = model.home();
    home.down = None;
    home.header = Some(header);
}

pub(super) fn sample(model: &mut Model, snapshot: Snapshot) -> Vec<Effect> {
    let snapshot = snapshot.harmless();
    if model.hosts.away.is_some() {
        let proved = watch_endings(model, &snapshot);
        let now = model.now;
        hosts::keep(model.home(), snapshot, now);
        return proved;
    }
    model.feed.received = Some(model.now);
    model.feed.down = None;
    if model.feed.paused {
        return Vec::new();
    }
    model.feed.history.note(&snapshot);
    model.processes.letters.follow(&snapshot);
    let proved = watch_endings(model, &snapshot);
    model.feed.latest = Some(Arc::new(snapshot));
    keep_selection(model);
    advise_and_keep_the_step(model);
    let watched = again::watch_run(model);
    proved.into_iter().chain(room_at_last(model)).chain(watched).collect()
}

/// Tells the person that the memory they wait for is free.
fn room_at_last(model: &mut Model) -> Option<Effect> {
    let (index, wanted) = model.walk.waits_for?;
    let device = model.snapshot()?.devices.iter().find(|device| device.index == index)?;
    let free = device.memory.free_bytes.value().filter(|free| *free >= wanted)?;
    model.walk.waits_for = None;
    let text = format!("{free} free on GPU {index}");
    model.say(format!("{text}: run the job again."));
    Some(Effect::Ring(text))
}

/// Memory that several processes freed at once is counted once. What was freed after a signal is recorded.
fn watch_endings(model: &mut Model, snapshot: &Snapshot) -> Vec<Effect> {
    let mut proved = Vec::new();
    for at in 0..model.endings.len() {
        let Some(asked_at) = model.endings.get(at).map(|ending| ending.asked_at) else { continue };
        let devices = model.endings.get(at).map(|ending| ending.victim.devices.clone()).unwrap_or_default();
        // Memory that was freed on another device is not from this process.
        let others = model.endings.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
        let on_same = others.filter(|other| other.victim.devices.iter().any(|device| devices.contains(device)));
        let shared = on_same.fold(Bytes::ZERO, |sum, other| sum.plus(other.returned_since(asked_at)));
        if let Some(ending) = model.endings.get_mut(at) {
            // Only what this program sent is recorded, and so is its effect: not what the person did elsewhere.
            let ours = matches!(ending.state, EndingState::Ended { .. }) || ending.release.is_some();
            let open = ours && !ending.is_settled();
            ending.watch(snapshot, shared, model.now);
            if let (true, EndingState::Returned { bytes, .. } | EndingState::NotReturned { bytes }) =
                (open, &ending.state)
                && !ending.victim.devices.is_empty()
            {
                proved.push(Effect::NoteMemory(ending.victim.key, *bytes));
            }
        }
    }
    proved
}
