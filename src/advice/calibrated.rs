//! Holds what is said of a step ("enough", "likely") to simulated runs whose true need is known. A run allocates piece by
//! piece on its way to its peak and fails at the first piece that does not fit, so its log shows a lower bound of the need,
//! as logs do. What it would have asked for after that piece is up to a fifth of its peak: most of training's peak stands
//! when the first large request fails.

use std::collections::BTreeMap;

use super::{Situation, advise};
use crate::gpu::guard::Viewer;
use crate::gpu::history::History;
use crate::gpu::testing::{device, noon_plus, process, snapshot};
use crate::gpu::{Reading, Snapshot};
use crate::knowledge::KnowledgeBase;
use crate::log::PastedLog;
use crate::units::Bytes;

const MIB: u64 = 1 << 20;
/// What a GPU of the tests has for programs: 24 GiB without the driver's reserve and what no process explains.
const ROOM: u64 = 24 * 1024 - 410 - 200;

/// A run on a GPU, in MiB.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// In use by an idle process of the same user, and by another user's.
    idle: u64,
    others: u64,
    /// The run's peak: what does not depend on the batch, and the activations of a batch of 16.
    base: u64,
    activations: u64,
    /// The piece that failed, and what it already had.
    request: u64,
    had: u64,
}

impl Case {
    /// `None` where the run would not fail, or not like that.
    fn new(chance: &mut impl FnMut(u64) -> u64) -> Option<Case> {
        let (idle, others) =
            ([0, 2000, 5000, 9000, 12_000][chance(5) as usize], [0, 0, 3000, 6000][chance(4) as usize]);
        let room = ROOM - idle - others;
        let peak = room + room * (1 + chance(60)) / 100;
        let activations = peak * (30 + chance(50)) / 100;
        // The log shows the run no later than at four fifths of its peak.
        let request = peak * (2 + chance(12)) / 100;
        let had = (peak * (80 + chance(20)) / 100).saturating_sub(request).min(room);
        let case = Case { idle, others, base: peak - activations, activations, request, had };
        (had + request > room && had > peak / 3).then_some(case)
    }

    fn peak(&self, batch: u64) -> u64 {
        self.base + self.activations * batch / 16
    }

    fn log(&self) -> String {
        let room = ROOM - self.idle - self.others;
        let gib = |mib: u64| mib as f64 / 1024.0;
        let mut named = String::new();
        for (pid, used) in [(50, self.idle), (60, self.others)] {
            if used > 0 {
                named += &format!("Process {pid} has {:.2} GiB memory in use. ", gib(used));
            }
        }
        format!(
            "$ python train.py --batch-size 16\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate {:.2} GiB. \
             GPU 0 has a total capacity of 23.60 GiB of which {:.2} MiB is free. {named}Including non-PyTorch memory, \
             this process has {:.2} GiB memory in use. Of the allocated memory {:.2} GiB is allocated by PyTorch, and \
             20.00 MiB is reserved by PyTorch but unallocated.\n",
            gib(self.request),
            room - self.had,
            gib(self.had),
            gib(self.had) - 0.4,
        )
    }

    /// The machine after the failure; the first process has been idle for a while.
    fn machine(&self, second: i64) -> Snapshot {
        let mut rows = Vec::new();
        if self.idle > 0 {
            rows.push(process(50, Bytes(self.idle * MIB)));
        }
        if self.others > 0 {
            let mut row = process(60, Bytes(self.others * MIB));
            (row.uid, row.user) = (Reading::Known(1001), Reading::Known("bob".into()));
            rows.push(row);
        }
        Snapshot { devices: vec![device(0, rows)], ..snapshot(second) }
    }

    /// Whether the run succeeds after this step; `None` for steps whose effect is not simulated.
    fn succeeds(&self, fix: &str, command: Option<&str>) -> Option<bool> {
        let free = ROOM - self.others;
        match fix {
            "end-holder" => Some(self.peak(16) <= free),
            "smaller-batch" => {
                let words: Vec<&str> = command?.split_whitespace().collect();
                let at = words.iter().position(|word| *word == "--batch-size")?;
                let batch = words.get(at + 1)?.parse().ok()?;
                Some(self.peak(batch) <= free - self.idle)
            }
            _ => None,
        }
    }
}

#[test]
fn what_is_called_enough_is_enough() {
    let base = KnowledgeBase::built_in().unwrap();
    let viewer = Viewer { uid: 1000, ..Viewer::default() };
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut chance = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut counts: BTreeMap<&'static str, (u32, u32)> = BTreeMap::new();
    let cases: Vec<Case> = (0..2000).filter_map(|_| Case::new(&mut chance)).take(300).collect();
    assert!(cases.len() >= 300, "{}", cases.len());
    for case in &cases {
        let diagnosis = base.diagnose(&PastedLog::new(case.log()), None);
        let mut history = History::default();
        (0..=120).step_by(10).for_each(|second| history.note(&case.machine(second)));
        let machine = case.machine(120);
        let advice = advise(&Situation {
            fixes: &base.leading_fixes(&diagnosis),
            snapshot: Some(&machine),
            history: Some(&history),
            viewer: Some(&viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(&diagnosis)
        });
        for step in &advice.plan {
            let command = step.steps.iter().find_map(|step| step.command.as_deref());
            let Some(succeeds) = case.succeeds(step.fix.as_str(), command) else { continue };
            let said = match step.enough {
                super::Enough::NotAlone => "not alone",
                super::Enough::Yes => "yes",
                super::Enough::Likely => "likely",
                _ => "unknown",
            };
            let (right, all) = counts.entry(said).or_default();
            *right += u32::from(succeeds);
            *all += 1;
        }
    }
    let share = |said| counts.get(said).map_or((100, 0), |(right, all): &(u32, u32)| (right * 100 / all.max(&1), *all));
    let (likely, of) = share("likely");
    assert!(likely >= 70 && of >= 50, "{counts:?}");
    assert!(share("yes").0 >= 95, "{counts:?}");
    assert!(share("not alone").0 <= 5, "{counts:?}");
}
