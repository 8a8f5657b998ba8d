//! Owns the real side of `ProcessControl`: pidfd calls and what /proc says at the moment of the signal.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::procfs::{ProcError, Procfs, command_line};
use super::release;
use crate::advice::release::Release;
use crate::gpu::ProcessKey;
use crate::gpu::guard::{Signal, Viewer, spares};
use crate::gpu::recognise;
use crate::gpu::running::Running;
use crate::platform::processes::{Inspection, Note, ProcessControl};
use crate::platform::unix::pipe::timespec;
use crate::platform::unix::users::Users;
use crate::text::harmless;
use crate::units::WallTime;

/// The kernel of this machine.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    pub(super) procfs: Procfs,
    /// Programs that the configuration spares.
    pub(super) spared: Vec<String>,
    /// Inside a Kubernetes pod, without the leave to signal anything from there.
    pub(super) is_held_by_pod: bool,
}

impl Kernel {
    pub fn new(procfs: Procfs) -> Kernel {
        Kernel { procfs, ..Kernel::default() }
    }

    /// Whether what it works for is spared, up to the shell or terminal that somebody started that in.
    fn spares_its_server(&self, pid: u32) -> Option<&'static str> {
        if self.spared.is_empty() {
            return None;
        }
        let lines = self.procfs.ancestors(pid).into_iter().map_while(|above| {
            let stat = self.procfs.stat(above).ok()?;
            let arguments = self.procfs.arguments(above).unwrap_or_default();
            (!recognise::kin::is_a_start(&stat.comm, &arguments)).then(|| arguments.join(" "))
        });
        lines.take_while(|line| !line.is_empty()).find_map(|line| spares(&self.spared, &line))
    }

    /// True if a child has a GPU open: a launcher has none open itself, so its ranks prove it. A shell is proved by
    /// nothing that was started in it.
    fn is_launcher(&self, pid: u32, arguments: &[String]) -> bool {
        self.procfs.stat(pid).is_ok_and(|stat| !recognise::kin::is_a_start(&stat.comm, arguments))
            && self.procfs.children_hold_cards(pid)
    }
}

impl ProcessControl for Kernel {
    type Handle = OwnedFd;

    fn open(&self, pid: u32) -> io::Result<OwnedFd> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
            // A thread's id: ENOENT, or EINVAL on older kernels.
            rustix::io::Errno::SRCH | rustix::io::Errno::NOENT | rustix::io::Errno::INVAL => {
                io::ErrorKind::NotFound.into()
            }
            rustix::io::Errno::NOSYS => io::Error::other(
                "this kernel is older than 5.3 and can't tell a process from one that reuses its PID; use kill yourself",
            ),
            other => other.into(),
        })
    }

    fn inspect(&self, pid: u32) -> io::Result<Option<Inspection>> {
        let status = self.procfs.status(pid).ok();
        let uid = status.as_ref().map(|status| status.uid);
        let thread_of = status.map(|status| status.thread_group).filter(|process| *process != pid);
        let arguments = self.procfs.arguments(pid).unwrap_or_default();
        let command = arguments.join(" ");
        let proved = self.procfs.is_of_our_namespace()
            && (self.procfs.in_initial_pid_namespace()
                || self.procfs.has_card_open(pid)
                || self.is_launcher(pid, &arguments));
        // The program may change its command line at any moment, so this is read late.
        let now = self.procfs.arguments(pid);
        // The start is read last: if it is that of the expected process, all that was read above belongs to it too, and a
        // process that ended meanwhile is reported as ended and not as another user's.
        let stat = match self.procfs.stat(pid) {
            Ok(stat) => stat,
            Err(ProcError::Gone) => return Ok(None),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        Ok(Some(Inspection {
            start_ticks: stat.start_ticks,
            runs: (!stat.is_exiting()).then(|| {
                let command = now.map(|now| command_line(&now, &stat.comm)).unwrap_or_default();
                Running { command: harmless(&command).into_owned(), image: stat.image, user: uid }
            }),
            uid,
            user: uid.map(|uid| Users::read().name(uid)),
            protected: recognise::protected(&stat.comm, &command)
                .or_else(|| spares(&self.spared, &command))
                .or_else(|| self.spares_its_server(pid)),
            kernel_thread: stat.is_kernel_thread(),
            thread_of,
            proved,
            state: stat.state,
        }))
    }

    fn has_open(&self, pid: u32, cards: &[String]) -> bool {
        self.procfs.has_one_open(pid, cards)
    }

    fn signal(&self, handle: &OwnedFd, signal: Signal) -> io::Result<()> {
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Int => rustix::process::Signal::INT,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        pidfd_send_signal(handle, signal).map_err(|error| match error {
            rustix::io::Errno::SRCH => io::ErrorKind::NotFound.into(),
            other => other.into(),
        })
    }

    fn wake(&self, handle: &OwnedFd) -> io::Result<()> {
        Ok(pidfd_send_signal(handle, rustix::process::Signal::CONT)?)
    }

    fn wait(&self, handle: &OwnedFd, longest: Duration) -> io::Result<bool> {
        let due = Instant::now() + longest;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timespec(left))) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Kernel {
    /// Who we are, for the list of refusals.
    pub fn viewer(&self) -> Viewer {
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let mut lineage = self.procfs.ancestors(own);
        lineage.push(own);
        let uid = rustix::process::getuid().as_raw();
        let caller = if uid == 0 { self.procfs.own_variable("SUDO_UID") } else { None };
        let sudo_uid = caller.and_then(|uid| uid.parse().ok());
        Viewer { uid, lineage, spared: self.spared.clone(), sudo_uid, is_held_by_pod: self.is_held_by_pod }
    }

    /// Who it is, for the record: its user's name, where it may be seen, and its command line; empty where it can't be read.
    pub fn named(&self, pid: u32) -> (Option<String>, String) {
        let user = self.procfs.uid(pid).ok().map(|uid| Users::read().name(uid));
        (user, self.procfs.arguments(pid).unwrap_or_default().join(" "))
    }

    /// When it was started.
    pub fn started_at(&self, key: ProcessKey) -> Option<WallTime> {
        self.procfs.boot_clock()?.at(key.start_ticks)
    }

    /// Of these environment variables whether they are set, as far as that may be seen; `None` where the process is gone.
    pub fn are_set(&self, key: ProcessKey, names: &[String]) -> Option<Vec<(String, bool)>> {
        if self.procfs.stat(key.pid).ok()?.key() != key {
            return None;
        }
        let readable = names.iter().filter_map(|name| {
            let value = self.procfs.environment_variable(key.pid, name).ok()?;
            Some((name.clone(), value.is_some()))
        });
        Some(readable.collect())
    }

    /// Asks a process's own program to free memory. Returns what was asked of which program, or why that failed
    /// (as the end of a sentence).
    pub fn ask(&self, key: ProcessKey, release: &Release, note: impl Fn(Note)) -> Result<String, String> {
        release::ask(&self.procfs, key, release, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::effect::Order;
    use crate::gpu::ProcessKey;
    use crate::gpu::guard::Refusal;
    use crate::runtime::process_control::end;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        // It must not hold the test's own output open, should the test leave it behind.
        Command::new("sleep").arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn order(key: ProcessKey, signal: Signal) -> Order {
        let ran = Kernel::default().inspect(key.pid).unwrap().unwrap().runs.unwrap();
        Order { key, ran, signal, follows: None, cards: Vec::new(), grace: Duration::ZERO }
    }

    fn key_of(child: &Child) -> ProcessKey {
        Procfs::default().stat(child.id()).unwrap().key()
    }

    /// This test's own process started the child: it must not count as an ancestor to be spared, nor does it.
    fn viewer() -> Viewer {
        Kernel::default().viewer()
    }

    #[test]
    fn a_real_child_ends_by_term_and_is_seen_to() {
        let mut child = sleeper();
        let kernel = Kernel::default();
        let Ok(handle) = end(&kernel, &viewer(), &order(key_of(&child), Signal::Term)) else {
            // In a container's PID namespace a child that holds no driver file is not proved: refused, rightly.
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!Procfs::default().in_initial_pid_namespace());
            return;
        };
        assert!(kernel.wait(&handle, Duration::from_secs(10)).unwrap());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn an_exec_of_the_same_words_is_another_program_and_a_program_keeps_its_mark() {
        use std::io::{BufRead, BufReader, Write};
        let mut command = Command::new("sh");
        command.arg0("step 1").args(["-c", "echo a; read go; exec sh -c 'echo b; read end' 'step 2'"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut hand, mut words) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        let runs = || Kernel::default().inspect(child.id()).unwrap().unwrap().runs.unwrap();
        assert_eq!(words.next().unwrap().unwrap(), "a");
        let (first, again) = (runs(), runs());
        hand.write_all(b"go\n").unwrap();
        assert_eq!(words.next().unwrap().unwrap(), "b");
        let other = runs();
        drop(hand);
        child.wait().unwrap();
        assert_eq!(first, again);
        // None where addresses are not left to chance, as under some debuggers: then the name alone counts.
        assert!(first.image.is_none() || first.image != other.image, "{first:?} {other:?}");
    }

    #[test]
    fn a_threads_id_is_said_to_be_one_and_nothing_is_signalled() {
        let (kept, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // "4242/task/4243"
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(own.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
            wait.recv()
        });
        let (own, id) = (std::process::id(), told.recv().unwrap());
        let key = Procfs::default().stat(id).unwrap().key();
        let order = Order {
            key,
            ran: Running::default(),
            signal: Signal::Kill,
            follows: None,
            cards: Vec::new(),
            grace: Duration::ZERO,
        };
        assert_eq!(end(&Kernel::default(), &viewer(), &order).unwrap_err(), Refusal::Thread(id, own));
        drop(kept);
        let _ = thread.join();
    }

    #[test]
    fn another_start_time_spares_a_real_child() {
        let mut child = sleeper();
        let wrong = ProcessKey { start_ticks: key_of(&child).start_ticks + 1, ..key_of(&child) };
        let refused = end(&Kernel::default(), &viewer(), &order(wrong, Signal::Kill)).unwrap_err();
        assert_eq!(refused, Refusal::Reused(child.id()));
        assert_eq!(child.try_wait().unwrap(), None, "it still runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A real process with a device file of a second GPU open, in folders of the test's own.
    #[test]
    fn a_process_that_a_gpu_of_amd_lists_is_signalled_only_while_it_has_that_one_open() {
        let root = tempfile::tempdir().unwrap();
        for (number, address) in [(128, "0000:03:00.0"), (129, "0000:83:00.0")] {
            let about = root.path().join(format!("sys/class/drm/renderD{number}/device"));
            std::fs::create_dir_all(&about).unwrap();
            std::fs::write(about.join("uevent"), format!("DRIVER=amdgpu\nPCI_SLOT_NAME={address}\n")).unwrap();
        }
        let node = root.path().join("dev/dri/renderD129");
        std::fs::create_dir_all(node.parent().unwrap()).unwrap();
        std::fs::write(&node, "").unwrap();
        // It says when it has the file open and runs as itself.
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<\"$0\"; echo ready; read end"]).arg(&node);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 5];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let procfs = Procfs::default().with_devices(root.path().join("dev")).with_system(root.path().join("sys"));
        let (kernel, key) = (Kernel::new(procfs), key_of(&child));
        let order = |card: &str| Order { cards: vec![card.into()], ..order(key, Signal::Term) };
        let refused = end(&kernel, &viewer(), &order("0000:03:00.0")).err();
        assert_eq!((refused, child.try_wait().unwrap()), (Some(Refusal::Closed(key.pid)), None));
        let handle = end(&kernel, &viewer(), &order("0000:83:00.0")).unwrap();
        assert!(kernel.wait(&handle, Duration::from_secs(10)).unwrap());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn what_a_protected_program_runs_is_protected_at_the_signal() {
        let mut child = sleeper();
        let program = std::env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap().to_owned();
        let sparing = |spared: &str| Kernel { spared: vec![spared.to_owned()], ..Kernel::default() };
        let protected = |spared: &str| sparing(spared).inspect(child.id());
        assert!(protected(&name).unwrap().unwrap().protected.is_some(), "{name} runs it");
        assert!(protected("another").unwrap().unwrap().protected.is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn another_namespaces_proc_proves_nobody() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("70");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stat"), "70 (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 5 0").unwrap();
        let proved = |own: u32| {
            let _ = std::fs::remove_file(root.path().join("self"));
            let _ = std::fs::remove_dir_all(root.path().join(own.to_string()));
            let own = root.path().join(own.to_string());
            std::fs::create_dir_all(own.join("ns")).unwrap();
            std::os::unix::fs::symlink("pid:[4026531836]", own.join("ns/pid")).unwrap();
            std::os::unix::fs::symlink(own.file_name().unwrap(), root.path().join("self")).unwrap();
            Kernel::new(Procfs::new(root.path())).inspect(70).unwrap().unwrap().proved
        };
        assert!(proved(std::process::id()));
        assert!(!proved(std::process::id() + 1), "its PIDs are not those that our signals go to");
    }

    /// A /proc in which PID 70 ends and is given to another user's process while its owner is read: what was there
    /// before stands in a pipe that answers only once the other one is there.
    #[test]
    fn one_whose_pid_changes_hands_while_it_is_looked_at_is_said_to_be_reused_and_not_another_users() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("70");
        std::fs::create_dir_all(&folder).unwrap();
        let stat = |start: u32| format!("70 (job) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 {start} 0");
        std::fs::write(folder.join("stat"), stat(5)).unwrap();
        let status = folder.join("status");
        rustix::fs::mkfifoat(rustix::fs::CWD, &status, rustix::fs::Mode::RWXU).unwrap();
        let taken = std::thread::spawn(move || {
            // Opens once somebody reads the owner.
            let mut owner = std::fs::OpenOptions::new().write(true).open(&status).unwrap();
            std::fs::write(folder.join("stat"), stat(6)).unwrap();
            io::Write::write_all(&mut owner, b"Tgid: 70\nUid: 1001 1001 1001 1001\n").unwrap();
        });
        let seen = Kernel::new(Procfs::new(root.path())).inspect(70).unwrap().unwrap();
        taken.join().unwrap();
        assert_eq!(seen.start_ticks, 6, "the start is that of whose owner was read");
    }

    #[test]
    fn one_that_is_ending_has_no_name_and_another_has_the_lists() {
        let root = tempfile::tempdir().unwrap();
        let called = |flags: u32, command: &str| {
            std::fs::create_dir_all(root.path().join("70")).unwrap();
            let stat = format!("70 (job) S 1 1 1 0 -1 {flags} 0 0 0 0 3 4 0 0 20 0 1 0 5 0");
            std::fs::write(root.path().join("70/stat"), stat).unwrap();
            std::fs::write(root.path().join("70/cmdline"), command).unwrap();
            Kernel::new(Procfs::new(root.path())).inspect(70).unwrap().unwrap().runs.map(|runs| runs.command)
        };
        assert_eq!(called(0x0040_0000, "python\0a\u{1b}b\0").as_deref(), Some("python a·b"));
        assert_eq!(called(0x0040_0000, "").as_deref(), Some("[job]"));
        assert_eq!(called(0x0040_0004, ""), None);
    }

    #[test]
    fn we_and_what_we_run_in_are_spared() {
        let own = std::process::id();
        let key = Procfs::default().stat(own).unwrap().key();
        let refused = end(&Kernel::default(), &viewer(), &order(key, Signal::Term)).unwrap_err();
        assert_eq!(refused, Refusal::Lineage(own));
        let parent = Procfs::default().stat(own).unwrap().parent_pid;
        if parent > 1 {
            let key = Procfs::default().stat(parent).unwrap().key();
            assert_eq!(
                end(&Kernel::default(), &viewer(), &order(key, Signal::Term)).unwrap_err(),
                Refusal::Lineage(parent)
            );
        }
    }
}
