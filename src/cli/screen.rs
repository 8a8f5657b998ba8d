//! Owns starting the terminal program: its configuration, what the terminal can show, and the source of the log. Without a
//! terminal, a plain report is printed.

use std::io::{self, IsTerminal, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::diagnose::DiagnoseArgs;
use super::hosts::HostArgs;
use super::output::{print, refuse, sampled};
use super::settings::Global;
use crate::app::model::{Config, Palette, Source};
use crate::app::replay::{Played, Replay};
use crate::gpu::guard::Viewer;
use crate::hosts::Asked;
use crate::platform::{Fork, Started, here, machine, variable};
use crate::record::words;
use crate::runtime::demo::DemoMachine;
use crate::runtime::journal::Journal;
use crate::runtime::reader::{is_named_pipe, named_pipe, open_log};
use crate::runtime::{self, LogSource, Runner, Start, runs};
use crate::text::{harmless, harmless_lines};

pub(super) fn run(
    global: &Global,
    log: Option<PathBuf>,
    more: Vec<PathBuf>,
    demo: bool,
    last: bool,
    hosts: &HostArgs,
) -> ExitCode {
    let asked = match hosts.asked(global) {
        Ok(asked) => asked,
        Err(message) => return refuse(&message),
    };
    let is_piped = !stdin().is_terminal();
    let file = log.as_deref().filter(|path| path.as_os_str() != "-");
    if let Some(file) = file
        && let Err(error) = look_at(file)
    {
        return unreadable(file, &error);
    }
    let can_be_drawn_on = here::can_be_drawn_on();
    if !can_be_drawn_on && stdout().is_terminal() {
        let _ = writeln!(
            stderr(),
            "oomdoctor: this terminal cannot show the full screen (TERM); printing plain text instead"
        );
    }
    if !can_be_drawn_on || !stdout().is_terminal() {
        return plain(global, &DiagnoseArgs { file: log, more, last, ..DiagnoseArgs::default() }, is_piped, hosts);
    }
    // The first reading takes longest, so it starts first.
    let sampler = match if demo { Fork::Program(None) } else { machine::fork(&global.sampling) } {
        Fork::Program(sampler) => sampler,
        Fork::Sampler(ended) => return sampled(ended),
    };
    let source = match source(global, file, more, last, is_piped) {
        Ok(source) => source,
        Err(code) => return code,
    };
    started(global, source, sampler, demo, None, asked)
}

/// Opens a recording, with the log of its command where that was kept.
pub(super) fn replay(global: &Global, path: &Path) -> ExitCode {
    let named = harmless(&path.display().to_string()).into_owned();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let tape = match runs::open(&path) {
        Ok(tape) => tape,
        Err(why) => return refuse(&format!("{named} can't be opened as a recording: {why}")),
    };
    if !here::can_be_drawn_on() || !stdout().is_terminal() {
        return print(&in_words(tape, !global.ascii && here::shows_unicode()), ExitCode::SUCCESS);
    }
    let log = runs::output_of(&path);
    let source = if tape.output.is_some() && log != path { LogSource::File(log, Vec::new()) } else { LogSource::None };
    started(global, source, None, false, Some(tape), Asked::default())
}

/// What a recording says without a terminal to draw it on.
fn in_words(tape: Played, unicode: bool) -> String {
    let replay = Replay::new(Arc::new(tape));
    let mut lines = vec![replay.sentence(unicode), replay.end()];
    lines.extend(words::peaks(replay.recording()));
    lines.dedup();
    harmless_lines(&lines.join("\n")) + "\n"
}

/// Starts the terminal program.
fn started(
    global: &Global,
    source: LogSource,
    sampler: Option<Box<Started>>,
    demo: bool,
    replay: Option<Played>,
    hosts: Asked,
) -> ExitCode {
    let (kernel, for_knowledge) = (global.kernel(), global.clone());
    let config = config(global, kernel.viewer());
    let start = Start {
        config: if demo { Config { viewer: DemoMachine::viewer(), source: Source::Demo, ..config } } else { config },
        sampling: (!demo).then(|| global.sampling.clone()),
        sampler,
        kernel,
        journal: Journal::new(here::state_folder()),
        state: here::state_folder(),
        knowledge: Box::new(move || super::kb::base_at_any_rate(&for_knowledge)),
        own_knowledge: global.knowledge.is_some(),
        log: source,
        replay,
        hosts,
        finds_logs: global.find_logs,
        runner: Runner { options: super::run::settings(global), state: here::state_folder() },
    };
    match runtime::run(start) {
        Ok(None) => ExitCode::SUCCESS,
        // A shell reports a program that a signal terminated with this exit code.
        Ok(Some(signal)) => u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => refuse(&format!(
            "the terminal cannot be used ({error}); `oomdoctor diagnose FILE` and `oomdoctor ps` work without one"
        )),
    }
}

/// The source of the log to open first, or the exit code if it can't be opened.
fn source(
    global: &Global,
    file: Option<&Path>,
    more: Vec<PathBuf>,
    last: bool,
    is_piped: bool,
) -> Result<LogSource, ExitCode> {
    if let Some(file) = file {
        return match named_pipe(file) {
            Ok(Some(pipe)) => Ok(LogSource::Pipe(pipe)),
            Ok(None) => Ok(LogSource::File(file.to_path_buf(), more)),
            Err(error) => Err(unreadable(file, &error)),
        };
    }
    if last {
        let last = runtime::last::read(here::state_folder().as_deref(), global.keep_log);
        let (story, text) = last.map_err(|why| refuse(&why))?;
        return Ok(LogSource::Last(Box::new(story), text));
    }
    if !is_piped {
        return Ok(LogSource::None);
    }
    let pipe = here::standard_input();
    pipe.map(LogSource::Pipe).map_err(|error| refuse(&format!("standard input can't be read: {error}")))
}

fn unreadable(file: &Path, error: &io::Error) -> ExitCode {
    refuse(&format!("{} can't be read: {error}", harmless(&file.display().to_string())))
}

/// Fails if this is no log. A named pipe is not opened: its writer would start to write.
fn look_at(path: &Path) -> io::Result<()> {
    if is_named_pipe(path)? { Ok(()) } else { open_log(path).map(drop) }
}

/// Prints the report for a log without a terminal, or the processes that use VRAM if there is no log.
fn plain(global: &Global, asked: &DiagnoseArgs, is_piped: bool, hosts: &HostArgs) -> ExitCode {
    if asked.file.is_none() && !asked.last && !is_piped {
        return super::ps::run(global, false, hosts);
    }
    super::diagnose::run(global, asked)
}

fn config(global: &Global, viewer: Viewer) -> Config {
    Config {
        viewer,
        boot_id: machine::boot_id(),
        interval: global.sampling.interval,
        read_only: global.read_only,
        keep_log: global.keep_log,
        unicode: !global.ascii && here::shows_unicode(),
        palette: global.palette.unwrap_or(if variable("NO_COLOR").is_some() {
            Palette::None
        } else {
            Palette::Terminal
        }),
        keys: Arc::clone(&global.keys),
        zone: here::time_zone(),
        can_suspend: here::can_be_continued(),
        marks_pastes: here::MARKS_PASTES,
        names: super::report::names(),
        ..Config::default()
    }
}
