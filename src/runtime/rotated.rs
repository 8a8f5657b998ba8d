//! Owns finding the earlier part of a rotated log in which a job failed, where the log itself shows no failure.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::knowledge::KnowledgeBase;
use crate::knowledge::diagnosis::Oom;
use crate::log::PastedLog;
use crate::log::rotated::earlier_parts;
use crate::units::WallTime;

/// A folder with more entries is not searched to its end.
const LOOKED_AT: usize = 4096;
/// How many parts are read. A failure further back belongs to an older run.
const READ: usize = 3;

/// A part of a log that was rotated out of it.
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) log: PastedLog,
    pub(crate) written: Option<WallTime>,
}

/// The earlier parts of this log in its folder, newest first. What was written later is no earlier part.
pub(crate) fn earlier(log: &Path) -> Vec<PathBuf> {
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let (Some(name), Ok(files)) = (log.file_name().and_then(OsStr::to_str), fs::read_dir(folder)) else {
        return Vec::new();
    };
    let names = files.take(LOOKED_AT).filter_map(|file| file.ok()?.file_name().into_string().ok());
    let ended = modified(log);
    let parts = earlier_parts(name, names).into_iter().map(|name| folder.join(name));
    parts.filter(|part| modified(part).is_some_and(|written| ended.is_some_and(|ended| written <= ended))).collect()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The newest of these parts in which memory ran out. `open` reads a log, with the time it was last written.
pub(crate) fn with_the_failure(
    parts: Vec<PathBuf>,
    base: &KnowledgeBase,
    open: impl Fn(&Path) -> io::Result<(Vec<u8>, Option<WallTime>)>,
) -> Option<Part> {
    parts.into_iter().take(READ).find_map(|path| {
        let (bytes, written) = open(&path).ok()?;
        let log = PastedLog::from_bytes(bytes);
        let has_failed = base.diagnose(&log, None).oom == Oom::Yes;
        has_failed.then_some(Part { path, log, written })
    })
}
