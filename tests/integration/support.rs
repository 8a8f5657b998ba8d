//! What the tests share: the fakes of the outside world, and waiting for a process.

pub mod api_server;
pub mod chance;
pub mod fake_driver;
pub mod machine;
pub mod pty;
pub mod schema;

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits until the process has ended (a zombie has); whether it did in time.
pub fn ends_within(pid: u32, patience: Duration) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // No such process: it has ended and was waited for.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let due = Instant::now() + patience;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs().try_into().unwrap(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&time)) {
            // A child of ours ended: its signal interrupts.
            Err(Errno::INTR) => {}
            ended => return ended.unwrap() == 1,
        }
    }
}
