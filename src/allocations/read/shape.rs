//! Owns the shape of a snapshot: what each dictionary and list of it becomes, as soon as it is filled. No tree of the file
//! is built: a frame becomes a number, a list of frames a stack, a dictionary with an action an `Action`. What is unknown
//! is dropped. Pickle and JSON both end here.

use std::collections::{HashMap, VecDeque};
use std::mem;

use strum::{FromRepr, IntoStaticStr, VariantArray};

use super::refusal::Refusal;
use crate::allocations::{
    Action, ActionKind, Annotation, Block, Dump, Frame, Gathering, Pool, Segment, Settings, StackId, State, TextId,
};
use crate::units::Bytes;

/// Every word that the shape knows, keys and values. They are the first texts that are gathered, so a text's id tells
/// which word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u32)]
enum Word {
    Segments,
    DeviceTraces,
    Stage,
    Device,
    Address,
    TotalSize,
    Stream,
    SegmentType,
    SegmentPoolId,
    IsExpandable,
    Frames,
    Blocks,
    Size,
    RequestedSize,
    State,
    History,
    RealSize,
    Name,
    Filename,
    Line,
    Action,
    Addr,
    DeviceFree,
    TimeUs,
    PoolId,
    #[strum(serialize = "PYTORCH_CUDA_ALLOC_CONF")]
    Config,
    ExpandableSegments,
    MaxSplitSize,
    GarbageCollectionThreshold,
    // Values.
    #[strum(serialize = "START")]
    Start,
    Small,
    ActiveAllocated,
    ActivePendingFree,
    ActiveAwaitingFree,
    Inactive,
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
}

impl Word {
    fn of(text: TextId) -> Option<Word> {
        Word::from_repr(text.0.checked_sub(1)?)
    }
}

/// What lies on the stack of operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// None, and all that says nothing here.
    Nothing,
    Bool(bool),
    Number(u64),
    Negative,
    Float(f64),
    Text(TextId),
    Frame(u32),
    Pool(u32),
    /// A place in `things`.
    Thing(u32),
}

/// What a dictionary or a list has become. It can be referred to again, so each has a place. Numbers are places in the
/// list of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Dictionary,
    /// A dictionary that was filled one by one with keys that do not tell what it is yet.
    Loose(u32),
    List,
    Text(TextId),
    Frame(u32),
    Stack(StackId),
    Pool(u32),
    Action,
    Trace(u32),
    Block,
    Blocks(u32),
    Earlier,
    History(u32),
    Segment,
    Segments(u32),
    Lists(u32),
    Whole,
    Other,
}

/// How much memory reading may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// What actions and stacks take before only the last actions are kept, in bytes.
    pub(super) budget: usize,
    /// How many actions of a device are kept then.
    pub(super) kept: usize,
    /// What texts and frames may take, in bytes.
    pub(super) texts: usize,
    /// How many dictionaries and lists there may be.
    pub(super) things: usize,
    /// How many values may wait to be put into a list or a dictionary.
    pub(super) waiting: usize,
    /// How many lists and dictionaries may be open in each other.
    pub(super) depth: usize,
    /// How many frames may be copied because a call stack comes in pieces: Python writes a thousand frames in one.
    pub(super) copied: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            budget: 384 << 20,
            kept: 200_000,
            texts: 256 << 20,
            things: 96 << 20,
            waiting: 24 << 20,
            depth: 64,
            copied: 16 << 20,
        }
    }
}

/// A block as it is written: only newer versions have its address.
#[derive(Debug)]
struct Draft {
    block: Block,
    has_address: bool,
}

#[derive(Debug, Default)]
struct Trace {
    actions: VecDeque<Action>,
    left_out: u64,
}

/// A snapshot while it is read.
#[derive(Debug)]
pub(super) struct Shape {
    bounds: Bounds,
    gathering: Gathering,
    operands: Vec<Value>,
    marks: Vec<u32>,
    things: Vec<Thing>,
    pools: Vec<Pool>,
    pool_places: HashMap<Pool, u32>,
    loose: Vec<Vec<(Word, Value)>>,
    lists: Vec<Vec<Value>>,
    /// The known keys of the dictionary that is filled now.
    known: Vec<(Word, Value)>,
    // Those that no list has yet, and the lists.
    blocks: Vec<Draft>,
    block_lists: Vec<Vec<Draft>>,
    segments: Vec<Segment>,
    segment_lists: Vec<Vec<Segment>>,
    earlier: Vec<(Option<Bytes>, StackId)>,
    histories: Vec<(Option<Bytes>, StackId)>,
    actions: VecDeque<Action>,
    actions_left_out: u64,
    traces: Vec<Trace>,
    actions_read: usize,
    is_over_budget: bool,
    frames_copied: usize,
    /// What the stacks may take before those that nothing refers to are dropped, in bytes.
    stacks_bound: usize,
    annotations: Vec<Annotation>,
    settings: Settings,
    whole: Option<(Vec<Segment>, Vec<Trace>)>,
    /// Where the input ended.
    pub(super) end: u64,
}

type Outcome = Result<(), &'static str>;

const NOTHING_TO_TAKE: &str = "an opcode has nothing to take";
const TOO_MANY: &str = "it has more items than fit in memory,";

impl Shape {
    pub(super) fn within(bounds: Bounds) -> Shape {
        let mut gathering = Gathering::default();
        for word in Word::VARIANTS {
            gathering.text(word.into());
        }
        Shape {
            bounds,
            gathering,
            operands: Vec::new(),
            marks: Vec::new(),
            things: Vec::new(),
            pools: Vec::new(),
            pool_places: HashMap::new(),
            loose: Vec::new(),
            lists: Vec::new(),
            known: Vec::new(),
            blocks: Vec::new(),
            block_lists: Vec::new(),
            segments: Vec::new(),
            segment_lists: Vec::new(),
            earlier: Vec::new(),
            histories: Vec::new(),
            actions: VecDeque::new(),
            actions_left_out: 0,
            traces: Vec::new(),
            actions_read: 0,
            is_over_budget: false,
            frames_copied: 0,
            stacks_bound: 0,
            annotations: Vec::new(),
            settings: Settings::default(),
            whole: None,
            end: 0,
        }
    }

    pub(super) fn push(&mut self, value: Value) -> Outcome {
        if self.operands.len() >= self.bounds.waiting {
            return Err(TOO_MANY);
        }
        self.operands.push(value);
        Ok(())
    }

    pub(super) fn mark(&mut self) -> Outcome {
        if self.marks.len() >= self.bounds.depth {
            return Err("it is nested more than 64 deep");
        }
        self.marks.push(place(self.operands.len()));
        Ok(())
    }

    /// How many values wait since the last mark, which is taken away.
    pub(super) fn since_mark(&mut self) -> Result<usize, &'static str> {
        let mark = self.marks.pop().ok_or(NOTHING_TO_TAKE)?;
        self.operands.len().checked_sub(mark as usize).ok_or(NOTHING_TO_TAKE)
    }

    pub(super) fn text(&mut self, text: &str) -> Outcome {
        let id = self.gathering.text(text);
        if self.gathering.text_bytes() > self.bounds.texts {
            return Err("its texts are longer than fit in memory,");
        }
        self.push(Value::Text(id))
    }

    pub(super) fn empty_dictionary(&mut self) -> Outcome {
        let thing = self.new_thing(Thing::Dictionary)?;
        self.push(thing)
    }

    pub(super) fn empty_list(&mut self) -> Outcome {
        let thing = self.new_thing(Thing::List)?;
        self.push(thing)
    }

    fn new_thing(&mut self, thing: Thing) -> Result<Value, &'static str> {
        if self.things.len() >= self.bounds.things {
            return Err(TOO_MANY);
        }
        self.things.push(thing);
        Ok(Value::Thing(place(self.things.len() - 1)))
    }

    /// A place for what lies on top of the stack, so that it can be referred to.
    pub(super) fn remembered(&mut self) -> Result<u32, &'static str> {
        let thing = match self.operands.last().ok_or(NOTHING_TO_TAKE)? {
            Value::Thing(place) => return Ok(*place),
            Value::Text(text) => Thing::Text(*text),
            Value::Frame(frame) => Thing::Frame(*frame),
            Value::Pool(pool) => Thing::Pool(*pool),
            Value::Nothing | Value::Bool(_) | Value::Number(_) | Value::Negative | Value::Float(_) => Thing::Other,
        };
        self.new_thing(thing)?;
        Ok(place(self.things.len() - 1))
    }

    /// Pushes what was remembered.
    pub(super) fn again(&mut self, place: u32) -> Outcome {
        let value = match self.things.get(place as usize) {
            Some(Thing::Frame(frame)) => Value::Frame(*frame),
            Some(Thing::Text(text)) => Value::Text(*text),
            Some(Thing::Pool(pool)) => Value::Pool(*pool),
            _ => Value::Thing(place),
        };
        self.push(value)
    }

    /// Makes a tuple of the last values: a pool's id is one of two numbers.
    pub(super) fn tuple(&mut self, count: usize) -> Outcome {
        let start = self.operands.len().checked_sub(count).ok_or(NOTHING_TO_TAKE)?;
        if (start as u64) < self.marks.last().copied().unwrap_or(0).into() {
            return Err(NOTHING_TO_TAKE);
        }
        let tuple = match self.operands.get(start..) {
            Some([Value::Number(first), Value::Number(second)]) => Some(Pool(*first, *second)),
            _ => None,
        };
        self.operands.truncate(start);
        let value = match tuple {
            Some(pool) => Value::Pool(self.pool(pool)),
            None => Value::Nothing,
        };
        self.push(value)
    }

    fn pool(&mut self, pool: Pool) -> u32 {
        let next = place(self.pools.len());
        let found = *self.pool_places.entry(pool).or_insert(next);
        if found == next {
            self.pools.push(pool);
        }
        found
    }

    /// Which thing the last `count` values are for, and where these begin.
    fn target(&self, count: usize) -> Result<(u32, usize), &'static str> {
        let start = self.operands.len().checked_sub(count).ok_or(NOTHING_TO_TAKE)?;
        let below = start.checked_sub(1).and_then(|below| self.operands.get(below));
        let floor = self.marks.last().copied().unwrap_or(0) as usize;
        match below {
            Some(Value::Thing(place)) if start > floor => Ok((*place, start)),
            _ => Err("an opcode has no list or dictionary to fill"),
        }
    }

    /// Puts the last `count` values into the list below them.
    pub(super) fn append(&mut self, count: usize) -> Outcome {
        let (list, start) = self.target(count)?;
        if count == 0 {
            return Ok(());
        }
        let before = self.thing(list);
        if !self.loose.is_empty() {
            self.settle(start);
        }
        let first = self.operands.get(start).map(|first| match first {
            Value::Thing(place) => self.thing(*place),
            Value::Frame(frame) => Thing::Frame(*frame),
            _ => Thing::Other,
        });
        let after = match (before, first) {
            (Thing::List | Thing::Stack(_), Some(Thing::Frame(_))) => self.append_frames(before, start)?,
            (Thing::List | Thing::Trace(_), Some(Thing::Action)) => self.append_actions(before, count),
            (Thing::List | Thing::Blocks(_), Some(Thing::Block)) => {
                let of_list = if let Thing::Blocks(of_list) = before { Some(of_list) } else { None };
                Thing::Blocks(append_last(&mut self.blocks, &mut self.block_lists, of_list, count))
            }
            (Thing::List | Thing::Segments(_), Some(Thing::Segment)) => {
                let of_list = if let Thing::Segments(of_list) = before { Some(of_list) } else { None };
                Thing::Segments(append_last(&mut self.segments, &mut self.segment_lists, of_list, count))
            }
            (Thing::List, Some(Thing::Earlier)) => {
                let first = self.earlier.len().saturating_sub(count);
                let newest = self.earlier.drain(first..).next();
                self.histories.extend(newest);
                Thing::History(place(self.histories.len().saturating_sub(1)))
            }
            (Thing::History(of_list), Some(Thing::Earlier)) => {
                self.earlier.truncate(self.earlier.len().saturating_sub(count));
                Thing::History(of_list)
            }
            (Thing::List | Thing::Lists(_), Some(Thing::List | Thing::Trace(_))) => {
                let values = self.operands.get(start..).unwrap_or_default();
                if let Thing::Lists(of_list) = before
                    && let Some(list) = self.lists.get_mut(of_list as usize)
                {
                    list.extend_from_slice(values);
                    before
                } else {
                    self.lists.push(values.to_vec());
                    Thing::Lists(place(self.lists.len() - 1))
                }
            }
            (Thing::List, Some(_)) => match self.operands.get(start..) {
                // JSON has no tuples.
                Some([Value::Number(first), Value::Number(second)]) => {
                    let pool = Pool(*first, *second);
                    Thing::Pool(self.pool(pool))
                }
                _ => Thing::Other,
            },
            // A list that began as something else keeps what it has.
            (before, _) => before,
        };
        self.operands.truncate(start);
        self.turn(list, after);
        Ok(())
    }

    /// Makes what was filled one by one.
    fn settle(&mut self, start: usize) {
        for at in start..self.operands.len() {
            if let Some(value) = self.operands.get(at) {
                self.of(*value);
            }
        }
    }

    /// A stack that comes in pieces is copied for each of them, so a file of many small pieces is refused.
    fn append_frames(&mut self, before: Thing, start: usize) -> Result<Thing, &'static str> {
        let mut places = if let Thing::Stack(stack) = before { self.gathering.places(stack) } else { Vec::new() };
        self.frames_copied += places.len();
        if self.frames_copied > self.bounds.copied {
            return Err("its call stacks come in too many pieces,");
        }
        let values = self.operands.get(start..).unwrap_or_default();
        let things = &self.things;
        let frames = values.iter().filter_map(|value| match value {
            Value::Frame(frame) => Some(*frame),
            Value::Thing(place) => match things.get(*place as usize) {
                Some(Thing::Frame(frame)) => Some(*frame),
                _ => None,
            },
            _ => None,
        });
        if places.is_empty() {
            return Ok(Thing::Stack(self.gathering.stack_of(frames)));
        }
        places.extend(frames);
        Ok(Thing::Stack(self.gathering.stack_of(places)))
    }

    fn append_actions(&mut self, before: Thing, count: usize) -> Thing {
        let of_list = if let Thing::Trace(of_list) = before {
            of_list
        } else {
            self.traces.push(Trace::default());
            place(self.traces.len() - 1)
        };
        let Some(trace) = self.traces.get_mut(of_list as usize) else { return before };
        let first = self.actions.len().saturating_sub(count);
        if trace.actions.is_empty() && first == 0 {
            trace.actions = mem::take(&mut self.actions);
        } else {
            trace.actions.extend(self.actions.drain(first..));
        }
        trace.left_out += mem::take(&mut self.actions_left_out);
        if self.is_over_budget {
            cut(&mut trace.actions, &mut trace.left_out, self.bounds.kept);
        }
        Thing::Trace(of_list)
    }

    /// Puts the last `count` values, key and value in turns, into the dictionary below them.
    pub(super) fn set(&mut self, count: usize) -> Outcome {
        self.put(count, true)
    }

    /// Puts one key and its value. No more is known of the dictionary before a list or another one takes it.
    pub(super) fn set_one(&mut self) -> Outcome {
        self.put(2, false)
    }

    fn put(&mut self, count: usize, is_whole: bool) -> Outcome {
        let (dictionary, start) = self.target(count)?;
        if !count.is_multiple_of(2) {
            return Err("a key has no value");
        }
        let before = self.thing(dictionary);
        let mut known = mem::take(&mut self.known);
        if let Thing::Loose(of_dictionary) = before {
            known.extend(self.loose.get_mut(of_dictionary as usize).map(mem::take).unwrap_or_default());
        }
        let values = self.operands.get(start..).unwrap_or_default().as_chunks::<2>().0;
        known.extend(values.iter().filter_map(|[key, value]| Some((self.word(*key)?, *value))));
        self.operands.truncate(start);
        if keys_of(&known).count_ones() as usize != known.len() {
            return Err("a dictionary has a key twice");
        }
        let after = match before {
            Thing::Dictionary if is_whole => self.filled(&known),
            Thing::Loose(of_dictionary) => {
                if let Some(loose) = self.loose.get_mut(of_dictionary as usize) {
                    loose.clone_from(&known);
                }
                before
            }
            Thing::Dictionary => {
                self.loose.push(known.clone());
                Thing::Loose(place(self.loose.len() - 1))
            }
            Thing::List => return Err("a list has a key"),
            // What a dictionary is was told by its first keys.
            _ => before,
        };
        known.clear();
        self.known = known;
        self.turn(dictionary, after);
        Ok(())
    }

    fn word(&self, key: Value) -> Option<Word> {
        match key {
            Value::Text(text) => Word::of(text),
            Value::Thing(place) => match self.thing(place) {
                Thing::Text(text) => Word::of(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn thing(&self, place: u32) -> Thing {
        self.things.get(place as usize).copied().unwrap_or(Thing::Other)
    }

    fn turn(&mut self, place: u32, into: Thing) {
        if let Some(thing) = self.things.get_mut(place as usize) {
            *thing = into;
        }
    }

    /// What this value is, where it is a list or a dictionary.
    fn of(&mut self, value: Value) -> Thing {
        match value {
            Value::Thing(place) => {
                let Thing::Loose(of_dictionary) = self.thing(place) else { return self.thing(place) };
                let known = self.loose.get_mut(of_dictionary as usize).map(mem::take).unwrap_or_default();
                let thing = self.filled(&known);
                self.turn(place, thing);
                thing
            }
            Value::Frame(frame) => Thing::Frame(frame),
            Value::Pool(pool) => Thing::Pool(pool),
            Value::Text(text) => Thing::Text(text),
            _ => Thing::Other,
        }
    }

    fn stack_of(&mut self, value: Value) -> StackId {
        if let Thing::Stack(stack) = self.of(value) { stack } else { StackId::default() }
    }

    fn pool_of(&mut self, value: Value) -> Option<Pool> {
        let Thing::Pool(pool) = self.of(value) else { return None };
        self.pools.get(pool as usize).copied()
    }

    /// Makes what these keys tell.
    fn filled(&mut self, known: &[(Word, Value)]) -> Thing {
        let keys = keys_of(known);
        let has = |word: Word| keys & 1 << word as u64 != 0;
        if has(Word::Action) {
            self.action(known)
        } else if has(Word::Filename) {
            self.frame(known)
        } else if has(Word::Stage) {
            self.annotation(known)
        } else if has(Word::Segments) || has(Word::DeviceTraces) {
            self.whole(known)
        } else if has(Word::Blocks) || has(Word::TotalSize) {
            self.segment(known)
        } else if has(Word::State) && has(Word::Size) {
            self.block(known)
        } else if has(Word::RealSize) {
            self.earlier(known)
        } else if has(Word::Config) || has(Word::ExpandableSegments) || has(Word::MaxSplitSize) {
            self.settings(known)
        } else {
            Thing::Other
        }
    }

    fn frame(&mut self, known: &[(Word, Value)]) -> Thing {
        let mut frame = Frame::default();
        for (word, value) in known {
            match (word, value) {
                (Word::Name, Value::Text(text)) => frame.name = *text,
                (Word::Filename, Value::Text(text)) => frame.file = *text,
                (Word::Line, Value::Number(line)) => frame.line = small(*line),
                _ => {}
            }
        }
        Thing::Frame(self.gathering.frame(frame))
    }

    fn action(&mut self, known: &[(Word, Value)]) -> Thing {
        let mut action = Action {
            kind: ActionKind::Other,
            place: 0,
            size: Bytes(0),
            stream: 0,
            pool: None,
            micros: None,
            stack: StackId::default(),
        };
        for (word, value) in known {
            match (word, value) {
                (Word::Action, Value::Text(text)) => action.kind = kind(*text),
                (Word::Addr | Word::DeviceFree, Value::Number(place)) => action.place = *place,
                (Word::Size, Value::Number(size)) => action.size = Bytes(*size),
                (Word::Stream, Value::Number(stream)) => action.stream = *stream,
                (Word::TimeUs, Value::Number(micros)) => action.micros = Some(*micros),
                (Word::PoolId, pool) => action.pool = self.pool_of(*pool),
                (Word::Frames, frames) => action.stack = self.stack_of(*frames),
                _ => {}
            }
        }
        self.actions.push_back(action);
        self.actions_read += 1;
        self.stay_within_budget();
        Thing::Action
    }

    fn annotation(&mut self, known: &[(Word, Value)]) -> Thing {
        let mut annotation = Annotation { name: TextId::default(), is_start: false, device: 0, micros: 0 };
        for (word, value) in known {
            match (word, value) {
                (Word::Name, Value::Text(name)) => annotation.name = *name,
                (Word::Stage, Value::Text(stage)) => annotation.is_start = Word::of(*stage) == Some(Word::Start),
                (Word::Device, Value::Number(device)) => annotation.device = small(*device),
                (Word::TimeUs, Value::Number(micros)) => annotation.micros = *micros,
                _ => {}
            }
        }
        self.annotations.push(annotation);
        Thing::Other
    }

    fn settings(&mut self, known: &[(Word, Value)]) -> Thing {
        let settings = &mut self.settings;
        for (word, value) in known {
            match (word, value) {
                (Word::Config, Value::Text(text)) => settings.config = Some(self.gathering.said(*text).to_owned()),
                (Word::ExpandableSegments, Value::Bool(is_on)) => settings.expandable_segments = Some(*is_on),
                (Word::MaxSplitSize, Value::Number(size)) => settings.max_split_size = Some(Bytes(*size)),
                (Word::GarbageCollectionThreshold, Value::Float(share)) => {
                    settings.garbage_collection_threshold = Some(*share);
                }
                (Word::GarbageCollectionThreshold, Value::Number(share @ 0..=1)) => {
                    settings.garbage_collection_threshold = Some(if *share == 0 { 0.0 } else { 1.0 });
                }
                _ => {}
            }
        }
        Thing::Other
    }

    fn block(&mut self, known: &[(Word, Value)]) -> Thing {
        let mut block =
            Block { address: 0, size: Bytes(0), requested: None, state: State::Inactive, stack: StackId::default() };
        let mut has_address = false;
        for (word, value) in known {
            match (word, value) {
                (Word::Address, Value::Number(address)) => (block.address, has_address) = (*address, true),
                (Word::Size, Value::Number(size)) => block.size = Bytes(*size),
                (Word::RequestedSize, Value::Number(size)) => block.requested = Some(Bytes(*size)),
                (Word::State, Value::Text(text)) => block.state = state(*text),
                (Word::Frames, frames) => block.stack = self.stack_of(*frames),
                (Word::History, history) => {
                    if let Thing::History(of_list) = self.of(*history)
                        && let Some((requested, stack)) = self.histories.get(of_list as usize)
                    {
                        (block.requested, block.stack) = (*requested, *stack);
                    }
                }
                _ => {}
            }
        }
        self.blocks.push(Draft { block, has_address });
        Thing::Block
    }

    /// What versions up to 2.0 wrote of a block: who had it, the last one first.
    fn earlier(&mut self, known: &[(Word, Value)]) -> Thing {
        let mut earlier = (None, StackId::default());
        for (word, value) in known {
            match (word, value) {
                (Word::RealSize, Value::Number(size)) => earlier.0 = Some(Bytes(*size)),
                (Word::Frames, frames) => earlier.1 = self.stack_of(*frames),
                _ => {}
            }
        }
        self.earlier.push(earlier);
        Thing::Earlier
    }

    fn segment(&mut self, known: &[(Word, Value)]) -> Thing {
        let mut segment = Segment::default();
        let mut total = None;
        let mut drafts = Vec::new();
        for (word, value) in known {
            match (word, value) {
                (Word::Device, Value::Number(device)) => segment.device = small(*device),
                (Word::Address, Value::Number(address)) => segment.address = *address,
                (Word::TotalSize, Value::Number(size)) => total = Some(Bytes(*size)),
                (Word::Stream, Value::Number(stream)) => segment.stream = *stream,
                (Word::SegmentPoolId, pool) => segment.pool = self.pool_of(*pool).unwrap_or_default(),
                (Word::SegmentType, Value::Text(text)) => segment.is_small = Word::of(*text) == Some(Word::Small),
                (Word::IsExpandable, Value::Bool(is_expandable)) => segment.is_expandable = *is_expandable,
                (Word::Frames, frames) => segment.stack = self.stack_of(*frames),
                (Word::Blocks, blocks) => {
                    if let Thing::Blocks(of_list) = self.of(*blocks) {
                        drafts = self.block_lists.get_mut(of_list as usize).map(mem::take).unwrap_or_default();
                    }
                }
                _ => {}
            }
        }
        let mut next = segment.address;
        for Draft { mut block, has_address } in drafts {
            if !has_address {
                block.address = next;
            }
            next = block.address.saturating_add(block.size.0);
            segment.blocks.push(block);
        }
        segment.total = total.unwrap_or(Bytes(next.saturating_sub(segment.address)));
        self.segments.push(segment);
        Thing::Segment
    }

    fn whole(&mut self, known: &[(Word, Value)]) -> Thing {
        let (mut segments, mut traces) = (Vec::new(), Vec::new());
        for (word, value) in known {
            match (word, self.of(*value)) {
                (Word::Segments, Thing::Segments(of_list)) => segments = self.taken_segments(of_list),
                (Word::DeviceTraces, Thing::Lists(of_list)) => {
                    let lists = self.lists.get_mut(of_list as usize).map(mem::take).unwrap_or_default();
                    traces = lists.into_iter().map(|list| self.taken_trace(list)).collect();
                }
                _ => {}
            }
        }
        self.whole = Some((segments, traces));
        Thing::Whole
    }

    fn taken_segments(&mut self, of_list: u32) -> Vec<Segment> {
        self.segment_lists.get_mut(of_list as usize).map(mem::take).unwrap_or_default()
    }

    /// A device's actions; none where its list is empty or stands there for the second time.
    fn taken_trace(&mut self, list: Value) -> Trace {
        let Thing::Trace(of_list) = self.of(list) else { return Trace::default() };
        self.traces.get_mut(of_list as usize).map(mem::take).unwrap_or_default()
    }

    /// Leaves out the oldest actions once there are too many, and the stacks that nothing left refers to.
    fn stay_within_budget(&mut self) {
        let stacks = self.gathering.stack_bytes();
        if !self.is_over_budget {
            if self.actions_read * size_of::<Action>() + stacks <= self.bounds.budget {
                return;
            }
            self.is_over_budget = true;
            self.stacks_bound = self.bounds.budget / 2;
            for trace in &mut self.traces {
                cut(&mut trace.actions, &mut trace.left_out, self.bounds.kept);
                trace.actions.shrink_to_fit();
            }
        }
        cut(&mut self.actions, &mut self.actions_left_out, self.bounds.kept);
        if stacks > self.stacks_bound {
            self.drop_unused_stacks();
            self.stacks_bound = (self.gathering.stack_bytes() * 2).max(self.bounds.budget / 2);
        }
    }

    fn drop_unused_stacks(&mut self) {
        let mut kept: Vec<&mut StackId> = Vec::new();
        let of_traces = self.traces.iter_mut().flat_map(|trace| &mut trace.actions);
        let of_whole = self.whole.iter_mut().flat_map(|(segments, traces)| {
            let actions = traces.iter_mut().flat_map(|trace| &mut trace.actions);
            segments.iter_mut().flat_map(stacks_of).chain(actions.map(|action| &mut action.stack))
        });
        kept.extend(self.actions.iter_mut().chain(of_traces).map(|action| &mut action.stack));
        kept.extend(of_whole);
        kept.extend(self.segments.iter_mut().chain(self.segment_lists.iter_mut().flatten()).flat_map(stacks_of));
        let drafts = self.blocks.iter_mut().chain(self.block_lists.iter_mut().flatten());
        kept.extend(drafts.map(|draft| &mut draft.block.stack));
        kept.extend(self.earlier.iter_mut().chain(&mut self.histories).map(|(_, stack)| stack));
        let after = self.gathering.keep(kept.iter().map(|stack| **stack));
        let renamed = |stack: StackId| after.get(stack.0 as usize).copied().flatten();
        for stack in kept {
            *stack = renamed(*stack).unwrap_or_default();
        }
        for thing in &mut self.things {
            if let Thing::Stack(stack) = thing {
                *thing = renamed(*stack).map_or(Thing::Other, Thing::Stack);
            }
        }
    }

    /// What was read, at the end: what lies on top is the snapshot.
    pub(super) fn finish(mut self) -> Result<Dump, Refusal> {
        let offset = self.end;
        let top = self.operands.pop().unwrap_or(Value::Nothing);
        let (segments, traces) = match self.of(top) {
            Thing::Whole => self.whole.take().unwrap_or_default(),
            Thing::Segments(of_list) => (self.taken_segments(of_list), Vec::new()),
            _ => return Err(Refusal { offset, why: "it ends without segments and traces,".into() }),
        };
        let left_out = traces.iter().map(|trace| trace.left_out).sum();
        let traces = traces.into_iter().map(|trace| trace.actions.into()).collect();
        Ok(Dump {
            stacks: self.gathering.finish(),
            segments,
            traces,
            annotations: self.annotations,
            settings: self.settings,
            left_out,
        })
    }
}

/// Moves the last `count` items into the list, a new one where there is none yet. The answer is the list's place.
fn append_last<T>(items: &mut Vec<T>, lists: &mut Vec<Vec<T>>, list: Option<u32>, count: usize) -> u32 {
    let last = items.split_off(items.len().saturating_sub(count));
    if let Some(of_list) = list
        && let Some(list) = lists.get_mut(of_list as usize)
    {
        list.extend(last);
        return of_list;
    }
    lists.push(last);
    place(lists.len() - 1)
}

/// Removes the oldest beyond `kept`.
fn cut(actions: &mut VecDeque<Action>, left_out: &mut u64, kept: usize) {
    let beyond = actions.len().saturating_sub(kept);
    if beyond > 0 {
        actions.drain(..beyond);
        *left_out += beyond as u64;
    }
}

fn stacks_of(segment: &mut Segment) -> impl Iterator<Item = &mut StackId> {
    [&mut segment.stack].into_iter().chain(segment.blocks.iter_mut().map(|block| &mut block.stack))
}

/// A bit a key.
fn keys_of(known: &[(Word, Value)]) -> u64 {
    known.iter().fold(0, |keys, (word, _)| keys | 1 << *word as u64)
}

fn state(text: TextId) -> State {
    match Word::of(text) {
        Some(Word::ActiveAllocated) => State::Allocated,
        Some(Word::ActivePendingFree | Word::ActiveAwaitingFree) => State::PendingFree,
        _ => State::Inactive,
    }
}

fn kind(text: TextId) -> ActionKind {
    match Word::of(text) {
        Some(Word::Alloc) => ActionKind::Alloc,
        Some(Word::FreeRequested) => ActionKind::FreeRequested,
        Some(Word::FreeCompleted) => ActionKind::FreeCompleted,
        Some(Word::SegmentAlloc) => ActionKind::SegmentAlloc,
        Some(Word::SegmentFree) => ActionKind::SegmentFree,
        Some(Word::SegmentMap) => ActionKind::SegmentMap,
        Some(Word::SegmentUnmap) => ActionKind::SegmentUnmap,
        Some(Word::Snapshot) => ActionKind::Snapshot,
        Some(Word::Oom) => ActionKind::Oom,
        Some(Word::UserDefined) => ActionKind::UserDefined,
        Some(Word::Annotate) => ActionKind::Annotate,
        _ => ActionKind::Other,
    }
}

/// A place in a list: the bounds keep all of them far below 2^32.
fn place(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A line or a device's number; one that is larger is none.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
