//! Owns `oomdoctor run` and `oomdoctor watch`. The first runs a command in this program's place and lets another process of
//! this program record it; what is printed about a failure comes from there, so that nothing about a record can change how
//! the command runs or ends. The second records a process that already runs.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write, stderr};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::output::{print, refuse, warn};
use super::settings::Global;
use crate::memory::visible;
use crate::platform::processes::ProcessControl;
use crate::platform::{here, machine};
use crate::record::frame::{Begin, Frame, What};
use crate::record::{End, Run, RunOptions, Try, words};
use crate::runtime::recorder::{Setup, record};
use crate::runtime::snapshots::Snapshots;
use crate::text::harmless;
use crate::units::WallTime;

/// The recorder may take this long to read the log and the machine after the command exited.
const PATIENCE: Duration = Duration::from_secs(20);
/// One wait for the end of a process.
const DAY: Duration = Duration::from_secs(86_400);
/// The exit codes of a shell for a command that is not there, and for one that can't be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// Variables that number the processes of one machine from 0: PyTorch's launchers, Slurm, Open MPI, MPICH and Intel MPI.
const LOCAL_RANKS: [&str; 4] = ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];
/// Other variables of a command that a record keeps, beside those that select GPUs.
const KEPT_VARIABLES: [&str; 4] = ["RANK", "SLURM_PROCID", "SLURM_JOB_ID", "WORLD_SIZE"];

#[derive(Debug, Args)]
pub struct RunArgs {
    /// If memory runs out, write a report as Markdown to this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the record to this file, which is not deleted.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let PyTorch record its memory and write a snapshot when CUDA memory runs out, into the current folder. Adds a
    /// folder to the command's PYTHONPATH.
    #[arg(long)]
    torch_snapshot: bool,
    /// Also say when memory ran out and the command succeeded all the same.
    #[arg(long)]
    verbose: bool,
    /// Run this fix of the record in --after, to compare both runs (for the terminal program).
    #[arg(long, hide = true, requires = "after")]
    tries: Option<String>,
    #[arg(long, hide = true)]
    after: Option<String>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The process to record until it ends.
    pid: u32,
    /// Write the record to this file, which is not deleted.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Exits as the command did.
pub(super) fn run(global: &Global, args: RunArgs) -> ExitCode {
    if let Some(why) = machine::LOGS_ONLY {
        return refuse(why);
    }
    let snapshots = args.torch_snapshot.then(Snapshots::prepare).transpose().unwrap_or_else(|error| {
        warn(&format!("no memory snapshots will be written: {error}"));
        None
    });
    let mut recorder = match start_recorder(global, &args, snapshots.as_ref()) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            log::info!("the recorder can't be started: {error}");
            None
        }
    };
    let input: Option<ChildStdin> = recorder.as_mut().and_then(|recorder| recorder.stdin.take());
    let started_at = WallTime(jiff::Timestamp::now());
    let environment: Vec<_> = snapshots.iter().map(Snapshots::environment).collect();
    let relayed = machine::run_in_place(&args.command, &environment, input, |pid, is_prompt| Begin {
        run: described(&args, started_at, pid),
        is_prompt,
        samples: is_first_of_its_machine(),
    });
    let relayed = match relayed {
        Ok(relayed) => relayed,
        Err(error) => return not_started(&args, &error),
    };
    // A command that succeeded leaves nothing to wait for: the record is finished in the background.
    if !relayed.end.is_success() || args.verbose {
        let said = recorder.map(last_words).unwrap_or_default();
        if !said.is_empty() && stderr().is_terminal() {
            let break_off = if relayed.ended_with_a_line { "\n" } else { "\n\n" };
            let _ = stderr().write_all(&[break_off.as_bytes(), &said].concat());
        }
    }
    // Ending by the command's signal leaves no time for it.
    drop(snapshots);
    ExitCode::from(machine::end_as(relayed.end))
}

/// Records the process until it ends.
pub(super) fn watch(global: &Global, args: &WatchArgs) -> ExitCode {
    if let Some(why) = machine::LOGS_ONLY {
        return refuse(why);
    }
    let kernel = global.kernel();
    let handle = match kernel.open(args.pid) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A thread has an ID of its own, but only its process can be waited for.
            let thread_of = kernel.inspect(args.pid).ok().flatten().and_then(|seen| seen.thread_of);
            return refuse(&match thread_of {
                Some(pid) => format!("{} is a thread of process {pid}: run oomdoctor watch {pid}", args.pid),
                None => format!("there is no process {}; `oomdoctor ps` lists those that use VRAM", args.pid),
            });
        }
        Err(error) => return refuse(&format!("process {} can't be watched: {error}", args.pid)),
    };
    let command =
        kernel.inspect(args.pid).ok().flatten().and_then(|seen| seen.runs).map(|runs| runs.command).unwrap_or_default();
    let state = (global.keep_log && !global.read_only).then(here::state_folder).flatten();
    if state.is_none() && args.record.is_none() {
        return refuse("nothing may be written here (--read-only or keep_log: false); name a file with --record");
    }
    let run = Run {
        started_at: WallTime(jiff::Timestamp::now()),
        argv: shlex::split(&command).unwrap_or_else(|| vec![command.clone()]),
        folder: String::new(),
        pid: args.pid,
        tries: None,
        environment: Vec::new(),
        options: RunOptions::default(),
    };
    let setup = Setup { sampling: global.sampling.clone(), state, path: args.record.clone() };
    warn(&format!("recording process {} ({}) until it ends; Ctrl-C stops the recording", args.pid, harmless(&command)));
    let recorded = match frames(run, move || while matches!(kernel.wait(&handle, DAY), Ok(false)) {}) {
        Ok(frames) => record(frames, &setup),
        Err(error) => return refuse(&format!("process {} can't be watched: {error}", args.pid)),
    };
    let Some(recorded) = recorded else { return refuse("the record could not be written") };
    let mut lines = vec![format!("process {} ended after {}", args.pid, words::seconds(recorded.recording.length()))];
    lines.extend(words::peaks(&recorded.recording));
    lines.extend(recorded.path.map(|path| format!("open it: oomdoctor --replay {}", path.display())));
    print(&(lines.join("\n") + "\n"), ExitCode::SUCCESS)
}

/// The frames of a process that was not started here: its beginning, and its end when it is there.
fn frames(run: Run, wait: impl FnOnce() + Send + 'static) -> io::Result<io::PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    let began = Instant::now();
    let begin = Frame { at: 0, what: What::Begin(Begin { run, is_prompt: false, samples: true }) };
    writer.write_all(&begin.bytes())?;
    thread::Builder::new().name("end".into()).spawn(move || {
        wait();
        let at = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = writer.write_all(&Frame { at, what: What::End(End::Unknown) }.bytes());
    })?;
    Ok(reader)
}

fn not_started(args: &RunArgs, error: &io::Error) -> ExitCode {
    let program = args.command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    warn(&format!("{} can't be started: {error}", harmless(&program)));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}

/// Starts the process that records. It is no part of this process group, so what a terminal sends does not reach it.
fn start_recorder(global: &Global, args: &RunArgs, snapshots: Option<&Snapshots>) -> io::Result<Child> {
    let mut recorder = here::detached_self()?;
    recorder.args(settings(global)).arg("record");
    for (name, path) in [("--report", &args.report), ("--record", &args.record)] {
        if let Some(path) = path {
            recorder.arg(name).arg(path);
        }
    }
    if let Some(snapshots) = snapshots {
        recorder.arg("--snapshots").arg(snapshots.noted_in());
    }
    if args.verbose {
        recorder.arg("--verbose");
    }
    if stderr().is_terminal() {
        recorder.arg("--speak");
    }
    recorder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// The options that this program was given, for another process of it.
pub(super) fn settings(global: &Global) -> Vec<OsString> {
    let mut options = Vec::new();
    let paths = [
        ("--nvml-library", global.sampling.nvml_library.as_ref()),
        ("--device-folder", Some(&global.sampling.device_folder)),
        ("--sys-folder", global.sampling.system_folder.as_ref()),
        ("--proc-folder", global.sampling.process_folder.as_ref()),
        ("--knowledge", global.knowledge.as_ref()),
    ];
    for (name, path) in paths {
        if let Some(path) = path {
            options.extend([name.into(), path.clone().into_os_string()]);
        }
    }
    if global.read_only {
        options.push("--read-only".into());
    }
    options
}

fn described(args: &RunArgs, started_at: WallTime, pid: u32) -> Run {
    let argv = args.command.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let folder = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
    let tries = args.tries.clone().zip(args.after.clone()).map(|(fix, after)| Try { fix, after });
    let names = LOCAL_RANKS.iter().chain(&KEPT_VARIABLES).chain(&visible::VARIABLES);
    let environment = names.filter_map(|name| Some(((*name).to_owned(), crate::platform::variable(name)?))).collect();
    Run { started_at, argv, folder, pid, tries, environment, options: options_again(args) }
}

/// The options for another run of the command. `--record` is not among them: its file has the record of this run.
fn options_again(args: &RunArgs) -> RunOptions {
    let report = args.report.as_ref().and_then(|report| std::path::absolute(report).ok());
    let report = report.and_then(|report| report.to_str().map(str::to_owned));
    RunOptions { torch_snapshot: args.torch_snapshot, report }
}

/// Of the ranks that a launcher starts on a machine only the first one reads it.
fn is_first_of_its_machine() -> bool {
    LOCAL_RANKS.iter().find_map(|name| crate::platform::variable(name)).is_none_or(|rank| rank == "0")
}

/// What the recorder says at its end, if it does in time.
fn last_words(mut recorder: Child) -> Vec<u8> {
    let Some(mut output) = recorder.stdout.take() else { return Vec::new() };
    let (tell, told) = mpsc::channel();
    let reading = thread::Builder::new().name("words".into()).spawn(move || {
        let mut words = Vec::new();
        let _ = output.read_to_end(&mut words);
        let _ = tell.send(words);
    });
    reading.ok().and_then(|_| told.recv_timeout(PATIENCE).ok()).unwrap_or_default()
}
