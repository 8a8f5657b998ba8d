//! Owns reading /proc, in one place: who a PID is, what it holds open, which namespace we are in. Used by the sampler
//! and by the check before a signal. The root is a parameter, so that a folder of files and links tests it.
//! Knows nothing of the driver, of the screen or of why anyone asks. Everything here is a reading at one moment:
//! a PID can be reused between two calls, so compare `Stat::start_ticks`.

mod clock;
pub(crate) mod drm;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod place;
pub(crate) mod power;
pub(crate) mod sockets;

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gpu::{ProcessKey, Reading};
use clock::Clock;

/// Command lines are cut here: enough to tell a program, little enough for a line of the stream.
const COMMAND_BYTES: usize = 4096;
type Small = [u8; COMMAND_BYTES];
/// Environments and memory maps are cut here; a CUDA process has some thousand maps.
const LARGE_FILE_BYTES: u64 = 4 << 20;
/// More ancestors than any real process has; ends a walk through a garbled tree.
const MOST_ANCESTORS: usize = 256;
/// A stat is read again after this time though its process did not run: another parent may have been given to it.
const READ_STAT_AGAIN: Duration = Duration::from_secs(5);
/// What a stack begins with, arguments and environment, has room in this (execve(2): 6 MiB).
const LARGEST_ARGUMENTS: u64 = 16 << 20;
/// Set in `Stat::flags` for kernel threads (PF_KTHREAD).
const KERNEL_THREAD: u32 = 0x0020_0000;
/// Set there once a process ends (PF_EXITING).
const EXITING: u32 = 0x4;
/// The major number of the NVIDIA driver's devices (NV_MAJOR_DEVICE_NUMBER in its
/// nv-linux.h; open-gpu-kernel-modules, checked 2026-11-22).
const NVIDIA_MAJOR: u32 = 195;
/// From this minor number on they are no GPU's: 254 is nvidia-modeset, 255 nvidiactl, those below are held back for such.
const NVIDIA_CONTROL_MINORS: u32 = 248;
/// What /proc/self/ns/pid is in the namespace the kernel booted with (PROC_PID_INIT_INO).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Why something about a process could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcError {
    /// No process has this PID (any more).
    #[error("no such process")]
    Gone,
    /// It is another user's, or /proc is mounted with hidepid.
    #[error("not permitted")]
    Denied,
    /// The file does not look as proc(5) says.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    #[error("{0}")]
    Failed(String),
}

impl<T> From<ProcError> for Reading<T> {
    fn from(error: ProcError) -> Self {
        match error {
            ProcError::Gone => Reading::NotAvailable,
            ProcError::Denied => Reading::Denied,
            other => Reading::Failed(other.to_string()),
        }
    }
}

/// The fields of /proc/PID/stat that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process id that was asked for.
    pub pid: u32,
    /// The kernel's name of it, at most 15 bytes; lossy where it is not UTF-8.
    pub comm: String,
    /// R, S, D, T, Z and so on.
    pub state: char,
    /// Parent's PID; 0 for the first process, and where the parent is in another PID namespace.
    pub parent_pid: u32,
    pub process_group: u32,
    pub session: u32,
    /// The kernel's PF_ flags; see [`Stat::is_kernel_thread`].
    pub flags: u32,
    /// Time in user mode, in clock ticks.
    pub user_ticks: u64,
    /// Time in the kernel, in clock ticks.
    pub system_ticks: u64,
    /// Start, in clock ticks after boot (field 22).
    pub start_ticks: u64,
    /// Marks its address space, which an exec replaces; `None` where that may not be seen, or begins where each does.
    pub image: Option<u32>,
}

impl Stat {
    /// True for a kernel thread, which takes signals without an error and never ends.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// True if the process is exiting: its memory, and with that its command line, is removed first.
    pub fn is_exiting(&self) -> bool {
        self.flags & EXITING != 0
    }

    /// Names the process for good.
    pub fn key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, start_ticks: self.start_ticks }
    }

    fn parse(pid: u32, text: &[u8]) -> Result<Stat, ProcError> {
        const MALFORMED: ProcError = ProcError::Malformed("stat");
        // The name may contain anything, also `)` and newlines, so it ends at the last `)`.
        let open = text.iter().position(|byte| *byte == b'(').ok_or(MALFORMED)?;
        let close = text.iter().rposition(|byte| *byte == b')').ok_or(MALFORMED)?;
        let comm = text.get(open + 1..close).ok_or(MALFORMED)?;
        let rest = text.get(close + 1..).map(String::from_utf8_lossy).ok_or(MALFORMED)?;
        // Field 28 is the last that is read below.
        let mut fields: Vec<&str> = Vec::with_capacity(26);
        fields.extend(rest.split_ascii_whitespace().take(26));
        // `fields` begins with field 3 of proc(5). A process that is being removed has no process group.
        if fields.get(2) == Some(&"-1") {
            return Err(ProcError::Gone);
        }
        Ok(Stat {
            pid,
            comm: String::from_utf8_lossy(comm).into_owned(),
            state: fields.first().and_then(|text| text.chars().next()).ok_or(MALFORMED)?,
            parent_pid: field(&fields, 4).ok_or(MALFORMED)?,
            process_group: field(&fields, 5).ok_or(MALFORMED)?,
            session: field(&fields, 6).ok_or(MALFORMED)?,
            flags: field(&fields, 9).ok_or(MALFORMED)?,
            user_ticks: field(&fields, 14).ok_or(MALFORMED)?,
            system_ticks: field(&fields, 15).ok_or(MALFORMED)?,
            start_ticks: field(&fields, 22).ok_or(MALFORMED)?,
            image: field(&fields, 28).and_then(image),
        })
    }
}

/// The field of this number in proc(5), where `fields` begins with field 3.
fn field<T: FromStr>(fields: &[&str], number: usize) -> Option<T> {
    fields.get(number - 3)?.parse().ok()
}

/// The lines of /proc/PID/status that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The PID of the whole process; differs from the PID asked for where that is a thread.
    pub thread_group: u32,
    pub uid: u32,
    /// Its PID in each PID namespace from this /proc's inwards; more than one means a namespace of its own.
    pub namespace_pids: Vec<u32>,
}

/// The numbers of the line that begins with this name.
fn numbers(status: &[u8], name: &str) -> impl Iterator<Item = u32> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(name.as_bytes())).unwrap_or_default();
    // What is not of ASCII is in names alone, which are not asked for.
    std::str::from_utf8(line).unwrap_or_default().split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

/// A /proc to read from.
#[derive(Clone, Debug)]
pub struct Procfs {
    root: PathBuf,
    devices: PathBuf,
    system: PathBuf,
}

impl Default for Procfs {
    fn default() -> Self {
        Procfs::new("/proc")
    }
}

impl Procfs {
    /// Reads below `root`: /proc, or a folder that looks like one.
    pub fn new(root: impl Into<PathBuf>) -> Procfs {
        Procfs { root: root.into(), devices: PathBuf::from("/dev"), system: PathBuf::from("/sys") }
    }

    /// The same with the device files in another folder than /dev: the tests' own, whose `sys` stands for /sys.
    #[must_use]
    pub fn with_devices(self, devices: impl Into<PathBuf>) -> Procfs {
        let devices = devices.into();
        let system = if devices == Path::new("/dev") { self.system } else { devices.join("sys") };
        Procfs { devices, system, ..self }
    }

    /// /proc/PID/stat. Errors tell a process that is gone from one that may not be seen.
    pub fn stat(&self, pid: u32) -> Result<Stat, ProcError> {
        Stat::parse(pid, self.read_small(pid, "stat", &mut [0; COMMAND_BYTES])?)
    }

    /// Opens what of a process changes from reading to reading, to be read again and again: a third of the cost of opening
    /// it anew. The kernel binds an open file to that very process, whoever gets its PID later. `None` where it can't be
    /// opened, and for a folder that only looks like a /proc, whose files outlive what they tell of.
    pub fn watch(&self, pid: u32) -> Option<Watched> {
        if self.root != Path::new("/proc") {
            return None;
        }
        let [stat, command] = ["stat", "cmdline"].map(|file| File::open(self.path(pid, file)).ok());
        Some(Watched { pid, stat: stat?, command: command?, clock: Clock::default(), latest: None })
    }

    pub fn status(&self, pid: u32) -> Result<Status, ProcError> {
        let mut bytes = [0; COMMAND_BYTES];
        let text = self.read_small(pid, "status", &mut bytes)?;
        Ok(Status {
            thread_group: numbers(text, "Tgid:").next().ok_or(ProcError::Malformed("status"))?,
            uid: numbers(text, "Uid:").next().ok_or(ProcError::Malformed("status"))?,
            namespace_pids: numbers(text, "NSpid:").collect(),
        })
    }

    pub fn uid(&self, pid: u32) -> Result<u32, ProcError> {
        self.status(pid).map(|status| status.uid)
    }

    /// The arguments, cut after 4 KiB; empty for kernel threads and zombies. A program that sets its own title
    /// (setproctitle) has a single one. Control characters are left in.
    pub fn arguments(&self, pid: u32) -> Result<Vec<String>, ProcError> {
        Ok(arguments(self.read_small(pid, "cmdline", &mut [0; COMMAND_BYTES])?))
    }

    /// The value of a variable in the environment the program was started with. `None` where it is not set; programs
    /// that set their own title (vLLM, SGLang) have wiped it.
    pub fn environment_variable(&self, pid: u32, name: &str) -> Result<Option<String>, ProcError> {
        let bytes = self.read(pid, "environ", LARGE_FILE_BYTES)?;
        Ok(variable(&bytes, name))
    }

    pub fn working_directory(&self, pid: u32) -> Result<PathBuf, ProcError> {
        fs::read_link(self.path(pid, "cwd")).map_err(|error| self.failure(pid, &error))
    }

    /// /proc/PID/cgroup as text; see `place::Place::parse`.
    pub fn cgroup(&self, pid: u32) -> Result<String, ProcError> {
        self.read(pid, "cgroup", LARGE_FILE_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The same of this very process.
    pub fn own_cgroup(&self) -> Option<String> {
        self.machine_file("self/cgroup")
    }

    /// The NVIDIA driver's device files that a process has open (`/dev/nvidia*`, `/dev/dxg`), each once, sorted; empty
    /// where it has none. `/dev/nvidia-modeset` alone does not count: clients of a display server have it.
    /// Needs the process's own user or root: else `Denied`.
    pub fn open_driver_files(&self, pid: u32) -> Result<Vec<String>, ProcError> {
        Ok(self.driver_files(self.open_files(pid)?.into_iter().map(|(_, target)| target)))
    }

    /// The GPUs whose own device file a process has open. That is the proof that a driver's PID is this process, so the
    /// kernel's number of the device counts and not its name; `nvidiactl`, `nvidia-uvm` and `/dev/dri/*` prove nothing,
    /// since processes open them that use no GPU or another vendor's.
    pub fn open_cards(&self, pid: u32) -> Result<OpenCards, ProcError> {
        let mut cards = OpenCards::default();
        for (link, target) in self.open_files(pid)? {
            match self.card_of(&link, &target) {
                Some(CardFile::Minor(minor)) => cards.minors.push(minor),
                Some(CardFile::Windows) => cards.windows = true,
                None => {}
            }
        }
        Ok(cards)
    }

    /// True if a process below this one has a GPU's device file open: a launcher is recognized by its ranks.
    pub fn children_hold_cards(&self, pid: u32) -> bool {
        self.pids().into_iter().any(|child| self.has_card_open(child) && self.ancestors(child).contains(&pid))
    }

    /// Whether a process has a GPU's own device file open, of any vendor whose GPUs are read.
    pub fn has_card_open(&self, pid: u32) -> bool {
        let Ok(files) = self.open_files(pid) else { return false };
        files.iter().any(|(link, target)| {
            self.card_of(link, target).is_some()
                || self.node(link, target).is_some_and(|node| self.is_read_node(node.minor))
        })
    }

    /// What a process has open: each link of its descriptors, and where it leads.
    fn open_files(&self, pid: u32) -> Result<Vec<(PathBuf, String)>, ProcError> {
        let folder = self.path(pid, "fd");
        let entries = fs::read_dir(&folder).map_err(|error| self.failure(pid, &error))?;
        let mut files: Vec<(PathBuf, String)> = links(entries).collect();
        if files.is_empty() && !self.stat(pid)?.is_kernel_thread() {
            // One whose first thread has exited (a zombie) still has what its other threads have open.
            let tasks = fs::read_dir(self.path(pid, "task")).into_iter().flatten().flatten();
            let folders = tasks.filter_map(|task| fs::read_dir(task.path().join("fd")).ok());
            files = folders.flat_map(links).collect();
        }
        Ok(files)
    }

    /// The GPU that an open file is the device file of. A file of the tests' own folders is known by its path alone.
    fn card_of(&self, link: &Path, target: &str) -> Option<CardFile> {
        let named = named_card(Path::new(target).file_name()?.to_str()?)?;
        let card = if self.root == Path::new("/proc") && self.devices == Path::new("/dev") {
            let opened = fs::metadata(link).ok()?;
            match named {
                _ if !opened.file_type().is_char_device() => return None,
                CardFile::Minor(_) => card_of_device(opened.rdev())?,
                CardFile::Windows => CardFile::Windows,
            }
        } else {
            Path::new(target).starts_with(&self.devices).then_some(named)?
        };
        (card != CardFile::Windows || self.is_wsl()).then_some(card)
    }

    /// The PIDs above this one, nearest first, up to 1. Ends early where a parent can't be read.
    pub fn ancestors(&self, pid: u32) -> Vec<u32> {
        let mut above = Vec::new();
        let mut current = pid;
        while let Ok(stat) = self.stat(current) {
            if stat.parent_pid == 0 || above.contains(&stat.parent_pid) || above.len() >= MOST_ANCESTORS {
                break;
            }
            current = stat.parent_pid;
            above.push(current);
        }
        above
    }

    /// Whether a process and its parent are in one session. Not known counts as no: session 0 is one led from outside
    /// our PID namespace (`nsenter`, `unshare`, some container runtimes), whichever that is.
    pub fn shares_its_parents_session(&self, pid: u32) -> bool {
        let Ok(own) = self.stat(pid) else { return false };
        own.session != 0 && self.stat(own.parent_pid).is_ok_and(|parent| parent.session == own.session)
    }

    /// True if the PIDs in this /proc are those that signals are sent to: /proc may be that of another PID namespace.
    pub fn is_of_our_namespace(&self) -> bool {
        let own = std::process::id().to_string();
        fs::read_link(self.root.join("self")).is_ok_and(|target| target == Path::new(&own))
    }

    /// True if this is the machine's own PID namespace; unknown counts as false.
    pub fn in_initial_pid_namespace(&self) -> bool {
        fs::read_link(self.root.join("self/ns/pid")).is_ok_and(|target| target == Path::new(INITIAL_PID_NAMESPACE))
    }

    /// All processes we may see, in no order; empty where /proc can't be listed.
    pub fn pids(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    /// The GPU device files among these paths, each once, sorted; none where there is nothing but `-modeset`.
    fn driver_files(&self, paths: impl Iterator<Item = String>) -> Vec<String> {
        let mut files: Vec<String> = paths.filter(|path| self.is_driver_file(path)).collect();
        files.sort();
        files.dedup();
        if files.iter().all(|path| path.ends_with("/nvidia-modeset")) { Vec::new() } else { files }
    }

    fn is_driver_file(&self, path: &str) -> bool {
        let name = Path::new(path).strip_prefix(&self.devices).ok().and_then(Path::to_str);
        name.is_some_and(|name| name.starts_with("nvidia") || name == "dxg")
    }

    fn path(&self, pid: u32, file: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(file)
    }

    /// The first 4 KiB, in one read: stat, status and cmdline are given whole, and are read for many
    /// processes again and again.
    fn read_small<'a>(&self, pid: u32, file: &str, into: &'a mut Small) -> Result<&'a [u8], ProcError> {
        let read = File::open(self.path(pid, file)).and_then(|mut file| file.read(into));
        let read = read.map_err(|error| self.failure(pid, &error))?;
        Ok(into.get(..read).unwrap_or_default())
    }

    fn read(&self, pid: u32, file: &str, most: u64) -> Result<Vec<u8>, ProcError> {
        read_up_to(&self.path(pid, file), most).map_err(|error| self.failure(pid, &error))
    }

    fn failure(&self, pid: u32, error: &io::Error) -> ProcError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => ProcError::Denied,
            io::ErrorKind::NotFound if self.is_hidden(pid) => ProcError::Denied,
            io::ErrorKind::NotFound => ProcError::Gone,
            // A file that was opened while the process lived and read after it had ended.
            _ if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => ProcError::Gone,
            _ => ProcError::Failed(error.to_string()),
        }
    }

    /// Under hidepid=2 another user's process looks as if it did not exist; asking whether it could be signalled
    /// (nothing is sent) tells.
    fn is_hidden(&self, pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(rustix::process::Pid::from_raw);
        self.root == Path::new("/proc")
            && pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM))
    }
}

/// A mark of an address space, from where its stack begins (field 28): that is chosen by chance at each exec. It is 0
/// where it may not be seen, and close to the very end where nothing is left to chance. A mark only, so that no address
/// goes into what people send to others.
fn image(stack: u64) -> Option<u32> {
    let to_the_end = stack.checked_next_power_of_two()?.saturating_sub(stack);
    let mut hasher = DefaultHasher::new();
    stack.hash(&mut hasher);
    (stack > 0 && to_the_end > LARGEST_ARGUMENTS).then(|| (hasher.finish() >> 32) as u32)
}

/// Files of one process that are kept open; see [`Procfs::watch`].
#[derive(Debug)]
pub struct Watched {
    pid: u32,
    stat: File,
    command: File,
    clock: Clock,
    latest: Option<Latest>,
}

/// What was read of a process last.
#[derive(Debug)]
struct Latest {
    text: Box<[u8]>,
    stat: Arc<Stat>,
    /// How long the process had run before that; `None` where it was not asked.
    time_run: Option<Duration>,
    read_at: Instant,
}

impl Watched {
    /// As [`Procfs::stat`], and the very same as before where nothing changed; an error once the process has exited.
    /// The kernel takes 8 µs to write a stat and a fraction of one to tell how long a process has run. One that has not run did
    /// nothing: also to stop, to run another program or to exit it must run. Only its parent may be another one. The time of
    /// what runs at this moment is counted a tick later (on a processor without ticks, a second), so what it does then is seen at
    /// the reading after. No signal is decided by this stat.
    pub fn stat(&mut self) -> Result<Arc<Stat>, ProcError> {
        // Not at the first reading, for which somebody waits.
        let time_run = if self.latest.is_some() { self.clock.time_run(self.pid) } else { None };
        if let Some(latest) = &self.latest
            && time_run.is_some()
            && latest.time_run == time_run
            && latest.read_at.elapsed() < READ_STAT_AGAIN
        {
            return Ok(Arc::clone(&latest.stat));
        }
        let mut bytes = [0; COMMAND_BYTES];
        let (text, read_at) = (again(&self.stat, &mut bytes)?, Instant::now());
        if let Some(latest) = &mut self.latest
            && *latest.text == *text
        {
            (latest.time_run, latest.read_at) = (time_run, read_at);
            return Ok(Arc::clone(&latest.stat));
        }
        let stat = Arc::new(Stat::parse(self.pid, text)?);
        self.latest = Some(Latest { text: text.into(), stat: Arc::clone(&stat), time_run, read_at });
        Ok(stat)
    }

    /// Whether it was ending already when it was read last.
    pub fn was_exiting(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| latest.stat.is_exiting())
    }

    /// Makes the next reading a new one.
    pub fn doubt(&mut self) {
        if let Some(latest) = &mut self.latest {
            latest.time_run = None;
        }
    }

    pub fn arguments(&self) -> Result<Vec<String>, ProcError> {
        Ok(arguments(again(&self.command, &mut [0; COMMAND_BYTES])?))
    }
}

/// The beginning of an open file as it is now.
fn again<'a>(file: &File, into: &'a mut Small) -> Result<&'a [u8], ProcError> {
    let read = file.read_at(into, 0).map_err(|error| ProcError::Failed(error.to_string()))?;
    Ok(into.get(..read).unwrap_or_default())
}

/// A file's first bytes. Most of these files are small: with room for all of one, it is read at once and not bit by bit.
fn read_up_to(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(2048);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The words of a command line as the kernel keeps it.
fn arguments(bytes: &[u8]) -> Vec<String> {
    let mut arguments: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    while arguments.last().is_some_and(String::is_empty) {
        arguments.pop();
    }
    arguments
}

/// How many files this program may have open at a time.
pub fn files_we_may_open() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// The command line as `ps` shows it: the arguments joined, or without any the kernel's name in brackets.
pub fn command_line(arguments: &[String], comm: &str) -> String {
    if arguments.is_empty() { format!("[{comm}]") } else { arguments.join(" ") }
}

/// The value of a variable in an environment.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The links of a folder, and where they lead.
fn links(entries: fs::ReadDir) -> impl Iterator<Item = (PathBuf, String)> {
    entries.filter_map(|entry| {
        let link = entry.ok()?.path();
        let target = fs::read_link(&link).ok()?.to_str()?.to_owned();
        Some((link, target))
    })
}

/// The GPUs whose own device file a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCards {
    /// The kernel's numbers: 0 for /dev/nvidia0.
    minors: Vec<u32>,
    /// /dev/dxg under WSL2, which stands for all of them.
    windows: bool,
}

impl OpenCards {
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.minors.is_empty() && !self.windows
    }

    /// Whether it has that of the GPU with this number open. A number that is not known proves nothing.
    pub fn has(&self, minor: Option<u32>) -> bool {
        self.windows || minor.is_some_and(|minor| self.minors.contains(&minor))
    }
}

/// A GPU's own device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CardFile {
    Minor(u32),
    Windows,
}

/// What a device file of this name would be.
fn named_card(name: &str) -> Option<CardFile> {
    if name == "dxg" {
        return Some(CardFile::Windows);
    }
    let digits = name.strip_prefix("nvidia").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(CardFile::Minor)
}

/// The GPU whose device this is, by the kernel's numbers of it.
fn card_of_device(device: u64) -> Option<CardFile> {
    let minor = rustix::fs::minor(device);
    (rustix::fs::major(device) == NVIDIA_MAJOR && minor < NVIDIA_CONTROL_MINORS).then_some(CardFile::Minor(minor))
}

#[cfg(test)]
mod tests;
