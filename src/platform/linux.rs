//! Owns Linux: GPUs through NVIDIA's driver, processes through /proc and pidfds, and the terminal's bytes as they come.

pub(crate) mod child;
pub(crate) mod feed;
mod input;
pub mod kernel;
pub(crate) mod live;
pub mod probe;
pub mod procfs;
pub mod release;
mod stream;

use std::fs::{File, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::unix::{self, places::Places};
use super::{Asked, News, Platform, Sampling, SetPace};
use crate::gpu::{Snapshot, Vantage};
use kernel::Kernel;
use procfs::Procfs;

#[derive(Clone, Copy, Debug)]
pub struct Linux;

impl Sampling {
    /// Where processes are read.
    pub fn procfs(&self) -> Procfs {
        Procfs::default().with_devices(&self.device_folder)
    }
}

impl Platform for Linux {
    const NAME: &'static str = "Linux";
    const CONFIG_FILE: &'static str = unix::CONFIG_FILE;
    const STATE_UNKNOWN: &'static str = unix::STATE_UNKNOWN;
    const LOGS_ONLY: Option<&'static str> = None;
    const SEEN_FROM: &'static [Vantage] = &[];
    const MARKS_PASTES: bool = true;

    type Kernel = Kernel;
    type Pipe = unix::pipe::Pipe;
    type Input = input::Bytes;

    fn kernel(sampling: &Sampling, spared: &[String], allow_kill: bool) -> Kernel {
        let procfs = sampling.procfs();
        let is_held_by_pod = !allow_kill && procfs.is_in_a_pod();
        Kernel::new(procfs).sparing(spared.to_vec()).held_by_pod(is_held_by_pod)
    }

    fn read_once(sampling: &Sampling) -> Result<Snapshot, String> {
        live::read_one_snapshot(sampling).map(|(_, snapshot)| snapshot).map_err(|error| error.to_string())
    }

    fn watch(sampling: Sampling, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<SetPace> {
        let interval = sampling.interval;
        let pacer = feed::live(move || live::paced_sampler(&sampling), interval, tell)?;
        Ok(Box::new(move |every| pacer.set(every)))
    }

    fn sample(sampling: &Sampling, count: Option<u64>, paced: bool) -> io::Result<()> {
        let options = probe::Options {
            nvml_library: sampling.nvml_library.clone(),
            procfs: sampling.procfs(),
            interval: sampling.interval,
        };
        probe::run(&options, &mut stream::Stream::new()?, count, paced.then(io::stdin))
    }

    fn boot_id() -> Option<String> {
        Procfs::default().boot_id()
    }

    fn host_name() -> String {
        Procfs::default().host_name()
    }

    fn user_name() -> String {
        unix::users::Users::own_name()
    }

    fn home() -> Option<PathBuf> {
        Places::here().home
    }

    fn config_folder() -> Option<PathBuf> {
        Places::here().config()
    }

    fn state_folder() -> Option<PathBuf> {
        Places::here().state()
    }

    fn make_private_folder(folder: &Path) -> io::Result<()> {
        unix::places::make_folder(folder)
    }

    fn new_private_file(path: &Path) -> io::Result<File> {
        unix::places::new_private_file(path)
    }

    fn append_to_private_file(path: &Path) -> io::Result<File> {
        unix::places::append_to(path)
    }

    fn is_own(there: &Metadata) -> bool {
        unix::places::is_own(there)
    }

    fn may_name_a_library(settings: &Path) -> bool {
        unix::places::may_name_a_library(settings)
    }

    fn open_without_waiting(path: &Path) -> io::Result<File> {
        unix::open_without_waiting(path)
    }

    fn is_device(kind: FileType) -> bool {
        unix::is_device(kind)
    }

    fn is_named_pipe(kind: FileType) -> bool {
        unix::is_named_pipe(kind)
    }

    fn open_named_pipe(path: &Path) -> io::Result<File> {
        unix::pipe::open_named(path)
    }

    fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
        unix::read_at(file, block, at)
    }

    fn identity(_: &Path, there: &Metadata) -> io::Result<(u64, u64)> {
        Ok(unix::identity(there))
    }

    fn standard_input() -> io::Result<File> {
        unix::standard_input()
    }

    fn is_input_fed() -> bool {
        unix::is_input_fed()
    }

    fn check_output_open() -> io::Result<()> {
        unix::output::check_open()
    }

    fn pipe(file: File) -> unix::pipe::Pipe {
        unix::pipe::Pipe::new(file)
    }

    fn detached_self() -> io::Result<Command> {
        // Also where the program's file was replaced meanwhile.
        Ok(unix::in_a_group_of_its_own(Command::new("/proc/self/exe")))
    }

    fn give_large_pieces_back() {
        #[cfg(target_env = "gnu")]
        #[allow(unsafe_code, reason = "the allocator's settings have no other interface")]
        // SAFETY: takes two numbers, and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        }
    }

    fn terminal_to_ask() -> io::Result<File> {
        unix::terminal()
    }

    fn forget_typed(terminal: &File) -> io::Result<()> {
        unix::forget_typed(terminal)
    }

    fn input() -> io::Result<input::Bytes> {
        input::Bytes::of_the_terminal()
    }

    fn remember_terminal(farewell: Vec<u8>) {
        unix::faults::remember_terminal(farewell);
    }

    fn note_terminal_taken(is_taken: bool) {
        unix::faults::note_terminal_taken(is_taken);
    }

    fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        let of_linux = [libc::SIGIO, libc::SIGPWR, libc::SIGSTKFLT].into_iter().chain(real_time);
        unix::signals::listen(of_linux, tell)
    }

    fn can_be_continued() -> bool {
        Procfs::default().shares_its_parents_session(std::process::id())
    }

    fn ask_to_stop() {
        unix::signals::ask_to_stop();
    }

    fn stop() -> io::Result<()> {
        unix::signals::stop()
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
