//! Owns `oomdoctor sample`: the stream of readings on standard output.

use std::io;
use std::process::ExitCode;

use super::Global;
use crate::probe::{self, Options};

/// Runs until the output closes or `count` readings are written. No driver is a reading too, and exits 0. `paced`: the pace
/// is told on standard input.
#[allow(clippy::print_stderr, reason = "the command line's own voice")]
pub fn run(global: &Global, count: Option<u64>, paced: bool) -> ExitCode {
    let options =
        Options { nvml_library: global.nvml_library.clone(), procfs: global.procfs(), interval: global.interval };
    match probe::run(&options, &mut io::stdout().lock(), count, paced.then(io::stdin)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oomdoctor sample: the readings could not be written: {error}");
            ExitCode::from(2)
        }
    }
}
