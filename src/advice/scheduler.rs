//! Owns the question who hands out the GPUs: where a scheduler does, another GPU is a new request to it, and none that
//! looks unused is anybody's to take.

use super::input::Situation;
use crate::gpu::{GpuProcess, Snapshot, Vantage};
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::program::{Program, Trait};

/// What hands out GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    Slurm,
    Kubernetes,
    /// Another one, by the name that people have for it.
    Other(&'static str),
}

impl Scheduler {
    /// Of the run's log, else of the machine that we look at, where the log may be from here.
    pub(crate) fn of(situation: &Situation<'_>, same_machine: Option<bool>) -> Option<Scheduler> {
        if let Some(scheduler) = of_log(situation.diagnosis) {
            return Some(scheduler);
        }
        if same_machine == Some(false) { None } else { of_machine(situation.snapshot?) }
    }

    /// The name that people have for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheduler::Slurm => "Slurm",
            Scheduler::Kubernetes => "Kubernetes",
            Scheduler::Other(name) => name,
        }
    }

    fn of_word(word: &str) -> Option<Scheduler> {
        match word {
            "slurm" => Some(Scheduler::Slurm),
            "kubernetes" => Some(Scheduler::Kubernetes),
            _ => {
                let program = Program::known(word).filter(|program| program.has(Trait::Scheduler))?;
                Some(Scheduler::Other(program.title()))
            }
        }
    }
}

fn of_log(diagnosis: &Diagnosis) -> Option<Scheduler> {
    let run = &diagnosis.run;
    if run.is_allocated() {
        return Some(Scheduler::Slurm);
    }
    let words = [run.manager(), diagnosis.raised_by.as_deref(), diagnosis.program.as_deref()];
    let by_variable = run.scheduler().and_then(Scheduler::of_word);
    by_variable.or_else(|| words.into_iter().flatten().find_map(Scheduler::of_word))
}

fn of_machine(here: &Snapshot) -> Option<Scheduler> {
    let seen = here.seen_from.iter().find_map(|vantage| match vantage {
        Vantage::SlurmJob(_) | Vantage::SlurmLogin => Some(Scheduler::Slurm),
        Vantage::Kubernetes => Some(Scheduler::Kubernetes),
        Vantage::Scheduler(word) => Scheduler::of_word(word),
        Vantage::Container | Vantage::Wsl | Vantage::Windows | Vantage::Macos | Vantage::Other(_) => None,
    });
    // On a node where we are no job ourselves, the processes on its GPUs show the scheduler.
    seen.or_else(|| here.everybody().find_map(of_process))
}

fn of_process(row: &GpuProcess) -> Option<Scheduler> {
    let owners = [&row.managed_by, &row.container].into_iter().flatten();
    match owners.filter_map(|owner| owner.split(':').next()).next()? {
        word @ ("slurm" | "kubernetes") => Scheduler::of_word(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::gpu::testing::{device, process, snapshot};
    use crate::units::Bytes;

    fn of(diagnosis: &Diagnosis, here: &Snapshot, same_machine: Option<bool>) -> Option<Scheduler> {
        Scheduler::of(&Situation { snapshot: Some(here), ..Situation::alone(diagnosis) }, same_machine)
    }

    #[test]
    fn a_scheduler_is_known_by_its_job_its_node_or_its_variables() {
        let plain = torch_oom(&[]);
        assert_eq!(of(&plain, &snapshot(0), Some(true)), None);
        for (vantage, scheduler) in [
            (Vantage::SlurmJob("7".into()), Scheduler::Slurm),
            (Vantage::SlurmLogin, Scheduler::Slurm),
            (Vantage::Kubernetes, Scheduler::Kubernetes),
            (Vantage::Scheduler("pbs".into()), Scheduler::Other("PBS")),
        ] {
            let here = Snapshot { seen_from: vec![vantage], ..snapshot(0) };
            assert_eq!(of(&plain, &here, Some(true)), Some(scheduler));
            assert_eq!(of(&plain, &here, Some(false)), None, "the log is from elsewhere");
        }
        let mut row = process(7, Bytes::gib(1));
        row.managed_by = Some("slurm:81234".into());
        let mut here = Snapshot { devices: vec![device(0, vec![row.clone()])], ..snapshot(0) };
        assert_eq!(of(&plain, &here, Some(true)), Some(Scheduler::Slurm), "another's job runs here");
        (row.managed_by, row.container) = (None, Some("kubernetes:5a/0123".into()));
        here.devices = vec![device(0, vec![row.clone()])];
        assert_eq!(of(&plain, &here, Some(true)), Some(Scheduler::Kubernetes));
        (row.managed_by, row.container) = (Some("service:ollama.service".into()), Some("docker:0123".into()));
        here.devices = vec![device(0, vec![row])];
        assert_eq!(of(&plain, &here, Some(true)), None, "neither hands out GPUs");
        let mut job = torch_oom(&[]);
        job.run.printed.insert("lsb_jobid".into(), "77".into());
        assert_eq!(of(&job, &snapshot(0), Some(false)), Some(Scheduler::Other("LSF")));
    }
}
