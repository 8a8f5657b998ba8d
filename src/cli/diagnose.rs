//! Owns `oomdoctor diagnose`: reads a log, prints what it says as text or JSON, and answers by exit code.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use super::Global;
use super::kb::base;
use crate::knowledge::diagnosis::Oom;
use crate::log::PastedLog;
use crate::report;

/// Runs it; 0 for yes and maybe, 1 for no, 2 where the log can't be read.
pub fn run(global: &Global, file: Option<&Path>, as_json: bool) -> ExitCode {
    match diagnose(global, file, as_json) {
        Ok(code) => code,
        Err(message) => super::refuse(&message),
    }
}

fn diagnose(global: &Global, file: Option<&Path>, as_json: bool) -> Result<ExitCode, String> {
    let base = base(global)?;
    let log = PastedLog::from_bytes(read(file)?);
    if log.is_binary() {
        return Err("this looks like a binary file; give the text your program printed".into());
    }
    if log.is_empty() {
        return Err(
            "the log is empty; paste what your program printed, or run it with `2>&1 | oomdoctor diagnose`".into()
        );
    }
    let diagnosis = base.diagnose(&log, Some(&jiff::Zoned::now()));
    let text = if as_json {
        format!("{}\n", report::json(&diagnosis, report::Extras::default()))
    } else {
        report::text(&diagnosis, &base)
    };
    // A reader that closed the pipe early wants no more.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(if diagnosis.oom == Oom::No { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn read(file: Option<&Path>) -> Result<Vec<u8>, String> {
    match file {
        Some(path) if path != Path::new("-") => {
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        }
        _ => {
            if std::io::stdin().is_terminal() {
                return Err("give a log file, or pipe one in: `your-program 2>&1 | oomdoctor diagnose`".into());
            }
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(|error| format!("cannot read the pipe: {error}"))?;
            Ok(bytes)
        }
    }
}
