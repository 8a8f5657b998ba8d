//! Snapshots for the tests of this folder.

use super::*;

pub(super) const MIB: u64 = 1 << 20;

/// Builds a snapshot.
#[derive(Default)]
pub(super) struct Made {
    pub(super) gathering: Gathering,
    pub(super) dump: Dump,
    pub(super) actions: Vec<Action>,
}

impl Made {
    /// A stack of frames, innermost first: (file, line, function).
    pub(super) fn stack(&mut self, frames: &[(&str, u32, &str)]) -> StackId {
        let frames: Vec<Frame> = frames
            .iter()
            .map(|(file, line, name)| Frame {
                name: self.gathering.text(name),
                file: self.gathering.text(file),
                line: *line,
            })
            .collect();
        self.gathering.stack(&frames)
    }

    /// A segment of blocks in MiB, in everybody's pool.
    pub(super) fn segment(&mut self, blocks: &[(u64, State, StackId)]) -> &mut Segment {
        let base = 0x7f00_0000_0000 + self.dump.segments.len() as u64 * (64 << 30);
        let mut segment = Segment { address: base, ..Segment::default() };
        for (mib, state, stack) in blocks {
            let size = Bytes::mib(*mib);
            let address = base + segment.total.0;
            let requested = Some(if *state == State::Inactive { Bytes::ZERO } else { size });
            segment.blocks.push(Block { address, size, requested, state: *state, stack: *stack });
            segment.total = segment.total.plus(size);
        }
        self.dump.segments.push(segment);
        self.dump.segments.last_mut().unwrap()
    }

    pub(super) fn did(&mut self, kind: ActionKind, place: u64, mib: u64, stack: StackId) {
        let micros = Some(1_000_000 + self.actions.len() as u64);
        let (pool, stream) = (Some(Pool::EVERYBODYS), 0);
        self.actions.push(Action { kind, place, size: Bytes::mib(mib), stream, pool, micros, stack });
    }

    pub(super) fn filled(mut self) -> told::Filled {
        self.dump.stacks = self.gathering.finish();
        self.dump.traces = vec![self.actions];
        figures::filled(&self.dump, "oom_rank3.pickle").remove(0)
    }

    /// Marks the beginning of a step.
    pub(super) fn step(&mut self, number: u64) {
        let name = self.gathering.text(&format!("ProfilerStep#{number}"));
        let micros = 1_000_000 + self.actions.len() as u64;
        self.dump.annotations.push(Annotation { name, is_start: true, device: 0, micros });
    }
}
