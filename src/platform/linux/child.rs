//! Owns children of this process: their start, their end, and reading what they write until they end. A driver library may
//! start processes of its own, which keep the child's pipes open for as long as they like: the end of a pipe says nothing
//! about the child then.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, waitpid};

use crate::platform::unix::pipe::timespec;

/// How much of a child's last words is kept.
const LAST_WORDS: usize = 4096;
/// How long a child that is no longer read may take to exit.
const LONGEST_EXIT: Duration = Duration::from_secs(2);

/// A child that runs, and this program's ends of its pipes.
#[derive(Debug)]
pub(crate) struct Started {
    pub child: Offspring,
    /// Its standard input, where that is a pipe.
    pub input: Option<File>,
    pub output: Output,
}

impl Started {
    /// Starts a command. Its output is piped; its input and its standard error are if the command says so.
    pub(crate) fn by(command: &mut Command) -> io::Result<Started> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let (input, errors) = (child.stdin.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok(Started::new(Offspring::of(&child)?, input, output.into(), errors))
    }

    pub(crate) fn new(child: Offspring, input: Option<OwnedFd>, output: OwnedFd, errors: Option<OwnedFd>) -> Started {
        let exited = pidfd_open(child.pid, PidfdFlags::empty()).ok();
        let output = Output {
            pipe: Some(output.into()),
            errors: errors.map(File::from),
            said: Vec::new(),
            exited,
            deadline: None,
        };
        Started { child, input: input.map(File::from), output }
    }

    /// Reads no more of it and waits for its end, but not for ever: within a driver call a child may outlive any signal. Its
    /// exit status in words, and its last words.
    pub(crate) fn ended(&mut self) -> (String, String) {
        let (said, has_exited) = self.output.last_words(Instant::now() + LONGEST_EXIT);
        if !has_exited {
            return (format!("it does not exit within {} s", LONGEST_EXIT.as_secs()), said);
        }
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        (status, said)
    }
}

/// A child of this process. Its PID is nobody else's until it was waited for: by this, or by the system where the program was
/// started with SIGCHLD ignored.
#[derive(Debug)]
pub(crate) struct Offspring {
    pid: Pid,
    ended: Option<ExitStatus>,
}

impl Offspring {
    fn of(child: &Child) -> io::Result<Offspring> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(Offspring::forked).ok_or_else(|| io::Error::other("no PID"))
    }

    pub(crate) fn forked(pid: Pid) -> Offspring {
        Offspring { pid, ended: None }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        // An error means that it is no child any more.
        !matches!(self.reap(WaitOptions::NOHANG), Ok(None))
    }

    fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            match self.reap(WaitOptions::empty()) {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn reap(&mut self, how: WaitOptions) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = waitpid(Some(self.pid), how)?.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.ended)
    }

    /// Ends it, and whom it started in the group that it leads. It is not waited for: within a driver call, such as closing
    /// the driver, it may outlive any signal for a while.
    pub(crate) fn end_group(&mut self) {
        if !self.has_ended() {
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    /// Ends it alone, and waits until it has exited.
    pub(crate) fn end(&mut self) {
        if !self.has_ended() {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.wait();
        }
    }
}

/// What a child writes, which ends with the child. What it says on standard error is read as well, all the time: one that
/// says a lot must not wait.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None` once nobody reads it any more, which ends a child that writes.
    pipe: Option<File>,
    errors: Option<File>,
    /// The end of what it said.
    said: Vec<u8>,
    /// Readable once the child has exited. `None` where the kernel has none (before 5.3): then the pipe's end counts.
    exited: Option<OwnedFd>,
    /// Reading fails with `TimedOut` from then on.
    deadline: Option<Instant>,
}

impl Output {
    /// Reading fails with `TimedOut` from then on.
    pub(crate) fn wait_until(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }

    /// Takes what the child said on standard error.
    fn listen(&mut self) {
        let Some(errors) = &mut self.errors else { return };
        let mut block = [0; 4096];
        match errors.read(&mut block) {
            Ok(count @ 1..) => {
                self.said.extend(block.iter().take(count));
                let surplus = self.said.len().saturating_sub(LAST_WORDS);
                self.said.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.errors = None,
        }
    }

    /// The end of what the child said, and whether it has exited, which is waited for until then. Nothing that it writes is
    /// read any more.
    fn last_words(&mut self, until: Instant) -> (String, bool) {
        self.pipe = None;
        // Without a sign of its end, that of what it says counts.
        let mut has_exited = false;
        while !has_exited && (self.errors.is_some() || self.exited.is_some()) && Instant::now() < until {
            let watched = [self.errors.as_ref().map(AsFd::as_fd), self.exited()];
            let Ok([is_said, is_exited]) = ready(watched, Some(until.saturating_duration_since(Instant::now()))) else {
                break;
            };
            if is_said {
                self.listen();
            }
            // What was said before the end is read first.
            has_exited = is_exited && !is_said;
        }
        let said = crate::text::harmless(String::from_utf8_lossy(&self.said).trim()).into_owned();
        (said, has_exited || self.exited.is_none())
    }

    fn exited(&self) -> Option<BorrowedFd<'_>> {
        self.exited.as_ref().map(AsFd::as_fd)
    }
}

/// Waits until one of these can be read, at most that long: which of them can.
fn ready<const N: usize>(files: [Option<BorrowedFd<'_>>; N], patience: Option<Duration>) -> io::Result<[bool; N]> {
    let mut watched: Vec<PollFd<'_>> =
        files.iter().flatten().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    match poll(&mut watched, patience.map(timespec).as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok([false; N]),
        Err(error) => return Err(error.into()),
    }
    let mut events = watched.iter().map(|watched| !watched.revents().is_empty());
    Ok(files.map(|file| file.is_some() && events.next().unwrap_or(false)))
}

impl Read for Output {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let Some(pipe) = &mut self.pipe else { return Ok(0) };
            let exited = self.exited.as_ref().map(AsFd::as_fd);
            let watched = [Some(pipe.as_fd()), self.errors.as_ref().map(AsFd::as_fd), exited];
            let [is_written, is_said, has_exited] = ready(watched, left)?;
            // What was written before the end is read first.
            let read = if is_written { Some(pipe.read(block)) } else { None };
            if is_said {
                self.listen();
            }
            if let Some(read) = read {
                return read;
            }
            if has_exited {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Started {
        Started::by(Command::new("sh").args(["-c", script]).stderr(Stdio::piped())).unwrap()
    }

    #[test]
    fn what_a_child_says_ends_with_the_child_and_not_with_whom_it_started() {
        let mut child = shell("sleep 1000 & echo $!; echo trouble >&2");
        let mut said = String::new();
        child.output.read_to_string(&mut said).unwrap();
        assert_eq!(child.ended(), ("exit status: 0".to_owned(), "trouble".to_owned()));
        let left = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        kill_process(left, Signal::KILL).unwrap();
    }

    #[test]
    fn a_child_that_says_more_than_a_pipe_holds_is_not_kept_waiting() {
        let mut child = shell(
            "head -c 200000 /dev/zero | tr '\\0' x >&2; echo done; exec >&-; head -c 200000 /dev/zero >&2; echo end >&2",
        );
        let mut written = String::new();
        child.output.read_to_string(&mut written).unwrap();
        assert_eq!(written, "done\n");
        let (status, said) = child.ended();
        assert_eq!(status, "exit status: 0");
        assert!(said.ends_with("end") && said.len() <= 3 * LAST_WORDS, "{} bytes", said.len());
    }

    #[test]
    fn a_child_that_nobody_reads_any_more_finds_its_pipe_closed() {
        let mut child = shell("trap '' PIPE; echo first; while echo more 2> /dev/null; do :; done; echo closed >&2");
        assert_eq!(child.output.read(&mut [0]).unwrap(), 1);
        assert_eq!(child.ended().1, "closed");
    }

    #[test]
    fn a_child_that_was_reaped_by_another_is_signaled_no_more() {
        let mut child = shell("exit 0");
        assert_eq!(child.output.read(&mut [0]).unwrap(), 0);
        waitpid(Some(child.child.pid), WaitOptions::empty()).unwrap();
        assert!(child.child.has_ended());
    }

    #[test]
    fn a_silent_child_is_waited_for_until_the_deadline() {
        let mut child = Started::by(Command::new("sleep").arg("1000")).unwrap();
        child.output.wait_until(Instant::now() + Duration::from_millis(20));
        assert_eq!(child.output.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        child.child.end_group();
        child.output.deadline = None;
        assert_eq!(child.output.read(&mut [0]).unwrap(), 0);
        assert_eq!(child.ended().0, "signal: 9 (SIGKILL)");
    }
}
