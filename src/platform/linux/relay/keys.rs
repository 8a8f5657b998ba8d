//! Owns finding out who waits for keys at the terminal of its output. Most programs read them from their standard input,
//! which is the real terminal. A pager cannot, because its input is the text: it opens the terminal of its messages.

use std::fs;
use std::path::Path;

use rustix::fs::OFlags;

use crate::platform::linux::procfs::Procfs;

/// Whether a process has opened this terminal for reading only. Output is never opened so, and keys are all that can be
/// read there.
pub(super) fn are_awaited(terminal: &Path) -> bool {
    let procfs = Procfs::default();
    procfs.pids().into_iter().any(|pid| reads(&procfs, pid, terminal))
}

fn reads(procfs: &Procfs, pid: u32, terminal: &Path) -> bool {
    // Other users' processes can't be looked into; nor are they children of this one.
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| {
        fs::read_link(entry.path()).is_ok_and(|link| link == terminal)
            && entry.file_name().to_str().is_some_and(|descriptor| is_for_reading_only(procfs, pid, descriptor))
    })
}

fn is_for_reading_only(procfs: &Procfs, pid: u32, descriptor: &str) -> bool {
    let Ok(info) = procfs.fdinfo(pid, descriptor) else { return false };
    let info = String::from_utf8_lossy(&info);
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & OFlags::ACCMODE.bits() == OFlags::RDONLY.bits())
}
