//! Owns reading memory snapshots from files: which files are some, compressed or not, and which lie beside a log.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::demo;
use super::reader::open_log;
use super::unpack::Unpacked;
use crate::allocations::told::Filled;
use crate::allocations::{figures, pprof, profiled, read};
use crate::app::dropped::{DroppedFile, DroppedKind};
use crate::text::harmless;

/// How much of a file tells whether it is a snapshot.
const HEAD: u64 = 1 << 10;
/// Files that lie beside a log are read up to this size without being asked for.
const SMALL: u64 = 64 << 20;
/// A snapshot of the failure that a log shows was written at about the same time.
const ABOUT_THE_SAME_TIME: Duration = Duration::from_mins(15);
/// Files of a folder that are looked at.
const LOOKED_AT: usize = 4096;
/// Profiles of JAX have a few KiB; this much is read into memory at once.
const LARGEST_PROFILE: u64 = 256 << 20;
/// Snapshots that are read beside a log: a node has as many ranks or fewer.
const BESIDE: usize = 16;
const ENDINGS: [&str; 7] = [".pickle", ".pickle.gz", ".pkl", ".pkl.gz", ".snapshot", ".prof", ".pb.gz"];

/// Whether this file is a memory snapshot or a profile, or may be meant as one: a pickle is nothing else here.
pub(crate) fn is_snapshot(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    Unpacked::of(open_log(path)?)?.take(HEAD).read_to_end(&mut head)?;
    Ok(read::is_snapshot(&head) || pprof::is_profile(&head))
}

/// Where a memory snapshot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    /// The demo's, which is a part of this program.
    Demo,
}

/// What a snapshot tells, a device each. Fails with the reason in a sentence.
pub(crate) fn filled(path: &Path) -> Result<Vec<Filled>, String> {
    filled_while(path, &|| true)
}

/// The same as long as it is awaited: a large one takes seconds.
fn filled_while(path: &Path, is_awaited: &dyn Fn() -> bool) -> Result<Vec<Filled>, String> {
    let text = open_log(path).and_then(Unpacked::<File>::of).map_err(|error| error.to_string())?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    filled_in(WhileAwaited { input: text, is_awaited }, &name)
}

/// Ends early where nobody waits for the rest.
struct WhileAwaited<'f, R> {
    input: R,
    is_awaited: &'f dyn Fn() -> bool,
}

impl<R: Read> Read for WhileAwaited<'_, R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        if (self.is_awaited)() { self.input.read(block) } else { Err(io::Error::other("the reading was canceled")) }
    }
}

fn filled_in(mut text: impl Read, name: &str) -> Result<Vec<Filled>, String> {
    let mut head = Vec::new();
    text.by_ref().take(HEAD).read_to_end(&mut head).map_err(|error| error.to_string())?;
    let is_profile = pprof::is_profile(&head);
    let whole = Cursor::new(head).chain(text);
    let filled = if is_profile { profiled_in(whole, name) } else { snapshot_in(whole, name) }?;
    if filled.is_empty() {
        Err("the memory snapshot is empty: it has no segments, no actions and no arrays".to_owned())
    } else {
        Ok(filled)
    }
}

fn snapshot_in(whole: impl Read, name: &str) -> Result<Vec<Filled>, String> {
    let dump = read::read(BufReader::with_capacity(256 << 10, whole)).map_err(|refusal| refusal.to_string())?;
    Ok(figures::filled(&dump, name))
}

fn profiled_in(whole: impl Read, name: &str) -> Result<Vec<Filled>, String> {
    let mut bytes = Vec::new();
    whole.take(LARGEST_PROFILE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST_PROFILE {
        return Err("it is larger than any device memory profile of JAX".to_owned());
    }
    let profile = pprof::read(&bytes)
        .map_err(|refusal| format!("this is no device memory profile: {} at byte {}", refusal.why, refusal.offset))?;
    Ok(profiled::filled(&profile, name))
}

/// What these snapshots tell. Fails if one of them can't be read or is none, or if they are no longer awaited.
pub(crate) fn of_all(places: &[Place], is_awaited: &dyn Fn() -> bool) -> Result<Vec<Filled>, String> {
    let mut all = Vec::new();
    for place in places {
        all.extend(match place {
            Place::Demo => filled_in(demo::SNAPSHOT, demo::SNAPSHOT_NAME)?,
            Place::File(path) => filled_while(path, is_awaited)
                .map_err(|why| format!("{}: {why}", harmless(&path.display().to_string())))?,
        });
    }
    Ok(all)
}

/// Which files these paths name; `None` if one of them is no file.
pub(crate) fn look_at(paths: Vec<PathBuf>) -> Option<Vec<DroppedFile>> {
    let looked = paths.into_iter().map(|path| {
        open_log(&path).ok()?;
        let kind = if is_snapshot(&path).unwrap_or(false) { DroppedKind::Snapshot } else { DroppedKind::Log };
        Some(DroppedFile { path, kind })
    });
    looked.collect()
}

/// The snapshots beside a log, written at about the same time, by their names.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Small enough to be read without being asked for.
    pub(crate) small: Vec<PathBuf>,
    /// Larger ones.
    pub(crate) large: Vec<PathBuf>,
}

/// Looks for snapshots in the folder of a log.
pub(crate) fn beside(log: &Path) -> Beside {
    let mut found = Beside::default();
    let Some(written) = modified(log) else { return found };
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let Ok(files) = fs::read_dir(folder) else { return found };
    let mut paths: Vec<PathBuf> = files
        .take(LOOKED_AT)
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| is_named_so(&name.to_string_lossy())))
        .filter(|path| modified(path).is_some_and(|time| is_about_the_same(time, written)))
        .collect();
    paths.sort();
    for path in paths.into_iter().take(BESIDE) {
        if !is_snapshot(&path).unwrap_or(false) {
            continue;
        }
        let is_small = fs::metadata(&path).is_ok_and(|data| data.len() <= SMALL);
        if is_small { found.small.push(path) } else { found.large.push(path) }
    }
    found
}

/// `snapshot.pickle`, `oom_rank3.pickle`, `rank3_memory_snapshot.pickle.gz`.
fn is_named_so(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has_ending = ENDINGS.iter().any(|ending| name.ends_with(ending));
    has_ending && ["snapshot", "rank", "oom", "memory"].iter().any(|part| name.contains(part))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

fn is_about_the_same(one: SystemTime, other: SystemTime) -> bool {
    let apart = one.duration_since(other).or_else(|_| other.duration_since(one));
    apart.is_ok_and(|apart| apart <= ABOUT_THE_SAME_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::KnowledgeBase;
    use crate::knowledge::allocations::is_of;
    use crate::log::PastedLog;
    use crate::units::Bytes;

    #[test]
    fn a_snapshot_that_nobody_waits_for_any_more_is_not_read_to_its_end() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/sick.4.pickle");
        assert_eq!(of_all(&[Place::File(path.clone())], &|| true).unwrap().len(), 1);
        let refused = of_all(&[Place::File(path)], &|| false).unwrap_err();
        assert!(refused.contains("canceled"), "{refused}");
    }

    #[test]
    fn the_demos_snapshot_is_of_the_failure_that_its_log_shows() {
        let filled = of_all(&[Place::Demo], &|| true).unwrap();
        let base = KnowledgeBase::built_in().unwrap();
        let diagnosis = base.diagnose(&PastedLog::new(demo::DemoMachine::log()), None);
        assert!(is_of(&filled[0], &diagnosis), "{}", filled[0].sentence);
        let (totals, facts) = (filled[0].totals.as_ref().unwrap(), &diagnosis.facts);
        let is_printed = |bytes: Bytes, printed: Option<Bytes>| bytes.within_percent(printed.unwrap(), 1);
        assert!(is_printed(totals.allocated_bytes, facts.allocated_bytes));
        assert!(is_printed(totals.unused_bytes(), facts.reserved_unallocated_bytes));
        assert!(is_printed(filled[0].request.as_ref().unwrap().free_bytes, facts.free_bytes));
    }

    #[test]
    fn snapshots_are_known_by_the_names_that_programs_give_them() {
        for name in [
            "snapshot.pickle",
            "oom_rank3.pickle",
            "rank0_memory_snapshot.pickle.gz",
            "iter_7_Snapshot.pkl",
            "memory.prof",
        ] {
            assert!(is_named_so(name), "{name}");
        }
        for name in ["optimizer.pickle", "vocab.pkl", "rank3.log", "snapshot.txt", "cpu.prof"] {
            assert!(!is_named_so(name), "{name}");
        }
    }
}
