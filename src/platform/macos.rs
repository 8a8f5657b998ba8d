//! Owns macOS, and what other systems of its kind there are: logs are read, GPUs are not. Folders are those of the XDG
//! specification, as on Linux.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crossterm::event::Event;
use rustix::process::{getppid, getsid};

use super::logs_only::{self, Events, NoProcesses};
use super::unix::{self, places::Places};
use super::{Asked, News, Platform, Sampling, SetPace};
use crate::gpu::{Snapshot, Vantage};

#[derive(Clone, Copy, Debug)]
pub struct Macos;

impl Platform for Macos {
    const NAME: &'static str = "macOS";
    const CONFIG_FILE: &'static str = unix::CONFIG_FILE;
    const STATE_UNKNOWN: &'static str = unix::STATE_UNKNOWN;
    const LOGS_ONLY: Option<&'static str> = Some(
        "this build for macOS reads logs only; reading GPUs and ending processes needs Linux with an NVIDIA driver",
    );
    const SEEN_FROM: &'static [Vantage] = &[Vantage::Macos];
    const MARKS_PASTES: bool = true;

    type Kernel = NoProcesses;
    type Pipe = unix::pipe::Pipe;
    // poll(2) knows no terminals here, and crossterm does without it.
    type Input = Events<fn(Event) -> Option<Event>>;

    fn kernel(_: &Sampling, _: &[String], _: bool) -> NoProcesses {
        NoProcesses
    }

    fn read_once(_: &Sampling) -> Result<Snapshot, String> {
        Ok(logs_only::read_once())
    }

    fn watch(sampling: Sampling, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<SetPace> {
        logs_only::watch(&sampling, tell)
    }

    fn sample(sampling: &Sampling, count: Option<u64>, _: bool) -> io::Result<()> {
        logs_only::sample(sampling, count)
    }

    fn boot_id() -> Option<String> {
        None
    }

    fn host_name() -> String {
        sysinfo::System::host_name().unwrap_or_default()
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
        std::env::current_exe().map(|program| unix::in_a_group_of_its_own(Command::new(program)))
    }

    fn terminal_to_ask() -> io::Result<File> {
        unix::terminal()
    }

    fn forget_typed(terminal: &File) -> io::Result<()> {
        unix::forget_typed(terminal)
    }

    fn clipboard(text: &str) -> Option<(Command, Vec<u8>)> {
        let mut command = Command::new("/usr/bin/pbcopy");
        // It reads what the locale says, and without one MacRoman (pbcopy(1), checked 2026-11-22).
        command.env("LC_ALL", "en_US.UTF-8");
        Some((command, text.as_bytes().to_vec()))
    }

    fn input() -> io::Result<Self::Input> {
        // Of a terminal that hung up, nobody can open the name any more.
        Ok(Events { meant: Some, is_there: || File::open("/dev/tty").is_ok() })
    }

    fn remember_terminal(farewell: Vec<u8>) {
        unix::faults::remember_terminal(farewell);
    }

    fn note_terminal_taken(is_taken: bool) {
        unix::faults::note_terminal_taken(is_taken);
    }

    fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
        unix::signals::listen(std::iter::empty(), tell)
    }

    fn can_be_continued() -> bool {
        getsid(getppid()).is_ok_and(|session| getsid(None) == Ok(session))
    }

    fn ask_to_stop() {
        unix::signals::ask_to_stop();
    }

    fn stop() -> io::Result<()> {
        unix::signals::stop()
    }
}
