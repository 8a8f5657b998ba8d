//! Owns the failed run's next try: a process that was started since and looks like the same run, and what its memory
//! says of how far it has come.

use crate::advice::{Ledger, Place, Situation, name_of};
use crate::gpu::{Device, GpuProcess};
use crate::units::Bytes;

/// The run, started again after it failed.
#[derive(Clone, Copy, Debug)]
pub struct NextTry<'a> {
    device: &'a Device,
    row: &'a GpuProcess,
    holds: Bytes,
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

/// Programs of which a machine mostly runs one: where the log has no command line, their name tells.
const SERVERS: &[&str] = &["vllm", "sglang", "comfyui", "stable-diffusion-webui", "invokeai"];

/// The largest process of the viewer's own that was started after the failure and runs what failed, on the card that it
/// failed on if there is one.
pub fn next_try<'a>(situation: &Situation<'a>, place: &Place<'_>) -> Option<NextTry<'a>> {
    let viewer = situation.viewer.filter(|_| place.same_machine == Some(true))?;
    let what = what_ran(situation);
    let program = situation.diagnosis.program.as_deref().filter(|program| SERVERS.contains(program));
    let looks_like_it = |row: &GpuProcess| match &what {
        Some(what) => runs(row, what),
        None => program.is_some_and(|program| is_of(row, program)),
    };
    let is_it = |row: &GpuProcess| {
        let since = situation.was_there_before(row) == Some(false) && row.uid.value() == Some(viewer.uid);
        since && !row.has_lost_its_parent() && looks_like_it(row)
    };
    let devices = situation.snapshot?.devices.iter();
    let tries = devices.flat_map(|device| {
        let rows = device.processes.iter().filter(|row| is_it(row));
        rows.filter_map(move |row| Some(NextTry { device, row, holds: row.used_bytes.value()? }))
    });
    tries.max_by_key(|one| (place.device.is_some_and(|device| device.index == one.device.index), one.holds))
}

/// The file that ran: a script, or a program that is no starter of others.
fn what_ran(situation: &Situation<'_>) -> Option<String> {
    let line = situation.command_line().unwrap_or_default();
    let words = || line.split_whitespace().filter(|word| !word.starts_with('-') && !word.contains('='));
    let script = words().find(|word| word.ends_with(".py")).map(file_name);
    let program = || words().map(file_name).find(|word| !STARTERS.contains(word));
    let named = script.or(situation.diagnosis.run.script.as_deref()).or_else(program);
    named.filter(|name| name.len() > 2).map(str::to_owned)
}

/// Whether it is known as that program.
fn is_of(row: &GpuProcess, program: &str) -> bool {
    let name = row.recognised_as.as_deref().unwrap_or_default().to_lowercase();
    name.split(' ').next() == Some(program)
}

/// Whether that file is in the process's command line, or its server's.
fn runs(row: &GpuProcess, what: &str) -> bool {
    let lines = row.command.known().into_iter().chain(&row.server_command);
    lines.flat_map(|line| line.split_whitespace()).any(|word| file_name(word) == what)
}

fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

impl NextTry<'_> {
    /// What it holds of this device: room that it has already.
    pub fn holds_on(&self, device: &Device) -> Bytes {
        if device.index == self.device.index { self.holds } else { Bytes::ZERO }
    }

    /// Whose it is.
    pub fn is(&self, row: &GpuProcess) -> bool {
        self.row.key() == row.key()
    }

    fn is_elsewhere(&self, place: &Place<'_>) -> bool {
        place.device.is_some_and(|device| device.index != self.device.index)
    }

    /// Whether nothing is known to be in its way.
    pub fn has_room(&self, place: &Place<'_>, ledger: Option<&Ledger>) -> bool {
        let missing = ledger.and_then(|ledger| ledger.missing_bytes);
        self.is_elsewhere(place) || missing.is_none_or(|missing| missing == Bytes::ZERO)
    }

    /// In a sentence.
    pub fn said(&self, place: &Place<'_>, ledger: Option<&Ledger>) -> String {
        let elsewhere = self.is_elsewhere(place);
        let place = if elsewhere { format!(" on GPU {}", self.device.index) } else { String::new() };
        let so_far =
            format!("Your run seems to be on its way again{place}: {} holds {} now", name_of(self.row), self.holds);
        let needed = ledger.and_then(|ledger| ledger.needed_bytes);
        let missing = ledger.and_then(|ledger| ledger.missing_bytes).filter(|missing| *missing > Bytes::ZERO);
        match (needed, missing) {
            (Some(needed), _) if self.holds >= needed => {
                format!("{so_far}, as much as it needed when it failed ({needed}).")
            }
            (Some(needed), Some(missing)) if !elsewhere => format!(
                "{so_far}. When it failed it needed at least {needed}: {missing} of that is neither its own nor free."
            ),
            (Some(needed), _) => format!("{so_far}; when it failed it needed at least {needed}, and the rest is free."),
            (None, _) => format!("{so_far}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::testing::torch_oom;
    use crate::advice::{Advice, advise};
    use crate::gpu::guard::Viewer;
    use crate::gpu::testing::{device, noon_plus, process, snapshot};
    use crate::gpu::{ProcessKey, Reading, Snapshot};
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::diagnosis::Diagnosis;

    const LINE: &str = "CUDA_VISIBLE_DEVICES=0 /opt/env/bin/python -u sets/train.py --batch 8";

    /// A holder of 12 GiB that was there before; what else is there on the first card and on the second.
    fn advice(command: Option<&str>, since: Vec<GpuProcess>, elsewhere: Vec<GpuProcess>) -> Advice {
        let mut rows = since;
        rows.push(process(4242, Bytes::gib(12)));
        let here = Snapshot { devices: vec![device(0, rows), device(1, elsewhere)], ..snapshot(90) };
        let viewer = Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() };
        let fixes = [KnowledgeBase::built_in().unwrap().fix("end-holder").unwrap().clone()];
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
        let late = |holds| started_since("python sets/train.py --batch 4", holds);
        let short = advice(Some(LINE), vec![late(Bytes::gib(1))], vec![]);
        assert!(short.verdict.sentence.contains("neither its own nor free"), "{}", short.verdict.sentence);
        assert!(ends_somebody(&short), "the holder is still in its way");
        assert!(short.verdict.notes.is_empty(), "{:?}", short.verdict.notes);
        let there = advice(Some(LINE), vec![late(Bytes::gib(15))], vec![]);
        assert!(there.verdict.sentence.contains("holds 15.0 GiB now, as much as"), "{}", there.verdict.sentence);
        let ledger = there.ledger.as_ref().unwrap();
        assert_eq!(ledger.missing_bytes, Some(Bytes::ZERO), "it has what it needed");
        assert!(
            !ends_somebody(&there) && there.plan.iter().all(|planned| planned.fix != crate::advice::plan::RUN_AGAIN)
        );
        let elsewhere = advice(Some(LINE), vec![], vec![late(Bytes::gib(9))]);
        assert!(elsewhere.verdict.sentence.contains("again on GPU 1"), "{}", elsewhere.verdict.sentence);
        assert!(!ends_somebody(&elsewhere), "nobody is in its way there");
    }

    #[test]
    fn another_program_another_users_or_one_that_was_there_before_is_no_next_try() {
        let next = |command, row| advice(command, vec![row], vec![]).verdict.sentence.contains("on its way");
        let mine = started_since("python train.py", Bytes::gib(2));
        assert!(next(Some(LINE), mine.clone()));
        assert!(!next(Some("python other.py"), mine.clone()));
        assert!(!next(Some("python"), mine.clone()), "a starter tells nothing");
        assert!(!next(None, mine.clone()));
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
