//! Owns all that can happen to the program. Everything a person or the machine does arrives as one of these.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use super::again::Progress;
use super::dropped::DroppedFile;
use super::model::{Change, Seen};
use super::replay::Played;
use super::run_again::RunAgain;
use crate::gpu::guard::Refusal;
use crate::gpu::{Header, ProcessKey, Snapshot};
use crate::hosts::HostReading;
use crate::knowledge::diagnosis::Diagnosis;
use crate::knowledge::fix::Fix;
use crate::knowledge::page::Page;
use crate::knowledge::run::Run;
use crate::log::PastedLog;
use crate::record::End;
use crate::source::{Kind, Looked, SourceId};
use crate::units::WallTime;

/// The moment of a wake-up: read once at the edge, handed in.
#[derive(Clone, Copy, Debug)]
pub struct Cx {
    /// Since the program started; never goes back.
    pub now: Duration,
    pub wall: WallTime,
}

#[derive(Clone, Debug)]
pub enum Msg {
    /// A key was pressed, at this moment: the edge stamps it, since it may have waited while the terminal was slow.
    Key(KeyEvent, Duration),
    /// What the model showed last is on the terminal now: this is what can be seen and clicked there.
    Drawn(Seen),
    /// The program continues after it was stopped, with its own screen.
    Resumed,
    /// The mouse did something, at this moment, as for keys.
    Mouse(MouseEvent, Duration),
    /// A paste has begun and may take a moment: it closes the open question.
    Pasting,
    /// The terminal says that this text was pasted.
    Paste(String),
    /// A log that comes by itself (the demo's): taken only where there is none.
    Offered(String),
    /// The terminal has this many columns and rows now.
    Resize(u16, u16),
    /// The terminal says whether its window is the one the person works in.
    InFront(bool),
    /// Whether the machine runs on battery.
    OnBattery(bool),
    /// A deadline of the model has passed; see `Model::wakes_at`.
    Tick,
    /// The sampler's first line.
    Header(Header),
    Sample(Box<Snapshot>),
    /// The sampler ended or can't be started; the text says why. It is started again.
    FeedDown(String),
    /// The knowledge base is loaded, with its glossary.
    Glossary(Arc<Page>),
    /// A log was read.
    LogRead(Box<LogRead>),
    /// What the log of a run that worked says of it; else why it can't be compared with.
    RunThatWorked(Box<Result<Run, String>>),
    /// How far the run came, by what its log says since the failure was read.
    Progress(Progress),
    /// Another machine was read, or could not be.
    Host(Box<HostReading>),
    /// Of these kinds (without kinds: of this machine) these places have logs; else why none were looked for.
    Found(Vec<Kind>, Result<Vec<Looked>, String>),
    /// The log of a place, and when it was last written; else why it could not be read.
    FoundLog(SourceId, Result<(String, Option<WallTime>), String>),
    /// A recording was read; else why it was not.
    Record(Result<Arc<Played>, String>),
    /// What became of a command that was run again: how it ended and its recording, or why it was not run.
    RanAgain(Box<RunAgain>, Result<(End, Option<Arc<Played>>), String>),
    /// Something went wrong outside; the text says what.
    Trouble(String),
    /// A log could not be read; the text says why. Answers the request of this generation.
    Unread(u64, String),
    /// More of standard input, and whether that was all.
    Stdin {
        /// All that was read so far, shortened as `runtime::files` describes; `None` where it is no text but binary.
        text: Option<String>,
        /// No more will come.
        closed: bool,
    },
    /// The files whose paths this pasted text consists of; `None` where they are not files, so that it is a log itself.
    Dropped(String, Option<Vec<DroppedFile>>),
    /// Files that lie beside the log of this generation look like memory snapshots of its run.
    SnapshotsBeside(u64, Vec<PathBuf>),
    /// The file of the log changed.
    FileChanged(Change),
    /// What became of a signal.
    Signal(ProcessKey, SignalReport),
    /// Its program accepted the request to free memory (the text says which); else why it did not.
    Released(ProcessKey, Result<String, String>),
    /// Of these environment variables of a process, whether they are set.
    Environment(ProcessKey, Vec<(String, bool)>),
    /// Where the report was written, or why it was not.
    Written(Result<String, String>),
    /// What became of a copy.
    Copied(Result<&'static str, String>),
    /// This program is asked to exit (SIGTERM, SIGHUP).
    Terminate,
}

/// A log with what the knowledge base says of it.
#[derive(Clone, Debug)]
pub struct LogRead {
    /// Which request this answers; an older one's answer is dropped.
    pub generation: u64,
    pub log: Arc<PastedLog>,
    pub diagnosis: Diagnosis,
    /// The leading entry's fixes in its order.
    pub fixes: Vec<Fix>,
    /// Every entry that matched as a page to read, the leading one first.
    pub pages: Vec<Page>,
    /// When its file was last written: the job can't have died later.
    pub written: Option<WallTime>,
}

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalReport {
    /// It was sent to exactly that process.
    Sent,
    Refused(Refusal),
    /// The process exited, so long after the signal.
    Ended(Duration),
    /// The grace time is over and it still runs, in this state.
    StillThere(Option<char>),
}
