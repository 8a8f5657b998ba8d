//! Shared by the tests: fakes of the outside world, and waiting for a process.

pub mod api_server;
pub mod chance;
pub mod drm;
pub mod fake_driver;
pub mod machine;
pub mod pty;
pub mod schema;
pub mod stand_ins;

use std::time::{Duration, Instant};

use oomdoctor::platform::linux::procfs::Procfs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// An fdinfo file as a kernel has printed it (tests/fdinfo).
pub fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/fdinfo/{name}.txt", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Waits until the process has exited (a zombie counts); returns whether it did in time.
pub fn ends_within(pid: u32, patience: Duration) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // No such process: it has exited and was reaped.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let due = Instant::now() + patience;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs().try_into().unwrap(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&time)) {
            // SIGCHLD of a child of this test interrupts the wait.
            Err(Errno::INTR) => {}
            ended => return ended.unwrap() == 1,
        }
    }
}

pub fn children_of(parent: u32) -> Vec<u32> {
    let procfs = Procfs::default();
    let mut pids = procfs.pids();
    pids.retain(|pid| procfs.stat(*pid).is_ok_and(|stat| stat.parent_pid == parent));
    pids
}
