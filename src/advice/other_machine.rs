//! Owns what other machines mean for a log: which of them it names, how advice reads that was made from one of them, and on
//! which of their GPUs the run has room. They are only read: what would signal a process there becomes a command for a
//! person to run there.

use std::cmp::Reverse;

use super::input::{self, Situation};
use super::machine::make::{counted, may_run_on};
use super::machine::place::has_free;
use super::naming::sentence;
use super::rerun::Form;
use super::steps::planned::{Enough, PlannedFix, Step};
use super::told::Advice;
use crate::gpu::guard::Viewer;
use crate::gpu::history::History;
use crate::gpu::usage::Unused;
use crate::gpu::{Device, Snapshot};
use crate::hosts::{HostReading, only_one, people};
use crate::knowledge::{Diagnosis, FixId, MemoryKind, Oom};
use crate::memory::flags::quoted;
use crate::memory::visible::Reads;

/// The commands of a supervisor that reach their job from any machine.
const REACHES_FROM_HERE: [&str; 2] = ["scancel ", "kubectl "];

/// Another machine, after it was watched for a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherMachine<'a> {
    pub reading: &'a HostReading,
    pub snapshot: &'a Snapshot,
    pub history: &'a History,
}

/// The machine of these that the log names as the one of its first failure, whether it was read or not.
pub(crate) fn named<'a>(log: &Diagnosis, readings: &'a [HostReading]) -> Option<&'a HostReading> {
    failed_on(log, readings, |reading| reading)
}

/// The same among anything that has a reading: by what launchers and the prefixes of several hosts say, else by a name that
/// stands beside the failure's line.
pub(crate) fn failed_on<'a, T>(
    log: &Diagnosis,
    machines: &'a [T],
    reading: impl Fn(&T) -> &HostReading,
) -> Option<&'a T> {
    let first = log.facts.first_failure.as_ref().and_then(|first| first.host.as_deref());
    let mut names = first.into_iter().chain(log.beside.iter().map(String::as_str));
    names.find_map(|name| only_one(machines.iter().filter(|machine| reading(machine).is_called(name))))
}

/// The user as whom a machine was reached, by the number that this user has there. Nobody where that is unknown: then
/// nothing there is taken for the person's own.
pub(crate) fn viewer_there(reading: &HostReading, snapshot: &Snapshot, local_user: &str) -> Viewer {
    let own = snapshot.everybody().find(|process| people::is_own(reading, local_user, process));
    let uid = own.and_then(|process| process.uid.value()).unwrap_or(u32::MAX);
    Viewer { uid, ..Viewer::default() }
}

/// Turns advice that was made from another machine's reading into advice for a person who is here.
pub(crate) fn make_remote(advice: &mut Advice, reading: &HostReading) {
    let name = &reading.name;
    advice.verdict.notes.insert(0, format!("Compared with {name}, which the log names. It was only read."));
    for planned in &mut advice.plan {
        let is_about_a_process = planned.target.is_some() || planned.release.is_some();
        // A key or a script would take it for a process of this machine.
        (planned.target, planned.release) = (None, None);
        if is_about_a_process {
            planned.title = format!("{} on {name}", planned.title);
            planned
                .steps
                .iter_mut()
                .for_each(|step| step.command = step.command.take().and_then(|line| there(&line, reading)));
        }
    }
}

/// The command as it is typed here; `None` where no way leads there.
fn there(line: &str, reading: &HostReading) -> Option<String> {
    if REACHES_FROM_HERE.iter().any(|program| line.starts_with(program)) {
        return Some(line.to_owned());
    }
    if !reading.through.is_ssh() {
        return None;
    }
    let line = reading.own_command(line)?;
    let is_plain = line.chars().all(|character| character.is_ascii_alphanumeric() || " ._-/@:=".contains(character));
    let line = if is_plain { line } else { quoted(&line) };
    Some(reading.name.ssh_command(&line))
}

/// A GPU of another machine with room for the run.
struct Room<'a> {
    reading: &'a HostReading,
    device: &'a Device,
    seen: Unused,
}

/// Adds the step to run on another machine, where something is short here and a GPU there is seen unused with room for what
/// the run needs.
pub(crate) fn offer(advice: &mut Advice, situation: &Situation<'_>, machines: &[OtherMachine<'_>]) {
    if situation.taken.enough || situation.tried.contains(&FixId::USE_OTHER_MACHINE) {
        return;
    }
    let Some(room) = room_elsewhere(advice, situation, machines) else { return };
    let (name, index) = (&room.reading.name, room.device.index);
    let Some(free) = room.device.memory.free_bytes.value() else { return };
    let is_at_least = advice.ledger.as_ref().is_none_or(|ledger| ledger.needed_is_at_least);
    let said = format!("{name}, GPU {index}, has {free} free: {}.", room.seen);
    // An unused GPU of this machine comes before it: that one needs no files copied.
    let is_behind_the_first = advice.plan.first().is_some_and(uses_another_gpu_here);
    if !is_behind_the_first {
        advice.verdict.sentence = format!("{} {said}", sentence(&advice.verdict.sentence));
        advice.brief.next.clone_from(&said);
    }
    let planned = PlannedFix {
        title: format!("Run on {name}, GPU {index}"),
        enough: if is_at_least { Enough::Likely } else { Enough::Yes },
        may_be_enough: true,
        steps: vec![how(&room, situation, &said)],
        ..PlannedFix::named(FixId::USE_OTHER_MACHINE, "needs the files there")
    };
    advice.plan.insert(usize::from(is_behind_the_first), planned);
}

fn uses_another_gpu_here(planned: &PlannedFix) -> bool {
    planned.room_on.as_ref().is_some_and(|room| !room.is_shared)
}

fn room_elsewhere<'a>(advice: &Advice, situation: &Situation<'_>, machines: &[OtherMachine<'a>]) -> Option<Room<'a>> {
    let (log, ledger) = (situation.diagnosis, advice.ledger.as_ref()?);
    let is_of_a_gpu = matches!(log.memory, Some(MemoryKind::Gpu | MemoryKind::KvCache));
    let is_short = ledger.missing_bytes.is_none_or(|missing| missing.0 > 0) && !advice.on_its_way;
    // One GPU cannot replace several.
    if log.oom != Oom::Yes || !is_of_a_gpu || !is_short || log.run.is_spread() {
        return None;
    }
    let needed = ledger.needed_bytes?;
    let named = failed_on(log, machines, |machine| machine.reading).map(|machine| &machine.reading.name);
    let rooms = machines.iter().enumerate().flat_map(|(order, machine)| {
        let is_the_logs = named == Some(&machine.reading.name);
        let devices = machine.snapshot.devices.iter();
        let may_be_used = devices.filter(move |device| {
            let failed_there = is_the_logs && ledger.device.is_none_or(|failed| failed == device.index);
            let is_usable = may_run_on(log, device) && may_be_given(machine.reading, device);
            has_free(device, needed) && !failed_there && is_usable
        });
        may_be_used.filter_map(move |device| {
            let seen = Unused::of(machine.snapshot, device, Some(machine.history))?;
            Some((order, Room { reading: machine.reading, device, seen }))
        })
    });
    // Readings of idle GPUs differ by a few MiB: compared to the GiB, the offer stays the same from one to the next.
    let (_, best) = rooms.max_by_key(|(order, room)| {
        let free = room.device.memory.free_bytes.value().map(|free| free.0 >> 30);
        (free, Reverse(*order), Reverse(room.device.index))
    })?;
    Some(best)
}

/// Whether nothing that a scheduler says speaks against this GPU.
fn may_be_given(reading: &HostReading, device: &Device) -> bool {
    reading.allotment.as_ref().is_none_or(|allotment| {
        let is_given = allotment.given_indices.as_ref().is_some_and(|given| given.contains(&device.index));
        allotment.is_open && !allotment.is_all_given() && !is_given
    })
}

fn how(room: &Room<'_>, situation: &Situation<'_>, said: &str) -> Step {
    let (name, index) = (&room.reading.name, room.device.index);
    let node = room.reading.own_name();
    let line = situation.command_line().filter(|line| !line.contains('\n'));
    let (action, command) = match situation.form() {
        Form::Slurm => ("Submit the job with this node named".to_owned(), Some(with_node(line, node))),
        Form::Kubernetes => (
            "Select the node in the pod's spec".to_owned(),
            Some(format!("nodeSelector: {{kubernetes.io/hostname: {node}}}")),
        ),
        Form::Posix if room.reading.through.is_ssh() => {
            let line = line.filter(|line| input::set_in_front(line).is_none()).unwrap_or("COMMAND");
            match counted(room.device).alone(Reads::of_line(line)) {
                Some(only) => {
                    let run = name.ssh_command(&quoted(&format!("{only} {line}")));
                    ("Run it there with only that GPU visible".to_owned(), Some(run))
                }
                // Its number among the GPUs of its maker is not known.
                None => (format!("Run it on {name} with only GPU {index} visible"), None),
            }
        }
        Form::Posix | Form::PowerShell | Form::Cmd | Form::Compose => {
            (format!("Run it on {name} with only GPU {index} visible"), None)
        }
    };
    let (expect, if_not) =
        ("Worked if: the job passes the point where it failed.", "If files are missing there, copy them first.");
    Step::new(action, command, said.to_owned(), expect, if_not)
}

/// The line that submits the job, with the node.
fn with_node(line: Option<&str>, node: &str) -> String {
    let submitted = line.and_then(|line| {
        let (program, rest) = line.split_once(' ')?;
        ["srun", "sbatch", "salloc"].contains(&program).then(|| format!("{program} --nodelist={node} {rest}"))
    });
    submitted.unwrap_or_else(|| format!("sbatch --nodelist={node} JOB.sh"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Situation, advise};
    use crate::gpu::testing::{device, process, snapshot};
    use crate::gpu::{GpuProcess, Reading};
    use crate::hosts::{Allotment, Through, Unavailable};
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::first_failure::FirstFailure;
    use crate::units::Bytes;

    fn reading(name: &str, gpus: &[Vec<GpuProcess>]) -> HostReading {
        let at = |second: i64| {
            let devices = (0..).zip(gpus).map(|(index, rows)| device(index, rows.clone())).collect();
            let mut seen = Snapshot { devices, ..snapshot(second) };
            seen.host.name = name.to_owned();
            Box::new(seen)
        };
        let host = HostReading::unavailable(name.parse().unwrap(), Through::Ssh, Unavailable::new("not tried"));
        HostReading { seen: Ok((at(0), Some(at(20)))), ..host }
    }

    /// The advice of a machine that is full, with these others beside it.
    fn advised(log: &Diagnosis, others: &[HostReading]) -> Advice {
        let here = Snapshot { devices: vec![device(0, vec![process(7, Bytes::gib(20))])], ..snapshot(0) };
        let situation = Situation { snapshot: Some(&here), ..Situation::alone(log) };
        let mut advice = advise(&situation);
        let watched: Vec<(History, &HostReading)> = others
            .iter()
            .map(|reading| {
                let mut history = History::default();
                let (first, second) = reading.seen.as_ref().unwrap();
                history.note(first);
                history.note(second.as_ref().unwrap());
                (history, reading)
            })
            .collect();
        let machines: Vec<OtherMachine> = watched
            .iter()
            .map(|(history, reading)| OtherMachine { reading, snapshot: reading.snapshot().unwrap(), history })
            .collect();
        offer(&mut advice, &situation, &machines);
        advice
    }

    fn offered(log: &Diagnosis, others: &[HostReading]) -> Option<PlannedFix> {
        advised(log, others).plan.into_iter().find(|planned| planned.title.starts_with("Run on "))
    }

    #[test]
    fn the_unused_gpu_with_most_room_is_offered_with_the_way_of_the_run() {
        let mut log = torch_oom(&[]);
        log.run.command = Some("python train.py --lr 1".to_owned());
        let tight = reading("gpu2", &[vec![process(8, Bytes::gib(12))], vec![]]);
        let found = offered(&log, &[reading("gpu1", &[vec![process(9, Bytes::gib(23))]]), tight]).unwrap();
        let command = found.steps[0].command.clone().unwrap();
        assert_eq!((found.title.as_str(), found.may_be_enough), ("Run on gpu2, GPU 1", true));
        assert_eq!(
            command,
            "ssh -t gpu2 'CUDA_VISIBLE_DEVICES=GPU-00000001-aaaa-bbbb-cccc-dddddddddddd python train.py --lr 1'"
        );
        log.run.command = Some("srun -n 1 python train.py".to_owned());
        log.run.launcher = Some("srun".to_owned());
        let found = offered(&log, &[reading("gpu2", &[vec![], vec![]])]).unwrap();
        assert_eq!(found.steps[0].command.as_deref(), Some("srun --nodelist=gpu2 -n 1 python train.py"));
        (log.run.launcher, log.run.command) = (None, None);
        log.raised_by = Some("kubernetes".into());
        let found = offered(&log, &[reading("gpu2", &[vec![], vec![]])]).unwrap();
        assert_eq!(found.steps[0].command.as_deref(), Some("nodeSelector: {kubernetes.io/hostname: gpu2}"));
    }

    #[test]
    fn a_gpu_that_somebody_uses_or_that_is_given_is_not_offered_nor_one_where_the_log_failed() {
        let mut log = torch_oom(&[]);
        assert!(offered(&log, &[reading("gpu1", &[vec![process(9, Bytes::gib(1))]])]).is_none(), "somebody is there");
        let given = |given_indices, is_open| HostReading {
            allotment: Some(Allotment { given_indices, is_open, ..Allotment::default() }),
            ..reading("gpu1", &[vec![]])
        };
        assert!(offered(&log, &[given(Some(vec![0]), true)]).is_none());
        assert!(offered(&log, &[given(None, false)]).is_none());
        assert!(offered(&log, &[given(Some(vec![1]), true)]).is_some());
        log.facts.first_failure = Some(FirstFailure { host: Some("gpu1.cluster".into()), ..FirstFailure::default() });
        assert!(offered(&log, &[reading("gpu1", &[vec![]])]).is_none(), "it failed on that one");
        assert!(offered(&log, &[reading("gpu3", &[vec![]])]).is_some());
        log.run.tensor_parallel = Some(4);
        assert!(offered(&log, &[reading("gpu3", &[vec![]])]).is_none(), "one GPU cannot replace four");
    }

    #[test]
    fn the_machine_that_the_log_names_is_found_by_its_own_name_or_the_one_asked_for() {
        let mut log = torch_oom(&[]);
        let readings = [reading("gpu1", &[vec![]]), reading("gpu2", &[vec![]])];
        let found = |log: &Diagnosis| named(log, &readings).map(|reading| reading.name.to_string());
        assert_eq!(found(&log), None);
        for (host, expected) in [("gpu2", Some("gpu2")), ("GPU1.cluster.example", Some("gpu1")), ("gpu9", None)] {
            log.facts.first_failure = Some(FirstFailure { host: Some(host.into()), ..FirstFailure::default() });
            assert_eq!(found(&log).as_deref(), expected);
        }
        log.beside = ["login", "gpu1"].map(str::to_owned).into();
        assert_eq!(
            found(&log).as_deref(),
            Some("gpu1"),
            "a name beside the line, where the launcher's is of none of them"
        );
    }

    #[test]
    fn advice_for_another_machine_names_no_process_as_one_of_this_machine() {
        let mut row = process(4242, Bytes::gib(15));
        row.sm_percent = Reading::Known(0);
        let there = reading("gpu1", &[vec![row]]);
        let log = torch_oom(&[(4242, Bytes::gib(15))]);
        let seen = there.snapshot().unwrap();
        let viewer = viewer_there(&there, seen, "ada");
        assert_eq!((viewer.uid, viewer_there(&there, seen, "eve").uid), (1000, u32::MAX));
        let mut history = History::default();
        history.note(there.seen.as_ref().map(|(first, _)| first).unwrap());
        history.note(seen);
        let fixes = [KnowledgeBase::built_in().unwrap().fix(FixId::END_HOLDER).unwrap().clone()];
        let situation = Situation {
            fixes: &fixes,
            snapshot: Some(seen),
            history: Some(&history),
            viewer: Some(&viewer),
            crashed_by: Some(crate::gpu::testing::noon_plus(10)),
            has_run_here: true,
            ..Situation::alone(&log)
        };
        let mut advice = advise(&situation);
        assert!(advice.plan.iter().any(|planned| planned.target.is_some()), "{:#?}", advice.plan);
        make_remote(&mut advice, &there);
        assert!(advice.plan.iter().all(|planned| planned.target.is_none() && planned.release.is_none()));
        let commands: Vec<&str> =
            advice.plan.iter().flat_map(|planned| &planned.steps).filter_map(|step| step.command.as_deref()).collect();
        assert!(commands.contains(&"ssh -t gpu1 oomdoctor kill 4242@4242000"), "{commands:?}");
        assert!(!commands.iter().any(|command| command.starts_with("oomdoctor kill")), "{commands:?}");
    }
}
