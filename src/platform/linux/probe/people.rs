//! Owns joining a PID the driver gave with /proc: whether it is that process here at all, and if so who it is.
//! A PID that is not proved to be the driver's process is described as nothing: /proc would tell of someone else.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::ahead::{self, Ahead, Identity};
use super::kin::{Ran, Runs};
use super::memo::Memo;
use crate::gpu::accounts::Row;
use crate::gpu::recognise::invocation::base;
use crate::gpu::recognise::{self, Traits, recognise};
use crate::gpu::{Device, GpuProcess, Reading};
use crate::platform::linux::probe::source::Whose;
use crate::platform::linux::procfs::machine::BootClock;
use crate::platform::linux::procfs::place::Belongs;
use crate::platform::linux::procfs::{OpenCards, ProcError, Procfs, Stat, Watched, command_line};
use crate::platform::unix::users::Users;

/// How far above a process that wiped its own arguments one is looked for that has them still.
const ANCESTORS_ASKED: usize = 4;

/// What rarely changes (user, control group) is read again only after this many refreshes.
pub(super) const LOOK_AGAIN: u32 = 30;

/// The command line of a process whose address space is the same is read again after this many refreshes: an exec makes a new
/// one, and only a program may give itself a title without. At a signal it is read anyway.
pub(super) const READ_TITLE_AGAIN: u32 = 10;

/// The files of at most this many processes stay open; each has two, and a login session may have 1,024 open files.
const MOST_WATCHED: usize = 200;

/// What a PID was found to be at this refresh.
#[derive(Clone, Debug)]
struct Found {
    person: Arc<GpuProcess>,
    /// It is the driver's process only on GPUs whose device file it has open, which are these; `None` where
    /// no proof is needed.
    only_on: Option<OpenCards>,
    /// It is so on one of them.
    is_on_one: bool,
}

/// What was said of a process lately.
#[derive(Debug)]
struct Described {
    /// As which it was described, or as which it was last found to run the same.
    stat: Arc<Stat>,
    person: Arc<GpuProcess>,
    /// How many refreshes ago.
    age: u32,
    /// It gave itself another title while it was watched, and may do so at any moment.
    titles_itself: bool,
}

impl Described {
    /// Whether this is the process of that stat still, as far as a stat can tell.
    fn is_of(&self, stat: &Stat) -> bool {
        (self.stat.start_ticks, &self.stat.comm, self.stat.parent_pid)
            == (stat.start_ticks, &stat.comm, stat.parent_pid)
    }

    /// Whether it was another program then, be it one of the same command line.
    fn ran_another(&self, stat: &Stat) -> bool {
        self.stat.image.is_some() && stat.image.is_some() && self.stat.image != stat.image
    }

    /// Whether it runs what it ran, with no need to read its command line.
    fn surely_runs_the_same(&self, stat: &Stat) -> bool {
        // A process that is ending has no command line any more.
        stat.is_exiting()
            || stat.image.is_some()
                && stat.image == self.stat.image
                && !self.titles_itself
                && !self.age.is_multiple_of(READ_TITLE_AGAIN)
    }
}

/// A PID of which nothing can be said, for this reason.
fn unknown(pid: u32, reason: ProcError) -> GpuProcess {
    let (used_bytes, sm_percent) = (Reading::NotAvailable, Reading::NotAvailable);
    GpuProcess { pid, used_bytes, sm_percent, ..GpuProcess::unread(&reason.into()) }
}

/// The row of a process on one device.
pub(super) fn on_device(process: &GpuProcess, row: &Row, sm_percent: Reading<u32>) -> GpuProcess {
    let used_bytes = row.used_bytes.clone();
    GpuProcess { pid: row.pid, kind: row.kind, used_bytes, sm_percent, ..process.clone() }
}

/// The row of a process on a device at the last refresh, and as whom it was shown.
#[derive(Debug)]
struct Shown {
    person: Arc<GpuProcess>,
    row: Arc<GpuProcess>,
    /// It is listed at this refresh, too.
    is_listed: bool,
}

/// True if a process was looked for where it would have to be and is not there.
pub(super) fn is_gone(process: &GpuProcess) -> bool {
    process.start_ticks == Reading::NotAvailable
}

/// Looks PIDs up, and remembers between refreshes which process each one was.
#[derive(Debug)]
pub(super) struct People {
    procfs: Procfs,
    users: Users,
    clock: Option<BootClock>,
    initial_namespace: bool,
    /// The unit or job that this program runs in: ending all of it would end the user's own session.
    own_manager: Option<String>,
    /// Start ticks of the PIDs that were listed last time.
    listed_before: HashMap<u32, u64>,
    /// This refresh's look-ups: a PID may stand on several devices.
    current: HashMap<u32, Found>,
    /// Those of this refresh whom the kernel's files name.
    seen: HashMap<u32, Arc<GpuProcess>>,
    /// Who is shown for a PID that is not the driver's process.
    nobody: Arc<GpuProcess>,
    /// The rows of the last refresh, by device and PID.
    shown: HashMap<(u32, u32), Shown>,
    /// The stats that this refresh has read of those who were described.
    stats: HashMap<u32, Arc<Stat>>,
    /// Whom the first refresh has read ahead, until they are asked for.
    ahead: HashMap<u32, Identity>,
    is_first_refresh: bool,
    /// The arguments that this refresh has read, after their stats, of those who were described.
    arguments_after_stat: HashMap<u32, Rc<[String]>>,
    /// Who was described lately.
    described: HashMap<u32, Described>,
    /// The open files of those who are listed, and of those above them.
    watched: HashMap<u32, Watched>,
    /// Those above them, of this refresh.
    above: HashSet<u32>,
    most_watched: usize,
    memo: Rc<Memo>,
}

impl People {
    /// Reads what does not change: the namespace, the boot and the users.
    pub(super) fn new(procfs: Procfs) -> People {
        People {
            users: Users::read(),
            clock: procfs.boot_clock(),
            initial_namespace: procfs.in_initial_pid_namespace(),
            own_manager: procfs.own_cgroup().and_then(|text| Belongs::of(&text).manager),
            listed_before: HashMap::new(),
            current: HashMap::new(),
            seen: HashMap::new(),
            nobody: Arc::new(unknown(0, ProcError::Gone)),
            shown: HashMap::new(),
            stats: HashMap::new(),
            ahead: HashMap::new(),
            is_first_refresh: true,
            arguments_after_stat: HashMap::new(),
            described: HashMap::new(),
            watched: HashMap::new(),
            above: HashSet::new(),
            memo: Rc::new(Memo::new(procfs.clone())),
            most_watched: MOST_WATCHED.min(crate::platform::linux::procfs::files_we_may_open() / 8),
            procfs,
        }
    }

    /// Prepares for looking these up at the first refresh, which somebody waits for. The same PID may come several times.
    pub(super) fn read_ahead(&mut self, pids: impl Iterator<Item = u32>) {
        if !std::mem::take(&mut self.is_first_refresh) {
            return;
        }
        let room = self.most_watched.saturating_sub(self.watched.len());
        let pids: Vec<u32> = pids.collect::<BTreeSet<u32>>().into_iter().take(room).collect();
        for Ahead { pid, watched, identity, basics } in ahead::read(&self.procfs, &pids) {
            self.watched.extend(watched.map(|watched| (pid, watched)));
            self.ahead.insert(pid, identity);
            self.memo.keep(pid, basics);
        }
    }

    /// Who this PID is that a GPU with this device file's number lists, looked up once a refresh.
    pub(super) fn look(&mut self, pid: u32, minor: Option<u32>) -> Arc<GpuProcess> {
        if !self.current.contains_key(&pid) {
            let found = self.person(pid).unwrap_or_else(|error| Found {
                person: Arc::new(unknown(pid, error)),
                only_on: None,
                is_on_one: false,
            });
            self.current.insert(pid, found);
        }
        match self.current.get_mut(&pid) {
            Some(found) if found.only_on.as_ref().is_none_or(|cards| cards.has(minor)) => {
                found.is_on_one = true;
                Arc::clone(&found.person)
            }
            _ => Arc::clone(&self.nobody),
        }
    }

    /// The row of this process on a device: the one of the last refresh, where nothing of it changed.
    pub(super) fn row(
        &mut self,
        device: u32,
        person: &Arc<GpuProcess>,
        row: &Row,
        sm_percent: Reading<u32>,
    ) -> Arc<GpuProcess> {
        let mut before = self.shown.get_mut(&(device, row.pid));
        if let Some(before) = &mut before
            && Arc::ptr_eq(&before.person, person)
            && (before.row.kind, &before.row.used_bytes, &before.row.sm_percent)
                == (row.kind, &row.used_bytes, &sm_percent)
        {
            before.is_listed = true;
            return Arc::clone(&before.row);
        }
        // Its group hardly ever changes, and is found anew for all who are proved.
        let is_same = person.proved && before.as_ref().is_some_and(|before| before.row.key() == person.key());
        let group = if is_same { before.and_then(|before| before.row.group) } else { None };
        let now = Arc::new(GpuProcess { group, ..on_device(person, row, sm_percent) });
        let shown = Shown { person: Arc::clone(person), row: Arc::clone(&now), is_listed: true };
        self.shown.insert((device, row.pid), shown);
        now
    }

    /// Takes over what was added to the rows since.
    pub(super) fn keep_rows(&mut self, devices: &[Device]) {
        for device in devices {
            for row in device.processes.shared() {
                if let Some(shown) = self.shown.get_mut(&(device.index, row.pid)) {
                    shown.row = Arc::clone(row);
                }
            }
        }
        self.shown.retain(|_, shown| std::mem::take(&mut shown.is_listed));
    }

    /// Who this PID is that the kernel's files name; see [`Whose`].
    pub(super) fn seen(&mut self, pid: u32, whose: Whose) -> Arc<GpuProcess> {
        let started = match whose {
            Whose::Proved { start_ticks } => Some(start_ticks),
            Whose::Unseen => None,
            Whose::Exited | Whose::Foreign => return Arc::clone(&self.nobody),
        };
        let Ok(stat) = self.stat(pid) else { return Arc::clone(&self.nobody) };
        if stat.is_kernel_thread() || started.is_some_and(|started| started != stat.start_ticks) {
            return Arc::clone(&self.nobody);
        }
        let mut person = self.person_of(Identity { stat, arguments: None });
        if person.proved != started.is_some() {
            Arc::make_mut(&mut person).proved = started.is_some();
        }
        self.seen.insert(pid, Arc::clone(&person));
        person
    }

    /// Ends a refresh: who was listed is remembered. A PID that stays listed while it is not proved keeps the process
    /// it was first, so that it does not become another one by waiting.
    pub(super) fn end_refresh(&mut self) {
        let mut listed = HashMap::new();
        for (pid, found) in &self.current {
            let own = if found.is_on_one { found.person.start_ticks.value() } else { None };
            if let Some(start) = own.or_else(|| self.listed_before.get(pid).copied()) {
                listed.insert(*pid, start);
            }
        }
        self.listed_before = listed;
        self.described.retain(|pid, described| {
            described.age += 1;
            described.age < LOOK_AGAIN && (self.current.contains_key(pid) || self.seen.contains_key(pid))
        });
        let (current, seen, above) = (&self.current, &self.seen, &self.above);
        self.watched.retain(|pid, _| current.contains_key(pid) || seen.contains_key(pid) || above.contains(pid));
        self.above.clear();
        self.current.clear();
        self.seen.clear();
        self.stats.clear();
        self.ahead.clear();
        self.arguments_after_stat.clear();
        self.memo.forget();
    }

    /// What this refresh has read so far.
    pub(super) fn memo(&self) -> Rc<Memo> {
        Rc::clone(&self.memo)
    }

    /// Which process this PID is at this refresh, and what it runs; none where that is what it ran before.
    pub(super) fn running(&mut self, pid: u32, before: Option<Ran<'_>>) -> Option<(Arc<Stat>, Option<Runs>)> {
        let described = self.stats.get(&pid).map(Arc::clone);
        let is_described = described.is_some();
        let stat = match described {
            Some(stat) => stat,
            None => self.stat(pid).ok()?,
        };
        if !is_described {
            self.above.insert(pid);
        }
        let before = before.filter(|before| (before.stat.key(), &before.stat.comm) == (stat.key(), &stat.comm));
        let person = if is_described { self.of_this_refresh(&stat) } else { None };
        let surely_same = stat.image.is_some()
            && before.as_ref().is_some_and(|before| before.is_recent && before.stat.image == stat.image);
        let (command, arguments) = match person {
            Some(person) => (Cow::Borrowed(text(&person.command)), self.arguments_after_stat.get(&pid).map(Rc::clone)),
            None if surely_same => return Some((stat, None)),
            None => {
                let arguments = self.arguments(pid);
                (Cow::Owned(text(&command_of(&arguments, &stat)).to_owned()), arguments.ok().map(Rc::from))
            }
        };
        if before.is_some_and(|before| before.command == command) {
            return Some((stat, None));
        }
        // Who was described at an earlier refresh runs the same still, as far as its stat can tell.
        let arguments = arguments.or_else(|| self.arguments(pid).ok().map(Rc::from)).unwrap_or_default();
        Some((stat, Some(Runs { command: command.into_owned(), arguments })))
    }

    /// As whom this process was described at this refresh.
    fn of_this_refresh(&self, stat: &Stat) -> Option<&Arc<GpuProcess>> {
        let found = self.current.get(&stat.pid).map(|found| &found.person);
        let mut described = found.into_iter().chain(self.seen.get(&stat.pid));
        described.find(|person| person.start_ticks.value() == Some(stat.start_ticks))
    }

    /// Whether the PIDs we see are the driver's.
    pub(super) fn in_initial_namespace(&self) -> bool {
        self.initial_namespace
    }

    /// Reads the open file of a process if that still works. If it does not, the process has exited, and its PID may belong
    /// to another one by now.
    fn stat(&mut self, pid: u32) -> Result<Arc<Stat>, ProcError> {
        if let Some(watched) = self.watched.get_mut(&pid) {
            let was_exiting = watched.was_exiting();
            let stat = watched.stat();
            if stat.as_ref().map_or(true, |stat| stat.is_exiting() && !was_exiting) {
                // Whose parent it was gets another one.
                self.watched.values_mut().for_each(Watched::doubt);
            }
            if let Ok(stat) = stat {
                return Ok(stat);
            }
            self.watched.remove(&pid);
        }
        let may_watch = self.watched.len() < self.most_watched;
        let watched = if may_watch { self.procfs.watch(pid) } else { None };
        let Some(mut watched) = watched else { return self.procfs.stat(pid).map(Arc::new) };
        // Read after both files were opened: if the process is alive now, both files belong to it.
        let stat = watched.stat()?;
        self.watched.insert(pid, watched);
        Ok(stat)
    }

    fn command(&self, stat: &Stat) -> Reading<String> {
        command_of(&self.arguments(stat.pid), stat)
    }

    /// Its arguments as they are now.
    fn arguments(&self, pid: u32) -> Result<Vec<String>, ProcError> {
        self.watched.get(&pid).map_or_else(|| self.procfs.arguments(pid), Watched::arguments)
    }

    /// As [`People::described`], and where this very process was described lately, only what changes is new. It never has the
    /// name of another program that it ran before: it must not be ended under that.
    fn person(&mut self, pid: u32) -> Result<Found, ProcError> {
        let (identity, only_on) = self.identify(pid)?;
        Ok(Found { person: self.person_of(identity), only_on, is_on_one: false })
    }

    fn person_of(&mut self, Identity { stat, arguments }: Identity) -> Arc<GpuProcess> {
        let person = self.known(&stat).unwrap_or_else(|| {
            let arguments = arguments.unwrap_or_else(|| self.arguments(stat.pid));
            let person = Arc::new(self.described_by(&stat, &arguments));
            match arguments {
                Ok(arguments) => self.arguments_after_stat.insert(stat.pid, arguments.into()),
                Err(_) => self.arguments_after_stat.remove(&stat.pid),
            };
            let before = self.described.get(&stat.pid).filter(|before| before.is_of(&stat));
            let titles_itself =
                before.is_some_and(|before| before.titles_itself || before.person.command != person.command);
            let described = Described { stat: Arc::clone(&stat), person: Arc::clone(&person), age: 0, titles_itself };
            self.described.insert(stat.pid, described);
            person
        });
        self.stats.insert(stat.pid, stat);
        person
    }

    fn known(&mut self, stat: &Arc<Stat>) -> Option<Arc<GpuProcess>> {
        let described = self.described.get(&stat.pid).filter(|described| described.is_of(stat))?;
        if described.ran_another(stat)
            || !described.surely_runs_the_same(stat) && described.person.command != self.command(stat)
        {
            return None;
        }
        let described = self.described.get_mut(&stat.pid)?;
        if described.stat != *stat {
            let person = Arc::make_mut(&mut described.person);
            person.session = Reading::Known(stat.session);
            person.state = Reading::Known(stat.state);
            person.cpu_ticks = Reading::Known(stat.user_ticks.saturating_add(stat.system_ticks));
            person.image = stat.image;
            described.stat = Arc::clone(stat);
        }
        Some(Arc::clone(&described.person))
    }

    /// The process of this PID here as /proc describes it, without a figure of the driver.
    pub(super) fn described(&self, stat: &Stat) -> GpuProcess {
        self.described_by(stat, &self.arguments(stat.pid))
    }

    /// The same by its own arguments, read after its stat: those of the memo may be from before an exec.
    fn described_by(&self, stat: &Stat, own: &Result<Vec<String>, ProcError>) -> GpuProcess {
        let pid = stat.pid;
        let command = command_of(own, stat);
        let arguments = own.as_deref().unwrap_or_default();
        let above = self.memo.with_those_above(stat.parent_pid, ANCESTORS_ASKED);
        let with_arguments = above.into_iter().filter_map(|pid| self.memo.arguments(pid).ok());
        let above: Vec<Vec<String>> = with_arguments.map(|arguments| arguments.to_vec()).collect();
        let recognised_as = self.recognise(stat, arguments, &above);
        let server_command = match &recognised_as {
            Some(label) if label.starts_with("Ollama runner") => self.ollama(pid),
            _ => server_of(arguments, &above),
        };
        let uid = self.memo.uid(pid).map_or_else(Reading::from, Reading::Known);
        let started_at = self.clock.and_then(|clock| clock.at(stat.start_ticks));
        let belongs = self.memo.belongs(pid);
        GpuProcess {
            start_ticks: Reading::Known(stat.start_ticks),
            started_at: started_at.map_or(Reading::NotAvailable, Reading::Known),
            user: uid.clone().map(|uid| self.users.name(uid)),
            uid,
            command,
            parent_pid: Reading::Known(stat.parent_pid),
            session: Reading::Known(stat.session),
            state: Reading::Known(stat.state),
            cpu_ticks: Reading::Known(stat.user_ticks.saturating_add(stat.system_ticks)),
            container: belongs.container.clone(),
            managed_by: self.managed_by(pid, belongs.manager.as_deref()),
            recognised_as,
            protected: recognise::protected(&stat.comm, &arguments.join(" ")).map(str::to_owned),
            server_command,
            proved: true,
            image: stat.image,
            ..unknown(pid, ProcError::Gone)
        }
    }

    /// The stat of this PID if it can be the driver's process: a number a PID can have, not a thread's and not a kernel
    /// thread's. In a PID namespace of our own, where the driver's PIDs mean other processes, and where it is another
    /// process than at the last refresh, it is so only on GPUs whose own device file it has open; then with those.
    fn identify(&mut self, pid: u32) -> Result<(Identity, Option<OpenCards>), ProcError> {
        if pid <= 1 || i32::try_from(pid).is_err() {
            return Err(ProcError::Gone);
        }
        let identity = match self.ahead.remove(&pid) {
            Some(identity) => identity,
            None => Identity { stat: self.stat(pid)?, arguments: None },
        };
        let stat = &identity.stat;
        let known = self.described.get(&pid).is_some_and(|known| known.stat.start_ticks == stat.start_ticks);
        if !known && (stat.is_kernel_thread() || self.memo.status(pid)?.thread_group != pid) {
            return Err(ProcError::Gone);
        }
        let reused = self.listed_before.get(&pid).is_some_and(|start| *start != stat.start_ticks);
        if self.initial_namespace && !reused {
            return Ok((identity, None));
        }
        let cards = self.procfs.open_cards(pid)?;
        if cards.is_empty() { Err(ProcError::Gone) } else { Ok((identity, Some(cards))) }
    }

    /// Who would start it again or end all of it. A Slurm job has its folder's name, which may be one that only Slurm
    /// knows; its processes are told the number, and which task of an array they are, that `scancel` takes.
    fn managed_by(&self, pid: u32, manager: Option<&str>) -> Option<String> {
        let manager = manager.filter(|manager| self.own_manager.as_deref() != Some(manager))?.to_owned();
        let Some(job) = manager.strip_prefix("slurm:") else { return Some(manager) };
        // A number that differs from the folder's is in an environment inherited from another job.
        let number = self.numeric_variable(pid, "SLURM_JOB_ID").filter(|number| number == job || !is_number(job));
        let Some(number) = number else { return Some(manager) };
        let [array, task] = ["SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"].map(|name| self.numeric_variable(pid, name));
        Some(array.zip(task).map_or(format!("slurm:{number}"), |(array, task)| format!("slurm:{array}_{task}")))
    }

    fn numeric_variable(&self, pid: u32, name: &str) -> Option<String> {
        self.procfs.environment_variable(pid, name).ok().flatten().filter(|value| is_number(value))
    }

    /// Ollama is told where to listen by a variable, which its runners inherit.
    fn ollama(&self, runner: u32) -> Option<String> {
        let host = self.procfs.environment_variable(runner, "OLLAMA_HOST").ok().flatten()?;
        (!host.is_empty()).then(|| format!("OLLAMA_HOST={host} ollama serve"))
    }

    fn recognise(&self, stat: &Stat, arguments: &[String], ancestors: &[Vec<String>]) -> Option<String> {
        let folder = self.memo.folder(stat.pid);
        let is_notebook = arguments.iter().any(|argument| argument.contains("ipykernel"));
        let notebook = is_notebook.then(|| self.procfs.environment_variable(stat.pid, "JPY_SESSION_NAME"));
        recognise(&Traits {
            comm: &stat.comm,
            arguments,
            working_directory: folder.as_deref(),
            ancestors,
            notebook: notebook.and_then(Result::ok).flatten().as_deref(),
        })
    }
}

fn command_of(arguments: &Result<Vec<String>, ProcError>, stat: &Stat) -> Reading<String> {
    match arguments {
        Ok(arguments) => Reading::Known(command_line(arguments, &stat.comm)),
        Err(error) => error.clone().into(),
    }
}

/// Nothing where it is not known.
fn text(command: &Reading<String>) -> &str {
    command.known().map_or("", String::as_str)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The command line of the server above a process whose own command line does not contain the server's settings.
/// `None` for other processes above an orphan: an init, a supervisor, a session's manager.
fn server_of(arguments: &[String], above: &[Vec<String>]) -> Option<String> {
    let server = match arguments {
        [title] if title.starts_with("VLLM::") || title.starts_with("sglang::") => {
            above.iter().find(|run| is_python_server(run))
        }
        [_] => None,
        _ => above.first().filter(|parent| is_llama_server(arguments) && is_llama_server(parent)),
    };
    server.map(|run| run.join(" "))
}

fn is_llama_server(run: &[String]) -> bool {
    run.first().is_some_and(|program| base(program) == "llama-server")
}

fn is_python_server(run: &[String]) -> bool {
    let names_engine = run.iter().any(|word| word.contains("vllm") || word.contains("sglang"));
    run.len() > 1 && (names_engine || run.first().is_some_and(|program| base(program).starts_with("python")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::gpu::ProcessKind;
    use crate::gpu::guard::{Refusal, Viewer};
    use crate::units::Bytes;

    const HOST: &str = "pid:[4026531836]";
    const CONTAINER: &str = "pid:[4026532999]";

    fn people(root: &Path, namespace: &str) -> People {
        fs::create_dir_all(root.join("self/ns")).unwrap();
        symlink(namespace, root.join("self/ns/pid")).unwrap();
        People::new(Procfs::new(root))
    }

    /// A process with its start, PF_ flags, thread group and open file.
    fn process(root: &Path, pid: u32, start: u32, flags: u32, group: u32, file: &str) {
        let folder = root.join(pid.to_string());
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(folder.join("fd")).unwrap();
        let stat = format!("{pid} (job) S 1 1 1 0 -1 {flags} 0 0 0 0 3 4 0 0 20 0 1 0 {start} 0");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("status"), format!("Tgid: {group}\nUid: 0 0 0 0\n")).unwrap();
        fs::write(folder.join("cmdline"), "python\0job.py\0").unwrap();
        fs::write(folder.join("maps"), "").unwrap();
        symlink(file, folder.join("fd/3")).unwrap();
    }

    #[test]
    fn on_the_host_a_pid_is_that_process() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let mut people = people(root.path(), HOST);
        let person = people.look(70, Some(0));
        assert_eq!((person.proved, person.start_ticks.value(), person.cpu_ticks.value()), (true, Some(9), Some(7)));
        assert_eq!(person.command, Reading::Known("python job.py".into()));
        assert_eq!(person.recognised_as.as_deref(), Some("python job.py"));
        assert!(is_gone(&people.look(71, Some(0))));
    }

    #[test]
    fn a_name_is_never_older_than_a_reading_and_what_hardly_ever_changes_is_read_with_it() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let mut people = people(root.path(), HOST);
        let command = |people: &mut People| {
            let command = people.look(70, Some(0)).command.clone();
            people.end_refresh();
            command.known().cloned().unwrap()
        };
        assert_eq!(command(&mut people), "python job.py");
        fs::write(root.path().join("70/cmdline"), "VLLM::Worker\0").unwrap();
        assert_eq!(command(&mut people), "VLLM::Worker", "it gave itself a title");
        fs::write(root.path().join("70/cmdline"), "python\0other.py\0").unwrap();
        assert_eq!(
            people.look(70, Some(0)).recognised_as.as_deref(),
            Some("python other.py"),
            "another script of the same program"
        );
        assert_eq!(command(&mut people), "python other.py");
        fs::write(root.path().join("70/cmdline"), "").unwrap();
        assert_eq!(command(&mut people), "[job]");
        fs::write(root.path().join("70/cmdline"), "python\0other.py\0").unwrap();
        assert_eq!(command(&mut people), "python other.py");
        fs::write(root.path().join("70/cmdline"), "").unwrap();
        fs::write(root.path().join("70/stat"), "70 (job) S 1 1 1 0 -1 4 0 0 0 0 3 4 0 0 20 0 1 0 9 0").unwrap();
        assert_eq!(command(&mut people), "python other.py", "it is ending");
        fs::write(root.path().join("70/status"), "Tgid: 70\nUid: 7 7 7 7\n").unwrap();
        let uids: Vec<Option<u32>> = (0..=LOOK_AGAIN)
            .map(|_| {
                let uid = people.look(70, Some(0)).uid.value();
                people.end_refresh();
                uid
            })
            .collect();
        assert_eq!((uids.first(), uids.last()), (Some(&Some(0)), Some(&Some(7))), "its user is read after a while");
        fs::write(root.path().join("70/cmdline"), "other\0").unwrap();
        fs::write(root.path().join("70/stat"), "70 (other) S 1 1 1 0 -1 0 0 0 0 0 3 8 0 0 20 0 1 0 9 0").unwrap();
        assert_eq!(people.look(70, Some(0)).cpu_ticks.value(), Some(11), "what changes is read each time");
        assert_eq!(command(&mut people), "other", "it runs another program now");
        process(root.path(), 70, 10, 0, 70, "/dev/nvidia0");
        assert_eq!(command(&mut people), "python job.py", "the PID is another process's");
    }

    #[test]
    fn a_title_is_read_now_and_then_and_another_program_seen_at_once() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let runs = |command: &str, stack: u64| {
            let stat = format!("70 (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 9 0 0 0 0 0 {stack}");
            fs::write(root.path().join("70/stat"), stat).unwrap();
            fs::write(root.path().join("70/cmdline"), command).unwrap();
        };
        let (one, other) = (0x7ffc_0000_1000, 0x7ffd_0000_2000);
        let mut people = people(root.path(), HOST);
        let mut command = || {
            let command = people.look(70, Some(0)).command.clone();
            people.end_refresh();
            command.known().cloned().unwrap()
        };
        runs("loads", one);
        assert_eq!(command(), "loads");
        runs("serves", one);
        assert!((0..READ_TITLE_AGAIN).any(|_| command() == "serves"));
        runs("step 1", one);
        assert_eq!(command(), "step 1", "it has given itself titles before");
        runs("first", other);
        assert_eq!(command(), "first");
        runs("second", one);
        assert_eq!(command(), "second", "its address space is another");
    }

    /// A child that ends with its test, also where that fails.
    struct Child(std::process::Child);

    impl Child {
        fn of(command: &mut std::process::Command) -> Child {
            Child(command.spawn().unwrap())
        }

        fn end(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            self.end();
        }
    }

    /// The files kept open follow a real process through an exec to its end, and are closed with it.
    #[test]
    fn open_files_tell_of_the_process_they_were_opened_for() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};

        for most_watched in [MOST_WATCHED, 0] {
            let script = "read go; exec sleep 100000";
            let mut child = Child::of(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()));
            let pid = child.0.id();
            let mut people = People { most_watched, initial_namespace: true, ..People::new(Procfs::default()) };
            let command = |people: &mut People| {
                let command = people.look(pid, Some(0)).command.clone();
                people.end_refresh();
                command.known().cloned()
            };
            while command(&mut people).is_none_or(|command| !command.ends_with(script)) {}
            assert_eq!(people.watched.len(), usize::from(most_watched > 0));
            people.end_refresh();
            assert!(people.watched.is_empty(), "nobody lists it any more");
            command(&mut people);
            child.0.stdin.take().unwrap().write_all(b"\n").unwrap();
            while fs::read(format!("/proc/{pid}/cmdline")).unwrap() != b"sleep\x00100000\0" {}
            assert_eq!(command(&mut people).as_deref(), Some("sleep 100000"));
            child.end();
            assert!(is_gone(&people.look(pid, Some(0))) && people.watched.is_empty(), "its files tell of nobody else");
            people.end_refresh();
        }
    }

    /// The child of a child, ended with its test.
    struct Orphan(u32);

    impl Drop for Orphan {
        fn drop(&mut self) {
            let pid = i32::try_from(self.0).ok().and_then(rustix::process::Pid::from_raw).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// It did nothing itself, so its stat would not be read again yet.
    #[test]
    fn who_lost_its_parent_has_another_one_as_soon_as_that_is_missed() {
        use std::io::{BufRead as _, BufReader};
        use std::process::{Command, Stdio};

        let script = "sleep 100000 > /dev/null & echo $!; read end";
        let mut parent =
            Child::of(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(parent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let orphan = Orphan(line.trim().parse().unwrap());
        let (pid, above) = (orphan.0, parent.0.id());
        let mut people = People { initial_namespace: true, ..People::new(Procfs::default()) };
        let mut parent_seen = || {
            let seen = people.look(pid, Some(0)).parent_pid.value();
            people.running(above, None);
            people.end_refresh();
            seen
        };
        while fs::read(format!("/proc/{pid}/cmdline")).unwrap() != b"sleep\x00100000\0" {}
        assert_eq!([(); 3].map(|()| parent_seen()), [Some(above); 3]);
        // Nobody has asked how it ended, so it stays as a zombie.
        parent.0.kill().unwrap();
        while Procfs::default().stat(above).unwrap().state != 'Z' {}
        parent_seen();
        assert_ne!(parent_seen(), Some(above));
    }

    /// The files of one that has exited say nothing of whoever has its PID now.
    #[test]
    fn a_pid_that_was_given_away_is_looked_at_anew() {
        use std::process::Command;

        let sleeper = |seconds: &str| Child::of(Command::new("sleep").arg(seconds));
        let (mut before, now) = (sleeper("100001"), sleeper("100002"));
        let mut people = People { initial_namespace: true, ..People::new(Procfs::default()) };
        let kept = people.procfs.watch(before.0.id()).unwrap();
        before.end();
        people.watched.insert(now.0.id(), kept);
        while fs::read(format!("/proc/{}/cmdline", now.0.id())).unwrap() != b"sleep\x00100002\0" {}
        let person = people.look(now.0.id(), Some(0)).clone();
        assert_eq!(person.command.known().map(String::as_str), Some("sleep 100002"));
        assert_eq!(person.start_ticks.value(), people.procfs.stat(now.0.id()).ok().map(|stat| stat.start_ticks));
    }

    #[test]
    fn one_that_is_hidden_has_no_name_no_user_and_no_end() {
        let row = Row { pid: 70, kind: ProcessKind::Compute, used_bytes: Reading::Known(Bytes::gib(2)) };
        for reason in [ProcError::Denied, ProcError::Gone] {
            let row = on_device(&unknown(70, reason.clone()), &row, Reading::NotAvailable);
            let known = [row.user.known(), row.command.known(), row.recognised_as.as_ref()];
            assert!(known.iter().all(Option::is_none) && !row.proved && row.key().is_none(), "{reason}");
            assert_eq!(row.used_bytes, Reading::Known(Bytes::gib(2)), "what the driver says of it stays");
            for uid in [0, 1000] {
                let viewer = Viewer { uid, ..Viewer::default() };
                assert_eq!(viewer.may_end(&row), Err(Refusal::Unproved(70)), "{reason}");
            }
        }
        let root = tempfile::tempdir().unwrap();
        let mut people = people(root.path(), HOST);
        assert!(!people.look(70, Some(0)).proved && people.look(70, Some(0)).command.known().is_none());
    }

    #[test]
    fn who_manages_a_process_is_read_from_its_cgroup_and_a_slurm_job_as_scancel_takes_it() {
        let root = tempfile::tempdir().unwrap();
        let managed = |cgroup: &str, environment: &str| {
            process(root.path(), 70, 9, 0, 70, "/dev/nvidia0");
            fs::write(root.path().join("70/cgroup"), cgroup).unwrap();
            fs::write(root.path().join("70/environ"), environment).unwrap();
            fs::remove_dir_all(root.path().join("self")).ok();
            let mut people = people(root.path(), HOST);
            people.look(70, Some(0)).managed_by.clone()
        };
        let job = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n";
        let sluid = "0::/system.slice/n1_slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n";
        let array = "SLURM_JOB_ID=77\0SLURM_ARRAY_JOB_ID=70\0SLURM_ARRAY_TASK_ID=4\0";
        let cases = [
            ("0::/system.slice/vllm.service\n", "", Some("service:vllm.service")),
            ("0::/user.slice/user-1000.slice/session-3.scope\n", "", None),
            (job, "", Some("slurm:77")),
            (job, "SLURM_JOB_ID=5\0", Some("slurm:77")),
            (job, array, Some("slurm:70_4")),
            (sluid, "SLURM_JOB_ID=81234\0", Some("slurm:81234")),
            (sluid, "SLURM_JOB_ID=$(reboot)\0", Some("slurm:sEKNKTV3WPV500")),
        ];
        for (cgroup, environment, expected) in cases {
            assert_eq!(managed(cgroup, environment).as_deref(), expected, "{cgroup} {environment}");
        }
    }

    #[test]
    fn the_unit_or_job_that_the_person_works_in_is_no_supervisor() {
        for path in ["code-server@ada.service", "slurmstepd.scope/job_77/step_0/user/task_0"] {
            let root = tempfile::tempdir().unwrap();
            process(root.path(), 70, 9, 0, 70, "/dev/nvidia0");
            fs::create_dir(root.path().join("self")).unwrap();
            for whose in ["70", "self"] {
                fs::write(root.path().join(whose).join("cgroup"), format!("0::/system.slice/{path}\n")).unwrap();
            }
            assert_eq!(people(root.path(), HOST).look(70, Some(0)).managed_by, None, "{path}");
        }
    }

    #[test]
    fn in_a_container_only_one_that_holds_a_device_file_is_that_process() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        process(root.path(), 71, 9, 0, 71, "/dev/nvidia0");
        let mut people = people(root.path(), CONTAINER);
        let other = people.look(70, Some(0)).clone();
        assert!(!other.proved && is_gone(&other), "the driver's 70 is the host's");
        assert_eq!(other.command, Reading::NotAvailable, "so this 70's command would be a lie");
        assert!(people.look(71, Some(0)).proved);
        fs::remove_dir_all(root.path().join("71/fd")).unwrap();
        people.end_refresh();
        assert!(!people.look(71, Some(0)).proved, "what it holds can't be seen");
    }

    #[test]
    fn in_a_container_the_gpu_that_lists_it_must_be_the_one_whose_device_file_is_open() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/nvidia1");
        let mut people = people(root.path(), CONTAINER);
        let proved = |people: &mut People, pid: u32, minor: Option<u32>| people.look(pid, minor).proved;
        assert!(!proved(&mut people, 70, Some(0)), "GPU 0 lists the host's 70");
        assert!(proved(&mut people, 70, Some(1)), "GPU 1 lists this one");
        assert!(!proved(&mut people, 70, None), "a GPU whose device file is not known proves nobody");
        for file in ["dri/renderD128", "dri/card1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia", "dxg"] {
            people.end_refresh();
            process(root.path(), 71, 9, 0, 71, &format!("/dev/{file}"));
            assert!(!proved(&mut people, 71, Some(0)), "{file}");
        }
        fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        fs::write(root.path().join("sys/kernel/osrelease"), "5.15.153.1-microsoft-standard-WSL2").unwrap();
        people.end_refresh();
        assert!(proved(&mut people, 71, None), "under WSL2 the one device file stands for all GPUs");
    }

    #[test]
    fn a_pid_that_is_another_process_than_before_must_hold_a_device_file() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let mut people = people(root.path(), HOST);
        assert!(people.look(70, Some(0)).proved);
        people.end_refresh();
        process(root.path(), 70, 10, 0, 70, "/dev/null");
        assert!(!people.look(70, Some(0)).proved, "the driver lists one that has ended; its PID is someone else's");
        people.end_refresh();
        assert!(!people.look(70, Some(0)).proved, "and stays so");
        people.end_refresh();
        process(root.path(), 70, 10, 0, 70, "/dev/nvidia0");
        assert!(people.look(70, Some(0)).proved);
    }

    #[test]
    fn a_server_is_named_where_its_childs_own_line_does_not_say_where_it_listens() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let above = [vec!["VLLM::Front".to_owned()], words("python vllm serve m --port 8001")];
        let title = vec!["VLLM::EngineCore".to_owned()];
        assert_eq!(server_of(&title, &above).as_deref(), Some("python vllm serve m --port 8001"));
        assert_eq!(server_of(&["sleep".to_owned()], &above), None);
        for init in ["/sbin/init splash", "/usr/lib/systemd/systemd --user", "/usr/bin/tini -- /run.sh"] {
            assert_eq!(server_of(&title, &[words(init)]), None, "an orphan works for nobody");
        }
        let router = [words("/opt/llama-server --port 8081")];
        assert_eq!(
            server_of(&words("llama-server --port 9"), &router).as_deref(),
            Some("/opt/llama-server --port 8081")
        );
        assert_eq!(server_of(&words("llama-server --port 9"), &above), None);
    }

    #[test]
    fn the_command_line_and_the_arguments_of_a_process_are_of_one_moment() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let mut people = people(root.path(), HOST);
        let runs = |people: &mut People| {
            let (_, runs) = people.running(70, None).unwrap();
            runs.map(|runs| (runs.command, runs.arguments.join(" "))).unwrap()
        };
        people.look(70, Some(0));
        fs::write(root.path().join("70/cmdline"), "nginx\0").unwrap();
        let [described, then] = ["python job.py", "nginx"].map(|line| (line.to_owned(), line.to_owned()));
        assert_eq!(runs(&mut people), described, "who was described before it became another program");
        people.end_refresh();
        assert_eq!(runs(&mut people), then);
    }

    #[test]
    fn who_gets_a_pid_after_it_was_read_ahead_is_shown_as_whoever_it_is_from_the_next_refresh_on() {
        let root = tempfile::tempdir().unwrap();
        for pid in 70..100 {
            process(root.path(), pid, 9, 0, pid, "/dev/nvidia0");
        }
        let mut people = people(root.path(), HOST);
        people.read_ahead((70..100).chain(70..100));
        let becomes_another = |start: u32| {
            process(root.path(), 70, start, 0, 70, "/dev/nvidia0");
            fs::write(root.path().join("70/status"), "Tgid: 70\nUid: 8 8 8 8\n").unwrap();
            fs::write(root.path().join("70/cmdline"), "nginx\0").unwrap();
        };
        becomes_another(10);
        let seen = |people: &mut People, pid: u32| {
            let person = people.look(pid, Some(0));
            (person.start_ticks.value(), person.uid.value(), text(&person.command).to_owned())
        };
        let first = (Some(9), Some(0), "python job.py".to_owned());
        assert_eq!((seen(&mut people, 70), seen(&mut people, 99)), (first.clone(), first.clone()));
        people.end_refresh();
        people.read_ahead(70..100);
        becomes_another(11);
        let other = (Some(11), Some(8), "nginx".to_owned());
        assert_eq!(seen(&mut people, 70), other, "only the first refresh reads ahead");
        assert_eq!(seen(&mut people, 99), first);
    }

    #[test]
    fn another_program_of_the_same_command_line_is_described_anew() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let mut people = people(root.path(), HOST);
        let mut uid_after = |stack: u64, uid: u32| {
            let folder = root.path().join("70");
            let stat = format!("70 (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 9 0 0 0 0 0 {stack}");
            fs::write(folder.join("stat"), stat).unwrap();
            fs::write(folder.join("status"), format!("Tgid: 70\nUid: {uid} {uid} {uid} {uid}\n")).unwrap();
            let uid = people.look(70, Some(0)).uid.value();
            people.end_refresh();
            uid
        };
        let (first, second) = (0x7ffc_0000_0000, 0x7ffd_0000_0000);
        assert_eq!([uid_after(first, 7), uid_after(first, 8), uid_after(second, 8)], [Some(7), Some(7), Some(8)]);
    }

    #[test]
    fn a_row_is_the_one_of_the_last_refresh_until_something_of_it_changes() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 70, 9, 0, 70, "/dev/null");
        let mut people = people(root.path(), HOST);
        let mut row = |device: u32, gib: u64, sm: u32| {
            let person = people.look(70, Some(0));
            let used_bytes = Reading::Known(Bytes::gib(gib));
            let listed = Row { pid: 70, kind: ProcessKind::Compute, used_bytes };
            let row = people.row(device, &person, &listed, Reading::Known(sm));
            people.end_refresh();
            let devices =
                Device { index: device, processes: [Arc::clone(&row)].into_iter().collect(), ..Device::default() };
            people.keep_rows(&[devices]);
            row
        };
        let first = row(0, 1, 5);
        assert!(Arc::ptr_eq(&first, &row(0, 1, 5)));
        assert_eq!(row(0, 2, 5).used_bytes.value(), Some(Bytes::gib(2)));
        assert_eq!(row(0, 2, 6).sm_percent.value(), Some(6));
        assert!(!Arc::ptr_eq(&first, &row(1, 1, 5)), "another device's row");
        let stat = root.path().join("70/stat");
        let worked = fs::read_to_string(&stat).unwrap().replace(" S ", " R ");
        let before = row(0, 1, 5);
        fs::write(&stat, worked).unwrap();
        assert_eq!((before.state.value(), row(0, 1, 5).state.value()), (Some('S'), Some('R')));
    }

    #[test]
    fn numbers_threads_and_kernel_threads_are_nobody() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 1, 9, 0, 1, "/dev/nvidia0");
        process(root.path(), 70, 9, 0x0020_0000, 70, "/dev/nvidia0");
        process(root.path(), 71, 9, 0, 60, "/dev/nvidia0");
        let mut people = people(root.path(), HOST);
        for pid in [0, 1, 70, 71, u32::MAX, 1 << 31] {
            assert!(!people.look(pid, Some(0)).proved, "{pid}");
        }
    }
}
