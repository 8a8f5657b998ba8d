//! Owns the record of what was sent to other people's programs: one JSON line for each signal and each request, for
//! what became of it and for the memory that it freed, appended to `signals.log` in the state folder. Nothing here can
//! stop or cause a signal or a request.

use std::io::{self, Write};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use crate::app::msg::SignalReport;
use crate::gpu::ProcessKey;
use crate::gpu::guard::Signal;
use crate::platform::processes::Note;
use crate::platform::{Kernel, here};
use crate::text::harmless_json;
use crate::units::Bytes;

const FILE: &str = "signals.log";

/// The file, made when the first line is written.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    folder: Option<PathBuf>,
}

/// Which process is signaled. Read before the signal: afterwards the process may be gone.
#[derive(Clone, Debug, Serialize)]
pub struct Deed {
    by: String,
    #[serde(flatten)]
    key: ProcessKey,
    user: Option<String>,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<Signal>,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
enum Event<'a> {
    Sent(&'a Deed),
    Asked {
        #[serde(flatten)]
        deed: &'a Deed,
        request: &'a str,
    },
    Answered {
        #[serde(flatten)]
        key: ProcessKey,
        answer: &'a str,
    },
    Ended {
        #[serde(flatten)]
        key: ProcessKey,
        after_seconds: f32,
    },
    StillThere {
        #[serde(flatten)]
        key: ProcessKey,
        state: Option<char>,
    },
    MemoryBack {
        #[serde(flatten)]
        key: ProcessKey,
        bytes: Bytes,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    #[serde(flatten)]
    event: Event<'a>,
}

impl Journal {
    /// A journal in this folder; `None` writes nothing, because no home is known.
    pub fn new(state_folder: Option<PathBuf>) -> Journal {
        Journal { folder: state_folder }
    }

    /// Reads which process this is. `signal` is `None` for requests to its program.
    pub fn deed(processes: &Kernel, key: ProcessKey, signal: Option<Signal>) -> Deed {
        let (user, command) = processes.named(key.pid);
        Deed { by: here::user_name(), key, user, command, signal }
    }

    /// Records what happened after a signal. A refusal sent no signal and leaves no line.
    pub fn note(&self, deed: &Deed, report: &SignalReport) -> io::Result<()> {
        let key = deed.key;
        self.write(match report {
            SignalReport::Refused(_) => return Ok(()),
            SignalReport::Sent => Event::Sent(deed),
            SignalReport::Ended(after) => Event::Ended { key, after_seconds: after.as_secs_f32() },
            SignalReport::StillThere(state) => Event::StillThere { key, state: *state },
        })
    }

    /// Records a request to a program, or its answer.
    pub fn note_request(&self, deed: &Deed, note: &Note) -> io::Result<()> {
        let key = deed.key;
        self.write(match note {
            Note::Sent(request) => Event::Asked { deed, request },
            Note::Answered(answer) => Event::Answered { key, answer },
        })
    }

    /// Records how much VRAM was freed.
    pub fn note_memory(&self, key: ProcessKey, bytes: Bytes) -> io::Result<()> {
        self.write(Event::MemoryBack { key, bytes })
    }

    fn write(&self, event: Event<'_>) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let line = harmless_json(serde_json::to_string(&Line { at: Timestamp::now().to_string(), event })?) + "\n";
        // One call a line: lines of several programs do not mix.
        here::make_private_folder(folder)?;
        here::append_to_private_file(&folder.join(FILE))?.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::platform::{Kernel, Sampling, machine};

    fn kernel() -> Kernel {
        machine::kernel(&Sampling::default(), &[], false)
    }

    #[test]
    fn each_signal_is_a_line_and_a_refusal_none() {
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(root.path().join("oomdoctor")));
        let path = root.path().join("oomdoctor").join(FILE);
        let own = std::process::id();
        let key = ProcessKey { pid: own, start_ticks: 7 };
        let deed = Journal::deed(&kernel(), key, Some(Signal::Term));
        journal.note(&deed, &SignalReport::Refused(crate::gpu::guard::Refusal::Gone(own))).unwrap();
        assert!(!path.exists());
        journal.note(&deed, &SignalReport::Sent).unwrap();
        journal.note(&deed, &SignalReport::Ended(Duration::from_millis(500))).unwrap();
        journal.note_memory(key, Bytes::gib(2)).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (&lines[0]["what"], &lines[0]["signal"], &lines[0]["pid"]),
            (&"sent".into(), &"TERM".into(), &own.into())
        );
        let is_named = lines[0]["command"].as_str().unwrap().contains("oomdoctor");
        assert_eq!(is_named, machine::LOGS_ONLY.is_none(), "{text}");
        assert_eq!((&lines[1]["what"], &lines[1]["after_seconds"]), (&"ended".into(), &0.5.into()));
        assert_eq!((&lines[2]["what"], &lines[2]["bytes"]), (&"memory-back".into(), &Bytes::gib(2).0.into()));
    }

    #[test]
    fn each_request_is_a_line_with_its_holder_and_each_answer_another() {
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::new(Some(root.path().into()));
        let key = ProcessKey { pid: std::process::id(), start_ticks: 7 };
        let deed = Journal::deed(&kernel(), key, None);
        let request = "POST http://127.0.0.1:11434/api/generate {\"model\":\"m\"}";
        journal.note_request(&deed, &Note::Sent(request.into())).unwrap();
        journal.note_request(&deed, &Note::Answered("200".into())).unwrap();
        let text = fs::read_to_string(root.path().join(FILE)).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["what"], &lines[0]["pid"]), (&"asked".into(), &key.pid.into()));
        assert_eq!((&lines[0]["request"], lines[0].get("signal")), (&request.into(), None));
        assert_eq!((&lines[1]["what"], &lines[1]["answer"]), (&"answered".into(), &"200".into()));
    }
}
