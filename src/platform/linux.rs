//! Owns Linux: GPUs through NVIDIA's driver, processes through /proc and pidfds, and what the system does in its own way
//! among Unix systems.

pub(crate) mod child;
pub(crate) mod feed;
mod input;
pub mod kernel;
pub(crate) mod live;
pub mod probe;
pub mod procfs;
pub mod release;
mod stream;

use std::ffi::c_int;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::contract::{Machine, News, Sampling, SetPace};
use crate::gpu::{Snapshot, Vantage};
pub(crate) use input::input;
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

impl Machine for Linux {
    const LOGS_ONLY: Option<&'static str> = None;
    const SEEN_FROM: &'static [Vantage] = &[];

    type Kernel = Kernel;

    fn kernel(sampling: &Sampling, spared: &[String], allow_kill: bool) -> Kernel {
        let procfs = sampling.procfs();
        let is_held_by_pod = !allow_kill && procfs.is_in_a_pod();
        Kernel { spared: spared.to_vec(), is_held_by_pod, ..Kernel::new(procfs) }
    }

    fn read_once(sampling: &Sampling) -> Result<Snapshot, String> {
        live::read_one_snapshot(sampling).map_err(|error| error.to_string())
    }

    fn watch(sampling: Sampling, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<SetPace> {
        let interval = sampling.interval;
        let pacer = feed::live(move || live::paced_sampler(&sampling), interval, tell)?;
        Ok(Box::new(move |every| pacer.set(every)))
    }

    fn sample(sampling: &Sampling, count: Option<u64>, paced: bool) -> io::Result<()> {
        probe::run(sampling, &mut stream::Stream::new()?, count, paced.then(io::stdin))
    }

    fn boot_id() -> Option<String> {
        Procfs::default().boot_id()
    }
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
