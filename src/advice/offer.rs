//! Owns whom a step may be about: never another user's process and never a busy one, nor one whose end or release
//! would reach such a process. Asked when the steps are laid out, and again before a release is requested. Pure.

use std::time::Duration;

use super::Situation;
use super::release::{self, Release};
use super::supervisor::Supervisor;
use crate::gpu::activity::Activity;
use crate::gpu::guard::{Refusal, Viewer};
use crate::gpu::history::History;
use crate::gpu::{GpuProcess, ProcessKey, Snapshot};

/// How a process stands to being offered, with everybody whom the step would reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It belongs to this other user, or reaches a process that does. Never offered, to root neither.
    OtherUser(String),
    /// It, or one that it reaches, was seen at work. Never offered.
    Busy(Activity),
    /// All of them did nothing for so long.
    Idle(Duration),
    /// Neither was seen: offered after the idle ones, and never first.
    Unknown,
}

impl Standing {
    /// Whether a step may be about it.
    pub fn is_offered(&self) -> bool {
        matches!(self, Standing::Idle(_) | Standing::Unknown)
    }

    /// Whether it was seen to do nothing for long enough.
    pub fn is_idle(&self) -> bool {
        matches!(self, Standing::Idle(_))
    }
}

/// What was seen of this machine, and who looks.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The newest reading.
    pub snapshot: &'a Snapshot,
    /// What was watched so far; `None` where this is the only reading.
    pub history: Option<&'a History>,
    /// Who looks.
    pub viewer: &'a Viewer,
}

impl<'a> Seen<'a> {
    /// Of a situation; `None` where the log is read alone.
    pub fn of(situation: &Situation<'a>) -> Option<Seen<'a>> {
        Some(Seen { snapshot: situation.snapshot?, history: situation.history, viewer: situation.viewer? })
    }

    /// Whether a process works, on whichever GPU.
    pub fn activity(&self, row: &GpuProcess) -> Activity {
        self.activity_of(&[row])
    }

    /// How it stands to being ended. Its supervisor's command ends all that it runs.
    pub fn if_ended(&self, row: &GpuProcess) -> Standing {
        let supervisor = Supervisor::of(row);
        self.standing(row, |other| {
            row.group.is_some() && other.group == row.group
                || supervisor.is_some() && Supervisor::of(other) == supervisor
        })
    }

    /// How it stands to its program being asked to release memory: a request that names a model reaches that one.
    pub fn if_released(&self, row: &GpuProcess, release: &Release) -> Standing {
        self.standing(row, |other| {
            let same = |theirs: Release| {
                (theirs.api, &theirs.door) == (release.api, &release.door)
                    && (release.model.is_none() || theirs.model.is_none() || theirs.model == release.model)
            };
            release::route(other).is_some_and(same)
                || release.model.is_none() && row.group.is_some() && other.group == row.group
        })
    }

    /// How its program is asked to release memory, if it may be asked now.
    pub fn release(&self, row: &GpuProcess) -> Result<(ProcessKey, Release), Refusal> {
        if let Some(refusal) = self.viewer.refuses_everything() {
            return Err(refusal);
        }
        let key = self.viewer.may_end(row)?;
        let release = release::route(row).ok_or(Refusal::Unproved(row.pid))?;
        match self.if_released(row, &release) {
            Standing::OtherUser(user) => Err(Refusal::OtherUser(row.pid, user)),
            Standing::Busy(activity) => Err(Refusal::Busy(row.pid, activity.to_string())),
            Standing::Idle(_) | Standing::Unknown => Ok((key, release)),
        }
    }

    fn standing(&self, row: &GpuProcess, is_reached: impl Fn(&GpuProcess) -> bool) -> Standing {
        let reached: Vec<&GpuProcess> =
            self.snapshot.everybody().filter(|other| is_same(row, other) || is_reached(other)).chain([row]).collect();
        if let Some(other) = reached.iter().find(|other| !self.viewer.owns(other)) {
            return Standing::OtherUser(user_of(other));
        }
        match self.activity_of(&reached) {
            busy @ Activity::Busy(_) => Standing::Busy(busy),
            Activity::Idle(time) => Standing::Idle(time),
            Activity::Unknown => Standing::Unknown,
        }
    }

    /// Of all of these together: busy if one of them is, idle if each that uses a GPU is. Those that use none, such as
    /// launchers, are not watched and do not count.
    fn activity_of(&self, processes: &[&GpuProcess]) -> Activity {
        let mut idle: Option<Duration> = None;
        let mut is_known = true;
        for device in &self.snapshot.devices {
            let meant = |row: &&GpuProcess| processes.iter().any(|process| is_same(process, row));
            for row in device.processes.iter().filter(meant) {
                match Activity::of(self.history, Some(device), row) {
                    busy @ Activity::Busy(_) => return busy,
                    Activity::Idle(time) => idle = Some(idle.map_or(time, |shortest| shortest.min(time))),
                    Activity::Unknown => is_known = false,
                }
            }
        }
        idle.filter(|_| is_known).map_or(Activity::Unknown, Activity::Idle)
    }
}

/// Whether two rows, of two GPUs perhaps, are of one process.
fn is_same(one: &GpuProcess, other: &GpuProcess) -> bool {
    one.pid == other.pid && one.start_ticks.value() == other.start_ticks.value()
}

/// Its user, as it is said.
pub fn user_of(row: &GpuProcess) -> String {
    row.user.known().cloned().unwrap_or_else(|| "another user".to_owned())
}
