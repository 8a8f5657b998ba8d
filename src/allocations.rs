//! Owns what an allocator wrote of itself: PyTorch's memory snapshots and JAX's device memory profiles, and what they mean.
//! Reading one runs nothing of it. Knows nothing of files, of this machine or of the screen.

pub mod figures;
pub mod findings;
mod history;
mod lines;
pub mod message;
pub mod pprof;
pub mod profiled;
pub mod read;
mod sentence;
mod stacks;
pub mod told;

use schemars::JsonSchema;
use serde::Serialize;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Pool(pub u64, pub u64);

impl Pool {
    pub const EVERYBODYS: Pool = Pool(0, 0);
}

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

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests {
    use super::findings::FindingKind::{self, *};
    use super::testing::{MIB, Made};
    use super::told::{Filled, WhyUnusable};
    use super::*;
    use State::{Allocated, Inactive};

    /// Four segments of a quarter each, a pool of a CUDA graph, and a request for 2 GiB.
    fn fragmented() -> Made {
        let mut made = Made::default();
        let library = ("/x/site-packages/torch/nn/functional.py", 9, "linear");
        let attention = made.stack(&[library, ("/w/model.py", 41, "attention"), ("/w/train.py", 12, "main")]);
        let weights = made.stack(&[("/w/model.py", 10, "__init__"), ("/w/train.py", 5, "main")]);
        made.segment(&[(8192, Allocated, weights)]);
        for _ in 0..4 {
            made.segment(&[(512, Allocated, attention), (1536, Inactive, StackId::default())]);
        }
        made.segment(&[(1024, Inactive, StackId::default())]).pool = Pool(0, 1);
        let forward = made.stack(&[library, ("/w/train.py", 88, "forward")]);
        made.did(ActionKind::Alloc, 1, 512, attention);
        made.did(ActionKind::Oom, 700 * MIB, 2048, forward);
        made
    }

    fn kinds(filled: &Filled) -> Vec<FindingKind> {
        filled.findings.iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn the_sentence_names_the_line_the_size_and_why_the_rest_is_unusable() {
        let filled = fragmented().filled();
        assert_eq!(
            filled.sentence,
            "The 2.0 GiB that `train.py:88 forward` asked for did not fit: CUDA had 700 MiB free. PyTorch had 7.0 GiB unused, but the largest piece was 1.5 GiB (4 segments of `model.py:41 attention` are 25 % full) and 1.0 GiB belongs to a CUDA-graph pool. `expandable_segments:True` would have made it fit."
        );
        assert_eq!(filled.rank, Some(3));
    }

    #[test]
    fn totals_add_up_and_only_what_the_request_could_use_counts_as_usable() {
        let mut made = fragmented();
        made.segment(&[(300, Inactive, StackId::default())]).stream = 7;
        made.segment(&[(2, Inactive, StackId::default())]).is_small = true;
        made.segment(&[(256, State::PendingFree, StackId::default())]);
        let filled = made.filled();
        let totals = filled.totals.as_ref().unwrap();
        assert_eq!(totals.reserved_bytes, totals.active_bytes.plus(totals.inactive_bytes));
        assert_eq!(totals.usable_bytes, Bytes::gib(6));
        assert_eq!(totals.largest_usable_bytes, Bytes::mib(1536));
        assert_eq!(totals.locked_bytes, Bytes::gib(1));
        assert_eq!(totals.pending_free_bytes, Bytes::mib(256));
        let unused = filled.unusable.iter().fold(Bytes::ZERO, |sum, row| sum.plus(row.bytes));
        assert_eq!(unused, totals.unused_bytes());
        let whys: Vec<WhyUnusable> = filled.unusable.iter().map(|row| row.why).collect();
        use WhyUnusable::{InPieces, OtherPool, OtherSize, OtherStream, PendingFree};
        assert_eq!(whys, [InPieces, OtherPool, OtherStream, PendingFree, OtherSize]);
    }

    #[test]
    fn who_is_alive_is_named_by_the_first_line_of_own_code() {
        let filled = fragmented().filled();
        let rows: Vec<(String, Bytes)> =
            filled.alive.iter().map(|row| (row.at.as_ref().unwrap().to_string(), row.bytes)).collect();
        assert_eq!(
            rows,
            [("model.py:10 __init__".into(), Bytes::gib(8)), ("model.py:41 attention".into(), Bytes::gib(2))]
        );
        assert_eq!(filled.alive[1].inner.as_ref().unwrap().function, "linear");
        assert_eq!(filled.tree.len(), 2, "both begin in main, at different lines");
        assert_eq!(filled.tree[0].children[0].bytes, Bytes::gib(8));
    }

    #[test]
    fn fragmentation_and_a_locked_pool_are_found_unless_segments_can_grow() {
        assert_eq!(kinds(&fragmented().filled()), [Fragmentation]);
        let mut made = fragmented();
        made.dump.settings.expandable_segments = Some(true);
        let filled = made.filled();
        assert_eq!(kinds(&filled), []);
        assert!(!filled.sentence.contains("expandable"));
        let mut made = fragmented();
        made.segment(&[(512, Inactive, StackId::default())]).pool = Pool(0, 1);
        assert_eq!(kinds(&made.filled()), [Fragmentation, LockedPool], "1.5 GiB locked, 1.3 missing");
    }

    #[test]
    fn the_peak_is_counted_backwards_from_what_is_there_at_the_end() {
        let mut made = Made::default();
        let kept = made.stack(&[("/w/a.py", 1, "kept")]);
        let freed = made.stack(&[("/w/a.py", 2, "freed")]);
        let at = made.segment(&[(100, Allocated, kept), (200, Inactive, StackId::default())]).address;
        made.did(ActionKind::SegmentAlloc, at, 300, kept);
        made.did(ActionKind::FreeCompleted, 7, 50, freed);
        made.did(ActionKind::Alloc, at, 100, kept);
        made.did(ActionKind::Alloc, at + 100 * MIB, 200, freed);
        made.did(ActionKind::FreeRequested, at + 100 * MIB, 200, freed);
        made.did(ActionKind::FreeCompleted, at + 100 * MIB, 200, freed);
        let filled = made.filled();
        let peak = filled.peak.unwrap();
        assert_eq!((peak.bytes, peak.after_actions), (Bytes::mib(300), 4));
        assert_eq!(peak.alive[0].at.as_ref().unwrap().function, "freed");
        let allocated: Vec<u64> = filled.timeline.iter().map(|point| point.allocated.0 / MIB).collect();
        assert_eq!(allocated, [50, 50, 0, 100, 300, 300, 100], "50 MiB were there before the record began");
        assert_eq!(filled.timeline[0].reserved, Bytes::ZERO);
    }

    #[test]
    fn what_rises_from_step_to_step_is_growth_at_its_line() {
        let made = |steps: u64, leaks: bool| {
            let mut made = Made::default();
            let leak = made.stack(&[("/w/train.py", 61, "log_metrics")]);
            let batch = made.stack(&[("/w/train.py", 40, "forward")]);
            let mut blocks = Vec::new();
            for step in 0..steps {
                made.step(step);
                made.did(ActionKind::Alloc, 1, 900, batch);
                let place = 0x7f00_0000_0000 + step * 64 * MIB;
                made.did(ActionKind::Alloc, place, 64, leak);
                made.did(ActionKind::FreeCompleted, 1, 900, batch);
                match leaks {
                    true => blocks.push((64, Allocated, leak)),
                    false => made.did(ActionKind::FreeCompleted, place, 64, leak),
                }
            }
            made.segment(&blocks);
            made.filled()
        };
        let filled = made(10, true);
        assert_eq!(filled.growth.len(), 1);
        let growth = &filled.growth[0];
        assert_eq!(growth.at.to_string(), "train.py:61 log_metrics");
        assert_eq!(growth.each_bytes(), Bytes::mib(64));
        assert!(growth.is_by_step);
        assert_eq!(kinds(&filled), [Growth]);
        assert!(made(10, false).growth.is_empty());
        assert!(made(4, true).growth.is_empty(), "too few steps to tell");
    }

    #[test]
    fn an_optimizers_state_and_a_large_request_are_found() {
        let mut made = Made::default();
        let weights = made.stack(&[("/w/train.py", 5, "main")]);
        let state =
            made.stack(&[("/x/site-packages/torch/optim/adamw.py", 300, "_init_group"), ("/w/train.py", 60, "step")]);
        made.segment(&[(6000, Allocated, weights), (500, Allocated, state)]);
        made.did(ActionKind::Oom, 100 * MIB, 500, state);
        let filled = made.filled();
        assert_eq!(kinds(&filled), [OptimizerState]);
        assert_eq!(filled.findings[0].bytes, Bytes::mib(500));

        let mut made = Made::default();
        let logits = made.stack(&[("/w/train.py", 70, "loss")]);
        made.segment(&[(6000, Allocated, logits)]).blocks[0].stack = StackId::default();
        made.did(ActionKind::Oom, 2048 * MIB, 3000, logits);
        assert_eq!(kinds(&made.filled()), [LargeRequest]);
    }

    #[test]
    fn a_snapshot_in_which_nothing_failed_says_what_is_there() {
        let mut made = fragmented();
        made.actions.pop();
        let filled = made.filled();
        assert_eq!(filled.request, None);
        assert!(filled.sentence.starts_with("No request failed"), "{}", filled.sentence);
        assert_eq!(filled.last_actions.len(), 1);
    }

    #[test]
    fn a_stack_of_many_blocks_is_walked_once() {
        let mut made = Made::default();
        let frames: Vec<(&str, u32, &str)> = (0..100).map(|line| ("/w/a.py", line, "f")).collect();
        let deep = made.stack(&frames);
        made.segment(&[(1, Allocated, deep); 500]);
        let mut tree = Vec::new();
        let effort = crate::effort::of(|| tree = made.filled().tree);
        assert_eq!((tree.len(), tree[0].blocks, tree[0].bytes), (1, 500, Bytes::mib(500)));
        assert!(effort <= 100, "{effort} frames");
    }

    #[test]
    fn endless_names_stacks_and_devices_are_cut() {
        let mut made = Made::default();
        let endless = "é".repeat(10_000);
        let frames: Vec<(&str, u32, &str)> = (0..5000).map(|line| (endless.as_str(), line, "f")).collect();
        let deep = made.stack(&frames);
        made.did(ActionKind::Oom, 0, 1, deep);
        for device in 0..1000 {
            made.segment(&[(1, Inactive, StackId::default())]).device = device;
        }
        made.dump.stacks = made.gathering.finish();
        made.dump.traces = vec![made.actions];
        let all = figures::filled(&made.dump, "x");
        let request = all[0].request.as_ref().unwrap();
        assert!(all.len() <= 128 && request.stack.len() <= 1024, "{} {}", all.len(), request.stack.len());
        assert!(request.stack.iter().all(|line| line.file.len() <= 1024 && line.file.starts_with('é')));
    }

    #[test]
    fn a_map_of_impossible_sizes_ends() {
        let mut made = Made::default();
        let segment = made.segment(&[(1, Allocated, StackId::default()), (1, Inactive, StackId::default())]);
        segment.blocks = segment.blocks.repeat(200);
        segment.blocks.iter_mut().for_each(|block| block.size = Bytes(u64::MAX));
        assert!(made.filled().map[0].runs.len() <= figures::RUNS);
    }

    #[test]
    fn the_earliest_failure_of_several_files_leads() {
        let late = Filled {
            request: Some(told::FailedRequest { time_us: Some(9), ..Default::default() }),
            rank: Some(0),
            ..Filled::default()
        };
        let early = Filled {
            request: Some(told::FailedRequest { time_us: Some(5), ..Default::default() }),
            rank: Some(1),
            ..Filled::default()
        };
        let mut all = vec![Filled::default(), late, early];
        figures::lead_with_the_first_failure(&mut all);
        assert_eq!(all.iter().map(|filled| filled.rank).collect::<Vec<_>>(), [Some(1), Some(0), None]);
    }
}
