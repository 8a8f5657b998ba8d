//! Owns what macOS, and other Unix systems that are not Linux, do in their own way. Logs are read there, GPUs are not.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crossterm::event::Event;
use rustix::process::{getppid, getsid};

use super::events::Events;
use crate::gpu::Vantage;

pub(super) const LOGS_ONLY: &str =
    "this build for macOS reads logs only; reading GPUs and ending processes needs Linux with an NVIDIA driver";
pub(super) const SEEN_FROM: Vantage = Vantage::Macos;

// poll(2) does not support terminals on macOS; crossterm reads them without it.
pub(crate) fn input() -> io::Result<Events<fn(Event) -> Option<Event>>> {
    // The name of a terminal that hung up cannot be opened.
    Ok(Events { meant: Some, is_there: || File::open("/dev/tty").is_ok() })
}

pub(crate) fn host_name() -> String {
    sysinfo::System::host_name().unwrap_or_default()
}

pub(super) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn clipboard(text: &str) -> Option<(Command, Vec<u8>)> {
    let mut command = Command::new("/usr/bin/pbcopy");
    // It follows the locale, and without one it reads MacRoman (pbcopy(1), checked 2026-11-22).
    command.env("LC_ALL", "en_US.UTF-8");
    Some((command, text.as_bytes().to_vec()))
}

/// Signals that end a program here and on no other Unix.
pub(super) fn more_ending_signals() -> impl Iterator<Item = c_int> {
    std::iter::empty()
}

pub(crate) fn can_be_continued() -> bool {
    getsid(getppid()).is_ok_and(|session| getsid(None) == Ok(session))
}
