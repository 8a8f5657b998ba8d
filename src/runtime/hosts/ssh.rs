//! Owns reading machines through `ssh`: a child each, started shortly one after the other, each with its own deadline; once, or
//! for as long as somebody watches. On request this program is sent to a machine that has none.

mod config;

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::gpu::Snapshot;
use crate::hosts::ssh::answer::{Listener, Told};
use crate::hosts::ssh::config as names;
use crate::hosts::ssh::package::Package;
use crate::hosts::ssh::script::{self, Wanted};
use crate::hosts::ssh::{Trouble, arguments, why};
use crate::hosts::{Asked, HostName, HostReading, OwnProgram, Through};
use crate::platform::{Sampling, here, tools};
use crate::runtime::commands::{End, Next, follow, whole};

/// A connection, a shell and the first line take no longer on a machine that is well.
const FIRST: Duration = Duration::from_secs(8);
/// A machine that has begun to answer goes on within this time and its interval.
const GOES_ON: Duration = Duration::from_secs(10);
/// This program is on its way for no longer.
const SENDING: Duration = Duration::from_secs(90);
/// Reading the configuration of ssh takes no longer.
const CONFIGURATION: Duration = Duration::from_secs(2);
/// So many connections are opened at once.
const AT_ONCE: usize = 32;
/// Between the starts of two connections.
const APART: Duration = Duration::from_millis(15);
/// From one reading to the next while somebody watches: each one goes through a network.
const PACE: Duration = Duration::from_secs(2);
/// Two readings are no further apart than this.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);
/// Before a machine that went down is tried again, at first and at last.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(120));
/// Before one is tried again that refused the person: each try counts there as a failed login.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);
/// So many machines are watched; each has a thread.
const MOST_WATCHED: usize = 1024;

/// The machines that are asked for; empty where none are.
pub(super) fn read(asked: &Asked, sampling: &Sampling) -> Vec<HostReading> {
    let interval = sampling.interval.min(LONGEST_INTERVAL);
    Ssh::new(asked.send, Wanted { interval, count: Some(2) }).read_all(&asked.hosts)
}

/// Tells what each machine shows, each time anew, from threads of its own until nobody listens.
pub(super) fn watch(asked: &Asked, sampling: &Sampling, tell: impl Fn(HostReading) -> bool + Send + Clone + 'static) {
    let interval = sampling.interval.clamp(PACE, LONGEST_INTERVAL);
    let ssh = Ssh::new(asked.send, Wanted { interval, count: None });
    Arc::new(ssh).watch_all(&asked.hosts, &tell);
}

struct Ssh {
    /// Such as `ssh`.
    program: OsString,
    wanted: Wanted,
    /// This program, where it may be sent.
    package: Option<Result<Package, Trouble>>,
    turns: Turns,
}

impl Ssh {
    fn new(sends: bool, wanted: Wanted) -> Ssh {
        Ssh { program: "ssh".into(), wanted, package: sends.then(own_package), turns: Turns::default() }
    }

    fn read_all(&self, hosts: &[HostName]) -> Vec<HostReading> {
        let (next, readings) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..hosts.len().min(AT_ONCE) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(host) = hosts.get(at) else { return };
                        let reading = self.read_once(host);
                        readings.lock().unwrap_or_else(PoisonError::into_inner).push((at, reading));
                    }
                });
            }
        });
        let mut readings = readings.into_inner().unwrap_or_else(PoisonError::into_inner);
        readings.sort_by_key(|(at, _)| *at);
        readings.into_iter().map(|(_, reading)| reading).collect()
    }

    fn read_once(&self, host: &HostName) -> HostReading {
        let mut all: Vec<Seen> = Vec::new();
        let trouble = self.follow(host, &mut |seen| {
            all.push(seen);
            true
        });
        let mut all = all.into_iter();
        match (all.next(), trouble) {
            (Some(first), _) => first.of(host.clone(), self.login(host), all.next()),
            (None, Some(trouble)) => HostReading::unavailable(host.clone(), Through::Ssh, trouble.unavailable),
            (None, None) => {
                HostReading::unavailable(host.clone(), Through::Ssh, why(host, Some(0), "", None).unavailable)
            }
        }
    }

    /// The user as whom ssh reaches a machine, where the name does not say it: its configuration may.
    fn login(&self, host: &HostName) -> Option<String> {
        if host.user().is_some() {
            return None;
        }
        let argv = [self.program.to_str()?, "-G", host.as_str()].map(str::to_owned);
        let said = whole(&argv, Instant::now() + CONFIGURATION).ok()?;
        names::login(&String::from_utf8_lossy(&said.text))
    }

    fn watch_all(self: Arc<Self>, hosts: &[HostName], tell: &(impl Fn(HostReading) -> bool + Send + Clone + 'static)) {
        for (at, host) in hosts.iter().enumerate() {
            let (ssh, host, told) = (Arc::clone(&self), host.clone(), tell.clone());
            let builder = thread::Builder::new().name("host".into());
            let name = host.clone();
            let can_be = at < MOST_WATCHED && builder.spawn(move || ssh.keep_watching(&host, &told)).is_ok();
            if !can_be {
                let trouble = Trouble::unclear("too many machines to watch at once");
                tell(HostReading::unavailable(name, Through::Ssh, trouble.unavailable));
            }
        }
    }

    fn keep_watching(&self, host: &HostName, tell: &impl Fn(HostReading) -> bool) {
        let (first_pause, longest_pause) = PAUSES;
        let mut pause = first_pause;
        let login = OnceCell::new();
        loop {
            let mut has_answered = false;
            let trouble = self.follow(host, &mut |seen| {
                has_answered = true;
                let login = login.get_or_init(|| self.login(host)).clone();
                tell(seen.of(host.clone(), login, None))
            });
            let Some(trouble) = trouble else { return };
            pause = match () {
                () if trouble.needs_a_person => REFUSED_PAUSE,
                () if has_answered => first_pause,
                () => (pause * 2).min(longest_pause),
            };
            if !tell(HostReading::unavailable(host.clone(), Through::Ssh, trouble.unavailable)) {
                return;
            }
            thread::sleep(pause);
        }
    }

    /// Passes on each reading until the machine ends, which is told, or until nobody listens. A second connection sends this
    /// program, where the first finds none and that is wanted.
    fn follow(&self, host: &HostName, each: &mut dyn FnMut(Seen) -> bool) -> Option<Trouble> {
        let lacks = match &self.package {
            None => {
                return self
                    .one_connection(host, &script::read(self.wanted), Stdio::null(), FIRST, each)
                    .err()
                    .flatten();
            }
            Some(Err(trouble)) => return Some(trouble.clone()),
            Some(Ok(package)) => {
                let line = script::read_or_ask(self.wanted, package);
                match self.one_connection(host, &line, Stdio::null(), FIRST, each) {
                    Ok(lacks) => lacks,
                    Err(trouble) => return trouble,
                }
            }
        };
        let Some(Ok(package)) = &self.package else { return None };
        if let Err(trouble) = package.check(&lacks) {
            return Some(trouble);
        }
        let program = match here::own_program().and_then(File::open) {
            Ok(program) => program,
            Err(error) => return Some(own_program_unread(&error)),
        };
        let line = script::send(self.wanted, package);
        match self.one_connection(host, &line, program.into(), SENDING, each) {
            Err(trouble) => trouble,
            Ok(_) => Some(Trouble::unclear("it took oomdoctor and lost it")),
        }
    }

    /// The system of a machine that has no program to read it; or why the connection ended, which is `None` where nobody
    /// listens any more.
    fn one_connection(
        &self,
        host: &HostName,
        remote: &str,
        input: Stdio,
        first: Duration,
        each: &mut dyn FnMut(Seen) -> bool,
    ) -> Result<String, Option<Trouble>> {
        let mut connection = Connection {
            turn: Some(self.turns.take()),
            due: Instant::now() + first,
            goes_on_within: self.wanted.interval + GOES_ON,
            listener: Listener::default(),
            count: 0,
            lacks: None,
            trouble: None,
            is_wanted: true,
        };
        let (end, said) = match tools::command(&self.program) {
            Ok(mut command) => {
                command.args(arguments(host, remote));
                follow(command, input, first, &mut |line| connection.hear(line, each))
            }
            Err(error) => (End::NotStarted(error), String::new()),
        };
        drop(connection.turn.take());
        if !connection.is_wanted {
            return Err(None);
        }
        if let (None, Some(lacks)) = (&connection.trouble, connection.lacks.take()) {
            return Ok(lacks);
        }
        let trouble = connection.why_it_ended(host, end, &said);
        let meant = if trouble.is_unknown_name { config::meant(host) } else { None };
        Err(Some(match meant {
            Some(name) => trouble.meant(&name),
            None => trouble,
        }))
    }
}

/// What is heard from one connection.
struct Connection<'a> {
    /// Released once the machine answers, so that the next connection can be opened.
    turn: Option<Turn<'a>>,
    /// When the next reading must have come. Other lines do not put it off: a machine that prints for ever is not waited for
    /// longer than a silent one.
    due: Instant,
    goes_on_within: Duration,
    listener: Listener,
    /// The readings so far.
    count: u64,
    /// What the machine is that has no program to read it.
    lacks: Option<String>,
    trouble: Option<Trouble>,
    /// Whether somebody still listens.
    is_wanted: bool,
}

impl Connection<'_> {
    fn hear(&mut self, line: &[u8], each: &mut dyn FnMut(Seen) -> bool) -> Next {
        match self.listener.hear(line) {
            Ok(Some(Told::Lacks(system))) => self.lacks = Some(system),
            Ok(Some(Told::Begins)) => {
                self.due = Instant::now() + self.goes_on_within;
                self.turn = None;
            }
            Ok(Some(Told::Reading { snapshot, boot_id, through, program })) => {
                self.due = Instant::now() + self.goes_on_within;
                self.count += 1;
                self.is_wanted = each(Seen { snapshot, boot_id, through, program });
            }
            Ok(None) => {}
            Err(trouble) => self.trouble = Some(trouble),
        }
        if self.trouble.is_some() || !self.is_wanted {
            return Next::Enough;
        }
        Next::Within(self.due.saturating_duration_since(Instant::now()))
    }

    fn why_it_ended(self, host: &HostName, end: End, said: &str) -> Trouble {
        if let Some(trouble) = self.trouble {
            return trouble;
        }
        match end {
            End::Itself(Some(0)) if self.count > 0 => Trouble::unclear("the reading there ended"),
            End::Itself(code) => why(host, code, said, self.listener.noise()),
            End::Silent | End::Enough => Trouble::silent(host),
            End::TooLong => Trouble::too_long(),
            End::NotStarted(error) if error.kind() == std::io::ErrorKind::NotFound => Trouble::no_ssh(),
            End::NotStarted(error) => Trouble::unclear(format!("ssh could not be started: {error}")),
        }
    }
}

/// A reading of a machine.
struct Seen {
    snapshot: Box<Snapshot>,
    boot_id: Option<String>,
    through: Through,
    program: OwnProgram,
}

impl Seen {
    /// As the reading of this machine, with a later one where there is one.
    fn of(self, name: HostName, login: Option<String>, later: Option<Seen>) -> HostReading {
        let (boot_id, program) = (self.boot_id, self.program);
        let seen = Ok((self.snapshot, later.map(|later| later.snapshot)));
        HostReading { boot_id, program, login, ..HostReading::new(name, self.through, seen) }
    }
}

fn own_package() -> Result<Package, Trouble> {
    let bytes = here::own_program().and_then(fs::read);
    bytes.map(|bytes| Package::of(&bytes)).map_err(|error| own_program_unread(&error))
}

fn own_program_unread(error: &std::io::Error) -> Trouble {
    Trouble::unclear(format!("this program could not be read to be sent: {error}"))
}

/// Who may open a connection: a few at once, and each a little after the one before, so that neither a gateway nor this
/// machine is overrun.
#[derive(Default)]
struct Turns {
    state: Mutex<(usize, Option<Instant>)>,
    freed: Condvar,
}

/// A connection that is being opened.
struct Turn<'a>(&'a Turns);

impl Turns {
    fn take(&self) -> Turn<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state =
            self.freed.wait_while(state, |(open, _)| *open >= AT_ONCE).unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        let now = Instant::now();
        let start = state.1.map_or(now, |last| now.max(last + APART));
        state.1 = Some(start);
        drop(state);
        thread::sleep(start.saturating_duration_since(now));
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::platform::machine;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A stand-in for `ssh`, which runs this script.
    fn ssh(folder: &Path, script: &str) -> Arc<Ssh> {
        let snapshot = serde_json::to_string(&crate::gpu::testing::snapshot(0)).unwrap();
        fs::write(folder.join("reading"), format!("{snapshot}\n")).unwrap();
        let program = folder.join("ssh");
        let header = "echo '{\"schema\":1,\"program\":\"x\",\"boot_id\":\"b0\"}'";
        let here = folder.display();
        fs::write(
            &program,
            format!("#!/bin/sh\n[ \"$1\" = -G ] && exit\ncd {here}\nheader() {{ {header}; }}\n{script}\n"),
        )
        .unwrap();
        assert!(Command::new("chmod").arg("755").arg(&program).status().unwrap().success());
        let wanted = Wanted { interval: Duration::from_millis(10), count: None };
        Arc::new(Ssh { program: program.into(), ..Ssh::new(false, wanted) })
    }

    fn watched(ssh: Arc<Ssh>) -> Receiver<HostReading> {
        let (tell, told) = channel();
        ssh.watch_all(&["gpu1".parse().unwrap()], &move |reading| tell.send(reading).is_ok());
        told
    }

    #[test]
    fn readings_keep_coming_and_a_machine_that_goes_down_says_why_and_comes_back() {
        // The stand-in is a script of a shell, and is looked for in /proc.
        if machine::LOGS_ONLY.is_some() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let script = "header; cat reading reading; [ -e again ] && exec sleep 1000; touch again\n\
                      echo 'ssh: connect to host gpu1 port 22: Connection refused' >&2; exit 255";
        let told = watched(ssh(folder.path(), script));
        let next = || told.recv_timeout(PATIENCE).unwrap();
        for _ in 0..2 {
            assert_eq!(next().boot_id.as_deref(), Some("b0"));
        }
        assert!(next().seen.unwrap_err().why.contains("refused"));
        assert!(next().seen.is_ok());
    }

    #[test]
    fn nobody_listens_and_the_connection_ends() {
        // The stand-in is a script of a shell, and is looked for in /proc.
        if machine::LOGS_ONLY.is_some() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let told = watched(ssh(folder.path(), "header; while cat reading; do :; done"));
        assert!(told.recv_timeout(PATIENCE).unwrap().seen.is_ok());
        drop(told);
        // The stand-in is the only one that could write: once it is gone the folder has no user left.
        let due = Instant::now() + PATIENCE;
        while Instant::now() < due && is_running(folder.path()) {
            thread::yield_now();
        }
        assert!(!is_running(folder.path()));
    }

    fn is_running(folder: &Path) -> bool {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok()).any(|cwd| cwd == folder)
    }
}
