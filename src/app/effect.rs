//! Owns what the program may ask of the outside world. Values only: doing them is `runtime`'s.

use std::path::PathBuf;
use std::time::Duration;

use super::last::Kept;
use super::run_again::RunAgain;
use crate::advice::release::Release;
use crate::gpu::ProcessKey;
use crate::gpu::guard::Signal;
use crate::gpu::running::Running;
use crate::source::{Kind, SourceId};
use crate::units::Bytes;

/// A signal that a person confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub key: ProcessKey,
    /// What it ran when they were asked. It is signalled only if it still does: a process that runs another program by
    /// now (exec) has the PID and the start of the one that was meant.
    pub ran: Running,
    pub signal: Signal,
    /// The process that it should end with: it is signalled only if that one was, or has exited, and if it still runs
    /// after the grace time.
    pub follows: Option<ProcessKey>,
    /// The PCI addresses of the GPUs that listed it, where none of them is NVIDIA's: it must still have one of them open.
    pub cards: Vec<String>,
    /// How long each may take to exit before it is reported as still running.
    pub grace: Duration,
}

/// Something to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read this log and the memory snapshots of its run, and answer with `Msg::LogRead` of the same generation, or
    /// `Msg::Unread`.
    ReadLog {
        generation: u64,
        /// The log as pasted.
        text: String,
        snapshots: Vec<PathBuf>,
        /// It is all that a terminal's pane shows: only the command that failed is read.
        is_a_pane: bool,
    },
    /// Read this log of a run that worked and answer with `Msg::RunThatWorked`.
    ReadLogThatWorked(String),
    /// Read what this file says from this byte on, and answer with `Msg::Progress`; with nothing where it can't be read.
    ReadProgress {
        path: PathBuf,
        from: usize,
    },
    /// Read this file, a log or a memory snapshot, and the snapshots of its run, and answer in the same way.
    ReadFile {
        generation: u64,
        path: PathBuf,
        snapshots: Vec<PathBuf>,
    },
    /// Nobody waits any more for the log or the memory snapshots that are being read.
    StopReading,
    /// Say which files these paths name, and answer with `Msg::Dropped`. They were pasted as this text.
    LookAtPaths {
        text: String,
        paths: Vec<PathBuf>,
    },
    /// Look for failed logs in places of these kinds (without kinds: on this machine) and answer with `Msg::Found`.
    FindLogs(Vec<Kind>),
    /// Read the log of this place and answer with `Msg::FoundLog`.
    ReadFound(SourceId),
    /// Read this recording and answer with `Msg::Record`.
    ReadRecord(PathBuf),
    /// Run exactly this command in the foreground of this terminal, recorded, and answer with `Msg::RanAgain`.
    RunAgain(Box<RunAgain>),
    /// Load the knowledge base, if it is not there yet, and answer with `Msg::Glossary`.
    LoadKnowledge,
    /// Signal exactly this process, if it still is that process, and report what becomes of it.
    Signal(Order),
    /// Ask the program of exactly this process, if it still is that process, to free memory,
    /// and answer with `Msg::Released`.
    Release(ProcessKey, Release),
    /// Note how much memory this process freed after it was signalled or asked.
    NoteMemory(ProcessKey, Bytes),
    /// Say of these environment variables whether they are set in that process, by `Msg::Environment`.
    ReadEnvironment {
        key: ProcessKey,
        names: Vec<String>,
    },
    /// Ring the terminal's bell and put this into its title: what the person waits for has come.
    Ring(String),
    /// Put this text on the clipboard.
    Copy(String),
    /// Keep this log and its story for `--last`; nothing is answered but `Msg::Trouble`, once.
    Keep(Box<Kept>),
    /// Write this report to a file and answer with `Msg::Written`.
    WriteReport(String),
    /// Give the terminal back and stop until the shell brings the program to the foreground again.
    Suspend,
    Quit,
}
