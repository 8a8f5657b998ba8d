//! Owns how a command prints its answer or its error. A reader that has exited (`| head`) is not an error. A full disk or
//! a closed output is one, and the exit code reports it.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::platform::here;
use crate::text::{harmless_json, harmless_lines};

pub(super) fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // Without this flush, an error while the buffer is written at exit would go unreported.
    match here::check_output_open().and_then(|()| out.write_all(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes an answer. Returns this exit code, or 2 if the answer could not be written.
pub(super) fn print(text: &str, code: ExitCode) -> ExitCode {
    match write(text.as_bytes()) {
        Ok(()) => code,
        Err(error) => refuse(&format!("the answer could not be written: {error}")),
    }
}

/// Reports wrong usage or unreadable input in one line, with what to do about it.
pub(super) fn refuse(message: &str) -> ExitCode {
    warn(message);
    ExitCode::from(2)
}

/// Writes a message for the user to standard error. Messages quote names of files and lines of them, which must not control
/// the terminal.
pub(super) fn warn(message: &str) {
    // An error here is ignored: if standard error is closed, nobody reads messages.
    let _ = writeln!(io::stderr(), "oomdoctor: {}", harmless_lines(message));
}

/// Formats a value as JSON on one line.
pub(super) fn compact(value: &impl Serialize) -> Result<String, String> {
    line_of(serde_json::to_string(value))
}

/// Formats a value as indented JSON.
pub(super) fn pretty(value: &impl Serialize) -> Result<String, String> {
    line_of(serde_json::to_string_pretty(value))
}

fn line_of(json: serde_json::Result<String>) -> Result<String, String> {
    json.map(|text| harmless_json(text) + "\n").map_err(|error| format!("the JSON could not be made: {error}"))
}

pub(super) fn sampled(ended: io::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("the readings could not be written: {error}")),
    }
}
