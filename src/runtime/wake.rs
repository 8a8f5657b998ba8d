//! Owns what wakes the loop, and the two clocks that it reads.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::terminal;
use crate::app::{Cx, Msg};
use crate::platform::{Asked, News};
use crate::units::WallTime;

#[derive(Debug)]
pub enum Wake {
    /// A message for the app.
    Msg(Msg),
    /// A request of the system.
    Asked(Asked),
    /// The signal of this number asks the program to exit, which it does as long as it keeps the sender.
    End(i32, Sender<()>),
}

impl From<News> for Wake {
    fn from(news: News) -> Wake {
        Wake::Msg(match news {
            News::Header(header) => Msg::Header(header),
            News::Snapshot(snapshot) => Msg::Sample(snapshot),
            News::Down(why) => Msg::FeedDown(why),
            News::OnBattery(is_on_battery) => Msg::OnBattery(is_on_battery),
            // The terminal program asks for none.
            News::Glance(_) | News::Peaks(_) => Msg::Tick,
        })
    }
}

/// Sends messages to the loop.
pub(crate) trait Tell {
    /// Sends this message and says whether the loop still runs.
    fn tell(&self, msg: Msg) -> bool;

    fn trouble(&self, text: impl Into<String>) {
        self.tell(Msg::Trouble(text.into()));
    }
}

impl Tell for Sender<Wake> {
    fn tell(&self, msg: Msg) -> bool {
        self.send(Wake::Msg(msg)).is_ok()
    }
}

/// The terminal's size now, as a message.
pub(super) fn new_size() -> Msg {
    terminal::size().map_or(Msg::Tick, |(columns, rows)| Msg::Resize(columns, rows))
}

/// Both clocks, read once per wake-up.
#[derive(Clone, Copy)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { started: Instant::now() }
    }

    /// The time since the start.
    pub(super) fn elapsed(self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn wall(self) -> WallTime {
        WallTime(Timestamp::now())
    }

    pub(super) fn now(self) -> Cx {
        Cx { now: self.elapsed(), wall: self.wall() }
    }
}
