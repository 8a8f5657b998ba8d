//! Owns the state of the readings: the newest one, the history, and whether anybody looks at them.

use std::sync::Arc;
use std::time::Duration;

use crate::gpu::history::History;
use crate::gpu::{Header, Snapshot};

/// The stream of readings.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// The stream's first line.
    pub header: Option<Header>,
    pub latest: Option<Arc<Snapshot>>,
    /// When its line came.
    pub received: Option<Duration>,
    /// What was watched so far.
    pub history: History,
    /// When readings were last asked for sooner than before.
    pub hastened: Option<Duration>,
    /// Why the sampler is down, where it is.
    pub down: Option<String>,
    /// New readings are not taken in.
    pub paused: bool,
}

/// Whether anybody looks, and at what cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedAt {
    /// As the terminal says; one that does not say is always looked at.
    pub in_front: bool,
    /// The machine lives on its battery.
    pub on_battery: bool,
}

impl Default for LookedAt {
    fn default() -> Self {
        LookedAt { in_front: true, on_battery: false }
    }
}
