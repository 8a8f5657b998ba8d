//! Owns what a snapshot tells of one device: the figures of its allocator, which the screen, the text, the JSON and the
//! report show.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::findings::{self, Finding, FindingKind};
use super::{ActionKind, Pool, State};
use crate::internal::Internal;
use crate::units::Bytes;

/// What filled the memory of one device, as the allocator of one process recorded it.
#[serde_with::apply(Internal => #[serde(skip)])]
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Filled {
    /// The name of the file.
    pub file: String,
    /// The rank, where the name of the file tells it.
    pub rank: Option<u32>,
    /// Whose allocator it is.
    pub allocator: Allocator,
    /// The device, by the process's own numbers.
    pub device: u32,
    /// What kind of device it is, as JAX names it (`gpu`, `tpu`, `cpu`); absent in snapshots of PyTorch, which are of GPUs.
    pub device_kind: Option<String>,
    /// What filled it, in a few sentences.
    pub sentence: String,
    /// The last request that failed; absent where none did.
    pub request: Option<FailedRequest>,
    /// What is in use: of PyTorch rounded up as the allocator rounds, of JAX the arrays.
    pub allocated_bytes: Bytes,
    /// Sums over the segments; absent for JAX, whose profile lists arrays and nothing of its allocator.
    pub totals: Option<Totals>,
    /// What is allocated at the end, by line of the program's own code, the largest first.
    pub alive: Vec<Alive>,
    /// What is reserved and not allocated at the end, by segments that are alike, the largest first.
    pub unusable: Vec<Unused>,
    /// The last actions before the failure, or before the end where nothing failed, the oldest first.
    pub last_actions: Vec<Did>,
    /// Lines whose allocations rose from point to point up to the end, the steepest first.
    pub growth: Vec<Growth>,
    /// Absent where no actions were recorded.
    pub peak: Option<Peak>,
    /// What the process used beside its allocator, where the log tells the whole: CUDA context, NCCL, libraries.
    pub outside_bytes: Option<Bytes>,
    /// What explains the failure or makes it worse.
    pub findings: Vec<Finding>,
    /// How many of the oldest actions were left out because the file is large.
    pub actions_left_out: u64,
    /// The call stacks of what is allocated at the end, from the outermost function inwards.
    pub tree: Internal<Vec<Node>>,
    /// The segments, the largest first; beyond the bound they are left out.
    pub map: Internal<Vec<MapRow>>,
    /// What was allocated over time, the oldest first.
    pub timeline: Internal<Vec<Moment>>,
}

impl Filled {
    /// Takes over what the process used beside the allocator, by the log.
    pub fn set_outside(&mut self, bytes: Bytes) {
        self.outside_bytes = Some(bytes);
        self.findings = findings::find(self);
    }

    /// What PyTorch took from CUDA, or else what is known to be in use.
    pub fn reserved_at_least(&self) -> Bytes {
        self.totals.as_ref().map_or(self.allocated_bytes, |totals| totals.reserved_bytes)
    }

    /// The device as it is shown: `GPU 0`, `TPU 3`.
    pub fn device_in_words(&self) -> String {
        let kind = self.device_kind.as_deref().unwrap_or("gpu");
        format!("{} {}", kind.to_ascii_uppercase(), self.device)
    }

    /// The finding of this kind, where there is one.
    pub fn finding(&self, kind: FindingKind) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.kind == kind)
    }
}

/// Whose allocator wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    #[default]
    Pytorch,
    Jax,
}

/// A request for memory that failed.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedRequest {
    pub bytes: Bytes,
    /// What CUDA reported as free.
    pub free_bytes: Bytes,
    /// The line of the program's own code that asked; absent where no stack was recorded.
    pub at: Option<CodeLine>,
    /// The innermost line of Python, where that is another one.
    pub inner: Option<CodeLine>,
    pub stream: u64,
    /// When it failed, in microseconds since 1970.
    pub time_us: Option<u64>,
    /// How many requests had failed before: the program caught those.
    pub failed_before: u64,
    /// The call stack, innermost first, for the traceback of a log.
    #[serde(skip)]
    pub stack: Vec<CodeLine>,
}

/// Sums over all segments of the device.
#[serde_with::apply(Internal => #[serde(skip)])]
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    pub segments: u64,
    /// What PyTorch took from CUDA.
    pub reserved_bytes: Bytes,
    /// What is in use, rounded up as the allocator rounds.
    pub allocated_bytes: Bytes,
    /// Allocated or freed while a stream still uses it.
    pub active_bytes: Bytes,
    /// What the program asked for, of what is active; absent where the file does not tell.
    pub requested_bytes: Option<Bytes>,
    /// In no use: reserved less active.
    pub inactive_bytes: Bytes,
    /// Freed by the program while a stream still uses it.
    pub pending_free_bytes: Bytes,
    /// What is inactive in other pools than everybody's: of CUDA graphs or a `MemPool`.
    pub locked_bytes: Bytes,
    /// What is inactive where the request could be served from: same pool, stream and kind of segment.
    pub usable_bytes: Bytes,
    /// The largest piece of that.
    pub largest_usable_bytes: Bytes,
    /// The largest inactive piece anywhere.
    pub largest_inactive_bytes: Bytes,
    /// What rounding takes beyond what was asked for; absent where the file does not tell.
    pub rounding_bytes: Option<Bytes>,
    /// What expandable segments could move to where it is needed: whole pages of the pieces in `usable_bytes`.
    pub movable_bytes: Internal<Bytes>,
    /// Whether segments can grow (`expandable_segments:True`); absent where the file does not tell.
    pub has_expandable_segments: Option<bool>,
}

impl Totals {
    /// What PyTorch has and nothing is allocated in, as its message counts it.
    pub fn unused_bytes(&self) -> Bytes {
        self.reserved_bytes.less(self.allocated_bytes)
    }
}

/// A line of code in a call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct CodeLine {
    pub file: String,
    pub line: u32,
    pub function: String,
}

impl fmt::Display for CodeLine {
    /// The line as it is shown: without the folders of its file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or_default();
        let line = if self.line == 0 { name.to_owned() } else { format!("{name}:{}", self.line) };
        f.pad(format!("{line} {}", self.function).trim())
    }
}

/// What is allocated from one line of the program's own code.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Alive {
    /// The line; absent where no stack was recorded.
    pub at: Option<CodeLine>,
    /// The innermost line of Python below which most of it was allocated, where that is another one.
    pub inner: Option<CodeLine>,
    pub bytes: Bytes,
    pub blocks: u64,
    /// The largest of the blocks; where the file has only their sum (JAX), at least their mean.
    pub largest_bytes: Bytes,
}

/// What is reserved and not allocated, in segments that are alike.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unused {
    /// The line of the program's own code that has most of what is allocated in them; absent where they are empty or it
    /// is unknown.
    pub beside: Option<CodeLine>,
    pub bytes: Bytes,
    pub largest_bytes: Bytes,
    pub segments: u64,
    /// What the segments have in all.
    pub reserved_bytes: Bytes,
    /// The pool, as PyTorch numbers it; (0, 0) is everybody's.
    pub pool: Pool,
    pub stream: u64,
    pub why: WhyUnusable,
}

impl Unused {
    /// How much of the segments is in use, in percent.
    pub fn percent_full(&self) -> u64 {
        percent(self.reserved_bytes.less(self.bytes), self.reserved_bytes).unwrap_or(0)
    }
}

/// Why memory that PyTorch has reserved cannot serve the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhyUnusable {
    /// Every piece is smaller than the request.
    InPieces,
    /// It belongs to a CUDA graph or a `MemPool`.
    OtherPool,
    /// It belongs to another stream than the request's.
    OtherStream,
    /// It is in segments for another size: those for at most 1 MiB, or for more.
    OtherSize,
    /// It was freed, and a stream still uses it.
    PendingFree,
    /// Nothing speaks against it, or nothing failed.
    Nothing,
}

impl WhyUnusable {
    /// As it stands in a table.
    pub fn said(self) -> &'static str {
        match self {
            WhyUnusable::InPieces => "pieces too small",
            WhyUnusable::OtherPool => "CUDA-graph or own pool",
            WhyUnusable::OtherStream => "another stream's",
            WhyUnusable::OtherSize => "segments of another size",
            WhyUnusable::PendingFree => "a stream still uses it",
            WhyUnusable::Nothing => "reusable",
        }
    }
}

/// One action of the allocator.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Did {
    #[serde(serialize_with = "as_named")]
    #[schemars(with = "String")]
    pub action: ActionKind,
    pub bytes: Bytes,
    pub at: Option<CodeLine>,
    pub stream: u64,
    /// Microseconds since 1970.
    pub time_us: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_named<S: serde::Serializer>(kind: &ActionKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str((*kind).into())
}

impl Did {
    /// The action in words.
    pub fn said(&self) -> &'static str {
        match self.action {
            ActionKind::Alloc => "allocate",
            ActionKind::FreeRequested => "free",
            ActionKind::FreeCompleted => "freed",
            ActionKind::SegmentAlloc => "cudaMalloc",
            ActionKind::SegmentFree => "cudaFree",
            ActionKind::SegmentMap => "map",
            ActionKind::SegmentUnmap => "unmap",
            ActionKind::Snapshot => "snapshot",
            ActionKind::Oom => "out of memory",
            ActionKind::UserDefined | ActionKind::Annotate => "mark",
            ActionKind::Other => "other",
        }
    }
}

/// A line whose allocations rose from point to point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Growth {
    pub at: CodeLine,
    /// What was allocated at the first of the points and at the last.
    pub from_bytes: Bytes,
    pub to_bytes: Bytes,
    /// How many points it rose at, one after the other.
    pub points: u64,
    /// Whether the points are the program's own steps (`ProfilerStep#N`); else they are as many allocations apart.
    pub is_by_step: bool,
}

impl Growth {
    /// By how much it rises at each point.
    pub fn each_bytes(&self) -> Bytes {
        Bytes(self.to_bytes.less(self.from_bytes).0.checked_div(self.points).unwrap_or(0))
    }
}

/// When the most was allocated.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Peak {
    /// What was allocated, as it was asked for (the actions do not tell what was added by rounding).
    pub bytes: Bytes,
    /// After how many of the recorded actions.
    pub after_actions: u64,
    /// Microseconds since 1970.
    pub time_us: Option<u64>,
    /// What was allocated then, by line of the program's own code, the largest first: at most five.
    pub alive: Vec<AtPeak>,
}

/// What was allocated from one line at the peak.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AtPeak {
    pub at: Option<CodeLine>,
    pub bytes: Bytes,
}

/// A line of the tree of call stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `None`: no stack was recorded.
    pub at: Option<CodeLine>,
    /// What was allocated here and below; more than the children's sum where some were left out.
    pub bytes: Bytes,
    pub blocks: u64,
    /// The largest first.
    pub children: Vec<Node>,
}

/// A segment as a row of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRow {
    pub total: Bytes,
    pub pool: Pool,
    pub stream: u64,
    pub is_small: bool,
    pub is_expandable: bool,
    /// What is neither allocated nor pending.
    pub inactive: Bytes,
    /// From its beginning to its end; neighbors differ. At most `figures::RUNS`.
    pub runs: Vec<Stretch>,
}

/// Neighboring blocks in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub state: State,
    pub bytes: Bytes,
}

/// A point of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// After how many of the recorded actions.
    pub after_actions: u64,
    pub time_us: Option<u64>,
    /// The most that was allocated since the point before, as it was asked for.
    pub allocated: Bytes,
    /// What was reserved at that time.
    pub reserved: Bytes,
}

/// A part of the whole in percent; `None` where there is no whole.
pub fn percent(part: Bytes, whole: Bytes) -> Option<u64> {
    u64::try_from((u128::from(part.0) * 100).checked_div(u128::from(whole.0))?).ok()
}
