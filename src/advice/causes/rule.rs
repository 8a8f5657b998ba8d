//! Owns what a cause and a rule for it consist of.

use crate::advice::case::Case;
use crate::advice::verdict::{CauseKind, Strength};

/// What a cause is, whichever rule found it.
#[derive(Debug)]
pub struct About {
    pub id: CauseKind,
    /// In words: "another process".
    pub name: &'static str,
    pub blames: Blames,
    pub speaks_of_size: SpeaksOfSize,
    /// Whether waiting for another GPU is better than changing the run.
    pub is_solved_by_another_gpu: bool,
    /// What ran out and why, in a sentence or two.
    pub say: fn(&Case<'_>) -> String,
    /// What keeps it from happening again, in a sentence; for a training run, or for any other.
    pub prevent: fn(bool) -> &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blames {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeaksOfSize {
    Always,
    WhileLoading,
    Never,
}

/// One kind of evidence for a cause.
pub(crate) struct Rule {
    pub about: &'static About,
    /// In words, for `diagnose --why`.
    pub name: &'static str,
    pub strength: Strength,
    /// The evidence in sentences with line numbers; `None` where the rule does not hold.
    pub find: fn(&Case<'_>) -> Option<Vec<String>>,
}
