//! Owns `oomdoctor diagnose`: reads a log, holds it against this machine, prints text or JSON, answers by exit code.

use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr, stdin};
use std::path::Path;
use std::process::ExitCode;

use super::kb::base;
use super::output::{compact, print, refuse};
use super::settings::Global;
use crate::advice::{Advice, Situation, advise};
use crate::gpu::Snapshot;
use crate::gpu::failed_run::FailedRun;
use crate::knowledge::KnowledgeBase;
use crate::knowledge::diagnosis::{Diagnosis, Oom};
use crate::log::{PastedLog, what_else};
use crate::memory::table;
use crate::platform::processes::Processes;
use crate::platform::{Machine, ThisMachine, here};
use crate::report::{self, Report};
use crate::runtime::files::read_all;
use crate::runtime::reader::{Awaited, Telling, named_pipe, open};
use crate::text::harmless;
use crate::units::WallTime;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// The log; `-` or nothing for standard input.
    pub file: Option<&'a Path>,
    /// How much is printed.
    pub format: Format,
    /// Whether to say which rules decided.
    pub explains: bool,
    /// Whether to look at this machine.
    pub live: bool,
    /// The model, where the person says it.
    pub model: Option<&'a str>,
    /// The command line that failed, where the person said it.
    pub command: Option<&'a str>,
    /// The process that failed, where it is still alive.
    pub run_pid: Option<u32>,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    /// The verdict and the first steps.
    Brief,
    Json,
}

impl<'a> Asked<'a> {
    /// A log in text, held against this machine.
    pub(super) fn text(file: Option<&'a Path>) -> Asked<'a> {
        Asked { file, format: Format::Text, explains: false, live: true, model: None, command: None, run_pid: None }
    }
}

/// Runs it; 0 for yes and maybe, 1 for no, 2 where the log can't be read.
pub(super) fn run(global: &Global, asked: &Asked<'_>) -> ExitCode {
    match diagnose(global, asked) {
        Ok(code) => code,
        Err(message) => refuse(&message),
    }
}

fn diagnose(global: &Global, asked: &Asked<'_>) -> Result<ExitCode, String> {
    let base = asked.base(global)?;
    let (log, written) = asked.read(&base)?;
    let examined = examine(global, asked, &base, &log, written);
    let report = examined.report();
    let text = match asked.format {
        Format::Json => compact(&report::json::Output::of(&report))?,
        Format::Text => report::text(&report),
        Format::Brief => report::brief(&report),
    };
    Ok(print(&text, examined.exit_code()))
}

impl Asked<'_> {
    /// The knowledge to read with. Fails where the model's name is not known: it would silently say nothing.
    pub(super) fn base(&self, global: &Global) -> Result<KnowledgeBase, String> {
        if let Some(name) = self.model.filter(|name| table::rows().is_ok_and(|rows| table::find(rows, name).is_none()))
        {
            let near = table::suggestion(table::rows()?, name);
            return Err(format!("--model {}: not in the table of models{near}", harmless(name)));
        }
        base(global)
    }

    /// The log, and when its file was last written. Fails where there is no text.
    pub(super) fn read(&self, base: &KnowledgeBase) -> Result<(PastedLog, Option<WallTime>), String> {
        let telling = Telling::default();
        telling.learn(base);
        let (bytes, written) = read(self.file, &telling)?;
        let what = what_else(&bytes);
        let log = PastedLog::from_bytes(bytes);
        if log.is_binary() {
            let what = what.unwrap_or("binary data");
            return Err(format!("this is no log but {what}. Give the text that your program printed"));
        }
        if log.is_empty() {
            return Err(
                "the log is empty; paste what your program printed, or run it with `2>&1 | oomdoctor diagnose`".into(),
            );
        }
        Ok((log, written))
    }
}

/// What a log says, joined with this machine.
pub(super) struct Examined {
    diagnosis: Diagnosis,
    advice: Advice,
    snapshot: Option<Snapshot>,
    no_reading: Option<String>,
    why: Option<String>,
    explains: bool,
}

impl Examined {
    pub(super) fn report(&self) -> Report<'_> {
        Report {
            diagnosis: &self.diagnosis,
            advice: &self.advice,
            snapshot: self.snapshot.as_ref(),
            no_reading: self.no_reading.as_deref(),
            why: self.why.as_deref(),
            explains: self.explains,
        }
    }

    /// 0 for yes and maybe, 1 for no.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.diagnosis.oom == Oom::No { ExitCode::from(1) } else { ExitCode::SUCCESS }
    }
}

/// Reads the log and looks at this machine.
pub(super) fn examine(
    global: &Global,
    asked: &Asked<'_>,
    base: &KnowledgeBase,
    log: &PastedLog,
    written: Option<WallTime>,
) -> Examined {
    let mut diagnosis = base.diagnose(log, Some(&jiff::Zoned::now()));
    let (snapshot, no_reading) = if asked.live { this_machine(global) } else { (None, None) };
    let (snapshot, run, no_reading) = match (snapshot, asked.run_pid) {
        (Some(here), Some(pid)) => once_exited(&here, pid),
        (snapshot, _) => (snapshot, None, no_reading),
    };
    // The failed process started this one, which has inherited what it was allowed to see.
    if asked.run_pid.is_some() && diagnosis.run.visible_devices.is_none() {
        diagnosis.run.visible_devices = std::env::var("CUDA_VISIBLE_DEVICES").ok().filter(|list| !list.is_empty());
    }
    let fixes = base.leading_fixes(&diagnosis);
    let entry = diagnosis.matches.first().and_then(|found| base.entry(found.entry));
    let viewer = global.kernel().viewer();
    let zone = jiff::tz::TimeZone::system();
    let advice = advise(&Situation {
        fixes: &fixes,
        snapshot: snapshot.as_ref(),
        viewer: Some(&viewer),
        zone: Some(&zone),
        crashed_by: Some(written.unwrap_or(WallTime(jiff::Timestamp::now()))),
        model: asked.model,
        command: asked.command.or(run.as_ref().and_then(|run| run.launched_by.as_deref())),
        ran_on: run.as_ref().map(|run| run.devices.as_slice()).unwrap_or_default(),
        ..Situation::alone(&diagnosis)
    });
    let why = entry.map(|entry| entry.why.clone());
    Examined { diagnosis, advice, snapshot, no_reading, why, explains: asked.explains }
}

/// The machine as the failed run leaves it, and what that run is; or why the machine is left out.
fn once_exited(here: &Snapshot, pid: u32) -> (Option<Snapshot>, Option<FailedRun>, Option<String>) {
    match here.once_exited(pid) {
        Some((after, run)) => (Some(after), Some(run), None),
        None => {
            let why = format!("process {pid} can't be told from other processes in a container; only the log is used");
            (None, None, Some(why))
        }
    }
}

/// This machine now, or why it can't be read.
fn this_machine(global: &Global) -> (Option<Snapshot>, Option<String>) {
    match ThisMachine::read_once(&global.sampling()) {
        Ok(snapshot) => (Some(snapshot.harmless()), None),
        Err(why) => (None, Some(why)),
    }
}

fn read(file: Option<&Path>, telling: &Telling) -> Result<(Vec<u8>, Option<WallTime>), String> {
    match file {
        Some(path) if path != Path::new("-") => {
            let shown = harmless(&path.display().to_string()).into_owned();
            bytes_of(path, telling).map_err(|error| format!("cannot read {shown}: {error}"))
        }
        _ if stdin().is_terminal() => {
            Err("give a log file, or pipe one in: `your-program 2>&1 | oomdoctor diagnose`".into())
        }
        _ => here::standard_input()
            .and_then(|pipe| all_of(pipe, telling))
            .map_err(|error| format!("cannot read the pipe: {error}")),
    }
}

/// A log's file or named pipe, and when the file was last written.
pub(super) fn bytes_of(path: &Path, telling: &Telling) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    match named_pipe(path)? {
        Some(pipe) => all_of(pipe, telling),
        None => open(path, telling),
    }
}

/// What comes through a pipe until its writer ends, which may take long: then that is said.
fn all_of(pipe: File, telling: &Telling) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    let awaited = Awaited::new(pipe, stderr().is_terminal(), || {
        let _ = writeln!(stderr(), "{WAITING}");
    });
    read_all(awaited, |block| telling.may_matter(block)).map(|bytes| (bytes, None))
}

/// Said to whoever sits there; a script that keeps our standard error is not to find it there.
const WAITING: &str = "oomdoctor: reading until the program ends that prints the log; Ctrl-C leaves";
