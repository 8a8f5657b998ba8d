//! Owns `oomdoctor sample`: the stream of readings on standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use super::output::refuse;
use super::settings::Global;
use crate::platform::{Machine, ThisMachine};

/// Runs until the output closes or `count` readings are written. No driver is a reading too, and exits 0. `paced`: the pace
/// is told on standard input.
pub(super) fn run(global: &Global, count: Option<u64>, paced: bool) -> ExitCode {
    if let Some(why) = ThisMachine::LOGS_ONLY {
        // The readings go on: they have this machine's own memory.
        let _ = writeln!(io::stderr(), "oomdoctor sample: these readings have no GPUs: {why}");
    }
    match ThisMachine::sample(&global.sampling, count, paced) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("the readings could not be written: {error}")),
    }
}
