//! Owns the question "may this process be signalled at all, and if not, why": one list of refusals, asked when a
//! person points at a process, again when they confirm, and again at the signal with what the kernel says then.

use super::running::Running;
use super::{GpuProcess, ProcessKey};

/// A signal a person can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Ask the process to exit.
    #[value(aliases = ["sigterm", "15"])]
    Term,
    /// Interrupt it, as Ctrl-C does.
    #[value(aliases = ["sigint", "2"])]
    Int,
    /// Kill it; it cannot refuse.
    #[value(aliases = ["sigkill", "9"])]
    Kill,
}

/// Who is looking: nobody may end themselves, what they run in, or what is not theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    /// Our real user id.
    pub uid: u32,
    /// Our own process id and those of every ancestor up to PID 1.
    pub lineage: Vec<u32>,
    /// Names of programs that the person's configuration spares.
    pub spared: Vec<String>,
    /// The user who became root by sudo: then those processes are the viewer's own, and root's are not.
    pub sudo_uid: Option<u32>,
    /// Inside a Kubernetes pod, and not started with `--allow-kill`.
    pub is_held_by_pod: bool,
}

/// What is known of a process that somebody wants to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect<'a> {
    pub pid: u32,
    /// Its user, if it may be seen.
    pub uid: Option<u32>,
    /// Its user's name, for the sentence.
    pub user: Option<&'a str>,
    /// Why it should be left alone by default (display server, …).
    pub protected: Option<&'a str>,
    /// Flagged PF_KTHREAD by the kernel.
    pub kernel_thread: bool,
    /// Whether the driver's PID is that process here.
    pub proved: bool,
}

/// Why nothing is signaled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// PID 0, 1, or one that no process can have.
    #[error("PID {0} is never ended: it is not an ordinary process")]
    ReservedPid(u32),
    /// This program itself or one it runs in.
    #[error("{0} is this program or one it runs in, so it is left alone")]
    Lineage(u32),
    /// A thread of the kernel.
    #[error("{0} is part of the kernel and can't be ended")]
    KernelThread(u32),
    /// A thread's id, not a process's; the second is its process.
    #[error("{0} is a thread of process {1}, so name {1} instead")]
    Thread(u32, u32),
    /// The display, the session, a driver daemon…; the text says which.
    #[error("{0} is left alone: {1}")]
    Protected(u32, String),
    /// Another user's, and the viewer is not root.
    #[error("{0} belongs to {1}: ask them, or whoever runs this machine")]
    OtherUser(u32, String),
    /// The driver's PID may be another process's here.
    #[error(
        "the driver's PID {0} can't be proved to be that process here (another container's, perhaps), so nothing is signalled"
    )]
    Unproved(u32),
    /// It exited in the meantime.
    #[error("{0} has already ended")]
    Gone(u32),
    /// The PID belongs to another process now.
    #[error("PID {0} belongs to another process by now")]
    Reused(u32),
    /// Its owner changed since it was shown.
    #[error("{0} belongs to another user by now, so look again first")]
    OwnerChanged(u32),
    /// A GPU of AMD or Intel listed it, and it has none of those open any more.
    #[error("{0} has closed the GPU that listed it, so ending it would free nothing: look again first")]
    Closed(u32),
    /// It runs another program than the one that was shown, or gave itself another title; the text is its command line.
    #[error("{0} calls itself {now} now, so look again first", now = brief(.1))]
    Changed(u32, String),
    /// The one that it should have ended with, the second, was not signaled.
    #[error("{0} works for {1}, which was not signalled, so it was left alone, too")]
    Follows(u32, u32),
    /// The reading is a recording or another machine's.
    #[error("this is a recording or another machine's reading: nothing here is ended because of it")]
    NotHere,
    #[error("started with --read-only: nothing is ended")]
    ReadOnly,
    /// Inside a Kubernetes pod, and not started with `--allow-kill`.
    #[error(
        "inside a Kubernetes pod nothing is signaled and no release is requested; start with --allow-kill to allow it"
    )]
    InPod,
    /// It was seen at work, so its program is not asked to release memory; the text is its activity.
    #[error("{0} is busy ({1}), so its program is not asked to release memory")]
    Busy(u32, String),
    /// The kernel or /proc said no; the text is its own word.
    #[error("{0} could not be signalled: {1}")]
    Failed(u32, String),
}

/// A command line within a sentence.
fn brief(command: &str) -> String {
    let mut characters = command.chars();
    let first: String = characters.by_ref().take(40).collect();
    match (first.as_str(), characters.next()) {
        ("", _) => "nothing".into(),
        (_, None) => first,
        (_, Some(_)) => first + "…",
    }
}

/// Why a process with this command line is spared: the configuration names its program or its script.
pub fn spares(spared: &[String], command: &str) -> Option<&'static str> {
    let words = command.split_ascii_whitespace().map(file_name);
    let words: Vec<&str> = words.collect();
    // `python -m vllm.entrypoints.openai.api_server`, and titles that a program gives itself: `VLLM::EngineCore`.
    let module = words.iter().position(|word| *word == "-m").and_then(|at| words.get(at.checked_add(1)?));
    let package = module.and_then(|module| module.split('.').next());
    let title = words.first().and_then(|word| word.split_once("::")).map(|(title, _)| title);
    let mut names = words.iter().copied().chain(package).chain(title);
    let is_spared = names.any(|word| spared.iter().any(|name| name.eq_ignore_ascii_case(word)));
    is_spared.then_some("your configuration protects it")
}

/// The last part of a path, without the colon that some titles end with.
fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default().trim_end_matches(':')
}

/// Why this is not the process with this PID that was shown; `None` where it still is.
pub fn changed(pid: u32, shown: &Running, now: &Running) -> Option<Refusal> {
    if now.has_other_owner(shown) {
        return Some(Refusal::OwnerChanged(pid));
    }
    if now.is_still(shown) { None } else { Some(Refusal::Changed(pid, now.command.clone())) }
}

impl Viewer {
    /// Why this process must not be signalled; `None` where it may.
    pub fn refuses(&self, suspect: &Suspect<'_>) -> Option<Refusal> {
        let pid = suspect.pid;
        if pid <= 1 || i32::try_from(pid).is_err() {
            return Some(Refusal::ReservedPid(pid));
        }
        if self.lineage.contains(&pid) {
            return Some(Refusal::Lineage(pid));
        }
        if suspect.kernel_thread {
            return Some(Refusal::KernelThread(pid));
        }
        if !suspect.proved {
            return Some(Refusal::Unproved(pid));
        }
        if self.uid != 0 && suspect.uid != Some(self.uid) {
            return Some(Refusal::OtherUser(pid, suspect.user.unwrap_or("another user").to_owned()));
        }
        suspect.protected.map(|why| Refusal::Protected(pid, why.to_owned()))
    }

    /// The same for a row of the list; its identity if it may be signalled.
    pub fn may_end(&self, row: &GpuProcess) -> Result<ProcessKey, Refusal> {
        let command = row.command.known().map_or("", String::as_str);
        let suspect = Suspect {
            pid: row.pid,
            uid: row.uid.value(),
            user: row.user.known().map(String::as_str),
            protected: (row.protected.as_deref())
                .or_else(|| super::recognise::protected_command(command))
                .or_else(|| spares(&self.spared, command)),
            kernel_thread: false,
            proved: row.proved,
        };
        match (self.refuses(&suspect), row.key()) {
            (Some(refusal), _) => Err(refusal),
            (None, None) => Err(Refusal::Unproved(row.pid)),
            (None, Some(key)) => Ok(key),
        }
    }

    /// Why nothing at all may be signaled or asked to release memory; `None` where it may.
    pub fn refuses_everything(&self) -> Option<Refusal> {
        self.is_held_by_pod.then_some(Refusal::InPod)
    }

    /// Whether the row is the viewer's own.
    pub fn owns(&self, row: &GpuProcess) -> bool {
        self.is_own(row.uid.value())
    }

    /// Whether this user is the viewer. An unknown user is another one. A person who became root by sudo is still that
    /// person: what root runs may be a service or anybody's container.
    pub fn is_own(&self, uid: Option<u32>) -> bool {
        let own = if self.uid == 0 { self.sudo_uid.unwrap_or(0) } else { self.uid };
        uid == Some(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(uid: u32) -> Viewer {
        Viewer { uid, lineage: vec![900, 800, 1], ..Viewer::default() }
    }

    fn suspect(pid: u32) -> Suspect<'static> {
        Suspect { pid, uid: Some(1000), user: Some("ada"), protected: None, kernel_thread: false, proved: true }
    }

    #[test]
    fn what_the_configuration_protects_is_known_in_every_form() {
        let spared = ["vllm".to_owned(), "serve.py".to_owned()];
        for line in [
            "vllm serve org/m",
            "/env/bin/python /env/bin/vllm serve org/m",
            "python -m vllm.entrypoints.openai.api_server --model m",
            "VLLM::EngineCore",
            "python /srv/serve.py",
        ] {
            assert!(spares(&spared, line).is_some(), "{line}");
        }
        for line in ["python train.py", "python -m torch.distributed.run vllm_train.py", "sglang::scheduler"] {
            assert_eq!(spares(&spared, line), None, "{line}");
        }
    }

    #[test]
    fn who_became_another_user_is_not_who_was_shown() {
        let of = |user| Running { user, ..Running::unmarked("job") };
        assert_eq!(changed(42, &of(Some(0)), &of(Some(7))), Some(Refusal::OwnerChanged(42)));
        assert_eq!(changed(42, &of(Some(7)), &of(Some(7))), None);
        assert_eq!(changed(42, &of(Some(7)), &of(None)), None, "of who exits the user can't be read");
        let other = Running { user: Some(7), ..Running::unmarked("bash") };
        assert_eq!(changed(42, &of(Some(7)), &other), Some(Refusal::Changed(42, "bash".into())));
    }

    #[test]
    fn every_refusal_has_its_reason() {
        let me = viewer(1000);
        assert_eq!(me.refuses(&suspect(4242)), None);
        for pid in [0, 1, u32::MAX, 1 << 31] {
            assert_eq!(me.refuses(&suspect(pid)), Some(Refusal::ReservedPid(pid)));
        }
        assert_eq!(me.refuses(&suspect(800)), Some(Refusal::Lineage(800)));
        assert_eq!(me.refuses(&Suspect { kernel_thread: true, ..suspect(7) }), Some(Refusal::KernelThread(7)));
        assert_eq!(me.refuses(&Suspect { proved: false, ..suspect(7) }), Some(Refusal::Unproved(7)));
        assert_eq!(
            me.refuses(&Suspect { uid: Some(1001), user: Some("bob"), ..suspect(7) }),
            Some(Refusal::OtherUser(7, "bob".into()))
        );
        assert_eq!(
            me.refuses(&Suspect { uid: None, user: None, ..suspect(7) }),
            Some(Refusal::OtherUser(7, "another user".into()))
        );
        assert_eq!(
            me.refuses(&Suspect { protected: Some("it draws the desktop"), ..suspect(7) }),
            Some(Refusal::Protected(7, "it draws the desktop".into()))
        );
    }

    #[test]
    fn what_the_kernels_name_protects_is_refused_when_a_person_points_at_it() {
        let me = viewer(1000);
        let mut row = crate::gpu::testing::process(4242, crate::units::Bytes::gib(1));
        // A title says nothing of what it is.
        row.command = crate::gpu::Reading::Known("my session".into());
        assert!(me.may_end(&row).is_ok());
        row.protected = Some("part of the desktop session".into());
        assert_eq!(me.may_end(&row), Err(Refusal::Protected(4242, "part of the desktop session".into())));
    }

    #[test]
    fn a_program_that_the_configuration_names_is_spared_by_its_name_alone() {
        let me = Viewer { spared: vec!["serve.py".into(), "vllm".into()], ..viewer(1000) };
        for command in ["/opt/bin/vllm serve m", "python -u /srv/serve.py --port 1", "vllm: worker"] {
            let mut row = crate::gpu::testing::process(4242, crate::units::Bytes::gib(1));
            row.command = crate::gpu::Reading::Known(command.into());
            assert!(matches!(me.may_end(&row), Err(Refusal::Protected(4242, _))), "{command}");
        }
        assert_eq!(spares(&me.spared, "python train.py --like vllm-model"), None);
    }

    #[test]
    fn under_sudo_the_own_processes_are_those_of_the_user_who_called_it() {
        let (root, ada) = (viewer(0), Viewer { sudo_uid: Some(1000), ..viewer(0) });
        assert!(root.is_own(Some(0)) && !root.is_own(Some(1000)) && !root.is_own(None));
        assert!(ada.is_own(Some(1000)) && !ada.is_own(Some(0)) && !ada.is_own(Some(1001)));
        // A variable that somebody else's shell left behind makes nobody another user.
        let bob = Viewer { sudo_uid: Some(1000), ..viewer(1001) };
        assert!(bob.is_own(Some(1001)) && !bob.is_own(Some(1000)));
    }

    #[test]
    fn root_may_end_other_users_but_nothing_protected_or_unproved() {
        let root = viewer(0);
        assert_eq!(root.refuses(&suspect(7)), None);
        assert!(root.refuses(&Suspect { proved: false, ..suspect(7) }).is_some());
        assert!(root.refuses(&Suspect { protected: Some("x"), ..suspect(7) }).is_some());
    }
}
