//! Owns the walk through the steps: which were taken or skipped, where the person stands, and what became of the
//! processes they terminated, down to the bytes that were freed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::again::{Again, Progress};
use super::question::Victim;
use crate::advice::release::Release;
use crate::advice::supervisor::Supervisor;
use crate::advice::{Changes, PlannedFix};
use crate::gpu::guard::{Refusal, Signal};
use crate::gpu::{Device, GpuProcess, ProcessKey, Snapshot, Vendor};
use crate::knowledge::FixId;
use crate::knowledge::diagnosis::Diagnosis;
pub(crate) use crate::report::markdown::Mark;
use crate::units::{Bytes, WallTime};

/// A driver's teardown may take a moment; after this the memory counts as not freed.
const TEARDOWN: Duration = Duration::from_secs(10);
/// ROCm's kernel driver frees in a queue of its own, after the process has exited.
const TEARDOWN_OF_ROCM: Duration = Duration::from_secs(20);
/// A program that was asked to unload may have to finish its work first; after this the request counts as failed.
const LETTING_GO: Duration = Duration::from_secs(60);
/// A supervisor starts what ended again within seconds; what comes later may be anybody's.
const STARTING_AGAIN: Duration = Duration::from_secs(30);
/// What a running process frees counts from here on: less is its everyday life.
const NOTICEABLE: Bytes = Bytes::mib(64);

/// Names a step over changing plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepId {
    pub fix: FixId,
    /// The process it is about.
    pub target: Option<ProcessKey>,
}

/// How long freed memory is waited for on these GPUs.
pub(crate) fn teardown<'d>(mut devices: impl Iterator<Item = &'d Device>) -> Duration {
    if devices.any(|device| device.vendor == Vendor::Amd) { TEARDOWN_OF_ROCM } else { TEARDOWN }
}

impl StepId {
    pub fn of(planned: &PlannedFix) -> StepId {
        StepId { fix: planned.fix, target: planned.target }
    }
}

/// A step behind the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    pub id: StepId,
    /// Its title as it stood then.
    pub title: String,
    /// How it was left.
    pub mark: Mark,
    /// What it changes in the command line to run again with.
    pub changes: Option<Changes>,
    /// The fixes that it combines, if it makes several changes at once.
    #[serde(default)]
    pub parts: Vec<FixId>,
    /// It promised as much as was missing, or more.
    pub enough: bool,
}

impl Behind {
    /// What it changed in the command line, which stays so when it did not help.
    pub fn change(&self) -> Option<&Changes> {
        if self.mark == Mark::Skipped { None } else { self.changes.as_ref() }
    }

    /// Whether it need not be proposed again after a second failure: what was changed for the first stays changed. What
    /// was skipped, another try, and whoever is still there may be the answer this time.
    pub fn is_settled(&self, lives: impl Fn(ProcessKey) -> bool) -> bool {
        let once = [FixId::RUN_AGAIN, FixId::ASK_OWNER, FixId::WAIT_FOR_MEMORY].contains(&self.id.fix);
        self.mark == Mark::Taken && !once && !self.id.target.is_some_and(lives)
    }
}

/// Where the person stands.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// The steps behind them, in order.
    pub behind: Vec<Behind>,
    /// The selected one of those ahead, where the person chose one; else the first.
    pub cursor: Option<StepId>,
    /// When the log was opened.
    pub began: Duration,
    /// They said that it works now.
    pub works: bool,
    /// That was seen: a run that was started from here exited with 0 or passed the point of the failure.
    pub has_seen_it_work: bool,
    /// It failed again: the next log is held against this one.
    pub before: Option<Box<Diagnosis>>,
    /// What the last two failures have in common and what not.
    pub compared: Option<String>,
    /// When the first step was taken: what starts later may be the run, started again.
    pub since: Option<WallTime>,
    pub again: Option<Again>,
    /// How far the run came, by the log's file; `None` where no file says it.
    pub progress: Option<Progress>,
    /// The verdict as it first stood, such as "NOT ENOUGH VRAM on GPU 0, short 2.2 GiB".
    pub began_with: Option<String>,
    /// Which processes freed memory before the program was started again, in words.
    pub freed_before: Vec<String>,
    /// They wait until so much is free on the device of that index.
    pub waits_for: Option<(u32, Bytes)>,
}

impl Walk {
    /// The steps still ahead, in the plan's order.
    pub fn ahead<'a>(&self, plan: &'a [PlannedFix]) -> Vec<&'a PlannedFix> {
        plan.iter().filter(|planned| self.behind.iter().all(|behind| behind.id != StepId::of(planned))).collect()
    }

    /// Where the person stands among the steps ahead: plans are made anew with each reading, names are not.
    pub fn position(&self, ahead: &[&PlannedFix]) -> usize {
        let chosen = |planned: &&PlannedFix| self.cursor.as_ref() == Some(&StepId::of(planned));
        ahead.iter().position(chosen).unwrap_or(0)
    }

    /// It failed again: what was taken was not enough.
    pub fn was_not_enough(&mut self) {
        self.behind.iter_mut().for_each(|behind| behind.enough = false);
    }

    /// The changes that did not help: those that the person says so of, and those made before the run failed again. What
    /// was done about one process says nothing about another.
    pub fn tried(&self) -> Vec<FixId> {
        let has_failed_again = self.compared.is_some();
        let changes = self.behind.iter().filter(|behind| behind.id.target.is_none());
        let in_vain = changes.filter(|behind| match behind.mark {
            Mark::DidNotHelp => true,
            Mark::Taken => has_failed_again,
            Mark::Skipped => false,
        });
        in_vain.flat_map(|behind| behind.parts.iter().copied().chain([behind.id.fix])).collect()
    }

    /// The step that the person has just taken, if they have not gone on to another one since.
    pub fn just_taken(&mut self) -> Option<&mut Behind> {
        if self.cursor.is_some() {
            return None;
        }
        self.behind.last_mut().filter(|behind| behind.mark == Mark::Taken)
    }

    /// Whether a step was taken that may be enough, and not tried since.
    pub fn enough_taken(&self) -> bool {
        let taken = self.behind.iter().rev().filter(|behind| behind.mark == Mark::Taken);
        taken.take_while(|behind| behind.id.fix != FixId::RUN_AGAIN).any(|behind| behind.enough)
    }

    /// Leaves a step behind.
    pub fn leave(&mut self, planned: &PlannedFix, mark: Mark) {
        self.behind.push(Behind {
            id: StepId::of(planned),
            title: planned.title.clone(),
            mark,
            changes: planned.changes.clone(),
            parts: planned.parts.clone(),
            enough: planned.may_be_enough && planned.fix != FixId::RUN_AGAIN,
        });
        self.cursor = None;
    }
}

/// A process that the person terminated or had unloaded, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    pub victim: Victim,
    /// By which signal, the last one sent.
    pub signal: Signal,
    /// How its program was asked instead, where it was.
    pub release: Option<Release>,
    /// The person frees it with a command of their own: how long that takes proves nothing.
    pub is_by_hand: bool,
    /// What it had freed by the last reading, while it goes on running.
    pub given: Bytes,
    /// When it was confirmed.
    pub asked_at: Duration,
    /// Free memory of its devices just before.
    pub free_before: Vec<(u32, Bytes)>,
    pub state: EndingState,
    /// Who was listed while it ran.
    pub beside: Vec<ProcessKey>,
    /// Since when it is known to have ended.
    pub ended_at: Option<Duration>,
    /// The one that took its place.
    pub again: Option<Successor>,
}

/// A process that was started in the place of one that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    pub pid: u32,
    /// Who runs it, where that is known.
    pub supervisor: Option<Supervisor>,
}

/// Where an ending stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndingState {
    /// The person frees it with the program's own command; the list is watched for it.
    Elsewhere {
        command: String,
    },
    /// Its program is being asked.
    Asking,
    /// Its program took the request, which proves nothing yet: its memory is watched.
    Asked(String),
    /// Its program was asked in vain; the text says why, as a sentence's end.
    NotReleased(String),
    /// The signal is on its way.
    Sending,
    /// It was signalled and has not ended yet.
    Waiting,
    /// It has exited; its memory is watched.
    Ended {
        /// So long after the signal.
        after: Duration,
        since: Duration,
    },
    /// Its memory was freed.
    Returned {
        /// How much the devices have more than before.
        bytes: Bytes,
        /// So long after the confirmation.
        after: Duration,
        /// What is free on its devices now.
        free_now: Vec<(u32, Bytes)>,
        /// Whether it still runs.
        lives: bool,
    },
    /// It exited, and its memory was not freed in time.
    NotReturned {
        bytes: Bytes,
    },
    /// It ended, and the driver gives no figures to prove anything by.
    Unproved,
    /// The grace time is over and it is still there, in this state of /proc/PID/stat.
    Survived(Option<char>),
    Refused(Refusal),
}

pub(crate) fn listed(snapshot: &Snapshot) -> Vec<ProcessKey> {
    snapshot.devices.iter().flat_map(|device| &device.processes).filter_map(GpuProcess::key).collect()
}

/// Free memory of these devices, where it is known.
pub(crate) fn free_of(snapshot: &Snapshot, devices: &[u32]) -> Vec<(u32, Bytes)> {
    snapshot
        .devices
        .iter()
        .filter(|device| devices.contains(&device.index))
        .filter_map(|device| Some((device.index, device.memory.free_bytes.value()?)))
        .collect()
}

impl EndingState {
    /// A signal is on its way or has had its effect: there is nothing more to ask.
    pub fn is_exiting(&self) -> bool {
        matches!(self, EndingState::Sending | EndingState::Waiting | EndingState::Ended { .. })
    }
}

impl Ending {
    /// Signalled, asked, or done with: the step that led to it is behind the person.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.state, EndingState::Refused(_) | EndingState::Survived(_) | EndingState::NotReleased(_))
    }

    /// It has exited, whatever it freed.
    pub fn is_over(&self) -> bool {
        use EndingState::{Asked, Asking, Elsewhere, Sending, Waiting};
        self.is_under_way() && !matches!(self.state, Sending | Waiting | Elsewhere { .. } | Asking | Asked(_))
    }

    /// What became of its memory is known and won't change.
    pub fn is_settled(&self) -> bool {
        use EndingState::{NotReturned, Returned, Unproved};
        matches!(self.state, Returned { .. } | NotReturned { .. } | Unproved)
    }

    /// Compares a new reading with the one before the signal. `shared` was freed since then by other processes.
    pub fn watch(&mut self, snapshot: &Snapshot, shared: Bytes, now: Duration) {
        self.watch_memory(snapshot, shared, now);
        self.watch_for_another(snapshot, now);
    }

    /// One that is new on its devices, by its user and of its command line or name: it was started again.
    fn watch_for_another(&mut self, snapshot: &Snapshot, now: Duration) {
        if !self.is_over() || matches!(self.state, EndingState::Returned { lives: true, .. }) {
            self.beside = listed(snapshot);
            return;
        }
        let ended_at = *self.ended_at.get_or_insert(now);
        if self.again.is_some() || now.saturating_sub(ended_at) > STARTING_AGAIN {
            return;
        }
        let (victim, beside) = (&self.victim, &self.beside);
        let is_another = |row: &&GpuProcess| {
            let name = row.recognised_as.is_some() && row.recognised_as == victim.what;
            let line = row.command.known().is_some_and(|line| !line.is_empty() && *line == victim.command);
            let user = row.user.known().is_some_and(|user| *user == victim.user);
            user && (name || line) && row.key().is_some_and(|key| !beside.contains(&key))
        };
        let devices = snapshot.devices.iter().filter(|device| victim.devices.contains(&device.index));
        let another = devices.flat_map(|device| &device.processes).find(is_another);
        self.again = another.map(|row| Successor { pid: row.pid, supervisor: Supervisor::of(row) });
    }

    fn watch_memory(&mut self, snapshot: &Snapshot, shared: Bytes, now: Duration) {
        if matches!(self.state, EndingState::Elsewhere { .. } | EndingState::Asked(_) | EndingState::NotReleased(_)) {
            if snapshot.find(self.victim.key).is_some() {
                return self.watch_living(snapshot, shared, now);
            }
            self.state = EndingState::Ended { after: now.saturating_sub(self.asked_at), since: now };
        }
        let EndingState::Ended { since, .. } = self.state else { return };
        let launches = self.victim.held == Some(Bytes::ZERO) && self.victim.devices.is_empty();
        if launches || (self.victim.held.is_none() && self.victim.follows.is_some()) {
            // A launcher, or a helper of another one: the workers free the memory.
            let after = now.saturating_sub(self.asked_at);
            self.state = EndingState::Returned { bytes: Bytes::ZERO, after, free_now: Vec::new(), lives: false };
            return;
        }
        let its_devices = snapshot.devices.iter().filter(|device| self.victim.devices.contains(&device.index));
        let teardown = teardown(its_devices);
        if snapshot.find(self.victim.key).is_some() && now.saturating_sub(since) < teardown {
            return;
        }
        let Some((rise, free_now)) = self.rise(snapshot, shared) else {
            self.state = EndingState::Unproved;
            return;
        };
        let held = self.victim.held.unwrap_or(rise);
        // Others may take a little at the same time: nine tenths are proof.
        if rise > Bytes::ZERO && u128::from(rise.0) * 10 >= u128::from(held.0) * 9 {
            let after = now.saturating_sub(self.asked_at);
            self.state = EndingState::Returned { bytes: rise.min(held), after, free_now, lives: false };
        } else if now.saturating_sub(since) >= teardown {
            self.state = EndingState::NotReturned { bytes: rise };
        }
    }

    /// A program that unloads may go on running: then the drop in its own use is the proof, once it falls no further.
    fn watch_living(&mut self, snapshot: &Snapshot, shared: Bytes, now: Duration) {
        let after = now.saturating_sub(self.asked_at);
        let less = self.victim.held.zip(snapshot.held_by(self.victim.key)).map(|(before, now)| before.less(now));
        if let Some(((rise, free_now), less)) = self.rise(snapshot, shared).zip(less) {
            let before = std::mem::replace(&mut self.given, rise.min(less));
            if self.given >= NOTICEABLE && self.given == before {
                self.state = EndingState::Returned { bytes: self.given, after, free_now, lives: true };
            }
        }
        if matches!(self.state, EndingState::Asked(_)) && after >= LETTING_GO {
            let why = format!("it accepted the request, but nothing was freed within {} s", LETTING_GO.as_secs());
            self.state = EndingState::NotReleased(why);
        }
    }

    /// How much more is free on its devices than before, and what; `None` where the driver does not say.
    fn rise(&self, snapshot: &Snapshot, shared: Bytes) -> Option<(Bytes, Vec<(u32, Bytes)>)> {
        let free_now = free_of(snapshot, &self.victim.devices);
        if free_now.len() != self.victim.devices.len() || self.free_before.len() != free_now.len() {
            return None;
        }
        let sum = |parts: &[(u32, Bytes)]| parts.iter().fold(Bytes::ZERO, |sum, (_, free)| sum.plus(*free));
        Some((sum(&free_now).less(sum(&self.free_before)).less(shared), free_now))
    }

    /// What this process freed, if it did so after `then`.
    pub fn returned_since(&self, then: Duration) -> Bytes {
        match self.state {
            EndingState::Returned { bytes, after, .. } if self.asked_at + after >= then => bytes,
            _ => Bytes::ZERO,
        }
    }
}
