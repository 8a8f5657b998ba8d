//! Owns the state of the failed logs that were found on this machine.

use crate::source::{Looked, SourceId};
use crate::units::WallTime;

/// The logs that were found, and what is being looked for.
#[derive(Clone, Debug, Default)]
pub struct FoundLogs {
    /// The best first; `None` until places were looked at.
    pub places: Option<Vec<Looked>>,
    pub is_looking: bool,
    /// The place whose log is being read.
    pub awaited: Option<SourceId>,
}

impl FoundLogs {
    /// The log to offer: the best that shows a failure.
    pub fn best(&self, now: WallTime) -> Option<&Looked> {
        self.places.as_ref()?.iter().find(|looked| looked.shows_a_failure() && looked.is_recent(now))
    }
}
