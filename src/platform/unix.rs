//! Owns what Linux and macOS have in common, POSIX's part: who owns a file, descriptors, signals, the terminal's modes.

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
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

/// Where the settings lie.
pub(super) const CONFIG_FILE: &str = "~/.config/oomdoctor/config.ron";
/// Why there is no state folder.
pub(super) const STATE_UNKNOWN: &str = "neither HOME nor XDG_STATE_HOME says where";

/// Opens whatever is there without waiting for anybody, and without becoming a terminal's session.
pub(super) fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Whether this is a device.
pub(super) fn is_device(kind: FileType) -> bool {
    kind.is_block_device() || kind.is_char_device()
}

/// Whether this is the name of a pipe.
pub(super) fn is_named_pipe(kind: FileType) -> bool {
    kind.is_fifo()
}

/// Reads from there on.
pub(super) fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(block, at)
}

/// Device and inode: another file under the same name has others.
pub(super) fn identity(there: &Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

/// Standard input, as a file of its own.
pub(super) fn standard_input() -> io::Result<File> {
    stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Whether standard input holds something: a pipe or a file, no terminal and not /dev/null.
pub(super) fn is_input_fed() -> bool {
    use rustix::fs::FileType;
    let kind = rustix::fs::fstat(stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}

/// Ctrl-C in the terminal goes to the foreground's group alone.
pub(super) fn in_a_group_of_its_own(mut command: Command) -> Command {
    command.process_group(0);
    command
}

/// The terminal itself, wherever standard input and output lead.
pub(super) fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// Drops what was typed and not read yet.
pub(super) fn forget_typed(terminal: &File) -> io::Result<()> {
    Ok(rustix::termios::tcflush(terminal, rustix::termios::QueueSelector::IFlush)?)
}
