//! Owns the GPUs of AMD and Intel as a source: the kernel's files about each, and whose memory is on them. Two lists tell
//! of processes, and neither has all: the open files of each process (`fdinfo`), which only its user and root may see, and
//! ROCm's (`kfd`), which has every user's but also those that have exited. Does nothing on a machine without such a GPU.

mod card;
mod clients;
mod descriptors;
pub mod fdinfo;
mod kfd;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use card::Card;
use clients::{Kin, Opened, Share};
use descriptors::{Descriptors, Sight};

use super::source::{DeviceReading, Known, Moment, Source, SourceReading, Whose};
use crate::gpu::accounts::{Row, row_figure};
use crate::gpu::{Device, Nature, ProcessKind, Reading};
use crate::platform::linux::procfs::Procfs;
use crate::units::Bytes;

/// Cards come and go by hand.
const LOOK_FOR_CARDS: Duration = Duration::from_secs(30);

/// The GPUs, and who was seen with them.
#[derive(Debug, Default)]
pub(super) struct Drm {
    cards: Vec<Card>,
    found_at: Option<Instant>,
    descriptors: Descriptors,
    /// The system memory that programs can get, which limits what a GPU without its own can.
    pub available: Option<Bytes>,
}

impl Drm {
    /// True if there is a GPU whose files are read.
    pub(super) fn has_cards(&self) -> bool {
        !self.cards.is_empty()
    }

    /// The number of processes whose open files could not be read.
    pub(super) fn unseen(&self) -> u32 {
        self.descriptors.unseen()
    }

    fn device(&self, procfs: &Procfs, card: &Card, index: usize, listed: Listed<'_>) -> DeviceReading {
        let asleep = card.is_asleep();
        let available = self.available.map_or(Reading::NotAvailable, Reading::Known);
        let figures = card.read(procfs.system(), available, asleep);
        let mut memory = figures.memory;
        let mut rows = Vec::new();
        let mut known = BTreeMap::new();
        for (pid, (row, about)) in listed.rows(card, memory.total_bytes.value()) {
            rows.push(Row { pid, ..row });
            known.insert(pid, about);
        }
        if card.pool == card::Pool::Own && memory.used_bytes == Reading::Unsupported {
            memory.used_bytes = self.used_by_clients(&rows, asleep);
            memory.free_bytes = match (memory.total_bytes.value(), &memory.used_bytes) {
                (Some(total), used) => used.clone().map(|used| total.less(used)),
                (None, _) => memory.total_bytes.clone(),
            };
        }
        let device = Device {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            memory,
            nature: (card.pool == card::Pool::Shared).then_some(Nature::Integrated),
            uuid: Reading::Unsupported,
            bus_id: card.address.clone().map_or(Reading::Unsupported, Reading::Known),
            name: card.name.clone(),
            utilization_percent: figures.utilization_percent,
            temperature_celsius: figures.temperature_celsius,
            power_watts: figures.power_watts,
            vendor: card.vendor(),
            kernel_driver: Some(card.driver.name().to_owned()),
            ordinal: card.ordinal,
            asleep,
            shared_total_bytes: figures.shared_total_bytes,
            shared_used_bytes: figures.shared_used_bytes,
            ..Device::default()
        };
        let counts_all = card.driver == fdinfo::KernelDriver::Amdgpu;
        let listed = match asleep {
            true => Reading::NotAvailable,
            // What an Intel GPU has in use is the sum of the rows or not known, so nothing can be left over.
            false if !counts_all => Reading::Unsupported,
            false => Reading::Known(()),
        };
        DeviceReading { device, minor: None, rows, listed, sm_percent: Reading::Unsupported, known }
    }

    /// What is in use on a GPU that has no figure of its own: the sum of its clients, if every process could be seen.
    fn used_by_clients(&self, rows: &[Row], asleep: bool) -> Reading<Bytes> {
        if asleep {
            return Reading::NotAvailable;
        }
        if self.descriptors.unseen() > 0 {
            return Reading::Denied;
        }
        let mut sum = Bytes::ZERO;
        for row in rows {
            match row.used_bytes.value() {
                Some(used) => sum = sum.plus(used),
                None => return Reading::Unsupported,
            }
        }
        Reading::Known(sum)
    }
}

impl Source for Drm {
    fn refresh(&mut self, moment: Moment, procfs: &Procfs) -> SourceReading {
        if self.found_at.is_none_or(|at| moment.now.duration_since(at) >= LOOK_FOR_CARDS) {
            self.cards = card::discover(procfs.system(), &kfd::nodes(procfs.system()));
            self.found_at = Some(moment.now);
        }
        if self.cards.is_empty() {
            return SourceReading { driver: None, devices: Vec::new() };
        }
        let by_kfd = kfd::processes(procfs.system());
        let named: BTreeSet<u32> = by_kfd.keys().map(|(pid, _)| *pid).collect();
        self.descriptors.refresh(procfs, &named, moment.now);
        let opened = self.descriptors.read(procfs, &self.cards);
        let is_local = procfs.in_initial_pid_namespace();
        let mut devices = Vec::new();
        for (index, card) in self.cards.iter().enumerate() {
            let opened = opened.get(&index).map_or(&[][..], Vec::as_slice);
            let by_kfd = by_kfd_on(card, &by_kfd);
            let listed = Listed { opened, by_kfd, is_local, descriptors: &self.descriptors, procfs };
            devices.push(self.device(procfs, card, index, listed));
        }
        SourceReading { driver: None, devices }
    }

    fn glance(&mut self) -> Vec<(u32, Bytes)> {
        let used = (0..).zip(&self.cards).filter_map(|(index, card)| Some((index, card.used().value()?)));
        used.collect()
    }

    /// Nothing is kept open.
    fn let_go(&mut self) {}
}

/// The VRAM that ROCm's driver counts on this card, by PID.
fn by_kfd_on(card: &Card, all: &BTreeMap<(u32, u64), Bytes>) -> BTreeMap<u32, Bytes> {
    let Some(node) = &card.kfd else { return BTreeMap::new() };
    let own = all.iter().filter(|((_, gpu_id), _)| *gpu_id == node.gpu_id);
    own.map(|((pid, _), bytes)| (*pid, *bytes)).collect()
}

/// The two lists of one GPU.
struct Listed<'a> {
    opened: &'a [Opened],
    by_kfd: BTreeMap<u32, Bytes>,
    /// Whether the PIDs of ROCm's list are those of this /proc.
    is_local: bool,
    descriptors: &'a Descriptors,
    procfs: &'a Procfs,
}

impl Kin for Listed<'_> {
    fn above(&self, pid: u32) -> Vec<u32> {
        self.procfs.ancestors(pid)
    }

    fn is_named(&self, pid: u32) -> bool {
        self.is_local && self.by_kfd.contains_key(&pid)
    }
}

impl Listed<'_> {
    /// Each process once: by its open files where those may be seen, else by ROCm's list. The two count the same memory, so
    /// they are never added.
    fn rows(&self, card: &Card, total: Option<Bytes>) -> BTreeMap<u32, (Row, Known)> {
        let mut rows = BTreeMap::new();
        for (pid, share) in clients::shares(self.opened, self) {
            rows.extend(self.of_share(card, pid, &share, total).map(|row| (pid, row)));
        }
        // In a container ROCm's list has other PIDs. Nothing tells which of them are the processes whose open files were
        // seen, so that list is left out where there are such, and the rest of the memory stays unattributed.
        if !self.is_local && !rows.is_empty() {
            return rows;
        }
        for (pid, bytes) in &self.by_kfd {
            if rows.contains_key(pid) {
                continue;
            }
            let row = Row { pid: *pid, kind: ProcessKind::Compute, used_bytes: row_figure(bytes.0, total) };
            let whose = self.whose(card, *pid);
            rows.insert(*pid, (row, Known { whose, shared_bytes: None, spilled_bytes: None, shared_with: Vec::new() }));
        }
        rows
    }

    fn of_share(&self, card: &Card, pid: u32, share: &Share, total: Option<Bytes>) -> Option<(Row, Known)> {
        let (used, shared) = match card.pool {
            card::Pool::Own => (share.device.clone(), share.system.value()),
            card::Pool::Shared | card::Pool::System => (share.system.clone(), None),
        };
        let by_kfd = if self.is_local { self.by_kfd.get(&pid) } else { None };
        let is_computing = share.has_computed || by_kfd.is_some();
        let shared = shared.filter(|bytes| *bytes > Bytes::ZERO);
        // Whoever opened the GPU and allocated nothing is nobody.
        if used == Reading::Known(Bytes::ZERO) && shared.is_none() {
            return None;
        }
        let used_bytes = match used {
            Reading::Known(bytes) => match (row_figure(bytes.0, total), by_kfd) {
                // Memory that GPUs of one hive map from each other is counted on both.
                (Reading::Failed(_), Some(by_kfd)) => row_figure(by_kfd.0, total),
                (figure, _) => figure,
            },
            unknown => unknown,
        };
        let kind = if is_computing { ProcessKind::Compute } else { ProcessKind::Graphics };
        let known = Known {
            whose: Whose::Proved { start_ticks: share.start_ticks },
            shared_bytes: shared,
            spilled_bytes: share.evicted.filter(|bytes| *bytes > Bytes::ZERO),
            shared_with: share.shared_with.iter().copied().collect(),
        };
        Some((Row { pid, kind, used_bytes }, known))
    }

    /// Whose a row of ROCm's list is. Its folder may be older than the process of that PID.
    fn whose(&self, card: &Card, pid: u32) -> Whose {
        if !self.is_local {
            return Whose::Foreign;
        }
        match self.descriptors.sight(pid, &card.nodes) {
            Sight::Open { start_ticks } => Whose::Proved { start_ticks },
            Sight::Denied => Whose::Unseen,
            Sight::Closed | Sight::Gone => Whose::Exited,
        }
    }
}
