//! Owns the call stacks of a snapshot, each text, frame and stack once.

use std::hash::BuildHasher;
use std::mem;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Frame, StackId, TextId};

/// Every call stack of the snapshot, each once.
#[derive(Debug, Default)]
pub struct Stacks {
    /// All texts, one behind the other, and where each ends.
    texts: String,
    text_ends: Vec<u32>,
    frames: Vec<Frame>,
    /// The frames of all stacks, innermost first, and where each stack ends. A frame is its place in `frames`, in seven
    /// bits a byte: most snapshots have a few thousand frames and many millions of places here, so two bytes matter.
    order: Vec<u8>,
    stack_ends: Vec<u32>,
}

impl Stacks {
    /// The text, or none where there is no such text.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(between(&self.text_ends, id.0)).unwrap_or_default()
    }

    /// The frames of this stack, innermost first.
    pub fn frames(&self, id: StackId) -> impl Iterator<Item = Frame> {
        Places(self.bytes_of(id.0)).filter_map(|place| self.frames.get(place as usize).copied())
    }

    fn bytes_of(&self, stack: u32) -> &[u8] {
        self.order.get(between(&self.stack_ends, stack)).unwrap_or_default()
    }
}

/// From the end of the item before to the end of this one; empty where there is no such item.
fn between(ends: &[u32], id: u32) -> std::ops::Range<usize> {
    let end = ends.get(id as usize).copied().unwrap_or(0);
    let start = id.checked_sub(1).and_then(|before| ends.get(before as usize)).copied().unwrap_or(0);
    start as usize..end as usize
}

/// The numbers in bytes of `packed`.
struct Places<'s>(&'s [u8]);

impl Iterator for Places<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (mut place, mut shift) = (0_u32, 0);
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            place |= u32::from(byte & 0x7f) << shift;
            shift += 7;
            if *byte < 0x80 {
                return Some(place);
            }
            if shift > 28 {
                break;
            }
        }
        None
    }
}

/// Appends a number, seven bits a byte, the lowest first.
fn pack(mut place: u32, into: &mut Vec<u8>) {
    loop {
        let [low, ..] = place.to_le_bytes();
        place >>= 7;
        if place == 0 {
            into.push(low & 0x7f);
            return;
        }
        into.push(low | 0x80);
    }
}

/// Gathers stacks while a snapshot is read. The tables hold ids only: what an id means is looked up in `stacks`. The keys
/// of the hashes are random, so that no file can be made of collisions.
#[derive(Debug)]
pub struct Gathering {
    stacks: Stacks,
    keys: DefaultHashBuilder,
    texts: HashTable<u32>,
    frames: HashTable<u32>,
    lists: HashTable<u32>,
    packed: Vec<u8>,
}

impl Default for Gathering {
    fn default() -> Gathering {
        let mut empty = Gathering {
            stacks: Stacks::default(),
            keys: DefaultHashBuilder::default(),
            texts: HashTable::new(),
            frames: HashTable::new(),
            lists: HashTable::new(),
            packed: Vec::new(),
        };
        empty.text("");
        empty.stack(&[]);
        empty
    }
}

impl Gathering {
    /// The id of this text.
    pub fn text(&mut self, text: &str) -> TextId {
        let (stacks, keys) = (&mut self.stacks, &self.keys);
        let hash = keys.hash_one(text);
        if let Some(id) = self.texts.find(hash, |id| stacks.text(TextId(*id)) == text) {
            return TextId(*id);
        }
        let id = counted(stacks.text_ends.len());
        stacks.texts.push_str(text);
        stacks.text_ends.push(counted(stacks.texts.len()));
        self.texts.insert_unique(hash, id, |id| keys.hash_one(stacks.text(TextId(*id))));
        TextId(id)
    }

    pub fn said(&self, id: TextId) -> &str {
        self.stacks.text(id)
    }

    /// The id of the stack of these frames, innermost first.
    pub fn stack(&mut self, frames: &[Frame]) -> StackId {
        let places: Vec<u32> = frames.iter().map(|frame| self.frame(*frame)).collect();
        self.stack_of(places)
    }

    /// The id of the stack of these frames, as `frame` numbered them, innermost first.
    pub(super) fn stack_of(&mut self, places: impl IntoIterator<Item = u32>) -> StackId {
        let mut packed = mem::take(&mut self.packed);
        packed.clear();
        for place in places {
            pack(place, &mut packed);
        }
        let id = self.packed_stack(&packed);
        self.packed = packed;
        id
    }

    fn packed_stack(&mut self, packed: &[u8]) -> StackId {
        let (stacks, keys) = (&mut self.stacks, &self.keys);
        let hash = keys.hash_one(packed);
        if let Some(id) = self.lists.find(hash, |id| stacks.bytes_of(*id) == packed) {
            return StackId(*id);
        }
        let id = counted(stacks.stack_ends.len());
        stacks.order.extend_from_slice(packed);
        stacks.stack_ends.push(counted(stacks.order.len()));
        self.lists.insert_unique(hash, id, |id| keys.hash_one(stacks.bytes_of(*id)));
        StackId(id)
    }

    /// The number of this frame.
    pub(super) fn frame(&mut self, frame: Frame) -> u32 {
        let (stacks, keys) = (&mut self.stacks, &self.keys);
        let hash = keys.hash_one(frame);
        if let Some(place) = self.frames.find(hash, |place| stacks.frames.get(*place as usize) == Some(&frame)) {
            return *place;
        }
        let place = counted(stacks.frames.len());
        stacks.frames.push(frame);
        self.frames
            .insert_unique(hash, place, |place| keys.hash_one(stacks.frames.get(*place as usize).unwrap_or(&frame)));
        place
    }

    /// The numbers of the frames of a stack.
    pub(super) fn places(&self, id: StackId) -> Vec<u32> {
        Places(self.stacks.bytes_of(id.0)).collect()
    }

    /// What the stacks take, in bytes.
    pub(super) fn stack_bytes(&self) -> usize {
        self.stacks.order.len() + self.stacks.stack_ends.len() * size_of::<u32>()
    }

    /// What the texts and frames take, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let texts = self.stacks.texts.len() + self.stacks.text_ends.len() * size_of::<u32>();
        texts + self.stacks.frames.len() * size_of::<Frame>()
    }

    /// Drops every stack that is not one of these. The answer has the new id of each old one that stays.
    pub(super) fn keep(&mut self, used: impl Iterator<Item = StackId>) -> Vec<Option<StackId>> {
        let mut is_used = vec![false; self.stacks.stack_ends.len()];
        for id in used.chain([StackId(0)]) {
            if let Some(is_used) = is_used.get_mut(id.0 as usize) {
                *is_used = true;
            }
        }
        let old = Stacks {
            order: mem::take(&mut self.stacks.order),
            stack_ends: mem::take(&mut self.stacks.stack_ends),
            ..Stacks::default()
        };
        self.lists = HashTable::new();
        let stay = |(id, is_used): (usize, bool)| is_used.then(|| self.packed_stack(old.bytes_of(counted(id))));
        is_used.into_iter().enumerate().map(stay).collect()
    }

    pub fn finish(self) -> Stacks {
        self.stacks
    }
}

/// A place in a list. The reader's limits keep all lists far below 2^32.
fn counted(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
