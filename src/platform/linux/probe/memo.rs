//! Owns what was read of processes within one refresh, so that it is read once: many have the same ones above them. It may be
//! older than a stat of the same refresh, so what a process itself runs is read beside its stat. No signal is decided by it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::thread;

use crate::platform::linux::procfs::place::Belongs;
use crate::platform::linux::procfs::{ProcError, Procfs, Status};

/// From so many processes on, a second thread that reads half of them saves more time than its start takes.
const WORTH_A_THREAD: usize = 24;

#[derive(Debug)]
pub(super) struct Memo {
    procfs: Procfs,
    read: RefCell<HashMap<u32, Read>>,
}

/// What was read of a process; `None` where nobody asked yet.
#[derive(Debug, Default)]
struct Read {
    status: Option<Result<Status, ProcError>>,
    arguments: Option<Result<Rc<[String]>, ProcError>>,
    folder: Option<Option<Rc<str>>>,
    belongs: Option<Rc<Belongs>>,
    /// 0 where it has none or can't be read.
    parent: Option<u32>,
}

/// What is asked of everybody who is described.
#[derive(Debug)]
struct Basics {
    status: Result<Status, ProcError>,
    folder: Option<String>,
    belongs: Belongs,
}

impl Basics {
    fn of(procfs: &Procfs, pid: u32) -> Basics {
        Basics { status: procfs.status(pid), folder: read_folder(procfs, pid), belongs: read_belongs(procfs, pid) }
    }
}

fn read_basics(procfs: &Procfs, pids: &[u32]) -> Vec<(u32, Basics)> {
    pids.iter().map(|pid| (*pid, Basics::of(procfs, *pid))).collect()
}

/// Its working directory, where that is text.
fn read_folder(procfs: &Procfs, pid: u32) -> Option<String> {
    procfs.working_directory(pid).ok()?.into_os_string().into_string().ok()
}

fn read_belongs(procfs: &Procfs, pid: u32) -> Belongs {
    Belongs::of(&procfs.cgroup(pid).unwrap_or_default())
}

impl Memo {
    pub(super) fn new(procfs: Procfs) -> Memo {
        Memo { procfs, read: RefCell::default() }
    }

    /// Ends a refresh.
    pub(super) fn forget(&self) {
        self.read.borrow_mut().clear();
    }

    /// Reads what will be asked of these processes, whose stats were just read. Half of many are read on a second thread: the
    /// kernel makes up each file when it is read, and somebody waits for the first reading.
    pub(super) fn read_ahead(&self, pids: &[u32]) {
        if pids.len() < WORTH_A_THREAD {
            return;
        }
        let (ours, others) = pids.split_at(pids.len() / 2);
        let procfs = &self.procfs;
        let basics = thread::scope(|scope| {
            let second = thread::Builder::new().spawn_scoped(scope, || read_basics(procfs, others));
            let mut read = read_basics(procfs, ours);
            // Who was not read is read when asked for.
            read.extend(second.ok().and_then(|second| second.join().ok()).unwrap_or_default());
            read
        });
        let mut read = self.read.borrow_mut();
        for (pid, Basics { status, folder, belongs }) in basics {
            let entry = read.entry(pid).or_default();
            entry.status = Some(status);
            entry.folder = Some(folder.map(Rc::from));
            entry.belongs = Some(Rc::new(belongs));
        }
    }

    pub(super) fn status(&self, pid: u32) -> Result<Status, ProcError> {
        let mut read = self.read.borrow_mut();
        read.entry(pid).or_default().status.get_or_insert_with(|| self.procfs.status(pid)).clone()
    }

    pub(super) fn uid(&self, pid: u32) -> Result<u32, ProcError> {
        self.status(pid).map(|status| status.uid)
    }

    pub(super) fn arguments(&self, pid: u32) -> Result<Rc<[String]>, ProcError> {
        let mut read = self.read.borrow_mut();
        let arguments = &mut read.entry(pid).or_default().arguments;
        arguments.get_or_insert_with(|| self.procfs.arguments(pid).map(Rc::from)).clone()
    }

    /// Its working directory, where that is text.
    pub(super) fn folder(&self, pid: u32) -> Option<Rc<str>> {
        let mut read = self.read.borrow_mut();
        let folder = &mut read.entry(pid).or_default().folder;
        folder.get_or_insert_with(|| read_folder(&self.procfs, pid).map(Rc::from)).clone()
    }

    pub(super) fn belongs(&self, pid: u32) -> Rc<Belongs> {
        let mut read = self.read.borrow_mut();
        let belongs = &mut read.entry(pid).or_default().belongs;
        Rc::clone(belongs.get_or_insert_with(|| Rc::new(read_belongs(&self.procfs, pid))))
    }

    /// This process and those above it, nearest first, at most so many; none of process 0, which a parent is that is not seen.
    pub(super) fn with_those_above(&self, pid: u32, most: usize) -> Vec<u32> {
        let mut read = self.read.borrow_mut();
        let mut above = Vec::new();
        let mut current = pid;
        while current != 0 && above.len() < most && !above.contains(&current) {
            above.push(current);
            let parent = &mut read.entry(current).or_default().parent;
            current = *parent.get_or_insert_with(|| self.procfs.stat(current).map_or(0, |stat| stat.parent_pid));
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_read_once_a_refresh() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("70");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cmdline"), "first").unwrap();
        fs::write(folder.join("stat"), "70 (job) S 71 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 5 0").unwrap();
        let memo = Memo::new(Procfs::new(root.path()));
        assert_eq!(
            (memo.arguments(70).unwrap().join(" "), memo.with_those_above(70, 4)),
            ("first".to_owned(), vec![70, 71])
        );
        fs::write(folder.join("cmdline"), "second").unwrap();
        fs::remove_file(folder.join("stat")).unwrap();
        assert_eq!(
            (memo.arguments(70).unwrap().join(" "), memo.with_those_above(70, 4)),
            ("first".to_owned(), vec![70, 71])
        );
        memo.forget();
        assert_eq!(
            (memo.arguments(70).unwrap().join(" "), memo.with_those_above(70, 4)),
            ("second".to_owned(), vec![70])
        );
    }

    #[test]
    fn many_who_are_new_are_read_ahead_each_as_if_it_were_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let pids: Vec<u32> = (70..70 + 25).collect();
        for pid in &pids {
            let folder = root.path().join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("status"), format!("Tgid: {pid}\nUid: {} 0 0 0\n", pid * 2)).unwrap();
            fs::write(folder.join("cgroup"), format!("0::/system.slice/{pid}.service\n")).unwrap();
            symlink(format!("/home/{pid}"), folder.join("cwd")).unwrap();
        }
        let memo = Memo::new(Procfs::new(root.path()));
        memo.read_ahead(&pids);
        pids.iter().for_each(|pid| fs::remove_dir_all(root.path().join(pid.to_string())).unwrap());
        for pid in pids {
            let read = (memo.status(pid).unwrap().thread_group, memo.uid(pid).unwrap(), memo.folder(pid).unwrap());
            assert_eq!(read, (pid, pid * 2, format!("/home/{pid}").into()));
            assert_eq!(memo.belongs(pid).manager, Some(format!("service:{pid}.service")));
        }
    }
}
