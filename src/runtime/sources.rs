//! Owns finding and reading the logs that lie on this machine: the commands of `source` run here, without a shell, each with
//! a deadline. What cannot be asked or read is said, and never taken for "nothing happened".

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use super::commands::{Failure, all_of, run, run_until, whole_by};
use super::reader::{Telling, open, open_log, read_opened};
use crate::log::PastedLog;
use crate::platform::{Sampling, here, machine, variable};
use crate::source::ask::{Argv, Ask, Next, Way, why_silent};
use crate::source::files::Pattern;
use crate::source::places::{asks, ways};
use crate::source::systemd::tells_of_a_unit;
use crate::source::{Caller, Kind, Looked, Source, SourceId, Surroundings, VARIABLES, rank};
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

/// The settings of other programs are waited for so long.
const A_MOMENT: Duration = Duration::from_secs(1);
const SILENT_FILES: &str = "the file system did not answer in time";

/// A log that was read, and when it was last written, if that is known.
pub(crate) type Found = (Vec<u8>, Option<WallTime>);

pub(crate) fn surroundings() -> Surroundings {
    let home = here::home();
    let own = home.clone();
    let settings = within(Instant::now() + A_MOMENT, move || of_containers(own.as_deref()));
    let (docker_context, has_podman) = settings.unwrap_or_default();
    let caller = caller();
    Surroundings {
        variables: VARIABLES.iter().filter_map(|name| Some((*name, variable(name)?))).collect(),
        home: caller.as_ref().map_or(home, |caller| caller.home.clone()),
        folder: std::env::current_dir().unwrap_or_default(),
        uid: here::own_uid(),
        caller,
        lineage: Vec::new(),
        docker_context,
        has_podman,
        now: Some(WallTime(jiff::Timestamp::now())),
    }
}

/// The context that Docker's settings name, and whether Podman has been used.
fn of_containers(home: Option<&Path>) -> (Option<String>, bool) {
    let settings = variable("DOCKER_CONFIG").map(PathBuf::from).or(home.map(|home| home.join(".docker")));
    let docker = settings.and_then(|folder| fs::read_to_string(folder.join("config.json")).ok());
    let docker = docker.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let storage = match here::own_uid() {
        Some(0) => Some(PathBuf::from("/var/lib/containers/storage")),
        _ => home.map(|home| home.join(".local/share/containers/storage")),
    };
    let context = docker.and_then(|settings| Some(settings.get("currentContext")?.as_str()?.to_owned()));
    (context, storage.is_some_and(|storage| storage.exists()))
}

/// The person who called sudo. A table of users on another machine is not asked.
fn caller() -> Option<Caller> {
    if here::own_uid() != Some(0) {
        return None;
    }
    let uid: u32 = variable("SUDO_UID")?.parse().ok().filter(|uid| *uid != 0)?;
    let gid = variable("SUDO_GID")?.parse().ok()?;
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(Caller { uid, gid, home: home_in(&users, uid) })
}

/// The home of this user in a table like /etc/passwd: name, password, uid, gid, full name, home, shell.
fn home_in(users: &str, uid: u32) -> Option<PathBuf> {
    let rows = users.lines().map(|row| row.split(':').collect::<Vec<&str>>());
    let mut homes = rows.filter_map(|row| match row.as_slice() {
        [_, _, number, _, _, home, ..] if number.parse() == Ok(uid) => Some(PathBuf::from(home)),
        _ => None,
    });
    homes.find(|home| home.is_absolute())
}

/// What a thread of its own finds until then; `None` if a file system does not answer. Then the thread stays behind.
fn within<T: Send + 'static>(due: Instant, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let thread = thread::Builder::new().name("files".into()).spawn(move || {
        let _ = tell.send(work());
    });
    thread.ok()?;
    told.recv_timeout(due.saturating_duration_since(Instant::now())).ok()
}

/// The places of these kinds (without kinds, of this machine alone), each with what `judge` says of its log, sorted.
pub(crate) fn find(
    sampling: &Sampling,
    kinds: &[Kind],
    telling: &Telling,
    mut judge: impl FnMut(&mut Looked, Found),
) -> Vec<Looked> {
    let lineage = machine::kernel(sampling, &[], true).viewer().lineage;
    let at = Surroundings { lineage, ..surroundings() };
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
    read_ways(ways(&at, id)?, &Reading { at: &at, id, due: Instant::now() + NAMED, telling })
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
        let reading = Reading { at, id: &id, due: Instant::now() + patience, telling };
        match ways.and_then(|ways| read_ways(ways, &reading)) {
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
        Ask::Files(patterns) => {
            let (at, begin) = (at.clone(), patterns.first().map(|pattern| pattern.folder.display().to_string()));
            let files = move || patterns.iter().flat_map(|pattern| files_of(&at, pattern)).collect();
            within(Instant::now() + LISTED, files)
                .ok_or_else(|| format!("{}: {SILENT_FILES}", begin.unwrap_or_default()))
        }
        Ask::Not { why, .. } => Err(why),
        Ask::Command { kind, argv, parse } => {
            let said = match whole_by(&argv, Instant::now() + LISTED, by(at, kind)) {
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

/// As whom a kind of places is asked: root, through sudo, asks for a person's session as that person.
fn by(at: &Surroundings, kind: Kind) -> Option<&Caller> {
    if kind.is_of_a_session() { at.caller.as_ref() } else { None }
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
fn files_of(at: &Surroundings, pattern: &Pattern) -> Vec<Source> {
    let mut found = Vec::new();
    let is_wanted = |there: &Metadata| is_recent(there) && is_the_persons(at.caller.as_ref(), there);
    gather(&pattern.folder, pattern.depth, (pattern, &is_wanted), &mut MOST_ENTRIES.clone(), &mut found);
    found.sort_by_key(|(written, _)| Reverse(*written));
    found.truncate(pattern.most);
    let mut sources = Vec::new();
    for (written, path) in found {
        // A name that cannot be shown as it is cannot be typed, either.
        let Some(name) = path.to_str().filter(|name| !name.chars().any(char::is_control)) else { continue };
        let shown = path.strip_prefix(&at.folder).unwrap_or(&path);
        let title = format!("{}: {}", pattern.program, shown.display());
        let ended_at = jiff::Timestamp::try_from(written).ok().map(WallTime);
        sources.push(Source { ended_at, ..Source::new(Kind::File, name, title) });
    }
    sources
}

fn gather(
    folder: &Path,
    deeper: u8,
    (pattern, is_wanted): (&Pattern, &dyn Fn(&Metadata) -> bool),
    left: &mut usize,
    found: &mut Vec<(SystemTime, PathBuf)>,
) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        // Of a link only the link itself is looked at, so that nothing leads out of the folder.
        let Ok(there) = entry.metadata() else { continue };
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if there.is_dir() && deeper > 0 && !name.starts_with('.') {
            gather(&entry.path(), deeper - 1, (pattern, is_wanted), left, found);
        }
        let (begin, end) = pattern.name;
        if there.is_file() && name.starts_with(begin) && name.ends_with(end) && is_wanted(&there) {
            found.extend(there.modified().ok().map(|written| (written, entry.path())));
        }
    }
}

fn is_recent(there: &Metadata) -> bool {
    let age = there.modified().ok().and_then(|written| written.elapsed().ok());
    there.len() > 0 && age.is_none_or(|age| age < RECENT)
}

fn is_the_persons(caller: Option<&Caller>, there: &Metadata) -> bool {
    here::is_own(there) || caller.is_some_and(|caller| here::is_of(there, caller.uid))
}

/// One place that is being read.
struct Reading<'r> {
    at: &'r Surroundings,
    id: &'r SourceId,
    due: Instant,
    telling: &'r Telling,
}

fn read_ways(ways: Vec<Way>, reading: &Reading<'_>) -> Result<Found, String> {
    let mut log: Found = (Vec::new(), None);
    for way in ways {
        read_way(way, reading, &mut log)?;
    }
    let kind = reading.id.kind;
    let is_a_unit = matches!(kind, Kind::Unit | Kind::UserUnit);
    let tells =
        if is_a_unit { tells_of_a_unit(&String::from_utf8_lossy(&log.0)) } else { !log.0.trim_ascii().is_empty() };
    if !tells {
        return Err(match kind {
            Kind::Unit | Kind::UserUnit | Kind::Kernel => "no journal entries, or no permission".to_owned(),
            _ => "it is empty".to_owned(),
        });
    }
    Ok(log)
}

fn read_way(way: Way, reading: &Reading<'_>, log: &mut Found) -> Result<(), String> {
    let Reading { at, id, due, telling } = *reading;
    let by = by(at, id.kind);
    match way {
        Way::Text(text) => add(log, text.into_bytes()),
        Way::Command { argv, merges } => {
            let said = run(&argv, merges, due, telling, by).map_err(|failure| failure.in_words(&argv))?;
            if !said.succeeded {
                // What went wrong is said last, below the log.
                let text = String::from_utf8_lossy(&said.text);
                let about = if merges { text.trim_end().lines().last().unwrap_or_default() } else { &said.about };
                return Err(why_silent(id.kind, about));
            }
            add(log, said.text);
        }
        Way::Optional(argv) => {
            if let Ok(said) = run(&argv, false, due, telling, by)
                && said.succeeded
            {
                add(log, said.text);
            }
        }
        Way::File(path) => add_file(path, false, reading, log)?,
        Way::OwnFile(path) => add_file(path, true, reading, log)?,
        Way::Hardcopy { session, window } => add(log, hardcopy(&session, &window, reading)?),
        Way::Ask(argv, next) => {
            let found = read_ways(asked(&argv, reading, next)?, reading)?;
            add(log, found.0);
        }
        Way::AskOr(argv, next, file) => {
            let ways = match asked(&argv, reading, next) {
                Err(_) if file.exists() => vec![Way::OwnFile(file)],
                ways => ways?,
            };
            let found = read_ways(ways, reading)?;
            add(log, found.0);
            log.1 = log.1.or(found.1);
        }
    }
    Ok(())
}

fn asked(argv: &Argv, reading: &Reading<'_>, next: Next) -> Result<Vec<Way>, String> {
    let Reading { at, id, due, .. } = *reading;
    let said = whole_by(argv, due, by(at, id.kind)).map_err(|failure| failure.in_words(argv))?;
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

fn add_file(path: PathBuf, is_own: bool, reading: &Reading<'_>, log: &mut Found) -> Result<(), String> {
    let shown = path.display().to_string();
    let (caller, telling) = (reading.at.caller.clone(), reading.telling.clone());
    let found = move || {
        let file = open_log(&path)?;
        // The opened file is asked, since the name may lead to another one by then.
        if is_own && !is_the_persons(caller.as_ref(), &file.metadata()?) {
            return Err(io::Error::other("it is another user's"));
        }
        read_opened(file, &telling)
    };
    let found = within(reading.due, found).ok_or_else(|| format!("{shown}: {SILENT_FILES}"))?;
    let (bytes, written) = found.map_err(|error| format!("{shown}: {error}"))?;
    add(log, bytes);
    log.1 = written.or(log.1);
    Ok(())
}

/// screen's server writes the window into a file a moment after it was asked. Only the person may read the folder.
fn hardcopy(session: &str, window: &str, reading: &Reading<'_>) -> Result<Vec<u8>, String> {
    let Reading { at, id, due, telling } = *reading;
    let folder = tempfile::Builder::new().prefix("oomdoctor-").tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("window");
    let Some(name) = path.to_str() else {
        return Err("the folder for temporary files has no readable name".to_owned());
    };
    let argv = ["screen", "-S", session, "-p", window, "-X", "hardcopy", "-h", name].map(str::to_owned).to_vec();
    run(&argv, false, due, &Telling::default(), by(at, id.kind)).map_err(|failure| failure.in_words(&argv))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_does_not_answer_is_left_behind() {
        let (end, ends) = mpsc::channel::<()>();
        let began = Instant::now();
        let hanging = move || ends.recv().is_ok();
        assert_eq!(within(began + Duration::from_millis(50), hanging), None);
        assert!(began.elapsed() < Duration::from_secs(30));
        drop(end);
        assert_eq!(within(Instant::now() + Duration::from_secs(60), || 7), Some(7));
    }

    #[test]
    fn the_home_of_the_person_who_called_sudo_is_the_one_in_the_table() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\nbad:x:1001\nx:x:7:7:::\n";
        assert_eq!(home_in(users, 1000), Some(PathBuf::from("/home/ada")));
        assert_eq!((home_in(users, 1001), home_in(users, 7)), (None, None));
    }
}
