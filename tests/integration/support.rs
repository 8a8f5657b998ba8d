//! What the tests share: the fakes of the outside world, and waiting for a process.

pub mod fake_driver;
pub mod machine;
pub mod pty;

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits until the process has ended (a zombie has); whether it did in time.
pub fn ends_within(pid: u32, patience: Duration) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // No such process: it has ended and was waited for.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let patience = Timespec { tv_sec: patience.as_secs().try_into().unwrap(), tv_nsec: patience.subsec_nanos().into() };
    poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&patience)).unwrap() == 1
}
