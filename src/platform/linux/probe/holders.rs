//! Owns finding who has the driver's device files open without standing in the driver's lists: a process of another
//! container, one that died in the driver, a monitor. Looks at all of /proc, so only every 5 s to 3 min.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::people::People;
use crate::gpu::Holder;
use crate::platform::linux::procfs::{ProcError, Procfs};
use crate::units::Bytes;

const SCAN_AGAIN: Duration = Duration::from_secs(5);
/// On a machine with very many processes a scan is delayed by at most this.
const SELDOM: Duration = Duration::from_secs(180);
/// A scan may take one part in this many of the time.
const SHARE: u32 = 30_000;
/// This much more unattributed memory is reason enough to scan at once.
const NEWS: Bytes = Bytes::mib(64);

/// The last scan, shown until the next with those taken out that have ended.
#[derive(Debug, Default)]
pub(super) struct Holders {
    found: Vec<Holder>,
    unseen: u32,
    scanned_at: Option<Instant>,
    /// When the next scan is due.
    pause: Duration,
    /// What nobody explained then.
    unexplained: Bytes,
}

impl Holders {
    /// Leaves the first scan to the second reading, so that the first reading is not delayed.
    pub(super) fn not_at_first(&mut self, now: Instant) {
        self.scanned_at = now.checked_sub(SCAN_AGAIN.saturating_sub(Duration::from_millis(500)));
    }

    /// Processes that hold NVIDIA's device files (or WSL's) and are none of `listed`, as far as may be seen. The
    /// sampler itself is left out. `unexplained`: the memory that nobody is listed for.
    pub(super) fn refresh(
        &mut self,
        procfs: &Procfs,
        people: &People,
        listed: &BTreeSet<u32>,
        unexplained: Bytes,
        now: Instant,
    ) -> Vec<Holder> {
        self.unexplained = self.unexplained.min(unexplained);
        let pause = if unexplained.less(self.unexplained) >= NEWS { SCAN_AGAIN } else { self.pause.max(SCAN_AGAIN) };
        if self.scanned_at.is_none_or(|at| now.duration_since(at) >= pause) {
            (self.scanned_at, self.unexplained) = (Some(now), unexplained);
            let began = cpu_time();
            self.scan(procfs, people);
            self.pause = (cpu_time().saturating_sub(began) * SHARE).min(SELDOM);
        }
        self.found.retain_mut(|holder| {
            let stat = procfs.stat(holder.process.pid).ok().filter(|stat| Some(stat.key()) == holder.process.key());
            let Some(stat) = stat else { return false };
            // A scan may be minutes old. A process that has closed the driver since then is left out.
            if procfs.open_driver_files(stat.pid).is_ok_and(|files| files.is_empty()) {
                return false;
            }
            holder.process = people.described(&stat);
            true
        });
        self.found.iter().filter(|holder| !listed.contains(&holder.process.pid)).cloned().collect()
    }

    /// How many processes could not be looked at: other users'.
    pub(super) fn unseen(&self) -> u32 {
        self.unseen
    }

    fn scan(&mut self, procfs: &Procfs, people: &People) {
        let own = std::process::id();
        let mut pids = procfs.pids();
        pids.sort_unstable();
        // With hidepid, other users' processes are not even listed.
        let hidden = matches!(procfs.stat(1), Err(ProcError::Denied));
        (self.found, self.unseen) = (Vec::new(), u32::from(hidden));
        for pid in pids.into_iter().filter(|pid| *pid != own) {
            match holder(procfs, people, pid) {
                Ok(holder) => self.found.extend(holder),
                // Kernel threads have nothing open.
                Err(ProcError::Denied) if !procfs.stat(pid).is_ok_and(|stat| stat.is_kernel_thread()) => {
                    self.unseen = self.unseen.saturating_add(1);
                }
                Err(_) => {}
            }
        }
    }
}

/// What this thread has used of a processor so far.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn holder(procfs: &Procfs, people: &People, pid: u32) -> Result<Option<Holder>, ProcError> {
    let devices = procfs.open_driver_files(pid)?;
    if devices.is_empty() {
        return Ok(None);
    }
    let stat = procfs.stat(pid)?;
    Ok(Some(Holder { process: people.described(&stat), devices, gpus: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::Holders;
    use crate::platform::linux::probe::people::People;
    use crate::platform::linux::procfs::Procfs;
    use crate::units::Bytes;

    fn process(root: &Path, pid: u32, start: u32, files: &[&str]) {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::write(folder.join("stat"), format!("{pid} (job) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0"))
            .unwrap();
        fs::write(folder.join("status"), format!("Tgid: {pid}\nUid: 0 0 0 0\n")).unwrap();
        fs::write(folder.join("cmdline"), "python\0job.py\0").unwrap();
        for (number, file) in files.iter().enumerate() {
            symlink(file, folder.join("fd").join(number.to_string())).unwrap();
        }
    }

    #[test]
    fn unlisted_holders_are_found_and_leave_when_they_end_or_are_listed() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 40, 7, &["/dev/nvidia0", "/dev/nvidiactl"]);
        process(root.path(), 41, 7, &["/dev/nvidia0"]);
        process(root.path(), 42, 7, &["/dev/dri/renderD128", "/dev/nvidia-modeset"]);
        process(root.path(), 43, 7, &["/dev/null"]);
        let procfs = Procfs::new(root.path());
        let people = People::new(procfs.clone());
        let mut holders = Holders::default();
        let now = Instant::now();
        let listed = BTreeSet::from([41]);
        let found = holders.refresh(&procfs, &people, &listed, Bytes::ZERO, now);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].process.pid, found[0].process.command.known().unwrap().as_str()), (40, "python job.py"));
        assert_eq!((found[0].process.proved, holders.unseen()), (true, 0));
        assert_eq!(found[0].devices, ["/dev/nvidia0", "/dev/nvidiactl"]);

        process(root.path(), 44, 7, &["/dev/nvidia0"]);
        fs::remove_dir_all(root.path().join("40")).unwrap();
        process(root.path(), 40, 8, &["/dev/nvidia0"]);
        let soon = holders.refresh(&procfs, &people, &listed, Bytes::ZERO, now + Duration::from_secs(1));
        assert_eq!(soon, [], "the PID is another's now, and no new scan is due");
        holders.pause = Duration::ZERO;
        let later = holders.refresh(&procfs, &people, &listed, Bytes::ZERO, now + Duration::from_secs(5));
        assert_eq!(later.iter().map(|holder| holder.process.pid).collect::<Vec<_>>(), [40, 44]);
        process(root.path(), 45, 7, &["/dev/nvidia0"]);
        let mut seen = |unexplained: Bytes, second: u64| {
            holders.pause = Duration::from_secs(30);
            holders.refresh(&procfs, &people, &listed, unexplained, now + Duration::from_secs(second)).len()
        };
        assert_eq!(seen(Bytes::ZERO, 12), 2, "where looking costs much, it is seldom done");
        assert_eq!(seen(Bytes::gib(1), 13), 3, "but soon where memory has come that nobody explains");
        process(root.path(), 46, 7, &["/dev/nvidia0"]);
        assert_eq!(seen(Bytes::gib(1), 20), 3, "which is no news any more");
        for file in fs::read_dir(root.path().join("45/fd")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        assert_eq!(seen(Bytes::gib(1), 21), 2, "one has closed the driver, though no new scan is due");
    }
}
