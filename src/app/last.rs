//! Owns what is kept for the next start (`--last`): the log that was read and the walk through its fixes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::walk::{Behind, Walk};
use crate::log::PastedLog;
use crate::units::WallTime;

/// What is known besides the text of the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Story {
    /// Where the log came from.
    pub origin: String,
    /// The command line that failed, as the person gave it.
    pub command: Option<String>,
    /// The model, as the person named it.
    pub model: Option<String>,
    /// The latest moment at which the job can have died.
    pub crashed_by: Option<WallTime>,
    /// The boot during which the fixes were taken: PIDs mean nothing in another one.
    pub boot_id: Option<String>,
    /// The fixes taken and skipped.
    pub behind: Vec<Behind>,
    /// When the first fix was taken.
    pub since: Option<WallTime>,
    /// What was freed by which process, in words.
    pub freed: Vec<String>,
    /// The person said that it works.
    pub works: bool,
}

/// A log with its story, to be kept.
#[derive(Clone, Debug)]
pub struct Kept {
    pub log: Arc<PastedLog>,
    pub story: Story,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        Arc::ptr_eq(&self.log, &other.log) && self.story == other.story
    }
}

impl Eq for Kept {}

impl Story {
    /// The walk as it goes on, without fixes about processes of another boot.
    pub fn walk(self, boot_id: Option<&String>) -> Walk {
        let same_boot = boot_id.is_some() && self.boot_id.as_ref() == boot_id;
        let behind = self.behind.into_iter().filter(|behind| same_boot || behind.id.target.is_none()).collect();
        Walk { behind, since: self.since, freed_before: self.freed, ..Walk::default() }
    }
}
