//! Owns what the person is told: the verdict, the sums, whether the model fits, and the steps.

use schemars::JsonSchema;
use serde::Serialize;

use super::brief::Brief;
use super::case::Case;
use super::fit::FitAdvice;
use super::input::Remembered;
use super::ledger::Ledger;
use super::steps::Plan;
use super::steps::planned::{NotOffered, PlannedFix};
use super::verdict::Verdict;
use crate::internal::Internal;

/// What to tell the person.
#[serde_with::apply(Internal => #[serde(skip)])]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// What ran out and why.
    pub verdict: Verdict,
    /// The verdict in one line, with the easiest way out.
    #[serde(skip)]
    pub brief: Brief,
    /// The bytes; `None` where neither log nor machine gives a capacity.
    pub ledger: Option<Ledger>,
    /// Whether the run's model fits, and what would make it; `None` where log and person don't say enough.
    pub fit: Option<FitAdvice>,
    /// What to do, best first.
    pub plan: Vec<PlannedFix>,
    /// What is not offered, and why.
    pub not_offered: Internal<Vec<NotOffered>>,
    /// What the next reading of the same log needs to know of this one.
    pub remembered: Internal<Remembered>,
    /// The run seems to have been started again, and nothing is known to be short for it: the steps are for
    /// when it fails again.
    pub on_its_way: Internal<bool>,
    /// The command line that the steps change: the person's or the log's, else that of the failed program, still here.
    pub command: Internal<Option<String>>,
}

impl Advice {
    pub fn of(case: &Case<'_>, verdict: Verdict, brief: Brief, plan: Plan) -> Advice {
        Advice {
            verdict,
            brief,
            ledger: case.ledger.clone(),
            fit: case.fit.clone(),
            plan: plan.steps,
            not_offered: plan.not_offered,
            remembered: case.remembered(),
            on_its_way: case.retry_has_room(),
            command: case.command.map(str::to_owned),
        }
    }
}
