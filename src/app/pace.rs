//! Owns how often the machine is read, when a reading is overdue, and when the screen changes though nothing happens.

use std::time::Duration;

use super::dialog::NOTICE;
use super::model::{LookedAt, Model};

/// Readings are this many times rarer while nobody looks, and on battery; but never rarer than `SLOWEST`.
const AWAY: u32 = 5;
const BATTERY: u32 = 2;
const SLOWEST: Duration = Duration::from_secs(10);
/// Readings of other machines come so far apart.
const OTHER_MACHINES: Duration = Duration::from_secs(2);

impl Model {
    /// How long the sampler has been silent beyond what is normal; `None` where it speaks.
    pub fn silent_for(&self) -> Option<Duration> {
        let age = self.now.saturating_sub(self.feed.received.unwrap_or(Duration::ZERO));
        (self.now >= self.expected_by()).then_some(age)
    }

    /// When a reading is overdue. One that was asked for at a slower pace is not late at once when the pace rises.
    fn expected_by(&self) -> Duration {
        let asked = self.feed.received.max(self.feed.hastened).unwrap_or(Duration::ZERO);
        asked + self.silence_allowed()
    }

    /// The time from one reading to the next: longer while nobody looks and on battery, unless something is awaited.
    pub fn pace(&self) -> Duration {
        let usual = self.config.interval;
        if self.question.is_some() || self.walk.waits_for.is_some() || self.awaited().is_some() {
            return usual;
        }
        let LookedAt { in_front, on_battery } = self.looked_at;
        let factor = if in_front { 1 } else { AWAY } * if on_battery { BATTERY } else { 1 };
        usual.saturating_mul(factor).min(SLOWEST.max(usual))
    }

    /// Three intervals; at the start the driver may need a moment more.
    fn silence_allowed(&self) -> Duration {
        let pace = if self.hosts.away.is_some() { self.pace().max(OTHER_MACHINES) } else { self.pace() };
        let three = pace * 3;
        if self.feed.received.is_some() { three } else { three.max(Duration::from_secs(3)) }
    }

    /// When something changes on the screen without a message.
    pub fn wakes_at(&self) -> Option<Duration> {
        let silence = match self.silent_for() {
            // The age of the last reading counts on while the driver is silent.
            Some(_) => Some(self.now + Duration::from_secs(1)),
            None => Some(self.expected_by()),
        };
        let notice = self.notice.as_ref().map(|(_, said)| *said + NOTICE);
        let question = self.question.as_ref().and_then(|question| question.wakes_at(self.now));
        let unseen = self.aim.unseen_until().filter(|until| *until > self.now);
        [silence, notice, question, unseen, self.gate.wakes_at()].into_iter().flatten().min()
    }
}
