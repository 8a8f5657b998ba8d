//! Owns which processes have which GPU of AMD or Intel open. Looking at every descriptor of every process costs a call each,
//! so it is done every 5 s; between that, only those of new processes are looked at, and the known ones are read again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::card::Card;
use super::clients::Opened;
use super::fdinfo;
use crate::platform::linux::procfs::drm::OpenNode;
use crate::platform::linux::procfs::{ProcError, Procfs};

const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Programs that open GPUs for others and use none.
const STEWARDS: [&str; 5] = ["systemd-logind", "elogind", "elogind-daemon", "seatd", "systemd"];

#[derive(Debug, Default)]
pub(super) struct Descriptors {
    processes: BTreeMap<u32, Seen>,
    looked_at: Option<Instant>,
}

/// What a process was last seen with.
#[derive(Clone, Debug)]
enum Seen {
    /// No GPU of these drivers.
    Nothing,
    /// Its open files may not be looked at.
    Denied,
    Nodes(User),
}

#[derive(Clone, Debug)]
struct User {
    start_ticks: u64,
    is_steward: bool,
    nodes: Vec<OpenNode>,
}

/// Whether a process has a GPU open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Open { start_ticks: u64 },
    Closed,
    Denied,
    Gone,
}

impl Descriptors {
    /// Looks at whom it is time to look at. `named`: processes that another list says use a GPU.
    pub(super) fn refresh(&mut self, procfs: &Procfs, named: &BTreeSet<u32>, now: Instant) {
        let is_due = self.looked_at.is_none_or(|at| now.duration_since(at) >= LOOK_AGAIN);
        if is_due {
            self.looked_at = Some(now);
        }
        let mut before = std::mem::take(&mut self.processes);
        for pid in procfs.pids() {
            let known = before.remove(&pid).filter(|_| !is_due && !named.contains(&pid));
            let seen = known.unwrap_or_else(|| look(procfs, pid));
            self.processes.insert(pid, seen);
        }
    }

    /// The clients of each card, by its place in the list. GPUs that sleep are not asked, since that would wake them.
    pub(super) fn read(&mut self, procfs: &Procfs, cards: &[Card]) -> BTreeMap<usize, Vec<Opened>> {
        let asleep: Vec<bool> = cards.iter().map(Card::is_asleep).collect();
        let mut clients: BTreeMap<usize, Vec<Opened>> = BTreeMap::new();
        for (pid, seen) in &mut self.processes {
            let Seen::Nodes(user) = &*seen else { continue };
            let mut opened = clients_of(procfs, *pid, user, cards, &asleep);
            // Read last: if it is the same process now, all that was read is its own.
            if procfs.stat(*pid).map(|stat| stat.start_ticks) != Ok(user.start_ticks) {
                *seen = look(procfs, *pid);
                let Seen::Nodes(user) = &*seen else { continue };
                opened = clients_of(procfs, *pid, user, cards, &asleep);
            }
            for (card, one) in opened {
                clients.entry(card).or_default().push(one);
            }
        }
        clients
    }

    pub(super) fn sight(&self, pid: u32, nodes: &[u32]) -> Sight {
        match self.processes.get(&pid) {
            None => Sight::Gone,
            Some(Seen::Denied) => Sight::Denied,
            Some(Seen::Nodes(user)) if user.nodes.iter().any(|node| nodes.contains(&node.minor)) => {
                Sight::Open { start_ticks: user.start_ticks }
            }
            Some(Seen::Nodes(_) | Seen::Nothing) => Sight::Closed,
        }
    }

    /// How many processes could not be looked at: other users'.
    pub(super) fn unseen(&self) -> u32 {
        let denied = self.processes.values().filter(|seen| matches!(seen, Seen::Denied)).count();
        u32::try_from(denied).unwrap_or(u32::MAX)
    }
}

fn look(procfs: &Procfs, pid: u32) -> Seen {
    let nodes = match procfs.open_nodes(pid) {
        Ok(nodes) => nodes,
        // Kernel threads have nothing open.
        Err(ProcError::Denied) if !procfs.stat(pid).is_ok_and(|stat| stat.is_kernel_thread()) => return Seen::Denied,
        Err(_) => return Seen::Nothing,
    };
    if nodes.is_empty() {
        return Seen::Nothing;
    }
    let Ok(stat) = procfs.stat(pid) else { return Seen::Nothing };
    let is_steward = pid == 1 || STEWARDS.contains(&stat.comm.as_str());
    Seen::Nodes(User { start_ticks: stat.start_ticks, is_steward, nodes })
}

fn clients_of(procfs: &Procfs, pid: u32, user: &User, cards: &[Card], asleep: &[bool]) -> Vec<(usize, Opened)> {
    let mut clients = Vec::new();
    for node in &user.nodes {
        let Some(index) = cards.iter().position(|card| card.nodes.contains(&node.minor)) else { continue };
        let Some(card) = cards.get(index).filter(|_| asleep.get(index) == Some(&false)) else { continue };
        let Some(client) = procfs.fdinfo(pid, &node.descriptor).ok().and_then(|text| fdinfo::parse(&text)) else {
            continue;
        };
        // The descriptor may be that of another file by now.
        if client.driver != card.driver || !card.is_at(client.address.as_deref()) {
            continue;
        }
        let (start_ticks, is_steward) = (user.start_ticks, user.is_steward);
        clients.push((index, Opened { pid, start_ticks, client: client.id, usage: client.usage, is_steward }));
    }
    clients
}
