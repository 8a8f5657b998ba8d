//! Owns Windows: logs are read, GPUs are not. Folders are those of the user's profile, whose access list keeps others out.

mod ending;
mod keys;
mod pipe;

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Stdout, stdin, stdout};
use std::os::windows::fs::FileExt;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crossterm::event::Event;
use winapi_util::{Handle, HandleRef, file};

use super::contract::{Asked, variable};
use super::events::Events;
use crate::gpu::Vantage;
pub(crate) use pipe::Pipe;

/// A process in a group of its own does not receive this console's Ctrl-C
/// (CREATE_NEW_PROCESS_GROUP; learn.microsoft.com, checked 2026-11-22).
const NEW_PROCESS_GROUP: u32 = 0x200;

pub(super) const LOGS_ONLY: &str = "this build for Windows reads logs only; reading GPUs and ending processes needs Linux \
                                    with an NVIDIA driver (WSL2 works)";
pub(super) const SEEN_FROM: Vantage = Vantage::Windows;

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

pub(crate) const CONFIG_FILE: &str = r"%APPDATA%\oomdoctor\config.ron";
pub(crate) const STATE_UNKNOWN: &str = "LOCALAPPDATA does not say where";
// The console has no mark for what crossterm reads: a paste is a burst of keys, which the app's gate tells.
pub(crate) const MARKS_PASTES: bool = false;

/// Whether this console understands escape sequences: one before Windows 10 does not.
pub(crate) fn takes_escapes() -> bool {
    crossterm::ansi_support::supports_ansi()
}

pub(crate) fn time_zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::system()
}

pub(crate) fn host_name() -> String {
    variable("COMPUTERNAME").unwrap_or_default()
}

pub(crate) fn user_name() -> String {
    variable("USERNAME").unwrap_or_default()
}

pub(crate) fn home() -> Option<PathBuf> {
    folder("USERPROFILE")
}

pub(crate) fn config_folder() -> Option<PathBuf> {
    Some(folder("APPDATA")?.join("oomdoctor"))
}

pub(crate) fn state_folder() -> Option<PathBuf> {
    Some(folder("LOCALAPPDATA")?.join("oomdoctor"))
}

pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

pub(crate) fn new_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

pub(crate) fn append_to_private_file(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_symlink()) {
        return Err(refused(path, "is a link"));
    }
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    if file::typ(&file)?.is_disk() { Ok(file) } else { Err(refused(path, "is no plain file")) }
}

pub(crate) fn is_own(_: &Metadata) -> bool {
    // Only this user's programs write below this user's profile.
    true
}

pub(crate) fn may_name_a_library(_: &Path) -> bool {
    // No library is loaded on Windows.
    true
}

pub(crate) fn is_device(_: FileType) -> bool {
    // Found out when it is opened: its metadata does not tell.
    false
}

pub(crate) fn is_named_pipe(_: FileType) -> bool {
    // On Windows no folder contains named pipes.
    false
}

pub(crate) fn open_named_pipe(path: &Path) -> io::Result<File> {
    Err(refused(path, "is no plain file"))
}

pub(crate) fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
    file.seek_read(block, at)
}

pub(crate) fn identity(path: &Path, _: &Metadata) -> io::Result<(u64, u64)> {
    let information = file::information(Handle::from_path_any(path)?)?;
    Ok((information.volume_serial_number(), information.file_index()))
}

/// The standard library knows how to write to a console.
pub(crate) type TerminalOutput = Stdout;

pub(crate) fn terminal_output() -> io::Result<TerminalOutput> {
    Ok(stdout())
}

pub(crate) fn standard_input() -> io::Result<File> {
    stdin().as_handle().try_clone_to_owned().map(File::from)
}

pub(crate) fn is_input_fed() -> bool {
    file::typ(HandleRef::stdin()).is_ok_and(|kind| kind.is_disk() || kind.is_pipe())
}

pub(crate) fn check_output_open() -> io::Result<()> {
    if stdout().as_raw_handle().is_null() { Err(io::Error::other("standard output is closed")) } else { Ok(()) }
}

pub(crate) fn detach(_: &mut Command) {}

pub(crate) fn end_with_this_thread(_: &mut Command) {}

pub(crate) fn end_group(child: &mut std::process::Child) {
    let _ = child.kill();
}

pub(crate) fn file_of(pipe: io::PipeReader) -> File {
    File::from(std::os::windows::io::OwnedHandle::from(pipe))
}

pub(crate) fn own_uid() -> Option<u32> {
    None
}

pub(crate) fn is_of(_: &Metadata, _: u32) -> bool {
    false
}

pub(crate) fn run_as(_: &mut Command, _: u32, _: u32) {}

pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn detached_self() -> io::Result<Command> {
    let mut command = Command::new(own_program()?);
    command.creation_flags(NEW_PROCESS_GROUP);
    Ok(command)
}

pub(crate) fn terminal_to_ask() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn discard_typed(_: &File) -> io::Result<()> {
    Ok(())
}

pub(crate) fn clipboard(text: &str) -> Option<(Command, Vec<u8>)> {
    // It guesses the encoding (github.com/microsoft/WSL/issues/4852, checked 2026-11-22). Of UTF-16 every second byte
    // of an ASCII character is 0, which it never takes for something else; a mark would be copied along.
    let command = Command::new(folder("SystemRoot")?.join(r"System32\clip.exe"));
    Some((command, text.encode_utf16().flat_map(u16::to_le_bytes).collect()))
}

pub(crate) fn input() -> io::Result<Events<keys::Taken>> {
    let mut console = keys::Console::default();
    // A console that closes ends its programs.
    Ok(Events { meant: Box::new(move |event: Event| console.take(event)), is_there: || true })
}

pub(crate) fn can_be_drawn_on() -> bool {
    crossterm::ansi_support::supports_ansi()
}

pub(crate) fn shows_unicode() -> bool {
    true
}

pub(crate) fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
    // Ctrl-C comes as a key in raw mode; Ctrl-Break never does.
    ending::listen(tell)
}

pub(crate) fn can_be_continued() -> bool {
    false
}

// The console restores itself, and no shell stops a program here.

pub(crate) fn return_large_blocks() {}

pub(crate) fn return_what_the_start_took() {}

pub(crate) fn keep_blocks() {}

pub(crate) fn be_patient() {}

pub(crate) fn remember_terminal(_: Vec<u8>) {}

pub(crate) fn note_terminal_taken(_: bool) {}

/// The console restores itself.
#[allow(clippy::exit, reason = "the session does not end")]
pub(crate) fn end_at_once(_: i32) {
    std::process::exit(1);
}

pub(crate) fn ask_to_stop() {}

pub(crate) fn stop() -> io::Result<()> {
    Ok(())
}
