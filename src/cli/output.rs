//! Owns what a command prints: its answer, or why there is none; and whether all of it was written. A reader that has
//! exited (`| head`) needs no more; a full disk or a closed output is an error, so that the exit code is no success.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::platform::here;

pub(super) fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // What is buffered is not written yet, and at the program's end nobody would hear of an error.
    match here::check_output_open().and_then(|()| out.write_all(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes an answer; the exit code is this one, or 2 where it could not be written.
pub(super) fn print(text: &str, code: ExitCode) -> ExitCode {
    match write(text.as_bytes()) {
        Ok(()) => code,
        Err(error) => refuse(&format!("the answer could not be written: {error}")),
    }
}

/// Reports wrong usage or unreadable input in one line that says what to do.
pub(super) fn refuse(message: &str) -> ExitCode {
    // An error here is ignored: whoever closed standard error does not want messages.
    let _ = writeln!(io::stderr(), "oomdoctor: {message}");
    ExitCode::from(2)
}

/// A value as JSON in one line.
pub(super) fn compact(value: &impl Serialize) -> Result<String, String> {
    line_of(serde_json::to_string(value))
}

/// A value as indented JSON.
pub(super) fn pretty(value: &impl Serialize) -> Result<String, String> {
    line_of(serde_json::to_string_pretty(value))
}

fn line_of(json: serde_json::Result<String>) -> Result<String, String> {
    json.map(|text| text + "\n").map_err(|error| format!("the JSON could not be made: {error}"))
}
