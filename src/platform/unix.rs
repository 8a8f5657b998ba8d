//! Owns what Linux and macOS share, which is POSIX: who owns a file, file descriptors, signals, the terminal's modes.
//! Folders are those of the XDG specification on both.

pub(crate) mod faults;
pub(crate) mod output;
pub(crate) mod pipe;
pub(crate) mod places;
pub(crate) mod signals;
pub(crate) mod users;

use std::fs::{File, FileType, Metadata};
use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contract::{Asked, Platform};
#[cfg(target_os = "linux")]
use super::linux as system;
#[cfg(not(target_os = "linux"))]
use super::macos as system;
use places::Places;

#[derive(Clone, Copy, Debug)]
pub struct Unix;

impl Platform for Unix {
    const CONFIG_FILE: &'static str = "~/.config/oomdoctor/config.ron";
    const STATE_UNKNOWN: &'static str = "neither HOME nor XDG_STATE_HOME says where";
    const MARKS_PASTES: bool = true;

    type Pipe = pipe::Pipe;
    type Input = system::Input;

    fn host_name() -> String {
        system::host_name()
    }

    fn user_name() -> String {
        users::Users::own_name()
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
        places::make_folder(folder)
    }

    fn new_private_file(path: &Path) -> io::Result<File> {
        places::new_private_file(path)
    }

    fn append_to_private_file(path: &Path) -> io::Result<File> {
        places::append_to(path)
    }

    fn is_own(there: &Metadata) -> bool {
        there.uid() == rustix::process::geteuid().as_raw()
    }

    fn may_name_a_library(settings: &Path) -> bool {
        places::may_name_a_library(settings)
    }

    fn is_device(kind: FileType) -> bool {
        kind.is_block_device() || kind.is_char_device()
    }

    fn is_named_pipe(kind: FileType) -> bool {
        kind.is_fifo()
    }

    fn open_named_pipe(path: &Path) -> io::Result<File> {
        pipe::open_named(path)
    }

    fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
        file.read_at(block, at)
    }

    fn identity(_: &Path, there: &Metadata) -> io::Result<(u64, u64)> {
        Ok((there.dev(), there.ino()))
    }

    fn standard_input() -> io::Result<File> {
        stdin().as_fd().try_clone_to_owned().map(File::from)
    }

    fn is_input_fed() -> bool {
        use rustix::fs::FileType;
        let kind = rustix::fs::fstat(stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
    }

    fn check_output_open() -> io::Result<()> {
        output::check_open()
    }

    fn pipe(file: File) -> pipe::Pipe {
        pipe::Pipe::new(file)
    }

    fn detached_self() -> io::Result<Command> {
        let mut command = Command::new(system::own_program()?);
        // Ctrl-C in the terminal only goes to the foreground's process group.
        command.process_group(0);
        Ok(command)
    }

    fn return_large_blocks() {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        #[allow(unsafe_code, reason = "the allocator's settings have no other interface")]
        // SAFETY: takes two numbers, and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        }
    }

    fn terminal_to_ask() -> io::Result<File> {
        File::options().read(true).write(true).open("/dev/tty")
    }

    fn discard_typed(terminal: &File) -> io::Result<()> {
        Ok(rustix::termios::tcflush(terminal, rustix::termios::QueueSelector::IFlush)?)
    }

    fn input() -> io::Result<system::Input> {
        system::input()
    }

    fn clipboard(text: &str) -> Option<(Command, Vec<u8>)> {
        system::clipboard(text)
    }

    fn remember_terminal(farewell: Vec<u8>) {
        faults::remember_terminal(farewell);
    }

    fn note_terminal_taken(is_taken: bool) {
        faults::note_terminal_taken(is_taken);
    }

    fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
        signals::listen(system::more_ending_signals(), tell)
    }

    fn can_be_continued() -> bool {
        system::can_be_continued()
    }

    fn ask_to_stop() {
        signals::ask_to_stop();
    }

    fn stop() -> io::Result<()> {
        signals::stop()
    }
}
