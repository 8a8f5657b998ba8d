//! Owns how each kind of places is asked what it has: one command with a parser of what it prints, or folders to look into.

pub use super::files::Pattern;
use super::{Kind, Source, Surroundings, containers, files, panes, slurm, systemd};

/// A command and its arguments; it runs without a shell.
pub type Argv = Vec<String>;

/// How places are found.
#[derive(Debug)]
pub enum Ask {
    /// This command prints them. Where the program is not installed, there are none.
    Command { kind: Kind, argv: Argv, parse: Parse },
    /// These files, newest first, at most so many of each.
    Files(Vec<Pattern>),
    /// They are left alone, for this reason.
    Not { kind: Kind, why: String },
}

/// Reads places out of what a command printed.
pub type Parse = fn(&Surroundings, &str) -> Vec<Source>;

pub(super) fn argv(parts: &[&str]) -> Argv {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// What to ask. Without kinds, only what is on this machine; else these kinds.
pub fn asks(at: &Surroundings, kinds: &[Kind]) -> Vec<Ask> {
    let is_wanted = |kind: Kind| if kinds.is_empty() { !kind.is_beyond_this_machine() } else { kinds.contains(&kind) };
    let all =
        panes::asks(at).into_iter().chain(containers::asks(at, kinds)).chain(slurm::asks()).chain(systemd::asks());
    let mut asks: Vec<Ask> = all.filter(|ask| is_wanted(ask.kind())).collect();
    if is_wanted(Kind::File) {
        asks.push(Ask::Files(files::patterns(at)));
    }
    asks
}

impl Ask {
    pub fn kind(&self) -> Kind {
        match self {
            Ask::Command { kind, .. } | Ask::Not { kind, .. } => *kind,
            Ask::Files(_) => Kind::File,
        }
    }
}

/// What a person can do about a command that failed, from what it said.
pub fn why_silent(kind: Kind, said: &str) -> String {
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let said = said.to_lowercase();
    let is_refused = ["permission denied", "not permitted", "insufficient permissions", "access denied"];
    if is_refused.iter().any(|refused| said.contains(refused)) {
        return "not permitted".to_owned();
    }
    match kind {
        Kind::Docker | Kind::Podman if said.contains("cannot connect") || said.contains("failed to connect") => {
            "its daemon does not run".to_owned()
        }
        Kind::Unit | Kind::UserUnit | Kind::Kernel
            if said.contains("not been booted with systemd") || said.contains("failed to connect to bus") =>
        {
            "systemd does not run here".to_owned()
        }
        _ if line.is_empty() => "it failed without a word".to_owned(),
        _ => crate::text::harmless(line).chars().take(120).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beyond_this_machine_is_asked_unless_it_is_named() {
        let at = Surroundings { uid: Some(1000), ..Surroundings::default() };
        let bare: Vec<Kind> = asks(&at, &[]).iter().map(Ask::kind).collect();
        assert!(bare.contains(&Kind::File) && bare.iter().all(|kind| !kind.is_beyond_this_machine()), "{bare:?}");
        for kind in [Kind::Slurm, Kind::Pod] {
            let named: Vec<Kind> = asks(&at, &[kind]).iter().map(Ask::kind).collect();
            assert_eq!(named, [kind]);
        }
    }

    #[test]
    fn docker_on_another_machine_is_left_alone_unless_it_is_named() {
        for variable in
            [("DOCKER_HOST", "ssh://ada@gpu1"), ("DOCKER_HOST", "tcp://10.0.0.7:2375"), ("DOCKER_CONTEXT", "gpu1")]
        {
            let at = Surroundings { variables: vec![(variable.0, variable.1.to_owned())], ..Surroundings::default() };
            let of_docker = |kinds: &[Kind]| asks(&at, kinds).into_iter().find(|ask| ask.kind() == Kind::Docker);
            assert!(matches!(of_docker(&[]), Some(Ask::Not { .. })), "{variable:?}");
            assert!(matches!(of_docker(&[Kind::Docker]), Some(Ask::Command { .. })), "{variable:?}");
        }
        let at = Surroundings {
            variables: vec![("DOCKER_HOST", "unix:///run/user/1000/docker.sock".to_owned())],
            docker_context: Some("default".to_owned()),
            ..Surroundings::default()
        };
        assert!(asks(&at, &[]).iter().any(|ask| matches!(ask, Ask::Command { kind: Kind::Docker, .. })));
    }

    #[test]
    fn a_refusal_is_never_an_empty_list() {
        assert_eq!(why_silent(Kind::Docker, "Got permission denied while trying to connect"), "not permitted");
        assert_eq!(why_silent(Kind::Unit, "Failed to connect to bus: No medium found"), "systemd does not run here");
        assert_eq!(why_silent(Kind::Tmux, "\nlost server\n"), "lost server");
    }
}
