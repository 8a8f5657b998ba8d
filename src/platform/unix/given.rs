//! Owns what else than the standard streams this program was started with: a pipe whose reader waits for its end, a file
//! that is locked. A process that is started beside a command must not have it.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts this command in a process group of its own, which Ctrl-C in the terminal does not reach, and without what this
/// program was given.
#[allow(unsafe_code, reason = "what is open is inherited, and only the child may close its own")]
pub(crate) fn detach(command: &mut Command) {
    command.process_group(0);
    let given = descriptors();
    let close = move || {
        for descriptor in &given {
            // SAFETY: closes what this program was given and does not use.
            unsafe { libc::close(*descriptor) };
        }
        io::Result::Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(close) };
}

/// Ends this command, where the system can, when the thread ends that starts it: also where this program is killed.
#[allow(unsafe_code, reason = "the child must ask for its own end before it runs the program")]
pub(crate) fn end_with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
        let parent = getpid();
        let ask = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before that.
            if getppid() == Some(parent) { io::Result::Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        };
        // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// What this program opened itself is closed by the exec.
fn descriptors() -> Vec<RawFd> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let open = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    open.filter(|descriptor| *descriptor > libc::STDERR_FILENO && is_inherited(*descriptor)).collect()
}

#[allow(unsafe_code, reason = "a descriptor that nobody owns has no other interface")]
fn is_inherited(descriptor: RawFd) -> bool {
    // SAFETY: asks for the flags of a descriptor, which may be closed.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    flags != -1 && flags & libc::FD_CLOEXEC == 0
}
