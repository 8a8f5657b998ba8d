//! Owns the step to another GPU: which one here was seen unused with room for the run, or, where a scheduler hands out
//! the GPUs, the new request to it.

use std::cmp::Reverse;

use super::{PlannedFix, Step, step_named};
use crate::advice::scheduler::Scheduler;
use crate::advice::{Ledger, Place, Situation};
use crate::gpu::Device;
use crate::gpu::unused::Unused;
use crate::knowledge::FixId;
use crate::knowledge::fix::{Condition, Fix};
use crate::units::Bytes;

/// The step that asks a scheduler for another GPU.

/// A device with room, as it was seen.
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

/// Another device here with room for what the run needed, the roomiest first: one on which nobody computes. Only where
/// the log is from here and nobody hands out the GPUs, and never for a run on several: one card is not theirs.
pub fn another_gpu<'a>(
    situation: &Situation<'a>,
    place: &Place<'_>,
    ledger: Option<&Ledger>,
) -> Option<(&'a Device, RoomOn)> {
    let needed = ledger?.needed_bytes.filter(|_| !situation.diagnosis.run.is_spread())?;
    // Of several that it may have been on, one with room now is as good as another.
    let is_known = place.device.is_some() || !place.candidates.is_empty();
    if place.same_machine != Some(true) || !is_known || Scheduler::of(situation, place.same_machine).is_some() {
        return None;
    }
    let (here, snapshot) = (place.device.map(|device| device.index), situation.snapshot?);
    let room = |device: &'a Device| {
        let free = device.memory.free_bytes.value().filter(|free| *free >= needed && Some(device.index) != here)?;
        let seen = Unused::of(snapshot, device, situation.history)?.to_string();
        Some((device, RoomOn { index: device.index, free, seen }))
    };
    snapshot.devices.iter().filter_map(room).max_by_key(|(_, room)| (room.free, Reverse(room.index)))
}

/// In the place of the fix that moves the run to another GPU: the request to whoever hands out the GPUs. `None` where
/// nobody does. Options: sbatch(1), sinfo(1), <https://slurm.schedmd.com/gres.html>; labels of a node: NVIDIA's GPU
/// feature discovery in NVIDIA/k8s-device-plugin:docs/gpu-feature-discovery/README.md; checked 2026-11-22.
pub fn request(fix: &Fix, situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>) -> Option<PlannedFix> {
    let ran_out = situation.diagnosis.memory;
    let is_for_it = fix.memory.is_empty() || ran_out.is_none_or(|memory| fix.memory.contains(&memory));
    if !is_for_it || !fix.when.contains(&Condition::OtherDeviceHasRoom) {
        return None;
    }
    let scheduler = Scheduler::of(situation, place.same_machine)?;
    let name = scheduler.name();
    let needed = ledger.and_then(|ledger| ledger.needed_bytes);
    let room = needed.map_or_else(|| "more memory than this one".to_owned(), |needed| format!("{needed} or more free"));
    let (how, command, versions) = match scheduler {
        Scheduler::Slurm => (
            "sinfo -o \"%N %G %f\" lists the nodes with their GPUs; put the type of one that is large enough in the \
             place of TYPE",
            Some("#SBATCH --gres=gpu:TYPE:1"),
            Some("in the place of the request you have (--gres, --gpus); salloc and srun take the same option"),
        ),
        Scheduler::Kubernetes => (
            "kubectl get nodes -L nvidia.com/gpu.product,nvidia.com/gpu.memory lists the nodes; put the product of one \
             that is large enough in the place of PRODUCT, in the pod's spec",
            Some("nodeSelector:\n  nvidia.com/gpu.product: PRODUCT"),
            Some("where NVIDIA's GPU feature discovery labels the nodes; the limit nvidia.com/gpu: 1 stays as it is"),
        ),
        Scheduler::Other(_) => ("its manual has the option for a GPU's type or memory", None, None),
    };
    Some(PlannedFix {
        title: format!("Request another GPU from {name}"),
        steps: vec![Step {
            action: format!("Ask {name} for a GPU with {room}: {how}"),
            command: command.map(str::to_owned),
            why: format!(
                "{name} hands out the GPUs: one that looks unused may be promised to another job, and only a new \
                 request makes it yours"
            ),
            expect: "The job starts on the GPU that it was given.".into(),
            if_not: format!("If it keeps waiting, {name} has no such GPU to give now, or you may not use it."),
            versions: versions.map(str::to_owned),
        }],
        ..step_named(FixId::REQUEST_GPU, "waiting for it")
    })
}
