//! Owns starting the terminal program: who is looking, what the terminal can show, where the log comes from. Without
//! a terminal the same questions get a plain report.

use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::diagnose::Asked;
use super::output::refuse;
use super::settings::Global;
use crate::app::model::{Config, Palette, Source};
use crate::gpu::guard::Viewer;
use crate::platform::processes::Processes;
use crate::platform::{Here, Machine, Platform, ThisMachine, variable};
use crate::runtime::demo::DemoMachine;
use crate::runtime::journal::Journal;
use crate::runtime::reader::{is_named_pipe, named_pipe, open_log};
use crate::runtime::{self, LogSource, Start};

pub(super) fn run(global: &Global, log: Option<PathBuf>, demo: bool, last: bool) -> ExitCode {
    let piped = !stdin().is_terminal();
    let dash = log.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let unreadable = |error| refuse(&format!("{} can't be read: {error}", shown(log.as_deref())));
    let file = log.as_deref().filter(|_| !dash);
    if let Some(Err(error)) = file.map(look_at) {
        return unreadable(error);
    }
    let able = Here::can_be_drawn_on();
    if !able && stdout().is_terminal() {
        let _ = writeln!(stderr(), "TERM says that this terminal can't show a full screen; this is the plain report.");
    }
    if !able || !stdout().is_terminal() {
        return if last { super::report::of_the_last(global) } else { plain(global, log, piped) };
    }
    let named = match file.map(named_pipe).transpose() {
        Ok(named) => named.flatten(),
        Err(error) => return unreadable(error),
    };
    let last = match last.then(|| runtime::last::read(Here::state_folder().as_deref(), global.keep_log)) {
        Some(Err(why)) => return refuse(&why),
        Some(Ok(last)) => Some(last),
        None => None,
    };
    let source = match (log, last) {
        _ if named.is_some() => named.map_or(LogSource::None, LogSource::Pipe),
        (_, Some((story, text))) => LogSource::Last(Box::new(story), text),
        (Some(path), _) if !dash => LogSource::File(path),
        _ if piped => match Here::standard_input() {
            Ok(pipe) => LogSource::Pipe(pipe),
            Err(error) => return refuse(&format!("standard input can't be read: {error}")),
        },
        _ => LogSource::None,
    };
    let (kernel, for_knowledge) = (global.kernel(), global.clone());
    let config = config(global, kernel.viewer());
    let start = Start {
        config: if demo { of_the_demo(config) } else { config },
        sampling: (!demo).then(|| global.sampling()),
        kernel,
        journal: Journal::new(Here::state_folder()),
        state: Here::state_folder(),
        knowledge: Box::new(move || super::kb::base_at_any_rate(&for_knowledge)),
        own_knowledge: global.knowledge.is_some(),
        log: source,
    };
    match runtime::run(start) {
        Ok(None) => ExitCode::SUCCESS,
        // As a shell says it of a program that the signal ended.
        Ok(Some(signal)) => u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => refuse(&format!(
            "no terminal to draw on ({error}); `oomdoctor diagnose FILE` and `oomdoctor ps` work without one"
        )),
    }
}

/// Fails where this is no log. A named pipe is not opened: its writer would think that somebody reads it.
fn look_at(path: &Path) -> std::io::Result<()> {
    if is_named_pipe(path)? { Ok(()) } else { open_log(path).map(drop) }
}

fn shown(log: Option<&Path>) -> String {
    log.map_or_else(String::new, |path| crate::text::harmless(&path.display().to_string()).into_owned())
}

/// No terminal: the report for a log, else who holds the memory.
fn plain(global: &Global, log: Option<PathBuf>, piped: bool) -> ExitCode {
    match log {
        Some(path) => super::diagnose::run(global, &Asked::text(Some(&path))),
        None if piped => super::diagnose::run(global, &Asked::text(None)),
        None => super::ps::run(global, false),
    }
}

fn of_the_demo(config: Config) -> Config {
    Config { viewer: DemoMachine::viewer(), source: Source::Demo, ..config }
}

fn config(global: &Global, viewer: Viewer) -> Config {
    Config {
        viewer,
        boot_id: ThisMachine::boot_id(),
        interval: global.interval,
        read_only: global.read_only,
        keep_log: global.keep_log,
        unicode: !global.ascii && Here::shows_unicode(),
        palette: global.palette.unwrap_or(if variable("NO_COLOR").is_some() {
            Palette::None
        } else {
            Palette::Terminal
        }),
        keys: Arc::clone(&global.keys),
        zone: jiff::tz::TimeZone::system(),
        can_suspend: Here::can_be_continued(),
        marks_pastes: Here::MARKS_PASTES,
        names: super::report::names(),
        ..Config::default()
    }
}
