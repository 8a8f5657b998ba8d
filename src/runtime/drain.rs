//! Owns keeping a piped job alive after the person has left: without a reader the job would fail with a
//! broken pipe. A detached copy of this program reads it to its end and throws it away.

use std::fs::File;
use std::io::{self, Write};
use std::process::{ExitCode, Stdio};

use super::files::each_block;
use crate::platform::here;

/// Starts the detached reader on the pipe, and explains why the person's shell still waits for the job.
pub(super) fn detach(pipe: File) {
    let words = "oomdoctor has left; the job that is piped into it goes on. Ctrl-C here would end the job.";
    let _ = writeln!(io::stderr(), "{words}");
    let Ok(mut reader) = here::detached_self() else { return };
    let _ = reader.arg("drain").stdin(pipe).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// Reads standard input to its end.
pub fn drain() -> ExitCode {
    each_block(io::stdin().lock(), |_| true).map_or(ExitCode::from(1), |()| ExitCode::SUCCESS)
}
