//! Owns what the recorded actions tell: the peak, the timeline and what grew. The beginning of the record may be cut, so
//! that everything is counted backwards from the segments at the end.

use std::collections::HashMap;

use super::lines::{LineId, Lines};
use super::told::{AtPeak, Growth, Moment, Peak};
use super::{Action, ActionKind, Annotation, Segment, StackId, Stacks, State};
use crate::units::Bytes;

/// Points of the timeline at most.
const POINTS: usize = 512;
/// Lines shown at the peak.
const AT_PEAK: usize = 5;
/// Memory that rises at so many points, one after the other, is not freed.
const RISES: usize = 5;
/// Steps that are looked at, from the end.
const STEPS: usize = 16;
/// Where the program marks no steps, the record is divided into so many parts of as many allocations each.
const PARTS: usize = 10;
const ALLOCATIONS_A_PART: usize = 10;
/// Less growth than this, or than this share of what is reserved, explains no failure.
const SMALLEST_GROWTH: Bytes = Bytes::mib(16);
const SMALLEST_GROWTH_PERCENT: u64 = 1;
/// What the profiler calls the beginning of a step.
const STEP: &str = "ProfilerStep#";

/// What the actions of a device tell.
#[derive(Debug, Default)]
pub(super) struct History {
    pub peak: Option<Peak>,
    pub timeline: Vec<Moment>,
    pub growth: Vec<Growth>,
}

/// What is allocated at an address.
#[derive(Clone, Copy, Debug)]
struct Live {
    bytes: Bytes,
    line: LineId,
}

/// The walk backwards through the actions of a device.
struct Walk<'a> {
    actions: &'a [Action],
    /// The line that had allocated what the action freed, by the action's place.
    freed: &'a [LineId],
    live: HashMap<u64, Live>,
    allocated: Bytes,
    reserved: Bytes,
}

/// What a step backwards changed: a line's allocations, by so much.
enum Change {
    None,
    /// It has less before this action.
    Less(Live),
    /// It has more.
    More(Live),
}

impl<'a> Walk<'a> {
    fn new(segments: &[&Segment], actions: &'a [Action], freed: &'a [LineId], blocks: &HashMap<u64, Live>) -> Walk<'a> {
        let allocated = blocks.values().fold(Bytes::ZERO, |sum, live| sum.plus(live.bytes));
        let reserved = segments.iter().fold(Bytes::ZERO, |sum, segment| sum.plus(segment.total));
        Walk { actions, freed, live: blocks.clone(), allocated, reserved }
    }

    /// Undoes the action at this place.
    fn undo(&mut self, place: usize) -> Change {
        let Some(action) = self.actions.get(place) else { return Change::None };
        match action.kind {
            ActionKind::Alloc => {
                let Some(live) = self.live.remove(&action.place) else { return Change::None };
                self.allocated = self.allocated.less(live.bytes);
                return Change::Less(live);
            }
            ActionKind::FreeCompleted => {
                let line = self.freed.get(place).copied().unwrap_or_default();
                let live = Live { bytes: action.size, line };
                // An address that is in use already shows that the record has a gap.
                if self.live.contains_key(&action.place) {
                    return Change::None;
                }
                self.live.insert(action.place, live);
                self.allocated = self.allocated.plus(live.bytes);
                return Change::More(live);
            }
            ActionKind::SegmentAlloc | ActionKind::SegmentMap => self.reserved = self.reserved.less(action.size),
            ActionKind::SegmentFree | ActionKind::SegmentUnmap => self.reserved = self.reserved.plus(action.size),
            _ => {}
        }
        Change::None
    }
}

/// The stack of the last allocation at each address that is still in use.
pub(super) fn stacks_by_address(actions: &[Action]) -> HashMap<u64, StackId> {
    let mut stacks = HashMap::new();
    for action in actions {
        match action.kind {
            ActionKind::Alloc => {
                stacks.insert(action.place, action.stack);
            }
            ActionKind::FreeCompleted => {
                stacks.remove(&action.place);
            }
            _ => {}
        }
    }
    stacks
}

/// Which line had allocated what each action frees.
fn freed_lines(actions: &[Action], lines: &mut Lines<'_>) -> Vec<LineId> {
    let mut at: HashMap<u64, LineId> = HashMap::new();
    let mut freed = vec![LineId::UNKNOWN; actions.len()];
    for (action, freed) in actions.iter().zip(&mut freed) {
        match action.kind {
            ActionKind::Alloc => {
                at.insert(action.place, lines.own(action.stack));
            }
            ActionKind::FreeCompleted => *freed = at.remove(&action.place).unwrap_or_default(),
            _ => {}
        }
    }
    freed
}

/// What is in use at the end, by address.
fn live_at_the_end(segments: &[&Segment], stacks: &HashMap<u64, StackId>, lines: &mut Lines<'_>) -> HashMap<u64, Live> {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks).filter(|block| block.state != State::Inactive);
    blocks
        .map(|block| {
            let stack = if block.stack == StackId::default() { stacks.get(&block.address) } else { Some(&block.stack) };
            let line = stack.map_or(LineId::UNKNOWN, |stack| lines.own(*stack));
            (block.address, Live { bytes: block.requested.unwrap_or(block.size), line })
        })
        .collect()
}

/// Reads the history of one device.
pub(super) fn read(
    segments: &[&Segment],
    actions: &[Action],
    annotations: &[&Annotation],
    stacks: &Stacks,
    by_address: &HashMap<u64, StackId>,
    lines: &mut Lines<'_>,
) -> History {
    if actions.is_empty() {
        return History::default();
    }
    let freed = freed_lines(actions, lines);
    let blocks = live_at_the_end(segments, by_address, lines);
    let (timeline, peak_at) = timeline(Walk::new(segments, actions, &freed, &blocks));
    let (points, is_by_step) = match steps(actions, annotations, stacks) {
        steps if steps.len() > RISES => (steps, true),
        _ => (parts(actions), false),
    };
    let mut held = Held::new(lines.count(), &blocks);
    let mut walk = Walk::new(segments, actions, &freed, &blocks);
    let mut peak = None;
    for after in (0..=actions.len()).rev() {
        if after == peak_at {
            peak = Some(peak_of(&walk, &held, actions, after, lines));
        }
        if points.contains(&after) {
            held.end_of_part();
        }
        let Some(place) = after.checked_sub(1) else { break };
        held.note(&walk.undo(place));
    }
    let least = Bytes(SMALLEST_GROWTH.0.max(reserved(segments).0 / 100 * SMALLEST_GROWTH_PERCENT));
    let growth = held.growth(least, is_by_step, lines);
    History { peak, timeline, growth }
}

fn reserved(segments: &[&Segment]) -> Bytes {
    segments.iter().fold(Bytes::ZERO, |sum, segment| sum.plus(segment.total))
}

/// The timeline, and after how many actions the peak is; the earliest where there are several.
fn timeline(mut walk: Walk<'_>) -> (Vec<Moment>, usize) {
    let states = walk.actions.len() + 1;
    let mut points: Vec<Moment> = vec![Moment::default(); states.min(POINTS)];
    let (mut most, mut peak_at) = (Bytes::ZERO, walk.actions.len());
    for after in (0..states).rev() {
        if walk.allocated >= most {
            (most, peak_at) = (walk.allocated, after);
        }
        let number = points.len();
        if let Some(point) = points.get_mut(after * number / states) {
            let time_us = time_at(walk.actions, after);
            let is_new = *point == Moment::default();
            if is_new || walk.allocated >= point.allocated {
                let (allocated, reserved) = (walk.allocated, walk.reserved);
                *point = Moment { after_actions: after as u64, time_us, allocated, reserved };
            }
        }
        if let Some(place) = after.checked_sub(1) {
            walk.undo(place);
        }
    }
    (points, peak_at)
}

/// The time after so many actions; before the first one its own.
fn time_at(actions: &[Action], after: usize) -> Option<u64> {
    actions.get(after.saturating_sub(1))?.micros
}

fn peak_of(walk: &Walk<'_>, held: &Held, actions: &[Action], after: usize, lines: &Lines<'_>) -> Peak {
    let mut alive: Vec<(LineId, Bytes)> = held.now.iter().map(|(line, bytes)| (*line, *bytes)).collect();
    alive.retain(|(_, bytes)| *bytes > Bytes::ZERO);
    alive.sort_by_key(|(line, bytes)| (std::cmp::Reverse(*bytes), *line));
    let alive = alive.into_iter().take(AT_PEAK).map(|(line, bytes)| AtPeak { at: lines.line(line), bytes });
    Peak {
        bytes: walk.allocated,
        after_actions: after as u64,
        time_us: time_at(actions, after),
        alive: alive.collect(),
    }
}

/// After how many actions each step began, of the last ones.
fn steps(actions: &[Action], annotations: &[&Annotation], stacks: &Stacks) -> Vec<usize> {
    let starts = annotations.iter().filter(|mark| mark.is_start && stacks.text(mark.name).starts_with(STEP));
    let mut starts: Vec<u64> = starts.map(|mark| mark.micros).collect();
    starts.sort_unstable();
    let first = actions.iter().find_map(|action| action.micros).unwrap_or(u64::MAX);
    let places = starts
        .into_iter()
        .filter(|start| *start >= first)
        .map(|start| actions.partition_point(|action| action.micros.is_some_and(|micros| micros < start)));
    let mut places: Vec<usize> = places.collect();
    places.dedup();
    places.split_off(places.len().saturating_sub(STEPS))
}

/// After how many actions each part of as many allocations begins. None where too little is freed for one part to be like
/// another, as while a model is loaded.
fn parts(actions: &[Action]) -> Vec<usize> {
    let count = |kind| actions.iter().filter(|action| action.kind == kind).count();
    let (allocations, freed) = (count(ActionKind::Alloc), count(ActionKind::FreeCompleted));
    if allocations < PARTS * ALLOCATIONS_A_PART || freed * 2 < allocations {
        return Vec::new();
    }
    let places = actions.iter().enumerate().filter(|(_, action)| action.kind == ActionKind::Alloc);
    places.map(|(place, _)| place).step_by(allocations.div_ceil(PARTS)).collect()
}

/// What each line has allocated while the walk goes backwards, and the least it had in each part.
struct Held {
    now: HashMap<LineId, Bytes>,
    least: HashMap<LineId, Bytes>,
    /// The parts that were walked through, the newest first.
    parts: Vec<HashMap<LineId, Bytes>>,
}

impl Held {
    fn new(lines: usize, blocks: &HashMap<u64, Live>) -> Held {
        let mut now = HashMap::with_capacity(lines);
        for live in blocks.values() {
            let bytes: &mut Bytes = now.entry(live.line).or_default();
            *bytes = bytes.plus(live.bytes);
        }
        Held { least: now.clone(), now, parts: Vec::new() }
    }

    fn note(&mut self, change: &Change) {
        let (line, bytes) = match change {
            Change::None => return,
            Change::Less(live) => (live.line, self.now.get(&live.line).copied().unwrap_or_default().less(live.bytes)),
            Change::More(live) => (live.line, self.now.get(&live.line).copied().unwrap_or_default().plus(live.bytes)),
        };
        self.now.insert(line, bytes);
        let least = self.least.entry(line).or_default();
        *least = bytes.min(*least);
    }

    fn end_of_part(&mut self) {
        let least = std::mem::replace(&mut self.least, self.now.clone());
        self.parts.push(least);
    }

    /// The lines that rose from part to part up to the end, the steepest first.
    fn growth(&self, least: Bytes, is_by_step: bool, lines: &Lines<'_>) -> Vec<Growth> {
        let Some(newest) = self.parts.first() else { return Vec::new() };
        let mut growth: Vec<Growth> = newest
            .keys()
            .filter_map(|line| {
                let series: Vec<Bytes> =
                    self.parts.iter().map(|part| part.get(line).copied().unwrap_or_default()).collect();
                let points =
                    series.windows(2).take_while(|pair| matches!(pair, [newer, older] if newer > older)).count();
                let (to, from) = (*series.first()?, *series.get(points)?);
                let is_enough = points >= RISES && to.less(from) >= least;
                if !is_enough {
                    return None;
                }
                let points = points as u64;
                Some(Growth { at: lines.line(*line)?, from_bytes: from, to_bytes: to, points, is_by_step })
            })
            .collect();
        growth.sort_by(|one, other| {
            let (one_bytes, other_bytes) = (one.to_bytes.less(one.from_bytes), other.to_bytes.less(other.from_bytes));
            other_bytes.cmp(&one_bytes).then_with(|| one.at.cmp(&other.at))
        });
        growth
    }
}
