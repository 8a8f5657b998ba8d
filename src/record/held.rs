//! Owns how an estimate is held to what was measured: what was said when a run failed, beside what the next run used that
//! tried one of its fixes.

use super::recording::Recording;
use super::{End, SaidFix};
use crate::units::Bytes;

/// An estimate and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The GPU that the failure was on.
    pub gpu: Option<u32>,
    /// What the run was said to need, and whether that was a lower bound.
    pub needs: Option<Bytes>,
    pub at_least: bool,
    pub fix: SaidFix,
    /// The most that the run with the fix used on that GPU.
    pub used: Option<Bytes>,
    pub end: End,
}

impl Held {
    /// Whether the fix did what was said of it; `None` where nothing was said, or the run was not seen to its end.
    pub fn is_kept(&self) -> Option<bool> {
        match (self.fix.enough.as_str(), self.end) {
            (_, End::Unknown) => None,
            ("yes" | "likely", end) => Some(end.is_success()),
            _ => None,
        }
    }
}

/// Compares a run that failed with the next one, if that tried one of its fixes.
pub fn compare(before: &Recording, after: &Recording) -> Option<Held> {
    let said = before.said.as_ref()?;
    let tries = after.run.as_ref()?.tries.as_ref()?;
    let fix = said.fixes.iter().find(|fix| fix.fix == tries.fix)?.clone();
    let (_, end) = after.end?;
    let used = said.gpu.and_then(|gpu| after.own_peak(gpu));
    Some(Held { gpu: said.gpu, needs: said.needs, at_least: said.at_least, fix, used, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Header, Snapshot};
    use crate::record::{Line, Note, Run, RunOptions, Said, Try};

    fn recording(tries: Option<&str>, end: End, said: Option<Said>) -> Recording {
        let tries = tries.map(|fix| Try { fix: fix.into(), after: "before.jsonl".into() });
        let run = Run {
            started_at: noon_plus(0),
            argv: vec!["python".into()],
            folder: "/".into(),
            pid: 42,
            tries,
            environment: Vec::new(),
            options: RunOptions::default(),
        };
        let others = vec![process(42, Bytes::gib(9)), process(77, Bytes::gib(5))];
        let reading = Snapshot { devices: vec![device(0, others)], ..snapshot(1) };
        let mut lines = vec![
            Line::Header(Header::of_boot(None)),
            Line::Note(Note::Run(run)),
            Line::Reading(Box::new(reading)),
            Line::Note(Note::Rows { at: 2000, rows: vec![(0, 42, Bytes::gib(11))] }),
            Line::Note(Note::End { at: 3000, end }),
        ];
        lines.extend(said.map(|said| Line::Note(Note::Said(said))));
        Recording::parse(&lines.iter().map(|line| line.text().unwrap()).collect::<String>()).unwrap()
    }

    #[test]
    fn the_drivers_own_count_counts() {
        let mut recording = recording(None, End::Code(0), None);
        assert_eq!(recording.own_peak(0), Some(Bytes::gib(11)));
        let peaks = vec![(0, 42, Bytes::gib(13)), (0, 77, Bytes::gib(20)), (1, 42, Bytes::gib(21))];
        recording.note(Note::Peaks { at: 0, peaks });
        assert_eq!(recording.own_peak(0), Some(Bytes::gib(13)), "of this GPU and its own processes");
    }

    #[test]
    fn a_fix_is_held_to_what_the_next_run_did() {
        let fix = SaidFix { fix: "smaller-batch".into(), enough: "likely".into(), frees: Some(Bytes::gib(4)) };
        let said = Said { gpu: Some(0), needs: Some(Bytes::gib(14)), fixes: vec![fix], ..Said::default() };
        let before = recording(None, End::Code(1), Some(said));
        for (end, kept) in [(End::Code(0), Some(true)), (End::Code(1), Some(false)), (End::Unknown, None)] {
            let held = compare(&before, &recording(Some("smaller-batch"), end, None)).unwrap();
            assert_eq!((held.used, held.is_kept()), (Some(Bytes::gib(11)), kept), "only its own memory counts");
        }
        assert_eq!(compare(&before, &recording(Some("other"), End::Code(0), None)), None);
        assert_eq!(compare(&before, &recording(None, End::Code(0), None)), None);
    }
}
