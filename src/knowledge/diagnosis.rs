//! Owns the result of reading a log: whether memory ran out, which memory, who reported it, where, and the figures.
//! Nothing in it comes from the machine that oomdoctor runs on.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::Facts;
pub use super::kinds::{CauseKind, Certainty, Maker, MemoryKind, Oom, Phase, Platform, Stage};
use super::run::Run;
use super::summary::MemorySummary;
use crate::allocations::told::Filled;
use crate::ids::{EntryId, FixId};
use crate::internal::Internal;
use crate::units::WallTime;

/// A figure found in the log and its place, which the screen underlines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The fact's key, such as `requested_bytes`.
    pub key: &'static str,
    /// The line among those that are shown, counted from 1.
    pub row: usize,
    /// Byte range within that clean line's text.
    pub span: Range<usize>,
}

/// An entry that matched.
#[serde_with::apply(Internal => #[serde(skip)])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Match {
    /// The entry's id, such as `pytorch/cuda-out-of-memory`.
    pub entry: EntryId,
    pub certainty: Certainty,
    /// The number of the decisive line in the file, counted from 1.
    pub line: usize,
    /// Its number among the lines that are shown; text in JSON or HTML has more lines than the file.
    pub row: Internal<usize>,
    /// That line, without control characters.
    pub text: String,
}

/// A sign that a log shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub that: String,
    pub fixes: Vec<FixId>,
    /// Fixes that change nothing because of it.
    pub withholds: Vec<FixId>,
    /// What must hold in addition, where the log does not tell: "if it is vLLM 0.6.4".
    pub condition: Option<String>,
    /// Whether it speaks for a bug or an old version.
    pub version_matters: bool,
}

/// What a log says, read alone.
#[serde_with::apply(Internal => #[serde(skip)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnosis {
    pub oom: Oom,
    /// Which memory ran out; null where none did or that is unknown.
    pub memory: Option<MemoryKind>,
    /// Whose code printed the decisive message, such as `pytorch`, `vllm` or `kernel`; null where nothing matched.
    pub raised_by: Option<String>,
    /// The program that ran, as far as the log shows, otherwise the same as `raised_by`; null where nothing matched.
    #[serde(rename = "program")]
    pub ran: Option<String>,
    /// The same by the names that fixes and signs know: a library or a group where they know no more.
    pub program: Internal<Option<String>>,
    pub phase: Phase,
    // Of the leading match.
    pub facts: Facts,
    /// Where those figures stand.
    pub figures: Internal<Vec<Figure>>,
    pub run: Run,
    /// The leading match first: the cause before its consequences.
    pub matches: Vec<Match>,
    /// Why a failure that looks like one is `maybe` or `no`; null elsewhere.
    pub remark: Option<String>,
    /// Names of machines that stand beside the decisive line, the nearest first. Each counts only for a machine that is known
    /// by it: see `log::beside`.
    pub beside: Internal<Vec<String>>,
    /// When the job failed, by the log's own time stamps; null where it has none.
    // By the stamp nearest to the decisive line, as local time where it names no time zone.
    pub crashed_at: Option<WallTime>,
    /// The same, if that timestamp names no time zone and is UTC, as in most containers.
    pub crashed_at_if_utc: Internal<Option<WallTime>>,
    /// What memory snapshots of the run show, the rank that failed first leading; absent where none was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Filled>,
    /// The tables of `torch.cuda.memory_summary()` that the log has; absent where it has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_summaries: Vec<MemorySummary>,
    /// What the log shows that asks for fixes of its own.
    pub signs: Internal<Vec<Shown>>,
    /// The options of the run that decide how much memory it takes.
    pub own_options: Internal<Vec<OwnOption>>,
    /// Whether no line tells of a failure and the log stops in mid-work.
    pub just_stops: Internal<bool>,
    /// Whether parts of a very long log were left out before it was read; line numbers count what was kept.
    pub is_shortened: Internal<bool>,
    /// Whether the log came out of a compressed file that is cut off or damaged.
    pub is_cut_off: Internal<bool>,
}

/// An option that decides how much memory the run takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOption {
    /// The change that a smaller value is.
    pub fix: FixId,
    /// As the command line or the code has it: `--replay_size`, `args.replay_size`.
    pub name: String,
    /// Its value, where it is shown.
    pub value: Option<u64>,
}

impl Diagnosis {
    /// What the snapshot of the failure shows, where there is one that recorded it.
    pub fn recorded_failure(&self) -> Option<&Filled> {
        self.allocations.first().filter(|filled| filled.request.is_some())
    }

    /// The last table of `torch.cuda.memory_summary()` of the device that the failure is about. A snapshot tells more.
    pub fn summary_of_failure(&self) -> Option<&MemorySummary> {
        let device = self.facts.device;
        let of_device = |table: &&MemorySummary| device.is_none() || table.device.is_none() || table.device == device;
        let last = self.memory_summaries.iter().rev().find(of_device);
        last.filter(|_| self.recorded_failure().is_none())
    }

    /// Whether the log names this process as a user of GPU memory, on this GPU or on another rank's.
    pub fn names(&self, pid: u32) -> bool {
        let mut all = std::iter::once(&self.facts).chain(&self.run.ranks).flat_map(|facts| &facts.other_processes);
        all.any(|named| named.pid == pid)
    }
}
