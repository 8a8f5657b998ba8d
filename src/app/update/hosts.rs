//! Owns what other machines change: their row, and the screen where one of them is open. Nothing is signaled on a machine
//! that is not this one: `Model::refuses_all` says so while one is open.

use std::sync::Arc;
use std::time::Duration;

use crate::app::advise::{advise_and_keep_the_step, advise_anew};
use crate::app::model::{Away, Feed, Model, Processes};
use crate::app::overlay::machines;
use crate::app::region::processes::keep_selection;
use crate::gpu::Snapshot;
use crate::hosts::{HostName, HostReading, Through, Unavailable};

/// These machines will be read. Who asks for them sees their table first, unless there is a log to read.
pub fn expect(model: &mut Model, names: &[HostName]) {
    for name in names {
        let waiting = HostReading::unavailable(name.clone(), Through::Ssh, Unavailable::new("connecting"));
        model.hosts.take(waiting, model.now);
    }
    if model.input.log.is_none() && model.input.awaited.is_none() {
        machines::toggle(model);
    }
}

/// What was read of a machine, or why nothing was.
pub(super) fn told(model: &mut Model, told: HostReading) {
    let name = told.name.clone();
    model.hosts.take(told, model.now);
    let is_open = model.hosts.away.as_ref().is_some_and(|away| away.name == name);
    if model.feed.paused {
        return;
    }
    if is_open {
        show(model, &name);
    } else {
        advise_and_keep_the_step(model);
    }
}

/// The machines as a list; from a machine that is open, back to this one.
pub(super) fn list(model: &mut Model) {
    if model.hosts.all.is_empty() {
        model.say("No other machine is watched: start with --host gpu1,gpu2.");
    } else {
        machines::toggle(model);
    }
}

/// Puts a machine on the screen in place of this one; without a name, this one again.
pub(crate) fn open(model: &mut Model, name: Option<&HostName>) {
    // What is marked or selected is of the machine that leaves the screen.
    model.processes = Processes { sort: model.processes.sort, ..Processes::default() };
    if let Some(away) = model.hosts.away.take() {
        model.feed = away.home;
    }
    match name {
        Some(name) => {
            let home = std::mem::take(&mut model.feed);
            model.hosts.away = Some(Away { name: name.clone(), home });
            show(model, name);
        }
        None => shown_anew(model),
    }
}

fn show(model: &mut Model, name: &HostName) {
    let Some(host) = model.hosts.find(name) else { return };
    model.feed = host.feed();
    shown_anew(model);
}

fn shown_anew(model: &mut Model) {
    if let Some(snapshot) = model.feed.latest.clone() {
        model.processes.letters.follow(&snapshot);
    }
    keep_selection(model);
    advise_anew(model);
}

/// Keeps a reading of this machine while another one is on the screen.
pub(super) fn keep(home: &mut Feed, snapshot: Snapshot, now: Duration) {
    home.history.note(&snapshot);
    (home.latest, home.received, home.down) = (Some(Arc::new(snapshot)), Some(now), None);
}
