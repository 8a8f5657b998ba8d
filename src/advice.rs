//! Owns the join of what a log says with what the machine shows now, in three floors: the case (what happened, derived
//! once), its causes (why) and the steps (what to do). Pure: the same log, snapshot and history give the same advice.
//! Knows nothing of keys, screens or signals.

pub mod brief;
pub(crate) mod case;
pub(crate) mod causes;
pub mod changed;
pub(crate) mod compare;
pub(crate) mod engine;
pub(crate) mod figures;
pub(crate) mod fit;
mod headline;
pub(crate) mod input;
pub(crate) mod ledger;
pub(crate) mod machine;
mod names;
pub(crate) mod naming;
mod notes;
pub(crate) mod offer;
pub(crate) mod other_gpu;
pub(crate) mod other_machine;
mod phrases;
pub(crate) mod processes;
pub mod release;
pub(crate) mod rerun;
pub(crate) mod retry;
pub(crate) mod scheduler;
pub mod steps;
pub(crate) mod supervisor;
pub(crate) mod told;
pub(crate) mod typed;
pub(crate) mod verdict;
pub(crate) mod weights;
pub(crate) mod why;
pub mod words;

pub use case::Case;
pub use fit::FitAdvice;
pub(crate) use fit::Trial;
pub use input::{Remembered, Situation, Taken};
pub use ledger::Ledger;
pub(crate) use machine::make::counted;
pub use machine::place::{Fate, Place};
pub use naming::{amount, name_of, name_of_device, short_card};
pub use rerun::{Changes, Form, Had};
pub use steps::planned::{Enough, NotOffered, PlannedFix, Step};
pub use told::Advice;
pub use verdict::{Cause, CauseKind, Strength, Verdict};

use crate::knowledge::diagnosis::Oom;
use machine::make::of_the_logs_make;

/// Joins log and machine.
pub fn advise(situation: &Situation<'_>) -> Advice {
    let of_its_make = of_the_logs_make(situation);
    let situation = &Situation { snapshot: of_its_make.as_ref().or(situation.snapshot), ..*situation };
    let told = case::told(situation);
    let read = Situation { diagnosis: &told.log, own: told.own.as_ref(), ..*situation };
    let mut case = Case::open(read, &told.other_ranks);
    let causes = causes::weigh(&case);
    let plan = steps::plan(&case, &causes);
    case.set_choice_of_several(plan.fits_with.as_ref());
    let sentence = headline::headline(&case, &causes, &plan.steps);
    let brief = brief::brief(&case, &causes, &plan.steps);
    let verdict = match case.log.oom {
        Oom::No => Verdict {
            sentence,
            same_machine: case.place.same_machine,
            notes: notes::cut_off(&case).into_iter().collect(),
            ..Verdict::default()
        },
        Oom::Yes | Oom::Maybe => Verdict {
            sentence,
            same_machine: case.place.same_machine,
            gpu_candidates: case.place.candidates.iter().map(|device| device.index).collect(),
            notes: notes::notes(&case, plan.is_hopeless),
            causes,
        },
    };
    Advice::of(&case, verdict, brief, plan)
}

#[cfg(test)]
mod calibrated;
#[cfg(test)]
pub(crate) mod testing {
    //! Diagnoses for the tests of this folder.
    use crate::knowledge::diagnosis::*;
    use crate::knowledge::facts::{Facts, NamedProcess};
    use crate::units::Bytes;

    /// PyTorch asked for 9 GiB on a 24 GiB card of which 6.1 were free, with 0.3 of its own.
    pub(crate) fn torch_oom(others: &[(u32, Bytes)]) -> Diagnosis {
        Diagnosis {
            oom: Oom::Yes,
            memory: Some(MemoryKind::Gpu),
            raised_by: Some("pytorch".into()),
            ran: Some("pytorch".into()),
            program: Some("pytorch".into()),
            phase: Phase::Training,
            facts: Facts {
                device: Some(0),
                requested_bytes: Some(Bytes::gib(9)),
                total_bytes: Some(Bytes::gib(24)),
                free_bytes: Some(Bytes::mib(6246)),
                process_bytes: Some(Bytes::mib(307)),
                allocated_bytes: Some(Bytes::mib(200)),
                reserved_unallocated_bytes: Some(Bytes::mib(20)),
                other_processes: others.iter().map(|(pid, bytes)| NamedProcess { pid: *pid, bytes: *bytes }).collect(),
                ..Facts::default()
            },
            figures: vec![],
            matches: vec![Match {
                entry: crate::knowledge::EntryId::PYTORCH_CUDA_OUT_OF_MEMORY,
                certainty: Certainty::Certain,
                line: 209,
                row: 209,
                text: "torch.OutOfMemoryError: CUDA out of memory.".into(),
            }],
            remark: None,
            beside: vec![],
            crashed_at: None,
            crashed_at_if_utc: None,
            run: crate::knowledge::run::Run::default(),
            allocations: vec![],
            memory_summaries: vec![],
            signs: vec![],
            own_options: vec![],
            just_stops: false,
            is_shortened: false,
            is_cut_off: false,
        }
    }
}
