//! Owns running a command in this program's place: it gets the same standard input, terminal, process group, folder and
//! environment, and its output goes on byte for byte. The command stays in the group that the shell started, so Ctrl-C and
//! Ctrl-Z reach it as they would without this program. Only its output passes through here: through a terminal of its own
//! (`terminal`) where it went to one, else through a pipe. What is recorded is a copy that nothing waits for (`queue`).
//! Nothing here may fail because of the recorder: a job of days depends on it.

mod keys;
mod queue;
mod shell;
mod signals;
mod stream;
mod terminal;
mod witness;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::poll;
use rustix::process::{Pid, WaitOptions, WaitStatus, getpgrp, waitpid};
use rustix::termios::tcgetpgrp;

use crate::platform::contract::Relayed;
use crate::platform::linux::procfs::Procfs;
use crate::platform::unix::given::detach;
use crate::platform::unix::output::was_closed;
use crate::platform::unix::pipe::timespec;
use crate::record::frame::{Begin, Frame, What};
use crate::record::{End, Millis};
use queue::Queue;
use signals::{Received, Signals};
use stream::{Left, Stream};
use terminal::OwnTerminal;

/// A signal to a group reaches its processes one after the other, within microseconds.
const REACHED: Duration = Duration::from_millis(10);
/// A window whose edge is dragged has another size each time.
const MOST_LOOKS: usize = 10;

/// Runs a command and waits for its end. `recorder` gets what `begin` says of it (its PID, and whether its output comes as
/// it is printed), its output and its end. Must be called from the program's first thread, while it is the only one.
/// Fails if the command can't be started.
pub(crate) fn run(
    argv: &[OsString],
    environment: &[(OsString, OsString)],
    recorder: Option<impl Write + Send + 'static>,
    begin: impl FnOnce(u32, bool) -> Begin,
) -> io::Result<Relayed> {
    let queue = Queue::default();
    let relay = Relay::start(argv, environment, queue.clone())?;
    queue.push(Frame { at: 0, what: What::Begin(begin(relay.pid(), relay.is_prompt())) });
    // Without a recorder the command runs all the same.
    match recorder.map(|recorder| queue.feed(recorder)) {
        Some(Ok(())) => {}
        Some(Err(_)) | None => queue.forget(),
    }
    relay.run()
}

/// A command that was started.
struct Relay {
    pid: Pid,
    signals: Signals,
    streams: Vec<Stream>,
    terminal: Option<OwnTerminal>,
    began: Instant,
    queue: Queue,
}

/// The pipes and terminals that a command's output goes to. Where there is none, it goes where this program's goes.
#[derive(Default)]
struct Wiring {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    streams: Vec<Stream>,
    terminal: Option<OwnTerminal>,
}

impl Relay {
    fn start(argv: &[OsString], environment: &[(OsString, OsString)], queue: Queue) -> io::Result<Relay> {
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        // From here on signals wait until they are read, also those of a child that ends at once.
        let signals = Signals::take()?;
        let is_shell = io::stdin().is_terminal() && shell::is_interactive(argv);
        let wiring = if is_shell { Wiring::default() } else { wire()? };
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(stdout) = wiring.stdout {
            command.stdout(Stdio::from(stdout));
        }
        if let Some(stderr) = wiring.stderr {
            command.stderr(Stdio::from(stderr));
        }
        signals.give_back_in(&mut command);
        let child = command.spawn();
        // The command's ends must be closed here, or the output would never end.
        drop(command);
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                signals.give_back()?;
                return Err(error);
            }
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let_go_of_streams();
        Ok(Relay { pid, signals, streams: wiring.streams, terminal: wiring.terminal, began: Instant::now(), queue })
    }

    /// The PID of the command.
    fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether output comes as it is printed.
    fn is_prompt(&self) -> bool {
        self.terminal.is_some()
    }

    /// Passes on output and signals until the command exits. Then what is left goes on by itself: see `Left`.
    fn run(mut self) -> io::Result<Relayed> {
        let (stop, stopping) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (queue, began) = (self.queue.clone(), self.began);
        let mut threads = Vec::new();
        for stream in std::mem::take(&mut self.streams) {
            let (stop, queue) = (stop.try_clone()?, queue.clone());
            threads.push(thread::Builder::new().name("relay".into()).spawn(move || {
                stream.relay(&stop, |bytes| queue.push(Frame { at: since(began), what: What::Output(bytes) }))
            })?);
        }
        let end = self.wait()?;
        drop(stopping);
        let mut ended_with_a_line = true;
        for thread in threads {
            // A thread of this file does not panic; if it did, its output would be lost, not the exit code.
            let Ok(end) = thread.join() else { continue };
            ended_with_a_line &= end.ended_with_a_line;
            if let Some(left) = end.left {
                go_on(left);
            }
        }
        queue.finish(Frame { at: since(began), what: What::End(end) }, !end.is_success());
        self.signals.give_back()?;
        Ok(Relayed { end, ended_with_a_line })
    }

    /// Waits for the command's end. Follows it where it stops, and passes on signals that only this program got.
    fn wait(&mut self) -> io::Result<End> {
        loop {
            match self.signals.next()? {
                Received::Child => match self.child_state()? {
                    Some(State::Ended(end)) => return Ok(end),
                    Some(State::Stopped(signal)) => self.stop(signal)?,
                    None => {}
                },
                Received::Other(sent) if sent.number == libc::SIGWINCH && self.terminal.is_some() => self.resize(),
                Received::Other(sent) => {
                    if self.signals.is_for_us_alone(sent) {
                        signals::send(self.pid, sent.number);
                    }
                }
            }
        }
    }

    /// The real terminal has another size.
    fn resize(&self) {
        let Some(terminal) = &self.terminal else { return };
        // The kernel sends the signal first and changes the size then.
        for _ in 0..MOST_LOOKS {
            terminal.take_size();
            // The command may have looked at the size when its own signal came, which was too early.
            signals::send(self.pid, libc::SIGWINCH);
            let _ = poll(&mut [], Some(&timespec(REACHED)));
            if terminal.has_the_size() {
                return;
            }
        }
    }

    fn child_state(&self) -> io::Result<Option<State>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        let Some((_, status)) = waitpid(Some(self.pid), options)? else { return Ok(None) };
        Ok(state(status))
    }

    /// Stops as the command did, so that the shell shows its prompt. Goes on when the shell says so.
    fn stop(&mut self, signal: i32) -> io::Result<()> {
        // Somebody else may stop and continue the command alone, without a shell that would continue this process.
        if signal == libc::SIGSTOP && !is_in_the_foreground() {
            return Ok(());
        }
        // A shell that continues the group may have reached this process before the command.
        let _ = poll(&mut [], Some(&timespec(REACHED)));
        if !is_stopped(self.pid) {
            return Ok(());
        }
        self.signals.stop_by(signal)
    }
}

/// Whether the keys of the terminal go to this process group.
fn is_in_the_foreground() -> bool {
    let terminal = File::options().read(true).open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

fn is_stopped(pid: Pid) -> bool {
    let pid = pid.as_raw_nonzero().get().unsigned_abs();
    Procfs::default().stat(pid).is_ok_and(|stat| stat.state == 'T')
}

enum State {
    Ended(End),
    Stopped(i32),
}

fn state(status: WaitStatus) -> Option<State> {
    if let Some(code) = status.exit_status() {
        return Some(State::Ended(End::Code(code)));
    }
    if let Some(signal) = status.terminating_signal() {
        return Some(State::Ended(End::Signal(signal)));
    }
    status.stopping_signal().map(State::Stopped)
}

fn since(began: Instant) -> Millis {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Ends this program the way the command ended; the shell sees the same. Returns the exit code where it goes on.
pub(crate) fn end_as(end: End) -> u8 {
    match end {
        End::Code(code) => u8::try_from(code & 0xff).unwrap_or(1),
        End::Signal(signal) => {
            signals::end_by(signal);
            u8::try_from(128 + signal).unwrap_or(1)
        }
        End::Unknown => 1,
    }
}

/// Lets a process of its own pass on what the command's own children may still write: they would lose their output,
/// or die of it, if nobody read. It ends with them.
fn go_on(left: Left) {
    let mut relay = Command::new("/proc/self/exe");
    detach(&mut relay);
    let _ = relay
        .arg0("oomdoctor")
        .arg("pass-on")
        .stdin(File::from(left.from))
        .stdout(File::from(left.to))
        .stderr(Stdio::null())
        .spawn();
}

/// Closes this process's own copies of what the command reads, and of the pipes and files that its output ends in, so that
/// those at their other ends learn when the command closes its own. A terminal stays: what is said at the end goes there.
fn let_go_of_streams() {
    let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdin(&nothing);
    if !io::stdout().is_terminal() {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
    if !io::stderr().is_terminal() {
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

/// Decides how each stream goes on. What is closed stays closed.
fn wire() -> io::Result<Wiring> {
    let (stdout, stderr) = (Sink::of(io::stdout().as_fd()), Sink::of(io::stderr().as_fd()));
    let mut wiring = Wiring::default();
    let is_one = stdout.as_ref().zip(stderr.as_ref()).is_some_and(|(out, err)| out.is_same(err));
    if let Some(sink) = stdout {
        let (theirs, stream, terminal) = connect(sink)?;
        if is_one {
            wiring.stderr = Some(theirs.try_clone()?);
        }
        wiring.stdout = Some(theirs);
        wiring.streams.push(stream);
        wiring.terminal = terminal;
    }
    if let (Some(sink), false) = (stderr, is_one) {
        let (theirs, stream, terminal) = connect(sink)?;
        wiring.stderr = Some(theirs);
        wiring.streams.push(stream);
        wiring.terminal = wiring.terminal.or(terminal);
    }
    Ok(wiring)
}

/// Where output goes.
struct Sink {
    file: OwnedFd,
    is_terminal: bool,
    /// The device and inode, and of a device its number.
    identity: (u64, u64, u64),
}

impl Sink {
    /// `None` where it is closed.
    fn of(stream: BorrowedFd<'_>) -> Option<Sink> {
        if was_closed(stream.as_raw_fd()) {
            return None;
        }
        let file = stream.try_clone_to_owned().ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        Some(Sink {
            is_terminal: rustix::termios::isatty(&file),
            identity: (stat.st_dev, stat.st_ino, stat.st_rdev),
            file,
        })
    }

    fn is_same(&self, other: &Sink) -> bool {
        self.identity == other.identity
    }
}

/// What the command writes to, what reads it here, and the terminal if it is one.
fn connect(sink: Sink) -> io::Result<(OwnedFd, Stream, Option<OwnTerminal>)> {
    if sink.is_terminal {
        // Without pseudo-terminals (a bare chroot) a pipe must do.
        if let Ok((terminal, theirs)) = OwnTerminal::like(&sink.file) {
            let from = terminal.reader()?;
            let modes = terminal.modes()?;
            return Ok((theirs, Stream { from, to: sink.file, modes: Some(modes) }, Some(terminal)));
        }
    }
    let (from, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((theirs, Stream { from, to: sink.file, modes: None }, None))
}
