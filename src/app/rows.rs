//! Owns the order of the process list: by device, the largest first, workers below the launcher or server that they end
//! with, and last who has the driver open without being listed.

use std::sync::Arc;
use std::time::Duration;

use super::model::list::{Basis, Row, Stands};
use super::model::{Model, Processes, RowId, Sort};
use crate::gpu::usage::is_service;
use crate::gpu::{Device, GpuProcess, Holder, ProcessKey, Snapshot};
use crate::units::Bytes;

/// For so long after the person moved in the list or clicked on it, its rows keep their places.
const STILL: Duration = Duration::from_secs(5);

impl Model {
    /// The rows of the process list in the order of the screen. While the person moves in the list nothing
    /// jumps under their hands.
    pub fn rows(&self) -> Arc<[Row]> {
        let Some(snapshot) = &self.feed.latest else { return Arc::default() };
        let Processes { filter, sort, .. } = &self.processes;
        let basis = Basis { snapshot, filter, sort: *sort, kept_order: self.kept_order() };
        self.processes.list.rows(basis, || rows(self, snapshot))
    }

    /// The order to keep for now, since the person moves in the list.
    pub fn kept_order(&self) -> Option<&[RowId]> {
        let (at, order) = self.processes.still.as_ref()?;
        (self.now < *at + STILL).then_some(order)
    }

    /// Whether the filter lets it through.
    pub fn shows(&self, row: &GpuProcess) -> bool {
        if self.processes.filter.is_empty() {
            return true;
        }
        let filter = self.processes.filter.to_lowercase();
        let text = format!(
            "{} {} {} {}",
            row.pid,
            row.user.known().map_or("", String::as_str),
            row.recognised_as.as_deref().unwrap_or_default(),
            row.command.known().map_or("", String::as_str)
        );
        text.to_lowercase().contains(&filter)
    }

    /// The selected row as it stands in the newest reading.
    pub fn selected(&self) -> Option<Row> {
        self.row(self.processes.selected?)
    }

    /// The row of this identity, where it is listed still.
    pub fn row(&self, id: RowId) -> Option<Row> {
        self.rows().iter().find(|row| row.id == id).cloned()
    }

    /// What the marked processes hold together.
    pub fn marked_bytes(&self) -> Bytes {
        let Some(snapshot) = self.snapshot() else { return Bytes::ZERO };
        self.processes.marked.iter().filter_map(|key| snapshot.held_by(*key)).fold(Bytes::ZERO, Bytes::plus)
    }
}

/// All rows, those of a device in one piece.
fn rows(model: &Model, snapshot: &Snapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for device in &snapshot.devices {
        let shown = device.processes.iter().filter(|row| model.shows(row));
        let mut blocks = blocks(snapshot, device, shown);
        blocks.sort_by(|one, other| one.compare(other, model.processes.sort));
        if let Some(order) = model.kept_order() {
            blocks.sort_by_cached_key(|block| {
                let id = block.face().map(|row| RowId::of(device.index, row));
                order.iter().position(|kept| Some(*kept) == id).unwrap_or(usize::MAX)
            });
        }
        rows.extend(blocks.into_iter().flat_map(|block| block.rows(snapshot, device.index)));
        let here = snapshot.holders.iter().filter(|holder| home(snapshot, holder) == device.index);
        let here = here.filter(|holder| is_worth_a_row(snapshot, Some(device), holder) && model.shows(&holder.process));
        rows.extend(unlisted(snapshot, device.index, here));
    }
    if snapshot.devices.is_empty() {
        let shown = snapshot.holders.iter().filter(|holder| model.shows(&holder.process));
        let shown = shown.filter(|holder| is_worth_a_row(snapshot, None, holder));
        rows.extend(unlisted(snapshot, 0, shown));
    }
    rows
}

/// What a process and those that end with it use on all devices; unknown where that of a listed one is.
pub(crate) fn together(snapshot: &Snapshot, key: ProcessKey) -> Option<Bytes> {
    let below = snapshot.below(key);
    let rows = snapshot.devices.iter().flat_map(|device| &device.processes);
    let mut rows = rows.filter(|row| row.key().is_some_and(|of| of == key || below.contains(&of))).peekable();
    rows.peek()?;
    rows.try_fold(Bytes::ZERO, |sum, row| Some(sum.plus(row.used_bytes.value()?)))
}

/// Rows of a device that stand together.
struct Block<'a> {
    leader: Option<&'a GpuProcess>,
    workers: Vec<&'a GpuProcess>,
    bytes: Option<Bytes>,
    first: u32,
}

fn blocks<'a>(snapshot: &'a Snapshot, device: &Device, listed: impl Iterator<Item = &'a GpuProcess>) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    let mut listed: Vec<&GpuProcess> = listed.collect();
    listed.sort_by_key(|row| (std::cmp::Reverse(row.used_bytes.value()), row.pid));
    for row in listed {
        let leader =
            row.group.and_then(|group| snapshot.process(group)).filter(|leader| stands_on(snapshot, leader, device));
        let has_block = blocks.iter().position(|block| block.is_of(leader));
        let block = match has_block.and_then(|at| blocks.get_mut(at)) {
            Some(block) => block,
            None => {
                blocks.push(Block { leader, workers: Vec::new(), bytes: None, first: row.pid });
                let Some(block) = blocks.last_mut() else { continue };
                block
            }
        };
        block.bytes =
            row.used_bytes.value().map(|bytes| block.bytes.unwrap_or(Bytes::ZERO).plus(bytes)).or(block.bytes);
        if leader.is_none_or(|head| head.key() != row.key()) {
            block.workers.push(row);
        }
    }
    blocks
}

/// Whether a leader's row is drawn on this device: where it is listed; else where the first of its group is.
fn stands_on(snapshot: &Snapshot, leader: &GpuProcess, device: &Device) -> bool {
    if snapshot.devices.iter().any(|any| lists(any, leader)) {
        return lists(device, leader);
    }
    let mut devices = snapshot.devices.iter();
    let first = devices.find(|any| any.processes.iter().any(|row| row.group == leader.key()));
    first.is_some_and(|first| first.index == device.index)
}

fn lists(device: &Device, leader: &GpuProcess) -> bool {
    device.processes.iter().any(|row| row.key() == leader.key())
}

impl<'a> Block<'a> {
    /// Whether this leader's workers stand here.
    fn is_of(&self, leader: Option<&GpuProcess>) -> bool {
        leader.is_some() && self.leader.map(|head| head.pid) == leader.map(|head| head.pid)
    }

    /// Who stands at its top.
    fn face(&self) -> Option<&'a GpuProcess> {
        self.leader.or_else(|| self.workers.first().copied())
    }

    /// Which of two comes first; a group by what it holds here, as one.
    fn compare(&self, other: &Block<'_>, sort: Sort) -> std::cmp::Ordering {
        let largest = (std::cmp::Reverse(self.bytes), self.first).cmp(&(std::cmp::Reverse(other.bytes), other.first));
        match (self.face(), other.face()) {
            (Some(one), Some(two)) if sort != Sort::Vram => sort.compare(one, two),
            _ => largest,
        }
    }

    fn rows(self, snapshot: &Snapshot, device: u32) -> Vec<Row> {
        let stands = if self.leader.is_some() { Stands::Worker } else { Stands::Alone };
        let head = self.leader.map(|leader| (leader, head(snapshot, leader)));
        let rows = head.into_iter().chain(self.workers.into_iter().map(|row| (row, stands)));
        rows.map(|(process, stands)| row(snapshot, device, process, stands)).collect()
    }
}

fn head(snapshot: &Snapshot, leader: &GpuProcess) -> Stands {
    let Some(key) = leader.key() else { return Stands::Alone };
    match snapshot.below(key).len() {
        0 => Stands::Alone,
        workers => Stands::Head { workers, together: together(snapshot, key) },
    }
}

/// The rows of processes that the driver does not list; those that end with one launcher are below it.
fn unlisted<'a>(snapshot: &'a Snapshot, device: u32, holders: impl Iterator<Item = &'a Holder>) -> Vec<Row> {
    let mut holders: Vec<&GpuProcess> = holders.map(|holder| &holder.process).collect();
    holders.sort_by_key(|process| (process.group, process.group != process.key(), process.pid));
    let mut rows: Vec<Row> = Vec::new();
    for process in holders {
        let leader = process.group.and_then(|group| snapshot.process(group));
        if let Some(leader) = leader.filter(|leader| rows.iter().all(|row| row.process.key() != leader.key())) {
            rows.push(Row { unlisted: true, ..row(snapshot, device, leader, head(snapshot, leader)) });
        }
        if leader.is_none_or(|leader| leader.key() != process.key()) {
            let stands = if leader.is_some() { Stands::Worker } else { Stands::Holder };
            rows.push(Row { unlisted: true, ..row(snapshot, device, process, stands) });
        }
    }
    rows
}

/// The row of a process that the driver lists.
fn row(snapshot: &Snapshot, device: u32, process: &GpuProcess, stands: Stands) -> Row {
    Row { id: RowId::of(device, process), process: snapshot.shared(process), stands, unlisted: false }
}

/// The device below which such a process is shown: of those it has open, the one with the most unattributed memory.
fn home(snapshot: &Snapshot, holder: &Holder) -> u32 {
    let open = snapshot.devices.iter().filter(|device| holder.gpus.is_empty() || holder.gpus.contains(&device.index));
    let most = open.max_by_key(|device| (device.unaccounted_bytes.value(), std::cmp::Reverse(device.index)));
    most.map_or(0, |device| device.index)
}

/// A worker of one that is listed is counted there, and nobody can do anything about the driver's own services. Who is
/// left matters where there is memory that nobody else explains, or has lost its parent.
fn is_worth_a_row(snapshot: &Snapshot, device: Option<&Device>, holder: &Holder) -> bool {
    let process = &holder.process;
    let mut listed = snapshot.devices.iter().flat_map(|device| &device.processes);
    if process.group.is_some() && listed.any(|row| row.group == process.group) {
        return false;
    }
    if is_service(process) {
        return false;
    }
    let unexplained =
        device.is_none_or(|device| device.unaccounted_bytes.value().is_none_or(|bytes| bytes >= Bytes::mib(1)));
    unexplained || process.has_lost_its_parent()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tests::Session;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::gpu::{ProcessKind, Reading};

    fn of(pid: u32, gib: u64, leader: u32) -> GpuProcess {
        let mut row = process(pid, Bytes::gib(gib));
        row.parent_pid = Reading::Known(leader);
        row.group = process(leader, Bytes::ZERO).key();
        row
    }

    fn holder(pid: u32) -> Holder {
        let process =
            GpuProcess { kind: ProcessKind::Unlisted, used_bytes: Reading::NotAvailable, ..process(pid, Bytes::ZERO) };
        Holder { process, devices: vec!["/dev/nvidia0".into()], gpus: vec![0] }
    }

    fn listed(now: &Snapshot) -> Vec<(u32, u32, Stands)> {
        let model = Session::new().model;
        rows(&model, now).into_iter().map(|row| (row.id.device, row.process.pid, row.stands)).collect()
    }

    #[test]
    fn a_launcher_stands_above_its_workers_with_their_sum_and_only_once() {
        let launcher = GpuProcess { kind: ProcessKind::Unlisted, ..of(40, 0, 40) };
        let devices = vec![
            device(0, vec![process(7, Bytes::gib(5)), of(41, 4, 40), of(42, 3, 40)]),
            device(1, vec![of(43, 2, 40)]),
        ];
        let now = Snapshot { devices, launchers: vec![launcher], ..snapshot(0) };
        let head = Stands::Head { workers: 3, together: Some(Bytes::gib(9)) };
        let expected = [
            (0, 40, head),
            (0, 41, Stands::Worker),
            (0, 42, Stands::Worker),
            (0, 7, Stands::Alone),
            (1, 43, Stands::Alone),
        ];
        assert_eq!(listed(&now), expected);
    }

    #[test]
    fn who_is_not_listed_stands_where_memory_is_unexplained() {
        let (mut first, mut second) = (device(0, vec![]), device(1, vec![]));
        second.unaccounted_bytes = Reading::Known(Bytes::gib(9));
        first.unaccounted_bytes = Reading::Known(Bytes::ZERO);
        let mut now = Snapshot { devices: vec![first, second], holders: vec![holder(50)], ..snapshot(0) };
        assert_eq!(listed(&now), [], "it has only the first open, where nothing is unexplained");
        now.holders[0].gpus = vec![0, 1];
        assert_eq!(listed(&now), [(1, 50, Stands::Holder)]);
        now.holders[0].gpus = vec![];
        assert_eq!(listed(&now), [(1, 50, Stands::Holder)]);
        now.holders[0].process.command = Reading::Known("/usr/bin/nvidia-persistenced".into());
        assert_eq!(listed(&now), [], "the driver's own");
        now.holders[0] = holder(50);
        now.holders[0].process.recognised_as = Some("DataLoader worker of train.py".into());
        assert_eq!(listed(&now), [(0, 50, Stands::Holder)], "it needs a parent and has none");
        now.devices.clear();
        assert_eq!(listed(&now), [(0, 50, Stands::Holder)], "also where the driver does not answer");
    }

    #[test]
    fn holders_of_one_launcher_stand_below_it() {
        let mut now = Snapshot { holders: vec![holder(42), holder(41), holder(9)], ..snapshot(0) };
        now.devices[0].unaccounted_bytes = Reading::Known(Bytes::gib(9));
        for at in [0, 1] {
            let process = &mut now.holders[at].process;
            (process.group, process.parent_pid) = (of(40, 0, 40).group, Reading::Known(40));
        }
        now.launchers = vec![GpuProcess { kind: ProcessKind::Unlisted, ..of(40, 0, 40) }];
        let head = Stands::Head { workers: 2, together: None };
        let expected = [(0, 9, Stands::Holder), (0, 40, head), (0, 41, Stands::Worker), (0, 42, Stands::Worker)];
        assert_eq!(listed(&now), expected);
    }

    #[test]
    fn helpers_of_a_listed_process_are_counted_there() {
        let mut helper = holder(42);
        helper.process.group = process(41, Bytes::ZERO).key();
        helper.process.parent_pid = Reading::Known(41);
        let now = Snapshot { devices: vec![device(0, vec![of(41, 4, 41)])], holders: vec![helper], ..snapshot(0) };
        assert_eq!(listed(&now), [(0, 41, Stands::Head { workers: 1, together: Some(Bytes::gib(4)) })]);
    }
}
