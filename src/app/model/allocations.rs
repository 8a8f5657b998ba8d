//! Owns the state of the memory snapshots of a run: their files, and what of them is in view.

use std::collections::BTreeSet;
use std::path::PathBuf;

use strum::EnumCount;

use crate::allocations::told::{Filled, Node};
use crate::app::scroll::shifted;

/// The memory snapshots of the run that wrote the log. What they show is in the log's diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// The files that are read together with the log.
    pub files: Vec<PathBuf>,
    /// Files beside the log that look like snapshots of its run, and are offered.
    pub beside: Vec<PathBuf>,
    /// The open log is read again only because its snapshots changed: the walk goes on.
    pub is_only_addition: bool,
    /// The view opens as soon as they are read.
    pub is_to_show: bool,
    pub view: View,
}

/// What of the snapshots is in view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Which rank or device, in the order of the diagnosis.
    pub which: usize,
    pub part: Part,
    /// The first line in view; of the tree the selected row.
    pub at: usize,
    /// The open nodes of the tree, each by the places on the way to it.
    pub open: BTreeSet<Vec<usize>>,
}

/// A part of the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumCount)]
pub enum Part {
    /// The sentence and the tables.
    #[default]
    Summary,
    /// The tree of call stacks.
    Stacks,
    /// A bar for each segment.
    Segments,
    /// What was allocated over time.
    Timeline,
}

impl Part {
    const ALL: [Part; Part::COUNT] = [Part::Summary, Part::Stacks, Part::Segments, Part::Timeline];

    /// The parts that there is something to show in: a profile of JAX has no segments and no actions.
    pub fn of(filled: &Filled) -> &'static [Part] {
        if filled.totals.is_some() { &Part::ALL } else { &[Part::Summary, Part::Stacks] }
    }

    pub fn name(self) -> &'static str {
        match self {
            Part::Summary => "Summary",
            Part::Stacks => "Stacks",
            Part::Segments => "Segments",
            Part::Timeline => "Timeline",
        }
    }

    /// The part `by` places further among these.
    fn turned(self, by: i32, parts: &[Part]) -> Part {
        let here = parts.iter().position(|part| *part == self).unwrap_or(0);
        parts.get(around(here, by, parts.len())).copied().unwrap_or_default()
    }
}

/// The place `by` places further of so many, around the end.
fn around(here: usize, by: i32, count: usize) -> usize {
    here.saturating_add(count).saturating_add_signed(by as isize).checked_rem(count).unwrap_or(0)
}

/// A line of the tree of call stacks, as far as it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow<'a> {
    pub node: &'a Node,
    /// The places on the way to it.
    pub path: Vec<usize>,
    pub is_open: bool,
}

impl View {
    /// Another part, from its start.
    pub fn turn_part(&mut self, by: i32, filled: &Filled) {
        self.part = self.part.turned(by, Part::of(filled));
        self.at = 0;
    }

    /// Another one of the ranks or devices. The part stays, to compare them, where that one has it.
    pub fn turn_device(&mut self, by: i32, all: &[Filled]) {
        let which = around(self.which, by, all.len());
        if which == self.which {
            return;
        }
        let has_part = all.get(which).is_some_and(|filled| Part::of(filled).contains(&self.part));
        let part = if has_part { self.part } else { Part::default() };
        *self = View { which, part, ..View::default() };
    }

    pub fn move_by(&mut self, by: i32, rows: usize) {
        self.at = shifted(self.at.min(rows.saturating_sub(1)), by, rows);
    }

    /// The rows of the tree, from the top.
    pub fn stack_rows<'a>(&self, filled: &'a Filled) -> Vec<StackRow<'a>> {
        let mut rows = Vec::new();
        self.add_rows(&filled.tree, &[], &mut rows);
        rows
    }

    fn add_rows<'a>(&self, nodes: &'a [Node], above: &[usize], rows: &mut Vec<StackRow<'a>>) {
        for (place, node) in nodes.iter().enumerate() {
            let path = [above, &[place]].concat();
            let is_open = self.open.contains(&path);
            rows.push(StackRow { node, path: path.clone(), is_open });
            if is_open {
                self.add_rows(&node.children, &path, rows);
            }
        }
    }

    /// Opens the selected node of the tree, or closes it.
    pub fn toggle_node(&mut self, filled: &Filled) {
        let is_open = self.stack_rows(filled).get(self.at).is_some_and(|row| row.is_open);
        if is_open { self.close_node(filled) } else { self.open_node(filled) }
    }

    /// Opens the selected node, with the nodes below it as long as each has only one: there is nothing to choose there.
    pub fn open_node(&mut self, filled: &Filled) {
        let Some(StackRow { mut node, mut path, .. }) = self.stack_rows(filled).into_iter().nth(self.at) else {
            return;
        };
        while !node.children.is_empty() {
            self.open.insert(path.clone());
            let [only] = node.children.as_slice() else { return };
            node = only;
            path.push(0);
        }
    }

    /// Closes the selected node; one that is closed leads to the node above it.
    pub fn close_node(&mut self, filled: &Filled) {
        let rows = self.stack_rows(filled);
        let Some(selected) = rows.get(self.at) else { return };
        if selected.is_open {
            let closed = selected.path.clone();
            self.open.retain(|path| !path.starts_with(&closed));
            return;
        }
        let above = selected.path.split_last().map(|(_, above)| above).unwrap_or_default();
        self.at = rows.iter().position(|row| row.path == above).unwrap_or(self.at);
    }
}
