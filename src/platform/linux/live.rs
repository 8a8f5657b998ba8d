//! Owns reading this machine once, safely: the sampler runs as a child process with a deadline, since a driver call
//! may hang for ever and could then not even be interrupted.

use std::io::{self, BufRead, BufReader, Read, Take};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::child::{LastWords, Output, end_group, ended};
use super::order::Order;
use crate::gpu::{Header, SCHEMA, Snapshot};
use crate::platform::contract::Sampling;

/// How long the driver may take for one reading. Waking a card that sleeps takes about a second.
const DEADLINE: Duration = Duration::from_secs(2);
/// More than any machine's snapshot. A longer stream does not come from the sampler.
const MOST_BYTES: u64 = 64 << 20;

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    /// The deadline passed: a driver call hangs. The child was killed.
    #[error("driver does not answer: no reading within {} s, so it is slow to start or stuck. `oomdoctor` alone waits for it; `sudo dmesg | grep -i nvrm` says whether a GPU is stuck", DEADLINE.as_secs())]
    DriverDoesNotAnswer,
    /// The child could not be started or read.
    #[error("the sampler could not be run: {0}")]
    NotRun(#[from] io::Error),
    /// The child ended before it had written a reading; the text is the end of its standard error.
    #[error("the sampler ended without a reading ({status}){}", complaint(.said))]
    Ended {
        /// Exit status in words.
        status: String,
        /// The end of its standard error, maybe empty.
        said: String,
    },
    /// What it wrote is no reading that we know.
    #[error("the sampler's reading could not be understood: {0}")]
    NotUnderstood(String),
}

fn complaint(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// One reading of this machine within 2 s. Blocks for that long at most, whatever the driver does.
pub(crate) fn read_one_snapshot(sampling: &Sampling) -> Result<Snapshot, LiveError> {
    readings(sampling, 1).map(|(first, _)| first)
}

/// The same, and a second reading one interval later, which shows what each process did meanwhile. There is none if no
/// process is listed or the driver stops answering.
pub(crate) fn read_two_snapshots(sampling: &Sampling) -> Result<(Snapshot, Option<Snapshot>), LiveError> {
    readings(sampling, 2)
}

fn readings(sampling: &Sampling, count: u64) -> Result<(Snapshot, Option<Snapshot>), LiveError> {
    let order = Order { sampling: sampling.clone(), count: Some(count), is_paced: false };
    let mut child = sampler(&order).stderr(Stdio::piped()).spawn()?;
    let deadline = Instant::now() + DEADLINE;
    let words = child.stderr.take().map(|errors| LastWords::of(&child, errors));
    let mut lines = Lines::of(&mut child, deadline)?;
    let result = match lines.first_two() {
        Ok(Some([header, snapshot])) => parse_lines(&header, &snapshot).map_err(LiveError::NotUnderstood),
        Ok(None) => {
            // A child that still runs has closed its output and reports nothing more.
            end_group(&mut child);
            let (status, said) = ended(&mut child, words);
            Err(LiveError::Ended { status, said })
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(LiveError::DriverDoesNotAnswer),
        Err(error) => Err(error.into()),
    };
    let result = result.map(|first| {
        let is_worth_it = count > 1 && first.devices.iter().any(|device| !device.processes.is_empty());
        let second = if is_worth_it { lines.next_within(sampling.interval + DEADLINE) } else { None };
        (first, second)
    });
    // The child is not waited for: within a driver call, such as closing it, it may outlive any signal for a while.
    end_group(&mut child);
    child.try_wait().ok();
    result
}

/// The command of the sampling child: this very program, in a session of its own so that Ctrl-C does not reach it and the
/// driver's library finds no terminal, with its output piped and its input closed. The child ends when its output is
/// closed, and is killed when the thread that starts it ends, so start it from a thread that lives as long as it is needed.
#[allow(unsafe_code, reason = "the child must ask for its own end before it runs the program")]
fn sampler(order: &Order) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("oomdoctor").args(order.arguments());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only three system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(move || end_with(parent)) };
    command
}

/// Makes this process, a child of `parent`, lead a session of its own and end with its parent.
fn end_with(parent: rustix::process::Pid) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have ended before that.
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

/// The same without an end: its pace is told on its standard input.
pub(crate) fn paced_sampler(sampling: &Sampling) -> Command {
    let mut command = sampler(&Order { sampling: sampling.clone(), count: None, is_paced: true });
    command.stdin(Stdio::piped());
    command
}

/// The lines that the sampling child prints.
struct Lines(BufReader<Take<Output<ChildStdout>>>);

impl Lines {
    fn of(child: &mut Child, deadline: Instant) -> io::Result<Lines> {
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok(Lines(BufReader::new(Output::of(child, output, Some(deadline)).take(MOST_BYTES))))
    }

    /// The first two lines; `None` where the stream ends before.
    fn first_two(&mut self) -> io::Result<Option<[Vec<u8>; 2]>> {
        let mut lines = [Vec::new(), Vec::new()];
        for line in &mut lines {
            self.0.read_until(b'\n', line)?;
        }
        Ok(lines.iter().all(|line| line.ends_with(b"\n")).then_some(lines))
    }

    /// The reading of the next line, if it comes within this time.
    fn next_within(&mut self, patience: Duration) -> Option<Snapshot> {
        self.0.get_mut().get_mut().wait_until(Instant::now() + patience);
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }
}

fn parse_lines(header: &[u8], snapshot: &[u8]) -> Result<Snapshot, String> {
    let header: Header = serde_json::from_slice(header).map_err(|error| error.to_string())?;
    if header.schema > SCHEMA {
        return Err(format!("it is of schema {}, this program reads up to {SCHEMA}", header.schema));
    }
    serde_json::from_slice(snapshot).map_err(|error| error.to_string())
}
