//! Owns looking at the file that a log was read from: a job that still runs writes on, and a requeued one begins it
//! anew. A look a second; how often depends on the size, since what has grown is read again as a whole.

use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, SystemTime};

use super::allocations::is_snapshot;
use super::files::each_block;
use super::reader::Desk;
use super::unpack::is_compressed_file;
use super::wake::{Tell, Wake};
use crate::app::Msg;
use crate::app::model::Change;
use crate::platform::{here, regular};

/// The time between two looks at a small file.
const PACE: Duration = Duration::from_secs(1);
/// The additional time per GiB: a slow disk takes about this long to read it again.
const PER_GIB: Duration = Duration::from_secs(4);

/// What tells one look at a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// Another file under the same name has another identity.
    file: (u64, u64),
    length: u64,
    /// When it was last written: it may have been written anew to the same length.
    written: Option<SystemTime>,
}

fn look(path: &Path) -> Option<Look> {
    let metadata = fs::metadata(path).ok()?;
    let file = here::identity(path, &metadata).ok()?;
    Some(Look { file, length: metadata.len(), written: metadata.modified().ok() })
}

/// Tells of every change from now on, but not while the last reading is still under way. A compressed log is
/// complete, as is a memory snapshot.
pub(crate) fn follow(path: PathBuf, wakes: Sender<Wake>, desk: Desk) -> io::Result<()> {
    if regular::open(&path).is_ok_and(|file| is_compressed_file(&file)) || is_snapshot(&path).unwrap_or(false) {
        return Ok(());
    }
    // The first look comes before the file is read: a change in between is reported, and at worst read twice.
    let mut before = look(&path);
    thread::Builder::new().name("follow".into()).spawn(move || {
        loop {
            let gib = u32::try_from(before.map_or(0, |look| look.length) >> 30).unwrap_or(u32::MAX);
            thread::sleep(PACE.saturating_add(PER_GIB.saturating_mul(gib)));
            if !desk.is_clear() {
                continue;
            }
            let now = look(&path);
            let change = change(before, now, |from| lines_from(&path, from).unwrap_or(0));
            before = now;
            if change.is_some_and(|change| !wakes.tell(Msg::FileChanged(change))) {
                return;
            }
        }
    })?;
    Ok(())
}

/// What happened between two looks. `lines` counts the lines that were added after an offset.
fn change(before: Option<Look>, now: Option<Look>, lines: impl FnOnce(u64) -> u64) -> Option<Change> {
    match (before, now) {
        (Some(before), Some(now)) if before == now => None,
        (Some(before), Some(now)) if before.file == now.file && now.length > before.length => {
            Some(Change::Grew(lines(before.length)))
        }
        (_, Some(_)) => Some(Change::Anew),
        (Some(_), None) => Some(Change::Gone),
        (None, None) => None,
    }
}

fn lines_from(path: &Path, from: u64) -> io::Result<u64> {
    let mut file = regular::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut lines = 0;
    each_block(file, |block| {
        lines += memchr::memchr_iter(b'\n', block).count() as u64;
        true
    })?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn growth_a_new_beginning_another_file_and_none_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slurm-1234.out");
        fs::write(&path, "one\n").unwrap();
        let first = look(&path);
        let told = |before, now| change(before, now, |from| lines_from(&path, from).unwrap());
        assert_eq!(told(first, look(&path)), None);
        fs::write(&path, "one\ntwo\nthree\nfo").unwrap();
        let grown = look(&path);
        fs::write(&path, "ONE\nTWO\nTHREE\nFO").unwrap();
        // Whatever the clock of this file system can tell apart.
        let later = fs::metadata(&path).unwrap().modified().unwrap() + Duration::from_secs(1);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        let anew = look(&path);
        assert_eq!((told(grown, anew), told(anew, look(&path))), (Some(Change::Anew), None), "as long as before");
        assert_eq!(told(first, grown), Some(Change::Grew(2)));
        fs::write(&path, "").unwrap();
        assert_eq!(told(grown, look(&path)), Some(Change::Anew));
        fs::rename(&path, folder.path().join("slurm-1234.out.1")).unwrap();
        assert_eq!(told(grown, look(&path)), Some(Change::Gone));
        assert_eq!(told(None, look(&path)), None);
        fs::write(&path, "one\ntwo\nthree\nfo and more").unwrap();
        assert_eq!(told(grown, look(&path)), Some(Change::Anew), "longer, but another file");
        assert_eq!(told(None, look(&path)), Some(Change::Anew), "it came back");
    }
}
