//! Owns what is kept for the next start (`--last`): the log that was read and the walk through its fixes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::walk::{Behind, Walk};
use crate::log::PastedLog;
use crate::report::markdown::Walked;
use crate::units::{Bytes, WallTime};

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
    /// The processes whose VRAM was freed, a sentence each.
    pub freed: Vec<String>,
    /// The run that was started after the first step, as far as it was seen.
    pub new_run: Option<NewRun>,
    /// How far it came by its log, in a sentence.
    pub progress: Option<String>,
    /// The user reported that the job works.
    pub works: bool,
    /// The record of the run that wrote the log, if it was recorded.
    pub record: Option<PathBuf>,
}

/// A run that was started after the first step, as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    pub pid: u32,
    /// Its name with its PID.
    pub name: String,
    /// The most VRAM that it was seen to use.
    pub most: Bytes,
    /// The GPUs on which it was last seen.
    pub devices: Vec<u32>,
    /// The time from its start until it was last seen; `None` if its start is unknown.
    pub seconds: Option<i64>,
    /// Whether it was still running then.
    pub is_running: bool,
    /// What the failed run needed at least, if the new one used that much.
    pub past: Option<Bytes>,
}

impl fmt::Display for NewRun {
    /// "New process train.py (5120) used up to 9.1 GiB on GPU 0 for 40 s and was still running."
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "New process {} used up to {}", self.name, self.most)?;
        let devices: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
        if !devices.is_empty() {
            write!(f, " on GPU {}", devices.join(", "))?;
        }
        if let Some(seconds) = self.seconds {
            write!(f, " for {seconds} s")?;
        }
        if let Some(needed) = self.past {
            write!(f, ", past the {needed} at which the first run failed")?;
        }
        f.write_str(if self.is_running { ", and was still running." } else { ", and has exited." })
    }
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
    /// What was done and seen, for a report.
    pub fn walked(&self) -> Walked {
        let behind = self.behind.iter().map(|behind| (behind.title.clone(), behind.mark));
        let run = self.new_run.as_ref().map(ToString::to_string);
        let seen = self.freed.iter().cloned().chain(run).chain(self.progress.clone());
        Walked { behind: behind.collect(), freed: seen.collect(), works: self.works, rerun: None }
    }

    /// The same story, but for what changes with every reading.
    pub(crate) fn with_readings_of(&self, other: &Story) -> Story {
        let run = self.new_run.as_ref().map(|run| (run.pid, run.is_running));
        let other_run = other.new_run.as_ref().map(|run| (run.pid, run.is_running));
        let new_run = if run == other_run { other.new_run.clone() } else { self.new_run.clone() };
        Story { new_run, ..self.clone() }
    }

    /// The walk as it goes on, without fixes about processes of another boot.
    pub fn walk(self, boot_id: Option<&String>) -> Walk {
        let same_boot = boot_id.is_some() && self.boot_id.as_ref() == boot_id;
        let behind = self.behind.into_iter().filter(|behind| same_boot || behind.id.target.is_none()).collect();
        let run = self.new_run.as_ref().map(ToString::to_string);
        let seen_before = self.freed.into_iter().chain(run).chain(self.progress).collect();
        Walk { behind, since: self.since, freed_before: seen_before, works: self.works, ..Walk::default() }
    }
}
