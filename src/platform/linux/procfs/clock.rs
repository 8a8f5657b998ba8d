//! Owns asking the kernel how long a process has run, which costs no file. Knows nothing of what that is for.

use std::time::Duration;

use super::Procfs;

/// The clock that runs while a process runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Clock {
    #[default]
    NotLookedFor,
    Found(libc::clockid_t),
    /// The system has none, or the PIDs of /proc are not those that it would take.
    Missing,
}

impl Clock {
    /// The time that all threads of the process with this PID have run so far; `None` where it is not told, and where no process
    /// has the PID. Of another process that has it by now, it is another time.
    pub(super) fn time_run(&mut self, pid: u32) -> Option<Duration> {
        if let Clock::NotLookedFor = self {
            *self = clock_of(pid).map_or(Clock::Missing, Clock::Found);
        }
        match self {
            Clock::Found(clock) => read(*clock),
            Clock::NotLookedFor | Clock::Missing => None,
        }
    }
}

#[allow(unsafe_code, reason = "the clocks of other processes have no other interface")]
fn clock_of(pid: u32) -> Option<libc::clockid_t> {
    if !Procfs::default().is_of_our_namespace() {
        return None;
    }
    let (pid, mut clock) = (libc::pid_t::try_from(pid).ok()?, 0);
    // SAFETY: the clock is this function's own.
    let failure = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    (failure == 0).then_some(clock)
}

#[allow(unsafe_code, reason = "see `clock_of`")]
fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is this function's own.
    let failure = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    (failure == 0).then(|| Duration::new(seconds, nanoseconds))
}
