//! Owns finding and reading the logs that lie on this machine: the commands of `source` run here, without a shell, each with
//! a deadline. What cannot be asked or read is said, and never taken for "nothing happened".

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use super::commands::{Failure, all_of, run, run_until, whole};
use super::reader::{Telling, open};
use crate::log::PastedLog;
use crate::platform::{Sampling, here, machine, variable};
use crate::source::ask::{Argv, Ask, Next, Way, why_silent};
use crate::source::files::Pattern;
use crate::source::places::{asks, ways};
use crate::source::{Kind, Looked, Source, SourceId, Surroundings, VARIABLES, rank};
use crate::units::WallTime;

/// A list is waited for so long.
const LISTED: Duration = Duration::from_secs(3);
/// One place is read for so long while several are looked at.
const GLIMPSED: Duration = Duration::from_secs(4);
/// A place that a person named is waited for so long.
const NAMED: Duration = Duration::from_secs(20);
/// Looking at all places stops after this time; what was not read by then is listed unread.
const ALL: Duration = Duration::from_secs(12);
/// Of one kind so many places are read, the newest.
const MOST_OF_A_KIND: usize = 8;
/// An older file is not from the failure that brings a person here.
const RECENT: Duration = Duration::from_secs(24 * 3600);
/// A folder with more entries is not searched to its end.
const MOST_ENTRIES: usize = 4000;
const GLANCE: Duration = Duration::from_millis(20);

/// A log that was read, and when it was last written, if that is known.
pub(crate) type Found = (Vec<u8>, Option<WallTime>);

pub(crate) fn surroundings() -> Surroundings {
    let home = here::home();
    let settings = variable("DOCKER_CONFIG").map(PathBuf::from).or(home.as_ref().map(|home| home.join(".docker")));
    let docker = settings.and_then(|folder| fs::read_to_string(folder.join("config.json")).ok());
    let docker = docker.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let storage = match here::own_uid() {
        Some(0) => Some(PathBuf::from("/var/lib/containers/storage")),
        _ => home.as_ref().map(|home| home.join(".local/share/containers/storage")),
    };
    Surroundings {
        variables: VARIABLES.iter().filter_map(|name| Some((*name, variable(name)?))).collect(),
        home,
        folder: std::env::current_dir().unwrap_or_default(),
        uid: here::own_uid(),
        docker_context: docker.and_then(|settings| Some(settings.get("currentContext")?.as_str()?.to_owned())),
        has_podman: storage.is_some_and(|storage| storage.exists()),
        now: Some(WallTime(jiff::Timestamp::now())),
    }
}

/// The places of these kinds (without kinds, of this machine alone), each with what `judge` says of its log, sorted.
pub(crate) fn find(
    sampling: &Sampling,
    kinds: &[Kind],
    telling: &Telling,
    mut judge: impl FnMut(&mut Looked, Found),
) -> Vec<Looked> {
    let at = surroundings();
    let due = Instant::now() + ALL;
    let above = machine::above_gpu_processes(sampling);
    // Each log is judged before the next one is kept in memory.
    let (tell, told) = mpsc::sync_channel(0);
    let mut all = Vec::new();
    thread::scope(|scope| {
        for ask in asks(&at, kinds) {
            let (tell, at, above) = (tell.clone(), &at, &above);
            scope.spawn(move || {
                look(at, ask, above, (telling, due, kinds), |looked, found| {
                    let _ = tell.send((looked, found));
                });
            });
        }
        drop(tell);
        for (mut looked, found) in told {
            if let Some(found) = found {
                judge(&mut looked, found);
            }
            all.push(looked);
        }
    });
    rank(&mut all);
    all
}

/// Reads the log of this place. Fails with what a person can do about it.
pub(crate) fn read(id: &SourceId, telling: &Telling) -> Result<Found, String> {
    let at = surroundings();
    read_ways(ways(&at, id)?, id, Instant::now() + NAMED, telling)
}

/// The same in a process of its own, as this program's options say.
pub(crate) fn find_in_child(options: &[OsString], kinds: &[Kind]) -> Result<Vec<Looked>, String> {
    let program = here::own_program().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(options).args(["sources", "--json"]).args(kinds.iter().map(Kind::to_string));
    let due = Instant::now() + ALL + LISTED + GLIMPSED;
    let said = run_until(command, false, due, all_of).map_err(|failure| failure.in_words(&Vec::new()))?;
    let listed: Listed = serde_json::from_slice(&said.text).map_err(|_| why_silent(Kind::File, &said.about))?;
    Ok(listed.sources)
}

/// What `oomdoctor sources --json` prints, as far as it is read back.
#[derive(Deserialize)]
struct Listed {
    sources: Vec<Looked>,
}

/// The log of this place as text.
pub(crate) fn read_text(id: &SourceId, telling: &Telling) -> Result<(String, Option<WallTime>), String> {
    let (bytes, written) = read(id, telling)?;
    let log = PastedLog::from_bytes(bytes);
    if log.is_binary() { Err("it is not text".to_owned()) } else { Ok((log.raw().to_owned(), written)) }
}

/// Tells the places of one kind, with the log of those that could be read until then.
fn look(
    at: &Surroundings,
    ask: Ask,
    above: &BTreeSet<u32>,
    (telling, due, kinds): (&Telling, Instant, &[Kind]),
    tell: impl Fn(Looked, Option<Found>),
) {
    let kind = ask.kind();
    let mut sources = match list(at, ask, kinds) {
        Ok(sources) => sources,
        Err(why) => return tell(Looked::silent(kind, why), None),
    };
    sources.sort_by_key(|source| (!source.is_near, Reverse(source.ended_at.map(|ended| ended.0))));
    for (number, source) in sources.into_iter().enumerate() {
        let uses_a_gpu = source.pid.is_some_and(|pid| above.contains(&pid));
        let id = source.id.clone();
        let mut looked = Looked::unread(source);
        looked.ties.1 = uses_a_gpu;
        let patience = GLIMPSED.min(due.saturating_duration_since(Instant::now()));
        if number >= MOST_OF_A_KIND || patience.is_zero() {
            tell(looked, None);
            continue;
        }
        // A file that was found, and not named, is read only if it is the person's own.
        let ways = match id.kind {
            Kind::File => Ok(vec![Way::OwnFile(PathBuf::from(&id.name))]),
            _ => ways(at, &id),
        };
        match ways.and_then(|ways| read_ways(ways, &id, Instant::now() + patience, telling)) {
            Ok(found) => {
                looked.ended_at = looked.ended_at.or(found.1);
                tell(looked, Some(found));
            }
            Err(why) => {
                looked.unreadable_reason = Some(why);
                tell(looked, None);
            }
        }
    }
}

/// What a kind of places has; else why it could not be asked. Where its program is not there, it has nothing.
fn list(at: &Surroundings, ask: Ask, kinds: &[Kind]) -> Result<Vec<Source>, String> {
    match ask {
        Ask::Files(patterns) => Ok(patterns.iter().flat_map(files_of).collect()),
        Ask::Not { why, .. } => Err(why),
        Ask::Command { kind, argv, parse } => {
            let said = match whole(&argv, Instant::now() + LISTED) {
                Ok(said) => said,
                Err(Failure::NotInstalled) if !kinds.contains(&kind) => return Ok(Vec::new()),
                Err(failure) => return Err(failure.in_words(&argv)),
            };
            if !said.succeeded && !is_nothing_there(kind, &said.about) {
                return Err(why_silent(kind, &said.about));
            }
            let sources = if said.succeeded { parse(at, &String::from_utf8_lossy(&said.text))? } else { Vec::new() };
            if kind == Kind::Kernel && sources.is_empty() && at.uid != Some(0) && has_journal() {
                return Err("the journal: not permitted".to_owned());
            }
            Ok(sources)
        }
    }
}

fn has_journal() -> bool {
    ["/run/log/journal", "/var/log/journal"].iter().any(|path| Path::new(path).exists())
}

/// Whether a failure means that there is no server that could have anything.
fn is_nothing_there(kind: Kind, about: &str) -> bool {
    let signs: &[&str] = match kind {
        Kind::Tmux => &["no server running", "(No such file or directory)", "(Connection refused)"],
        Kind::Unit | Kind::UserUnit | Kind::Kernel => &["not been booted with systemd", "Host is down"],
        _ => &[],
    };
    signs.iter().any(|sign| about.contains(sign))
}

/// The newest files of a pattern, which are the person's own and were written lately.
fn files_of(pattern: &Pattern) -> Vec<Source> {
    let mut found = Vec::new();
    gather(&pattern.folder, pattern.depth, pattern, &mut MOST_ENTRIES.clone(), &mut found);
    found.sort_by_key(|(written, _)| Reverse(*written));
    found.truncate(pattern.most);
    let mut sources = Vec::new();
    for (written, path) in found {
        // A name that cannot be shown as it is cannot be typed, either.
        let Some(name) = path.to_str().filter(|name| !name.chars().any(char::is_control)) else { continue };
        let shown = path.strip_prefix(std::env::current_dir().unwrap_or_default()).unwrap_or(&path);
        let title = format!("{}: {}", pattern.program, shown.display());
        let ended_at = jiff::Timestamp::try_from(written).ok().map(WallTime);
        sources.push(Source { ended_at, ..Source::new(Kind::File, name, title) });
    }
    sources
}

fn gather(folder: &Path, deeper: u8, pattern: &Pattern, left: &mut usize, found: &mut Vec<(SystemTime, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        // Of a link only the link itself is looked at, so that nothing leads out of the folder.
        let Ok(there) = entry.metadata() else { continue };
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if there.is_dir() && deeper > 0 && !name.starts_with('.') {
            gather(&entry.path(), deeper - 1, pattern, left, found);
        }
        let (begin, end) = pattern.name;
        if there.is_file() && name.starts_with(begin) && name.ends_with(end) && is_own_and_recent(&there) {
            found.extend(there.modified().ok().map(|written| (written, entry.path())));
        }
    }
}

fn is_own_and_recent(there: &Metadata) -> bool {
    let age = there.modified().ok().and_then(|written| written.elapsed().ok());
    here::is_own(there) && there.len() > 0 && age.is_none_or(|age| age < RECENT)
}

fn read_ways(ways: Vec<Way>, id: &SourceId, due: Instant, telling: &Telling) -> Result<Found, String> {
    let mut log: Found = (Vec::new(), None);
    for way in ways {
        read_way(way, id, due, telling, &mut log)?;
    }
    if log.0.iter().all(u8::is_ascii_whitespace) {
        return Err(match id.kind {
            Kind::Unit | Kind::UserUnit | Kind::Kernel => "no journal entries, or no permission".to_owned(),
            _ => "it is empty".to_owned(),
        });
    }
    Ok(log)
}

fn read_way(way: Way, id: &SourceId, due: Instant, telling: &Telling, log: &mut Found) -> Result<(), String> {
    match way {
        Way::Text(text) => add(log, text.into_bytes()),
        Way::Command { argv, merges } => {
            let said = run(&argv, merges, due, telling).map_err(|failure| failure.in_words(&argv))?;
            if !said.succeeded {
                // What went wrong is said last, below the log.
                let text = String::from_utf8_lossy(&said.text);
                let about = if merges { text.trim_end().lines().last().unwrap_or_default() } else { &said.about };
                return Err(why_silent(id.kind, about));
            }
            add(log, said.text);
        }
        Way::Optional(argv) => {
            if let Ok(said) = run(&argv, false, due, telling)
                && said.succeeded
            {
                add(log, said.text);
            }
        }
        Way::File(path) => add_file(&path, telling, log)?,
        Way::OwnFile(path) => {
            let there = fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if !here::is_own(&there) {
                return Err(format!("{} is another user's", path.display()));
            }
            add_file(&path, telling, log)?;
        }
        Way::Hardcopy { session, window } => add(log, hardcopy(&session, &window, due, telling)?),
        Way::Ask(argv, next) => {
            let found = read_ways(asked(&argv, id, next, due)?, id, due, telling)?;
            add(log, found.0);
        }
        Way::AskOr(argv, next, file) => {
            let ways = match asked(&argv, id, next, due) {
                Err(_) if file.exists() => vec![Way::OwnFile(file)],
                ways => ways?,
            };
            let found = read_ways(ways, id, due, telling)?;
            add(log, found.0);
            log.1 = log.1.or(found.1);
        }
    }
    Ok(())
}

fn asked(argv: &Argv, id: &SourceId, next: Next, due: Instant) -> Result<Vec<Way>, String> {
    let said = whole(argv, due).map_err(|failure| failure.in_words(argv))?;
    if !said.succeeded {
        return Err(why_silent(id.kind, &said.about));
    }
    next(&String::from_utf8_lossy(&said.text))
}

fn add(log: &mut Found, text: Vec<u8>) {
    if log.0.last().is_some_and(|last| *last != b'\n') {
        log.0.push(b'\n');
    }
    log.0.extend(text);
}

fn add_file(path: &Path, telling: &Telling, log: &mut Found) -> Result<(), String> {
    let (bytes, written) = open(path, telling).map_err(|error| format!("{}: {error}", path.display()))?;
    add(log, bytes);
    log.1 = written.or(log.1);
    Ok(())
}

/// screen's server writes the window into a file a moment after it was asked. Only the person may read the folder.
fn hardcopy(session: &str, window: &str, due: Instant, telling: &Telling) -> Result<Vec<u8>, String> {
    let folder = tempfile::Builder::new().prefix("oomdoctor-").tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("window");
    let Some(name) = path.to_str() else {
        return Err("the folder for temporary files has no readable name".to_owned());
    };
    let argv = ["screen", "-S", session, "-p", window, "-X", "hardcopy", "-h", name].map(str::to_owned).to_vec();
    run(&argv, false, due, &Telling::default()).map_err(|failure| failure.in_words(&argv))?;
    let mut size = 0;
    loop {
        let now = fs::metadata(&path).map_or(0, |there| there.len());
        if now > 0 && now == size {
            break;
        }
        if Instant::now() >= due {
            return Err("screen did not write the window".to_owned());
        }
        size = now;
        thread::sleep(GLANCE);
    }
    open(&path, telling).map(|(bytes, _)| bytes).map_err(|error| error.to_string())
}
