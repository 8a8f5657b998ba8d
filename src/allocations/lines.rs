//! Owns which line of a call stack stands for it: the first of the program's own code, and the innermost of Python.

use std::collections::HashMap;

use super::told::CodeLine;
use super::{Frame, StackId, Stacks, TextId};
use crate::effort;

/// A file below one of these is a library's, not the program's own.
const LIBRARIES: [&str; 7] =
    ["site-packages", "dist-packages", "/torch/", "\\torch\\", "lib/python3", "<frozen", "<__array_function__"];
/// How the files of compiled code end.
const COMPILED: [&str; 9] = [".cpp", ".so", ".cc", ".cu", ".cuh", ".c", ".h", ".dll", ".pyd"];

/// Lines of a failed request's stack, and bytes of a name or of a file's path. Longer ones are made up, and a small file
/// could repeat them without end.
const DEEPEST: usize = 1024;
const LONGEST: usize = 1024;

/// A line that stands for call stacks, by its number; 0 stands for those that tell none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId(pub u32);

impl LineId {
    pub(super) const UNKNOWN: LineId = LineId(0);

    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

/// What kind of code a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Own,
    Library,
    Compiled,
}

/// The lines that stand for the stacks of a snapshot, each found once.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    stacks: &'a Stacks,
    kinds: HashMap<TextId, Kind>,
    of_stacks: HashMap<StackId, LineId>,
    of_frames: HashMap<Frame, LineId>,
    frames: Vec<Frame>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(stacks: &'a Stacks) -> Lines<'a> {
        let (kinds, of_stacks, of_frames) = (HashMap::new(), HashMap::new(), HashMap::new());
        Lines { stacks, kinds, of_stacks, of_frames, frames: vec![Frame::default()] }
    }

    /// How many lines there are so far, with the unknown one.
    pub(super) fn count(&self) -> usize {
        self.frames.len()
    }

    fn kind(&mut self, file: TextId) -> Kind {
        *self.kinds.entry(file).or_insert_with(|| kind_of(self.stacks.text(file)))
    }

    /// The first line of the program's own code, else the first of Python, else the first.
    pub(super) fn own(&mut self, stack: StackId) -> LineId {
        if let Some(known) = self.of_stacks.get(&stack) {
            return *known;
        }
        let stacks = self.stacks;
        let line = stacks
            .frames(stack)
            .find(|frame| self.kind(frame.file) == Kind::Own)
            .or_else(|| self.innermost_frame(stack))
            .or_else(|| stacks.frames(stack).next());
        let id = line.map_or(LineId::UNKNOWN, |frame| self.id(frame));
        self.of_stacks.insert(stack, id);
        id
    }

    fn id(&mut self, frame: Frame) -> LineId {
        let next = LineId(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        let id = *self.of_frames.entry(frame).or_insert(next);
        if id == next {
            self.frames.push(frame);
        }
        id
    }

    fn innermost_frame(&mut self, stack: StackId) -> Option<Frame> {
        let stacks = self.stacks;
        stacks.frames(stack).find(|frame| self.kind(frame.file) != Kind::Compiled)
    }

    /// The innermost line of Python, where it is another one than the program's own.
    pub(super) fn inner(&mut self, stack: StackId) -> Option<CodeLine> {
        let own = self.own(stack);
        let inner = self.innermost_frame(stack)?;
        (self.frames.get(own.place()) != Some(&inner)).then(|| self.code_line(inner))
    }

    /// The line in words; `None` for the unknown one.
    pub(super) fn line(&self, id: LineId) -> Option<CodeLine> {
        let frame = self.frames.get(id.place())?;
        (id != LineId::UNKNOWN).then(|| self.code_line(*frame))
    }

    /// The lines of Python of a stack, innermost first.
    pub(super) fn python(&mut self, stack: StackId) -> Vec<CodeLine> {
        let stacks = self.stacks;
        let of_python = stacks.frames(stack).filter(|frame| self.kind(frame.file) != Kind::Compiled);
        let frames: Vec<Frame> = of_python.take(DEEPEST).collect();
        frames.into_iter().map(|frame| self.code_line(frame)).collect()
    }

    /// The lines of the program's own code of a stack, outermost first and at most so many; at least one where the stack
    /// tells any.
    pub(super) fn own_path(&mut self, stack: StackId, depth: usize) -> Vec<LineId> {
        let stacks = self.stacks;
        let own: Vec<Frame> = stacks.frames(stack).filter(|frame| self.kind(frame.file) == Kind::Own).collect();
        effort::count(own.len());
        match own.is_empty() {
            true => vec![self.own(stack)],
            false => own.into_iter().rev().take(depth).map(|frame| self.id(frame)).collect(),
        }
    }

    fn code_line(&self, frame: Frame) -> CodeLine {
        CodeLine { file: self.beginning(frame.file), line: frame.line, function: self.beginning(frame.name) }
    }

    fn beginning(&self, id: TextId) -> String {
        let text = self.stacks.text(id);
        text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned()
    }
}

fn kind_of(file: &str) -> Kind {
    let is_compiled =
        COMPILED.iter().any(|end| file.ends_with(end)) || file.contains(".so.") || ["", "??"].contains(&file);
    let is_library = LIBRARIES.iter().any(|part| file.contains(part));
    match (is_compiled, is_library) {
        (true, _) => Kind::Compiled,
        (false, true) => Kind::Library,
        (false, false) => Kind::Own,
    }
}
