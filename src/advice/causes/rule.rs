//! Owns what a cause is, apart from its rules and its words.

use serde::Deserialize;

use crate::advice::case::Case;
use crate::advice::verdict::CauseKind;
use crate::allocations::findings::FindingKind;

/// What a cause is, whichever rule found it: a row of `knowledge/advice/causes.ron`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub cause: CauseKind,
    /// In words: "another process".
    pub name: &'static str,
    pub blames: Blames,
    pub speaks_of_size: SpeaksOfSize,
    /// Whether waiting for another GPU is better than changing the run.
    #[serde(default)]
    pub is_solved_by_another_gpu: bool,
    /// What keeps it from happening again, in a sentence.
    prevent: &'static str,
    /// The same for a training run, where that differs.
    prevent_in_training: Option<&'static str>,
}

impl About {
    /// What keeps a failure of this cause from happening again, in a sentence.
    pub(crate) fn prevention(&self, is_training: bool) -> &'static str {
        let in_training = if is_training { self.prevent_in_training } else { None };
        in_training.unwrap_or(self.prevent)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Blames {
    /// Other processes on the GPU.
    Others,
    /// What the run itself does: what it was doing tells what to change.
    TheRun,
    /// A setting, the run's own process, or its ranks. Terminating others is no answer.
    NobodyElse,
    /// Something else, such as the machine's RAM or the context's length.
    SomethingElse,
}

/// Whether the sentence about what the model takes belongs to the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum SpeaksOfSize {
    Always,
    WhileLoading,
    Never,
}

/// The evidence of a rule in sentences with line numbers; `None` where the rule does not hold.
pub(crate) type Evidence = Option<Vec<String>>;

/// What a snapshot of the failure shows of this kind.
pub(super) fn said(case: &Case<'_>, kind: FindingKind) -> Evidence {
    let finding = case.log.recorded_failure()?.finding(kind)?;
    Some(vec![format!("the memory snapshot shows that {}", finding.said)])
}
