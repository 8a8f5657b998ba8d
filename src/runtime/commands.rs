//! Owns running other programs: without a shell, in a group of their own, each ended at its deadline.

mod follow;

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(super) use follow::{End, Next, follow};

use super::files::read_all;
use super::reader::Telling;
use crate::platform::{here, tools};
use crate::source::Caller;

/// A command's output is read up to this size.
const MOST_PRINTED: u64 = 64 << 20;
/// What a command says about its failure.
const MOST_SAID: u64 = 16 << 10;
/// The time between two looks at whether a command has exited.
const GLANCE: Duration = Duration::from_millis(20);

/// What a command printed.
pub(super) struct Said {
    pub text: Vec<u8>,
    /// Its standard error, unless that is a part of the text.
    pub about: String,
    pub succeeded: bool,
}

/// Why a command printed nothing.
pub(super) enum Failure {
    NotInstalled,
    Other(String),
}

impl Failure {
    pub(super) fn in_words(self, argv: &[String]) -> String {
        match self {
            Failure::NotInstalled => format!("{} is not installed", argv.first().map_or("it", String::as_str)),
            Failure::Other(why) => why,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::NotFound => Failure::NotInstalled,
            io::ErrorKind::TimedOut => Failure::Other("it did not answer in time".to_owned()),
            _ => Failure::Other(error.to_string()),
        }
    }
}

/// Runs a command without a shell and without input, and keeps of a huge output what matters. It is ended at the deadline.
pub(super) fn run(
    argv: &[String],
    merges: bool,
    due: Instant,
    telling: &Telling,
    by: Option<&Caller>,
) -> Result<Said, Failure> {
    run_until(command_of(argv, by)?, merges, due, |output| read_all(output, |block| telling.may_matter(block)))
}

/// The same for an output that is of no use in parts. The program reads it, not the person, so its times are in UTC.
pub(super) fn whole(argv: &[String], due: Instant) -> Result<Said, Failure> {
    whole_by(argv, due, None)
}

/// The same as the person who called sudo, if one is given.
pub(super) fn whole_by(argv: &[String], due: Instant, by: Option<&Caller>) -> Result<Said, Failure> {
    let mut command = command_of(argv, by)?;
    command.env("TZ", "UTC");
    run_until(command, false, due, all_of)
}

fn command_of(argv: &[String], by: Option<&Caller>) -> Result<Command, Failure> {
    let (program, arguments) = argv.split_first().ok_or(Failure::NotInstalled)?;
    let mut command = tools::command(program)?;
    command.args(arguments);
    if let Some(Caller { uid, gid, home }) = by {
        here::run_as(&mut command, *uid, *gid);
        // Where the person's session has its sockets.
        command.env("XDG_RUNTIME_DIR", format!("/run/user/{uid}")).env_remove("DBUS_SESSION_BUS_ADDRESS");
        home.iter().for_each(|home| {
            command.env("HOME", home);
        });
    }
    Ok(command)
}

pub(super) fn all_of(output: Due) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    output.take(MOST_PRINTED).read_to_end(&mut text)?;
    Ok(text)
}

pub(super) fn run_until(
    mut command: Command,
    merges: bool,
    due: Instant,
    read: impl FnOnce(Due) -> io::Result<Vec<u8>>,
) -> Result<Said, Failure> {
    let (output, input) = io::pipe()?;
    let (about, about_input) = io::pipe()?;
    command.stdin(Stdio::null()).env("NO_COLOR", "1").env("SYSTEMD_COLORS", "0");
    // Seconds since 1970, so that the cluster's time zone does not matter.
    command.env("SLURM_TIME_FORMAT", "%s");
    // The end that nobody writes to is closed here, or the end that is read would never end.
    let (errors, unused) = if merges { (input.try_clone()?, Some(about_input)) } else { (about_input, None) };
    drop(unused);
    command.stderr(errors).stdout(input);
    // A group of its own, so that all of it can be ended.
    here::detach(&mut command);
    // Nobody waits for it after this program has quit or was killed.
    here::end_with_this_thread(&mut command);
    let child = command.spawn();
    // The command's ends of the pipes are closed here, or reading them would never end.
    drop(command);
    let mut child = Ended(child?);
    let text = read(Due { pipe: here::Pipe::new(here::file_of(output)), due })?;
    let status = child.status_by(due)?;
    let mut said = Vec::new();
    Due { pipe: here::Pipe::new(here::file_of(about)), due }.take(MOST_SAID).read_to_end(&mut said)?;
    let about = String::from_utf8_lossy(&said).into_owned();
    Ok(Said { text, about, succeeded: status.success() })
}

/// A pipe that is read until its writers are gone, or until the deadline.
pub(super) struct Due {
    pipe: here::Pipe,
    due: Instant,
}

impl Read for Due {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.due.saturating_duration_since(Instant::now());
            if let Some(count) = self.pipe.read_within(block, Some(left))? {
                return Ok(count);
            }
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// A child that does not outlive this value.
struct Ended(Child);

impl Ended {
    fn status_by(&mut self, due: Instant) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= due {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(GLANCE);
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // It was not waited for, so the number of its group is still its own.
            here::end_group(&mut self.0);
        }
        let _ = self.0.wait();
    }
}
