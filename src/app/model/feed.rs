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
    /// The readings so far.
    pub history: History,
    /// When the pace of readings was last raised.
    pub hastened: Option<Duration>,
    /// Why the sampler is down, where it is.
    pub down: Option<String>,
    /// New readings are ignored.
    pub paused: bool,
}

/// Whether somebody looks at the screen, and what a reading costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedAt {
    /// As the terminal reports; true where it reports nothing.
    pub in_front: bool,
    /// The machine runs on battery.
    pub on_battery: bool,
}

impl Default for LookedAt {
    fn default() -> Self {
        LookedAt { in_front: true, on_battery: false }
    }
}
