//! Owns the kinds of limits (`knowledge/advice/limits.ron`): how each is called, the command that shows it, who sets it, and
//! which path of a control group belongs to it. Entries refer to a row by its id.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fix::Reference;
use super::kinds::CauseKind;
use crate::ids::FixId;
use crate::packed;

/// Of a control group, whoever made it.
pub(super) const CGROUP: &str = "cgroup";
/// Of the shell, on addresses.
pub const ADDRESS_SPACE: &str = "address-space";
/// What Windows can promise: RAM and page file together.
pub(super) const COMMIT_LIMIT: &str = "commit-limit";

/// A limit that a failure can be about, or a watcher that ends processes before the memory is full.
#[serde_with::apply(Vec => #[serde(default)], bool => #[serde(default)])]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// As entries name it; also the `program` of the forms of fixes that raise it.
    pub id: String,
    /// What happened, as the verdict's sentence begins.
    pub said: String,
    /// What it is called within a sentence: "the heap limit (-Xmx)".
    pub name: String,
    /// Who sets it, and where.
    pub set_by: String,
    /// The command that shows it, where there is one.
    pub shown_by: Option<String>,
    /// `host-memory` where the memory of the whole machine was short, and this is who noticed.
    #[serde(default = "limit")]
    pub cause: CauseKind,
    /// Whether the machine's RAM itself was short, so that its figures belong beside the log.
    pub is_of_ram: bool,
    /// Who ends processes because of it, where that is not the kernel.
    pub ended_by: Option<String>,
    /// The setting (`knowledge/settings.ron`) whose value it is, for logs that show the setting and not the limit.
    pub setting: Option<String>,
    /// What the path of a control group contains that has this limit.
    pub cgroups: Vec<String>,
    /// What to do about it, whatever entry the message is of.
    pub fixes: Vec<FixId>,
    pub references: Vec<Reference>,
}

fn limit() -> CauseKind {
    CauseKind::Limit
}

static LIMITS: LazyLock<Vec<Limit>> =
    LazyLock::new(|| packed::table(include_str!("../../knowledge/advice/limits.ron")));

/// The kind of that id.
pub fn of(id: &str) -> Option<&'static Limit> {
    LIMITS.iter().find(|limit| limit.id == id)
}

/// The kind whose control groups have such a path.
pub(super) fn of_cgroup(path: &str) -> Option<&'static Limit> {
    LIMITS.iter().find(|limit| limit.cgroups.iter().any(|part| path.contains(part)))
}

/// Every kind, for checks.
pub fn all() -> &'static [Limit] {
    &LIMITS
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id)
    }
}

/// Reads an id; one that the table lacks is an error, so that a wrong one is found where its entry is loaded.
pub(super) fn by_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'static Limit>, D::Error> {
    let Some(id) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    match of(&id) {
        Some(limit) => Ok(Some(limit)),
        None => Err(serde::de::Error::custom(format!("no limit is called {id} (knowledge/advice/limits.ron)"))),
    }
}
