//! Owns the question whether another GPU of this machine has room for the run and is seen unused.

use std::cmp::Reverse;

use super::input::Situation;
use super::ledger::Ledger;
use super::machine::place::{Place, has_free};
use super::scheduler::scheduler;
use crate::gpu::Device;
use crate::gpu::usage::Unused;
use crate::units::Bytes;

/// A GPU with room, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomOn {
    pub index: u32,
    /// What is free there.
    pub free: Bytes,
    /// What was seen of it: "no processes, 0 % for 40 s".
    pub seen: String,
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

/// The unused GPU with most free memory that has room for what the run needed. Only where the log is from here and
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
    let unused = others.filter_map(|device| {
        let free = device.memory.free_bytes.value()?;
        let seen = Unused::of(snapshot, device, situation.history)?.to_string();
        Some(OtherGpu { device, room: RoomOn { index: device.index, free, seen } })
    });
    unused.max_by_key(|other| (other.room.free, Reverse(other.room.index)))
}
