//! Owns the failed run's retry: a process that was started since and looks like the same run, and what its memory shows
//! of how far it has come.

use super::input::Situation;
use super::names::NAMES;
use super::naming::{file_name, name_of};
use crate::gpu::{Device, GpuProcess, ProcessKey};
use crate::knowledge::program::{Program, Trait};
use crate::units::Bytes;

/// The run, started again after it failed.
#[derive(Clone, Copy, Debug)]
pub struct Retry<'a> {
    pub device: &'a Device,
    pub row: &'a GpuProcess,
    /// What it uses of that device.
    pub uses: Bytes,
    /// Its options are not those that failed: what the failed run needed says nothing about it.
    pub has_other_options: bool,
}

/// A retry that was seen at some reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    pub key: ProcessKey,
    pub name: String,
    /// What it used when it was seen last.
    pub holds: Bytes,
}

/// What failed, as far as a process can be recognized by it.
enum Ran<'a> {
    /// A script, with the folders that were named.
    Script(&'a str),
    Program(&'a str),
    /// A server by the name that people have for it.
    Server(&'a str),
}

/// The viewer's processes that were started after the failure and run what failed; empty where the log is not known to
/// be from this machine.
pub(crate) fn candidates<'a>(situation: &Situation<'a>, is_this_machine: bool) -> Vec<Retry<'a>> {
    let (Some(snapshot), Some(ran), true) = (situation.snapshot, what_ran(situation), is_this_machine) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for device in &snapshot.devices {
        for row in device.processes.iter().filter(|row| is_retry(row, &ran, situation)) {
            if let Some(uses) = row.used_bytes.value() {
                found.push(Retry { device, row, uses, has_other_options: has_other_options(row, situation) });
            }
        }
    }
    found
}

/// The one retry among the candidates. `None` where several runs were started: any of them may be it. Ranks and workers
/// of one launcher are one run; the one on `device` shows most.
pub(crate) fn the_one<'a>(candidates: &[Retry<'a>], device: Option<&Device>) -> Option<Retry<'a>> {
    let first = candidates.first()?.run();
    if candidates.iter().any(|other| other.run() != first) {
        return None;
    }
    candidates.iter().copied().max_by_key(|retry| (device.is_some_and(|device| retry.is_on(device)), retry.uses))
}

/// Where several runs of what failed were started since: how many, and what they use together.
pub(crate) fn several(candidates: &[Retry<'_>]) -> Option<(usize, Bytes)> {
    let mut runs: Vec<Option<ProcessKey>> = candidates.iter().map(Retry::run).collect();
    runs.sort();
    runs.dedup();
    let together = candidates.iter().fold(Bytes::ZERO, |sum, retry| sum.plus(retry.uses));
    (runs.len() > 1).then_some((runs.len(), together))
}

/// Whether it is known what ran, so that another process can be told from a retry.
pub(crate) fn is_recognizable(situation: &Situation<'_>) -> bool {
    what_ran(situation).is_some()
}

fn is_retry(row: &GpuProcess, ran: &Ran<'_>, situation: &Situation<'_>) -> bool {
    let is_own = situation.viewer.is_some_and(|viewer| row.uid.value() == Some(viewer.uid));
    let program = situation.diagnosis.program.as_deref().unwrap_or_default();
    is_own && situation.was_there_before(row) == Some(false) && !row.has_lost_its_parent() && runs(row, ran, program)
}

fn has_other_options(row: &GpuProcess, situation: &Situation<'_>) -> bool {
    match (situation.command_line(), row.command.known()) {
        (Some(failed), Some(now)) => !options_of(failed).eq(options_of(now)),
        _ => false,
    }
}

fn options_of(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().skip_while(|word| !word.starts_with("--"))
}

fn what_ran<'a>(situation: &Situation<'a>) -> Option<Ran<'a>> {
    let line = situation.command_line().unwrap_or_default();
    let traced = situation.diagnosis.run.script.as_deref().filter(|path| !path.contains("-packages/"));
    if let Some(script) = script_of(line).or(traced) {
        return Some(Ran::Script(script));
    }
    let words = line.split_whitespace().filter(|word| !word.starts_with('-') && !word.contains('='));
    if let Some(program) = words.map(file_name).find(|word| !NAMES.starters.contains(word) && word.len() > 2) {
        return Some(Ran::Program(program));
    }
    // Of some servers a machine mostly runs one: their name is enough.
    let program = situation.diagnosis.program.as_deref()?;
    Program::known(program)?.has(Trait::RunsOnce).then_some(Ran::Server(program))
}

/// The script that a command line runs. Later words are the script's own.
fn script_of(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.ends_with(".py"))
}

/// Whether the process, or the server that it works for, runs that. `program` is the one that failed.
fn runs(row: &GpuProcess, ran: &Ran<'_>, program: &str) -> bool {
    let label = row.recognised_as.as_deref().unwrap_or_default().to_lowercase();
    let name = label.split(' ').next().unwrap_or_default();
    let mut lines = row.command.known().into_iter().chain(&row.server_command);
    match ran {
        Ran::Script(script) => {
            let is_unmistakable = !NAMES.common_scripts.contains(&file_name(script));
            let may_be_it = name == program || name.is_empty() || name.starts_with("python");
            (is_unmistakable || may_be_it)
                && lines.any(|line| script_of(line).is_some_and(|other| is_same_script(script, other)))
        }
        Ran::Program(wanted) => {
            lines.any(|line| line.split_whitespace().take(3).any(|word| file_name(word) == *wanted))
        }
        Ran::Server(server) => name == *server,
    }
}

/// Whether two paths, of which one may be relative, agree as far as both go.
fn is_same_script(one: &str, other: &str) -> bool {
    let mut pairs = parts_from_the_end(one).zip(parts_from_the_end(other)).peekable();
    pairs.peek().is_some() && pairs.all(|(one, other)| one == other || one == ".." || other == "..")
}

fn parts_from_the_end(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').rev().filter(|part| !matches!(*part, "" | "."))
}

impl Retry<'_> {
    /// Its launcher's processes together, or itself.
    fn run(&self) -> Option<ProcessKey> {
        self.row.group.or(self.row.key())
    }

    pub fn is_on(&self, device: &Device) -> bool {
        device.index == self.device.index
    }

    /// What it uses of this device: room that it has already.
    pub fn uses_of(&self, device: &Device) -> Bytes {
        if self.is_on(device) { self.uses } else { Bytes::ZERO }
    }

    pub fn is_process(&self, row: &GpuProcess) -> bool {
        self.row.key() == row.key()
    }

    /// What a later reading remembers of it.
    pub fn seen(&self) -> Option<Tried> {
        Some(Tried { key: self.row.key()?, name: name_of(self.row), holds: self.uses })
    }

    /// What of the need is neither its own nor free on its GPU; `None` where the need or the free memory is not known.
    pub fn short(&self, needed: Option<Bytes>) -> Option<Bytes> {
        let free = self.device.memory.free_bytes.value()?;
        Some(needed?.less(self.uses).less(free))
    }

    /// Whether nothing is known to be missing for it.
    pub fn has_room(&self, needed: Option<Bytes>) -> bool {
        self.short(needed).is_none_or(|short| short == Bytes::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, Remembered, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{Reading, Snapshot};
    use crate::knowledge::FixId;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::diagnosis::Diagnosis;

    const LINE: &str = "CUDA_VISIBLE_DEVICES=0 /opt/env/bin/python -u sets/train.py --batch 8";

    /// A process with 12 GiB that was there before; what else runs on GPU 0 and on GPU 1.
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
    fn a_run_that_was_started_again_is_not_another_process() {
        let late = |holds| started_since("python sets/train.py --batch 8", holds);
        let short = advice(Some(LINE), vec![late(Bytes::gib(1))], vec![]);
        assert!(short.verdict.sentence.contains("neither its own nor free"), "{}", short.verdict.sentence);
        assert!(ends_somebody(&short), "the holder is still in its way");
        assert!(short.verdict.notes.is_empty(), "{:?}", short.verdict.notes);
        let smaller = started_since("python sets/train.py --batch 4", Bytes::gib(1));
        let other = advice(Some(LINE), vec![smaller], vec![]).verdict.sentence;
        assert!(other.ends_with("with other options than before; those needed ≥ 14.0 GiB."), "{other}");
        let there = advice(Some(LINE), vec![late(Bytes::gib(15))], vec![]);
        assert!(there.verdict.sentence.contains("uses 15.0 GiB, at least what"), "{}", there.verdict.sentence);
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
    fn of_several_runs_none_is_taken_for_the_retry_and_ranks_are_one_run() {
        let of = |pid: u32, group: Option<u32>| {
            let mut row = started_since("python sets/train.py --lr 3", Bytes::gib(4));
            (row.pid, row.start_ticks) = (pid, Reading::Known(u64::from(pid)));
            row.group = group.map(|pid| ProcessKey { pid, start_ticks: 1 });
            row
        };
        let sweep = advice(Some(LINE), vec![of(9120, None), of(9121, None)], vec![]);
        assert!(!sweep.verdict.sentence.contains("running again"), "{}", sweep.verdict.sentence);
        let said = sweep.verdict.notes.join(" ");
        assert!(said.contains("2 processes of what failed were started since and use 8.0 GiB"), "{said}");
        let ranks = advice(Some(LINE), vec![of(9120, Some(9100))], vec![of(9121, Some(9100))]);
        assert!(ranks.verdict.sentence.contains("running again: "), "{}", ranks.verdict.sentence);
    }

    #[test]
    fn a_retry_that_has_exited_is_remembered() {
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let failed = torch_oom(&[]);
        let at = |rows: Vec<GpuProcess>, before: Option<&Remembered>| {
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
        let ended = at(vec![], Some(&running.remembered));
        let said = &ended.verdict.sentence;
        assert!(said.starts_with("The next try seems to have exited:") && said.contains("used 13.0 GiB"), "{said}");
        let another = at(vec![started_since("python sets/train.py", Bytes::gib(2))], Some(&ended.remembered));
        assert!(another.verdict.sentence.contains("running again"), "{}", another.verdict.sentence);
    }

    #[test]
    fn another_program_another_users_or_an_earlier_process_is_no_retry() {
        let next = |command, row| advice(command, vec![row], vec![]).verdict.sentence.contains("running again");
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
            advice.verdict.sentence.contains("running again")
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
        assert!(
            advice(Some("ollama run llama3.1:8b"), vec![runner], vec![]).verdict.sentence.contains("running again")
        );
    }
}
