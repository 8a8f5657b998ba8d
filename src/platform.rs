//! Owns what differs between operating systems, behind one trait: this machine's GPUs and processes, files that only
//! their owner may read, standard streams, the terminal's input and signals. The rest of the program asks [`Here`].
//! `linux` alone reads GPUs and signals processes; what other systems do in its place is `logs_only`.
//! Knows nothing of what a log means or of the screen.

pub(crate) mod host;
pub mod processes;
pub(crate) mod regular;

#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(not(target_os = "linux"))]
mod logs_only;
#[cfg(all(unix, not(target_os = "linux")))]
mod macos;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::Linux as Here;
#[cfg(all(unix, not(target_os = "linux")))]
pub use macos::Macos as Here;
#[cfg(windows)]
pub use windows::Windows as Here;

use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crossterm::event::Event;

use crate::gpu::{Header, Snapshot, Vantage};
use processes::Processes;

/// The processes of the system that this program is built for.
pub type Kernel = <Here as Platform>::Kernel;

/// How this machine's GPUs are read.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// The driver's library; `None` looks for the system's.
    pub nvml_library: Option<PathBuf>,
    /// Where the device files are.
    pub device_folder: PathBuf,
    /// From one reading to the next.
    pub interval: Duration,
}

/// What watching this machine brings.
#[derive(Debug)]
pub enum News {
    /// Who reads the machine: the first news of each reader.
    Header(Header),
    Snapshot(Box<Snapshot>),
    /// The reader ended, and why; it is started again.
    Down(String),
    /// Whether the machine lives on its battery.
    OnBattery(bool),
}

impl News {
    /// A line of the sampler's stream; its first one is the header.
    pub fn parse(line: &[u8], is_first: bool) -> Result<News, serde_json::Error> {
        if is_first {
            return serde_json::from_slice(line).map(News::Header);
        }
        serde_json::from_slice(line).map(News::Snapshot)
    }
}

/// Tells a watcher how far apart readings should be from now on.
pub type SetPace = Box<dyn Fn(Duration) + Send>;

/// What the system asks this program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTSTP: give the terminal back and stop.
    Stop,
    /// SIGCONT: run on; the terminal must be taken again.
    Continue,
    /// The terminal has another size.
    Resized,
    /// A signal of this number asks us to end.
    End(i32),
}

/// A pipe that can be read with a limit on the wait.
pub trait Pipe: Read + Send {
    /// Reads what is there. `Some(0)` at the end; `None` where nothing came in time.
    fn read_within(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Option<usize>>;
}

/// What came from the terminal.
#[derive(Debug)]
pub enum Typed {
    /// So many bytes in the block, to be decoded; 0 where the terminal is gone.
    Bytes(usize),
    /// Events that the system's own reader decoded. Those that were there together come together: what a paste brings
    /// as keys shows by that.
    Events(Vec<Event>),
    Nothing,
}

/// The terminal that a person types into.
pub trait Input: Send + 'static {
    /// Waits for what comes next, at most so long.
    fn next(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Typed>;
}

/// All that the program asks of an operating system where systems differ.
pub trait Platform {
    /// The name of the system, as a sentence has it.
    const NAME: &'static str;
    /// Where the settings lie, as the help has it.
    const CONFIG_FILE: &'static str;
    /// The variables that say where the state folder lies, as the end of a sentence.
    const STATE_UNKNOWN: &'static str;
    /// Why this build neither reads GPUs nor ends processes; `None` where it does both.
    const LOGS_ONLY: Option<&'static str>;
    /// What every reading of this build says of where it was taken, beside what the machine shows.
    const SEEN_FROM: &'static [Vantage];
    /// Whether the terminal marks what was pasted. Where it does not, a paste arrives as a burst of keys.
    const MARKS_PASTES: bool;

    type Kernel: Processes;
    /// A pipe that can be waited for.
    type Pipe: Pipe;
    /// What the terminal sends.
    type Input: Input;

    // ---- the machine

    /// The processes, without the leave to end those that are `spared` by name; inside a Kubernetes pod nothing
    /// is ended unless `allow_kill`.
    fn kernel(sampling: &Sampling, spared: &[String], allow_kill: bool) -> Self::Kernel;
    /// One reading, within a deadline; else why there is none.
    fn read_once(sampling: &Sampling) -> Result<Snapshot, String>;
    /// Reads again and again, until `tell` answers that nobody listens.
    fn watch(sampling: Sampling, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<SetPace>;
    /// Writes readings to standard output, a line each, until `count` are written or the output closes. `paced`: the pace
    /// is told on standard input.
    fn sample(sampling: &Sampling, count: Option<u64>, paced: bool) -> io::Result<()>;
    /// Names this boot of the machine; PIDs mean the same processes within one.
    fn boot_id() -> Option<String>;
    /// The machine's name; empty where it is not known.
    fn host_name() -> String;
    /// The name of the user who runs this.
    fn user_name() -> String;

    // ---- files

    fn home() -> Option<PathBuf>;
    /// Our folder among configurations.
    fn config_folder() -> Option<PathBuf>;
    /// Our folder for what is written.
    fn state_folder() -> Option<PathBuf>;
    /// Makes a folder that only its owner may look into, and those above it.
    fn make_private_folder(folder: &Path) -> io::Result<()>;
    /// Makes a file that only its owner may read; fails where there is one of that name, or a link.
    fn new_private_file(path: &Path) -> io::Result<File>;
    /// Opens a file of ours to append to, which only its owner may read. A link is not followed.
    fn append_to_private_file(path: &Path) -> io::Result<File>;
    /// Whether a file belongs to the user who runs this.
    fn is_own(there: &Metadata) -> bool;
    /// Whether code may be loaded because this file names it.
    fn may_name_a_library(settings: &Path) -> bool;
    /// Opens what is there to read it, without waiting for anybody.
    fn open_without_waiting(path: &Path) -> io::Result<File>;
    /// Whether this is a device, which may never end.
    fn is_device(kind: FileType) -> bool;
    /// Whether this is the name of a pipe.
    fn is_named_pipe(kind: FileType) -> bool;
    /// Opens a pipe that has a name, without waiting for its writer.
    fn open_named_pipe(path: &Path) -> io::Result<File>;
    /// Reads from there on, wherever the file was read before.
    fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize>;
    /// Tells this file or folder from every other, also from a later one of the same name.
    fn identity(path: &Path, there: &Metadata) -> io::Result<(u64, u64)>;

    // ---- standard streams and the program itself

    /// Standard input, to be read as a file.
    fn standard_input() -> io::Result<File>;
    /// Whether standard input holds something: a pipe or a file, no terminal and no empty device.
    fn is_input_fed() -> bool;
    /// Fails where there is no standard output.
    fn check_output_open() -> io::Result<()>;
    /// Reads a pipe with a limit on the wait.
    fn pipe(file: File) -> Self::Pipe;
    /// This program again, out of reach of a Ctrl-C that is meant for us.
    fn detached_self() -> io::Result<Command>;
    /// Has the allocator give large pieces of memory back once they are free.
    fn give_large_pieces_back() {}

    // ---- the terminal

    /// The terminal itself, wherever standard input and output lead, without what was typed before now.
    fn terminal_to_ask() -> io::Result<File>;
    /// Drops what was typed into that terminal and not read yet.
    fn forget_typed(terminal: &File) -> io::Result<()>;
    /// What the person types.
    fn input() -> io::Result<Self::Input>;
    /// Whether the terminal knows more than lines.
    fn can_be_drawn_on() -> bool {
        said("TERM").is_some_and(|term| term != "dumb")
    }
    /// Whether the terminal shows more than ASCII.
    fn shows_unicode() -> bool {
        let locale = said("LC_ALL").or_else(|| said("LC_CTYPE")).or_else(|| said("LANG")).unwrap_or_default();
        locale.to_lowercase().replace('-', "").contains("utf8") && said("TERM").as_deref() != Some("linux")
    }
    /// The system's own program that puts what it reads on standard input on the clipboard of this machine, and the text
    /// as that program reads it; `None` where there is none that every machine has.
    fn clipboard(_text: &str) -> Option<(Command, Vec<u8>)> {
        None
    }
    /// The terminal's modes are as they were before this program: `farewell` would take back what is
    /// printed from now on.
    fn remember_terminal(_farewell: Vec<u8>) {}
    /// Whether the terminal is ours now, to be given back by a fault.
    fn note_terminal_taken(_is_taken: bool) {}
    /// Tells what the system asks from now on, until `tell` answers that nobody listens. A fault of this program gives
    /// the terminal back from now on.
    fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()>;
    /// Whether somebody could bring us back after a stop.
    fn can_be_continued() -> bool;
    /// Stops the whole job, as Ctrl-Z does; our own part comes back as [`Asked::Stop`].
    fn ask_to_stop() {}
    /// Stops this program until somebody continues it.
    fn stop() -> io::Result<()> {
        Ok(())
    }
}

/// What an environment variable says; an empty one says nothing.
pub fn said(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
