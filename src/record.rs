//! Owns the record of a run: the VRAM in use on each GPU, who used it, the memory of the run's own processes, when its
//! output spoke of memory, and how it ended. One JSON line each; `scribe` decides what is worth a line, `recording` is
//! what was read back, `rise` and `curve` say what it shows. Knows nothing of files, processes or the screen.

pub mod curve;
pub mod frame;
pub mod held;
pub mod passed;
pub mod recording;
pub mod rise;
pub mod scribe;
pub mod words;

use serde::{Deserialize, Serialize};

use crate::gpu::glance::Peaks;
use crate::gpu::{Header, Snapshot};
use crate::units::{Bytes, WallTime};

/// A time since the record's beginning, in milliseconds.
pub type Millis = u64;

/// One line of a record. A plain sample stream has headers and readings alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Header(Header),
    /// A whole reading of the machine.
    Reading(Box<Snapshot>),
    Note(Note),
}

/// What a record has between its readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// What ran. The first note.
    Run(Run),
    /// The VRAM in use on the GPUs where it changed, by the driver's index.
    Used { at: Millis, gpus: Vec<(u32, Bytes)> },
    /// The VRAM of the processes whose use changed: GPU, PID, bytes. 0 bytes: it is not listed any more.
    Rows { at: Millis, rows: Vec<(u32, u32, Bytes)> },
    /// The system memory, where it changed.
    Host {
        at: Millis,
        #[serde(flatten)]
        host: HostMemory,
    },
    /// The most that processes ever used, as the driver counted it: GPU, PID, bytes.
    Peaks { at: Millis, peaks: Vec<(u32, u32, Bytes)> },
    /// A line of the output that spoke of memory.
    Mark { at: Millis, text: String },
    /// When lines of the kept output came: the time, and the number of the last line by then (from 1).
    Lines { lines: Vec<(Millis, u32)> },
    /// How the command ended.
    End { at: Millis, end: End },
    /// What was said about the failure.
    Said(Said),
    /// A reading of a sample stream with glances.
    #[serde(skip)]
    Glance(crate::gpu::glance::Glance),
}

/// The command of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// When the record began.
    pub started_at: WallTime,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder it ran in.
    pub folder: String,
    /// The PID of the command.
    pub pid: u32,
    /// The fix whose effect this run tries, and the record of the run before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<Try>,
    /// The variables of the command that say which rank and which GPUs are its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// The options of `oomdoctor run` that the same command gets when it is run again.
    #[serde(default, skip_serializing_if = "RunOptions::are_none")]
    pub options: RunOptions,
}

/// The options of `oomdoctor run` that belong to the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOptions {
    /// PyTorch writes a memory snapshot.
    #[serde(default)]
    pub torch_snapshot: bool,
    /// The file for a report, as a path from the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

impl RunOptions {
    pub(crate) fn are_none(&self) -> bool {
        *self == RunOptions::default()
    }

    /// As they are typed.
    pub fn arguments(&self) -> Vec<String> {
        let snapshot = self.torch_snapshot.then(|| "--torch-snapshot".to_owned());
        let report = self.report.iter().flat_map(|report| ["--report".to_owned(), report.clone()]);
        snapshot.into_iter().chain(report).collect()
    }
}

/// A fix that a run tries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// The id of the fix.
    pub fix: String,
    /// The record of the run that failed.
    pub after: String,
}

/// The system memory of the run. What is not known is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostMemory {
    /// Resident memory of the command and all below it. Pages that they share count for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Bytes>,
    /// What a program could get without swapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<Bytes>,
    /// In use in the command's cgroup, its limit, and the most that was ever in use there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_used: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_limit: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_peak: Option<Bytes>,
    /// How many processes the kernel has killed there because its limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kills: Option<u64>,
    /// The share of the last 10 s in which something waited for memory, in hundredths of a percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<u32>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its exit code.
    Code(i32),
    /// The number of the signal that ended it.
    Signal(i32),
    /// How it ended is not known, because it was not started here.
    Unknown,
}

impl End {
    /// Whether it ended as one that did what it should.
    pub fn is_success(self) -> bool {
        self == End::Code(0)
    }
}

/// What was said about a failure: the estimates that the next run is held to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Said {
    /// The entry of the knowledge base.
    pub entry: String,
    /// The GPU that the failure was on, by the driver's index.
    pub gpu: Option<u32>,
    /// What the run needs, and whether that is only a lower bound.
    pub needs: Option<Bytes>,
    pub at_least: bool,
    pub free: Option<Bytes>,
    /// The fixes in their order.
    pub fixes: Vec<SaidFix>,
    /// The memory snapshots that PyTorch wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<String>,
}

/// A fix as it was offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SaidFix {
    pub fix: String,
    /// `yes`, `likely` and so on, as the JSON of a diagnosis has it.
    pub enough: String,
    pub frees: Option<Bytes>,
}

impl Line {
    /// Reads a line. The first one of a stream is its header.
    pub fn parse(line: &[u8], is_first: bool) -> Result<Line, serde_json::Error> {
        if is_first || line.starts_with(b"{\"schema\"") {
            serde_json::from_slice(line).map(Line::Header)
        } else if line.starts_with(b"{\"taken_at\"") {
            serde_json::from_slice(line).map(Line::Reading)
        } else if line.starts_with(b"{\"peaks\":[") {
            // Of a sample stream, which gives them no time.
            let told: Peaks = serde_json::from_slice(line)?;
            Ok(Line::Note(Note::Peaks { at: 0, peaks: told.peaks }))
        } else if line.starts_with(b"{\"glanced_at\"") {
            serde_json::from_slice(line).map(|glance| Line::Note(Note::Glance(glance)))
        } else {
            serde_json::from_slice(line).map(Line::Note)
        }
    }

    /// The line as it is written, with its line end.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let json = match self {
            Line::Header(header) => serde_json::to_string(header),
            Line::Reading(reading) => serde_json::to_string(reading),
            Line::Note(note) => serde_json::to_string(note),
        };
        json.map(|text| text + "\n")
    }
}

/// The time from one moment to another, 0 if it is before.
pub(crate) fn millis_between(from: WallTime, to: WallTime) -> Millis {
    u64::try_from(to.0.duration_since(from.0).as_millis()).unwrap_or(0)
}
