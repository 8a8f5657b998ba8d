//! Owns the failed run's next try: a process that was started since and looks like the same run, and what its memory
//! says of how far it has come.

use crate::advice::{Ledger, Place, Situation, name_of};
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::program::{Program, Trait};
use crate::units::Bytes;

/// The run, started again after it failed.
#[derive(Clone, Copy, Debug)]
pub struct NextTry<'a> {
    device: &'a Device,
    row: &'a GpuProcess,
    holds: Bytes,
    /// Its options are others than those that failed: what that needed says nothing of it.
    changed: bool,
}

/// What starts others and tells nothing of what it starts.
const STARTERS: &[&str] = &[
    "sudo",
    "nohup",
    "env",
    "time",
    "nice",
    "srun",
    "mpirun",
    "mpiexec",
    "uv",
    "run",
    "poetry",
    "pipenv",
    "conda",
    "torchrun",
    "accelerate",
    "deepspeed",
    "launch",
    "python",
    "python2",
    "python3",
    "pypy3",
];

/// Scripts of many programs: their name alone tells nothing.
const COMMON: &[&str] = &["main.py", "app.py", "run.py", "server.py", "launch.py", "webui.py"];

/// What failed, as far as a process can be known by it.
enum What {
    /// A script, with the folders that were named.
    Script(String),
    Program(String),
    /// A server by the name that people have for it.
    Server(String),
}

/// The viewer's own that was started after the failure and runs what failed. `None` where several do: any of
/// them may be it.
pub fn next_try<'a>(situation: &Situation<'a>, place: &Place<'_>) -> Option<NextTry<'a>> {
    let tries = tries(situation, place);
    let run = |one: &NextTry<'_>| one.row.group.or(one.row.key());
    let first = tries.first().map(run)?;
    // Ranks and workers of one launcher are one run: the one on the card that failed tells most.
    let on_card = |one: &NextTry<'_>| place.device.is_some_and(|device| device.index == one.device.index);
    let alone = tries.iter().all(|one| run(one) == first);
    tries.into_iter().filter(|_| alone).max_by_key(|one| (on_card(one), one.holds))
}

/// Where several of what failed were started since: how many, and of what.
pub fn several(situation: &Situation<'_>, place: &Place<'_>) -> Option<String> {
    let tries = tries(situation, place);
    let mut runs: Vec<_> = tries.iter().map(|one| one.row.group.or(one.row.key())).collect();
    runs.sort();
    runs.dedup();
    let held = tries.iter().fold(Bytes::ZERO, |sum, one| sum.plus(one.holds));
    (runs.len() > 1).then(|| {
        format!(
            "{} processes of what failed were started since and hold {held} together. Any of them may be your next try: I offer to end none.",
            runs.len()
        )
    })
}

fn tries<'a>(situation: &Situation<'a>, place: &Place<'_>) -> Vec<NextTry<'a>> {
    let (Some(viewer), Some(snapshot), Some(true)) = (situation.viewer, situation.snapshot, place.same_machine) else {
        return Vec::new();
    };
    let Some(what) = what_ran(situation) else { return Vec::new() };
    let program = situation.diagnosis.program.as_deref().unwrap_or_default();
    let is_it = |row: &GpuProcess| {
        let since = situation.was_there_before(row) == Some(false) && row.uid.value() == Some(viewer.uid);
        since && !row.has_lost_its_parent() && runs(row, &what, program)
    };
    let rows = |device: &'a Device| device.processes.iter().filter(|row| is_it(row)).map(move |row| (device, row));
    let rows = snapshot.devices.iter().flat_map(rows);
    let options = |line: &str| -> Vec<String> {
        line.split_whitespace().skip_while(|word| !word.starts_with("--")).map(str::to_owned).collect()
    };
    let failed = situation.command_line().map(options);
    let changed = |row: &GpuProcess| {
        failed.as_ref().zip(row.command.known()).is_some_and(|(failed, now)| *failed != options(now))
    };
    let of = |(device, row): (&'a Device, &'a GpuProcess)| {
        Some(NextTry { device, row, holds: row.used_bytes.value()?, changed: changed(row) })
    };
    rows.filter_map(of).collect()
}

/// Whether another process can be told from a next try.
pub fn knows_what_ran(situation: &Situation<'_>) -> bool {
    what_ran(situation).is_some()
}

fn what_ran(situation: &Situation<'_>) -> Option<What> {
    let line = situation.command_line().unwrap_or_default();
    let traced = situation.diagnosis.run.script.as_deref().filter(|path| !path.contains("-packages/"));
    let script = script_of(line).or(traced);
    let words = line.split_whitespace().filter(|word| !word.starts_with('-') && !word.contains('='));
    let program = words.map(file_name).find(|word| !STARTERS.contains(word) && word.len() > 2);
    let server = situation
        .diagnosis
        .program
        .as_deref()
        .filter(|name| Program::known(name).is_some_and(|program| program.has(Trait::RunsOnce)));
    let what = script.map(|script| What::Script(script.to_owned()));
    let what = what.or(program.map(|program| What::Program(program.to_owned())));
    what.or(server.map(|server| What::Server(server.to_owned())))
}

/// The script that a command line runs; what comes later belongs to it.
fn script_of(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.ends_with(".py"))
}

/// Whether the process, or the server that it works for, runs that.
fn runs(row: &GpuProcess, what: &What, program: &str) -> bool {
    let label = row.recognised_as.as_deref().unwrap_or_default().to_lowercase();
    let name = label.split(' ').next().unwrap_or_default();
    let mut lines = row.command.known().into_iter().chain(&row.server_command);
    match what {
        What::Script(script) => {
            let common = COMMON.contains(&file_name(script));
            (!common || name == program || name.is_empty() || name.starts_with("python"))
                && lines.any(|line| script_of(line).is_some_and(|other| same_script(script, other)))
        }
        What::Program(wanted) => {
            lines.any(|line| line.split_whitespace().take(3).any(|word| file_name(word) == wanted))
        }
        What::Server(server) => name == server,
    }
}

/// Whether two paths, of which one may be relative, agree as far as both go.
fn same_script(one: &str, other: &str) -> bool {
    let parts = |path: &str| {
        path.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).rev().collect::<Vec<_>>()
    };
    let (one, other) = (parts(one), parts(other));
    !one.is_empty() && one.iter().zip(&other).all(|(one, other)| one == other || *one == ".." || other == "..")
}

fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

impl NextTry<'_> {
    /// What it holds of this device: room that it has already.
    pub fn holds_on(&self, device: &Device) -> Bytes {
        if device.index == self.device.index { self.holds } else { Bytes::ZERO }
    }

    pub fn is(&self, row: &GpuProcess) -> bool {
        self.row.key() == row.key()
    }

    /// Whether it runs on another card than the one that failed.
    pub fn is_elsewhere(&self, place: &Place<'_>) -> bool {
        place.device.is_some_and(|device| device.index != self.device.index)
    }

    /// It, and what it holds.
    pub fn seen(&self) -> Option<Tried> {
        Some(Tried { key: self.row.key()?, name: name_of(self.row), holds: self.holds })
    }

    /// What of the need is neither its own nor free on its card; `None` where the need is not known.
    fn missing(&self, ledger: Option<&Ledger>) -> Option<Bytes> {
        let free = self.device.memory.free_bytes.value()?;
        Some(ledger?.needed_bytes?.less(self.holds).less(free))
    }

    /// Whether nothing is known to be in its way.
    pub fn has_room(&self, ledger: Option<&Ledger>) -> bool {
        self.missing(ledger).is_none_or(|missing| missing == Bytes::ZERO)
    }

    pub fn said(&self, place: &Place<'_>, ledger: Option<&Ledger>) -> String {
        let card = if self.is_elsewhere(place) { format!(" on GPU {}", self.device.index) } else { String::new() };
        let so_far =
            format!("Your run seems to be on its way again{card}: {} holds {} now", name_of(self.row), self.holds);
        let needed = ledger.and_then(|ledger| ledger.needed_bytes);
        let short = self.missing(ledger).is_some_and(|missing| missing > Bytes::ZERO);
        if let (true, true, Some(needed)) = (self.changed, short, needed) {
            return format!("{so_far}, with other options than before; those needed at least {needed}.");
        }
        match (needed, self.missing(ledger)) {
            (Some(needed), _) if self.holds >= needed => {
                format!("{so_far}, at least what it needed when it failed ({needed}).")
            }
            (Some(needed), Some(missing)) if missing > Bytes::ZERO => format!(
                "{so_far}. When it failed it needed at least {needed}: {missing} of that is neither its own nor free."
            ),
            (Some(needed), Some(_)) => {
                format!("{so_far}; when it failed it needed at least {needed}, and the rest is free.")
            }
            _ => format!("{so_far}."),
        }
    }
}

/// A next try that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    pub key: ProcessKey,
    /// In the fewest words.
    pub name: String,
    /// What it held when it was seen last.
    pub holds: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Reading, Snapshot};
    use crate::knowledge::FixId;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::diagnosis::Diagnosis;

    const LINE: &str = "CUDA_VISIBLE_DEVICES=0 /opt/env/bin/python -u sets/train.py --batch 8";

    /// A holder of 12 GiB that was there before; what else is there on the first card and on the second.
    fn advice(command: Option<&str>, since: Vec<GpuProcess>, elsewhere: Vec<GpuProcess>) -> Advice {
        let mut rows = since;
        rows.push(process(4242, Bytes::gib(12)));
        let here = Snapshot { devices: vec![device(0, rows), device(1, elsewhere)], ..snapshot(90) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let fixes = [KnowledgeBase::built_in().unwrap().fix(FixId::END_HOLDER).unwrap().clone()];
        let mut diagnosis = torch_oom(&[(4242, Bytes::gib(12))]);
        (diagnosis.facts.process_bytes, diagnosis.facts.requested_bytes) = (Some(Bytes::gib(6)), Some(Bytes::gib(8)));
        advise(&Situation {
            snapshot: Some(&here),
            viewer: Some(&viewer),
            fixes: &fixes,
            crashed_by: Some(noon_plus(0)),
            command,
            ..Situation::alone(&diagnosis)
        })
    }

    fn started_since(line: &str, holds: Bytes) -> GpuProcess {
        let mut row = process(9120, holds);
        row.started_at = Reading::Known(noon_plus(60));
        row.command = Reading::Known(line.into());
        row
    }

    fn ends_somebody(advice: &Advice) -> bool {
        advice.plan.iter().any(|planned| planned.target.is_some())
    }

    #[test]
    fn a_run_that_is_on_its_way_again_is_no_other_program() {
        let late = |holds| started_since("python sets/train.py --batch 8", holds);
        let short = advice(Some(LINE), vec![late(Bytes::gib(1))], vec![]);
        assert!(short.verdict.sentence.contains("neither its own nor free"), "{}", short.verdict.sentence);
        assert!(ends_somebody(&short), "the holder is still in its way");
        assert!(short.verdict.notes.is_empty(), "{:?}", short.verdict.notes);
        let smaller = started_since("python sets/train.py --batch 4", Bytes::gib(1));
        let other = advice(Some(LINE), vec![smaller], vec![]).verdict.sentence;
        assert!(other.ends_with("with other options than before; those needed at least 14.0 GiB."), "{other}");
        let there = advice(Some(LINE), vec![late(Bytes::gib(15))], vec![]);
        assert!(there.verdict.sentence.contains("holds 15.0 GiB now, at least what"), "{}", there.verdict.sentence);
        let ledger = there.ledger.as_ref().unwrap();
        assert_eq!(ledger.missing_bytes, Some(Bytes::ZERO), "it has what it needed");
        assert!(!ends_somebody(&there) && there.plan.iter().all(|planned| planned.fix != FixId::RUN_AGAIN));
        let elsewhere = advice(Some(LINE), vec![], vec![late(Bytes::gib(9))]);
        assert!(elsewhere.verdict.sentence.contains("again on GPU 1"), "{}", elsewhere.verdict.sentence);
        assert!(!ends_somebody(&elsewhere), "nobody is in its way there");
        let full = vec![late(Bytes::gib(3)), process(5, Bytes::gib(20))];
        let short = advice(Some(LINE), vec![], full);
        assert!(short.verdict.sentence.contains("neither its own nor free"), "{}", short.verdict.sentence);
        assert!(!short.on_its_way && !elsewhere.plan.iter().any(|planned| planned.room_on.is_some()));
    }

    #[test]
    fn of_several_none_is_taken_for_the_next_try_and_ranks_are_one() {
        let of = |pid: u32, group: Option<u32>| {
            let mut row = started_since("python sets/train.py --lr 3", Bytes::gib(4));
            (row.pid, row.start_ticks) = (pid, Reading::Known(u64::from(pid)));
            row.group = group.map(|pid| ProcessKey { pid, start_ticks: 1 });
            row
        };
        let sweep = advice(Some(LINE), vec![of(9120, None), of(9121, None)], vec![]);
        assert!(!sweep.verdict.sentence.contains("on its way"), "{}", sweep.verdict.sentence);
        let said = sweep.verdict.notes.join(" ");
        assert!(said.contains("2 processes of what failed were started since and hold 8.0 GiB"), "{said}");
        let ranks = advice(Some(LINE), vec![of(9120, Some(9100))], vec![of(9121, Some(9100))]);
        assert!(ranks.verdict.sentence.contains("on its way again: "), "{}", ranks.verdict.sentence);
    }

    #[test]
    fn a_next_try_that_has_ended_is_remembered() {
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let failed = torch_oom(&[]);
        let at = |rows: Vec<GpuProcess>, before: Option<&Advice>| {
            let here = Snapshot { devices: vec![device(0, rows)], ..snapshot(90) };
            advise(&Situation {
                snapshot: Some(&here),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                command: Some(LINE),
                before,
                ..Situation::alone(&failed)
            })
        };
        let running = at(vec![started_since("python sets/train.py", Bytes::gib(13))], None);
        let ended = at(vec![], Some(&running));
        let said = &ended.verdict.sentence;
        assert!(said.starts_with("Your next try, as it seems, has ended:") && said.contains("held 13.0 GiB"), "{said}");
        let another = at(vec![started_since("python sets/train.py", Bytes::gib(2))], Some(&ended));
        assert!(another.verdict.sentence.contains("on its way again"), "{}", another.verdict.sentence);
    }

    #[test]
    fn another_program_another_users_or_one_that_was_there_before_is_no_next_try() {
        let next = |command, row| advice(command, vec![row], vec![]).verdict.sentence.contains("on its way");
        let mine = started_since("python train.py", Bytes::gib(2));
        assert!(next(Some(LINE), mine.clone()));
        assert!(!next(Some("python other.py"), mine.clone()));
        assert!(!next(Some("python"), mine.clone()), "a starter tells nothing");
        assert!(!next(None, mine.clone()));
        assert!(!next(Some(LINE), started_since("python eval.py --hook train.py", Bytes::gib(2))), "that is eval.py's");
        assert!(!next(Some(LINE), started_since("python /srv/other/train.py", Bytes::gib(2))), "another folder's");
        let mut comfy = started_since("python comfy/main.py --listen", Bytes::gib(2));
        assert!(next(Some("python main.py"), comfy.clone()));
        comfy.recognised_as = Some("ComfyUI".into());
        assert!(!next(Some("python main.py"), comfy), "many programs have a main.py");
        let theirs = GpuProcess { uid: Reading::Known(1001), ..mine.clone() };
        assert!(!next(Some(LINE), theirs));
        let before = GpuProcess { started_at: Reading::Known(noon_plus(-60)), ..mine };
        assert!(!next(Some(LINE), before));
    }

    #[test]
    fn a_server_whose_log_has_no_command_is_known_by_its_name() {
        let mut engine = started_since("VLLM::EngineCore", Bytes::gib(2));
        engine.group = Some(ProcessKey { pid: 8000, start_ticks: 1 });
        let mut failed = torch_oom(&[]);
        let next = |engine: &GpuProcess, failed: &Diagnosis| {
            let here = Snapshot { devices: vec![device(0, vec![engine.clone()])], ..snapshot(90) };
            let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
            let advice = advise(&Situation {
                snapshot: Some(&here),
                viewer: Some(&viewer),
                crashed_by: Some(noon_plus(0)),
                ..Situation::alone(failed)
            });
            advice.verdict.sentence.contains("on its way")
        };
        assert!(!next(&engine, &failed));
        engine.recognised_as = Some("vLLM engine m".into());
        assert!(!next(&engine, &failed), "PyTorch is nobody's name");
        failed.program = Some("vllm".into());
        assert!(next(&engine, &failed));
        engine.group = None;
        assert!(!next(&engine, &failed), "what works for nobody any more is no try");
    }

    #[test]
    fn a_server_is_known_by_its_program() {
        let mut runner = started_since("/usr/lib/ollama/runner --model blob", Bytes::gib(2));
        runner.server_command = Some("OLLAMA_HOST=0.0.0.0 /usr/bin/ollama serve".into());
        assert!(advice(Some("ollama run llama3.1:8b"), vec![runner], vec![]).verdict.sentence.contains("on its way"));
    }
}
