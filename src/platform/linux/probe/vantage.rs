//! Owns finding out where this program runs: in a container, in a job, in WSL2. Each of them hides something that the
//! driver or /proc would show, and a person should know that.

use std::path::Path;

use crate::gpu::Vantage;
use crate::platform::linux::procfs::Procfs;
use crate::platform::linux::procfs::machine::Environment;
use crate::platform::linux::procfs::place::Place;

/// What narrows the view, the most telling first. Does not change while a process lives. `etc`: the machine's settings.
pub(super) fn here(procfs: &Procfs, etc: &Path) -> Vec<Vantage> {
    let mut seen = Vec::new();
    if !procfs.in_initial_pid_namespace() {
        seen.push(if procfs.is_in_a_pod() { Vantage::Kubernetes } else { Vantage::Container });
    }
    let environment = procfs.own_environment();
    let job = slurm_job(procfs, &environment).or_else(|| job_of_another(&environment));
    seen.extend(job.or_else(|| slurm_login(etc)));
    if procfs.is_wsl() {
        seen.push(Vantage::Wsl);
    }
    seen
}

fn slurm_job(procfs: &Procfs, environment: &Environment) -> Option<Vantage> {
    if let Some(job) = environment.variable("SLURM_JOB_ID") {
        return Some(Vantage::SlurmJob(job));
    }
    match Place::parse(&procfs.own_cgroup()?) {
        Some(Place::Slurm(job)) => Some(Vantage::SlurmJob(job)),
        _ => None,
    }
}

/// A node of a Slurm cluster, outside any job.
fn slurm_login(etc: &Path) -> Option<Vantage> {
    ["slurm", "slurm-llnl"].iter().any(|folder| etc.join(folder).is_dir()).then_some(Vantage::SlurmLogin)
}

/// A job of another scheduler: each sets a variable of its own in it.
fn job_of_another(environment: &Environment) -> Option<Vantage> {
    const VARIABLES: [(&str, &str); 6] = [
        ("PBS_JOBID", "pbs"),
        ("LSB_JOBID", "lsf"),
        ("SGE_TASK_ID", "sge"),
        ("_CONDOR_SLOT", "condor"),
        ("FLUX_JOB_ID", "flux"),
        ("NOMAD_ALLOC_ID", "nomad"),
    ];
    let (_, name) = VARIABLES.iter().find(|(variable, _)| environment.variable(variable).is_some())?;
    Some(Vantage::Scheduler((*name).to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::here;
    use crate::gpu::Vantage;
    use crate::platform::linux::procfs::Procfs;

    fn seen(namespace: &str, environment: &str, kernel: &str, cgroup: &str) -> Vec<Vantage> {
        let root = tempfile::tempdir().unwrap();
        for folder in ["self/ns", "sys/kernel"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        symlink(namespace, root.path().join("self/ns/pid")).unwrap();
        fs::write(root.path().join("self/environ"), environment).unwrap();
        fs::write(root.path().join("self/cgroup"), cgroup).unwrap();
        fs::write(root.path().join("sys/kernel/osrelease"), kernel).unwrap();
        here(&Procfs::new(root.path()), &root.path().join("etc"))
    }

    #[test]
    fn a_plain_machine_has_nothing_to_say_and_each_odd_one_its_word() {
        const HOST: &str = "pid:[4026531836]";
        const INNER: &str = "pid:[4026532999]";
        let plain = "6.8.0-45-generic\n";
        assert_eq!(seen(HOST, "HOME=/root\0", plain, "0::/user.slice\n"), []);
        assert_eq!(seen(INNER, "", plain, ""), [Vantage::Container]);
        assert_eq!(seen(INNER, "KUBERNETES_SERVICE_HOST=10.0.0.1\0", plain, ""), [Vantage::Kubernetes]);
        assert_eq!(seen(HOST, "SLURM_JOB_ID=81234\0", plain, ""), [Vantage::SlurmJob("81234".into())]);
        assert_eq!(seen(HOST, "PBS_JOBID=77.head\0", plain, ""), [Vantage::Scheduler("pbs".into())]);
        let job = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n";
        assert_eq!(seen(HOST, "", plain, job), [Vantage::SlurmJob("77".into())]);
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("slurm")).unwrap();
        assert_eq!(here(&Procfs::default(), root.path()).last(), Some(&Vantage::SlurmLogin));
        assert_eq!(seen(HOST, "", "5.15.153.1-microsoft-standard-WSL2\n", ""), [Vantage::Wsl]);
    }
}
