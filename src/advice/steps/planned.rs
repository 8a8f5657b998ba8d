//! Owns what a step of the plan is: a fix with this machine's figures.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use strum::AsRefStr;

use crate::advice::naming::{capitalized, uncapitalized};
use crate::advice::other_gpu::RoomOn;
use crate::advice::release::Release;
use crate::advice::rerun::Changes;
use crate::gpu::ProcessKey;
use crate::internal::Internal;
use crate::knowledge::{Fix, FixId, Safety};
use crate::memory::Is;
use crate::units::Bytes;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// In a sentence that begins with a verb.
    #[serde(rename = "do")]
    pub action: String,
    /// The exact command or line to change.
    pub command: Option<String>,
    pub why: String,
    /// What to expect when it worked.
    pub expect: String,
    /// What to do when it did not.
    pub if_not: String,
    /// The versions that the command is right for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<String>,
}

impl Step {
    pub(crate) fn new(action: String, command: Option<String>, why: String, expect: &str, if_not: &str) -> Step {
        Step { action, command, why, expect: expect.to_owned(), if_not: if_not.to_owned(), versions: None }
    }
}

/// Whether a step gets the run going. As a text it is the word of the JSON contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AsRefStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Enough {
    /// By the model's own sums, or by what was seen of another GPU.
    Yes,
    /// It frees at least what is short; that is a lower bound, so that more may be needed.
    Likely,
    /// It frees less than what is short.
    NotAlone,
    /// Together with the other processes that the plan terminates it frees what is short.
    WithOthers,
    /// It moves more to system memory than is available there.
    LacksRam { needs: Bytes, has: Bytes },
    #[default]
    Unknown,
}

impl Enough {
    /// Whether the run is worth trying after this step alone.
    pub fn may_be_enough(self) -> bool {
        matches!(self, Enough::Yes | Enough::Likely)
    }
}

impl Serialize for Enough {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_ref())
    }
}

impl JsonSchema for Enough {
    fn schema_name() -> Cow<'static, str> {
        "Enough".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": ["yes", "likely", "not-alone", "with-others", "lacks-ram", "unknown"]})
    }
}

/// A fix with this machine's figures.
#[serde_with::apply(Internal => #[serde(skip)])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PlannedFix {
    pub fix: FixId,
    /// For the step's line.
    pub title: String,
    /// What taking it costs.
    pub safety: Safety,
    /// How much it frees; `None` where this log does not tell.
    pub frees_bytes: Option<Bytes>,
    /// How sure that is.
    pub frees_is: Option<Is>,
    /// What it and the steps before it free together.
    pub frees_so_far_bytes: Option<Bytes>,
    /// Whether it gets the run going.
    pub enough: Enough,
    /// Whether `enough` is yes or likely.
    pub may_be_enough: bool,
    /// What must be true for the step to help, where log and machine do not tell whether it is: "if it ran in a container".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The steps that it takes together, where none of them alone is enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<FixId>,
    /// What it costs in a few words.
    pub costs: String,
    /// What to do, one after the other.
    pub steps: Vec<Step>,
    /// The process it would terminate, by PID and start time.
    pub target: Option<ProcessKey>,
    /// Taking it means to wait until so much is free on the device of that index.
    pub waits_for: Internal<Option<(u32, Bytes)>>,
    /// The device on which the run would fit, as it was seen.
    pub room_on: Internal<Option<RoomOn>>,
    /// What it changes in a command line, for the line to run again with.
    pub changes: Internal<Option<Changes>>,
    /// Its condition is a version that the log does not print; the log shows the symptom.
    pub is_of_a_version: Internal<bool>,
    /// The process releases its memory by the step's command: better than terminating it.
    pub gentle: Internal<bool>,
    /// Whether it is about a process that is known to be idle.
    pub is_idle: Internal<bool>,
    /// What put it where it is; `None` for its place in the entry.
    pub placed_by: Internal<Option<&'static str>>,
    /// What the log shows that asks for it, as the end of the sentence "the log shows that …".
    pub because: Internal<Option<String>>,
    /// How oomdoctor can ask the process's program for that itself.
    pub release: Internal<Option<Release>>,
}

impl PlannedFix {
    /// A step with nothing in it yet: safe, and of unknown effect.
    pub fn named(fix: FixId, costs: &str) -> PlannedFix {
        PlannedFix { fix, costs: costs.into(), ..PlannedFix::default() }
    }

    /// The same for a fix of the knowledge base.
    pub fn of(fix: &Fix) -> PlannedFix {
        PlannedFix { title: fix.title.clone(), safety: fix.safety, ..PlannedFix::named(fix.id, &fix.costs) }
    }

    /// The step with a condition in front of what to do.
    pub(crate) fn with_condition(mut self, condition: &str) -> PlannedFix {
        for step in &mut self.steps {
            step.action = format!("{condition}{}", uncapitalized(&step.action));
        }
        self
    }

    /// The step with its condition, which log and machine do not decide, in front of what to do.
    pub(crate) fn only(self, condition: &str) -> PlannedFix {
        let title = format!("{}, {condition}", self.title);
        let planned = self.with_condition(&format!("{}: ", capitalized(condition)));
        PlannedFix { title, condition: Some(condition.to_owned()), ..planned }
    }

    /// Adds to what its last step says of versions.
    pub(crate) fn note(&mut self, text: &str) {
        let Some(step) = self.steps.last_mut() else { return };
        let text = uncapitalized(text);
        step.versions = Some(match step.versions.take() {
            Some(versions) => format!("{versions}; {text}"),
            None => text,
        });
    }

    pub(crate) fn is_about_the_same(&self, other: &PlannedFix) -> bool {
        (self.target, &self.title) == (other.target, &other.title)
    }

    /// Whether it is about a process: to terminate it or to have it release memory.
    pub fn is_about_a_process(&self) -> bool {
        self.target.is_some()
    }
}

/// A fix that is not offered, and the rule that removed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotOffered {
    pub fix: FixId,
    pub rule: String,
}
