//! Owns the debug log: written only where `OOMDOCTOR_LOG` names a file, appended to, its owner's alone. It says what
//! the program did and how long that took, never what a log or a paste held.

use std::io;
use std::path::Path;

use env_logger::{Builder, Target};
use log::LevelFilter;

use crate::platform::here;

/// The variable that asks for it.
pub(crate) const VARIABLE: &str = "OOMDOCTOR_LOG";

/// Begins to write there. The sampling child writes to the same file; lines say whose they are.
pub(crate) fn start(path: &Path) -> io::Result<()> {
    let file = here::append_to_private_file(path)?;
    let own = std::process::id();
    let mut builder = Builder::new();
    builder.filter_level(LevelFilter::Debug).target(Target::Pipe(Box::new(file)));
    builder.format(move |out, record| {
        use std::io::Write;
        writeln!(out, "{} {own} {} {}", out.timestamp_millis(), record.target(), record.args())
    });
    // Started twice only in tests; the first stays.
    let _ = builder.try_init();
    Ok(())
}
