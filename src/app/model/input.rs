//! Owns the state of the log: its text and diagnosis, where it comes from, and how it is shown.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui_textarea::TextArea;

use crate::advice::changed::Difference;
use crate::app::last::Story;
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::fix::Fix;
use crate::knowledge::page::Page;
use crate::log::PastedLog;
use crate::units::WallTime;

/// Standard input, where it is a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pipe {
    /// It is the terminal, or nothing.
    #[default]
    None,
    /// The writer is still there.
    Open,
    Closed,
}

/// What happened to the file that the log was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many lines were added.
    Grew(u64),
    /// It begins anew: shortened, or another file has its name.
    Anew,
    /// No file has this name any more.
    Gone,
}

impl Change {
    /// Both changes as one, where nothing was read between them.
    pub fn after(self, before: Option<Change>) -> Change {
        match (before, self) {
            (Some(Change::Grew(first)), Change::Grew(more)) => Change::Grew(first.saturating_add(more)),
            (Some(Change::Anew | Change::Gone), Change::Grew(_)) => Change::Anew,
            _ => self,
        }
    }
}

/// The file that the log was read from, which is looked at for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub path: PathBuf,
    /// What happened to it since it was read.
    pub change: Option<Change>,
    /// The current read adds to the open log.
    pub adds: bool,
}

/// The log and what it says.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The log as read; its raw text is what was pasted.
    pub log: Option<Arc<PastedLog>>,
    pub diagnosis: Option<Diagnosis>,
    /// The leading entry's fixes.
    pub fixes: Vec<Fix>,
    /// Every entry that matched as a page, the leading one first.
    pub pages: Vec<Page>,
    /// Where it came from and when: "pasted 14:02:11", "crash.log".
    pub origin: String,
    /// The command line that failed, as the person gave it.
    pub command: Option<String>,
    /// The model, as the person named it.
    pub model: Option<String>,
    /// The record of the run that wrote the log, where it was recorded.
    pub record: Option<PathBuf>,
    /// The latest moment at which the job can have died.
    pub crashed_by: Option<WallTime>,
    /// The story of the last session's log, while that is being read.
    pub story: Option<Box<Story>>,
    /// A log is being read: its generation, and its text, unless it is a file or an open pipe.
    pub awaited: Option<(u64, Option<String>)>,
    /// The log that is being read is the whole text of a pane, of which only the failed command is to be kept.
    pub is_a_pane: bool,
    /// Why the last one could not be read.
    pub trouble: Option<String>,
    /// The person pasted or typed this log: the pipe's output does not replace it.
    pub own: bool,
    pub generation: u64,
    /// The previous log, raw, with its origin.
    pub previous: Option<(String, String)>,
    /// The editor, while typing.
    pub typing: Option<Box<TextArea<'static>>>,
    /// The first line shown, counted from 0; `None`: around the decisive line.
    pub top: Option<usize>,
    /// What was searched for.
    pub search: String,
    pub pipe: Pipe,
    /// The file that was named at the start.
    pub file: Option<Followed>,
    pub since_it_worked: SinceItWorked,
}

/// The comparison with the log of a run that worked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SinceItWorked {
    #[default]
    Unknown,
    /// The next paste is that log.
    Awaited,
    /// That log is being read.
    Reading,
    /// What differs from the run that failed.
    Known(Vec<Difference>),
}

impl SinceItWorked {
    /// No longer takes the next paste for that log; whether it was awaited.
    pub fn cancel(&mut self) -> bool {
        let was_awaited = *self == SinceItWorked::Awaited;
        if was_awaited {
            *self = SinceItWorked::Unknown;
        }
        was_awaited
    }

    pub fn known(&self) -> Option<&[Difference]> {
        match self {
            SinceItWorked::Known(differences) => Some(differences),
            _ => None,
        }
    }
}
