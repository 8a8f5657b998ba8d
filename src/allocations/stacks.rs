//! Owns the call stacks of a snapshot, each text, frame and stack once.

use std::collections::HashMap;

use super::{Frame, StackId, TextId};

/// Every call stack of the snapshot, each once.
#[derive(Debug, Default)]
pub struct Stacks {
    /// All texts, one behind the other, and where each ends.
    texts: String,
    text_ends: Vec<u32>,
    frames: Vec<Frame>,
    /// The frames of all stacks, innermost first, as places in `frames`, and where each stack ends.
    order: Vec<u32>,
    stack_ends: Vec<u32>,
}

impl Stacks {
    /// The text, or none where there is no such text.
    pub fn text(&self, id: TextId) -> &str {
        let Some(end) = self.text_ends.get(id.0 as usize) else { return "" };
        let start = id.0.checked_sub(1).and_then(|before| self.text_ends.get(before as usize)).copied().unwrap_or(0);
        self.texts.get(start as usize..*end as usize).unwrap_or_default()
    }

    /// The frames of this stack, innermost first.
    pub fn frames(&self, id: StackId) -> impl Iterator<Item = Frame> {
        let end = self.stack_ends.get(id.0 as usize).copied().unwrap_or(0);
        let start = id.0.checked_sub(1).and_then(|before| self.stack_ends.get(before as usize)).copied().unwrap_or(0);
        let places = self.order.get(start as usize..end as usize).unwrap_or_default();
        places.iter().filter_map(|place| self.frames.get(*place as usize).copied())
    }
}

/// Gathers stacks while a snapshot is read.
#[derive(Debug)]
pub struct Gathering {
    stacks: Stacks,
    texts: HashMap<Box<str>, TextId>,
    frames: HashMap<Frame, u32>,
    lists: HashMap<Box<[u32]>, StackId>,
}

impl Default for Gathering {
    fn default() -> Gathering {
        let mut empty = Gathering {
            stacks: Stacks::default(),
            texts: HashMap::new(),
            frames: HashMap::new(),
            lists: HashMap::new(),
        };
        empty.text("");
        empty.stack(&[]);
        empty
    }
}

impl Gathering {
    /// The id of this text.
    pub fn text(&mut self, text: &str) -> TextId {
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        let id = TextId(counted(self.stacks.text_ends.len()));
        self.stacks.texts.push_str(text);
        self.stacks.text_ends.push(counted(self.stacks.texts.len()));
        self.texts.insert(text.into(), id);
        id
    }

    /// The id of the stack of these frames, innermost first.
    pub fn stack(&mut self, frames: &[Frame]) -> StackId {
        let places: Box<[u32]> = frames.iter().map(|frame| self.frame(*frame)).collect();
        if let Some(id) = self.lists.get(&places) {
            return *id;
        }
        let id = StackId(counted(self.stacks.stack_ends.len()));
        self.stacks.order.extend_from_slice(&places);
        self.stacks.stack_ends.push(counted(self.stacks.order.len()));
        self.lists.insert(places, id);
        id
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        let next = counted(self.stacks.frames.len());
        let place = *self.frames.entry(frame).or_insert(next);
        if place == next {
            self.stacks.frames.push(frame);
        }
        place
    }

    pub fn finish(self) -> Stacks {
        self.stacks
    }
}

/// A place in a list. The reader's limits keep all lists far below 2^32.
fn counted(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
