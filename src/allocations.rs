//! Owns what an allocator wrote of itself: PyTorch's memory snapshots and JAX's device memory profiles, and what they mean.
//! Reading one runs nothing of it. Knows nothing of files, of this machine or of the screen.

pub mod pprof;
pub mod read;
mod stacks;

use strum::{EnumString, IntoStaticStr};

use crate::units::Bytes;
pub use stacks::{Gathering, Stacks};

/// A text of the snapshot: many frames share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub u32);

/// A call stack, of those that `Stacks` holds once each. 0 is the empty one: allocated before recording began, or by C++.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// A line of the program that was running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The function.
    pub name: TextId,
    pub file: TextId,
    pub line: u32,
}

/// What one process of PyTorch wrote. Every key may be missing in some version, so most figures may be unknown.
#[derive(Debug, Default)]
pub struct Dump {
    pub stacks: Stacks,
    pub segments: Vec<Segment>,
    /// The actions of each device, oldest first; the place in the list is the device's number.
    pub traces: Vec<Vec<Action>>,
    pub annotations: Vec<Annotation>,
    pub settings: Settings,
    /// How many older actions were left out to stay within the memory limit.
    pub left_out: u64,
}

/// What PyTorch took from CUDA in one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub device: u32,
    pub address: u64,
    pub total: Bytes,
    pub stream: u64,
    pub pool: Pool,
    /// 2 MiB for what is at most 1 MiB.
    pub is_small: bool,
    pub is_expandable: bool,
    pub stack: StackId,
    pub blocks: Vec<Block>,
}

/// Whose memory a segment is: (0, 0) is everybody's, another one belongs to a CUDA graph or a `MemPool`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pool(pub u64, pub u64);

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Older versions do not say it; then it follows from the blocks before.
    pub address: u64,
    pub size: Bytes,
    /// What the program asked for, before rounding.
    pub requested: Option<Bytes>,
    pub state: State,
    pub stack: StackId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Allocated,
    /// Freed by the program, not yet by the stream that still uses it.
    PendingFree,
    #[default]
    Inactive,
}

/// What the allocator did once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    pub kind: ActionKind,
    /// The address; for `Oom`, what CUDA reported as free, in bytes.
    pub place: u64,
    pub size: Bytes,
    pub stream: u64,
    pub pool: Option<Pool>,
    /// Microseconds; before 2.2 there are none.
    pub micros: Option<u64>,
    pub stack: StackId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ActionKind {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Snapshot,
    Oom,
    UserDefined,
    Annotate,
    /// One of a later version.
    Other,
}

/// A mark that the program set, such as `ProfilerStep#412`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub name: TextId,
    pub is_start: bool,
    pub device: u32,
    pub micros: u64,
}

/// The allocator's settings, as far as the snapshot has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `PYTORCH_CUDA_ALLOC_CONF`.
    pub config: Option<String>,
    pub expandable_segments: Option<bool>,
    /// `None` where there is no limit (-1) or no such key.
    pub max_split_size: Option<Bytes>,
    pub garbage_collection_threshold: Option<f64>,
}
