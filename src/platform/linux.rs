//! Owns Linux: GPUs through NVIDIA's driver, processes through /proc and pidfds, and what the system does in its own way
//! among Unix systems: the terminal's bytes as they come, and the sampler's output.

pub(crate) mod brief;
pub(crate) mod child;
pub(crate) mod feed;
pub mod kernel;
pub(crate) mod live;
pub(crate) mod order;
pub mod probe;
pub mod procfs;
pub(crate) mod relay;
pub mod release;
mod windows;

use std::collections::BTreeSet;
use std::ffi::{OsString, c_int};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) use child::Started;
pub use kernel::Kernel;
pub(crate) use live::{Fork, fork};
use order::Order;
use procfs::Procfs;
use procfs::load::Load;
pub(crate) use relay::{end_as, run as run_in_place};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Pid, getpid};

use super::contract::{News, ReadLoad, Sampling, SetPace, Typed, write_line};
use crate::gpu::anonymous::Anonymous;
use crate::gpu::windows::WindowsReading;
use crate::gpu::{Snapshot, Vantage};
use crate::platform::unix::output::check_output_open;
use crate::platform::unix::pipe::timespec;

impl Sampling {
    /// Where processes are read.
    pub fn procfs(&self) -> Procfs {
        let root = self.process_folder.as_deref().unwrap_or(Path::new("/proc"));
        let procfs = Procfs::new(root).with_devices(&self.device_folder);
        match &self.system_folder {
            Some(system) => procfs.with_system(system),
            None => procfs,
        }
    }
}

/// Why this build neither reads GPUs nor signals processes; `None` where it does both.
pub const LOGS_ONLY: Option<&str> = None;
/// Where every reading of this build was taken, in addition to what the machine shows.
pub(crate) const SEEN_FROM: &[Vantage] = &[];

/// The machine's processes. Those `spared` by name may not be signaled, and inside a Kubernetes pod none may be
/// unless `allow_kill` is set.
pub(crate) fn kernel(sampling: &Sampling, spared: &[String], allow_kill: bool) -> Kernel {
    let procfs = sampling.procfs();
    let is_held_by_pod = !allow_kill && procfs.is_in_a_pod();
    Kernel { spared: spared.to_vec(), is_held_by_pod, ..Kernel::new(procfs) }
}

/// The processes that use a GPU, and all those above them: a shell that started one is recognized by it.
pub(crate) fn above_gpu_processes(sampling: &Sampling) -> BTreeSet<u32> {
    let procfs = sampling.procfs();
    let users = procfs.pids().into_iter().filter(|pid| procfs.has_card_open(*pid));
    users.flat_map(|pid| procfs.ancestors(pid).into_iter().chain([pid])).collect()
}

/// One reading within a deadline, or why there is none.
pub(crate) fn read_once(sampling: &Sampling) -> Result<Snapshot, String> {
    live::read_one_snapshot(sampling).map_err(|error| error.to_string())
}

/// The same, and a second reading one interval later if any process is listed.
pub(crate) fn read_twice(sampling: &Sampling) -> Result<(Snapshot, Option<Snapshot>), String> {
    live::read_two_snapshots(sampling).map_err(|error| error.to_string())
}

/// Reads again and again until `tell` answers that nobody listens; the sampler may run already.
pub(crate) fn watch(
    sampling: Sampling,
    first: Option<Box<Started>>,
    tell: impl Fn(News) -> bool + Send + 'static,
) -> io::Result<SetPace> {
    let interval = sampling.interval;
    let pacer = feed::live(move || live::paced_sampler(&sampling), first, interval, tell)?;
    Ok(Box::new(move |every| pacer.set(every)))
}

/// Windows' own processes with GPU memory, under WSL2. Takes some seconds.
pub(crate) fn windows_processes() -> WindowsReading {
    windows::read()
}

/// A file for the lines of the sampler, which stand in it without names.
struct NamelessFile {
    file: File,
    line: Vec<u8>,
    is_first: bool,
    names: Anonymous,
}

impl NamelessFile {
    fn new(file: File) -> NamelessFile {
        NamelessFile { file, line: Vec::new(), is_first: true, names: Anonymous::default() }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match News::parse(&line, std::mem::take(&mut self.is_first))? {
            News::Header(header) => write_line(&mut self.file, &Anonymous::header(header))?,
            News::Snapshot(snapshot) => write_line(&mut self.file, &self.names.snapshot(*snapshot))?,
            // None of these was asked for.
            News::Glance(_) | News::Peaks(_) | News::Down(_) | News::OnBattery(_) => true,
        };
        Ok(())
    }
}

impl Write for NamelessFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        self.line.extend(bytes.iter().take(taken));
        if end.is_some() {
            self.write_line()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl AsFd for NamelessFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Writes readings to a file, one per line, without names of people, machines and programs, until `count` are written.
pub(crate) fn record(sampling: &Sampling, count: Option<u64>, file: File) -> io::Result<()> {
    let order = Order { sampling: sampling.clone(), count, is_paced: false };
    probe::run(&order, &mut NamelessFile::new(file), None::<io::Stdin>)
}

/// Writes readings to standard output, one per line, until `count` are written or the output closes.
pub(crate) fn sample(sampling: &Sampling, count: Option<u64>) -> io::Result<()> {
    obey(Order { sampling: sampling.clone(), count, is_paced: false })
}

/// Does what a sampling child was started for; `None` if these are a person's arguments.
pub(crate) fn sample_as_child(arguments: &[OsString]) -> Option<io::Result<()>> {
    Order::parse(arguments).map(obey)
}

fn obey(order: Order) -> io::Result<()> {
    probe::run(&order, &mut Stream::new()?, order.is_paced.then(io::stdin))
}

/// The system memory of a command, read each time it is asked for.
pub(crate) fn load(sampling: &Sampling, pid: u32) -> ReadLoad {
    let mut load = Load::of(sampling.procfs(), pid);
    Box::new(move || load.read())
}

/// Identifies this boot of the machine: PIDs mean the same processes only within one boot.
pub(crate) fn boot_id() -> Option<String> {
    Procfs::default().boot_id()
}

pub(crate) fn host_name() -> String {
    Procfs::default().host_name()
}

/// This name also works after the program's file was replaced.
pub(super) fn own_program() -> io::Result<PathBuf> {
    Ok("/proc/self/exe".into())
}

/// Which program can copy depends on the desktop.
pub(crate) fn clipboard(_: &str) -> Option<(Command, Vec<u8>)> {
    None
}

/// Signals that end a program here and on no other Unix.
pub(super) fn more_ending_signals() -> impl Iterator<Item = c_int> {
    [libc::SIGIO, libc::SIGPWR, libc::SIGSTKFLT].into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

pub(crate) fn can_be_continued() -> bool {
    Procfs::default().shares_its_parents_session(std::process::id())
}

#[derive(Debug)]
pub(crate) struct Bytes(File);

/// The terminal on standard input; where a log comes in there, the one that controls this session.
pub(crate) fn input() -> io::Result<Bytes> {
    let stdin = io::stdin();
    let own = stdin.is_terminal().then(|| stdin.as_fd().try_clone_to_owned().map(File::from));
    own.unwrap_or_else(|| File::open("/dev/tty")).map(Bytes)
}

impl Bytes {
    /// Waits for the next input, at most this long. It is left to others where it may not be read.
    pub(crate) fn next(
        &mut self,
        block: &mut [u8],
        patience: Option<Duration>,
        may_read: impl Fn() -> bool,
    ) -> io::Result<Typed> {
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], patience.map(timespec).as_ref()) {
            Ok(0) => Ok(Typed::Nothing),
            Err(Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            _ if !may_read() => Ok(Typed::Nothing),
            _ => self.0.read(block).map(Typed::Bytes),
        }
    }
}

/// What was standard output, for the readings alone: a driver's library prints there, too, and what it prints goes nowhere
/// from now on. A process that the library forks off finds it closed once it runs a program, and writes nothing to it as
/// a copy of this one.
struct Stream {
    file: File,
    owner: Pid,
}

/// Above what any library takes for its own standard output.
const LEAST_DESCRIPTOR: i32 = 64;

impl Stream {
    /// Standard output from now on.
    fn new() -> io::Result<Stream> {
        check_output_open()?;
        let stdout = io::stdout();
        // A low limit on descriptors may leave only the lower ones.
        let file = fcntl_dupfd_cloexec(stdout.as_fd(), LEAST_DESCRIPTOR)
            .or_else(|_| fcntl_dupfd_cloexec(stdout.as_fd(), 3))?;
        rustix::stdio::dup2_stdout(File::options().read(true).write(true).open("/dev/null")?)?;
        Ok(Stream { file: file.into(), owner: getpid() })
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if getpid() != self.owner {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use crate::platform::regular::read;

    #[test]
    fn pipes_sockets_and_devices_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, target) in [("zero", "/dev/zero"), ("tty", "/dev/tty"), ("folder", "/"), ("to pipe", "pipe")] {
            std::os::unix::fs::symlink(target, at(name)).unwrap();
        }
        for name in ["pipe", "socket", "zero", "tty", "folder", "to pipe"] {
            assert!(read(&at(name), 5).is_err(), "{name}");
        }
        std::os::unix::fs::symlink("file", at("to file")).unwrap();
        assert_eq!(read(&at("to file"), 5).unwrap(), b"12345");
    }
}
