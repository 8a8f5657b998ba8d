//! Owns the arithmetic of one memory: a capacity, parts that add up to it, what the run needed at least, and what is
//! short. From the GPU as it is now where the log is from here, else from the log's own figures. Bytes.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{in_pieces, own_context, run_had, starts_empty};
use super::input::Situation;
use super::machine::place::{Fate, Place};
use super::naming::name_of;
use super::retry::Retry;
use crate::gpu::{Device, GpuProcess, Host};
use crate::internal::Internal;
use crate::knowledge::{Diagnosis, Facts, MemoryKind};
use crate::units::Bytes;

/// Whose part of the memory it is; the screen colors by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Held back by the driver.
    Driver,
    Process,
    /// The failed run itself, as its log says.
    Run,
    /// Used, but no listed process accounts for it.
    Other,
}

/// One part of the capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Held {
    /// In words: "driver", "notebook sweep.ipynb (4242)", "desktop and other".
    pub what: String,
    /// The process, where it is one.
    pub pid: Option<u32>,
    pub bytes: Bytes,
    #[serde(skip)]
    pub share: Share,
}

/// A request that is likely one for most of what a run needs.
const LARGE: Bytes = Bytes::gib(1);

/// The sums. `capacity = Σ held_by + available` wherever all of it is known.
#[serde_with::apply(Internal => #[serde(skip)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ledger {
    /// The driver's index of the device; `None` for system memory or a device that is not here.
    pub device: Option<u32>,
    pub device_uuid: Option<String>,
    pub capacity_bytes: Option<Bytes>,
    /// What the run had plus what it asked for: a lower bound.
    pub needed_bytes: Option<Bytes>,
    /// Whether `needed_bytes` and `missing_bytes` are lower bounds, since the next allocation is not in the log. False where
    /// an engine printed its whole need.
    pub needed_is_at_least: bool,
    /// Free: now, where the machine is here; else as the log printed it.
    pub available_bytes: Option<Bytes>,
    /// What is short: needed − available.
    pub missing_bytes: Option<Bytes>,
    /// The parts in use, largest share first within driver, processes, other.
    pub held_by: Vec<Held>,
    /// Whether the figures are the machine's now (else the log's own).
    pub is_now: bool,
    /// It is an engine's own cache, of which all is free: not a device's memory.
    pub is_cache: Internal<bool>,
    /// What the run already had, the part of `needed_bytes` that is not the request.
    pub had_bytes: Internal<Option<Bytes>>,
    /// What its next try, which is under way, holds of this device.
    pub taken_bytes: Internal<Option<Bytes>>,
    /// What it asked for when it failed.
    pub asked_bytes: Internal<Option<Bytes>>,
}

impl Ledger {
    /// Whether a sum with what is short shows in MiB: a small difference of large figures.
    pub fn shows_mib(&self) -> bool {
        self.missing_bytes.is_some_and(|short| short > Bytes::ZERO && short < Bytes::gib(1))
    }

    /// What is short as it is shown: the difference of the figures as they are shown.
    pub fn shown_short(&self) -> Option<Bytes> {
        let (short, in_mib) = (self.missing_bytes?, self.shows_mib());
        // In the log, what was free leaves out what the run already had.
        let had = if self.is_now { self.had_bytes.unwrap_or(Bytes::ZERO) } else { Bytes::ZERO };
        let wanted = self.asked_bytes?.as_shown(in_mib).plus(had.as_shown(in_mib));
        let taken = self.taken_bytes.unwrap_or(Bytes::ZERO).as_shown(in_mib);
        let shown = wanted.less(self.available_bytes?.as_shown(in_mib)).less(taken);
        Some(if short == Bytes::ZERO { short } else { shown })
    }

    /// An amount of the need, or of what is short, with the sign of a lower bound where it is one.
    pub fn bound(&self, bytes: Bytes) -> String {
        if self.needed_is_at_least { at_least(bytes) } else { bytes.to_string() }
    }

    /// Whether there is room now for all that the run is known to have needed. Where what it already had is not known,
    /// what it asked for last is a small part of its need: only several times as much is room for it.
    pub fn has_room_now(&self) -> bool {
        let (Some(needed), Some(free)) = (self.needed_bytes, self.available_bytes) else { return false };
        let is_whole = self.had_bytes.is_some() || needed >= LARGE && free.0 / 4 >= needed.0;
        self.is_now && self.missing_bytes == Some(Bytes::ZERO) && is_whole
    }
}

/// A lower bound.
pub(crate) fn at_least(bytes: Bytes) -> String {
    format!("≥ {bytes}")
}

/// Adds up the memory that ran out.
pub(crate) fn draw(situation: &Situation<'_>, place: &Place<'_>, retry: Option<Retry<'_>>) -> Option<Ledger> {
    let ledger = drawn(situation, place, retry)?;
    // An engine that finds its share in use has asked for all that it ever takes.
    let is_whole = ledger.is_cache || starts_empty(situation.diagnosis);
    Some(Ledger { needed_is_at_least: !is_whole, ..ledger })
}

fn drawn(situation: &Situation<'_>, place: &Place<'_>, retry: Option<Retry<'_>>) -> Option<Ledger> {
    let diagnosis = situation.diagnosis;
    match diagnosis.memory? {
        // An engine's own cache has the room that the engine gave it, however much of the GPU is free.
        MemoryKind::KvCache if diagnosis.facts.free_bytes.is_some() => Some(of_cache(&diagnosis.facts)),
        MemoryKind::Gpu | MemoryKind::KvCache => match place.device {
            Some(device) => Some(of_device(device, diagnosis, retry)),
            None => of_log(diagnosis, place),
        },
        MemoryKind::Host | MemoryKind::Shm => of_host_now(situation, place).or_else(|| of_log(diagnosis, place)),
        MemoryKind::Unified => of_log(diagnosis, place),
    }
}

/// What the run had of a memory that it needs again.
fn had(diagnosis: &Diagnosis) -> Option<Bytes> {
    // What its allocator had unused in pieces would have been enough: that is no need.
    let unused = in_pieces(diagnosis).unwrap_or(Bytes::ZERO);
    run_had(diagnosis).map(|had| had.less(unused))
}

fn sums(
    requested: Option<Bytes>,
    had: Option<Bytes>,
    capacity_bytes: Option<Bytes>,
    available_bytes: Option<Bytes>,
) -> Ledger {
    let needed = requested.map(|requested| requested.plus(had.unwrap_or(Bytes::ZERO)));
    Ledger {
        capacity_bytes,
        needed_bytes: needed,
        available_bytes,
        missing_bytes: needed.zip(available_bytes).map(|(needed, available)| needed.less(available)),
        had_bytes: requested.and(had),
        asked_bytes: requested,
        ..Ledger::default()
    }
}

fn of_device(device: &Device, diagnosis: &Diagnosis, retry: Option<Retry<'_>>) -> Ledger {
    let memory = &device.memory;
    let requested = diagnosis.facts.requested_bytes;
    let sums = sums(requested, had(diagnosis), memory.total_bytes.value(), memory.free_bytes.value());
    // What its retry has by now is not short any more.
    let taken = retry.map(|retry| retry.uses_of(device)).filter(|taken| *taken > Bytes::ZERO);
    Ledger {
        device: Some(device.index),
        device_uuid: device.uuid.known().cloned(),
        is_now: true,
        missing_bytes: sums.missing_bytes.map(|missing| missing.less(taken.unwrap_or(Bytes::ZERO))),
        taken_bytes: taken,
        held_by: held_on(device, retry),
        ..sums
    }
}

/// The parts in use: the driver, each process, and what no process accounts for.
fn held_on(device: &Device, retry: Option<Retry<'_>>) -> Vec<Held> {
    let mut held: Vec<Held> = device.processes.iter().filter_map(|row| held_by_process(row, retry)).collect();
    held.sort_by_key(|held| Reverse(held.bytes));
    if let Some(bytes) = device.memory.reserved_bytes.value() {
        held.insert(0, Held { what: "driver".into(), pid: None, bytes, share: Share::Driver });
    }
    if let Some(bytes) = device.unaccounted_bytes.value().filter(|bytes| *bytes > Bytes::ZERO) {
        let what = match device.unaccounted_includes_unknown_rows {
            true => "processes without a figure, and other",
            false => "desktop and other",
        };
        held.push(Held { what: what.into(), pid: None, bytes, share: Share::Other });
    }
    held
}

fn held_by_process(row: &GpuProcess, retry: Option<Retry<'_>>) -> Option<Held> {
    let is_own = retry.is_some_and(|retry| retry.is_process(row));
    let share = if is_own { Share::Run } else { Share::Process };
    Some(Held { what: name_of(row), pid: Some(row.pid), bytes: row.used_bytes.value()?, share })
}

/// This machine's system memory now; `None` where the failure is about a limit, or where the log is not known to be from
/// here.
fn of_host_now(situation: &Situation<'_>, place: &Place<'_>) -> Option<Ledger> {
    let diagnosis = situation.diagnosis;
    let is_limited = diagnosis.facts.limit().is_some() || diagnosis.run.limit.is_some_and(|limit| !limit.is_of_ram);
    if is_limited || !place.is_here() {
        return None;
    }
    of_host(&situation.snapshot?.host, diagnosis)
}

fn of_host(host: &Host, diagnosis: &Diagnosis) -> Option<Ledger> {
    let (total, available) = (host.memory_total_bytes.value()?, host.memory_available_bytes.value()?);
    let had = had(diagnosis);
    // Where the log does not say what the run had, a small block is no need that could be compared with what is free.
    let requested = diagnosis.facts.requested_bytes.filter(|requested| had.is_some() || *requested >= LARGE);
    let used = Held { what: "in use".into(), pid: None, bytes: total.less(available), share: Share::Other };
    let sums = sums(requested, had, Some(total), Some(available));
    Some(Ledger { is_now: true, held_by: vec![used], ..sums })
}

/// The engine's KV cache, as it printed its room and what was wanted.
fn of_cache(facts: &Facts) -> Ledger {
    Ledger { is_cache: true, ..sums(facts.requested_bytes, None, facts.free_bytes, facts.free_bytes) }
}

/// The log's own figures. Nothing where it prints neither a capacity, nor a limit, nor what was short.
fn of_log(diagnosis: &Diagnosis, place: &Place<'_>) -> Option<Ledger> {
    let facts = &diagnosis.facts;
    // The run's own part was already taken out of what was free then.
    let missing_bytes = facts.requested_bytes.zip(facts.free_bytes).map(|(requested, free)| requested.less(free));
    let capacity = facts.total_bytes.or(facts.limit()).or_else(|| place.capacity_of_candidates());
    let sums = sums(facts.requested_bytes, had(diagnosis), capacity, facts.free_bytes);
    match capacity {
        Some(capacity) => Some(Ledger { missing_bytes, held_by: parts_of(capacity, diagnosis, place), ..sums }),
        None => missing_bytes.is_some().then_some(Ledger { missing_bytes, ..sums }),
    }
}

/// The parts of that capacity in use at the failure, as far as the log tells.
fn parts_of(capacity: Bytes, diagnosis: &Diagnosis, place: &Place<'_>) -> Vec<Held> {
    let facts = &diagnosis.facts;
    let mut held = printed_parts(diagnosis, place);
    let free = facts.free_bytes.unwrap_or(Bytes::ZERO);
    // With the named processes more than the GPU has: one of them may be the run itself, or the log mixes GPUs.
    if exceeds(capacity, accounted(free, &held)) {
        held.retain(|held| held.share == Share::Run);
    }
    // Windows counts system memory that it lends to a program: such a figure is no part of the GPU.
    let is_run_beyond_gpu = exceeds(capacity, accounted(free, &held));
    if is_run_beyond_gpu {
        held.clear();
    }
    let mut rest = capacity.less(accounted(free, &held));
    // An allocator's figure leaves out the CUDA context of its own process, which is no other process's memory.
    if let Some(context) = own_context(diagnosis).map(|context| context.min(rest)).filter(|own| *own > Bytes::ZERO) {
        rest = rest.less(context);
        held.push(Held { what: "its CUDA context about".into(), pid: None, bytes: context, share: Share::Run });
    }
    if facts.free_bytes.is_some() && rest > Bytes::ZERO {
        // Where the log does not say what the run had, the run is in there.
        let is_run_known = !is_run_beyond_gpu && (run_had(diagnosis).is_some() || own_context(diagnosis).is_some());
        let what = if is_run_known { "other" } else { "in use" };
        held.push(Held { what: what.into(), pid: None, bytes: rest, share: Share::Other });
    }
    held
}

/// Whether the parts are more than there is, beyond rounding.
fn exceeds(capacity: Bytes, parts: Bytes) -> bool {
    parts > capacity.plus(Bytes(capacity.0 / 50))
}

fn accounted(free: Bytes, held: &[Held]) -> Bytes {
    held.iter().fold(free, |sum, held| sum.plus(held.bytes))
}

/// What the log prints of the run and of the processes that it names.
fn printed_parts(diagnosis: &Diagnosis, place: &Place<'_>) -> Vec<Held> {
    let run = run_had(diagnosis).map(|bytes| Held { what: "your run".into(), pid: None, bytes, share: Share::Run });
    let named = place.named.iter().map(|named| Held {
        what: match named.fate {
            Fate::Alive(row, _) => name_of(row),
            _ => format!("process {}", named.pid),
        },
        pid: Some(named.pid),
        bytes: named.bytes,
        share: Share::Process,
    });
    run.into_iter().chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, advise};
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Reading, Snapshot};

    fn advice(snapshot: Option<&Snapshot>) -> Advice {
        let diagnosis = torch_oom(&[(4242, Bytes::mib(11_500))]);
        advise(&Situation { snapshot, crashed_by: Some(noon_plus(0)), ..Situation::alone(&diagnosis) })
    }

    #[test]
    fn the_parts_of_a_gpus_memory_add_up_to_its_capacity() {
        let rows = vec![process(5177, Bytes::gib(6)), process(4242, Bytes::mib(11_500))];
        let here = Snapshot { devices: vec![device(0, rows)], ..snapshot(0) };
        let ledger = advice(Some(&here)).ledger.unwrap();
        let held = ledger.held_by.iter().fold(Bytes::ZERO, |sum, held| sum.plus(held.bytes));
        assert_eq!(held.plus(ledger.available_bytes.unwrap()), ledger.capacity_bytes.unwrap());
        assert_eq!(
            ledger.held_by.iter().map(|held| held.pid).collect::<Vec<_>>(),
            [None, Some(4242), Some(5177), None]
        );
        assert_eq!(ledger.needed_bytes, Some(Bytes::mib(9 * 1024 + 307)), "asked plus what it had");
        let free = Bytes::mib(24 * 1024 - 410 - 200 - 6144 - 11_500);
        assert_eq!((ledger.available_bytes, ledger.is_now), (Some(free), true));
        assert_eq!(ledger.missing_bytes, Some(Bytes::mib(9 * 1024 + 307).less(free)));
    }

    #[test]
    fn a_log_about_ram_is_compared_with_this_machine_only_where_it_is_known_to_be_from_here() {
        let mut diagnosis = torch_oom(&[]);
        diagnosis.memory = Some(MemoryKind::Host);
        let here = snapshot(0);
        let total = here.host.memory_total_bytes.value();
        for (printed, has_run_here, is_now) in
            [(None, false, false), (None, true, true), (total, false, true), (Some(Bytes::gib(2000)), false, false)]
        {
            let requested_bytes = Some(Bytes::gib(141));
            diagnosis.facts = Facts { requested_bytes, total_bytes: printed, ..Facts::default() };
            let situation = Situation { snapshot: Some(&here), has_run_here, ..Situation::alone(&diagnosis) };
            assert_eq!(advise(&situation).ledger.is_some_and(|ledger| ledger.is_now), is_now, "{printed:?}");
        }
    }

    #[test]
    fn an_unknown_free_figure_leaves_the_missing_bytes_unknown() {
        let mut here = Snapshot { devices: vec![device(0, vec![])], ..snapshot(0) };
        here.devices[0].memory.free_bytes = Reading::Unsupported;
        let ledger = advice(Some(&here)).ledger.unwrap();
        assert_eq!((ledger.available_bytes, ledger.missing_bytes), (None, None));
    }

    #[test]
    fn a_log_read_alone_gives_its_own_sums() {
        let ledger = advice(None).ledger.unwrap();
        let held = ledger.held_by.iter().fold(Bytes::ZERO, |sum, held| sum.plus(held.bytes));
        assert_eq!(held.plus(ledger.available_bytes.unwrap()), ledger.capacity_bytes.unwrap());
        assert!(!ledger.is_now);
        assert_eq!(ledger.device, None);
    }
}
