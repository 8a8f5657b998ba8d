//! Owns the process that records a command: it writes the record, and when the command failed because memory ran out, says
//! so in one block.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::diagnose::{DiagnoseArgs, Examined, Subject, examine};
use super::kb::base;
use super::output::print;
use super::settings::Global;
use crate::advice::Advice;
use crate::app::last::Story;
use crate::gpu::failed_run::FailedRun;
use crate::log::PastedLog;
use crate::platform::{here, regular};
use crate::record::{Note, Said, SaidFix, words};
use crate::report;
use crate::report::block::{self, Block};
use crate::report::markdown::{Paper, markdown};
use crate::runtime::recorder::{Recorded, Setup, record};
use crate::runtime::snapshots::noted;
use crate::runtime::{last, runs};
use crate::units::WallTime;

#[derive(Debug, Args)]
pub struct RecordArgs {
    #[arg(long)]
    report: Option<PathBuf>,
    #[arg(long)]
    record: Option<PathBuf>,
    /// The file in which memory snapshots are noted.
    #[arg(long)]
    snapshots: Option<PathBuf>,
    #[arg(long)]
    verbose: bool,
    /// Somebody reads what is printed.
    #[arg(long)]
    speak: bool,
}

pub(super) fn run(global: &Global, args: &RecordArgs) -> ExitCode {
    let state = (global.keep_log && !global.read_only).then(here::state_folder).flatten();
    let setup = Setup { sampling: global.sampling.clone(), state: state.clone(), path: args.record.clone() };
    let Some(recorded) = record(io::stdin(), &setup) else { return ExitCode::FAILURE };
    let is_worth_a_word = !recorded.end.is_success() || (args.verbose && !recorded.recording.marks.is_empty());
    if !is_worth_a_word {
        return ExitCode::SUCCESS;
    }
    if recorded.end.is_success() {
        return print(&recovered(&recorded), ExitCode::SUCCESS);
    }
    failed(global, args, state.as_deref(), recorded)
}

/// Memory ran out, and the command succeeded all the same.
fn recovered(recorded: &Recorded) -> String {
    let count = recorded.recording.marks.len();
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    format!("oomdoctor: the output speaks of memory that ran out {times}; the command went on and succeeded\n")
}

/// Diagnoses the output of a command that failed. Nothing is said where it failed for another reason.
fn failed(global: &Global, args: &RecordArgs, state: Option<&Path>, recorded: Recorded) -> ExitCode {
    let Ok(base) = base(global) else { return ExitCode::FAILURE };
    let log = log_of(&recorded);
    let command = shlex::try_join(recorded.begin.run.argv.iter().map(String::as_str)).ok();
    let story = Story {
        origin: "oomdoctor run".into(),
        command: command.clone(),
        crashed_by: Some(WallTime(jiff::Timestamp::now())),
        record: recorded.path.clone(),
        ..Story::default()
    };
    let asked = DiagnoseArgs { command, ..DiagnoseArgs::default() };
    let subject = Subject { ran: ran_on(&recorded), ..Subject::of(log, story.crashed_by, story.origin.clone()) };
    let examined = examine(global, &asked, base, &subject);
    if !examined.is_out_of_memory() {
        return ExitCode::FAILURE;
    }
    let mut opens_with = "run oomdoctor and paste the error".to_owned();
    if let Some(state) = state
        && last::write(state, &story, subject.log.raw()).is_ok()
    {
        opens_with = "oomdoctor --last".to_owned();
    }
    let snapshots = args.snapshots.as_deref().map(noted).unwrap_or_default();
    if let Some(path) = &recorded.path {
        let _ = runs::keep_output(path, subject.log.raw().as_bytes());
        let _ = runs::add(path, Note::Said(said(&examined, &snapshots)));
    }
    if let Some(path) = &args.report {
        write_report(path, &examined, &subject, &recorded);
    }
    if !args.speak {
        return ExitCode::SUCCESS;
    }
    let block = Block {
        advice: &examined.advice,
        recording: &recorded.recording,
        log: subject.log.raw(),
        unicode: !global.ascii && here::shows_unicode(),
        snapshots: &snapshots,
        opens_with: &opens_with,
    };
    print(&block::text(&block), ExitCode::SUCCESS)
}

/// The output, and what the kernel counted: a process that it killed prints nothing.
fn log_of(recorded: &Recorded) -> PastedLog {
    let mut log = recorded.log.clone();
    if let Some(line) = words::kill(&recorded.recording, recorded.end) {
        log.extend_from_slice(format!("\n{line}\n").as_bytes());
    }
    PastedLog::from_bytes(log)
}

/// The GPUs that the command and those it started had memory on.
fn ran_on(recorded: &Recorded) -> Option<FailedRun> {
    let reading = recorded.recording.at(recorded.recording.failed_at()?)?;
    let (_, run) = reading.once_exited(recorded.begin.run.pid)?;
    Some(run)
}

/// What was said, to be compared with what the next run uses.
fn said(examined: &Examined, snapshots: &[String]) -> Said {
    let advice: &Advice = &examined.advice;
    let ledger = advice.ledger.as_ref();
    let fixes = advice.plan.iter().map(|planned| SaidFix {
        fix: planned.fix.as_str().to_owned(),
        enough: planned.enough.as_ref().to_owned(),
        frees: planned.frees_bytes,
    });
    Said {
        entry: examined.entry(),
        gpu: ledger.and_then(|ledger| ledger.device),
        needs: ledger.and_then(|ledger| ledger.needed_bytes),
        at_least: ledger.is_some_and(|ledger| ledger.needed_is_at_least),
        free: ledger.and_then(|ledger| ledger.available_bytes),
        fixes: fixes.collect(),
        snapshots: snapshots.to_vec(),
    }
}

fn write_report(path: &Path, examined: &Examined, subject: &Subject, recorded: &Recorded) {
    let names = super::report::names();
    let recorded = report::recorded::lines(&recorded.recording, subject.log.raw(), None);
    let paper = Paper {
        recorded: &recorded,
        report: examined.report(),
        log: &subject.log,
        origin: &subject.origin,
        at: WallTime(jiff::Timestamp::now()),
        walked: &subject.story.as_ref().map(Story::walked).unwrap_or_default(),
        names: Some(&names),
    };
    let text = markdown(&paper);
    if let Err(error) = regular::replace(path, |file| file.write_all(text.as_bytes())) {
        log::info!("{} can't be written: {error}", path.display());
    }
}
