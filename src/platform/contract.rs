//! Owns what the program asks of an operating system: one trait for GPUs and processes, one for everything else, and the
//! types that both speak of. Names no system.

use std::fs::{File, FileType, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crossterm::event::Event;

use super::processes::Processes;
use crate::gpu::{Header, Snapshot, Vantage};

/// How this machine's GPUs are read.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// The path of the driver's library; `None` means the system's own.
    pub nvml_library: Option<PathBuf>,
    pub device_folder: PathBuf,
    /// The time from one reading to the next.
    pub interval: Duration,
}

/// What watching this machine reports.
#[derive(Debug)]
pub enum News {
    /// The first news of each reader says what that reader is.
    Header(Header),
    Snapshot(Box<Snapshot>),
    /// The reader ended for this reason. It is started again.
    Down(String),
    /// True while the machine runs on its battery.
    OnBattery(bool),
}

impl News {
    /// Parses a line of the sampler's stream, whose first line is the header.
    pub fn parse(line: &[u8], is_first: bool) -> Result<News, serde_json::Error> {
        if is_first {
            return serde_json::from_slice(line).map(News::Header);
        }
        serde_json::from_slice(line).map(News::Snapshot)
    }
}

/// Writes a line of that stream at once.
pub(super) fn write_line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Sets the time between readings of a watch that runs.
pub type SetPace = Box<dyn Fn(Duration) + Send>;

/// What the system asks this program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// SIGTSTP: restore the terminal and stop.
    Stop,
    /// SIGCONT: run on and set the terminal up again.
    Continue,
    /// The terminal has another size.
    Resized,
    /// The signal of this number asks the program to exit.
    End(i32),
}

/// A pipe that can be read with a time limit.
pub trait Pipe: Read + Send {
    /// Reads what is there: `Some(0)` at the end of the pipe, `None` if nothing came in time.
    fn read_within(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Option<usize>>;
}

/// What came from the terminal.
#[derive(Debug)]
pub enum Typed {
    /// This many bytes are in the block and still have to be decoded; 0 if the terminal is gone.
    Bytes(usize),
    /// Events that the system's own reader decoded. Events that were available together arrive together, because that
    /// is how a paste that arrives as keys is recognized.
    Events(Vec<Event>),
    Nothing,
}

/// The terminal that a person types into.
pub trait Input: Send + 'static {
    /// Waits for the next input, at most this long.
    fn next(&mut self, block: &mut [u8], patience: Option<Duration>) -> io::Result<Typed>;
}

/// Reads this machine's GPUs and processes.
pub trait Machine {
    /// Why this build neither reads GPUs nor signals processes; `None` where it does both.
    const LOGS_ONLY: Option<&'static str>;
    /// Where every reading of this build was taken, in addition to what the machine shows.
    const SEEN_FROM: &'static [Vantage];

    type Kernel: Processes;

    /// The machine's processes. Those `spared` by name may not be signaled, and inside a Kubernetes pod none may be
    /// unless `allow_kill` is set.
    fn kernel(sampling: &Sampling, spared: &[String], allow_kill: bool) -> Self::Kernel;
    /// One reading within a deadline, or why there is none.
    fn read_once(sampling: &Sampling) -> Result<Snapshot, String>;
    /// Reads again and again until `tell` answers that nobody listens.
    fn watch(sampling: Sampling, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<SetPace>;
    /// Writes readings to standard output, one per line, until `count` are written or the output closes. If `paced`,
    /// the interval is read from standard input.
    fn sample(sampling: &Sampling, count: Option<u64>, paced: bool) -> io::Result<()>;
    /// Identifies this boot of the machine: PIDs mean the same processes only within one boot.
    fn boot_id() -> Option<String>;
}

/// Everything else in which systems differ: names, files, standard streams, the terminal and signals.
pub trait Platform {
    /// Where the settings are, as the help shows it.
    const CONFIG_FILE: &'static str;
    /// Why there is no state folder, as the end of a sentence.
    const STATE_UNKNOWN: &'static str;
    /// True if the terminal marks pasted text. Otherwise a paste arrives as a burst of keys.
    const MARKS_PASTES: bool;

    type Pipe: Pipe;
    type Input: Input;

    // ---- names

    /// The machine's name; empty if it is not known.
    fn host_name() -> String;
    /// The name of the user who runs this program.
    fn user_name() -> String;

    // ---- files

    fn home() -> Option<PathBuf>;
    fn config_folder() -> Option<PathBuf>;
    fn state_folder() -> Option<PathBuf>;
    /// Creates a folder, and those above it, that only its owner may list.
    fn make_private_folder(folder: &Path) -> io::Result<()>;
    /// Creates a file that only its owner may read. Fails if the name is taken, also by a link.
    fn new_private_file(path: &Path) -> io::Result<File>;
    /// Opens a file to append to that only its owner may read. A link is not followed.
    fn append_to_private_file(path: &Path) -> io::Result<File>;
    /// True if the file belongs to the user who runs this program.
    fn is_own(there: &Metadata) -> bool;
    /// True if a library may be loaded because this settings file names it.
    fn may_name_a_library(settings: &Path) -> bool;
    /// True for a device, which may never end.
    fn is_device(kind: FileType) -> bool;
    fn is_named_pipe(kind: FileType) -> bool;
    /// Opens a named pipe without waiting for its writer.
    fn open_named_pipe(path: &Path) -> io::Result<File>;
    /// Reads from this offset, independent of earlier reads.
    fn read_at(file: &File, block: &mut [u8], at: u64) -> io::Result<usize>;
    /// Distinguishes this file or folder from every other one, including a later one of the same name.
    fn identity(path: &Path, there: &Metadata) -> io::Result<(u64, u64)>;

    // ---- standard streams and the program itself

    fn standard_input() -> io::Result<File>;
    /// True if standard input holds data: a pipe or a file, but no terminal and no empty device.
    fn is_input_fed() -> bool;
    /// Fails if standard output is closed.
    fn check_output_open() -> io::Result<()>;
    fn pipe(file: File) -> Self::Pipe;
    /// A command that runs this program again and that Ctrl-C in this terminal does not reach.
    fn detached_self() -> io::Result<Command>;
    /// Makes the allocator return large blocks to the system once they are free.
    fn return_large_blocks() {}

    // ---- the terminal

    /// The terminal itself, also if standard input and output are redirected.
    fn terminal_to_ask() -> io::Result<File>;
    /// Discards what was typed into that terminal and is not read yet.
    fn discard_typed(terminal: &File) -> io::Result<()>;
    fn input() -> io::Result<Self::Input>;
    /// True if the terminal can do more than print lines.
    fn can_be_drawn_on() -> bool {
        variable("TERM").is_some_and(|term| term != "dumb")
    }
    /// True if the terminal shows more than ASCII.
    fn shows_unicode() -> bool {
        let locale = variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG"));
        let is_utf8 = locale.unwrap_or_default().to_lowercase().replace('-', "").contains("utf8");
        is_utf8 && variable("TERM").as_deref() != Some("linux")
    }
    /// The system's own program that copies its standard input to this machine's clipboard, and the text encoded as that
    /// program reads it; `None` where no machine is sure to have one.
    fn clipboard(text: &str) -> Option<(Command, Vec<u8>)>;
    /// Remembers the terminal's current modes, and the `farewell` that reverts what is printed from now on.
    fn remember_terminal(_farewell: Vec<u8>) {}
    /// Says whether a fault of this program has to restore the terminal.
    fn note_terminal_taken(_is_taken: bool) {}
    /// Passes on what the system asks until `tell` answers that nobody listens.
    /// From now on a fault of this program restores the terminal.
    fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()>;
    /// True if a shell could continue this program after a stop.
    fn can_be_continued() -> bool;
    /// Stops the whole job, as Ctrl-Z does. This program's own part arrives as [`Asked::Stop`].
    fn ask_to_stop() {}
    /// Stops this program until somebody continues it.
    fn stop() -> io::Result<()> {
        Ok(())
    }
}

/// The value of an environment variable that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
