//! Owns reading this machine once, safely: the sampler runs as a child process with a deadline, since a driver call
//! may hang for ever and could then not even be interrupted.

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Take, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid};

use super::child::{Offspring, Output, Started};
use super::order::Order;
use crate::gpu::{Header, SCHEMA, Snapshot};
use crate::platform::contract::Sampling;

/// How long the driver may take for the first reading. Without persistence mode each process starts it anew, which takes
/// 1 to 3 s a GPU where memory with ECC is scrubbed.
const DEADLINE: Duration = Duration::from_secs(10);
/// A person who waits longer than this is told what for.
const UNEXPLAINED: Duration = Duration::from_secs(2);
/// How long a driver that has started may take for a reading.
const NEXT_DEADLINE: Duration = Duration::from_secs(2);
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

/// One reading of this machine. Blocks for [`DEADLINE`] at most, whatever the driver does.
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
    let mut started = Started::by(sampler(&order).stderr(Stdio::piped()))?;
    let begun = Instant::now();
    let mut lines = Lines(BufReader::new((&mut started.output).take(MOST_BYTES)));
    let result = match lines.first_two(begun + UNEXPLAINED, begun + DEADLINE, say_what_is_awaited) {
        Ok(Some([header, snapshot])) => parse_lines(&header, &snapshot).map_err(LiveError::NotUnderstood),
        Ok(None) => {
            // A child that still runs has closed its output and reports nothing more.
            started.child.end_group();
            let (status, said) = started.ended();
            return Err(LiveError::Ended { status, said });
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(LiveError::DriverDoesNotAnswer),
        Err(error) => Err(error.into()),
    };
    let result = result.map(|first| {
        let is_worth_it = count > 1 && first.devices.iter().any(|device| !device.processes.is_empty());
        let second = if is_worth_it { lines.next_within(sampling.interval + NEXT_DEADLINE) } else { None };
        (first, second)
    });
    started.child.end_group();
    result
}

/// Says once, and only on a terminal, why nothing happens: a script that stores standard error must not find it there.
fn say_what_is_awaited() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let mut errors = io::stderr();
        if errors.is_terminal() {
            // An error here is ignored: if standard error is closed, nobody reads messages.
            let _ = writeln!(errors, "{}", awaited());
        }
    });
}

fn awaited() -> String {
    let most = DEADLINE.as_secs();
    format!("oomdoctor: waiting for the GPU driver, up to {most} s; with nvidia-persistenced it starts at once")
}

/// The command of the sampling child: this very program, in a session of its own so that Ctrl-C does not reach it and the
/// driver's library finds no terminal, with its output piped and its input closed. The child ends when its output is
/// closed, and is killed when the thread that starts it ends, so start it from a thread that lives as long as it is needed.
#[allow(unsafe_code, reason = "the child must ask for its own end before it runs the program")]
fn sampler(order: &Order) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("oomdoctor").args(order.arguments());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let parent = getpid();
    // SAFETY: between fork and exec only three system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(move || end_with(parent)) };
    command
}

/// Makes this process, a child of `parent`, lead a session of its own and end with its parent.
fn end_with(parent: Pid) -> io::Result<()> {
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

/// What a fork gives: it returns in both processes.
pub(crate) enum Fork {
    /// In this program: the sampler that runs now; `None` where it has to be started later.
    Program(Option<Box<Started>>),
    /// In the child, which was the sampler until nobody read it any more.
    Sampler(io::Result<()>),
}

/// Starts the paced sampler as a copy of this process: without loading the program a second time it has its first reading
/// while this one still takes the terminal, and both share what is loaded. Only for the start of the program: while other
/// threads run, and files are open that a child must not keep, `paced_sampler` is the way.
pub(crate) fn fork(sampling: &Sampling) -> Fork {
    let pipes = [pipe_with(PipeFlags::CLOEXEC), pipe_with(PipeFlags::CLOEXEC), pipe_with(PipeFlags::CLOEXEC)];
    let [Ok(input), Ok(output), Ok(errors)] = pipes else { return Fork::Program(None) };
    if !is_single_threaded() {
        return Fork::Program(None);
    }
    let parent = getpid();
    #[allow(unsafe_code, reason = "the system has no other interface")]
    // SAFETY: this is the only thread, so the child's copy of the memory has no lock that nobody will ever release.
    match unsafe { libc::fork() } {
        0 => {
            drop((input.1, output.0, errors.0));
            Fork::Sampler(become_sampler(parent, sampling, [input.0, output.1, errors.1]))
        }
        // Without room for another process it is tried later.
        child if child < 0 => Fork::Program(None),
        child => {
            let child = Pid::from_raw(child).map(Offspring::forked);
            let started = child.map(|child| Started::new(child, Some(input.1), output.0, Some(errors.0)));
            Fork::Program(started.map(Box::new))
        }
    }
}

fn is_single_threaded() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Goes on as the sampling child of `parent`, with these as its standard streams.
fn become_sampler(parent: Pid, sampling: &Sampling, [input, output, errors]: [OwnedFd; 3]) -> io::Result<()> {
    // First of all, so that nothing is said on the person's terminal.
    rustix::stdio::dup2_stderr(&errors)?;
    rustix::stdio::dup2_stdin(&input)?;
    rustix::stdio::dup2_stdout(&output)?;
    drop((input, output, errors));
    end_with(parent)?;
    super::obey(Order { sampling: sampling.clone(), count: None, is_paced: true })
}

/// The lines that the sampling child prints.
struct Lines<'a>(BufReader<Take<&'a mut Output>>);

impl Lines<'_> {
    /// The first two lines, by the deadline; `None` where the stream ends before. If they are not complete by `explained`,
    /// `explain` is called.
    fn first_two(
        &mut self,
        explained: Instant,
        deadline: Instant,
        explain: impl Fn(),
    ) -> io::Result<Option<[Vec<u8>; 2]>> {
        let mut lines = [Vec::new(), Vec::new()];
        self.wait_until(explained);
        for line in &mut lines {
            match self.0.read_until(b'\n', line) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut && Instant::now() < deadline => {
                    explain();
                    self.wait_until(deadline);
                    // What was read of the line before is kept.
                    self.0.read_until(b'\n', line)?;
                }
                read => {
                    read?;
                }
            }
        }
        Ok(lines.iter().all(|line| line.ends_with(b"\n")).then_some(lines))
    }

    fn wait_until(&mut self, deadline: Instant) {
        self.0.get_mut().get_mut().wait_until(deadline);
    }

    /// The reading of the next line, if it comes within this time.
    fn next_within(&mut self, patience: Duration) -> Option<Snapshot> {
        self.wait_until(Instant::now() + patience);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The first two lines of what this shell script prints, and how often the wait was explained. The script goes on
    /// when it reads a line, which the explanation writes.
    fn first_two(script: &str, explained: Duration, most: Duration) -> (io::Result<Option<[Vec<u8>; 2]>>, u32) {
        let mut started = Started::by(Command::new("sh").args(["-c", script]).stdin(Stdio::piped())).unwrap();
        let mut input = started.input.take().unwrap();
        let mut lines = Lines(BufReader::new((&mut started.output).take(MOST_BYTES)));
        let (explanations, now) = (Cell::new(0), Instant::now());
        let read = lines.first_two(now + explained, now + most, || {
            explanations.set(explanations.get() + 1);
            writeln!(&input, "go on").unwrap();
        });
        input.flush().unwrap();
        started.child.end();
        (read, explanations.get())
    }

    #[test]
    fn a_slow_driver_is_waited_for_and_the_wait_is_explained_once() {
        const LONG: Duration = Duration::from_secs(60);
        let (read, explanations) = first_two("printf 'hea'; read on; printf 'der\\nreading\\n'", Duration::ZERO, LONG);
        assert_eq!(read.unwrap().unwrap(), [b"header\n".to_vec(), b"reading\n".to_vec()]);
        assert_eq!(explanations, 1);
        let (read, explanations) = first_two("printf 'header\\nreading\\n'", LONG, LONG);
        assert!(read.unwrap().is_some());
        assert_eq!(explanations, 0, "nobody waited long");
    }

    #[test]
    fn a_driver_that_hangs_is_given_up_at_the_deadline() {
        let (read, explanations) = first_two("read on; exec sleep 1000", Duration::ZERO, Duration::from_millis(20));
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(explanations, 1);
        const { assert!(NEXT_DEADLINE.as_secs() < DEADLINE.as_secs()) };
    }
}
