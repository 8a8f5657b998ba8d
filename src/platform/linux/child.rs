//! Owns reading what a child writes until that child ends. A driver library may start processes of its own, which keep
//! the child's pipes open for as long as they like: the end of a pipe says nothing about the child then.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::platform::unix::pipe::timespec;

/// How much of a child's last words is kept.
const LAST_WORDS: usize = 4096;

/// A pipe from a child, which ends with the child.
#[derive(Debug)]
pub(crate) struct Output<R> {
    pipe: R,
    /// Readable once the child has exited. `None` where the kernel has none (before 5.3): then the pipe's end counts.
    child: Option<OwnedFd>,
    /// Reading fails with `TimedOut` from then on.
    deadline: Option<Instant>,
}

impl<R: Read + AsFd> Output<R> {
    pub(crate) fn of(child: &Child, pipe: R, deadline: Option<Instant>) -> Output<R> {
        let child = process(child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Output { pipe, child, deadline }
    }
}

impl<R> Output<R> {
    /// Reading fails with `TimedOut` from then on.
    pub(crate) fn wait_until(&mut self, deadline: Instant) {
        self.deadline = Some(deadline);
    }
}

impl<R: Read + AsFd> Read for Output<R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut watched = vec![PollFd::new(&self.pipe, PollFlags::IN)];
            watched.extend(self.child.as_ref().map(|child| PollFd::new(child, PollFlags::IN)));
            match poll(&mut watched, left.map(timespec).as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // What was written before the end is read first.
                Ok(_) if watched.first().is_some_and(|pipe| pipe.revents().is_empty()) => return Ok(0),
                Ok(_) => return self.pipe.read(block),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The end of what a child says on standard error, which is read all the time: one that writes a lot must not wait.
#[derive(Debug)]
pub(crate) struct LastWords {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl LastWords {
    pub(crate) fn of(child: &Child, errors: ChildStderr) -> LastWords {
        let mut errors = Output::of(child, errors, None);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        let reader = thread::Builder::new().name("last-words".into()).spawn(move || {
            let mut block = vec![0; 16 << 10];
            while let Ok(count @ 1..) = errors.read(&mut block) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(block.iter().take(count));
                let surplus = kept.len().saturating_sub(LAST_WORDS);
                kept.drain(..surplus);
            }
        });
        LastWords { kept, reader: reader.ok() }
    }

    /// All of them, once the child has exited.
    pub(crate) fn said(mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        crate::text::harmless(String::from_utf8_lossy(&kept).trim()).into_owned()
    }
}

/// Waits for a child: its exit status in words, and its last words.
pub(crate) fn ended(child: &mut Child, words: Option<LastWords>) -> (String, String) {
    let status = match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    (status, words.map(LastWords::said).unwrap_or_default())
}

/// Ends a child that leads a process group, and whom it started in that group. Not yet waited for, so that its
/// PID is nobody else's.
pub(crate) fn end_group(child: &mut Child) {
    if let (Some(pid), Ok(None)) = (process(child), child.try_wait()) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
}

fn process(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_child_says_ends_with_the_child_and_not_with_whom_it_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; echo trouble >&2"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (errors, output) = (child.stderr.take().unwrap(), child.stdout.take().unwrap());
        let (words, mut output) = (LastWords::of(&child, errors), Output::of(&child, output, None));
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        assert_eq!(words.said(), "trouble");
        assert!(child.wait().unwrap().success());
        let left = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(left, Signal::KILL).unwrap();
    }

    #[test]
    fn a_silent_child_is_waited_for_until_the_deadline() {
        let mut child = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let deadline = Instant::now() + Duration::from_millis(20);
        let mut output = Output::of(&child, output, Some(deadline));
        assert_eq!(output.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        child.kill().unwrap();
        output.deadline = None;
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        child.wait().unwrap();
    }
}
