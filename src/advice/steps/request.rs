//! Owns the step that requests another GPU, where a scheduler hands out the GPUs.

use super::planned::{PlannedFix, Step};
use crate::advice::case::Case;
use crate::advice::scheduler::Scheduler;
use crate::knowledge::FixId;
use crate::knowledge::fix::{Condition, Fix};

/// In the place of the fix that moves the run to another GPU: the request to whoever hands out the GPUs. `None` where
/// nobody does. Options: sbatch(1), sinfo(1), <https://slurm.schedmd.com/gres.html>; labels of a node: NVIDIA's GPU
/// feature discovery in NVIDIA/k8s-device-plugin:docs/gpu-feature-discovery/README.md; checked 2026-11-22.
pub(crate) fn request(fix: &Fix, case: &Case<'_>) -> Option<PlannedFix> {
    let is_for_this_memory = fix.memory.is_empty() || case.log.memory.is_none_or(|memory| fix.memory.contains(&memory));
    if !is_for_this_memory || !fix.when.contains(&Condition::OtherDeviceHasRoom) {
        return None;
    }
    let scheduler = Scheduler::of(&case.situation, case.place.same_machine)?;
    let name = scheduler.name();
    let room =
        case.needed().map_or_else(|| "more memory than this one".to_owned(), |needed| format!("{needed} or more free"));
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
        ..PlannedFix::named(FixId::REQUEST_GPU, "waiting for it")
    })
}
