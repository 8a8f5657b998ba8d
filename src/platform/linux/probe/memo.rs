//! Owns what was read of processes within one refresh, so that it is read once: many have the same ones above them. It may be
//! older than a stat of the same refresh, so what a process itself runs is read beside its stat. No signal is decided by it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::platform::linux::procfs::place::Belongs;
use crate::platform::linux::procfs::{ProcError, Procfs, Status};

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
pub(super) struct Basics {
    pub status: Result<Status, ProcError>,
    pub folder: Option<String>,
    pub belongs: Belongs,
}

impl Basics {
    pub(super) fn of(procfs: &Procfs, pid: u32) -> Basics {
        Basics { status: procfs.status(pid), folder: read_folder(procfs, pid), belongs: read_belongs(procfs, pid) }
    }
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

    /// Takes over what was read of a process before anybody asked.
    pub(super) fn keep(&self, pid: u32, Basics { status, folder, belongs }: Basics) {
        let mut read = self.read.borrow_mut();
        let entry = read.entry(pid).or_default();
        entry.status = Some(status);
        entry.folder = Some(folder.map(Rc::from));
        entry.belongs = Some(Rc::new(belongs));
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
}
