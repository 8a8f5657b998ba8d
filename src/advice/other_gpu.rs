//! Owns the question whether another GPU of this machine has room for the run and is seen unused, or has room beside those who use it.

use std::cmp::Reverse;

use super::input::Situation;
use super::ledger::Ledger;
use super::machine::place::{Place, has_free};
use super::naming::{amount, name_of};
use super::scheduler::scheduler;
use crate::gpu::sight::unexplained;
use crate::gpu::usage::{Unused, is_service};
use crate::gpu::{Device, GpuProcess, Nature};
use crate::units::Bytes;

/// A GPU with room, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomOn {
    pub index: u32,
    /// What is free there.
    pub free: Bytes,
    /// What was seen of it: "no processes, 0 % for 40 s", "vLLM (451) uses 20.0 GiB of it".
    pub seen: String,
    /// Whether processes use it that may need more.
    pub is_shared: bool,
}

impl RoomOn {
    pub fn said(&self) -> String {
        format!("GPU {} has {} free: {}.", self.index, self.free, self.seen)
    }
}

/// Another GPU that has room for what the run needed.
#[derive(Clone, Debug)]
pub struct OtherGpu<'a> {
    pub device: &'a Device,
    pub room: RoomOn,
}

/// The unused GPU with most free memory that has room for what the run needed, else one with room beside its processes.
/// Only where the log is from here and
/// nobody hands out the GPUs, and never for a run on several GPUs: one GPU cannot replace them.
pub(crate) fn find<'a>(situation: &Situation<'a>, place: &Place<'_>, ledger: Option<&Ledger>) -> Option<OtherGpu<'a>> {
    let needed = ledger?.needed_bytes?;
    // Of several GPUs that it may have been on, one with room now is as good as another.
    let is_known = place.device.is_some() || !place.candidates.is_empty();
    if !is_known
        || !place.is_here()
        || situation.diagnosis.run.is_spread()
        || scheduler(situation, place.same_machine).is_some()
    {
        return None;
    }
    let (failed, snapshot) = (place.device.map(|device| device.index), situation.snapshot?);
    let others = snapshot.devices.iter().filter(|device| Some(device.index) != failed && has_free(device, needed));
    let unused = others.clone().filter_map(|device| {
        let free = device.memory.free_bytes.value()?;
        let seen = Unused::of(snapshot, device, situation.history)?.to_string();
        Some(OtherGpu { device, room: RoomOn { index: device.index, free, seen, is_shared: false } })
    });
    let shared = others.filter_map(|device| {
        let free = device.memory.free_bytes.value()?;
        let seen = users_of(situation, device)?;
        Some(OtherGpu { device, room: RoomOn { index: device.index, free, seen, is_shared: true } })
    });
    // Beside others a lower bound of the need does not tell whether there is room.
    let is_whole_need = !ledger?.needed_is_at_least;
    most_free(unused).or_else(|| if is_whole_need { most_free(shared) } else { None })
}

fn most_free<'a>(others: impl Iterator<Item = OtherGpu<'a>>) -> Option<OtherGpu<'a>> {
    others.max_by_key(|other| (other.room.free, Reverse(other.room.index)))
}

/// Who uses a GPU on which the run has room, in words. `None` where another user's process is there, which the run would
/// slow down, or somebody whom the driver does not list.
fn users_of(situation: &Situation<'_>, device: &Device) -> Option<String> {
    let is_whole = device.error.is_none() && device.nature != Some(Nature::Split);
    let viewer = situation.viewer?;
    let mut jobs: Vec<&GpuProcess> = device.processes.iter().filter(|row| !is_service(row)).collect();
    if !is_whole || unexplained(device).is_some() || !jobs.iter().all(|row| viewer.owns(row)) {
        return None;
    }
    jobs.sort_by_key(|row| Reverse(row.used_bytes.value()));
    let (first, rest) = jobs.split_first()?;
    let others = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
    Some(format!("{} uses {} of it{others}", name_of(first), amount(first.used_bytes.value())))
}
