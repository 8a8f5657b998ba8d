//! Owns what an entry of the knowledge base is: the shape of `knowledge/entries/<raised_by>/<entry>.ron`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::diagnosis::{CauseKind, Certainty, MemoryKind, Oom, Phase};
use super::fix::Reference;
use super::limit::{self, Limit};
use super::pattern::{self, Pattern};
use crate::ids::{EntryId, FixId};
use crate::units::UnitBase;

/// How well an entry is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Status {
    /// Not yet tested on enough logs.
    Draft,
    /// Tested on its own examples and on those of all other entries.
    Stable,
}

/// A message that a log can contain, and what it means.
#[serde_with::apply(Vec => #[serde(default)], bool => #[serde(default)])]
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
    /// Which memory ran out, if any did.
    pub memory: Option<MemoryKind>,
    /// Whose code prints the message, if that is not the name of the entry's folder.
    pub raised_by: Option<String>,
    /// What the person ran, if the message itself shows it.
    pub program: Option<String>,
    /// The phase, if the message itself shows it.
    pub phase: Option<Phase>,
    pub status: Status,
    /// How sure a match is.
    pub certainty: Certainty,
    /// Rare strings for the first pass, without regard to ASCII case. Only lines with one of them are examined.
    pub literals: Vec<String>,
    /// The conditions under which a line is this message.
    pub when: When,
    /// Patterns whose captures are figures; each is optional, the first that yields a key wins.
    #[serde(deserialize_with = "pattern::each")]
    pub figures: Vec<Pattern>,
    /// How many lines before and after the decisive one figures may stand on.
    #[serde(default = "figure_reach")]
    pub reach: (usize, usize),
    /// What MB and GB mean here.
    #[serde(default)]
    pub units: UnitBase,
    /// Entries (ids, or `folder/*`) whose matches this one explains.
    pub masks: Vec<String>,
    /// Less precise entries: if one of them matches the same line, this entry replaces it.
    pub refines: Vec<EntryId>,
    /// Entries that complete this one's figures when it leads.
    pub draws_on: Vec<EntryId>,
    /// What the message itself says about the cause. The first one whose pattern matches applies.
    pub tells: Vec<Tells>,
    /// Whether it counts only if no other entry matches nearby: for wordings that no entry knows.
    pub fallback: bool,
    /// Whether many programs print such messages: whose code prints this one follows from what `prints` says in
    /// `knowledge/programs.ron`, or from a name before the message. `raised_by` applies where neither shows.
    pub anyones: bool,
    /// Whether it shows only that a process was killed. It does not count where an entry with `explains_kills` names the
    /// sender of the signal (`src/knowledge/killer.rs`).
    pub bare_kill: bool,
    /// Set where the message says who kills a process and why, other than for memory: how many lines above and below it
    /// that process's end may stand.
    pub explains_kills: Option<(usize, usize)>,
    /// What shows that the program recovered from the failure: the answer becomes "maybe".
    pub recovered: Vec<Recovered>,
    /// Why this is "maybe" or "no", in a sentence.
    pub remark: Option<String>,
    /// Remarks for single wordings of the message. The first one whose pattern matches replaces `remark`.
    pub remarks: Vec<Remark>,
    /// Where to find the full log, for a message that is often all that a person has.
    pub fuller_log: Option<String>,
    /// Why it happens, two or three sentences for a newcomer.
    pub why: String,
    /// Ids of fixes, best first.
    pub fixes: Vec<FixId>,
    /// Ids of the questions people ask about this, see `knowledge/questions.ron`.
    pub questions: Vec<String>,
    /// Ids of entries worth reading beside this one.
    pub related: Vec<EntryId>,
    /// Where this comes from and when it was last checked.
    pub references: Vec<Reference>,
    /// Logs that are this.
    pub matches: Vec<Example>,
    /// Logs that are not.
    pub rejects: Vec<NearMiss>,
}

/// What a message says of the cause: the cause, the kind of limit that it is about, or both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tells {
    /// The limit's own cause where a limit is named.
    pub cause: Option<CauseKind>,
    /// A row of `knowledge/advice/limits.ron`.
    #[serde(default, deserialize_with = "limit::by_id")]
    pub limit: Option<&'static Limit>,
    /// The wording that names the cause, within `reach`; without a pattern every wording does.
    pub pattern: Option<Pattern>,
}

fn figure_reach() -> (usize, usize) {
    (0, 12)
}

impl Entry {
    /// Whose code prints it.
    pub fn raiser(&self) -> &str {
        self.raised_by.as_deref().unwrap_or(self.id.folder())
    }

    /// Whether this entry explains matches of the other one away.
    pub fn masks(&self, other: &Entry) -> bool {
        self.masks.iter().any(|mask| match mask.strip_suffix("/*") {
            Some(folder) => other.id.folder() == folder,
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
    /// Whether lines that look like source code count as well. Such lines usually only quote a message.
    pub in_source: bool,
}

fn near_reach() -> (usize, usize) {
    (8, 8)
}

/// A remark for one wording of the message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remark {
    /// The wording, on the decisive line.
    pub pattern: Pattern,
    /// The sentence. If the entry has no fixes, it names the next step.
    pub remark: String,
}

/// What shows that a failure was recovered from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovered {
    /// What the log then says.
    pub pattern: Pattern,
    /// How many lines before and after the message are checked.
    #[serde(default = "near_reach")]
    pub reach: (usize, usize),
    /// The sentence that says why it is a maybe.
    pub because: String,
}

/// A log that this entry explains, and exactly what must be read from it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    pub log: String,
    /// Fact key to figure as printed: `"requested_bytes": "2.00 GiB"`.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// The answer, if it differs from the entry's: the program recovered from the failure.
    pub oom: Option<Oom>,
    /// The program, where the example shows it.
    pub program: Option<String>,
}

/// A log that resembles this entry's examples and must not match.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearMiss {
    pub log: String,
    /// Why it is not.
    pub why: String,
}
