//! Owns the step that requests another GPU, where a scheduler hands out the GPUs.

use super::planned::{PlannedFix, Step};
use crate::advice::case::Case;
use crate::advice::scheduler::scheduler;
use crate::knowledge::{Condition, Fix, FixId};

/// In the place of the fix that moves the run to another GPU: the request to whoever hands out the GPUs. `None` where
/// nobody does. Options: sbatch(1), sinfo(1), <https://slurm.schedmd.com/gres.html>; labels of a node: NVIDIA's GPU
/// feature discovery in NVIDIA/k8s-device-plugin:docs/gpu-feature-discovery/README.md; checked 2026-11-22.
pub(crate) fn request(fix: &Fix, case: &Case<'_>) -> Option<PlannedFix> {
    let is_for_this_memory = fix.memory.is_empty() || case.log.memory.is_none_or(|memory| fix.memory.contains(&memory));
    if !is_for_this_memory || !fix.when.contains(&Condition::OtherDeviceHasRoom) {
        return None;
    }
    let scheduler = scheduler(&case.situation, case.place.same_machine)?;
    let (name, request) = (scheduler.title(), scheduler.facts()?.requests_gpu.as_ref());
    let room =
        case.needed().map_or_else(|| "more memory than this one".to_owned(), |needed| format!("{needed} or more free"));
    let how = request.map_or("its manual has the option for a GPU's type or memory", |request| &request.how);
    Some(PlannedFix {
        title: format!("Request another GPU from {name}"),
        steps: vec![Step {
            action: format!("Ask {name} for a GPU with {room}: {how}"),
            command: request.map(|request| request.command.clone()),
            why: format!(
                "{name} hands out the GPUs: one that looks unused may be promised to another job, and only a new \
                 request makes it yours"
            ),
            expect: "The job starts on the GPU that it was given.".into(),
            if_not: format!("If it keeps waiting, {name} has no such GPU to give now, or you may not use it."),
            versions: request.map(|request| request.versions.clone()),
        }],
        ..PlannedFix::named(FixId::REQUEST_GPU, "waiting for it")
    })
}
