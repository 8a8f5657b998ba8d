//! Owns what goes to standard output: whether all of it was written. A reader that has gone (`| head`) wanted no more;
//! a full disk or a closed output is an error, since whoever reads the exit code must not think that there is an answer.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::platform::{Here, Platform};

pub fn write(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // What is buffered is not written yet, and at the program's end nobody would hear of an error.
    match Here::check_output_open().and_then(|()| out.write_all(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes an answer; the exit code is this one, or 2 where it could not be written.
pub fn answer(text: &str, code: ExitCode) -> ExitCode {
    match write(text.as_bytes()) {
        Ok(()) => code,
        Err(error) => super::refuse(&format!("the answer could not be written: {error}")),
    }
}

/// A value as JSON in one line.
pub fn compact(value: &impl Serialize) -> Result<String, String> {
    line_of(serde_json::to_string(value))
}

/// A value as indented JSON.
pub fn pretty(value: &impl Serialize) -> Result<String, String> {
    line_of(serde_json::to_string_pretty(value))
}

fn line_of(json: serde_json::Result<String>) -> Result<String, String> {
    json.map(|text| text + "\n").map_err(|error| format!("the JSON could not be made: {error}"))
}
