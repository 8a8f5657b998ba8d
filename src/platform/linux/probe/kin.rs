//! Owns finding who belongs together: from each process that uses a GPU upwards, as long as each works for the one above
//! it (`recognise::kin` says what that is). A parent that is younger than its child is another process of its PID, and
//! one of another user is not its launcher.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use super::memo::Memo;
use super::people::{LOOK_AGAIN, READ_TITLE_AGAIN};
use crate::gpu::ProcessKey;
use crate::gpu::recognise::Traits;
use crate::gpu::recognise::kin::{Bond, bond};
use crate::platform::linux::procfs::Stat;

/// No family is deeper; ends a walk through a garbled tree.
const GENERATIONS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Of each member the topmost of its group, by PID.
    pub leaders: BTreeMap<u32, ProcessKey>,
    /// Members that use no GPU themselves.
    pub launchers: Vec<Arc<Stat>>,
}

/// A process as far as kinship needs it.
#[derive(Debug)]
struct Relative {
    stat: Arc<Stat>,
    command: String,
    uid: Option<u32>,
    arguments: Rc<[String]>,
    folder: Option<Rc<str>>,
    /// How many refreshes ago it was read.
    age: u32,
    /// At this refresh its stat was read.
    is_fresh: bool,
    /// No other that was ever read has this number.
    number: u64,
    /// What it is to its parent of that number, which computes or does not.
    bond: Option<(u64, bool, Option<Bond>)>,
}

impl Relative {
    fn of(memo: &Memo, stat: Arc<Stat>, runs: Runs, number: u64) -> Relative {
        let (folder, uid) = (memo.folder(stat.pid), memo.uid(stat.pid).ok());
        let Runs { command, arguments } = runs;
        Relative { uid, arguments, folder, stat, command, age: 0, is_fresh: true, number, bond: None }
    }

    fn ran(&self) -> Ran<'_> {
        let is_recent = !self.age.is_multiple_of(READ_TITLE_AGAIN);
        Ran { stat: &self.stat, command: &self.command, is_recent }
    }

    fn traits(&self) -> Traits<'_> {
        let folder = self.folder.as_deref();
        Traits { comm: &self.stat.comm, arguments: &self.arguments, working_directory: folder, ..Traits::default() }
    }
}

/// Groups processes, and remembers between refreshes what hardly ever changes of them.
#[derive(Debug, Default)]
pub(super) struct Families {
    known: BTreeMap<u32, Relative>,
    /// How many were read so far.
    count: u64,
}

/// What a process was when it was looked up before.
pub(super) struct Ran<'a> {
    pub stat: &'a Stat,
    pub command: &'a str,
    /// So lately that its stat alone tells whether it runs the same still.
    pub is_recent: bool,
}

/// What a process runs, read after its stat: another program is found out at the next refresh.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub command: String,
    pub arguments: Rc<[String]>,
}

/// Which process a PID is now, and what it runs; none where that is what it ran before.
type Running<'a> = &'a mut dyn FnMut(u32, Option<Ran<'_>>) -> Option<(Arc<Stat>, Option<Runs>)>;

impl Families {
    /// Groups those that use a GPU; the flag says whether it computes there or only draws.
    pub(super) fn groups(&mut self, memo: &Memo, running: Running<'_>, users: &BTreeMap<u32, bool>) -> Groups {
        self.known.retain(|_, relative| {
            relative.age += 1;
            // Who was not asked about last time has left.
            std::mem::take(&mut relative.is_fresh) && relative.age < LOOK_AGAIN
        });
        groups(&mut Look { memo, running, known: &mut self.known, count: &mut self.count }, users)
    }
}

/// Looks processes up at one refresh.
struct Look<'a> {
    memo: &'a Memo,
    running: Running<'a>,
    known: &'a mut BTreeMap<u32, Relative>,
    count: &'a mut u64,
}

impl Look<'_> {
    /// This process now; as it was lately, where it is the same program still.
    fn at(&mut self, pid: u32) -> Option<&Relative> {
        let known = self.known.get(&pid);
        if !known.is_some_and(|relative| relative.is_fresh) {
            let Some((stat, runs)) = (self.running)(pid, known.map(Relative::ran)) else {
                self.known.remove(&pid);
                return None;
            };
            match self.known.get_mut(&pid) {
                Some(known) if runs.is_none() => (known.stat, known.is_fresh) = (stat, true),
                _ => {
                    *self.count += 1;
                    let relative = Relative::of(self.memo, stat, runs.unwrap_or_default(), *self.count);
                    self.known.insert(pid, relative);
                }
            }
        }
        self.known.get(&pid)
    }
}

fn groups(look: &mut Look<'_>, users: &BTreeMap<u32, bool>) -> Groups {
    let ways: Vec<Way> = users.keys().map(|pid| way_up(look, *pid, users)).collect();
    // The guests of each host: the topmost processes below it.
    let mut guests: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for way in &ways {
        if let Some(host) = way.host {
            guests.entry(host).or_default().insert(way.top);
        }
    }
    let mut members: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for way in &ways {
        // A single notebook is not shown below its server.
        let host = way.host.filter(|host| guests.get(host).is_some_and(|guests| guests.len() > 1));
        members.entry(host.unwrap_or(way.top)).or_default().extend(way.pids.iter().copied().chain(host));
    }
    let mut found = Groups::default();
    for (top, members) in members.into_iter().filter(|(_, members)| members.len() > 1) {
        let Some(leader) = look.known.get(&top).map(|relative| relative.stat.key()) else { continue };
        for pid in members {
            found.leaders.insert(pid, leader);
            if !users.contains_key(&pid) {
                found.launchers.extend(look.known.get(&pid).map(|relative| Arc::clone(&relative.stat)));
            }
        }
    }
    found
}

/// The way from a process that uses a GPU up to the topmost process that it works for.
struct Way {
    pids: Vec<u32>,
    top: u32,
    /// The process that the topmost one is a guest of.
    host: Option<u32>,
}

fn way_up(look: &mut Look<'_>, pid: u32, users: &BTreeMap<u32, bool>) -> Way {
    let mut way = Way { pids: vec![pid], top: pid, host: None };
    while way.pids.len() < GENERATIONS {
        match above(look, way.top, users) {
            Some((parent, Bond::Worker)) if !way.pids.contains(&parent) => {
                way.pids.push(parent);
                way.top = parent;
            }
            Some((parent, Bond::Guest)) => {
                way.host = Some(parent);
                break;
            }
            _ => break,
        }
    }
    way
}

/// The parent of a process and what it is to it.
fn above(look: &mut Look<'_>, child: u32, users: &BTreeMap<u32, bool>) -> Option<(u32, Bond)> {
    let parent = look.at(child)?.stat.parent_pid;
    if parent <= 1 {
        return None;
    }
    look.at(parent)?;
    let (child, parent) = (look.known.get(&child)?, look.known.get(&parent)?);
    let stat = &parent.stat;
    let is_parent = stat.start_ticks <= child.stat.start_ticks && parent.uid.is_some() && parent.uid == child.uid;
    if !is_parent || stat.is_kernel_thread() || stat.state == 'Z' {
        return None;
    }
    let computes = users.get(&stat.pid).copied().unwrap_or(false);
    let (parent_pid, parent_number) = (stat.pid, parent.number);
    let bond = match child.bond {
        Some((number, computed, bond)) if (number, computed) == (parent_number, computes) => bond,
        _ => bond(&parent.traits(), &child.traits(), computes),
    };
    let child_pid = child.stat.pid;
    if let Some(child) = look.known.get_mut(&child_pid) {
        child.bond = Some((parent_number, computes, bond));
    }
    bond.map(|bond| (parent_pid, bond))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use std::sync::Arc;

    use super::{Families, Memo, Ran, Runs};
    use crate::platform::linux::procfs::{ProcError, Procfs};

    /// A process: PID, parent, start, user, name, command line.
    fn process(root: &Path, (pid, parent, start, uid): (u32, u32, u32, u32), comm: &str, line: &str) {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} ({comm}) S {parent} 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 {start} 0");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("status"), format!("Tgid: {pid}\nUid: {uid} {uid} {uid} {uid}\n")).unwrap();
        fs::write(folder.join("cmdline"), line.replace(' ', "\0")).unwrap();
    }

    fn runs(procfs: &Procfs, pid: u32) -> Result<Runs, ProcError> {
        let arguments = procfs.arguments(pid)?;
        Ok(Runs { command: arguments.join(" "), arguments: arguments.into() })
    }

    /// Of each member its leader, and who was found above those that use a GPU.
    fn found(root: &Path, users: &[u32]) -> (Vec<(u32, u32)>, Vec<u32>) {
        let users: BTreeMap<u32, bool> = users.iter().map(|pid| (*pid, true)).collect();
        let procfs = Procfs::new(root);
        let mut running =
            |pid, _: Option<Ran<'_>>| Some((Arc::new(procfs.stat(pid).ok()?), Some(runs(&procfs, pid).ok()?)));
        let found = Families::default().groups(&Memo::new(procfs.clone()), &mut running, &users);
        let leaders = found.leaders.into_iter().map(|(pid, leader)| (pid, leader.pid)).collect();
        (leaders, found.launchers.into_iter().map(|stat| stat.pid).collect())
    }

    #[test]
    fn the_ranks_of_a_launcher_are_one_group_and_two_jobs_of_one_shell_are_none() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), (30, 1, 5, 7), "bash", "-bash");
        process(root.path(), (40, 30, 10, 7), "pt_elastic", "python torchrun --nproc-per-node 2 train.py");
        process(root.path(), (41, 40, 11, 7), "python", "python -u train.py");
        process(root.path(), (42, 40, 11, 7), "python", "python -u train.py");
        process(root.path(), (43, 42, 12, 7), "pt_data_worker", "python -u train.py");
        process(root.path(), (50, 30, 13, 7), "python", "python other.py");
        let (leaders, launchers) = found(root.path(), &[41, 42, 43, 50]);
        assert_eq!(leaders, [(40, 40), (41, 40), (42, 40), (43, 40)], "50 is on its own");
        assert_eq!(launchers, [40]);
    }

    #[test]
    fn what_is_remembered_holds_while_both_run_what_they_ran() {
        let root = tempfile::tempdir().unwrap();
        let launcher = (40, 1, 10, 7);
        process(root.path(), launcher, "python", "python torchrun train.py");
        process(root.path(), (41, 40, 11, 7), "python", "python -u train.py");
        let (procfs, users) = (Procfs::new(root.path()), BTreeMap::from([(41, true)]));
        let mut families = Families::default();
        let mut led = || {
            let mut running = |pid, before: Option<Ran<'_>>| {
                let (stat, runs) = (procfs.stat(pid).ok()?, runs(&procfs, pid).ok()?);
                let is_same = before.is_some_and(|before| before.command == runs.command);
                Some((Arc::new(stat), if is_same { None } else { Some(runs) }))
            };
            families.groups(&Memo::new(procfs.clone()), &mut running, &users).leaders.len()
        };
        assert_eq!((led(), led()), (2, 2));
        process(root.path(), launcher, "python", "python -m http.server");
        assert_eq!(led(), 0, "it replaced itself by another program");
        process(root.path(), launcher, "python", "python torchrun train.py");
        assert_eq!(led(), 2);
        fs::remove_dir_all(root.path().join("40")).unwrap();
        assert_eq!(led(), 0, "it has ended");
    }

    #[test]
    fn a_parent_that_is_younger_or_another_users_or_a_zombie_is_none() {
        for (parent, state) in [((40, 1, 12, 7), "S"), ((40, 1, 10, 8), "S"), ((40, 1, 10, 7), "Z")] {
            let root = tempfile::tempdir().unwrap();
            process(root.path(), parent, "pt_elastic", "python torchrun train.py");
            let stat = fs::read_to_string(root.path().join("40/stat")).unwrap();
            fs::write(root.path().join("40/stat"), stat.replace(" S ", &format!(" {state} "))).unwrap();
            process(root.path(), (41, 40, 11, 7), "python", "python -u train.py");
            assert_eq!(found(root.path(), &[41]), (vec![], vec![]), "{parent:?} {state}");
        }
    }

    #[test]
    fn kernels_of_one_server_are_shown_together_where_there_are_two() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), (40, 30, 10, 7), "jupyter-lab", "python /env/bin/jupyter-lab");
        for pid in [41, 42] {
            process(root.path(), (pid, 40, 11, 7), "python", "python -m ipykernel_launcher -f k.json");
        }
        assert_eq!(found(root.path(), &[41]), (vec![], vec![]));
        assert_eq!(found(root.path(), &[41, 42]), (vec![(40, 40), (41, 40), (42, 40)], vec![40]));
    }

    #[test]
    fn a_tree_that_bites_its_tail_ends() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), (40, 41, 10, 7), "python", "python train.py");
        process(root.path(), (41, 40, 10, 7), "python", "python train.py");
        found(root.path(), &[40, 41]);
    }
}
