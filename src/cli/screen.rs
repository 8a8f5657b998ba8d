//! Owns starting the terminal program: who is looking, what the terminal can show, where the log comes from. Without
//! a terminal the same questions get a plain report.

use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use super::Global;
use super::diagnose::Asked;
use super::live::sampler;
use crate::app::model::{Config, Palette, Source};
use crate::procfs::Procfs;
use crate::runtime::demo::DemoMachine;
use crate::runtime::journal::Journal;
use crate::runtime::places::Places;
use crate::runtime::reader::{is_named_pipe, named_pipe, open_log};
use crate::runtime::{self, LogSource, Start};

/// Runs it.
pub fn run(global: &Global, log: Option<PathBuf>, demo: bool, last: bool) -> ExitCode {
    let piped = !stdin().is_terminal();
    let dash = log.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let unreadable = |error| super::refuse(&format!("{} can't be read: {error}", shown(log.as_deref())));
    let file = log.as_deref().filter(|_| !dash);
    if let Some(Err(error)) = file.map(look_at) {
        return unreadable(error);
    }
    let able = can_be_drawn_on();
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
    let last = match last.then(|| runtime::last::read(Places::here().state().as_deref(), global.keep_log)) {
        Some(Err(why)) => return super::refuse(&why),
        Some(Ok(last)) => Some(last),
        None => None,
    };
    let source = match (log, last) {
        _ if named.is_some() => named.map_or(LogSource::None, LogSource::Pipe),
        (_, Some((story, text))) => LogSource::Last(Box::new(story), text),
        (Some(path), _) if !dash => LogSource::File(path),
        _ if piped => match stdin().as_fd().try_clone_to_owned() {
            Ok(pipe) => LogSource::Pipe(File::from(pipe)),
            Err(error) => return super::refuse(&format!("standard input can't be read: {error}")),
        },
        _ => LogSource::None,
    };
    let (for_sampler, for_knowledge) = (global.clone(), global.clone());
    let start = Start {
        config: if demo { demo_config(global) } else { config(global) },
        sampler: (!demo)
            .then(|| Box::new(move || paced(sampler(&for_sampler, None))) as Box<dyn Fn() -> Command + Send>),
        procfs: global.procfs(),
        journal: Journal::new(Places::here().state()),
        state: Places::here().state(),
        knowledge: Box::new(move || super::kb::base_at_any_rate(&for_knowledge)),
        own_knowledge: global.knowledge.is_some(),
        log: source,
    };
    match runtime::run(start) {
        Ok(None) => ExitCode::SUCCESS,
        // As a shell says it of a program that the signal ended.
        Ok(Some(signal)) => u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => super::refuse(&format!(
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

/// Whether the terminal knows more than lines.
fn can_be_drawn_on() -> bool {
    std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}

/// The sampler's pace is told to it on its standard input.
fn paced(mut sampler: Command) -> Command {
    sampler.arg("--paced").stdin(Stdio::piped());
    sampler
}

/// No terminal: the report for a log, else who holds the memory.
fn plain(global: &Global, log: Option<PathBuf>, piped: bool) -> ExitCode {
    match log {
        Some(path) => super::diagnose::run(global, &Asked::text(Some(&path))),
        None if piped => super::diagnose::run(global, &Asked::text(None)),
        None => super::ps::run(global, false),
    }
}

fn demo_config(global: &Global) -> Config {
    Config { viewer: DemoMachine::viewer(), source: Source::Demo, ..config(global) }
}

fn config(global: &Global) -> Config {
    let says = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = says("LC_ALL").or_else(|| says("LC_CTYPE")).or_else(|| says("LANG")).unwrap_or_default();
    Config {
        viewer: global.kernel().viewer(),
        boot_id: Procfs::default().boot_id(),
        interval: global.interval,
        read_only: global.read_only,
        keep_log: global.keep_log,
        unicode: !global.ascii
            && locale.to_lowercase().replace('-', "").contains("utf8")
            && says("TERM").as_deref() != Some("linux"),
        palette: global.palette.unwrap_or(if says("NO_COLOR").is_some() { Palette::None } else { Palette::Terminal }),
        keys: Arc::clone(&global.keys),
        zone: jiff::tz::TimeZone::system(),
        can_suspend: runtime::signals::can_be_continued(),
        names: super::report::names(),
        ..Config::default()
    }
}
