//! Owns the JSON of `oomdoctor diagnose`. The documentation of its types is what `oomdoctor schema diagnose` prints.

use schemars::JsonSchema;
use serde::Serialize;

use super::Report;
use super::markdown::{Mark, Walked};
use crate::advice::PlannedFix;
use crate::advice::changed::Difference;
use crate::advice::{Advice, NotOffered};
use crate::gpu::{SCHEMA, Snapshot};
use crate::hosts::HostName;
use crate::knowledge::diagnosis::{Diagnosis, Oom};

/// What `oomdoctor diagnose --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Diagnosis")]
#[serde(untagged)]
pub enum Output<'a> {
    /// Memory did not run out.
    No(AnotherFailure<'a>),
    /// Memory ran out, or may have.
    OutOfMemory(OutOfMemory<'a>),
}

/// What the log says, read alone.
#[derive(Serialize, JsonSchema)]
pub struct Found<'a> {
    /// The version of this format.
    schema: u32,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    /// The reading of this machine, or of the one in `live_host`; null where it was not wanted or not possible.
    live: Option<&'a Snapshot>,
    /// The machine that `live` and `live_reason` are of, where the log names another one that was asked for; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_host: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
pub struct AnotherFailure<'a> {
    #[serde(flatten)]
    found: Found<'a>,
    /// What ends the failure all the same, as far as that is known; absent elsewhere.
    #[serde(skip_serializing_if = "<[PlannedFix]>::is_empty")]
    plan: &'a [PlannedFix],
}

#[serde_with::skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub struct OutOfMemory<'a> {
    #[serde(flatten)]
    found: Found<'a>,
    #[serde(flatten)]
    advice: &'a Advice,
    /// With `--why`: fixes that are not offered, each with the rule that removed it; absent elsewhere.
    not_offered: Option<&'a [NotOffered]>,
    /// With `--good`: what differs from the run that worked; what explains the failure comes first. Absent elsewhere.
    since_it_worked: Option<&'a [Difference]>,
    /// Why `live` is null although a reading was wanted; absent elsewhere.
    live_reason: Option<&'a str>,
    /// With `--last`: what was done about the failure before. Absent elsewhere.
    done: Option<Done<'a>>,
}

/// What was done about a failure before, in the terminal program.
#[derive(Serialize, JsonSchema)]
pub struct Done<'a> {
    /// The steps that the user tried or skipped, the earliest first.
    steps: Vec<DoneStep<'a>>,
    /// What was seen: the processes whose VRAM was freed, and the run that was started afterwards.
    seen: &'a [String],
    /// Whether the user reported that the job works.
    reported_working: bool,
}

/// A step that the user tried or skipped.
#[derive(Serialize, JsonSchema)]
pub struct DoneStep<'a> {
    title: &'a str,
    /// What the user reported of it.
    outcome: Outcome,
}

/// What a user reports of a step.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// It was tried, or done here.
    Tried,
    DidNotHelp,
    Skipped,
}

impl Done<'_> {
    fn of(walked: &Walked) -> Done<'_> {
        let steps = walked.behind.iter().map(|(title, mark)| DoneStep {
            title,
            outcome: match mark {
                Mark::Taken => Outcome::Tried,
                Mark::DidNotHelp => Outcome::DidNotHelp,
                Mark::Skipped => Outcome::Skipped,
            },
        });
        Done { steps: steps.collect(), seen: &walked.freed, reported_working: walked.works }
    }
}

impl Output<'_> {
    pub fn of<'a>(report: &Report<'a>) -> Output<'a> {
        let (live, live_host) = (report.snapshot, report.host.map(HostName::as_str));
        let found = Found { schema: SCHEMA, diagnosis: report.diagnosis, live, live_host };
        match report.diagnosis.oom {
            Oom::No => Output::No(AnotherFailure { found, plan: &report.advice.plan }),
            Oom::Yes | Oom::Maybe => {
                let (advice, since_it_worked, live_reason) = (report.advice, report.since, report.no_reading);
                let not_offered = report.explains.then_some(advice.not_offered.as_slice());
                let done = report.walked.map(Done::of);
                Output::OutOfMemory(OutOfMemory { found, advice, not_offered, since_it_worked, live_reason, done })
            }
        }
    }
}
