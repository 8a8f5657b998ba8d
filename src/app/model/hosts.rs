//! Owns the state of the machines that are watched besides this one, and which of them is on the screen.

use std::sync::Arc;
use std::time::Duration;

use super::feed::Feed;
use crate::advice::other_machine::OtherMachine;
use crate::gpu::history::History;
use crate::gpu::{Header, Snapshot};
use crate::hosts::{HostName, HostReading, Unavailable};

#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// In the order in which they first answered or failed.
    pub all: Vec<Host>,
    /// The machine on the screen in place of this one.
    pub away: Option<Away>,
}

/// A machine on the screen in place of this one.
#[derive(Clone, Debug)]
pub struct Away {
    pub name: HostName,
    /// The readings of this machine, which go on meanwhile.
    pub home: Feed,
}

/// A machine, with its last reading for as long as the program runs: one that went down is not forgotten.
#[derive(Clone, Debug)]
pub struct Host {
    /// What was told last.
    pub told: HostReading,
    pub latest: Option<Arc<Snapshot>>,
    /// When that came.
    pub received: Option<Duration>,
    pub history: History,
}

impl Host {
    /// Why there is no newer reading.
    pub fn down(&self) -> Option<&Unavailable> {
        self.told.seen.as_ref().err()
    }

    /// Its readings as those of the screen.
    pub fn feed(&self) -> Feed {
        Feed {
            header: Some(Header::of_boot(self.told.boot_id.clone())),
            latest: self.latest.clone(),
            received: self.received,
            history: self.history.clone(),
            down: self.down().map(ToString::to_string),
            ..Feed::default()
        }
    }
}

impl Hosts {
    pub fn find(&self, name: &HostName) -> Option<&Host> {
        self.all.iter().find(|host| host.told.name == *name)
    }

    /// The machines that answer, besides the one on the screen.
    pub(crate) fn others(&self) -> Vec<OtherMachine<'_>> {
        let shown = self.away.as_ref().map(|away| &away.name);
        let answering = self.all.iter().filter(|host| host.down().is_none() && Some(&host.told.name) != shown);
        let others = answering.filter_map(|host| {
            let snapshot = host.latest.as_deref()?;
            Some(OtherMachine { reading: &host.told, snapshot, history: &host.history })
        });
        others.collect()
    }

    /// Takes in what a machine was told to show. A second name of a machine that is known already only becomes one of its
    /// names.
    pub fn take(&mut self, told: HostReading, now: Duration) {
        let by_name = self.all.iter().position(|host| host.told.name == told.name);
        let by_boot = self.all.iter().position(|host| told.boot_id.is_some() && host.told.boot_id == told.boot_id);
        if let (None, Some(known)) = (by_name, by_boot.and_then(|at| self.all.get_mut(at))) {
            if !known.told.also.contains(&told.name) {
                known.told.also.push(told.name);
            }
            return;
        }
        let at = by_name.unwrap_or(self.all.len());
        if by_name.is_none() {
            let host = Host { told: told.clone(), latest: None, received: None, history: History::default() };
            self.all.push(host);
        }
        let Some(host) = self.all.get_mut(at) else { return };
        let (also, boot_id) = (std::mem::take(&mut host.told.also), host.told.boot_id.take());
        let (login, program) = (host.told.login.take(), host.told.program.clone());
        host.told = told;
        if host.down().is_some() {
            (host.told.login, host.told.program) = (login, program);
        }
        host.told.also.extend(also);
        host.told.boot_id = host.told.boot_id.take().or(boot_id);
        if let Some(snapshot) = host.told.snapshot() {
            let snapshot = Arc::new(snapshot.clone());
            host.history.note(&snapshot);
            (host.latest, host.received) = (Some(snapshot), Some(now));
        }
    }
}
