//! Owns which of several equal GPUs the log means. A run counts the GPUs that it may see from 0, so that a number
//! alone ties a log to none of them: a process, an address, a UUID, or the visible devices do.

use super::USE_PERCENT;
use super::place::{Fate, Named};
use crate::advice::input::{Situation, has_uuid};
use crate::gpu::{Device, Nature, Vantage, Vendor};

/// What a driver says of the capacity of two GPUs of one kind differs by less.
const ALIKE_PERCENT: u64 = 3;

/// The GPU among those that fit, or those that it may be where nothing ties the log to one of them.
pub(crate) fn which<'a>(
    situation: &Situation<'_>,
    fitting: &[&'a Device],
    named: &[Named<'a>],
) -> (Option<&'a Device>, Vec<&'a Device>) {
    // Each kind of tie leaves fewer cards. One that fits none of those left says nothing about them.
    let mut left = fitting.to_vec();
    let ties = [
        had_the_run(situation, &left),
        holds_named(named, &left),
        on_its_bus(situation, &left),
        of_its_number(situation, &left),
    ];
    for tied in ties {
        let both: Vec<&Device> = left.iter().filter(|device| is_among(device, &tied)).copied().collect();
        if !both.is_empty() {
            left = both;
        }
    }
    let earlier =
        left.iter().find(|device| situation.before.is_some_and(|before| before.located == Some(device.index)));
    match (by_uuid(situation, fitting), left.as_slice()) {
        (Uuid::Of(device), _) => (Some(device), Vec::new()),
        (_, [device]) => (Some(device), Vec::new()),
        // What tied it to this one may have ended since, perhaps by our own doing.
        _ if earlier.is_some() => (earlier.copied(), Vec::new()),
        (Uuid::OfNone, _) => (None, Vec::new()),
        (Uuid::NotGiven, _) => (None, left),
    }
}

/// The GPU whose UUID the visible devices name for the one that failed.
pub(crate) fn of_its_uuid<'a>(situation: &Situation<'_>, devices: &[&'a Device]) -> Option<&'a Device> {
    match by_uuid(situation, devices) {
        Uuid::Of(device) => Some(device),
        Uuid::OfNone | Uuid::NotGiven => None,
    }
}

/// What the visible devices say by a UUID.
enum Uuid<'a> {
    Of(&'a Device),
    /// No card here has it.
    OfNone,
    /// They name no card by its UUID, or none was printed.
    NotGiven,
}

fn by_uuid<'a>(situation: &Situation<'_>, devices: &[&'a Device]) -> Uuid<'a> {
    // The UUIDs of ROCm are not read.
    if devices.iter().all(|device| device.uuid.known().is_none()) {
        return Uuid::NotGiven;
    }
    let entry = situation.visible_entry().filter(|entry| entry.starts_with("GPU-") || entry.starts_with("MIG-"));
    let Some(entry) = entry else { return Uuid::NotGiven };
    devices.iter().find(|device| has_uuid(device, entry)).map_or(Uuid::OfNone, |device| Uuid::Of(device))
}

fn is_among(device: &Device, others: &[&Device]) -> bool {
    others.iter().any(|other| other.index == device.index)
}

/// The devices on which the failed run had memory, where it could still be asked.
fn had_the_run<'a>(situation: &Situation<'_>, devices: &[&'a Device]) -> Vec<&'a Device> {
    devices.iter().filter(|device| situation.ran_on.contains(&device.index)).copied().collect()
}

/// The GPUs on which a process runs that the log names.
fn holds_named<'a>(named: &[Named<'a>], devices: &[&'a Device]) -> Vec<&'a Device> {
    devices.iter().copied().filter(|device| named.iter().any(|named| lives_on(named, device))).collect()
}

/// Whether the named process is on the GPU; of one on several GPUs, whether it uses about as much there as on the GPU where
/// it was found.
fn lives_on(named: &Named<'_>, device: &Device) -> bool {
    let Fate::Alive(found, _) = named.fate else { return false };
    device.processes.iter().filter(|row| row.pid == found.pid).any(|row| {
        row == found || row.used_bytes.value().is_some_and(|uses| uses.within_percent(named.bytes, USE_PERCENT))
    })
}

/// The GPU at the PCI address that the log prints.
fn on_its_bus<'a>(situation: &Situation<'_>, devices: &[&'a Device]) -> Vec<&'a Device> {
    let Some(printed) = situation.diagnosis.run.printed.get("pci_bus_id").map(|bus| bus.to_lowercase()) else {
        return Vec::new();
    };
    let mut there = devices.to_vec();
    there.retain(|device| device.bus_id.known().is_some_and(|bus| bus.to_lowercase().ends_with(&printed)));
    there
}

/// The GPU of the log's number, where that number can only mean one here.
fn of_its_number<'a>(situation: &Situation<'_>, devices: &[&'a Device]) -> Vec<&'a Device> {
    if !is_in_the_drivers_order(situation) || !(names_its_cards(situation) || sees_all(situation)) {
        return Vec::new();
    }
    let Some(number) = situation.device_number() else { return Vec::new() };
    devices.iter().filter(|device| device.number() == Some(number)).copied().collect()
}

/// Whether CUDA counts this machine's cards as the driver does. Its own order begins with the fastest card, and keeps
/// the order of the bus only among equal ones (<https://github.com/microsoft/onnxruntime/pull/28066>, checked 2026-11-22).
/// ROCm has one order, which its kernel driver tells. A job in an instance (MIG) is told of a GPU 0, whichever instance it is.
fn is_in_the_drivers_order(situation: &Situation<'_>) -> bool {
    let devices = situation.snapshot.map(|here| here.devices.as_slice()).unwrap_or_default();
    let is_of_rocm = devices.iter().all(|device| device.vendor == Vendor::Amd);
    devices.iter().all(is_whole) && (is_of_rocm || is_told_the_order_of_the_bus(situation) || are_all_alike(devices))
}

/// Whether it is a whole GPU that can be read.
fn is_whole(device: &Device) -> bool {
    device.error.is_none() && !matches!(device.nature, Some(Nature::Split | Nature::MigInstance))
}

fn are_all_alike(devices: &[Device]) -> bool {
    let Some(first) = devices.first() else { return false };
    devices.iter().all(|device| {
        let capacities = device.memory.total_bytes.value().zip(first.memory.total_bytes.value());
        device.name.known() == first.name.known()
            && capacities.is_some_and(|(one, other)| one.within_percent(other, ALIKE_PERCENT))
    })
}

fn is_told_the_order_of_the_bus(situation: &Situation<'_>) -> bool {
    let run = &situation.diagnosis.run;
    let lines = [situation.command, run.command.as_deref()];
    run.printed.get("cuda_device_order").is_some_and(|order| order == "PCI_BUS_ID")
        || lines.into_iter().flatten().any(is_in_bus_order)
}

/// Whether the visible devices name cards of this machine. In a container, and in a job of Slurm that may open only its
/// own cards, they are counted among those that were given to it, unless we look from inside, too.
fn names_its_cards(situation: &Situation<'_>) -> bool {
    let run = &situation.diagnosis.run;
    let is_confined = run.container.is_some() || run.pod.is_some() || run.is_allocated();
    let is_inside = situation.snapshot.is_some_and(|here| here.seen_from.iter().any(is_inside_a_job));
    situation.visible_devices().is_some() && (!is_confined || is_inside)
}

fn is_inside_a_job(vantage: &Vantage) -> bool {
    matches!(vantage, Vantage::Container | Vantage::Kubernetes | Vantage::SlurmJob(_) | Vantage::Scheduler(_))
}

/// Whether the run saw as many GPUs as there are here: then none was hidden from it, and its numbers are the machine's.
fn sees_all(situation: &Situation<'_>) -> bool {
    let (diagnosis, Some(here)) = (situation.diagnosis, situation.snapshot) else { return false };
    let run = &diagnosis.run;
    let printed = run.ranks.iter().map(|rank| rank.device).chain([diagnosis.facts.device]).flatten();
    let by_number = printed.map(|number| u64::from(number) + 1);
    let by_count = [run.devices, run.tensor_parallel, run.launched_ranks()].into_iter().flatten();
    let by_list = situation.visible_devices().map(|list| list.split(',').count() as u64);
    by_number.chain(by_count).chain(by_list).max().is_some_and(|seen| seen >= here.devices.len() as u64)
}

fn is_in_bus_order(line: &str) -> bool {
    ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"].iter().any(|order| line.contains(order))
}
