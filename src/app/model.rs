//! Owns everything the program knows at a moment, as data: the screen is a function of it alone. What is derived from it is
//! in the files of `app` that it is about.

mod aim;
pub(crate) mod allocations;
mod config;
mod feed;
mod found;
mod hosts;
mod input;
pub(crate) mod list;
mod processes;
pub(crate) mod screen;

use std::sync::Arc;
use std::time::Duration;

pub use aim::Aim;
#[cfg(test)]
pub(crate) use aim::UNSEEN;
pub use allocations::Allocations;
pub use config::{Config, Palette, Source};
pub use feed::{Feed, LookedAt};
pub use found::FoundLogs;
pub use hosts::{Away, Host, Hosts};
pub use input::{Change, Followed, Input, Pipe, SinceItWorked};
pub use processes::{Processes, RowId, Sort};
pub use screen::{Click, Region, Seen, Target};

use super::gate::Gate;
use super::last::Story;
use super::overlay::OpenOverlay;
use super::prompt::Prompt;
use super::question::Question;
use super::replay::Replay;
use super::walk::{Ending, Walk};
use crate::advice::{Advice, Trial};
use crate::gpu::Snapshot;
use crate::knowledge::page::Page;
use crate::units::WallTime;

#[derive(Clone, Debug)]
pub struct Model {
    /// What does not change.
    pub config: Config,
    /// The moment of the last message.
    pub now: Duration,
    /// The same as wall-clock time.
    pub wall: WallTime,
    pub size: (u16, u16),
    /// Who looks, and at what cost.
    pub looked_at: LookedAt,
    /// Which region has the focus.
    pub focus: Region,
    /// The focused region has the screen to itself.
    pub zoomed: bool,
    /// The stream of readings.
    pub feed: Feed,
    pub processes: Processes,
    /// Which processes `x` asks about, and since when.
    pub aim: Aim,
    pub input: Input,
    /// The memory snapshots of the log's run.
    pub allocations: Allocations,
    /// The failed logs that lie on this machine.
    pub found: FoundLogs,
    /// The machines that are watched besides this one.
    pub hosts: Hosts,
    /// What log and machine together say; derived again whenever either changes.
    pub advice: Option<Advice>,
    /// The walk through the plan of the advice.
    pub walk: Walk,
    /// The settings of the run's model that the person tries; kept while log and model are the same.
    pub trial: Option<Box<Trial>>,
    /// The recording of a run, once it was read.
    pub replay: Option<Box<Replay>>,
    /// What is done once the recording of the log's run is read.
    pub awaited_record: Option<AwaitedRecord>,
    /// The processes that were terminated or asked to unload, in order.
    pub endings: Vec<Ending>,
    pub question: Option<Question>,
    /// What is laid over the screen.
    pub overlay: Option<OpenOverlay>,
    /// A line being typed.
    pub prompt: Option<Prompt>,
    /// The glossary, once the knowledge base is loaded.
    pub glossary: Option<Arc<Page>>,
    /// What is said at the foot of the screen, and since when.
    pub notice: Option<(String, Duration)>,
    /// What can be clicked, as it was drawn last.
    pub targets: Vec<Target>,
    /// Keys that may yet turn out to be a paste.
    pub gate: Gate,
    /// What was kept last for the next start: the generation of its log, and its story.
    pub kept: Option<(u64, Story)>,
    /// A paste has begun and not ended.
    pub pasting: bool,
    /// The loop ends after this message.
    pub leaving: bool,
}

/// Why a recording is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedRecord {
    ToShow,
    /// Its command is to be run again.
    ToRunAgain,
}

impl Model {
    /// A program that has just started and knows nothing.
    pub fn new(config: Config, size: (u16, u16), wall: WallTime) -> Model {
        Model {
            config,
            now: Duration::ZERO,
            wall,
            size,
            looked_at: LookedAt::default(),
            focus: Region::Processes,
            zoomed: false,
            feed: Feed::default(),
            processes: Processes::default(),
            aim: Aim::default(),
            input: Input::default(),
            allocations: Allocations::default(),
            found: FoundLogs::default(),
            hosts: Hosts::default(),
            advice: None,
            walk: Walk::default(),
            trial: None,
            replay: None,
            awaited_record: None,
            endings: Vec::new(),
            question: None,
            overlay: None,
            prompt: None,
            glossary: None,
            notice: None,
            targets: Vec::new(),
            gate: Gate::default(),
            kept: None,
            pasting: false,
            leaving: false,
        }
    }

    /// The readings of this machine, which another one may have taken the screen of.
    pub fn home(&mut self) -> &mut Feed {
        self.hosts.away.as_mut().map_or(&mut self.feed, |away| &mut away.home)
    }

    /// The last reading of the machine on the screen.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.feed.latest.as_deref()
    }
}
