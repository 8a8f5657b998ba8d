//! Owns reading many processes at once, before each is asked for: the kernel makes up each file when it is read, and somebody
//! waits for the first reading, so two threads read them.

use std::fs::File;
use std::sync::Arc;
use std::thread;

use super::memo::Basics;
use crate::platform::linux::procfs::{ProcError, Procfs, Stat, Watched};

/// From so many processes on, a second thread that reads half of them saves more time than its start takes.
const WORTH_A_THREAD: usize = 24;

/// Files that stay open of each process.
const FILES_EACH: usize = 2;

/// More files than the sampler has open beside those.
const OPEN_FILES: i32 = 64;

/// What was read of a process.
#[derive(Debug)]
pub(super) struct Ahead {
    pub pid: u32,
    pub watched: Option<Watched>,
    pub identity: Identity,
    pub basics: Basics,
}

/// Which process it is, and what it ran after that was read.
#[derive(Debug)]
pub(super) struct Identity {
    pub stat: Arc<Stat>,
    /// `None` where they were not read yet.
    pub arguments: Option<Result<Vec<String>, ProcError>>,
}

/// Reads these processes if there are many; those that can't be read are left out.
pub(super) fn read(procfs: &Procfs, pids: &[u32]) -> Vec<Ahead> {
    if pids.len() < WORTH_A_THREAD {
        return Vec::new();
    }
    make_room_for_files(pids.len() * FILES_EACH);
    let (ours, others) = pids.split_at(pids.len() / 2);
    thread::scope(|scope| {
        let second = thread::Builder::new().spawn_scoped(scope, || read_each(procfs, others));
        let mut read = read_each(procfs, ours);
        // Who was not read is read when asked for.
        read.extend(second.ok().and_then(|second| second.join().ok()).unwrap_or_default());
        read
    })
}

/// Makes the kernel's table of this process's open files large enough. Where two threads share the table, it grows only after
/// every processor has passed a certain point (`synchronize_rcu` in the kernel's fs/file.c), which takes 15 ms on a busy machine.
fn make_room_for_files(count: usize) {
    let highest = i32::try_from(count).map(|count| count.saturating_add(OPEN_FILES));
    if let (Ok(highest), Ok(any)) = (highest, File::open("/")) {
        // Where so many are not allowed, the table can't grow either.
        let _ = rustix::io::fcntl_dupfd_cloexec(&any, highest);
    }
}

fn read_each(procfs: &Procfs, pids: &[u32]) -> Vec<Ahead> {
    pids.iter().filter_map(|pid| read_one(procfs, *pid).ok()).collect()
}

/// The stat is read first, as of a process that is not read ahead: an exec after it shows at the next refresh. A process that
/// has exited by the end is left out: what was read by its PID may be another's.
fn read_one(procfs: &Procfs, pid: u32) -> Result<Ahead, ProcError> {
    let mut watched = procfs.watch(pid);
    let stat = stat_of(procfs, pid, &mut watched)?;
    let basics = Basics::of(procfs, pid);
    let arguments = watched.as_ref().map_or_else(|| procfs.arguments(pid), Watched::arguments);
    // A process that still has arguments is alive, and the file they come from is its own.
    let lives = watched.is_some() && arguments.as_ref().is_ok_and(|arguments| !arguments.is_empty());
    if !lives && stat_of(procfs, pid, &mut watched)?.key() != stat.key() {
        return Err(ProcError::Gone);
    }
    Ok(Ahead { pid, watched, identity: Identity { stat, arguments: Some(arguments) }, basics })
}

fn stat_of(procfs: &Procfs, pid: u32, watched: &mut Option<Watched>) -> Result<Arc<Stat>, ProcError> {
    match watched {
        Some(watched) => watched.stat(),
        None => procfs.stat(pid).map(Arc::new),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn many_are_read_each_as_if_it_were_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let pids: Vec<u32> = (70..70 + 25).collect();
        for pid in &pids {
            let folder = root.path().join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            let stat = format!("{pid} (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 {} 0", pid * 3);
            fs::write(folder.join("stat"), stat).unwrap();
            fs::write(folder.join("cmdline"), format!("job\0{pid}\0")).unwrap();
            fs::write(folder.join("status"), format!("Tgid: {pid}\nUid: {} 0 0 0\n", pid * 2)).unwrap();
            fs::write(folder.join("cgroup"), format!("0::/system.slice/{pid}.service\n")).unwrap();
            symlink(format!("/home/{pid}"), folder.join("cwd")).unwrap();
        }
        let procfs = Procfs::new(root.path());
        assert!(read(&procfs, &pids[..2]).is_empty(), "a few are read when they are asked for");
        fs::remove_dir_all(root.path().join("80")).unwrap();
        let read = read(&procfs, &pids);
        let expected: Vec<u32> = pids.into_iter().filter(|pid| *pid != 80).collect();
        assert_eq!(read.iter().map(|ahead| ahead.pid).collect::<Vec<_>>(), expected);
        for Ahead { pid, identity, basics, .. } in read {
            assert_eq!((identity.stat.pid, identity.stat.start_ticks), (pid, u64::from(pid) * 3));
            assert_eq!(identity.arguments, Some(Ok(vec!["job".to_owned(), pid.to_string()])));
            assert_eq!((basics.status.unwrap().uid, basics.folder), (pid * 2, Some(format!("/home/{pid}"))));
            assert_eq!(basics.belongs.manager, Some(format!("service:{pid}.service")));
        }
    }

    #[test]
    fn the_table_of_open_files_has_room_before_a_second_thread_is_there() {
        make_room_for_files(900);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        assert!(size.trim().parse::<usize>().unwrap() > 900, "{size}");
    }

    #[test]
    fn who_is_another_process_by_the_end_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let pids: Vec<u32> = (70..70 + 24).collect();
        let folder_of = |pid: u32| root.path().join(pid.to_string());
        let began = |pid: u32, at: u32| {
            let stat = format!("{pid} (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 {at} 0");
            fs::write(folder_of(pid).join("stat"), stat).unwrap();
        };
        for pid in &pids {
            fs::create_dir_all(folder_of(*pid)).unwrap();
            began(*pid, 5);
        }
        let status = folder_of(80).join("status");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &status, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let read = thread::scope(|scope| {
            scope.spawn(|| {
                // Opens once somebody reads it, who has read the stat by then.
                let pipe = fs::OpenOptions::new().write(true).open(&status).unwrap();
                began(80, 6);
                drop(pipe);
            });
            read(&Procfs::new(root.path()), &pids)
        });
        assert_eq!(read.len(), pids.len() - 1);
        assert!(read.iter().all(|ahead| ahead.pid != 80));
    }
}
