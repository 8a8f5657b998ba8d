//! Owns the system memory of one command while it runs: its own processes' and its cgroup's, and what is left of the
//! machine's. Read once a second, so it opens few files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Procfs;
use crate::record::HostMemory;
use crate::units::Bytes;

/// Readings between two looks at which processes there are.
const LOOK_AGAIN: u32 = 5;
/// More processes of one command are not counted.
const MOST_PROCESSES: usize = 4096;
/// A process with more threads is asked for the children of its first thread only: launchers fork from that one.
const MOST_THREADS: usize = 64;

/// Watches a command's memory.
#[derive(Debug)]
pub(crate) struct Load {
    procfs: Procfs,
    pid: u32,
    tree: Vec<u32>,
    readings: u32,
    group: Option<Group>,
}

impl Load {
    /// Of this process and all below it.
    pub(crate) fn of(procfs: Procfs, pid: u32) -> Load {
        let group = procfs.cgroup(pid).ok().and_then(|text| Group::find(&text, &procfs.system.join("fs/cgroup")));
        Load { procfs, pid, tree: Vec::new(), readings: 0, group }
    }

    /// What is known now.
    pub(crate) fn read(&mut self) -> HostMemory {
        if self.readings.is_multiple_of(LOOK_AGAIN) {
            self.tree = self.procfs.tree(self.pid);
        }
        self.readings = self.readings.wrapping_add(1);
        let resident: Vec<Bytes> = self.tree.iter().filter_map(|pid| self.procfs.resident(*pid)).collect();
        let group = self.group.as_ref().map(Group::read).unwrap_or_default();
        HostMemory {
            tree: (!resident.is_empty()).then(|| resident.into_iter().fold(Bytes::ZERO, Bytes::plus)),
            available: self.procfs.available(),
            pressure: self.procfs.pressure(),
            ..group
        }
    }
}

impl Procfs {
    /// A process and all below it.
    pub(crate) fn tree(&self, pid: u32) -> Vec<u32> {
        let mut tree = vec![pid];
        let mut at = 0;
        while let Some(above) = tree.get(at).copied() {
            for child in self.children(above) {
                if tree.len() < MOST_PROCESSES && !tree.contains(&child) {
                    tree.push(child);
                }
            }
            at += 1;
        }
        tree
    }

    fn children(&self, pid: u32) -> Vec<u32> {
        let threads: Vec<PathBuf> = match fs::read_dir(self.path(pid, "task")) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).take(MOST_THREADS + 1).collect(),
            Err(_) => return Vec::new(),
        };
        let first = [self.path(pid, &format!("task/{pid}"))];
        let asked = if threads.len() > MOST_THREADS { &first[..] } else { &threads[..] };
        let lists = asked.iter().filter_map(|thread| fs::read_to_string(thread.join("children")).ok());
        lists
            .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// The resident memory of a process, with the pages that it shares.
    fn resident(&self, pid: u32) -> Option<Bytes> {
        let text = fs::read_to_string(self.path(pid, "statm")).ok()?;
        let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Bytes(pages.saturating_mul(rustix::param::page_size() as u64)))
    }

    fn available(&self) -> Option<Bytes> {
        let text = fs::read_to_string(self.root.join("meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(Bytes(kib.saturating_mul(1024)))
    }

    /// The share of the last 10 s in which something waited for memory, in hundredths of a percent.
    fn pressure(&self) -> Option<u32> {
        let text = fs::read_to_string(self.root.join("pressure/memory")).ok()?;
        let share = text.lines().find_map(|line| line.strip_prefix("some avg10="))?.split(' ').next()?;
        let (whole, hundredths) = share.split_once('.')?;
        Some(whole.parse::<u32>().ok()?.saturating_mul(100).saturating_add(hundredths.parse().ok()?))
    }
}

/// The cgroup whose limit binds, with its files held open: they can still be read when the group is being removed.
#[derive(Debug)]
struct Group {
    used: Option<File>,
    limit: Option<File>,
    peak: Option<File>,
    events: Option<File>,
}

impl Group {
    /// `text`: /proc/PID/cgroup. `root`: where cgroups are mounted.
    fn find(text: &str, root: &Path) -> Option<Group> {
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?.trim_start_matches('/'));
            let group = if controllers.is_empty() {
                Group::second_version(root, path)
            } else if controllers.split(',').any(|name| name == "memory") {
                Group::first_version(&root.join("memory"), path)
            } else {
                None
            };
            if group.is_some() {
                return group;
            }
        }
        None
    }

    /// The nearest one upwards that has a limit; else the command's own.
    fn second_version(root: &Path, path: &str) -> Option<Group> {
        let own = root.join(path);
        let above = own.ancestors().take_while(|folder| folder.starts_with(root));
        let limited = above
            .clone()
            .find(|folder| fs::read_to_string(folder.join("memory.max")).is_ok_and(|limit| limit.trim() != "max"));
        let folder = limited.or_else(|| above.clone().find(|folder| folder.join("memory.events").exists()))?;
        Some(Group::open(folder, ["memory.current", "memory.max", "memory.peak", "memory.events"]))
    }

    fn first_version(root: &Path, path: &str) -> Option<Group> {
        // In a container the path may be the host's, and the folder its own.
        let folder = [root.join(path), root.to_path_buf()]
            .into_iter()
            .find(|folder| folder.join("memory.usage_in_bytes").exists())?;
        let names =
            ["memory.usage_in_bytes", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"];
        Some(Group::open(&folder, names))
    }

    /// The files of a group by their names: in use, limit, peak, events. Not every kernel has each.
    fn open(folder: &Path, names: [&str; 4]) -> Group {
        let [used, limit, peak, events] = names.map(|name| File::open(folder.join(name)).ok());
        Group { used, limit, peak, events }
    }

    fn read(&self) -> HostMemory {
        // Without a limit, version 1 has the largest number of whole pages.
        let limit = figure(self.limit.as_ref()).filter(|limit| limit.0 < u64::MAX / 4);
        HostMemory {
            group_used: figure(self.used.as_ref()),
            group_limit: limit,
            group_peak: figure(self.peak.as_ref()),
            kills: self.events.as_ref().and_then(content).as_deref().and_then(kills),
            ..HostMemory::default()
        }
    }
}

fn figure(file: Option<&File>) -> Option<Bytes> {
    content(file?)?.trim().parse().ok().map(Bytes)
}

/// The count of `memory.events`, or of version 1's `memory.oom_control`.
fn kills(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

fn content(file: &File) -> Option<String> {
    let mut bytes = [0; 512];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one command, 42, and its child 43, in a cgroup with a limit above it.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/42/cgroup", "0::/slurm/job_7/step_0\n");
        write("proc/42/statm", "1000 500 0 0 0 0 0\n");
        write("proc/43/statm", "1000 250 0 0 0 0 0\n");
        write("proc/42/task/42/children", "43 ");
        write("proc/43/task/43/children", "");
        write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    2048 kB\n");
        write("proc/pressure/memory", "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
        write("dev/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
        write("dev/sys/fs/cgroup/slurm/job_7/step_0/memory.events", "oom_kill 9\n");
        write("dev/sys/fs/cgroup/slurm/job_7/memory.max", "4294967296\n");
        write("dev/sys/fs/cgroup/slurm/job_7/memory.current", "1024\n");
        write("dev/sys/fs/cgroup/slurm/job_7/memory.events", "low 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
        root
    }

    #[test]
    fn the_tree_and_the_group_that_binds_are_read() {
        let root = machine();
        let procfs = Procfs::new(root.path().join("proc")).with_devices(root.path().join("dev"));
        let read = Load::of(procfs, 42).read();
        assert_eq!(read.tree, Some(Bytes(750 * rustix::param::page_size() as u64)));
        assert_eq!((read.available, read.pressure), (Some(Bytes::mib(2)), Some(1234)));
        assert_eq!((read.group_limit, read.group_used, read.kills), (Some(Bytes::gib(4)), Some(Bytes(1024)), Some(2)));
        assert_eq!(read.group_peak, None, "a file that is not there is no 0");
    }

    #[test]
    fn the_counts_are_seen_after_the_group_is_gone() {
        let root = machine();
        let procfs = Procfs::new(root.path().join("proc")).with_devices(root.path().join("dev"));
        let mut load = Load::of(procfs, 42);
        fs::remove_dir_all(root.path().join("dev")).unwrap();
        assert_eq!(load.read().kills, Some(2));
    }
}
