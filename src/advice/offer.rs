//! Owns whom a step may be about: never another user's process and never a busy one, nor one whose end or release
//! would reach such a process. Asked when the steps are laid out, and again before a release is requested. Pure.

use std::time::Duration;

use super::naming::user_of;
use super::release::{self, Release};
use super::supervisor::Supervisor;
use crate::gpu::activity::Activity;
use crate::gpu::guard::Refusal;
use crate::gpu::guard::Viewer;
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
    /// Neither was seen: offered after the idle ones with that condition, and first only where its memory alone is enough.
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
    pub snapshot: &'a Snapshot,
    /// What was watched so far; `None` where this is the only reading.
    pub history: Option<&'a History>,
    pub viewer: &'a Viewer,
}

impl Seen<'_> {
    /// Whether a process works, on whichever GPU.
    pub fn activity(&self, row: &GpuProcess) -> Activity {
        self.activity_of(&[row])
    }

    /// Whether a step may terminate it. Its supervisor's command terminates all that it runs.
    pub fn if_ended(&self, row: &GpuProcess) -> Standing {
        let supervisor = Supervisor::of(row);
        self.standing(row, |other| {
            is_of_one_group(row, other) || supervisor.is_some() && Supervisor::of(other) == supervisor
        })
    }

    /// Whether a step may ask its program to release memory. A request that names a model reaches only that model.
    pub fn if_released(&self, row: &GpuProcess, release: &Release) -> Standing {
        self.standing(row, |other| {
            release::route(other).is_some_and(|theirs| reaches(release, &theirs))
                || release.model.is_none() && is_of_one_group(row, other)
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
            for row in device.processes.iter().filter(|row| processes.iter().any(|process| is_same(process, row))) {
                match Activity::of(self.history, Some(device), row) {
                    busy @ Activity::Busy(_) => return busy,
                    Activity::Idle(time) => idle = Some(idle.map_or(time, |shortest| shortest.min(time))),
                    Activity::Unknown => is_known = false,
                }
            }
        }
        match idle {
            Some(shortest) if is_known => Activity::Idle(shortest),
            _ => Activity::Unknown,
        }
    }
}

/// Whether a launcher or server runs both.
fn is_of_one_group(one: &GpuProcess, other: &GpuProcess) -> bool {
    one.group.is_some() && one.group == other.group
}

/// Whether a request reaches what the other request is for, too.
fn reaches(release: &Release, theirs: &Release) -> bool {
    let is_same_server = (theirs.way, &theirs.door) == (release.way, &release.door);
    is_same_server && (release.model.is_none() || theirs.model.is_none() || theirs.model == release.model)
}

/// Whether two rows, of two GPUs perhaps, are of one process.
fn is_same(one: &GpuProcess, other: &GpuProcess) -> bool {
    one.pid == other.pid && one.start_ticks.value() == other.start_ticks.value()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{PlannedFix, Situation, advise};
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{ProcessKind, Reading};
    use crate::knowledge::FixId;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::fix::Fix;
    use crate::units::Bytes;

    fn ada() -> Viewer {
        Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() }
    }

    static FIXES: LazyLock<Vec<Fix>> = LazyLock::new(|| {
        let base = KnowledgeBase::built_in().unwrap();
        [FixId::END_HOLDER, FixId::SMALLER_BATCH, FixId::USE_OTHER_GPU]
            .into_iter()
            .filter_map(|id| base.fix(id))
            .cloned()
            .collect()
    });

    /// The steps for a log that names these, on a machine that was watched for 20 s or read once.
    fn plan(
        named: &[(u32, Bytes)],
        here: &Snapshot,
        viewer: &Viewer,
        was_watched: bool,
        fixes: &[Fix],
    ) -> Vec<PlannedFix> {
        let mut diagnosis = torch_oom(named);
        // The run's own setting ties its log to GPU 0 where no process does.
        diagnosis.run.visible_devices = Some("GPU-00000000".into());
        let mut history = History::default();
        if was_watched {
            history.note(&Snapshot { taken_at: noon_plus(-20), ..here.clone() });
        }
        history.note(here);
        advise(&Situation {
            fixes,
            snapshot: Some(here),
            history: Some(&history),
            viewer: Some(viewer),
            crashed_by: Some(noon_plus(0)),
            ..Situation::alone(&diagnosis)
        })
        .plan
    }

    fn ids(plan: &[PlannedFix]) -> Vec<String> {
        let id =
            |step: &PlannedFix| step.target.map_or(step.fix.to_string(), |key| format!("{} {}", step.fix, key.pid));
        plan.iter().map(id).collect()
    }

    fn card(rows: Vec<GpuProcess>) -> Snapshot {
        Snapshot { devices: vec![device(0, rows), device(1, vec![])], ..snapshot(0) }
    }

    fn busy(mut row: GpuProcess) -> GpuProcess {
        row.sm_percent = Reading::Known(97);
        row
    }

    #[test]
    fn where_only_busy_and_other_users_processes_use_the_gpu_the_steps_wait_or_ask() {
        let end = FIXES.iter().filter(|fix| fix.id == "end-holder").cloned().collect::<Vec<_>>();
        let mut foreign = process(8, Bytes::gib(8));
        foreign.uid = Reading::Known(1001);
        let here = card(vec![busy(process(7, Bytes::gib(8))), foreign]);
        for was_watched in [true, false] {
            let steps = plan(&[], &here, &ada(), was_watched, &end);
            assert_eq!(ids(&steps), ["wait-for-memory", "ask-owner"]);
            assert!(steps[0].steps[0].why.contains("is yours and BUSY 97 %"), "{:?}", steps[0]);
        }
        let root = Viewer { uid: 0, ..ada() };
        assert_eq!(ids(&plan(&[], &here, &root, true, &end)), ["wait-for-memory", "ask-owner", "ask-owner"]);
        let sudo = Viewer { sudo_uid: Some(1000), ..root };
        assert_eq!(ids(&plan(&[], &here, &sudo, true, &end)), ["wait-for-memory", "ask-owner"]);
    }

    #[test]
    fn a_process_not_known_to_be_idle_is_the_first_step_only_if_it_alone_is_enough_and_the_step_says_so() {
        let fixes: Vec<Fix> = FIXES.iter().filter(|fix| fix.id != "use-other-gpu").cloned().collect();
        let alone = card(vec![process(7, Bytes::gib(16))]);
        let together = card([7, 8, 9, 10, 11].map(|pid| process(pid, Bytes::gib(4))).to_vec());
        for (here, at) in [(alone, 0), (together, 1)] {
            let named: Vec<(u32, Bytes)> =
                here.devices[0].processes.iter().map(|row| (row.pid, row.used_bytes.value().unwrap())).collect();
            assert_eq!(ids(&plan(&named, &here, &ada(), true, &fixes))[0], "end-holder 7");
            let once = plan(&named, &here, &ada(), false, &fixes);
            assert_eq!(ids(&once).iter().position(|id| id == "end-holder 7"), Some(at), "{:?}", ids(&once));
            assert!(says_its_condition(&once[at]), "{:?}", once[at]);
        }
    }

    /// Whether the step's line and what it asks for both say that it is only for an idle process.
    fn says_its_condition(step: &PlannedFix) -> bool {
        step.title.ends_with(", if it is idle") && step.steps[0].action.starts_with("If it is idle")
    }

    #[test]
    fn inside_a_pod_the_step_to_terminate_shows_its_condition_and_cannot_be_taken() {
        let here = card(vec![process(7, Bytes::gib(16))]);
        let pod = Viewer { is_held_by_pod: true, ..ada() };
        let steps = plan(&[(7, Bytes::gib(16))], &here, &pod, true, &FIXES);
        assert_eq!(steps.iter().position(|step| step.fix == "end-holder"), Some(1), "{:?}", ids(&steps));
        assert!(steps.iter().all(|step| step.target.is_none() && step.release.is_none()));
        assert_eq!(steps[1].steps[0].command.as_deref(), Some("oomdoctor kill --allow-kill 7@7000"));
    }

    /// Whom a container's stop, a job's cancel, a launcher's end or a whole server's release would reach.
    #[test]
    fn a_step_is_not_offered_if_it_would_reach_a_busy_or_another_users_process() {
        let with = |pid: u32, change: fn(&mut GpuProcess)| {
            let mut row = process(pid, Bytes::gib(8));
            change(&mut row);
            row
        };
        let reaches: [fn(&mut GpuProcess); 5] = [
            |row| row.group = Some(ProcessKey { pid: 40, start_ticks: 1 }),
            |row| row.container = Some("docker:0123456789ab".into()),
            |row| row.managed_by = Some("slurm:81234".into()),
            |row| row.managed_by = Some("service:comfy.service".into()),
            |row| {
                row.recognised_as = Some("vLLM engine".into());
                row.server_command = Some("vllm serve m --port 8001".into());
            },
        ];
        for (at, change) in reaches.into_iter().enumerate() {
            let (one, other) = (with(7, change), with(8, change));
            let idle = plan(&[], &card(vec![one.clone(), other.clone()]), &ada(), true, &FIXES);
            assert!(idle.iter().any(|step| step.target.is_some()), "{at}: {:?}", ids(&idle));
            let mut foreign = other.clone();
            foreign.uid = Reading::Known(1001);
            for reached in [busy(other), foreign] {
                let plan = plan(&[], &card(vec![one.clone(), reached]), &ada(), true, &FIXES);
                assert!(plan.iter().all(|step| step.target.is_none()), "{at}: {:?}", ids(&plan));
            }
        }
        // One model of Ollama is unloaded without the other, whoever runs the server.
        let runner = |pid: u32, model: &str| {
            let mut row = process(pid, Bytes::gib(8));
            row.recognised_as = Some(format!("Ollama runner {model}"));
            row.managed_by = Some("service:ollama.service".into());
            row
        };
        let here = card(vec![runner(7, "a:1"), busy(runner(8, "b:1"))]);
        let ended: Vec<String> = ids(&plan(&[], &here, &ada(), true, &FIXES));
        assert!(ended.contains(&"end-holder 7".to_owned()) && !ended.contains(&"end-holder 8".to_owned()), "{ended:?}");
        // A process that is busy on another GPU is busy.
        let two = Snapshot {
            devices: vec![
                device(0, vec![process(7, Bytes::gib(16))]),
                device(1, vec![busy(process(7, Bytes::gib(9)))]),
            ],
            ..snapshot(0)
        };
        assert!(plan(&[], &two, &ada(), true, &FIXES).iter().all(|step| step.target.is_none()));
    }

    fn any_row() -> impl Strategy<Value = GpuProcess> {
        let uid = prop_oneof![3 => Just(Some(1000)), 1 => Just(Some(1001)), 1 => Just(Some(0)), 1 => Just(None)];
        let percent = prop_oneof![4 => Just(Some(0)), 1 => Just(Some(60)), 1 => Just(None)];
        let label = prop::sample::select(vec!["", "Ollama runner a:1", "Ollama runner", "ComfyUI", "vLLM server"]);
        let place = prop::sample::select(vec!["", "", "docker:0123456789ab", "slurm:7"]);
        let rest = (0_u64..20, 0_u32..3, any::<bool>());
        (10_u32..16, uid, percent, label, place, rest).prop_map(|(pid, uid, percent, label, place, rest)| {
            let (gib, group, is_proved) = rest;
            let mut row = process(pid, Bytes::gib(gib));
            row.uid = uid.map_or(Reading::Denied, Reading::Known);
            row.sm_percent = percent.map_or(Reading::Unsupported, Reading::Known);
            row.recognised_as = Some(label.to_owned()).filter(|label| !label.is_empty());
            row.container = Some(place.to_owned()).filter(|place| place.starts_with("docker"));
            row.managed_by = Some(place.to_owned()).filter(|place| place.starts_with("slurm"));
            row.group = (group > 0).then_some(ProcessKey { pid: 40 + group, start_ticks: 1 });
            row.parent_pid = Reading::Known(if group > 0 { 40 + group } else { 900 });
            row.proved = is_proved || pid % 2 == 0;
            row
        })
    }

    /// One GPU's rows as a reading has them: one row a process, which is the same process on every GPU.
    fn rows_as_read(rows: Vec<GpuProcess>, known: &mut BTreeMap<u32, GpuProcess>) -> Vec<GpuProcess> {
        let by_pid: BTreeMap<u32, GpuProcess> = rows.into_iter().map(|row| (row.pid, row)).collect();
        by_pid
            .into_values()
            .map(|row| {
                let same = known.entry(row.pid).or_insert_with(|| row.clone()).clone();
                GpuProcess { used_bytes: row.used_bytes, sm_percent: row.sm_percent, ..same }
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn no_step_reaches_another_users_or_a_busy_process(
            first in prop::collection::vec(any_row(), 0..5),
            second in prop::collection::vec(any_row(), 0..3),
            named in prop::collection::vec((10_u32..16, 1_u64..20), 0..3),
            uid in prop::sample::select(vec![1000_u32, 0]),
            sudo_uid in prop::sample::select(vec![None, Some(1000)]),
            is_held_by_pod in prop::bool::weighted(0.1),
            was_watched: bool,
        ) {
            let mut launcher = process(41, Bytes::ZERO);
            (launcher.kind, launcher.group) = (ProcessKind::Unlisted, Some(ProcessKey { pid: 41, start_ticks: 1 }));
            launcher.start_ticks = Reading::Known(1);
            let mut known = BTreeMap::new();
            let (first, second) = (rows_as_read(first, &mut known), rows_as_read(second, &mut known));
            let here = Snapshot {
                devices: vec![device(0, first), device(1, second)],
                launchers: vec![launcher],
                ..snapshot(0)
            };
            let viewer = Viewer { uid, sudo_uid, is_held_by_pod, ..ada() };
            let named: Vec<(u32, Bytes)> = named.into_iter().map(|(pid, gib)| (pid, Bytes::gib(gib))).collect();
            let plan = plan(&named, &here, &viewer, was_watched, &FIXES);
            let own = if uid == 1000 || sudo_uid.is_some() { 1000 } else { 0 };
            let is_innocent = |row: &GpuProcess| {
                row.uid != Reading::Known(own) || row.sm_percent.value().is_some_and(|percent| percent > 0)
            };
            for step in plan.iter().filter(|step| step.target.is_some() || step.release.is_some()) {
                prop_assert!(!is_held_by_pod);
                let key = step.target.unwrap();
                let rows: Vec<&GpuProcess> = here.everybody().filter(|row| row.key() == Some(key)).collect();
                let reached = here.below(key).into_iter().flat_map(|key| here.everybody().filter(move |row| row.key() == Some(key)));
                prop_assert!(rows.iter().copied().chain(reached).all(|row| !is_innocent(row)), "{:?} {step:?}", rows);
                let command = step.steps[0].command.clone().unwrap_or_default();
                if command.starts_with("docker") || command.starts_with("scancel") {
                    let mates = here.everybody().filter(|row| Supervisor::of(row).is_some() && Supervisor::of(row) == Supervisor::of(rows[0]));
                    prop_assert!(mates.into_iter().all(|row| !is_innocent(row)), "{step:?}");
                }
            }
            // One that is not known to be idle is preselected only if it may be enough alone, or where there is nothing else.
            if let Some(first) = plan.first().filter(|first| first.target.is_some() && !was_watched) {
                let is_all_there_is = plan.iter().all(|step| step.target.is_some());
                prop_assert!(says_its_condition(first), "{first:?}");
                prop_assert!(is_all_there_is || first.may_be_enough, "{first:?}");
            }
        }
    }
}
