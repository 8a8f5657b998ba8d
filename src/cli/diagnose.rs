//! Owns `oomdoctor diagnose`, which reads a log, compares it with this machine and prints text or JSON.

use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::hosts::HostArgs;
use super::kb::base;
use super::output::{compact, print, refuse, warn};
use super::settings::Global;
use super::suggest::nearest;
use super::watched::Watched;
use crate::advice::causes::is_beyond_any_gpu;
use crate::advice::changed::{self, Difference};
use crate::advice::other_machine::{self, OtherMachine};
use crate::advice::{Advice, Situation, advise};
use crate::allocations::figures::lead_with_the_first_failure;
use crate::allocations::message::as_log;
use crate::allocations::told::Filled;
use crate::app::last::Story;
use crate::app::walk::StepId;
use crate::gpu::Snapshot;
use crate::gpu::failed_run::FailedRun;
use crate::hosts::{HostName, HostReading};
use crate::knowledge::allocations::{add as add_snapshots, is_of};
use crate::knowledge::diagnosis::{Diagnosis, Oom};
use crate::knowledge::run::Run;
use crate::knowledge::{FixId, KnowledgeBase};
use crate::log::rotated::in_order;
use crate::log::{PastedLog, what_else};
use crate::memory::table;
use crate::platform::{here, machine};
use crate::report::markdown::Walked;
use crate::report::plain::Extent;
use crate::report::{self, Report};
use crate::runtime::files::read_all;
use crate::runtime::reader::{Awaited, Telling, named_pipe, open};
use crate::runtime::{allocations, hosts, last, rotated, sources};
use crate::source::SourceId;
use crate::source::region::log_of;
use crate::text::harmless;
use crate::units::WallTime;

#[derive(Debug, Default, Args)]
pub struct DiagnoseArgs {
    /// Read this log or memory snapshot; `-` or no file reads standard input.
    pub(super) file: Option<PathBuf>,
    /// More of the same run: earlier parts of a rotated log, in any order, or memory snapshots of its ranks.
    #[arg(value_name = "MORE")]
    pub(super) more: Vec<PathBuf>,
    /// Also read this memory snapshot of PyTorch (a pickle); repeatable.
    #[arg(long, value_name = "FILE")]
    pub(super) snapshot: Vec<PathBuf>,
    /// Read the log of this place, by its id in `oomdoctor sources`: tmux:%3, docker:NAME, slurm:JOB.
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "last"])]
    pub(super) from: Option<SourceId>,
    /// Diagnose the last log of the terminal program, with the steps that were taken.
    #[arg(long, conflicts_with_all = ["file", "more"])]
    pub(super) last: bool,
    /// Print JSON (schema 1).
    #[arg(long)]
    pub(super) json: bool,
    /// Print every fix, with what to expect of it, and the model's sums.
    #[arg(long, conflicts_with = "json")]
    pub(super) all: bool,
    /// Leave out the log's decisive line, for hooks that print below the traceback.
    #[arg(long, conflicts_with_all = ["json", "all", "why"])]
    pub(super) brief: bool,
    /// Also print the reasons: sums, evidence, and the rules that placed each fix or left it out.
    #[arg(long)]
    pub(super) why: bool,
    /// Do not read this machine, only the log.
    #[arg(long)]
    pub(super) no_live: bool,
    /// Set the model, if the log does not name it: llama-3.1-8b, llama3.1:8b.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Set the command that failed; the steps print it with their changes.
    #[arg(long, value_name = "LINE")]
    pub(super) command: Option<String>,
    /// Leave out a fix that did not help, and weaker ones, by its id in the JSON; repeatable.
    #[arg(long, value_name = "FIX")]
    pub(super) tried: Vec<String>,
    /// Compare with the log of a run that worked.
    #[arg(long, value_name = "LOG")]
    pub(super) good: Option<PathBuf>,
    /// Count the VRAM of the failed process as free while it is still running (for hooks).
    #[arg(long, value_name = "PID", conflicts_with = "no_live")]
    pub(super) run_pid: Option<u32>,
    #[command(flatten)]
    pub(super) hosts: HostArgs,
}

/// Exits with 0 if memory ran out or may have, with 1 if not, and with 2 if the log can't be read.
pub(super) fn run(global: &Global, asked: &DiagnoseArgs) -> ExitCode {
    here::keep_blocks();
    diagnose(global, asked).unwrap_or_else(|message| refuse(&message))
}

fn diagnose(global: &Global, asked: &DiagnoseArgs) -> Result<ExitCode, String> {
    let base = asked.base(global)?;
    let subject = asked.subject(global, base)?;
    let others = asked.hosts.asked(global)?;
    let readings = if others.is_nothing() { Vec::new() } else { hosts::read(&others, &global.sampling) };
    for reading in &readings {
        if let Err(why) = &reading.seen {
            warn(&format!("{}: {why}", reading.name));
        }
    }
    let mut examined = examine_among(global, asked, base, &subject, &readings);
    if let Some(good) = &asked.good {
        examined.since = Some(changed::since(&run_that_worked(base, good)?, &examined.diagnosis.run));
    }
    let report = examined.report();
    let extent = Extent { all: asked.all, why: asked.why, is_below_the_log: asked.brief };
    let text =
        if asked.json { compact(&report::json::Output::of(&report))? } else { report::plain::text(&report, extent) };
    Ok(print(&text, examined.exit_code()))
}

/// A log to diagnose, with what is known beside its text.
pub(super) struct Subject {
    pub(super) log: PastedLog,
    /// The latest moment at which the job can have failed, if it is known.
    pub(super) failed_by: Option<WallTime>,
    /// The run itself, where it was recorded: which GPUs it had memory on.
    pub(super) ran: Option<FailedRun>,
    /// Where the log came from; empty if that is unknown.
    pub(super) origin: String,
    /// What the terminal program kept with its last log.
    pub(super) story: Option<Story>,
    /// What the memory snapshots of the run tell, a device each.
    pub(super) filled: Vec<Filled>,
    /// Whether those snapshots were found beside the log, and may be of another failure.
    pub(super) is_beside: bool,
    /// A note about snapshots that lie beside the log and were not read.
    pub(super) note: Option<String>,
    /// A note that says which part of a rotated log this is, where another one was asked for.
    pub(super) part: Option<String>,
}

impl Subject {
    pub(super) fn of(log: PastedLog, failed_by: Option<WallTime>, origin: String) -> Subject {
        Subject {
            log,
            failed_by,
            ran: None,
            origin,
            story: None,
            filled: Vec::new(),
            is_beside: false,
            note: None,
            part: None,
        }
    }
}

impl Subject {
    /// The failure that the snapshots of a run recorded. The log is the error as PyTorch prints it.
    fn of_snapshots(mut filled: Vec<Filled>, path: &Path) -> Subject {
        lead_with_the_first_failure(&mut filled);
        let log = filled.first().and_then(as_log).unwrap_or_default();
        let origin = filled.first().map(|leading| leading.file.clone()).unwrap_or_default();
        let written = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let written = written.and_then(|time| jiff::Timestamp::try_from(time).ok()).map(WallTime);
        Subject { filled, ..Subject::of(PastedLog::new(log), written, origin) }
    }

    /// Adds the snapshots that lie beside the log. Those that cannot be read are left out: nobody asked for them.
    fn with_what_lies_beside(self, log: &Path) -> Subject {
        let beside = allocations::beside(log);
        let filled = beside.small.iter().filter_map(|path| allocations::filled(path).ok()).flatten().collect();
        let note = beside.large.first().map(|path| {
            let shown = harmless(&path.display().to_string()).into_owned();
            format!("A memory snapshot lies beside the log: add --snapshot {shown}")
        });
        Subject { filled, note, is_beside: true, ..self }
    }
}

/// What these snapshots tell. Fails if one of them cannot be read or is none.
fn snapshots(paths: &[&PathBuf]) -> Result<Vec<Filled>, String> {
    let mut all = Vec::new();
    for path in paths {
        let filled = allocations::filled(path);
        all.extend(filled.map_err(|why| format!("{}: {why}", harmless(&path.display().to_string())))?);
    }
    Ok(all)
}

impl DiagnoseArgs {
    /// Loads the knowledge base. Fails if the model's name is unknown: the name would have no effect, and no message would
    /// say so.
    pub(super) fn base(&self, global: &Global) -> Result<&'static KnowledgeBase, String> {
        if let Some(name) =
            self.model.as_deref().filter(|name| table::rows().is_ok_and(|rows| table::find(rows, name).is_none()))
        {
            let near = table::suggestion(table::rows()?, name);
            return Err(format!("--model {}: not in the table of models{near}", harmless(name)));
        }
        let base = base(global)?;
        match self.tried.iter().find(|id| !is_fix(base, id)) {
            Some(id) => Err(unknown_fix(base, id)),
            None => Ok(base),
        }
    }

    /// The log that was asked for, with the snapshots of its run.
    pub(super) fn subject(&self, global: &Global, base: &KnowledgeBase) -> Result<Subject, String> {
        let is_piped = self.file.as_deref() == Some(Path::new("-"));
        if is_piped && !self.logs().is_empty() {
            return Err("name the parts of the log, or `-` for standard input, not both".into());
        }
        let alone = self.file.iter().find(|path| allocations::is_snapshot(path).unwrap_or(false));
        let more = self.more.iter().filter(|path| alone.is_some() || !self.logs().contains(path));
        let asked: Vec<&PathBuf> = alone.into_iter().chain(more).chain(&self.snapshot).collect();
        let filled = snapshots(&asked)?;
        if let Some(path) = alone {
            return Ok(Subject::of_snapshots(filled, path));
        }
        let subject = self.log(global, base)?;
        if !filled.is_empty() {
            return Ok(Subject { filled, ..subject });
        }
        let file = self.file.as_deref().filter(|file| *file != Path::new("-"));
        Ok(match file {
            Some(log) => subject.with_what_lies_beside(log),
            None => subject,
        })
    }

    fn log(&self, global: &Global, base: &KnowledgeBase) -> Result<Subject, String> {
        if self.last {
            let (story, text) = last::read(here::state_folder().as_deref(), global.keep_log)?;
            let (failed_by, origin) = (story.crashed_by, story.origin.clone());
            return Ok(Subject { story: Some(story), ..Subject::of(PastedLog::new(text), failed_by, origin) });
        }
        let telling = Telling::default();
        telling.learn(base);
        let (log, failed_by) = self.read(base, &telling)?;
        if let Some(id) = &self.from {
            return Ok(Subject::of(log, failed_by, id.to_string()));
        }
        let [file] = self.logs()[..] else {
            return Ok(Subject::of(log, failed_by, self.file.as_deref().map(name_of).unwrap_or_default()));
        };
        let parts = rotated::earlier(file);
        if !parts.is_empty()
            && base.diagnose(&log, None).oom == Oom::No
            && let Some(part) = rotated::with_the_failure(parts, base, |part| open(part, &telling))
        {
            let read = name_of(&part.path);
            let note = format!("{} shows no failure. This is {read}, an earlier part of it.", name_of(file));
            return Ok(Subject { part: Some(note), ..Subject::of(part.log, part.written, read) });
        }
        Ok(Subject::of(log, failed_by, name_of(file)))
    }

    /// The files that are logs: the one that was named first, and with it those that are no memory snapshots.
    fn logs(&self) -> Vec<&PathBuf> {
        let first = self.file.iter().filter(|path| path.as_path() != Path::new("-"));
        let more = self.more.iter().filter(|path| !allocations::is_snapshot(path).unwrap_or(false));
        let logs: Vec<&PathBuf> = first.chain(more).collect();
        let names: Vec<String> = logs.iter().map(|path| name_of(path)).collect();
        in_order(&names).into_iter().filter_map(|at| logs.get(at).copied()).collect()
    }

    /// Reads the log and the time its file was last written. Fails if it contains no text.
    fn read(&self, base: &KnowledgeBase, telling: &Telling) -> Result<(PastedLog, Option<WallTime>), String> {
        let parts = self.logs();
        let (bytes, written) = match &self.from {
            Some(id) => sources::read(id, telling).map_err(|why| format!("{id} can't be read: {why}"))?,
            None if parts.len() > 1 => read_as_one(&parts, telling)?,
            None => read(self.file.as_deref(), telling)?,
        };
        let what = what_else(&bytes);
        let log = match &self.from {
            Some(id) => log_of(base, id.kind, bytes),
            None => PastedLog::from_bytes(bytes),
        };
        if log.is_binary() {
            let what = what.unwrap_or("binary data");
            return Err(format!("this is {what}, not a log; give the text that your program printed"));
        }
        if log.is_empty() {
            return Err(
                "the log is empty; give what your program printed, as in `program 2>&1 | oomdoctor diagnose`".into()
            );
        }
        Ok((log, written))
    }
}

/// The name of a file as it is shown.
fn name_of(path: &Path) -> String {
    path.file_name().map(|name| harmless(&name.to_string_lossy()).into_owned()).unwrap_or_default()
}

/// Reads the parts of a log, oldest first, as one text, with the time the newest was last written.
fn read_as_one(parts: &[&PathBuf], telling: &Telling) -> Result<(Vec<u8>, Option<WallTime>), String> {
    let mut whole = Vec::new();
    let mut newest = None;
    for part in parts {
        let (bytes, written) = read(Some(part), telling)?;
        if !whole.is_empty() && !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
        whole.extend(bytes);
        newest = newest.max(written);
    }
    Ok((whole, newest))
}

/// The ids that a step of a plan can have.
fn fix_ids(base: &KnowledgeBase) -> impl Iterator<Item = FixId> {
    base.fixes.iter().map(|fix| fix.id).chain(FixId::WITHOUT_FILE)
}

fn is_fix(base: &KnowledgeBase, id: &str) -> bool {
    fix_ids(base).any(|fix| fix.as_str() == id)
}

/// Says that no fix has this id, and which one is near.
fn unknown_fix(base: &KnowledgeBase, id: &str) -> String {
    let ids: Vec<FixId> = fix_ids(base).collect();
    let hint = match nearest(id, ids.iter().map(|fix| fix.as_str())) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => "; `oomdoctor diagnose --json` prints the id of each step as `fix`".to_owned(),
    };
    format!("--tried: there is no fix `{}`{hint}", harmless(id))
}

/// Reads what the log of a run that worked shows of it. Fails if that run ran out of memory, too.
fn run_that_worked(base: &KnowledgeBase, path: &Path) -> Result<Run, String> {
    let shown = harmless(&path.display().to_string()).into_owned();
    let (bytes, _) =
        bytes_of(path, &Telling::default()).map_err(|error| format!("--good {shown} can't be read: {error}"))?;
    base.run_that_worked(&PastedLog::from_bytes(bytes)).map_err(|why| format!("--good {shown}: {why}"))
}

/// A diagnosis of a log together with the reading of this machine.
pub(super) struct Examined {
    diagnosis: Diagnosis,
    pub(super) advice: Advice,
    snapshot: Option<Snapshot>,
    /// The machine that was read; `None` for this one.
    host: Option<HostName>,
    no_reading: Option<String>,
    why: Option<String>,
    explains: bool,
    since: Option<Vec<Difference>>,
    walked: Option<Walked>,
}

impl Examined {
    pub(super) fn report(&self) -> Report<'_> {
        Report {
            diagnosis: &self.diagnosis,
            advice: &self.advice,
            snapshot: self.snapshot.as_ref(),
            host: self.host.as_ref(),
            no_reading: self.no_reading.as_deref(),
            why: self.why.as_deref(),
            explains: self.explains,
            since: self.since.as_deref(),
            walked: self.walked.as_ref(),
        }
    }

    pub(super) fn is_out_of_memory(&self) -> bool {
        self.diagnosis.oom != Oom::No
    }

    /// The id of the leading entry; empty without one.
    pub(super) fn entry(&self) -> String {
        self.diagnosis.matches.first().map(|found| found.entry.to_string()).unwrap_or_default()
    }

    /// 0 if memory ran out or may have, else 1.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.is_out_of_memory() { ExitCode::SUCCESS } else { ExitCode::from(1) }
    }
}

/// Diagnoses the log and reads this machine.
pub(super) fn examine(global: &Global, asked: &DiagnoseArgs, base: &KnowledgeBase, subject: &Subject) -> Examined {
    examine_among(global, asked, base, subject, &[])
}

/// Diagnoses the log and reads the machine that it names, if that is one of these; else this machine.
fn examine_among(
    global: &Global,
    asked: &DiagnoseArgs,
    base: &KnowledgeBase,
    subject: &Subject,
    readings: &[HostReading],
) -> Examined {
    let mut diagnosis = base.diagnose(&subject.log, Some(&jiff::Zoned::now()));
    let mut filled = subject.filled.clone();
    if subject.is_beside {
        filled.retain(|filled| is_of(filled, &diagnosis));
    }
    add_snapshots(&mut diagnosis, filled);
    let named = other_machine::named(&diagnosis, readings);
    let watched: Vec<(&HostReading, Watched)> = readings.iter().filter_map(Watched::of_host).collect();
    let (snapshot, run, no_reading) = where_it_ran(global, asked, subject, named);
    // The failed process started this one, which inherited its environment.
    if asked.run_pid.is_some() && diagnosis.run.visible_devices.is_none() {
        let variables = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"];
        let values = variables.iter().filter_map(|name| std::env::var(name).ok()).filter(|list| !list.is_empty());
        // HIP's numbers count within ROCR's list, so two lists together name no GPU.
        if let [only] = values.collect::<Vec<String>>().as_slice() {
            diagnosis.run.visible_devices = Some(only.clone());
        }
    }
    let fixes = base.leading_fixes(&diagnosis);
    let entry = diagnosis.matches.first().and_then(|found| base.entry(found.entry));
    let story = subject.story.clone().unwrap_or_default();
    let walk = story.clone().walk(machine::boot_id().as_ref());
    let tried: Vec<FixId> = asked.tried.iter().map(|id| FixId::new(id)).chain(walk.tried()).collect();
    let viewer = match (named, &snapshot) {
        (Some(named), Some(there)) => other_machine::viewer_there(named, there, &here::user_name()),
        _ => global.kernel().viewer(),
    };
    let zone = here::time_zone();
    let history = named.and_then(|named| watched.iter().find(|(reading, _)| *reading == named));
    let situation = Situation {
        fixes: &fixes,
        snapshot: snapshot.as_ref(),
        history: history.map(|(_, watched)| &watched.history),
        viewer: Some(&viewer),
        zone: Some(&zone),
        crashed_by: Some(subject.failed_by.unwrap_or(WallTime(jiff::Timestamp::now()))),
        model: asked.model.as_deref().or(story.model.as_deref()),
        command: asked
            .command
            .as_deref()
            .or(story.command.as_deref())
            .or(run.as_ref().and_then(|run| run.launched_by.as_deref())),
        ran_on: run.as_ref().map(|run| run.devices.as_slice()).unwrap_or_default(),
        has_run_here: asked.run_pid.is_some() || subject.ran.is_some() || named.is_some(),
        tried: &tried,
        ..Situation::alone(&diagnosis)
    };
    let mut advice = advised(&situation, named, &watched);
    // What was tried or skipped before is shown as such, and not proposed once more.
    advice.plan.retain(|planned| walk.behind.iter().all(|behind| behind.id != StepId::of(planned)));
    if diagnosis.oom != Oom::No && diagnosis.allocations.is_empty() {
        advice.verdict.notes.extend(subject.note.clone());
    }
    advice.verdict.notes.extend(subject.part.clone());
    // An entry explains a shortage; a size that no GPU has is none.
    let why = if is_beyond_any_gpu(&diagnosis) { None } else { entry.map(|entry| entry.why.clone()) };
    let walked = subject.story.as_ref().map(Story::walked);
    let host = named.map(|named| named.name.clone());
    Examined { diagnosis, advice, snapshot, host, no_reading, why, explains: asked.why, since: None, walked }
}

/// The machine of the failed run, the run itself where it is known, and why the machine is left out.
fn where_it_ran(
    global: &Global,
    asked: &DiagnoseArgs,
    subject: &Subject,
    named: Option<&HostReading>,
) -> (Option<Snapshot>, Option<FailedRun>, Option<String>) {
    let (snapshot, no_reading) = match named {
        Some(named) => reading_of(named),
        None if asked.no_live => (None, None),
        None => this_machine(global),
    };
    match (snapshot, asked.run_pid) {
        (Some(here), Some(pid)) if named.is_none() => once_exited(&here, pid),
        (snapshot, _) => (snapshot, subject.ran.clone(), no_reading),
    }
}

/// The advice, with what the other machines mean for it.
fn advised(situation: &Situation<'_>, named: Option<&HostReading>, watched: &[(&HostReading, Watched)]) -> Advice {
    let mut advice = advise(situation);
    if let (Some(named), Some(_)) = (named, situation.snapshot) {
        other_machine::make_remote(&mut advice, named);
    }
    let machines: Vec<OtherMachine> = watched.iter().map(|(reading, watched)| watched.as_other(reading)).collect();
    other_machine::offer(&mut advice, situation, &machines);
    advice
}

/// The machine as it will be once the failed run has exited, with that run; or why the machine is left out.
fn once_exited(here: &Snapshot, pid: u32) -> (Option<Snapshot>, Option<FailedRun>, Option<String>) {
    match here.once_exited(pid) {
        Some((after, run)) => (Some(after), Some(run), None),
        None => {
            let why = format!("process {pid} could not be identified from inside a container; only the log is used");
            (None, None, Some(why))
        }
    }
}

/// The last reading of another machine, or why there is none.
fn reading_of(named: &HostReading) -> (Option<Snapshot>, Option<String>) {
    match &named.seen {
        Ok(_) => (named.snapshot().cloned(), None),
        Err(why) => (None, Some(format!("{}, which the log names, was not read: {why}", named.name))),
    }
}

/// Reads this machine, or returns why it can't be read.
fn this_machine(global: &Global) -> (Option<Snapshot>, Option<String>) {
    match machine::read_once(&global.sampling) {
        Ok(snapshot) => (Some(snapshot.harmless()), None),
        Err(why) => (None, Some(why)),
    }
}

fn read(file: Option<&Path>, telling: &Telling) -> Result<(Vec<u8>, Option<WallTime>), String> {
    match file {
        Some(path) if path != Path::new("-") => {
            let shown = harmless(&path.display().to_string()).into_owned();
            bytes_of(path, telling).map_err(|error| format!("{shown} can't be read: {error}"))
        }
        _ if stdin().is_terminal() => {
            Err("no log given; name a file, or use a pipe: `program 2>&1 | oomdoctor diagnose`".into())
        }
        _ => here::standard_input()
            .and_then(|pipe| all_of(pipe, telling))
            .map_err(|error| format!("the pipe can't be read: {error}")),
    }
}

/// Reads a log from a file or a named pipe, with the time the file was last written.
pub(super) fn bytes_of(path: &Path, telling: &Telling) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    match named_pipe(path)? {
        Some(pipe) => all_of(pipe, telling),
        None => open(path, telling),
    }
}

/// Reads a pipe until its writer exits. If that takes long, a message on the terminal says so.
fn all_of(pipe: File, telling: &Telling) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    let awaited = Awaited::new(pipe, stderr().is_terminal(), || {
        let _ = writeln!(stderr(), "{WAITING}");
    });
    read_all(awaited, |block| telling.may_matter(block)).map(|bytes| (bytes, None))
}

/// Printed only if standard error is a terminal: a script that stores standard error must not find it there.
const WAITING: &str = "oomdoctor: waiting for the program that writes the log to exit; Ctrl-C quits";
