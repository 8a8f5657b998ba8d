//! Owns how the log of each place is read: the commands and files whose text together is the log.

use std::path::PathBuf;

use super::ask::{Argv, argv};
use super::{Kind, SourceId, Surroundings, containers, panes, slurm, systemd};

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

/// How this place is read. Fails if its name can't be one.
pub fn ways(at: &Surroundings, id: &SourceId) -> Result<Vec<Way>, String> {
    let name = id.name.as_str();
    if name.is_empty() && id.kind != Kind::Kernel {
        return Err(format!("name one of them: {}:NAME; `oomdoctor sources {}` lists them", id.kind, id.kind));
    }
    match id.kind {
        Kind::Tmux => {
            let mut capture = panes::tmux(at);
            // -J joins lines that were wrapped, -S - begins with the first line that is kept.
            capture.extend(argv(&["capture-pane", "-p", "-J", "-S", "-", "-t", name]));
            Ok(vec![Way::Command { argv: capture, merges: false }])
        }
        Kind::Screen => match name.rsplit_once('/') {
            Some((session, window)) => Ok(vec![Way::Hardcopy { session: session.into(), window: window.into() }]),
            None => Err("give the window, too: screen:SESSION/NUMBER".to_owned()),
        },
        Kind::Docker | Kind::Podman => Ok(containers::way(id.kind, name)),
        Kind::Pod => containers::way_to_pod(name),
        Kind::Slurm => slurm::way(at, name),
        Kind::Unit | Kind::UserUnit => Ok(systemd::way_to_unit(id.kind, name)),
        Kind::Kernel => Ok(systemd::way_to_kernel()),
        Kind::File => Ok(vec![Way::File(PathBuf::from(name))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_argument_and_never_an_option() {
        let at = Surroundings { uid: Some(1000), ..Surroundings::default() };
        for (text, wanted) in [("tmux:%3", "%3"), ("docker:a b;c", "a b;c"), ("unit:x y.service", "x y.service")] {
            let ways = ways(&at, &text.parse().unwrap()).unwrap();
            let Some(Way::Command { argv, .. }) = ways.last() else { panic!("{ways:?}") };
            assert!(argv.iter().any(|argument| argument == wanted), "{argv:?}");
        }
    }
}
