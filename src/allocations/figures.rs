//! Owns the figures of a snapshot: what each device has, who allocated it, what is unusable and why. Each is counted once,
//! in one pass over segments or actions.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use super::history;
use super::lines::{LineId, Lines};
use super::told::{Alive, CodeLine, Did, FailedRequest, Filled, MapRow, Node, Stretch, Totals, Unused, WhyUnusable};
use super::{Action, ActionKind, Annotation, Block, Dump, Pool, Segment, StackId, State, findings, sentence};
use crate::units::Bytes;

/// Requests up to this are served from segments of their own.
const SMALL: Bytes = Bytes::mib(1);
/// Expandable segments map and unmap pages of this size.
const PAGE: u64 = 20 << 20;
/// Actions shown before the failure.
const LAST_ACTIONS: usize = 15;
/// Rows kept of each table; what is beyond is small.
const ROWS: usize = 100;
/// Segments of the map, and stretches of a segment.
const SEGMENTS: usize = 512;
pub const RUNS: usize = 96;
/// Bounds of the tree of stacks.
const DEPTH: usize = 24;
const CHILDREN: usize = 24;
/// Stacks of the tree, those with the most bytes. What others have is summed up at their outermost line.
const STACKS: usize = 20_000;
/// Devices of one file: PyTorch knows of no more in a process.
pub(super) const DEVICES: usize = 128;

/// What a snapshot tells, a device each: the one that failed first leads, else the one that has the most.
pub fn filled(dump: &Dump, file: &str) -> Vec<Filled> {
    let mut devices: Vec<u32> = dump.segments.iter().map(|segment| segment.device).collect();
    let traced = dump.traces.iter().zip(0..).filter(|(trace, _)| !trace.is_empty()).map(|(_, device)| device);
    devices.extend(traced);
    devices.sort_unstable();
    devices.dedup();
    devices.truncate(DEVICES);
    let mut all: Vec<Filled> = devices.into_iter().map(|device| of_device(dump, device, file)).collect();
    lead_with_the_first_failure(&mut all);
    all
}

/// Sorts by the time of the failure; what did not fail comes last, the one that has the most first.
pub fn lead_with_the_first_failure(all: &mut [Filled]) {
    all.sort_by_key(|filled| {
        let failed_at = filled.request.as_ref().map(|request| request.time_us.unwrap_or(u64::MAX));
        (failed_at.is_none(), failed_at, Reverse(filled.reserved_at_least()))
    });
}

fn of_device(dump: &Dump, device: u32, file: &str) -> Filled {
    let segments: Vec<&Segment> = dump.segments.iter().filter(|segment| segment.device == device).collect();
    let actions = dump.traces.get(device as usize).map(Vec::as_slice).unwrap_or_default();
    let annotations: Vec<&Annotation> = dump.annotations.iter().filter(|mark| mark.device == device).collect();
    let by_address = history::stacks_by_address(actions);
    let mut lines = Lines::new(&dump.stacks);
    let failed = actions.iter().enumerate().rfind(|(_, action)| action.kind == ActionKind::Oom);
    let wanted = failed.map(|(_, action)| Wanted::of(action));
    let request = failed.map(|(place, action)| FailedRequest {
        failed_before: count(actions.get(..place).unwrap_or_default(), ActionKind::Oom),
        ..request(action, &mut lines)
    });
    let stack_of = |block: &Block| match block.stack {
        stack if stack == StackId::default() => by_address.get(&block.address).copied().unwrap_or_default(),
        stack => stack,
    };
    let kept: Vec<Kept> = allocated(&segments).map(|block| Kept::of(block, stack_of(block))).collect();
    let totals = Totals {
        has_expandable_segments: has_expandable_segments(dump, &segments),
        ..totals(&segments, wanted.as_ref())
    };
    let told = history::read(&segments, actions, &annotations, &dump.stacks, &by_address, &mut lines);
    let mut filled = Filled {
        file: file.to_owned(),
        rank: rank_of(file),
        device,
        request,
        allocated_bytes: totals.allocated_bytes,
        totals: Some(totals),
        alive: alive(&kept, &mut lines),
        unusable: unusable(&segments, wanted.as_ref(), stack_of, &mut lines),
        last_actions: last_actions(actions, failed.map(|(place, _)| place), &mut lines),
        growth: told.growth,
        peak: told.peak,
        timeline: told.timeline,
        tree: tree(&kept, &mut lines),
        map: map(&segments),
        actions_left_out: dump.left_out,
        ..Filled::default()
    };
    filled.findings = findings::find(&filled);
    filled.sentence = sentence::say(&filled);
    filled
}

/// The rank in a file's name: `oom_rank3.pickle`, `rank_3-snapshot.pickle`.
pub(super) fn rank_of(file: &str) -> Option<u32> {
    let name = file.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    let (_, behind) = name.split_once("rank")?;
    let digits: String = behind.trim_start_matches(['_', '-']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn count(actions: &[Action], kind: ActionKind) -> u64 {
    actions.iter().filter(|action| action.kind == kind).count() as u64
}

/// What the request that failed could have been served from.
struct Wanted {
    bytes: Bytes,
    pool: Pool,
    stream: u64,
    is_small: bool,
}

impl Wanted {
    fn of(action: &Action) -> Wanted {
        let (bytes, stream) = (action.size, action.stream);
        Wanted { bytes, pool: action.pool.unwrap_or_default(), stream, is_small: bytes <= SMALL }
    }

    /// Why a segment's memory cannot serve it, whatever its pieces are.
    fn is_barred_by(&self, segment: &Segment) -> Option<WhyUnusable> {
        match segment {
            Segment { pool, .. } if *pool != self.pool => Some(WhyUnusable::OtherPool),
            Segment { stream, .. } if *stream != self.stream => Some(WhyUnusable::OtherStream),
            Segment { is_small, .. } if *is_small != self.is_small => Some(WhyUnusable::OtherSize),
            _ => None,
        }
    }
}

/// Why a segment's memory is of no use, apart from the size of its pieces.
fn barred(segment: &Segment, wanted: Option<&Wanted>) -> Option<WhyUnusable> {
    match wanted {
        Some(wanted) => wanted.is_barred_by(segment),
        None => (segment.pool != Pool::EVERYBODYS).then_some(WhyUnusable::OtherPool),
    }
}

fn request(action: &Action, lines: &mut Lines<'_>) -> FailedRequest {
    let own = lines.own(action.stack);
    FailedRequest {
        bytes: action.size,
        free_bytes: Bytes(action.place),
        at: lines.line(own),
        inner: lines.inner(action.stack),
        stream: action.stream,
        time_us: action.micros,
        failed_before: 0,
        stack: lines.python(action.stack),
    }
}

fn has_expandable_segments(dump: &Dump, segments: &[&Segment]) -> Option<bool> {
    let has_one = segments.iter().any(|segment| segment.is_expandable);
    let config = dump.settings.config.as_deref().unwrap_or_default().to_ascii_lowercase();
    let is_set = has_one || config.contains("expandable_segments:true");
    if is_set { Some(true) } else { dump.settings.expandable_segments }
}

fn totals(segments: &[&Segment], wanted: Option<&Wanted>) -> Totals {
    let mut totals = Totals { segments: segments.len() as u64, ..Totals::default() };
    let mut requested = Some(Bytes::ZERO);
    for segment in segments {
        totals.reserved_bytes = totals.reserved_bytes.plus(segment.total);
        let is_usable = barred(segment, wanted).is_none();
        for block in &segment.blocks {
            match block.state {
                State::Allocated => totals.allocated_bytes = totals.allocated_bytes.plus(block.size),
                State::PendingFree => totals.pending_free_bytes = totals.pending_free_bytes.plus(block.size),
                State::Inactive => {
                    totals.inactive_bytes = totals.inactive_bytes.plus(block.size);
                    totals.largest_inactive_bytes = totals.largest_inactive_bytes.max(block.size);
                    if segment.pool != Pool::EVERYBODYS {
                        totals.locked_bytes = totals.locked_bytes.plus(block.size);
                    }
                    if is_usable {
                        totals.usable_bytes = totals.usable_bytes.plus(block.size);
                        totals.largest_usable_bytes = totals.largest_usable_bytes.max(block.size);
                        totals.movable_bytes = totals.movable_bytes.plus(whole_pages(block.size));
                    }
                }
            }
            if block.state != State::Inactive {
                requested = requested.zip(block.requested).map(|(sum, bytes)| sum.plus(bytes));
            }
        }
    }
    totals.active_bytes = totals.allocated_bytes.plus(totals.pending_free_bytes);
    totals.requested_bytes =
        requested.filter(|requested| *requested > Bytes::ZERO || totals.active_bytes == Bytes::ZERO);
    totals.rounding_bytes = totals.requested_bytes.map(|requested| totals.active_bytes.less(requested));
    totals
}

/// The pages that lie wholly in a piece of this size, wherever it begins.
fn whole_pages(piece: Bytes) -> Bytes {
    Bytes((piece.0 / PAGE).saturating_sub(1) * PAGE)
}

/// What is summed up of blocks that belong together.
#[derive(Clone, Debug, Default)]
struct Sum {
    bytes: Bytes,
    count: u64,
    largest: Bytes,
}

impl Sum {
    fn add(&mut self, bytes: Bytes) {
        self.add_all(bytes, 1);
    }

    /// Adds so many blocks, whose sum is known.
    fn add_all(&mut self, bytes: Bytes, count: u64) {
        self.bytes = self.bytes.plus(bytes);
        self.count = self.count.saturating_add(count);
        self.largest = self.largest.max(Bytes(bytes.0.div_ceil(count.max(1))));
    }
}

/// What is allocated by one call stack: one block, or as many as the file has the sum of.
pub(super) struct Kept {
    pub stack: StackId,
    pub bytes: Bytes,
    pub count: u64,
}

impl Kept {
    fn of(block: &Block, stack: StackId) -> Kept {
        Kept { stack, bytes: block.size, count: 1 }
    }
}

/// The groups, that with the most bytes first; ties by their key, so that the order is always the same.
fn largest_first<K: Ord + Copy + Hash>(sums: HashMap<K, Sum>) -> Vec<(K, Sum)> {
    let mut sums: Vec<(K, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(key, sum)| (Reverse(sum.bytes), *key));
    sums
}

pub(super) fn alive(kept: &[Kept], lines: &mut Lines<'_>) -> Vec<Alive> {
    let mut sums: HashMap<LineId, Sum> = HashMap::new();
    let mut stacks: HashMap<(LineId, StackId), Bytes> = HashMap::new();
    for Kept { stack, bytes, count } in kept {
        let line = lines.own(*stack);
        sums.entry(line).or_default().add_all(*bytes, *count);
        let of_stack = stacks.entry((line, *stack)).or_default();
        *of_stack = of_stack.plus(*bytes);
    }
    let mut main: HashMap<LineId, (Bytes, Reverse<StackId>)> = HashMap::new();
    for ((line, stack), bytes) in stacks {
        let most = main.entry(line).or_default();
        *most = (*most).max((bytes, Reverse(stack)));
    }
    let rows = largest_first(sums).into_iter().take(ROWS);
    rows.map(|(line, sum)| Alive {
        at: lines.line(line),
        inner: main.get(&line).and_then(|(_, Reverse(stack))| lines.inner(*stack)),
        bytes: sum.bytes,
        blocks: sum.count,
        largest_bytes: sum.largest,
    })
    .collect()
}

fn allocated<'a>(segments: &[&'a Segment]) -> impl Iterator<Item = &'a Block> {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.state == State::Allocated)
}

/// Segments that are alike: of one pool and stream, unusable for one reason, with most of what is in them from one line.
type Alike = (Pool, u64, WhyUnusable, LineId);

fn unusable(
    segments: &[&Segment],
    wanted: Option<&Wanted>,
    stack_of: impl Fn(&Block) -> StackId,
    lines: &mut Lines<'_>,
) -> Vec<Unused> {
    let mut pieces: HashMap<Alike, Sum> = HashMap::new();
    let mut wholes: HashMap<Alike, Sum> = HashMap::new();
    for segment in segments {
        let beside = main_line(segment, &stack_of, lines);
        let why = barred(segment, wanted);
        let mut found: HashMap<WhyUnusable, Sum> = HashMap::new();
        for block in &segment.blocks {
            let why = match (block.state, why, wanted) {
                (State::Allocated, ..) => continue,
                (State::PendingFree, ..) => WhyUnusable::PendingFree,
                (_, Some(why), _) => why,
                (_, None, Some(wanted)) if block.size < wanted.bytes => WhyUnusable::InPieces,
                _ => WhyUnusable::Nothing,
            };
            found.entry(why).or_default().add(block.size);
        }
        for (why, sum) in found {
            let alike = (segment.pool, segment.stream, why, beside);
            let all = pieces.entry(alike).or_default();
            (all.bytes, all.largest) = (all.bytes.plus(sum.bytes), all.largest.max(sum.largest));
            wholes.entry(alike).or_default().add(segment.total);
        }
    }
    let rows = largest_first(pieces).into_iter().take(ROWS);
    rows.map(|(alike, sum)| {
        let (pool, stream, why, beside) = alike;
        let whole = wholes.get(&alike).cloned().unwrap_or_default();
        Unused {
            beside: lines.line(beside),
            bytes: sum.bytes,
            largest_bytes: sum.largest,
            segments: whole.count,
            reserved_bytes: whole.bytes,
            pool,
            stream,
            why,
        }
    })
    .collect()
}

/// The line that has most of what is allocated in a segment.
fn main_line(segment: &Segment, stack_of: impl Fn(&Block) -> StackId, lines: &mut Lines<'_>) -> LineId {
    let mut sums: HashMap<LineId, Sum> = HashMap::new();
    for block in allocated(&[segment]) {
        sums.entry(lines.own(stack_of(block))).or_default().add(block.size);
    }
    largest_first(sums).first().map(|(line, _)| *line).unwrap_or_default()
}

fn last_actions(actions: &[Action], failed_at: Option<usize>, lines: &mut Lines<'_>) -> Vec<Did> {
    let before = actions.get(..failed_at.unwrap_or(actions.len())).unwrap_or_default();
    let last = before.get(before.len().saturating_sub(LAST_ACTIONS)..).unwrap_or_default();
    let did = last.iter().map(|action| {
        let line = lines.own(action.stack);
        Did {
            action: action.kind,
            bytes: action.size,
            at: lines.line(line),
            stream: action.stream,
            time_us: action.micros,
        }
    });
    did.collect()
}

/// A tree of stacks while it grows: each node with its children by line.
#[derive(Default)]
struct Branch {
    sum: Sum,
    children: HashMap<LineId, Branch>,
}

impl Branch {
    fn add(&mut self, path: &[LineId], of_stack: &Sum) {
        self.sum.add_all(of_stack.bytes, of_stack.count);
        if let Some((first, rest)) = path.split_first() {
            self.children.entry(*first).or_default().add(rest, of_stack);
        }
    }

    fn nodes(self, lines: &Lines<'_>) -> Vec<Node> {
        let mut children: Vec<(LineId, Branch)> = self.children.into_iter().collect();
        children.sort_by_key(|(line, branch)| (Reverse(branch.sum.bytes), *line));
        let nodes = children.into_iter().take(CHILDREN).map(|(line, branch)| Node {
            at: lines.line(line),
            bytes: branch.sum.bytes,
            blocks: branch.sum.count,
            children: branch.nodes(lines),
        });
        nodes.collect()
    }
}

pub(super) fn tree(kept: &[Kept], lines: &mut Lines<'_>) -> Vec<Node> {
    let mut of_stacks: HashMap<StackId, Sum> = HashMap::new();
    for one in kept {
        of_stacks.entry(one.stack).or_default().add_all(one.bytes, one.count);
    }
    let mut root = Branch::default();
    for (place, (stack, sum)) in largest_first(of_stacks).into_iter().enumerate() {
        let depth = if place < STACKS { DEPTH } else { 1 };
        root.add(&lines.own_path(stack, depth), &sum);
    }
    root.nodes(lines)
}

fn map(segments: &[&Segment]) -> Vec<MapRow> {
    let mut segments = segments.to_vec();
    segments.sort_by_key(|segment| (Reverse(segment.total), segment.address));
    segments.into_iter().take(SEGMENTS).map(map_row).collect()
}

fn map_row(segment: &Segment) -> MapRow {
    let inactive = segment.blocks.iter().filter(|block| block.state == State::Inactive);
    MapRow {
        total: segment.total,
        pool: segment.pool,
        stream: segment.stream,
        is_small: segment.is_small,
        is_expandable: segment.is_expandable,
        inactive: inactive.fold(Bytes::ZERO, |sum, block| sum.plus(block.size)),
        runs: stretches(&segment.blocks),
    }
}

/// The blocks with neighbors in the same state joined. The smallest stretches go into the one before, where there are more
/// than are shown.
fn stretches(blocks: &[Block]) -> Vec<Stretch> {
    let mut runs = joined(blocks.iter().map(|block| Stretch { state: block.state, bytes: block.size }));
    let mut smallest = 1_u64;
    while runs.len() > RUNS
        && let Some(larger) = smallest.checked_mul(4)
    {
        smallest = larger;
        runs = without_smaller_than(Bytes(smallest), &runs);
    }
    // No GPU has so much memory; the rest of such a map would say nothing.
    runs.truncate(RUNS);
    runs
}

fn joined(stretches: impl Iterator<Item = Stretch>) -> Vec<Stretch> {
    let mut runs: Vec<Stretch> = Vec::new();
    for next in stretches {
        match runs.last_mut().filter(|last| last.state == next.state) {
            Some(last) => last.bytes = last.bytes.plus(next.bytes),
            None => runs.push(next),
        }
    }
    runs
}

fn without_smaller_than(least: Bytes, runs: &[Stretch]) -> Vec<Stretch> {
    let mut state = runs.first().map(|first| first.state).unwrap_or_default();
    joined(runs.iter().map(|run| {
        if run.bytes >= least {
            state = run.state;
        }
        Stretch { state, bytes: run.bytes }
    }))
}

/// The line of the program's own code, as it is shown; "code that was not recorded" without one.
pub fn line_in_words(line: Option<&CodeLine>) -> String {
    line.map_or_else(|| "code without a recorded stack".to_owned(), CodeLine::to_string)
}
