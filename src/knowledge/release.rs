//! Owns known regressions and repaired bugs (`knowledge/releases/*.ron`): which versions of a program fail in a way that
//! another version does not. Each becomes a sign and the fix that it asks for.

use serde::Deserialize;

use super::diagnosis::MemoryKind;
use super::fix::{Fix, FixCommand, Reference};
use super::pattern::Pattern;
use super::sign::Sign;
use super::version::Range;
use crate::ids::{EntryId, FixId};

/// A bug of some versions that looks like memory that ran out, or makes it run out.
#[serde_with::apply(Vec => #[serde(default)])]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    /// The id of the fix: `vllm-0-6-4-profile`.
    id: FixId,
    affected: Range,
    /// What the log shows, as the end of the sentence "the log shows that …".
    that: String,
    programs: Vec<String>,
    entries: Vec<EntryId>,
    memory: Vec<MemoryKind>,
    shows: Vec<Pattern>,
    lacks: Vec<Pattern>,
    /// What to do, for a heading: "Update vLLM to 0.6.5 or later".
    title: String,
    /// The same in a sentence, with what else there is to know.
    #[serde(rename = "do")]
    action: String,
    command: Option<String>,
    /// What was wrong, and since when it is not.
    why: String,
    example: String,
    references: Vec<Reference>,
}

impl Release {
    /// The sign of the bug, and the change of version that ends it.
    pub(super) fn into_parts(self) -> (Sign, Fix) {
        let form =
            FixCommand { program: "*".into(), action: self.action, command: self.command, ..FixCommand::default() };
        let fix = Fix {
            id: self.id,
            title: self.title,
            replaces: vec![FixId::UPDATE_RUNNER, FixId::UPDATE_PROGRAM, FixId::UPDATE_COMFYUI, FixId::ANOTHER_VERSION],
            why: self.why,
            expect: "The same run passes with that version, with the settings that it has.".into(),
            if_not: "If it fails in the same way, this bug is not the cause: go on with the next step.".into(),
            costs: "a change of version".into(),
            commands: vec![form],
            references: self.references.clone(),
            ..Fix::default()
        };
        let sign = Sign {
            that: self.that,
            programs: self.programs,
            entries: self.entries,
            memory: self.memory,
            shows: self.shows,
            lacks: self.lacks,
            affected: Some(self.affected),
            fixes: vec![self.id],
            version_matters: true,
            example: self.example,
            references: self.references,
            ..Sign::default()
        };
        (sign, fix)
    }
}
