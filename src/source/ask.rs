//! Owns how a kind of places is asked what it has, and how the log of one is read. Values only.

use std::path::PathBuf;

use super::files::Pattern;
use super::{Kind, Source, Surroundings};

/// A command and its arguments; it runs without a shell.
pub type Argv = Vec<String>;

/// How places are found.
#[derive(Debug)]
pub enum Ask {
    /// This command prints them. Where the program is not installed, there are none.
    Command { kind: Kind, argv: Argv, parse: Parse },
    /// These files of one file system, newest first, at most so many of each.
    Files(Vec<Pattern>),
    /// They are left alone, for this reason.
    Not { kind: Kind, why: String },
}

/// Reads places out of what a command printed.
pub type Parse = fn(&Surroundings, &str) -> Result<Vec<Source>, String>;

pub(super) fn argv(parts: &[&str]) -> Argv {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

impl Ask {
    pub fn kind(&self) -> Kind {
        match self {
            Ask::Command { kind, .. } | Ask::Not { kind, .. } => *kind,
            Ask::Files(_) => Kind::File,
        }
    }
}

/// A part of a log.
#[derive(Clone, Debug)]
pub enum Way {
    /// What this command prints; with its standard error, where that is a part of the log.
    Command { argv: Argv, merges: bool },
    /// The same, left out if it fails.
    Optional(Argv),
    /// A file that the person named.
    File(PathBuf),
    /// A file that a program named: read only if it is the person's own.
    OwnFile(PathBuf),
    /// This text.
    Text(String),
    /// GNU screen writes it to a file: the session and the number of the window.
    Hardcopy { session: String, window: String },
    /// What this command prints says how to read it.
    Ask(Argv, Next),
    /// The same; if it fails, this file of the person's own.
    AskOr(Argv, Next, PathBuf),
}

/// Finds how to read a log, in what a command printed.
pub type Next = fn(&str) -> Result<Vec<Way>, String>;

/// What a person can do about a command that failed, from what it said.
pub fn why_silent(kind: Kind, said: &str) -> String {
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let said = said.to_lowercase();
    let is_refused = ["permission denied", "not permitted", "insufficient permissions", "access denied", "forbidden"];
    if is_refused.iter().any(|refused| said.contains(refused)) {
        return "not permitted".to_owned();
    }
    match kind {
        Kind::Docker | Kind::Podman if said.contains("cannot connect") || said.contains("failed to connect") => {
            "its daemon is not running".to_owned()
        }
        Kind::Unit | Kind::UserUnit | Kind::Kernel
            if said.contains("not been booted with systemd") || said.contains("failed to connect to bus") =>
        {
            "systemd is not running here".to_owned()
        }
        _ if line.is_empty() => "it failed without a message".to_owned(),
        _ => crate::text::harmless(line).chars().take(120).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_never_an_empty_list() {
        assert_eq!(why_silent(Kind::Docker, "Got permission denied while trying to connect"), "not permitted");
        assert_eq!(why_silent(Kind::Unit, "Failed to connect to bus: No medium found"), "systemd is not running here");
        assert_eq!(why_silent(Kind::Tmux, "\nlost server\n"), "lost server");
    }
}
