//! Owns the debug log: written only where `OOMDOCTOR_LOG` names a file, appended to, its owner's alone. It says what
//! the program did and how long that took, never what a log or a paste held.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use log::{LevelFilter, Log, Metadata, Record};

use crate::platform::here;

/// The variable that asks for it.
pub(crate) const VARIABLE: &str = "OOMDOCTOR_LOG";

/// Begins to write there. The sampling child writes to the same file; lines say whose they are.
pub(crate) fn start(path: &Path) -> io::Result<()> {
    let log = DebugLog { file: here::append_to_private_file(path)? };
    // Started twice only in tests; the first stays.
    if log::set_boxed_logger(Box::new(log)).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
    Ok(())
}

struct DebugLog {
    file: File,
}

impl Log for DebugLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= LevelFilter::Debug
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // The sampling child begins as a copy of this process.
            let own = std::process::id();
            let line = format!("{:.3} {own} {} {}\n", Timestamp::now(), record.target(), record.args());
            // One write a line, which the child's lines can't tear. A full disk stops no diagnosis.
            let _ = (&self.file).write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}
