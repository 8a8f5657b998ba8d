//! Owns what runs a process from outside: a container's engine, Kubernetes, Slurm, systemd. It may start again what is
//! ended alone, so its own command is the gentle way. Derived and described here, for a person to copy; nothing here
//! is sent. The commands were looked up in their manuals on 2026-11-21: scancel(1), systemctl(1) and Restart= of
//! systemd.service(5), kubectl scale and get.

use std::fmt;

use crate::gpu::GpuProcess;

/// What runs a process from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supervisor {
    Container {
        /// Its command: `docker` or `podman`.
        engine: &'static str,
        id: String,
    },
    /// Kubernetes; the pod's UID.
    Pod(String),
    /// Slurm; the job's number, also of one task of an array (`70_4`).
    Job(String),
    /// Slurm; a name of the job that `scancel` is not known to take (a SLUID).
    NamelessJob(String),
    /// A service of systemd.
    Unit {
        /// As its commands take it.
        name: String,
        /// Of the user's own systemd.
        user: bool,
    },
}

/// A supervisor's own way to end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// What to do and what it means, in a sentence.
    pub action: String,
    pub command: String,
    /// What it costs in a few words.
    pub costs: &'static str,
}

impl Supervisor {
    /// Whoever runs this process; `None` where nobody does, or where the name has no form that may go into a command.
    /// A container that systemd runs is systemd's: its engine's stop would be undone.
    pub fn of(row: &GpuProcess) -> Option<Supervisor> {
        let manager = row.managed_by.as_deref().and_then(manager);
        manager.or_else(|| row.container.as_deref().and_then(container))
    }

    /// How it ends what it runs; `None` where that is another user's own systemd.
    pub fn stop(&self, own: bool) -> Option<Stop> {
        let (action, command, costs) = match self {
            Supervisor::Container { engine, id } => (
                "Stop its container: it may start what is ended alone again".to_owned(),
                format!("{engine} stop {id}"),
                "all of the container",
            ),
            Supervisor::Pod(uid) => (
                "Kubernetes starts it again, so its deployment must be scaled down: the command prints its namespace \
                 and the pod's name, which is the deployment's NAME and two more parts; then run: kubectl scale \
                 deployment NAME -n NAMESPACE --replicas=0"
                    .to_owned(),
                format!(
                    "kubectl get pods -A -o custom-columns=NS:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid | grep {uid}"
                ),
                "all of the deployment's pods",
            ),
            Supervisor::Job(job) => (
                format!("Cancel its Slurm job: that ends the whole job {job}, all of its steps"),
                format!("scancel {job}"),
                "the whole job",
            ),
            Supervisor::NamelessJob(job) => (
                "Cancel its Slurm job, which ends all of its steps: the command prints the JobId; then run: scancel \
                 JOBID"
                    .to_owned(),
                format!("scontrol show job {job}"),
                "the whole job",
            ),
            Supervisor::Unit { name, user } => {
                let systemctl = match (user, own) {
                    (false, _) => "sudo systemctl",
                    (true, true) => "systemctl --user",
                    (true, false) => return None,
                };
                // systemd's own escapes hold a backslash.
                let quoted = if name.contains('\\') { format!("'{name}'") } else { name.clone() };
                (
                    format!(
                        "Stop its unit: all of {name} ends, and stays stopped until `{systemctl} start` or the next boot"
                    ),
                    format!("{systemctl} stop {quoted}"),
                    "stopped until started",
                )
            }
        };
        Some(Stop { action, command, costs })
    }

    /// The command that ends it for good, where that is one; a name may have to be looked up first.
    pub fn ends_by(&self, own: bool) -> Option<String> {
        match self {
            Supervisor::Pod(_) | Supervisor::NamelessJob(_) => None,
            Supervisor::Container { .. } | Supervisor::Job(_) | Supervisor::Unit { .. } => {
                self.stop(own).map(|stop| stop.command)
            }
        }
    }

    /// Where a process of it belongs, as short as a list has it: `ollama.service`, `Slurm job 81234`.
    pub fn label(&self) -> String {
        match self {
            Supervisor::Unit { name, .. } => name.clone(),
            other => other.to_string(),
        }
    }

    /// What ending the process alone comes to, said before it is done.
    pub fn caution(&self) -> String {
        match self {
            Supervisor::Container { engine, .. } => {
                format!("{} may start it again (restart policy): stop its container instead.", title(engine))
            }
            Supervisor::Pod(_) => "Kubernetes starts it again: scale its deployment down instead.".into(),
            Supervisor::Job(_) | Supervisor::NamelessJob(_) => format!("This ends one process of {self}, not the job."),
            Supervisor::Unit { name, .. } => format!("systemd ({name}) may start it again: stop the unit instead."),
        }
    }
}

impl fmt::Display for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Supervisor::Container { engine, .. } => f.write_str(title(engine)),
            Supervisor::Pod(_) => f.write_str("Kubernetes"),
            Supervisor::Job(job) | Supervisor::NamelessJob(job) => write!(f, "Slurm job {job}"),
            Supervisor::Unit { name, .. } => write!(f, "systemd ({name})"),
        }
    }
}

fn title(engine: &str) -> &'static str {
    if engine == "podman" { "Podman" } else { "Docker" }
}

fn manager(word: &str) -> Option<Supervisor> {
    let (kind, name) = word.split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._@:-\\".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
        return None;
    }
    let name = name.to_owned();
    match kind {
        "slurm" if name.chars().all(|c| c.is_ascii_digit() || c == '_') => Some(Supervisor::Job(name)),
        "slurm" => Some(Supervisor::NamelessJob(name)),
        "service" => Some(Supervisor::Unit { name, user: false }),
        "user-service" => Some(Supervisor::Unit { name, user: true }),
        _ => None,
    }
}

fn container(word: &str) -> Option<Supervisor> {
    let (kind, id) = word.split_once(':')?;
    let id = id.split('/').next().unwrap_or_default();
    let plain = |dashes: bool| !id.is_empty() && id.chars().all(|c| c.is_ascii_hexdigit() || dashes && c == '-');
    match kind {
        "docker" if plain(false) => Some(Supervisor::Container { engine: "docker", id: id.to_owned() }),
        "podman" if plain(false) => Some(Supervisor::Container { engine: "podman", id: id.to_owned() }),
        "kubernetes" if plain(true) && !id.starts_with('-') => Some(Supervisor::Pod(id.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Supervisor;
    use crate::gpu::testing::process;
    use crate::units::Bytes;

    fn of(managed_by: Option<&str>, container: Option<&str>) -> Option<Supervisor> {
        let mut row = process(7, Bytes::gib(1));
        (row.managed_by, row.container) = (managed_by.map(str::to_owned), container.map(str::to_owned));
        Supervisor::of(&row)
    }

    fn command(managed_by: Option<&str>, container: Option<&str>) -> Option<String> {
        Some(of(managed_by, container)?.stop(true)?.command)
    }

    #[test]
    fn each_supervisor_has_its_own_command() {
        let pod = "b1946ac9-2492-4d23-9c6c-0d2b6f1c3a55";
        let pods = format!(
            "kubectl get pods -A -o custom-columns=NS:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid | grep {pod}"
        );
        let in_pod = format!("kubernetes:{pod}/0123456789ab");
        let cases = [
            (Some("slurm:81234"), None, "scancel 81234"),
            (Some("slurm:70_4"), None, "scancel 70_4"),
            (Some("slurm:sEKNKTV3WPV500"), None, "scontrol show job sEKNKTV3WPV500"),
            (Some("service:ollama.service"), None, "sudo systemctl stop ollama.service"),
            (Some("user-service:comfy@a.service"), None, "systemctl --user stop comfy@a.service"),
            (Some("user-service:lms\\x2dd.service"), None, "systemctl --user stop 'lms\\x2dd.service'"),
            (None, Some("docker:0123456789ab"), "docker stop 0123456789ab"),
            (None, Some("podman:0123456789ab"), "podman stop 0123456789ab"),
            (Some("service:o.service"), Some("podman:0123456789ab"), "sudo systemctl stop o.service"),
            (None, Some(in_pod.as_str()), pods.as_str()),
        ];
        for (managed_by, container, expected) in cases {
            assert_eq!(command(managed_by, container).as_deref(), Some(expected), "{managed_by:?} {container:?}");
        }
    }

    #[test]
    fn a_name_that_is_none_goes_into_no_command() {
        let managers = ["slurm:$(reboot)", "service:a;b.service", "service:", "service:-a", "cron:x", "x"];
        for word in managers {
            assert_eq!(of(Some(word), None), None, "{word}");
        }
        for word in ["docker:a;reboot", "docker:", "lxc:dev", "kubernetes:-A", "kubernetes:$(x)/12"] {
            assert_eq!(of(None, Some(word)), None, "{word}");
        }
    }

    #[test]
    fn another_users_own_systemd_can_not_be_told_from_here() {
        let unit = of(Some("user-service:comfy.service"), None).unwrap();
        assert_eq!(unit.stop(false), None);
        assert!(of(Some("service:comfy.service"), None).unwrap().stop(false).is_some());
    }
}
