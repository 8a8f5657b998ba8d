//! Owns where a failed log can be found without a paste: which places there are on this machine, how each is asked and
//! read, and which of what was found comes first. Values only: asking and reading is `runtime::sources`.

pub mod ask;
mod containers;
pub mod files;
mod panes;
pub mod places;
pub mod region;
pub(crate) mod slurm;
pub mod systemd;

use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{DeserializeFromStr, SerializeDisplay};
use strum::{Display, EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};

use crate::knowledge::diagnosis::Oom;
use crate::units::WallTime;

/// The kinds of places, in the order in which equal ones are listed.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    EnumString,
    EnumIter,
    IntoStaticStr,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    Tmux,
    Screen,
    Kitty,
    Docker,
    Podman,
    Pod,
    Slurm,
    Unit,
    UserUnit,
    Kernel,
    File,
}

impl Kind {
    /// Whether asking it contacts something that may be on another machine.
    pub fn is_beyond_this_machine(self) -> bool {
        matches!(self, Kind::Pod | Kind::Slurm)
    }

    /// Whether it is a terminal, which shows more than one command.
    pub fn is_pane(self) -> bool {
        matches!(self, Kind::Tmux | Kind::Screen | Kind::Kitty)
    }

    /// Whether it belongs to a person's session: root, through sudo, asks for it as the person who called sudo.
    pub fn is_of_a_session(self) -> bool {
        self.is_pane() || matches!(self, Kind::UserUnit)
    }
}

/// What names a place: `tmux:%3`, `docker:trainer`, `kernel`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct SourceId {
    pub kind: Kind,
    /// Empty for the kernel, and for all places of a kind.
    pub name: String,
}

impl SourceId {
    pub fn new(kind: Kind, name: impl Into<String>) -> SourceId {
        SourceId { kind, name: name.into() }
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceId { kind, name } = self;
        if name.is_empty() { write!(f, "{kind}") } else { write!(f, "{kind}:{name}") }
    }
}

impl FromStr for SourceId {
    type Err = String;

    /// Fails if the kind is unknown or has no name.
    fn from_str(text: &str) -> Result<SourceId, String> {
        let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let Ok(kind) = Kind::from_str(kind) else {
            let kinds: Vec<&str> = Kind::iter().map(Into::into).collect();
            return Err(format!("no such place; an id begins with one of {}", kinds.join(", ")));
        };
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('-') && !name.chars().any(char::is_control);
        match name {
            None => Ok(SourceId::new(kind, "")),
            Some(_) if kind == Kind::Kernel => Err("the kernel has one log: `kernel`".into()),
            Some(name) if is_name(name) => Ok(SourceId::new(kind, name)),
            Some(_) => Err(format!("give its name, as `oomdoctor sources` prints it: {kind}:NAME")),
        }
    }
}

/// A place that may have the failed log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub id: SourceId,
    /// What a person calls it.
    pub title: String,
    /// When what it shows ended; `None` if it goes on, or if that is unknown.
    pub ended_at: Option<WallTime>,
    /// Whether it is in the window in which this program runs.
    pub is_near: bool,
    /// The process that it belongs to, such as the shell of a pane.
    pub pid: Option<u32>,
}

impl Source {
    pub fn new(kind: Kind, name: impl Into<String>, title: impl Into<String>) -> Source {
        let id = SourceId::new(kind, name);
        Source { id, title: title.into(), ended_at: None, is_near: false, pid: None }
    }
}

/// A place after its log was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Looked {
    /// Names it for `oomdoctor diagnose --from`; null for a kind that could not be asked.
    #[schemars(with = "Option<String>")]
    pub id: Option<SourceId>,
    pub kind: Kind,
    /// What a person calls it.
    pub title: String,
    /// When what it shows ended; null if it goes on, or if that is unknown.
    pub ended_at: Option<WallTime>,
    /// Whether memory ran out by its log; null if it was not read.
    pub oom: Option<Oom>,
    /// The failure that its log shows.
    #[serde(default)]
    pub failure: Option<String>,
    /// Why it could not be asked or read.
    pub unreadable_reason: Option<String>,
    /// It is in this window, and a process below it uses a GPU.
    #[serde(skip)]
    pub ties: (bool, bool),
}

impl Looked {
    /// A place that was not read yet.
    pub fn unread(source: Source) -> Looked {
        Looked {
            kind: source.id.kind,
            id: Some(source.id),
            title: source.title,
            ended_at: source.ended_at,
            oom: None,
            failure: None,
            unreadable_reason: None,
            ties: (source.is_near, false),
        }
    }

    /// A kind of places that could not be asked.
    pub fn silent(kind: Kind, why: impl Into<String>) -> Looked {
        let source = Source::new(kind, "", kind.to_string());
        Looked { id: None, unreadable_reason: Some(why.into()), ..Looked::unread(source) }
    }

    /// Whether its log is worth opening.
    pub fn shows_a_failure(&self) -> bool {
        matches!(self.oom, Some(Oom::Yes | Oom::Maybe))
    }

    /// Whether what it shows goes on or ended within a day: an older failure is not what brings a person here.
    pub fn is_recent(&self, now: WallTime) -> bool {
        self.ended_at.is_none_or(|ended| now.0.duration_since(ended.0) < jiff::SignedDuration::from_hours(24))
    }
}

/// Sorts by what its log says first, then by what ties it to this screen and to a GPU, then the newest first.
pub fn rank(found: &mut [Looked]) {
    found.sort_by_cached_key(|looked| {
        let verdict = match (&looked.unreadable_reason, looked.oom) {
            (Some(_), _) => 4,
            (None, Some(Oom::Yes)) => 0,
            (None, Some(Oom::Maybe)) => 1,
            (None, None) => 2,
            (None, Some(Oom::No)) => 3,
        };
        let (is_near, uses_a_gpu) = looked.ties;
        // What goes on is newer than all that ended.
        let newest = Reverse(looked.ended_at.map_or(jiff::Timestamp::MAX, |ended| ended.0));
        (verdict, !uses_a_gpu, !is_near, newest, looked.kind, looked.id.clone())
    });
}

/// The person who called sudo: their places are looked at, and only read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// `None` where /etc/passwd does not list the person.
    pub home: Option<PathBuf>,
}

/// What decides which places there are: variables, folders and who asks.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Variables of this process that lead to a place.
    pub variables: Vec<(&'static str, String)>,
    pub home: Option<PathBuf>,
    pub folder: PathBuf,
    /// The person's user id; `None` on systems without.
    pub uid: Option<u32>,
    /// Who called sudo, where this program is root's because of it.
    pub caller: Option<Caller>,
    /// This process and those above it, where that is known.
    pub lineage: Vec<u32>,
    /// The context that Docker's own settings name.
    pub docker_context: Option<String>,
    /// Whether Podman has been used: asking it would begin its storage.
    pub has_podman: bool,
    pub now: Option<WallTime>,
}

/// The variables that lead to a place.
pub const VARIABLES: [&str; 11] = [
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "KITTY_WINDOW_ID",
    "KITTY_LISTEN_ON",
    "SSH_CONNECTION",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
];

impl Surroundings {
    /// The variable, if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(name: &str, oom: Option<Oom>, ended: Option<i64>, ties: (bool, bool)) -> Looked {
        let ended_at = ended.map(|at| WallTime(jiff::Timestamp::from_second(at).unwrap()));
        Looked { oom, ended_at, ties, ..Looked::unread(Source::new(Kind::Tmux, name, name)) }
    }

    #[test]
    fn an_id_reads_as_it_is_printed() {
        for text in
            ["tmux:%3", "docker:trainer", "pod:ml/train-0", "slurm:4711_2", "kernel", "docker", "file:/tmp/a b:c.log"]
        {
            assert_eq!(text.parse::<SourceId>().unwrap().to_string(), text);
        }
        for text in ["", "tmux:", "kernel:1", "ftp:x", "docker:--help", "unit:a\nb"] {
            assert!(text.parse::<SourceId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_log_that_shows_the_failure_comes_first_and_the_newest_of_them() {
        let mut found = vec![
            Looked::silent(Kind::Docker, "not running"),
            looked("healthy", Some(Oom::No), Some(900), (true, true)),
            looked("old", Some(Oom::Yes), Some(100), (false, false)),
            looked("maybe", Some(Oom::Maybe), Some(999), (true, false)),
            looked("new", Some(Oom::Yes), Some(500), (false, false)),
            looked("near", Some(Oom::Yes), Some(10), (true, false)),
            looked("on a GPU", Some(Oom::Yes), None, (false, true)),
            looked("unread", None, Some(999), (false, false)),
        ];
        rank(&mut found);
        let names: Vec<&str> = found.iter().map(|looked| looked.title.as_str()).collect();
        assert_eq!(names, ["on a GPU", "near", "new", "old", "maybe", "unread", "healthy", "docker"]);
    }
}
