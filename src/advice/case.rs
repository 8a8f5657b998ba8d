//! Owns the case: everything that the causes and the steps ask about one failure, derived once per reading from the log,
//! the machine and what earlier readings taught. Knows no cause and no step.

use std::borrow::Cow;

use super::engine;
use super::figures::{own_process, with_own_process};
use super::fit::{self, FitAdvice, FitChoice, Room};
use super::input::{ChangedFit, Remembered, Situation};
use super::ledger::{self, Ledger, at_least};
use super::machine;
use super::machine::place::{Named, Place};
use super::other_gpu::{self, OtherGpu};
use super::processes::{self, Foreign, UsedByOthers, User};
use super::retry::{self, Retry};
use super::typed;
use crate::gpu::{Device, GpuProcess};
use crate::knowledge::{Diagnosis, FixId, MemoryKind, NamedProcess, Oom};
use crate::units::Bytes;

/// The log as the case reads it: the run's own process separated from the others, and as told by the rank on whose GPU a
/// named process still runs, where those that the first rank names are gone.
pub(crate) struct Told<'a> {
    pub log: Cow<'a, Diagnosis>,
    /// The run itself, where the log prints it as one of the other processes.
    pub own: Option<NamedProcess>,
    /// The failure as told by other ranks, of those on whose GPUs a process that they name still runs.
    pub other_ranks: Vec<Diagnosis>,
}

/// Reads the log of a situation once, before the case is opened.
pub(crate) fn told<'a>(situation: &Situation<'a>) -> Told<'a> {
    let own = own_process(&situation.diagnosis.facts);
    let log = with_own_process(situation.diagnosis).map_or(Cow::Borrowed(situation.diagnosis), Cow::Owned);
    let log = typed::with_what_the_log_lacks(log, situation);
    let by_first_rank = Situation { diagnosis: &log, own: own.as_ref(), ..*situation };
    let named = machine::locate(&by_first_rank).named;
    let are_all_gone = !named.is_empty() && named.iter().all(Named::is_gone);
    let mut other_ranks = machine::other_ranks(&by_first_rank);
    if are_all_gone && !other_ranks.is_empty() {
        let log = other_ranks.remove(0);
        let other_ranks = machine::other_ranks(&Situation { diagnosis: &log, own: own.as_ref(), ..*situation });
        return Told { log: Cow::Owned(log), own, other_ranks };
    }
    Told { log, own, other_ranks }
}

/// Another rank of the run, on whose GPU a process that it names still runs.
#[derive(Debug)]
pub struct OtherRank<'a> {
    pub log: &'a Diagnosis,
    pub place: Place<'a>,
    pub users: Vec<User<'a>>,
}

/// One of several GPUs that the log may mean, with who uses it.
#[derive(Debug)]
pub struct Candidate<'a> {
    pub place: Place<'a>,
    pub users: Vec<User<'a>>,
}

/// One failure with everything that follows for it from log and machine.
#[derive(Debug)]
pub struct Case<'a> {
    pub situation: Situation<'a>,
    pub log: &'a Diagnosis,
    pub place: Place<'a>,
    pub other_ranks: Vec<OtherRank<'a>>,
    /// The GPUs that the log may mean, where it is from here and does not tell which.
    pub candidates: Vec<Candidate<'a>>,
    /// Processes that may be the run, started again.
    pub retries: Vec<Retry<'a>>,
    /// The run, started again, where only one process may be it.
    pub retry: Option<Retry<'a>>,
    pub ledger: Option<Ledger>,
    /// What there is for the run.
    pub room: Room,
    /// Whether the run's model fits as it failed.
    pub fit: Option<FitAdvice>,
    /// Whether it fits with the steps taken.
    pub changed: Option<ChangedFit>,
    /// The command line that the steps change: the person's or the log's, else that of the failed program, still here.
    pub command: Option<&'a str>,
    /// The processes that the log names, without those that had next to nothing and the run's own ranks.
    pub blamed: Vec<Named<'a>>,
    /// Processes that use memory which the run needs; `offer` decides which of them a step may be about.
    pub users: Vec<User<'a>>,
    /// The failed program itself, where it goes on.
    pub failed_program: Option<&'a GpuProcess>,
    pub largest_foreign: Option<Foreign<'a>>,
    pub used_by_others: Option<UsedByOthers>,
    pub other_gpu: Option<OtherGpu<'a>>,
    /// What an engine asked for beside the share that it fills by design.
    pub requested_beside_share: Option<Bytes>,
}

impl<'a> Case<'a> {
    /// Derives the case from a situation whose diagnosis is the log as it is `told`.
    pub fn open(situation: Situation<'a>, other_ranks: &'a [Diagnosis]) -> Case<'a> {
        let log = situation.diagnosis;
        let place = machine::locate(&situation);
        let retries = retry::candidates(&situation, place.is_here());
        let retry = retry::the_one(&retries, place.device);
        let ledger = ledger::draw(&situation, &place, retry);
        let room = room(&situation, &place, ledger.as_ref(), retry);
        let earlier = situation.before.filter(|before| before.room == room);
        let fit = match earlier.filter(|before| before.command.as_deref() == situation.command) {
            Some(before) => before.fit.clone(),
            None => fit_of(&typed::as_started(log, &situation), situation.model, &room),
        };
        let failed_program = processes::failed_program(&situation, &place);
        let command =
            situation.command_line().or_else(|| failed_program.and_then(|row| row.command.known()).map(String::as_str));
        let changed = changed_fit(&situation, command, &room, earlier);
        let capacity = ledger.as_ref().and_then(|ledger| ledger.capacity_bytes);
        Case {
            other_ranks: other_ranks.iter().map(|log| other_rank(log, &situation)).collect(),
            candidates: candidates(&situation, &place),
            blamed: processes::blamed(log, &place).into_iter().cloned().collect(),
            users: processes::users(&situation, &place),
            largest_foreign: processes::largest_foreign(&situation, &place),
            used_by_others: processes::used_by_others(log, &place),
            other_gpu: other_gpu::find(&situation, &place, ledger.as_ref()),
            requested_beside_share: engine::requested_beside_share(log, capacity),
            situation,
            log,
            place,
            retries,
            retry,
            ledger,
            room,
            fit,
            changed,
            command,
            failed_program,
        }
    }

    /// What a later reading of the same log needs to know of this one.
    pub fn remembered(&self) -> Remembered {
        let before = self.situation.before;
        let mut met = before.map(|before| before.met.clone()).unwrap_or_default();
        met.extend(self.place.named.iter().chain(&self.place.own).filter_map(Named::key));
        met.sort();
        met.dedup();
        let earlier = before.and_then(|before| before.located);
        let tried = match &self.retry {
            Some(retry) if self.log.oom != Oom::No => retry.seen(),
            _ => before.and_then(|before| before.tried.clone()),
        };
        Remembered {
            room: self.room.clone(),
            command: self.situation.command.map(str::to_owned),
            fit: self.fit.clone(),
            changed: self.changed.clone(),
            met,
            located: self.place.device.map(|device| device.index).or(earlier),
            tried,
        }
    }

    /// Whether it is the memory of a GPU that ran out.
    pub fn is_short_of_vram(&self) -> bool {
        self.log.memory == Some(MemoryKind::Gpu)
    }

    /// What the run needed at least.
    pub fn needed(&self) -> Option<Bytes> {
        self.ledger.as_ref()?.needed_bytes
    }

    /// An amount of the need as it is told: with the sign of a lower bound, unless the whole need is known.
    pub fn bound(&self, bytes: Bytes) -> String {
        self.ledger.as_ref().map_or_else(|| at_least(bytes), |ledger| ledger.bound(bytes))
    }

    /// All there is of the memory that ran out.
    pub fn capacity(&self) -> Option<Bytes> {
        self.ledger.as_ref()?.capacity_bytes
    }

    /// What is free for the run: now, else as the log printed it.
    pub fn available(&self) -> Option<Bytes> {
        self.ledger.as_ref()?.available_bytes
    }

    /// What is short by the sums of the ledger: a lower bound.
    pub fn short_by_ledger(&self) -> Option<Bytes> {
        self.ledger.as_ref()?.missing_bytes
    }

    /// What is short, where anything tells: by the ledger or by what the model takes, whichever is more. With steps taken
    /// that change the run, only the changed run's own sum tells.
    pub fn short(&self) -> Option<Bytes> {
        match self.fit_ahead() {
            Some(fit) if self.situation.taken.changed => fit.missing(),
            fit => self.short_by_ledger().max(fit.and_then(FitAdvice::missing)),
        }
    }

    /// What is needed and what is short of it, as a sentence shows both: by the ledger or by what the model takes.
    pub fn shown_need(&self) -> Option<(Bytes, Bytes)> {
        let ledger = self.ledger.as_ref()?;
        match self.fit.as_ref().filter(|fit| fit.missing() > ledger.missing_bytes) {
            Some(fit) if ledger.is_now => Some((fit.total_bytes?.plus(fit.headroom_bytes), fit.shown_missing()?)),
            _ => Some((ledger.needed_bytes?, ledger.shown_short()?)),
        }
    }

    /// The weights of an engine that keeps all of them on the GPU, and the GPU's capacity, where the weights are more.
    pub fn weights_beyond(&self) -> Option<(Bytes, Bytes)> {
        let offloads = engine::offloads_weights(self.log);
        let is_on_the_gpu = engine::engine_of(self.log).is_some() && !offloads;
        self.fit_ahead().filter(|_| is_on_the_gpu)?.weights_beyond()
    }

    /// Whether the run fits from here on: with the steps taken, else as it failed.
    pub fn fit_ahead(&self) -> Option<&FitAdvice> {
        self.changed.as_ref().map(|changed| &changed.fit).or(self.fit.as_ref())
    }

    /// Puts what several changes do in the place of what they did at an earlier reading.
    pub fn set_choice_of_several(&mut self, choice: Option<&FitChoice>) {
        if let Some(fit) = self.changed.as_mut().map(|changed| &mut changed.fit).or(self.fit.as_mut()) {
            let total = choice.and_then(|choice| choice.total_bytes);
            fit.choices.retain(|other| {
                !other.fixes.contains(&FixId::CHANGE_TOGETHER) && (total.is_none() || other.total_bytes != total)
            });
            fit.choices.extend(choice.cloned());
            // Other models are named where this one would be slow, which only layers in RAM make it.
            if choice.is_some() && fit.engine_of_run().is_some_and(|engine| engine.kind().is_torch()) {
                fit.instead.clear();
            }
        }
    }

    /// Whether the figures are of now and nothing is short by them.
    pub fn is_nothing_short_now(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.is_now && ledger.missing_bytes == Some(Bytes::ZERO))
    }

    /// Whether there is room now for all that the run is known to have needed.
    pub fn has_enough_vram_now(&self) -> bool {
        self.ledger.as_ref().is_some_and(Ledger::has_room_now)
    }

    /// Whether a retry runs and nothing is known to be missing for it.
    pub fn retry_has_room(&self) -> bool {
        self.retry.is_some_and(|retry| retry.has_room(self.needed()))
    }

    /// Whether the retry runs on another GPU than the one that failed.
    pub fn retry_is_on_other_gpu(&self) -> bool {
        self.retry.is_some_and(|retry| self.place.device.is_some_and(|device| !retry.is_on(device)))
    }

    /// A named process that used memory when the run failed and is gone.
    pub fn gone(&self) -> Option<&Named<'a>> {
        self.blamed.iter().find(|named| named.is_gone())
    }
}

/// Each of the GPUs that the log may mean, as if it meant that one.
fn candidates<'a>(situation: &Situation<'a>, place: &Place<'a>) -> Vec<Candidate<'a>> {
    // An engine that finds its share in use says that others use it; any other run may have filled the GPU itself.
    let is_open = engine::more_than_is_free(situation.diagnosis)
        && place.is_here()
        && place.device.is_none()
        && !place.named.iter().any(Named::is_alive);
    let meant = if is_open { place.candidates.as_slice() } else { &[] };
    let each = meant.iter().map(|device| {
        let place = Place { device: Some(device), candidates: Vec::new(), ..place.clone() };
        Candidate { users: processes::users(situation, &place), place }
    });
    each.collect()
}

fn other_rank<'a>(log: &'a Diagnosis, situation: &Situation<'a>) -> OtherRank<'a> {
    let situation = Situation { diagnosis: log, ..*situation };
    let place = machine::locate(&situation);
    OtherRank { log, users: processes::users(&situation, &place), place }
}

/// What the run takes with the steps taken. It is not calculated again while the same memory is free.
fn changed_fit(
    situation: &Situation<'_>,
    command: Option<&str>,
    room: &Room,
    earlier: Option<&Remembered>,
) -> Option<ChangedFit> {
    if !situation.taken.changed {
        return None;
    }
    let command = command?;
    if let Some(same) = earlier.and_then(|before| before.changed.as_ref()).filter(|same| same.command == command) {
        return Some(same.clone());
    }
    let diagnosis = fit::changed(situation.diagnosis, command);
    Some(ChangedFit { command: command.to_owned(), fit: fit_of(&diagnosis, situation.model, room)? })
}

fn fit_of(diagnosis: &Diagnosis, model: Option<&str>, room: &Room) -> Option<FitAdvice> {
    fit::fit(diagnosis, model, room.clone())
}

/// What there is for the run, with what its retry uses already.
fn room(situation: &Situation<'_>, place: &Place<'_>, ledger: Option<&Ledger>, retry: Option<Retry<'_>>) -> Room {
    let now = ledger.filter(|ledger| ledger.is_now);
    let devices = situation.snapshot.map_or(&[][..], |snapshot| &snapshot.devices);
    let machine = fit::Machine {
        snapshot: situation.snapshot,
        is_the_logs: place.same_machine,
        failed_on: place.device,
        vram_now: now.map(|ledger| fit::Vram { free: ledger.available_bytes, total: ledger.capacity_bytes }),
        used_by_next_try: match retry {
            Some(retry) => devices.iter().map(|device| (device.index, used_by_retry(&retry, device))).collect(),
            None => Vec::new(),
        },
    };
    fit::room(situation.diagnosis, &machine)
}

fn used_by_retry(retry: &Retry<'_>, device: &Device) -> Bytes {
    let rows = device.processes.iter().filter(|row| retry.is_process(row)).filter_map(|row| row.used_bytes.value());
    rows.fold(Bytes::ZERO, Bytes::plus).max(retry.uses_of(device))
}
