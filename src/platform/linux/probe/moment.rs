//! Owns the moment of a refresh, by both of the machine's clocks.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: Instant,
    /// Microseconds since the epoch, which is how the driver stamps its samples.
    pub epoch_micros: u64,
}

impl Moment {
    pub fn now() -> Moment {
        let epoch_micros = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0);
        Moment { now: Instant::now(), epoch_micros }
    }
}
