//! Owns which places there are: what to ask for each kind, and how the log of each is read.

use std::path::PathBuf;

use super::ask::{Ask, Way, argv};
use super::{Kind, SourceId, Surroundings, containers, files, panes, slurm, systemd};

/// What to ask. Without kinds, only what is on this machine; else these kinds.
pub fn asks(at: &Surroundings, kinds: &[Kind]) -> Vec<Ask> {
    let is_wanted = |kind: Kind| if kinds.is_empty() { !kind.is_beyond_this_machine() } else { kinds.contains(&kind) };
    let all = panes::asks(at, kinds)
        .into_iter()
        .chain(containers::asks(at, kinds))
        .chain(slurm::asks())
        .chain(systemd::asks());
    let mut asks: Vec<Ask> = all.filter(|ask| is_wanted(ask.kind())).collect();
    if is_wanted(Kind::File) {
        asks.extend(files::patterns(at).into_iter().map(Ask::Files));
    }
    asks
}

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
        Kind::Kitty => panes::way_to_kitty(at, name),
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
    fn podman_is_asked_only_where_it_was_used_or_is_named() {
        let asks_podman = |has_podman: bool, kinds: &[Kind]| {
            let at = Surroundings { has_podman, ..Surroundings::default() };
            asks(&at, kinds).iter().any(|ask| ask.kind() == Kind::Podman)
        };
        assert!(asks_podman(true, &[]) && !asks_podman(false, &[]) && asks_podman(false, &[Kind::Podman]));
    }

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
