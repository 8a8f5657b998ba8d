//! Owns `oomdoctor sample`, which writes a stream of readings to standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use super::output::refuse;
use super::settings::Global;
use crate::platform::{Machine, ThisMachine};

/// Runs until the output closes or `count` readings are written. Without a driver each reading says so, and the exit code
/// is 0. If `paced`, the interval is read from standard input.
pub(super) fn run(global: &Global, count: Option<u64>, paced: bool) -> ExitCode {
    if let Some(why) = ThisMachine::LOGS_ONLY {
        // The readings still contain this machine's system memory.
        let _ = writeln!(io::stderr(), "oomdoctor sample: these readings have no GPUs: {why}");
    }
    match ThisMachine::sample(&global.sampling, count, paced) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("the readings could not be written: {error}")),
    }
}
