//! Owns what reading a log yields: whether memory ran out, which, whose code said so, where, and the figures.
//! Nothing here has looked at the living machine.

use std::ops::Range;

use super::facts::Facts;
use super::id::EntryId;
pub use super::kinds::{CauseKind, Certainty, MemoryKind, Oom, Phase, Platform, Stage};
use super::run::Run;
use crate::units::WallTime;

/// A figure found in the log, and where: for the screen's underlining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The fact's key, such as `requested_bytes`.
    pub key: &'static str,
    /// The line as the user sees it, counted from 1.
    pub line: usize,
    /// Byte range within that clean line's text.
    pub span: Range<usize>,
}

/// An entry that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The entry's id, such as `pytorch/cuda-out-of-memory`.
    pub entry: EntryId,
    pub certainty: Certainty,
    /// The decisive line, counted from 1 as the user sees the log.
    pub line: usize,
    /// That line, harmless to print.
    pub text: String,
}

/// What a log says, read alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Whether memory ran out.
    pub oom: Oom,
    /// Which memory; `None` where that can't be told or none did.
    pub memory: Option<MemoryKind>,
    /// Whose code printed the decisive message.
    pub raised_by: Option<String>,
    /// What the person was running, as far as the log shows; else as `raised_by`.
    pub program: Option<String>,
    /// Where in its life the job was.
    pub phase: Phase,
    /// The figures of the leading match.
    pub facts: Facts,
    /// Where those figures stand.
    pub figures: Vec<Figure>,
    /// The leading match first: the cause before its consequences.
    pub matches: Vec<Match>,
    /// Why a failure that looks like one is "maybe" or "no", in a sentence; from the entry.
    pub remark: Option<String>,
    /// When the job died by the log's own stamp nearest the decisive line (zone unknown: taken as local).
    pub crashed_at: Option<WallTime>,
    /// The same if that stamp, which names no zone, is UTC, as in containers.
    pub crashed_at_if_utc: Option<WallTime>,
    /// What the log says of the model and the run.
    pub run: Run,
    /// Parts of the log were left out before it was read: its lines are those that were kept.
    pub is_shortened: bool,
}

impl Diagnosis {
    /// Whether the log names the process as one that held GPU memory, on this card or another rank's.
    pub fn names(&self, pid: u32) -> bool {
        let mut all = std::iter::once(&self.facts).chain(&self.run.ranks).flat_map(|facts| &facts.other_processes);
        all.any(|named| named.pid == pid)
    }
}
