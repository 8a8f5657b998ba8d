//! Owns since when `x` is about the processes that it would ask about.

use std::time::Duration;

use crate::gpu::ProcessKey;

/// After the highlight moved to another process by itself, `x` asks nothing for this long: it may have been meant
/// for the previous one.
pub(crate) const UNSEEN: Duration = Duration::from_secs(1);

/// Which processes `x` asks about, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The last ones that it would have asked about.
    keys: Vec<ProcessKey>,
    /// When they replaced others without the person's doing.
    moved_at: Option<Duration>,
}

impl Aim {
    /// Notes what `x` would ask about after a message.
    pub fn follow(&mut self, keys: Vec<ProcessKey>, by_person: bool, now: Duration) {
        // Where nothing can be asked about, the next ones are compared with those before.
        if keys.is_empty() || self.keys == keys {
            return;
        }
        let by_itself = !by_person && !self.keys.is_empty();
        self.moved_at = by_itself.then_some(now);
        self.keys = keys;
    }

    /// Until when nothing is asked, since the person can't have seen the new highlight.
    pub fn unseen_until(&self) -> Option<Duration> {
        self.moved_at.map(|at| at + UNSEEN)
    }
}
