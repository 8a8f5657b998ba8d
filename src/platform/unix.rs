//! Owns what Linux and macOS share, which is POSIX: who owns a file, file descriptors, signals, the terminal's modes.
//! Folders are those of the XDG specification on both.

pub(crate) mod faults;
pub(crate) mod given;
pub(crate) mod memory;
pub(crate) mod output;
pub(crate) mod pipe;
pub(crate) mod places;
pub(crate) mod signals;
pub(crate) mod users;

use std::fs::{File, FileType, Metadata};
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use jiff::tz::TimeZone;

use super::contract::variable;
#[cfg(target_os = "linux")]
use super::linux as system;
#[cfg(not(target_os = "linux"))]
use super::macos as system;
use super::regular;
pub(crate) use faults::{end_at_once, note_terminal_taken, remember_terminal};
pub(crate) use given::{detach, end_with_this_thread};
pub(crate) use memory::{keep_blocks, return_large_blocks, return_what_the_start_took};
pub(crate) use output::check_output_open;
pub(crate) use pipe::{Pipe, open_named_pipe};
pub(crate) use places::{
    append_to_private_file, config_folder, home, make_private_folder, may_name_a_library, new_private_file,
    state_folder,
};
pub(crate) use signals::{ask_to_stop, listen_to_signals, stop};
pub(crate) use system::{can_be_continued, clipboard, host_name, input};
pub(crate) use users::user_name;

/// The file of the machine's time zone, and more than any has.
const TIME_ZONE: &str = "/etc/localtime";
const LARGEST_TIME_ZONE: u64 = 1 << 20;

/// The time zone of the times that are shown. Where no variable names one, the machine's own is read without its name, for
/// which all zones there are would be listed.
pub(crate) fn time_zone() -> TimeZone {
    if std::env::var_os("TZ").is_some() {
        return TimeZone::system();
    }
    let own = regular::read(Path::new(TIME_ZONE), LARGEST_TIME_ZONE).ok();
    own.and_then(|own| TimeZone::tzif("local", &own).ok()).unwrap_or_else(TimeZone::system)
}

/// Where the settings are, as the help shows it.
pub(crate) const CONFIG_FILE: &str = "~/.config/oomdoctor/config.ron";
/// Why there is no state folder, as the end of a sentence.
pub(crate) const STATE_UNKNOWN: &str = "neither HOME nor XDG_STATE_HOME says where";
/// True if the terminal marks pasted text. Otherwise a paste arrives as a burst of keys.
pub(crate) const MARKS_PASTES: bool = true;

/// Whether terminals here understand escape sequences.
pub(crate) fn takes_escapes() -> bool {
    true
}

/// True if the file belongs to the user who runs this program.
pub(crate) fn is_own(there: &Metadata) -> bool {
    there.uid() == rustix::process::geteuid().as_raw()
}

/// True for a device, which may never end.
pub(crate) fn is_device(kind: FileType) -> bool {
    kind.is_block_device() || kind.is_char_device()
}

pub(crate) fn is_named_pipe(kind: FileType) -> bool {
    kind.is_fifo()
}

/// Reads from this offset, independent of earlier reads.
pub(crate) fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(block, at)
}

/// Distinguishes this file or folder from every other one, including a later one of the same name.
pub(crate) fn identity(_: &Path, there: &Metadata) -> io::Result<(u64, u64)> {
    Ok((there.dev(), there.ino()))
}

pub(crate) fn standard_input() -> io::Result<File> {
    stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Where frames are written.
pub(crate) type TerminalOutput = File;

/// Standard output without the buffer of the standard library, which would write each frame in two parts: up to its last
/// line end, and the rest.
pub(crate) fn terminal_output() -> io::Result<TerminalOutput> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// True if standard input holds data: a pipe or a file, but no terminal and no empty device.
pub(crate) fn is_input_fed() -> bool {
    use rustix::fs::FileType;
    let kind = rustix::fs::fstat(stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}

/// Ends a child that was started with `detach`, and all of its group. It must not have been waited for.
pub(crate) fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// The reading end of a pipe as a file.
pub(crate) fn file_of(pipe: io::PipeReader) -> File {
    File::from(OwnedFd::from(pipe))
}

/// The person's user id.
pub(crate) fn own_uid() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

/// Whether a file belongs to this user.
pub(crate) fn is_of(there: &Metadata, uid: u32) -> bool {
    there.uid() == uid
}

/// Runs a command as another user, without any of this one's groups.
pub(crate) fn run_as(command: &mut Command, uid: u32, gid: u32) {
    use std::os::unix::process::CommandExt;
    // The standard library empties the list of groups where root changes the user.
    command.uid(uid).gid(gid);
}

/// This program.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    system::own_program()
}

/// A command that runs this program again and that Ctrl-C in this terminal does not reach.
pub(crate) fn detached_self() -> io::Result<Command> {
    let mut command = Command::new(system::own_program()?);
    detach(&mut command);
    Ok(command)
}

/// Lets others go first from now on: this thread's work can wait.
pub(crate) fn be_patient() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

/// The terminal itself, also if standard input and output are redirected.
pub(crate) fn terminal_to_ask() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// Discards what was typed into that terminal and is not read yet.
pub(crate) fn discard_typed(terminal: &File) -> io::Result<()> {
    Ok(rustix::termios::tcflush(terminal, rustix::termios::QueueSelector::IFlush)?)
}

/// True if the terminal can do more than print lines.
pub(crate) fn can_be_drawn_on() -> bool {
    variable("TERM").is_some_and(|term| term != "dumb")
}

/// True if the terminal shows more than ASCII.
pub(crate) fn shows_unicode() -> bool {
    let locale = variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG"));
    let is_utf8 = locale.unwrap_or_default().to_lowercase().replace('-', "").contains("utf8");
    is_utf8 && variable("TERM").as_deref() != Some("linux")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_machines_time_zone_is_the_one_that_is_found_by_its_name() {
        for months in 0..24 {
            let at = Timestamp::from_second(1_750_000_000 + months * 2_629_800).unwrap();
            assert_eq!(time_zone().to_offset(at), TimeZone::system().to_offset(at), "{at}");
        }
    }
}
