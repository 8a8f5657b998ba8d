//! Owns what runs a process from outside: a container's engine, Kubernetes, Slurm, systemd. It may start again what is
//! ended alone, so its own command is the better one. Derived and described here, for a person to copy; nothing here
//! is sent.

use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::gpu::GpuProcess;
use crate::packed;

/// What runs a process from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervisor {
    kind: &'static Kind,
    /// The container, pod, job or unit as its commands take it.
    id: String,
}

/// A kind of supervisor: a row of `knowledge/advice/supervisors.ron`. `{id}` stands for the container, pod, job or unit.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// What stands before the id in a process's row.
    word: &'static str,
    id: Form,
    /// As people call it, and as short as a list has it, where that differs.
    title: &'static str,
    label: Option<&'static str>,
    /// What to do and what it means, in a sentence.
    action: &'static str,
    command: &'static str,
    /// The command only prints what another one needs.
    #[serde(default)]
    only_looks_up: bool,
    /// Another user's cannot be told from here.
    #[serde(default)]
    only_for_its_user: bool,
    costs: &'static str,
    /// What ending the process alone comes to, said before it is done.
    caution: &'static str,
}

/// The form of an id that may go into a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Form {
    Hex,
    Uid,
    Number,
    Name,
}

static KINDS: LazyLock<Vec<Kind>> =
    LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/supervisors.ron")));

/// A supervisor's own way to end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// What to do and what it means, in a sentence.
    pub action: String,
    pub command: String,
    /// What it costs in a few words.
    pub costs: &'static str,
}

impl Form {
    /// The id in this form, without what stands behind it; `None` where it has another.
    fn id_in(self, text: &str) -> Option<&str> {
        let id = match self {
            Form::Hex | Form::Uid => text.split('/').next().unwrap_or_default(),
            Form::Number | Form::Name => text,
        };
        (!id.is_empty() && !id.starts_with('-') && id.chars().all(|c| self.has(c))).then_some(id)
    }

    fn has(self, c: char) -> bool {
        match self {
            Form::Hex => c.is_ascii_hexdigit(),
            Form::Uid => c.is_ascii_hexdigit() || c == '-',
            Form::Number => c.is_ascii_digit() || c == '_',
            Form::Name => c.is_ascii_alphanumeric() || "._@:-\\".contains(c),
        }
    }
}

impl Supervisor {
    /// Whoever runs this process; `None` where nobody does, or where the name has no form that may go into a command.
    /// A container that systemd runs is systemd's: its engine's stop would be undone.
    pub fn of(row: &GpuProcess) -> Option<Supervisor> {
        [&row.managed_by, &row.container].into_iter().flatten().find_map(|word| Supervisor::of_word(word))
    }

    fn of_word(word: &str) -> Option<Supervisor> {
        let (word, id) = word.split_once(':')?;
        KINDS.iter().filter(|kind| kind.word == word).find_map(|kind| {
            let id = kind.id.id_in(id)?.to_owned();
            Some(Supervisor { kind, id })
        })
    }

    /// How it ends what it runs; `None` where that is another user's own systemd.
    pub fn stop(&self, own: bool) -> Option<Stop> {
        // systemd's own escapes hold a backslash.
        let quoted = if self.id.contains('\\') { format!("'{}'", self.id) } else { self.id.clone() };
        let command = self.kind.command.replace("{id}", &quoted);
        let stop = Stop { action: self.said(self.kind.action), command, costs: self.kind.costs };
        (own || !self.kind.only_for_its_user).then_some(stop)
    }

    /// The command that ends it for good, where that is one; a name may have to be looked up first.
    pub fn ends_by(&self, own: bool) -> Option<String> {
        if self.kind.only_looks_up { None } else { self.stop(own).map(|stop| stop.command) }
    }

    /// Where a process of it belongs, as short as a list has it: `ollama.service`, `Slurm job 81234`.
    pub fn label(&self) -> String {
        self.said(self.kind.label.unwrap_or(self.kind.title))
    }

    /// What ending the process alone comes to, said before it is done.
    pub fn caution(&self) -> String {
        self.said(self.kind.caution)
    }

    fn said(&self, text: &str) -> String {
        text.replace("{id}", &self.id)
    }
}

impl fmt::Display for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said(self.kind.title))
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
    fn a_malformed_name_goes_into_no_command() {
        let managers = ["slurm:$(reboot)", "service:a;b.service", "service:", "service:-a", "cron:x", "x"];
        for word in managers {
            assert_eq!(of(Some(word), None), None, "{word}");
        }
        for word in ["docker:a;reboot", "docker:", "lxc:dev", "kubernetes:-A", "kubernetes:$(x)/12"] {
            assert_eq!(of(None, Some(word)), None, "{word}");
        }
    }

    #[test]
    fn another_users_own_systemd_has_no_command_here() {
        let unit = of(Some("user-service:comfy.service"), None).unwrap();
        assert_eq!(unit.stop(false), None);
        assert!(of(Some("service:comfy.service"), None).unwrap().stop(false).is_some());
    }
}
