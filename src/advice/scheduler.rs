//! Owns the question who hands out the GPUs: where a scheduler does, another GPU is a new request to it, and none that
//! looks unused is anybody's to take.

use super::input::Situation;
use crate::gpu::{GpuProcess, Snapshot, Vantage};
use crate::knowledge::{Diagnosis, Program, Trait};

/// The scheduler of the run's log, else of the machine that we look at, where the log may be from here.
pub(crate) fn scheduler(situation: &Situation<'_>, same_machine: Option<bool>) -> Option<Program> {
    if let Some(scheduler) = of_log(situation.diagnosis) {
        return Some(scheduler);
    }
    if same_machine == Some(false) { None } else { of_machine(situation.snapshot?) }
}

fn of_word(word: &str) -> Option<Program> {
    Program::known(word).filter(|program| program.has(Trait::Scheduler))
}

pub(crate) fn of_log(diagnosis: &Diagnosis) -> Option<Program> {
    let run = &diagnosis.run;
    if run.is_allocated() {
        return Some(Program::SLURM);
    }
    if run.pod.is_some() {
        return Some(Program::KUBERNETES);
    }
    let words = [
        run.scheduler(),
        run.group_limit().map(|limit| limit.id.as_str()),
        diagnosis.raised_by.as_deref(),
        diagnosis.program.as_deref(),
    ];
    words.into_iter().flatten().find_map(of_word)
}

fn of_machine(here: &Snapshot) -> Option<Program> {
    let seen = here.seen_from.iter().find_map(|vantage| match vantage {
        Vantage::SlurmJob(_) | Vantage::SlurmLogin => Some(Program::SLURM),
        Vantage::Kubernetes => Some(Program::KUBERNETES),
        Vantage::Scheduler(word) => of_word(word),
        Vantage::Container | Vantage::Wsl | Vantage::Windows | Vantage::Macos | Vantage::Other(_) => None,
    });
    // On a node where we are no job ourselves, the processes on its GPUs show the scheduler.
    seen.or_else(|| here.everybody().find_map(of_process))
}

fn of_process(row: &GpuProcess) -> Option<Program> {
    let owner = row.managed_by.as_ref().or(row.container.as_ref())?;
    of_word(owner.split(':').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::units::Bytes;

    fn of(diagnosis: &Diagnosis, here: &Snapshot, same_machine: Option<bool>) -> Option<&'static str> {
        let situation = Situation { snapshot: Some(here), ..Situation::alone(diagnosis) };
        scheduler(&situation, same_machine).map(Program::title)
    }

    #[test]
    fn a_scheduler_is_known_by_its_job_its_node_or_its_variables() {
        let plain = torch_oom(&[]);
        assert_eq!(of(&plain, &snapshot(0), Some(true)), None);
        for (vantage, scheduler) in [
            (Vantage::SlurmJob("7".into()), "Slurm"),
            (Vantage::SlurmLogin, "Slurm"),
            (Vantage::Kubernetes, "Kubernetes"),
            (Vantage::Scheduler("pbs".into()), "PBS"),
        ] {
            let here = Snapshot { seen_from: vec![vantage], ..snapshot(0) };
            assert_eq!(of(&plain, &here, Some(true)), Some(scheduler));
            assert_eq!(of(&plain, &here, Some(false)), None, "the log is from elsewhere");
        }
        let mut row = process(7, Bytes::gib(1));
        row.managed_by = Some("slurm:81234".into());
        let mut here = Snapshot { devices: vec![device(0, vec![row.clone()])], ..snapshot(0) };
        assert_eq!(of(&plain, &here, Some(true)), Some("Slurm"), "another's job runs here");
        (row.managed_by, row.container) = (None, Some("kubernetes:5a/0123".into()));
        here.devices = vec![device(0, vec![row.clone()])];
        assert_eq!(of(&plain, &here, Some(true)), Some("Kubernetes"));
        (row.managed_by, row.container) = (Some("service:ollama.service".into()), Some("docker:0123".into()));
        here.devices = vec![device(0, vec![row])];
        assert_eq!(of(&plain, &here, Some(true)), None, "neither hands out GPUs");
        let mut job = torch_oom(&[]);
        job.run.printed.insert("lsb_jobid".into(), "77".into());
        assert_eq!(of(&job, &snapshot(0), Some(false)), Some("LSF"));
    }
}
