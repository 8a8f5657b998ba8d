//! Owns what an entry of the knowledge base is: the shape of `knowledge/entries/<raised_by>/<entry>.ron`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::diagnosis::{CauseKind, Certainty, MemoryKind, Oom, Phase};
use super::fix::Reference;
use super::id::{EntryId, FixId};
use super::pattern::{self, Pattern};
use crate::units::UnitBase;

/// Whether an entry has earned its place by examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Status {
    /// Written, not yet held against enough logs.
    Draft,
    /// Judged by its own examples and everyone else's.
    Stable,
}

/// One thing a log can say, and what it means.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its path without `.ron`, such as `pytorch/cuda-out-of-memory`; filled by the loader.
    #[serde(skip)]
    pub id: EntryId,
    /// A few words for a list.
    pub title: String,
    /// Whether memory ran out. `No`: recognised as something else.
    pub oom: Oom,
    /// Which memory; none where none ran out.
    #[serde(default)]
    pub memory: Option<MemoryKind>,
    /// Whose code prints it; the folder's name where it is not given.
    #[serde(default)]
    pub raised_by: Option<String>,
    /// The program, where the message itself tells.
    #[serde(default)]
    pub program: Option<String>,
    /// The phase, where the message itself tells.
    #[serde(default)]
    pub phase: Option<Phase>,
    pub status: Status,
    /// How sure a match is.
    pub certainty: Certainty,
    /// Rare strings for the first pass (ASCII case does not count); a line without any of them is never looked at.
    pub literals: Vec<String>,
    /// When a line is this.
    pub when: When,
    /// Patterns whose captures are figures; each is optional, the first that yields a key wins.
    #[serde(default, deserialize_with = "pattern::each")]
    pub figures: Vec<Pattern>,
    /// How many lines before and after the decisive one figures may stand on.
    #[serde(default = "figure_reach")]
    pub reach: (usize, usize),
    /// What MB and GB mean here.
    #[serde(default)]
    pub units: UnitBase,
    /// Entries (ids, or `folder/*`) whose matches this one explains.
    #[serde(default)]
    pub masks: Vec<String>,
    /// Entries that this one says more exactly: where both match the same line, this one stands for both.
    #[serde(default)]
    pub refines: Vec<EntryId>,
    /// Entries whose figures count too where this one leads.
    #[serde(default)]
    pub draws_on: Vec<EntryId>,
    /// What the message itself says of the cause; the first whose pattern matches.
    #[serde(default)]
    pub tells: Vec<Tells>,
    /// Whether it only speaks where no other entry has anything to say near it: for wordings nobody has written down.
    #[serde(default)]
    pub fallback: bool,
    /// What shows that the failure was recovered from: a yes becomes a maybe.
    #[serde(default)]
    pub recovered: Vec<Recovered>,
    /// Why this is "maybe" or "no", in a sentence.
    #[serde(default)]
    pub remark: Option<String>,
    /// What replaces it in one wording of the message; the first whose pattern matches.
    #[serde(default)]
    pub remarks: Vec<Remark>,
    /// Where the fuller log lies, where this message is usually all a person has.
    #[serde(default)]
    pub fuller_log: Option<String>,
    /// Why it happens, two or three sentences for a newcomer.
    pub why: String,
    /// Ids of fixes, best first.
    #[serde(default)]
    pub fixes: Vec<FixId>,
    /// Ids of the questions people ask about this, see `knowledge/questions.ron`.
    #[serde(default)]
    pub questions: Vec<String>,
    /// Ids of entries worth reading beside this one.
    #[serde(default)]
    pub related: Vec<EntryId>,
    /// Where this comes from and when it was last checked.
    pub references: Vec<Reference>,
    /// Logs that are this.
    pub matches: Vec<Example>,
    /// Logs that are not.
    pub rejects: Vec<NearMiss>,
}

/// A cause that a message names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tells {
    pub cause: CauseKind,
    /// In which wording, on the lines that figures may stand on; none: in each.
    #[serde(default)]
    pub pattern: Option<Pattern>,
}

fn figure_reach() -> (usize, usize) {
    (0, 12)
}

impl Entry {
    /// Whose code prints it.
    pub fn raiser(&self) -> &str {
        let folder = || self.id.as_str().split('/').next().unwrap_or_default();
        self.raised_by.as_deref().unwrap_or_else(folder)
    }

    /// Whether this entry explains matches of the other one away.
    pub fn masks(&self, other: &Entry) -> bool {
        self.masks.iter().any(|mask| match mask.strip_suffix("/*") {
            Some(folder) => other.id.as_str().split('/').next() == Some(folder),
            None => *mask == other.id.as_str(),
        })
    }

    /// Every pattern, for checks.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let when = &self.when;
        [&when.any, &when.all, &when.none, &when.near, &when.not_near, &when.nowhere]
            .into_iter()
            .flatten()
            .chain(&self.figures)
            .chain(self.recovered.iter().map(|recovered| &recovered.pattern))
            .chain(self.remarks.iter().map(|one| &one.pattern))
            .chain(self.tells.iter().filter_map(|tells| tells.pattern.as_ref()))
    }
}

/// When a line is this entry's decisive line.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// At least one matches the line.
    pub any: Vec<Pattern>,
    /// All match the line.
    pub all: Vec<Pattern>,
    /// None matches the line.
    pub none: Vec<Pattern>,
    /// At least one matches within `reach` lines of it.
    pub near: Vec<Pattern>,
    /// None matches within `reach` lines of it.
    pub not_near: Vec<Pattern>,
    /// None matches anywhere in the log (its first and last MiB where it is larger).
    pub nowhere: Vec<Pattern>,
    /// How many lines before and after `near` and `not_near` look at.
    #[serde(default = "near_reach")]
    pub reach: (usize, usize),
    /// Whether lines that look like source code count: they quote messages all the time.
    pub in_source: bool,
}

fn near_reach() -> (usize, usize) {
    (8, 8)
}

/// What is to be said where the message has this wording.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remark {
    /// The wording, on the decisive line.
    pub pattern: Pattern,
    /// The sentence; where nothing else is offered, with the next step.
    pub remark: String,
}

/// What shows that a failure was recovered from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovered {
    /// What the log then says.
    pub pattern: Pattern,
    /// Within how many lines before and after.
    #[serde(default = "near_reach")]
    pub reach: (usize, usize),
    /// The sentence that says why it is a maybe.
    pub because: String,
}

/// A log that is this entry's, and exactly what must be read from it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    pub log: String,
    /// Fact key to figure as printed: `"requested_bytes": "2.00 GiB"`.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// The answer where it is not the entry's own (a recovered failure).
    #[serde(default)]
    pub oom: Option<Oom>,
    /// The program, where the example shows it.
    #[serde(default)]
    pub program: Option<String>,
}

/// A log that looks like this entry's and is not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearMiss {
    pub log: String,
    /// Why it is not.
    pub why: String,
}
