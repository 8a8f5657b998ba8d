//! Owns the types that what is asked of an operating system speaks of: how GPUs are read, what watching them reports,
//! what the system asks of this program. Names no system.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::Event;

use crate::gpu::glance::{Glance, Peaks};
use crate::gpu::{Header, Snapshot};
use crate::record::{End, HostMemory};
use crate::text::harmless_json;

/// How this machine's GPUs are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The path of the driver's library; `None` means the system's own.
    pub nvml_library: Option<PathBuf>,
    pub device_folder: PathBuf,
    /// In place of /sys and /proc: the tests' own.
    pub system_folder: Option<PathBuf>,
    pub process_folder: Option<PathBuf>,
    /// The time from one reading to the next.
    pub interval: Duration,
    /// The time from one glance to the next; `None` reads no glances.
    pub glance: Option<Duration>,
    /// Whether Windows is asked for its own processes, under WSL2.
    pub windows: bool,
}

/// How lines begin that are no whole reading.
const GLANCE: &[u8] = b"{\"glanced_at\"";

const PEAKS: &[u8] = b"{\"peaks\"";

/// What watching this machine reports.
#[derive(Debug)]
pub enum News {
    /// The first news of each reader says what that reader is.
    Header(Header),
    Snapshot(Box<Snapshot>),
    /// Only where `Sampling::glance` asks for them.
    Glance(Glance),
    /// The same, where the driver's accounting is on.
    Peaks(Peaks),
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
        if line.starts_with(PEAKS) {
            return serde_json::from_slice(line).map(News::Peaks);
        }
        if line.starts_with(GLANCE) {
            return serde_json::from_slice(line).map(News::Glance);
        }
        serde_json::from_slice(line).map(News::Snapshot)
    }
}

/// Writes a line of that stream at once and says whether somebody still reads it: that nobody does is no error.
pub(super) fn write_line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<bool> {
    let line = harmless_json(serde_json::to_string(value)?) + "\n";
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// How a command ended that ran in this program's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relayed {
    pub end: End,
    /// Whether the last thing on the terminal was a whole line.
    pub ended_with_a_line: bool,
}

/// Reads the system memory of a command.
pub(crate) type ReadLoad = Box<dyn FnMut() -> HostMemory + Send>;

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

/// The value of an environment variable that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
