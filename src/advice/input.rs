//! Owns what an advice is made from: the log as it was read, the machine, what was watched, what the person said, the
//! steps taken so far, and what an earlier reading of the same log taught.

use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::engine;
use super::fit::{FitAdvice, Room};
use super::offer::Seen;
use super::rerun::Form;
use super::retry::Tried;
use crate::gpu::guard::Viewer;
use crate::gpu::history::History;
use crate::gpu::{Device, Driver, GpuProcess, ProcessKey, Snapshot};
use crate::knowledge::{Diagnosis, Fix, FixId, NamedProcess};
use crate::units::WallTime;

/// Clocks of a container, a job and its file differ by less.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);

/// A log that was pasted right after the failure is younger.
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
    /// Whether the run is known to have been a process of this machine.
    pub has_run_here: bool,
    /// The steps taken so far.
    pub taken: Taken,
    /// The fixes that were tried before and did not help.
    pub tried: &'a [FixId],
    /// What an earlier reading of the same log taught.
    pub before: Option<&'a Remembered>,
}

/// What a reading of the machine teaches that a later reading of the same log still needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The memory that there was for the run. While it is the same, what fits is not calculated again.
    pub room: Room,
    /// The command line that the person had given.
    pub command: Option<String>,
    pub fit: Option<FitAdvice>,
    /// The command line with the steps taken, and whether the run fits with them.
    pub changed: Option<ChangedFit>,
    /// The processes that the log names and that were matched here. One that was matched once proves that the log is
    /// from this machine, also after it has exited.
    pub met: Vec<ProcessKey>,
    /// The driver's index of the GPU that the run was found to have failed on. What showed that may have ended since.
    pub located: Option<u32>,
    /// The retry that was seen last, also when it has exited since.
    pub tried: Option<Tried>,
}

/// A command line with the steps taken, and whether the run fits with them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedFit {
    pub command: String,
    pub fit: FitAdvice,
}

/// What the steps taken so far mean for those ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// They change the command line: what is ahead is reckoned from there.
    pub changed: bool,
    /// One of them may be enough.
    pub enough: bool,
    pub freed: bool,
    /// How many steps the person has left behind, taken or not.
    pub left: usize,
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
            has_run_here: false,
            taken: Taken::default(),
            tried: &[],
            before: None,
        }
    }

    /// Whether a driver shows this machine's GPUs. Without one nothing is known of who uses them.
    pub fn sees_gpus(&self) -> bool {
        self.snapshot.is_some_and(|here| match &here.driver {
            Driver::Available { .. } => true,
            // Other GPUs are seen, but NVIDIA's may be the ones that matter, unless there are none.
            Driver::Unavailable { unavailable } => unavailable.is_empty() && !here.devices.is_empty(),
        })
    }

    /// The command line that failed, as the person gave it, else as the log shows it.
    pub fn command_line(&self) -> Option<&'a str> {
        self.command.or(self.diagnosis.run.command.as_deref())
    }

    /// The GPUs that the run was allowed to see, as `CUDA_VISIBLE_DEVICES` (or its maker's variable) has them: by the log,
    /// else by the command line that the person gave. A command line that the steps taken have changed is not the one that failed.
    pub fn visible_devices(&self) -> Option<&'a str> {
        let given = if self.taken.changed { None } else { self.command.and_then(set_in_front) };
        self.diagnosis.run.visible_devices.as_deref().or(given)
    }

    /// The entry of the visible devices for the GPU that failed, as it was written: a number or a UUID.
    pub fn visible_entry(&self) -> Option<&'a str> {
        let list = self.visible_devices()?;
        let number = match self.printed_index() {
            None if list.contains(',') => return None,
            printed => printed.unwrap_or(0),
        };
        Some(list.split(',').nth(usize::try_from(number).ok()?)?.trim())
    }

    /// The number of the GPU that the log names, as the libraries of its maker count (`Device::number`): the log's own
    /// counts among the GPUs that the run was allowed to see.
    pub fn device_number(&self) -> Option<u32> {
        if self.visible_devices().is_none() {
            return self.printed_index();
        }
        let entry = self.visible_entry()?;
        if entry.starts_with("GPU-") || entry.starts_with("MIG-") {
            return self.snapshot?.devices.iter().find(|device| has_uuid(device, entry))?.number();
        }
        entry.parse().ok()
    }

    /// The number that the log has for the GPU, as the run counted.
    fn printed_index(&self) -> Option<u32> {
        self.diagnosis.facts.device.or_else(|| self.rank_of_engine())
    }

    /// Of an engine that spreads a model over several GPUs, each rank takes the GPU of its number.
    fn rank_of_engine(&self) -> Option<u32> {
        let run = &self.diagnosis.run;
        let (rank, ranks) = (run.rank?, run.tensor_parallel?);
        engine::engine_of(self.diagnosis)?;
        if rank < ranks { u32::try_from(rank).ok() } else { None }
    }

    /// Where the command line is written down, as far as the log shows.
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

    /// The retry that was seen at an earlier reading, if it has exited.
    pub fn ended_retry(&self) -> Option<&'a Tried> {
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
        // Read as UTC the stamp is minutes old, read as local time it is hours old: what was started in between may be
        // from before or after.
        let is_undecided = self
            .diagnosis
            .crashed_at_if_utc
            .is_some_and(|utc| self.is_fresh(utc) && crashed < started && started <= utc);
        if is_undecided { None } else { Some(started <= crashed) }
    }

    /// Whether a log that was written then was pasted right after the failure.
    fn is_fresh(&self, written: WallTime) -> bool {
        let age = self.crashed_by.map(|bound| bound.0.duration_since(written.0));
        age.is_some_and(|age| (SignedDuration::ZERO..FRESH).contains(&age))
    }

    /// Who looks at which machine; `None` where the log is read alone.
    pub fn seen(&self) -> Option<Seen<'a>> {
        Some(Seen { snapshot: self.snapshot?, history: self.history, viewer: self.viewer? })
    }
}

/// Whether the device has this UUID, of which the beginning may be given.
pub(crate) fn has_uuid(device: &Device, start: &str) -> bool {
    device.uuid.known().is_some_and(|uuid| uuid.starts_with(start))
}

/// The variables that select GPUs, with what comes before their numbers.
pub(crate) const SELECT_GPUS: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES=",
    "HIP_VISIBLE_DEVICES=",
    "ROCR_VISIBLE_DEVICES=",
    "ZE_AFFINITY_MASK=",
    "ONEAPI_DEVICE_SELECTOR=level_zero:",
];

/// What such a variable is set to in front of a command.
pub(crate) fn set_in_front(line: &str) -> Option<&str> {
    let mut set = SELECT_GPUS.iter().filter_map(|variable| line.split_once(variable));
    // HIP's numbers count within ROCR's list, so two lists together name no GPU.
    let (Some((_, rest)), None) = (set.next(), set.next()) else { return None };
    let value = rest.split_whitespace().next()?.trim_matches(['"', '\'', ';']);
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::gpu::Reading;
    use crate::gpu::testing::{noon_plus, process};
    use crate::units::Bytes;

    #[test]
    fn a_timestamp_without_a_zone_may_be_a_containers_utc() {
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
