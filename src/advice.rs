//! Owns the join of what a log says with what the machine shows now: a verdict with its evidence, a ledger in bytes,
//! and a plan of steps. Pure: the same log, snapshot and history give the same advice.
//! Knows nothing of keys, screens or signals.

pub mod compare;
pub mod fit;
pub mod ledger;
pub mod machine;
pub mod offer;
pub mod plan;
pub mod release;
pub mod rerun;
pub mod scheduler;
pub mod supervisor;
pub mod verdict;
pub mod words;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpu::guard::Viewer;
use crate::gpu::history::History;
use crate::gpu::{Device, GpuProcess, ProcessKey, Snapshot};
use crate::knowledge::diagnosis::{Diagnosis, Oom, Phase};
use crate::knowledge::facts::{Facts, NamedProcess};
use crate::knowledge::fix::Fix;
use crate::units::{Bytes, WallTime};

pub use fit::{FitAdvice, Trial};
pub use ledger::Ledger;
pub use machine::{Fate, Place};
pub use plan::{PlannedFix, Step};
pub use rerun::{Changes, Form, Had};
pub use verdict::{Cause, CauseKind, Verdict};

/// Clocks of a container, a job and its file differ by less.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);
/// A log that is pasted right after the failure is younger.
const FRESH: SignedDuration = SignedDuration::from_mins(15);

/// Everything an advice is made from.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// What the log says.
    pub diagnosis: &'a Diagnosis,
    /// The fixes of the leading entry, in its order.
    pub fixes: &'a [Fix],
    /// The machine now; `None` to read the log alone.
    pub snapshot: Option<&'a Snapshot>,
    /// What was watched so far.
    pub history: Option<&'a History>,
    pub viewer: Option<&'a Viewer>,
    /// The latest moment at which the job can have died: the file's time or the paste's. The log's own stamp is better.
    pub crashed_by: Option<WallTime>,
    /// The zone of the person's clock, for times that are said.
    pub zone: Option<&'a TimeZone>,
    /// The command line that failed, as the person gave it; the log's own is second to it.
    pub command: Option<&'a str>,
    /// The model, as the person says; `None` to take what the log says.
    pub model: Option<&'a str>,
    /// The run itself, where the log prints it as one of the other processes.
    pub own: Option<&'a NamedProcess>,
    /// The driver's indices of the devices on which the run is known to have had memory; empty where that is not known.
    pub ran_on: &'a [u32],
    /// What was done about it so far.
    pub taken: Taken,
    /// The advice on the same log and model at an earlier reading: whether it fits is not reckoned again while
    /// the same is free.
    pub before: Option<&'a Advice>,
}

/// What the steps taken so far mean for those ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// They change the command line: what is ahead is reckoned from there.
    pub changed: bool,
    /// One of them may be enough.
    pub enough: bool,
    pub freed: bool,
}

/// What to tell the person.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// What ran out and why.
    pub verdict: Verdict,
    /// The bytes; `None` where neither log nor machine gives a capacity.
    pub ledger: Option<Ledger>,
    /// Whether the run's model fits, and what would make it; `None` where log and person don't say enough.
    pub fit: Option<FitAdvice>,
    /// What to do, best first.
    pub plan: Vec<PlannedFix>,
    /// The same of the run as the steps taken change it, with its command line.
    #[serde(skip)]
    pub changed: Option<(String, FitAdvice)>,
    /// What there was for the run.
    #[serde(skip)]
    pub room: fit::Room,
    /// The processes that the log names and that were matched here, at this reading or an earlier one.
    #[serde(skip)]
    pub met: Vec<ProcessKey>,
    /// The driver's index of the device that it was told to have failed on, at this reading or an earlier one: who tied it
    /// to that may have ended since.
    #[serde(skip)]
    pub located: Option<u32>,
    /// Its next try as it was seen last, also when it has ended since.
    #[serde(skip)]
    pub tried: Option<verdict::Tried>,
    /// The run seems to have been started again, and nothing is known to be in its way: the steps are for its failing again.
    #[serde(skip)]
    pub on_its_way: bool,
    /// The command line that the steps change: the person's or the log's, else that of the failed program, still here.
    #[serde(skip)]
    pub command: Option<String>,
}

/// Joins log and machine.
pub fn advise(situation: &Situation<'_>) -> Advice {
    let own = own_process(&situation.diagnosis.facts);
    let told = with_own_process(situation.diagnosis);
    let situation =
        &Situation { diagnosis: told.as_ref().unwrap_or(situation.diagnosis), own: own.as_ref(), ..*situation };
    // Where those on the first rank's card have gone, the rank speaks on whose card they have not.
    let named = machine::locate(situation).named;
    let gone = !named.is_empty() && named.iter().all(|named| matches!(named.fate, Fate::Gone));
    let held = machine::still_held(situation).into_iter().next().filter(|_| gone);
    let situation = &Situation { diagnosis: held.as_ref().unwrap_or(situation.diagnosis), ..*situation };
    let place = machine::locate(situation);
    let ledger = ledger::draw(situation, &place);
    let room = fit::room(situation, &place, ledger.as_ref());
    let fit = match situation.before.filter(|before| before.room == room) {
        Some(before) => before.fit.clone(),
        None => fit::fit(situation, room.clone(), ledger.as_ref()),
    };
    let mut verdict = verdict::weigh(situation, &place, ledger.as_ref(), fit.as_ref());
    if let Some(said) = fit
        .as_ref()
        .filter(|fit| {
            speaks_of_size(situation.diagnosis, &verdict) && !is_refuted(fit, ledger.as_ref(), situation.diagnosis)
        })
        .and_then(FitAdvice::sentence)
    {
        verdict.sentence = format!("{} {said}", verdict.sentence);
    }
    // The best news there is comes before why it failed.
    let next = verdict::next_try(situation, &place).filter(|_| situation.diagnosis.oom != Oom::No);
    let mut tried = situation.before.and_then(|before| before.tried.clone());
    if let Some(next) = next {
        verdict.sentence = next.said(&place, ledger.as_ref());
        tried = next.seen();
    } else if let Some(tried) = situation.has_tried() {
        verdict.sentence = format!(
            "Your next try, as it seems, has ended: {} held {} when it was seen last. If it failed, its error tells more. {}",
            tried.name, tried.holds, verdict.sentence
        );
    }
    let mut met = situation.before.map(|before| before.met.clone()).unwrap_or_default();
    let alive = |named: &machine::Named<'_>| if let Fate::Alive(_, key) = named.fate { Some(key) } else { None };
    met.extend(place.named.iter().chain(&place.own).filter_map(alive));
    met.sort();
    met.dedup();
    let on_its_way = next.is_some_and(|next| next.has_room(ledger.as_ref()));
    let living = || verdict::itself(situation, &place).and_then(|row| row.command.known());
    let command =
        situation.command.or(situation.diagnosis.run.command.as_deref()).or_else(|| living().map(String::as_str));
    let situation = &Situation { command, ..*situation };
    let changed = changed_fit(situation, &room, ledger.as_ref());
    let ahead = changed.as_ref().map(|(_, fit)| fit).or(fit.as_ref());
    let plan = plan::lay_out(situation, &place, ledger.as_ref(), &verdict, ahead);
    // The easiest way out stands beside what is wrong, where something is still missing.
    let is_short = ledger.as_ref().is_none_or(|ledger| ledger.missing_bytes != Some(Bytes::ZERO));
    if let Some(room) = plan.iter().find_map(|planned| planned.room_on.as_ref()).filter(|_| is_short && next.is_none())
    {
        verdict.sentence = format!("{} {}", verdict.sentence, room.said());
    }
    let earlier = situation.before.and_then(|before| before.located);
    let located = place.device.map(|device| device.index).or(earlier);
    let command = command.map(str::to_owned);
    Advice { verdict, ledger, fit, changed, plan, room, met, located, tried, on_its_way, command }
}

/// How much more than its allocator has a process uses at most: a CUDA context of a few hundred MiB, the workspaces of its
/// libraries, and NCCL's buffers; with all of them up to about 2 GiB.
const BESIDE_ALLOCATOR: Bytes = Bytes::gib(2);

/// Seen from a container PyTorch finds its own PID nowhere and prints itself as one more "Process N has", without "this
/// process has" (c10/cuda/CUDACachingAllocator.cpp, `reportProcessMemoryInfo`: every process of the card is printed).
/// Then it is the one with at least what its allocator has and little more. A process with far more is another one:
/// taken for the run, it would no longer be held against its figure here, and the log would fit any machine.
pub fn own_process(facts: &Facts) -> Option<NamedProcess> {
    let had = facts.allocated_bytes.filter(|_| facts.process_bytes.is_none())?;
    let had = had.plus(facts.reserved_unallocated_bytes.unwrap_or(Bytes::ZERO));
    let is_near = |named: &&NamedProcess| (had..=had.plus(BESIDE_ALLOCATOR)).contains(&named.bytes);
    // Two processes that have more than the whole card together can't both be there: then it is the run, with graphs
    // and buffers outside of its allocator.
    let has_no_room_beside = |named: &&NamedProcess| {
        let together = had.plus(named.bytes);
        facts.total_bytes.is_some_and(|total| (had..=total).contains(&named.bytes) && together > total)
    };
    let near = facts.other_processes.iter().filter(is_near).min_by_key(|named| named.bytes);
    near.or_else(|| facts.other_processes.iter().find(has_no_room_beside)).cloned()
}

/// The same diagnosis with the run's own process told from others, where the log prints it as one of them.
pub fn with_own_process(diagnosis: &Diagnosis) -> Option<Diagnosis> {
    let own = own_process(&diagnosis.facts)?;
    let mut diagnosis = diagnosis.clone();
    diagnosis.facts.process_bytes = Some(own.bytes);
    diagnosis.facts.other_processes.retain(|named| *named != own);
    Some(diagnosis)
}

/// What the run takes with the steps taken.
fn changed_fit(situation: &Situation<'_>, room: &fit::Room, ledger: Option<&Ledger>) -> Option<(String, FitAdvice)> {
    let command = situation.command.filter(|_| situation.taken.changed)?;
    let before = situation.before.filter(|before| before.room == *room).and_then(|before| before.changed.as_ref());
    if let Some(same) = before.filter(|(of, _)| of == command) {
        return Some(same.clone());
    }
    let diagnosis = fit::changed(situation.diagnosis, command);
    let fit = fit::fit(&Situation { diagnosis: &diagnosis, ..*situation }, room.clone(), ledger)?;
    Some((command.to_owned(), fit))
}

/// Whether the log shows that more is missing than the sums say, at the size that the weights should have.
fn is_refuted(fit: &FitAdvice, ledger: Option<&Ledger>, diagnosis: &Diagnosis) -> bool {
    let missing = ledger.and_then(|ledger| ledger.missing_bytes).is_some_and(|missing| missing > Bytes::ZERO);
    fit.fits == Some(true) && missing && verdict::widened(diagnosis).is_none()
}

/// Whether the verdict is about what the run takes, rather than who else holds the memory.
fn speaks_of_size(diagnosis: &Diagnosis, verdict: &Verdict) -> bool {
    let loading = matches!(diagnosis.phase, Phase::Load | Phase::Startup);
    diagnosis.oom == Oom::Yes
        && verdict.causes.first().is_some_and(|leading| match leading.cause {
            CauseKind::TooBig | CauseKind::Context | CauseKind::Unknown => true,
            CauseKind::OtherProcess | CauseKind::SameSession | CauseKind::HostMemory => false,
            _ => loading,
        })
}

impl<'a> Situation<'a> {
    /// The log read alone.
    pub fn alone(diagnosis: &'a Diagnosis) -> Situation<'a> {
        Situation {
            diagnosis,
            fixes: &[],
            snapshot: None,
            history: None,
            viewer: None,
            crashed_by: None,
            zone: None,
            command: None,
            model: None,
            own: None,
            ran_on: &[],
            taken: Taken::default(),
            before: None,
        }
    }

    /// The command line that failed, where the person or the log tells it.
    pub fn command_line(&self) -> Option<&'a str> {
        self.command.or(self.diagnosis.run.command.as_deref())
    }

    /// The cards that the run was allowed to see, as `CUDA_VISIBLE_DEVICES` has them: by the log, else by the command
    /// line that the person gave. One that our steps have changed since is not the one that failed.
    pub fn visible_devices(&self) -> Option<&'a str> {
        let given = self.command.filter(|_| !self.taken.changed).and_then(set_in_front);
        self.diagnosis.run.visible_devices.as_deref().or(given)
    }

    /// The entry of those that the device which failed has, as it was written: a number or a UUID.
    pub fn visible_entry(&self) -> Option<&'a str> {
        let list = self.visible_devices()?;
        let number = match self.printed_index() {
            None if list.contains(',') => return None,
            printed => printed.unwrap_or(0),
        };
        Some(list.split(',').nth(usize::try_from(number).ok()?)?.trim())
    }

    /// The driver's index of the device that the log names: it counts among the cards that the run was allowed to see.
    pub fn device_index(&self) -> Option<u32> {
        if self.visible_devices().is_none() {
            return self.printed_index();
        }
        let seen = self.visible_entry()?;
        // A card may be named by the beginning of its UUID.
        let named = |device: &&Device| device.uuid.known().is_some_and(|uuid| uuid.starts_with(seen));
        match seen.starts_with("GPU-") || seen.starts_with("MIG-") {
            true => self.snapshot?.devices.iter().find(named).map(|device| device.index),
            false => seen.parse().ok(),
        }
    }

    /// The number that the log has for the device, as the run counted.
    fn printed_index(&self) -> Option<u32> {
        self.diagnosis.facts.device.or_else(|| self.rank_of_engine())
    }

    /// Of an engine that shares a model out over cards, each rank takes the card of its number.
    fn rank_of_engine(&self) -> Option<u32> {
        let run = &self.diagnosis.run;
        let rank = run.rank.filter(|rank| run.tensor_parallel.is_some_and(|ranks| *rank < ranks))?;
        plan::share::engine(self.diagnosis).and_then(|_| u32::try_from(rank).ok())
    }

    /// Where that command line is written down, as far as the log shows.
    pub fn form(&self) -> Form {
        let run = &self.diagnosis.run;
        match (run.launcher.as_deref(), run.shell.as_deref()) {
            (Some("slurm" | "srun"), _) => Form::Slurm,
            (Some(_), _) => Form::Compose,
            (None, Some("PS")) => Form::PowerShell,
            (None, Some(_)) => Form::Cmd,
            (None, None) if run.windows.is_some() => Form::Cmd,
            (None, None) if self.diagnosis.raised_by.as_deref() == Some("kubernetes") => Form::Kubernetes,
            (None, None) => Form::Posix,
        }
    }

    /// Its next try, if one was seen and has ended.
    pub fn has_tried(&self) -> Option<&'a verdict::Tried> {
        let tried = self.before?.tried.as_ref()?;
        self.snapshot?.process(tried.key).is_none().then_some(tried)
    }

    /// The moment of the crash: the log's own stamp, else the upper bound that its file or paste gives.
    pub fn crashed_at(&self) -> Option<WallTime> {
        match (self.diagnosis.crashed_at, self.crashed_by) {
            // A time that is still to come is one of another zone: most likely of a container's UTC.
            (Some(stamp), Some(bound)) if stamp.0 > bound.0.saturating_add(CLOCKS_DIFFER).unwrap_or(stamp.0) => {
                Some(self.diagnosis.crashed_at_if_utc.unwrap_or(bound).min(bound))
            }
            // The stamp's zone is a guess; the bound is not.
            (Some(stamp), Some(bound)) => Some(stamp.min(bound)),
            (stamp, bound) => stamp.or(bound),
        }
    }

    /// Whether the process was there before the crash; `None` where either time is unknown.
    pub fn was_there_before(&self, process: &GpuProcess) -> Option<bool> {
        let (started, crashed) = (process.started_at.value()?, self.crashed_at()?);
        // Read as UTC the log is fresh, read as local time it is hours old: then what was started in between is neither.
        let fresh = |utc: &WallTime| {
            let age = self.crashed_by.map(|bound| bound.0.duration_since(utc.0));
            age.is_some_and(|age| (SignedDuration::ZERO..FRESH).contains(&age))
        };
        let in_utc = self.diagnosis.crashed_at_if_utc.filter(fresh);
        if in_utc.is_some_and(|utc| crashed < started && started <= utc) {
            return None;
        }
        Some(started <= crashed)
    }
}

/// What `CUDA_VISIBLE_DEVICES` is set to in front of a command.
fn set_in_front(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("CUDA_VISIBLE_DEVICES=")?;
    let value = rest.split_whitespace().next()?.trim_matches(['"', '\'', ';']);
    (!value.is_empty()).then_some(value)
}

/// A process in the fewest words that name it: "notebook sweep.ipynb (4242)".
pub fn name_of(process: &GpuProcess) -> String {
    let what = process.recognised_as.clone().or_else(|| process.command.known().map(|command| telling_part(command)));
    match what.filter(|what| !what.is_empty()) {
        Some(what) => format!("{what} ({})", process.pid),
        None => format!("process {}", process.pid),
    }
}

/// A device in a word: "GPU 0 (RTX 4090)".
pub fn name_of_device(device: &Device) -> String {
    match device.name.known() {
        Some(name) => format!("GPU {} ({})", device.index, short_card(name)),
        None => format!("GPU {}", device.index),
    }
}

/// A card's name without the maker's words: "RTX 4090".
pub fn short_card(name: &str) -> &str {
    let name = name.trim().trim_start_matches("NVIDIA ");
    name.trim_start_matches("GeForce ")
}

/// The part of a command line that tells one program from another: `python train.py` out of
/// `/home/ada/env/bin/python3 -u train.py --batch 8`, at most 40 characters.
fn telling_part(command: &str) -> String {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return String::new() };
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut told = base(program);
    if told.starts_with("python") {
        let script = words.find(|word| !word.starts_with('-') || *word == "-m" || *word == "-c");
        match script {
            Some("-m") => told = format!("python -m {}", words.next().unwrap_or_default()),
            Some("-c") => told = "python -c …".into(),
            Some(path) => told = format!("python {}", base(path)),
            None => {}
        }
    }
    told.chars().take(40).collect()
}

/// A figure and its unit where it is known, "an unknown amount" where not.
pub fn amount(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| "an unknown amount".to_owned(), |bytes| bytes.to_string())
}

#[cfg(test)]
pub(crate) mod testing {
    //! Diagnoses for the tests of this folder.
    use crate::knowledge::diagnosis::*;
    use crate::knowledge::facts::{Facts, NamedProcess};
    use crate::units::Bytes;

    /// PyTorch asked for 9 GiB on a 24 GiB card of which 6.1 were free, with 0.3 of its own.
    pub fn torch_oom(others: &[(u32, Bytes)]) -> Diagnosis {
        Diagnosis {
            oom: Oom::Yes,
            memory: Some(MemoryKind::Gpu),
            raised_by: Some("pytorch".into()),
            program: Some("pytorch".into()),
            phase: Phase::Training,
            facts: Facts {
                device: Some(0),
                requested_bytes: Some(Bytes::gib(9)),
                total_bytes: Some(Bytes::gib(24)),
                free_bytes: Some(Bytes::mib(6246)),
                process_bytes: Some(Bytes::mib(307)),
                allocated_bytes: Some(Bytes::mib(200)),
                reserved_unallocated_bytes: Some(Bytes::mib(20)),
                other_processes: others.iter().map(|(pid, bytes)| NamedProcess { pid: *pid, bytes: *bytes }).collect(),
                ..Facts::default()
            },
            figures: vec![],
            matches: vec![Match {
                entry: "pytorch/cuda-out-of-memory".into(),
                certainty: Certainty::Certain,
                line: 209,
                text: "torch.OutOfMemoryError: CUDA out of memory.".into(),
            }],
            remark: None,
            crashed_at: None,
            crashed_at_if_utc: None,
            run: crate::knowledge::run::Run::default(),
            is_shortened: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::torch_oom;
    use super::*;
    use crate::gpu::Reading;
    use crate::gpu::testing::{noon_plus, process};

    #[test]
    fn the_run_itself_is_one_with_little_more_than_its_allocator_has() {
        let own = |others: &[(u32, u64)], allocated: Option<u64>, printed: Option<u64>| {
            let others: Vec<(u32, Bytes)> = others.iter().map(|(pid, mib)| (*pid, Bytes::mib(*mib))).collect();
            let mut facts = torch_oom(&others).facts;
            (facts.allocated_bytes, facts.process_bytes) = (allocated.map(Bytes::mib), printed.map(Bytes::mib));
            own_process(&facts).map(|own| own.pid)
        };
        // The allocator has 20 MiB more, reserved and not allocated.
        assert_eq!(own(&[(4242, 11_500)], Some(300), None), None, "far more: another process");
        assert_eq!(own(&[(4242, 11_500)], Some(10_900), None), Some(4242));
        assert_eq!(own(&[(4242, 11_500)], Some(11_490), None), None, "less than its allocator has");
        assert_eq!(own(&[(4242, 12_900)], Some(10_900), None), Some(4242), "with NCCL's buffers");
        assert_eq!(own(&[(4242, 13_100)], Some(10_900), None), None);
        assert_eq!(own(&[(4242, 11_500), (5177, 812)], Some(300), None), Some(5177));
        assert_eq!(own(&[(4242, 900), (5177, 812)], Some(300), None), Some(5177), "the one that is next to it");
        assert_eq!(own(&[(4242, 0)], Some(300), None), None, "printed with nothing");
        assert_eq!(own(&[(4242, 812)], Some(300), Some(700)), None, "the log prints this process by itself");
        assert_eq!(own(&[(4242, 812)], None, None), None, "its allocator's figure is not known");
    }

    #[test]
    fn a_stamp_without_a_zone_may_be_a_containers_utc() {
        let mut diagnosis = torch_oom(&[]);
        let mut before = |stamp: i64, if_utc: i64, started: i64| {
            (diagnosis.crashed_at, diagnosis.crashed_at_if_utc) = (Some(noon_plus(stamp)), Some(noon_plus(if_utc)));
            let mut row = process(7, Bytes::gib(1));
            row.started_at = Reading::Known(noon_plus(started));
            let situation = Situation { crashed_by: Some(noon_plus(0)), ..Situation::alone(&diagnosis) };
            situation.was_there_before(&row)
        };
        let hour = 3600;
        assert_eq!(before(-2 * hour - 60, -60, -hour), None, "hours old, or a minute: then it was there");
        assert_eq!(before(-2 * hour - 60, -60, -30), Some(false), "after both");
        assert_eq!(before(-2 * hour - 60, -60, -3 * hour), Some(true), "before both");
        assert_eq!(before(-2 * hour, -hour, -hour - 60), Some(false), "an hour old in UTC: most likely a local one");
        assert_eq!(before(5 * hour - 60, -60, -30), Some(false), "what is still to come was UTC, a minute ago");
        assert_eq!(before(30, 30 - hour, -30), Some(true), "clocks differ by seconds");
    }
}
