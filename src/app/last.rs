//! Owns what is kept for the next start (`--last`): the log that was read and the walk through its steps.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Model;
use super::model::{Pipe, Source};
use super::summary;
use super::walk::{Behind, Walk};
use crate::gpu::{Device, Snapshot};
use crate::log::PastedLog;
use crate::report::markdown::Walked;
use crate::units::{Bytes, WallTime};

/// What is known beside the log's text.
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
    /// The boot during which the steps were left: another one has other processes.
    pub boot_id: Option<String>,
    /// The steps taken and skipped.
    pub behind: Vec<Behind>,
    /// When the first step was taken.
    pub since: Option<WallTime>,
    /// The processes whose VRAM was freed, a sentence each.
    pub freed: Vec<String>,
    /// The run that was started after the first step, as far as it was seen.
    pub new_run: Option<NewRun>,
    /// The user reported that the job works.
    pub works: bool,
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

impl NewRun {
    /// The new run of this model. What a reading without it cannot show is taken from when it was last seen.
    fn of(model: &Model) -> Option<NewRun> {
        let again = model.walk.again.as_ref()?;
        let last_seen = model.kept.as_ref().and_then(|(_, story)| story.new_run.clone());
        let last_seen = last_seen.filter(|run| run.pid == again.key.pid).unwrap_or_default();
        let ledger = model.advice.as_ref().and_then(|advice| advice.ledger.as_ref());
        let needed = ledger.and_then(|ledger| ledger.needed_bytes);
        let row = model.snapshot().and_then(|snapshot| Some((snapshot, snapshot.process(again.key)?)));
        let started = row.and_then(|(snapshot, row)| Some((snapshot.taken_at, row.started_at.value()?)));
        Some(NewRun {
            pid: again.key.pid,
            name: again.name.clone(),
            most: again.most,
            devices: row.map_or(last_seen.devices, |(snapshot, _)| devices_of(snapshot, again.key.pid)),
            seconds: started.map_or(last_seen.seconds, |(now, start)| Some(now.0.as_second() - start.0.as_second())),
            is_running: again.here,
            past: needed.filter(|needed| again.most >= *needed),
        })
    }
}

impl fmt::Display for NewRun {
    /// "new process train.py (5120) used up to 9.1 GiB on GPU 0 for 40 s and was still running".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new process {} used up to {}", self.name, self.most)?;
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
        f.write_str(if self.is_running { ", and was still running" } else { ", and has exited" })
    }
}

fn devices_of(snapshot: &Snapshot, pid: u32) -> Vec<u32> {
    let lists_it = |device: &&Device| device.processes.iter().any(|row| row.pid == pid);
    snapshot.devices.iter().filter(lists_it).map(|device| device.index).collect()
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
    fn of(model: &Model) -> Story {
        Story {
            origin: model.input.origin.clone(),
            command: model.input.command.clone(),
            model: model.input.model.clone(),
            crashed_by: model.input.crashed_by,
            boot_id: model.config.boot_id.clone(),
            behind: model.walk.behind.clone(),
            since: model.walk.since,
            freed: summary::freed(model),
            new_run: NewRun::of(model),
            works: model.walk.works,
        }
    }

    /// What was done and seen, for a report.
    pub fn walked(&self) -> Walked {
        let behind = self.behind.iter().map(|behind| (behind.title.clone(), behind.mark));
        let seen = self.freed.iter().cloned().chain(self.new_run.as_ref().map(ToString::to_string));
        Walked { behind: behind.collect(), freed: seen.collect(), works: self.works, rerun: None }
    }

    /// The same story, but for what changes with every reading.
    fn with_readings_of(&self, other: &Story) -> Story {
        let runs = self.new_run.as_ref().map(|run| (run.pid, run.is_running));
        let other_runs = other.new_run.as_ref().map(|run| (run.pid, run.is_running));
        let new_run = if runs == other_runs { other.new_run.clone() } else { self.new_run.clone() };
        Story { new_run, ..self.clone() }
    }

    /// The walk as it goes on: a step about a process of another boot is about nobody.
    pub fn walk(self, boot_id: Option<&String>) -> Walk {
        let same_boot = boot_id.is_some() && self.boot_id.as_ref() == boot_id;
        let behind = self.behind.into_iter().filter(|behind| same_boot || behind.id.target.is_none()).collect();
        Walk { behind, since: self.since, freed_before: self.freed, ..Walk::default() }
    }
}

/// What is to be kept now, if it is not what was kept last. A log that still grows is kept when it ends, when the
/// person does something about it, and when they leave.
pub(crate) fn due(model: &mut Model) -> Option<Kept> {
    let keeps = model.config.keep_log && !model.config.read_only && model.config.source == Source::Live;
    if !keeps || model.input.awaited.is_some() {
        return None;
    }
    let log = Arc::clone(model.input.log.as_ref()?);
    let story = Story::of(model);
    let followed = model.input.file.as_ref().is_some_and(|file| file.adds);
    let grows = (model.input.pipe == Pipe::Open || followed) && !model.input.own && !model.leaving;
    if let Some((generation, kept)) = &model.kept {
        let same_log = *generation == model.input.generation;
        // Of a log that grows only the moment is another.
        // A run that takes more VRAM is no reason to write a large log again; the end of the session is.
        let kept = if model.leaving { kept.clone() } else { kept.with_readings_of(&story) };
        let same_story = kept == story || grows && Story { crashed_by: story.crashed_by, ..kept } == story;
        if same_story && (same_log || grows) {
            return None;
        }
    }
    model.kept = Some((model.input.generation, story.clone()));
    Some(Kept { log, story })
}
