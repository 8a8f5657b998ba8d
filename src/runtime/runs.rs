//! Owns the folder of recorded runs (`runs` in the state folder): how a record is written, how many are kept, how one is
//! read back. A record is two files in turn, so that one of a day stays small. Its owner's alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::replay::Played;
use crate::gpu::Header;
use crate::platform::{here, regular};
use crate::record::recording::Recording;
use crate::record::{Line, Note, Run, Try};

const FOLDER: &str = "runs";
/// A file of this size is put aside, and a new one begun.
const TURN: u64 = 8 << 20;
/// The runs that are kept, and their size together.
const MOST_RUNS: usize = 5;
const MOST_BYTES: u64 = 64 << 20;
/// A record that is being written grows at least this often: a whole reading is written once a minute.
const STILL_WRITTEN: Duration = Duration::from_secs(150);
/// The file before the last, and the output of the command.
const EARLIER: &str = "earlier.jsonl";
const OUTPUT: &str = "log";

/// A record that is being written.
pub(crate) struct Tape {
    medium: Medium,
    written: u64,
    /// Every file begins with it.
    head: String,
}

enum Medium {
    File(PathBuf, File),
    /// Nothing may be written here: the last minutes are kept in memory.
    Memory(String),
}

impl Tape {
    /// Begins a record there, or in memory.
    pub(crate) fn begin(path: Option<&Path>, boot_id: Option<String>, run: &Run) -> io::Result<Tape> {
        let lines = [Line::Header(Header::of_boot(boot_id)), Line::Note(Note::Run(run.clone()))];
        let head: String = lines.iter().map(Line::text).collect::<Result<_, _>>()?;
        let medium = match path {
            Some(path) => Medium::File(path.to_owned(), here::append_to_private_file(path)?),
            None => Medium::Memory(String::new()),
        };
        let mut tape = Tape { medium, written: 0, head };
        let head = tape.head.clone();
        tape.append(&head)?;
        Ok(tape)
    }

    /// Writes a line. True if a new file was begun with it, in which everything must be said again.
    pub(crate) fn write(&mut self, line: &Line) -> io::Result<bool> {
        self.append(&line.text()?)?;
        if self.written < TURN {
            return Ok(false);
        }
        self.written = 0;
        match &mut self.medium {
            Medium::File(path, file) => {
                fs::rename(&*path, beside(path, EARLIER))?;
                *file = here::append_to_private_file(path)?;
            }
            Medium::Memory(text) => text.clear(),
        }
        let head = self.head.clone();
        self.append(&head)?;
        Ok(true)
    }

    /// Each line is one write, so a program that reads meanwhile misses at most the last one.
    fn append(&mut self, text: &str) -> io::Result<()> {
        self.written += text.len() as u64;
        match &mut self.medium {
            Medium::File(_, file) => file.write_all(text.as_bytes()),
            Medium::Memory(kept) => {
                kept.push_str(text);
                Ok(())
            }
        }
    }

    /// What was written, read back.
    pub(crate) fn recording(&self) -> Result<Recording, String> {
        match &self.medium {
            Medium::File(path, _) => read(path),
            Medium::Memory(text) => Recording::parse(text),
        }
    }
}

/// The path of the record of a run that begins now.
pub(crate) fn new_path(state: &Path, run: &Run) -> io::Result<PathBuf> {
    here::make_private_folder(state)?;
    let folder = state.join(FOLDER);
    here::make_private_folder(&folder)?;
    let began = run.started_at.0.strftime("%Y%m%d-%H%M%S");
    // Folders of a cluster's homes are shared by its machines.
    let rank = run.environment.iter().find(|(name, _)| name.ends_with("RANK") || name == "SLURM_PROCID");
    let rank = rank.map(|(_, value)| format!("-{value}")).unwrap_or_default();
    let host: String = here::host_name().chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
    Ok(folder.join(format!("{began}-{host}-{}{rank}.jsonl", run.pid)))
}

/// Reads a record, or any sample stream.
pub(crate) fn read(path: &Path) -> Result<Recording, String> {
    let earlier = regular::read(&beside(path, EARLIER), MOST_BYTES).unwrap_or_default();
    let bytes = regular::read(path, MOST_BYTES).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&earlier).into_owned() + &String::from_utf8_lossy(&bytes);
    Recording::parse(&text)
}

/// The record of the latest run that tried a fix after this one.
pub(crate) fn next_after(path: &Path) -> Option<Recording> {
    let name = path.file_name()?.to_str()?;
    let mut later: Vec<PathBuf> = records(path.parent()?).into_iter().filter(|other| other.as_path() > path).collect();
    later.reverse();
    later.iter().filter_map(|path| read(path).ok()).find(|recording| tries_after(recording, name))
}

fn tries_after(recording: &Recording, name: &str) -> bool {
    let tries = recording.run.as_ref().and_then(|run| run.tries.as_ref());
    tries.is_some_and(|tries| Path::new(&tries.after).file_name() == Some(name.as_ref()))
}

/// Reads a record with the output of its command, where that was kept.
pub(crate) fn open(path: &Path) -> Result<Played, String> {
    let recording = read(path)?;
    let output = regular::read(&output_of(path), MOST_BYTES).ok();
    let output = output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Played { path: path.to_owned(), recording, output })
}

/// The file with the output of a recorded command.
pub(crate) fn output_of(path: &Path) -> PathBuf {
    beside(path, OUTPUT)
}

/// The record of the last run that tried this fix after that failure.
pub(crate) fn newest_that_tries(state: &Path, tried: &Try) -> Option<Played> {
    let newest_first = records(&state.join(FOLDER)).into_iter().rev();
    let mut tapes = newest_first.filter_map(|path| open(&path).ok());
    tapes.find(|tape| tape.recording.run.as_ref().is_some_and(|run| run.tries.as_ref() == Some(tried)))
}

/// Adds a line to a finished record.
pub(crate) fn add(path: &Path, note: Note) -> io::Result<()> {
    here::append_to_private_file(path)?.write_all(Line::Note(note).text()?.as_bytes())
}

/// Keeps the output of a recorded command.
pub(crate) fn keep_output(path: &Path, log: &[u8]) -> io::Result<PathBuf> {
    let output = beside(path, OUTPUT);
    regular::replace(&output, |file| file.write_all(log))?;
    Ok(output)
}

/// Removes the oldest records, but for this one.
pub(crate) fn prune(kept: &Path) {
    let Some(folder) = kept.parent() else { return };
    let mut bytes = 0;
    for (number, path) in records(folder).iter().rev().enumerate() {
        let files = [path.clone(), beside(path, EARLIER), beside(path, OUTPUT)];
        bytes += files.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum::<u64>();
        if path != kept && (number >= MOST_RUNS || bytes > MOST_BYTES) && !is_being_written(path) {
            for file in files {
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// Whether it was written just now: a node may record more ranks at once than records are kept.
fn is_being_written(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|file| file.modified()).ok().and_then(|written| written.elapsed().ok());
    age.is_none_or(|age| age < STILL_WRITTEN)
}

/// The records of a folder, the oldest first.
fn records(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut records: Vec<PathBuf> = paths.filter(|path| is_record(path)).collect();
    // The names begin with the time.
    records.sort();
    records
}

fn is_record(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".jsonl") && !name.ends_with(&format!(".{EARLIER}"))
}

/// The file of this kind that belongs to a record.
fn beside(path: &Path, kind: &str) -> PathBuf {
    path.with_extension(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Millis, RunOptions};
    use crate::units::{Bytes, WallTime};

    fn run() -> Run {
        Run {
            started_at: WallTime(jiff::Timestamp::from_second(1_795_176_000).unwrap()),
            argv: vec!["python".into()],
            folder: "/".into(),
            pid: 42,
            tries: None,
            environment: vec![("RANK".into(), "3".into())],
            options: RunOptions { torch_snapshot: true, report: None },
        }
    }

    fn note(at: Millis) -> Line {
        Line::Note(Note::Used { at, gpus: vec![(0, Bytes(at << 20))] })
    }

    #[test]
    fn a_long_record_keeps_its_last_part_and_both_files_are_read_as_one() {
        let root = tempfile::tempdir().unwrap();
        let path = new_path(&root.path().join("oomdoctor"), &run()).unwrap();
        assert!(path.to_str().unwrap().ends_with("-42-3.jsonl"), "{path:?}");
        let mut tape = Tape::begin(Some(&path), None, &run()).unwrap();
        let mark = Line::Note(Note::Mark { at: 1, text: "x".repeat(1 << 20) });
        for at in 0..20 {
            tape.write(&note(at)).unwrap();
            tape.write(&mark).unwrap();
        }
        let kept: u64 =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(kept < 2 * TURN + (2 << 20), "{kept}");
        let recording = tape.recording().unwrap();
        assert_eq!(recording.of_gpu(0).last(), Some((19, Bytes(19 << 20))));
        assert_eq!(recording.run, Some(run()));
    }

    #[test]
    fn only_the_newest_records_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..9).map(|day| root.path().join(format!("2026112{day}-101010-box-1.jsonl"))).collect();
        for path in &paths {
            fs::write(path, "x").unwrap();
            keep_output(path, b"output").unwrap();
        }
        prune(&paths[8]);
        assert!(paths.iter().all(|path| path.exists()), "they are written now");
        for path in &paths {
            let long_ago = std::time::SystemTime::now() - 2 * STILL_WRITTEN;
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        prune(&paths[8]);
        let left: Vec<bool> = paths.iter().map(|path| path.exists() && beside(path, OUTPUT).exists()).collect();
        assert_eq!(left, [false, false, false, false, true, true, true, true, true]);
    }

    #[test]
    fn where_nothing_may_be_written_the_record_is_in_memory() {
        let mut tape = Tape::begin(None, None, &run()).unwrap();
        tape.write(&note(7)).unwrap();
        assert_eq!(tape.recording().unwrap().peak(0), Some(Bytes(7 << 20)));
    }
}
