//! Owns the verdict as it is told: what ran out and why, with the evidence for each cause.

use schemars::JsonSchema;
use serde::Serialize;
use strum::AsRefStr;

pub use crate::knowledge::diagnosis::CauseKind;

/// How strongly the evidence speaks for a cause. As a text it is the word of the JSON contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, AsRefStr, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Strength {
    /// It is possible, and nothing else speaks up more.
    Hint,
    Likely,
    Strong,
    /// The figures or the log's own words leave no other reading.
    Proven,
}

impl Strength {
    /// The number that stands for it in the JSON, from 0 to 1.
    pub fn weight(self) -> f64 {
        match self {
            Strength::Hint => 0.25,
            Strength::Likely => 0.5,
            Strength::Strong => 0.75,
            Strength::Proven => 1.0,
        }
    }
}

/// One cause with the evidence for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    pub cause: CauseKind,
    pub strength: Strength,
    /// The same as a number: 0.25, 0.5, 0.75 or 1. Weights are not probabilities and need not sum to 1.
    pub weight: f64,
    /// In sentences, with line numbers.
    pub evidence: Vec<String>,
    /// The rule that found it.
    #[serde(skip)]
    pub rule: &'static str,
}

/// What ran out and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// One sentence a person can act on.
    pub sentence: String,
    /// Whether the log was written on this machine; `None` where it doesn't tell.
    pub same_machine: Option<bool>,
    /// The driver's indices of the GPUs here that it may have failed on, where several fit and nothing in the log ties it
    /// to one of them. Absent where there is no choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_candidates: Vec<u32>,
    /// The strongest first.
    pub causes: Vec<Cause>,
    /// What else must be known to read the figures, such as that they contradict each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
