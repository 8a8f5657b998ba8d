//! Owns what is asked of a machine's processes: who has a PID now, ending one of them safely, asking its own program to
//! free memory. How a system does that is its platform's part; a double stands in for it in tests.

use std::io;
use std::time::Duration;

use crate::gpu::guard::{Signal, Suspect};
use crate::gpu::running::Running;

/// What the kernel says of a process now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Field 22 of /proc/PID/stat.
    pub start_ticks: u64,
    /// What it runs: its command line as the list shows it, empty where it can't be read; `None` of one that is ending,
    /// which has none any more.
    pub runs: Option<Running>,
    /// Its real user id, where it may be seen.
    pub uid: Option<u32>,
    pub user: Option<String>,
    /// Why it should be left alone by default.
    pub protected: Option<&'static str>,
    pub kernel_thread: bool,
    /// The process, where the number is only a thread's of it.
    pub thread_of: Option<u32>,
    /// Whether a driver's PID is that process here; see DESIGN's "Killing".
    pub proved: bool,
    pub state: char,
}

impl Inspection {
    /// For the list of refusals.
    pub fn suspect(&self, pid: u32) -> Suspect<'_> {
        Suspect {
            pid,
            uid: self.uid,
            user: self.user.as_deref(),
            protected: self.protected,
            kernel_thread: self.kernel_thread,
            proved: self.proved,
        }
    }
}

/// The kernel's side of signaling; a double stands in for it in tests.
pub trait ProcessControl: Send + Sync {
    /// Refers to one process for good, whatever happens to its PID.
    type Handle: Send;

    /// Takes a handle on whatever has this PID now.
    fn open(&self, pid: u32) -> io::Result<Self::Handle>;
    /// Reads /proc for the PID now; `None` where it has exited.
    fn inspect(&self, pid: u32) -> io::Result<Option<Inspection>>;
    /// Whether it has one of these GPUs, given by PCI address, open now. What can't be read counts as no.
    fn has_open(&self, pid: u32, cards: &[String]) -> bool;
    /// Signals the handle's process.
    fn signal(&self, handle: &Self::Handle, signal: Signal) -> io::Result<()>;
    /// Lets a stopped process run on, so that it can act on a pending signal.
    fn wake(&self, handle: &Self::Handle) -> io::Result<()>;
    /// Waits until it has exited, at most `longest`. True if it has.
    fn wait(&self, handle: &Self::Handle, longest: Duration) -> io::Result<bool>;
}

/// What is to be recorded of a request: it just before it is sent, then what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Sent now: `POST http://127.0.0.1:11434/api/generate {"model":…}`.
    Sent(String),
    /// The status of the answer, or why there was no answer.
    Answered(String),
}
