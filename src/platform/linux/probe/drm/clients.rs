//! Owns whose the memory of a GPU's clients is. A client is an open file of the GPU, which children inherit and a display
//! server hands to others, so the same client may be open in several processes: it is counted once, in one of them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::fdinfo::Usage;
use crate::gpu::Reading;
use crate::units::Bytes;

/// A client as one process has it open, perhaps in several descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub pid: u32,
    pub start_ticks: u64,
    /// The client's number, unique on its GPU only; `None` where the kernel prints none.
    pub client: Option<u64>,
    pub usage: Usage,
    /// Hands open files to others and uses no GPU itself: a session's manager, PID 1.
    pub is_steward: bool,
}

/// What one process is counted with on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub start_ticks: u64,
    /// Unknown where a client of it has no figure.
    pub device: Reading<Bytes>,
    pub system: Reading<Bytes>,
    pub evicted: Option<Bytes>,
    pub has_computed: bool,
    /// The other processes that have a client of it open.
    pub shared_with: BTreeSet<u32>,
}

/// What all need to know of processes.
pub(super) trait Kin {
    /// The PIDs above this one, nearest first.
    fn above(&self, pid: u32) -> Vec<u32>;
    /// Whether another list names the process as a user of this GPU.
    fn is_named(&self, pid: u32) -> bool;
}

/// A client with everyone who has it open.
struct Held<'a> {
    usage: Usage,
    by: Vec<&'a Opened>,
}

/// The processes of one GPU by PID, each client counted once.
pub(super) fn shares(opened: &[Opened], kin: &impl Kin) -> BTreeMap<u32, Share> {
    let mut shares: BTreeMap<u32, Share> = BTreeMap::new();
    for held in clients(opened) {
        let Some(owner) = owner(&held.by, kin) else { continue };
        let share = shares.entry(owner.pid).or_insert_with(|| Share::empty(owner.start_ticks));
        share.add(&held.usage);
        share.shared_with.extend(held.by.iter().map(|other| other.pid).filter(|pid| *pid != owner.pid));
    }
    shares
}

/// Each client once. A client without a number can't be told from others of its process, so the largest of them counts.
fn clients(opened: &[Opened]) -> Vec<Held<'_>> {
    let mut clients: BTreeMap<(Option<u64>, u32), Held<'_>> = BTreeMap::new();
    for one in opened {
        let unnumbered_of = if one.client.is_none() { one.pid } else { 0 };
        let held =
            clients.entry((one.client, unnumbered_of)).or_insert_with(|| Held { usage: one.usage, by: Vec::new() });
        held.usage = larger(held.usage, one.usage);
        if !held.by.iter().any(|known| known.pid == one.pid) {
            held.by.push(one);
        }
    }
    clients.into_values().collect()
}

/// Two readings of one client differ where it allocates between them.
fn larger(one: Usage, other: Usage) -> Usage {
    Usage {
        device: one.device.max(other.device),
        system: one.system.max(other.system),
        evicted: one.evicted.max(other.evicted),
        has_computed: one.has_computed || other.has_computed,
    }
}

/// The process that a client's memory is counted with: one that another list names, else the one that the others descend
/// from, else the oldest. A steward owns nothing, so a client that only stewards have open is nobody's.
fn owner<'a>(by: &[&'a Opened], kin: &impl Kin) -> Option<&'a Opened> {
    let mut candidates: Vec<&Opened> = by.iter().copied().filter(|one| !one.is_steward).collect();
    if let [only] = candidates[..] {
        return Some(only);
    }
    let named: Vec<&Opened> = candidates.iter().copied().filter(|one| kin.is_named(one.pid)).collect();
    if !named.is_empty() {
        candidates = named;
    }
    let above_others = |one: &&Opened| {
        let others = candidates.iter().filter(|other| other.pid != one.pid);
        others.filter(|other| kin.above(other.pid).contains(&one.pid)).count()
    };
    candidates.iter().copied().max_by_key(|one| (above_others(one), std::cmp::Reverse((one.start_ticks, one.pid))))
}

impl Share {
    fn empty(start_ticks: u64) -> Share {
        Share {
            start_ticks,
            device: Reading::Known(Bytes::ZERO),
            system: Reading::Known(Bytes::ZERO),
            evicted: None,
            has_computed: false,
            shared_with: BTreeSet::new(),
        }
    }

    fn add(&mut self, usage: &Usage) {
        self.device = plus(&self.device, usage.device);
        self.system = plus(&self.system, usage.system);
        self.evicted = match (self.evicted, usage.evicted) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.or(other),
        };
        self.has_computed |= usage.has_computed;
    }
}

fn plus(sum: &Reading<Bytes>, more: Option<Bytes>) -> Reading<Bytes> {
    match (sum.value(), more) {
        (Some(sum), Some(more)) => Reading::Known(sum.plus(more)),
        _ => Reading::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each PID's parent, and those whom another list names.
    #[derive(Debug, Default)]
    struct Family {
        parents: BTreeMap<u32, u32>,
        named: BTreeSet<u32>,
    }

    impl Kin for Family {
        fn above(&self, pid: u32) -> Vec<u32> {
            let mut above = Vec::new();
            let mut current = pid;
            while let Some(parent) = self.parents.get(&current) {
                if above.contains(parent) {
                    break;
                }
                above.push(*parent);
                current = *parent;
            }
            above
        }

        fn is_named(&self, pid: u32) -> bool {
            self.named.contains(&pid)
        }
    }

    fn opened(pid: u32, client: u64, mib: u64) -> Opened {
        let usage = Usage { device: Some(Bytes::mib(mib)), system: Some(Bytes::mib(1)), ..Usage::default() };
        Opened { pid, start_ticks: u64::from(pid), client: Some(client), usage, is_steward: false }
    }

    fn mib(opened: &[Opened], family: &Family) -> Vec<(u32, u64)> {
        let shares = shares(opened, family);
        shares.into_iter().map(|(pid, share)| (pid, share.device.value().unwrap().0 >> 20)).collect()
    }

    #[test]
    fn one_client_in_two_descriptors_counts_once_and_two_clients_of_a_process_add_up() {
        let all = [opened(7, 1, 100), opened(7, 1, 100), opened(7, 2, 30)];
        assert_eq!(mib(&all, &Family::default()), [(7, 130)]);
    }

    #[test]
    fn a_client_of_parent_and_child_is_the_parents() {
        let family = Family { parents: BTreeMap::from([(5, 9), (4, 5)]), ..Family::default() };
        let all = [opened(5, 1, 100), opened(9, 1, 100), opened(4, 1, 100)];
        assert_eq!(mib(&all, &family), [(9, 100)], "the oldest is a child, whose PID came round");
        assert_eq!(shares(&all, &family)[&9].shared_with, BTreeSet::from([4, 5]));
    }

    #[test]
    fn a_compositors_client_is_not_that_of_a_terminals_sleep() {
        let all = [opened(70, 1, 100), opened(900, 1, 100)];
        assert_eq!(mib(&all, &Family::default()), [(70, 100)], "no relation is known, so the oldest");
    }

    #[test]
    fn whom_another_list_names_owns_before_its_parent() {
        let family = Family { parents: BTreeMap::from([(5, 4)]), named: BTreeSet::from([5]) };
        assert_eq!(mib(&[opened(4, 1, 100), opened(5, 1, 100)], &family), [(5, 100)]);
    }

    #[test]
    fn a_steward_owns_nothing() {
        let steward = Opened { is_steward: true, ..opened(2, 1, 100) };
        assert_eq!(mib(&[steward.clone(), opened(5, 1, 100)], &Family::default()), [(5, 100)]);
        assert_eq!(mib(&[steward], &Family::default()), []);
    }

    #[test]
    fn clients_without_a_number_count_once_a_process() {
        let unnumbered = |pid: u32, mib: u64| Opened { client: None, ..opened(pid, 0, mib) };
        let all = [unnumbered(7, 100), unnumbered(7, 300), unnumbered(8, 50)];
        assert_eq!(mib(&all, &Family::default()), [(7, 300), (8, 50)]);
    }

    #[test]
    fn a_client_without_a_figure_makes_the_process_unknown_and_not_zero() {
        let unknown = Opened { usage: Usage::default(), ..opened(7, 2, 0) };
        let share = shares(&[opened(7, 1, 5), unknown], &Family::default()).remove(&7).unwrap();
        assert_eq!(share.device, Reading::Unsupported);
    }

    prop_compose! {
        fn any_opened()(pid in 2_u32..8, client in 1_u64..6, is_steward in any::<bool>()) -> Opened {
            // The same client has the same figure in each process.
            Opened { is_steward: is_steward && pid < 4, ..opened(pid, client, client * 10) }
        }
    }

    proptest! {
        #[test]
        fn the_sum_over_processes_is_the_sum_over_clients(
            all in proptest::collection::vec(any_opened(), 0..20),
            parents in proptest::collection::btree_map(2_u32..8, 1_u32..8, 0..6),
            named in proptest::collection::btree_set(2_u32..8, 0..3),
        ) {
            let stewards: BTreeSet<u32> = all.iter().filter(|one| one.is_steward).map(|one| one.pid).collect();
            let all: Vec<Opened> =
                all.into_iter().map(|one| Opened { is_steward: stewards.contains(&one.pid), ..one }).collect();
            let family = Family { parents, named };
            let by_process: u64 = mib(&all, &family).into_iter().map(|(_, mib)| mib).sum();
            let owned: BTreeSet<u64> =
                all.iter().filter(|one| !one.is_steward).filter_map(|one| one.client).collect();
            prop_assert_eq!(by_process, owned.iter().map(|client| client * 10).sum::<u64>());
            for (pid, share) in shares(&all, &family) {
                prop_assert!(!share.shared_with.contains(&pid) && !stewards.contains(&pid));
            }
        }
    }
}
