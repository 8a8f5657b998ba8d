//! Owns `last.log` in the state folder: the log that was read last and the story of its walk, for `--last` and for
//! `oomdoctor report`. Its first line is the story in JSON, the rest the log as it came. Its owner's alone, replaced
//! as a whole, and never a condition of anything: what can't be written costs one line on the screen.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use std::{fs, thread};

use super::wake::{Tell, Wake};
use crate::app::last::{Kept, Story};
use crate::platform::{here, regular};
use crate::report::redact::without_secrets;
use crate::source::SourceId;

const FILE: &str = "last.log";
/// Kept of a log's beginning and of its end, where it is larger than both.
const HEAD: usize = 2 << 20;
const TAIL: usize = 6 << 20;
/// A larger file was not written by this program.
const LARGEST: u64 = 16 << 20;
/// Leaving waits no longer than this for a state folder that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes the file on a thread of its own, so that a slow state folder delays nothing.
pub(crate) struct Shelf {
    jobs: Option<Sender<Kept>>,
    done: Receiver<()>,
}

impl Shelf {
    /// Keeps logs in this folder; `None` keeps nothing, because no home is known.
    pub(crate) fn start(folder: Option<PathBuf>, wakes: Sender<Wake>) -> io::Result<Shelf> {
        let (jobs, queue) = mpsc::channel::<Kept>();
        let (finished, done) = mpsc::channel();
        thread::Builder::new().name("last".into()).spawn(move || {
            // Dropped when this thread ends, for whatever reason.
            let _finished = finished;
            let mut told = false;
            while let Ok(kept) = queue.recv() {
                let kept = queue.try_iter().last().unwrap_or(kept);
                let Some(folder) = &folder else { continue };
                let kept = write(folder, &kept.story, kept.log.raw());
                if let (Err(error), false) = (kept, told) {
                    told = true;
                    let said = format!("The log can't be saved for --last: {error}");
                    wakes.trouble(said);
                }
            }
        })?;
        Ok(Shelf { jobs: Some(jobs), done })
    }

    /// Keeps this log instead of the one before.
    pub(crate) fn keep(&self, kept: Kept) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(kept);
        }
    }
}

impl Drop for Shelf {
    /// Waits for what is still being written.
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.done.recv_timeout(PATIENCE);
    }
}

/// Replaces the file; a process that reads it meanwhile sees the whole old one.
pub(crate) fn write(folder: &Path, story: &Story, log: &str) -> io::Result<()> {
    here::make_private_folder(folder)?;
    // If two programs write at once, the later one's file stays.
    // The log of a place has what was typed beside the failure; it was not chosen line by line as a paste is.
    let log = if story.origin.parse::<SourceId>().is_ok() { without_secrets(log).into() } else { Cow::Borrowed(log) };
    let (head, tail) = ends(&log);
    regular::replace(&folder.join(FILE), |file| {
        serde_json::to_writer(&mut *file, story)?;
        file.write_all(b"\n")?;
        file.write_all(head.as_bytes())?;
        if let Some(tail) = tail {
            let left_out = log.len() - head.len() - tail.len();
            writeln!(file, "\n… {} of this log left out here …", crate::units::Bytes(left_out as u64))?;
            file.write_all(tail.as_bytes())?;
        }
        Ok(())
    })
}

/// The log, or its beginning and its end, in whole lines where they are not too long.
fn ends(log: &str) -> (&str, Option<&str>) {
    if log.len() <= HEAD + TAIL {
        return (log, None);
    }
    let head = log.get(..log.floor_char_boundary(HEAD)).unwrap_or_default();
    let tail = log.get(log.ceil_char_boundary(log.len() - TAIL)..).unwrap_or_default();
    let head = head.rsplit_once('\n').map_or(head, |(whole, _)| whole);
    let tail = tail.split_once('\n').map_or(tail, |(_, whole)| whole);
    (head, Some(tail))
}

/// Removes what was kept, because the settings say that nothing is. That there is nothing is no error.
pub(crate) fn forget(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// What was kept last: its story and its text. Fails with a sentence where there is nothing, nothing readable, or by the
/// configuration nothing is kept.
pub(crate) fn read(folder: Option<&Path>, keeps: bool) -> Result<(Story, String), String> {
    if !keeps {
        return Err("no last log: your settings have keep_log: false; name a file: oomdoctor crash.log".into());
    }
    let Some(folder) = folder else { return Err(format!("no last log: {}", here::STATE_UNKNOWN)) };
    let path = folder.join(FILE);
    read_file(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no last log yet; name a file: oomdoctor crash.log".into(),
        _ => format!("the last log, {}, can't be read: {error}", path.display()),
    })
}

fn read_file(path: &Path) -> io::Result<(Story, String)> {
    let metadata = fs::metadata(path)?;
    // Another user's file would put that user's words and commands on this screen.
    if !metadata.is_file() || !here::is_own(&metadata) || metadata.len() > LARGEST {
        return Err(io::Error::other("it was not written by oomdoctor for this user"));
    }
    let bytes = regular::read(path, LARGEST)?;
    let text = String::from_utf8_lossy(&bytes);
    let (first, log) = text.split_once('\n').ok_or_else(|| io::Error::other("it is cut off"))?;
    Ok((serde_json::from_str(first)?, log.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::Msg;
    use crate::log::PastedLog;

    fn story() -> Story {
        Story { origin: "crash.log".into(), freed: vec!["x".into()], ..Story::default() }
    }

    #[test]
    fn what_was_kept_comes_back_and_nothing_else_lies_there() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("oomdoctor");
        for log in ["one\ntwo\n", "\n\u{1b}[31mthree"] {
            write(&folder, &story(), log).unwrap();
            assert_eq!(read(Some(&folder), true).unwrap(), (story(), log.to_owned()));
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn secrets_of_a_found_log_are_not_kept_and_those_of_a_paste_are_the_persons_choice() {
        let root = tempfile::tempdir().unwrap();
        let log = "$ HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 python train.py\nMemoryError\n";
        for (origin, is_kept) in [("tmux:%3", false), ("docker:trainer", false), ("crash.log", true)] {
            write(root.path(), &Story { origin: origin.into(), ..story() }, log).unwrap();
            let (_, kept) = read(Some(root.path()), true).unwrap();
            assert_eq!(kept.contains("hf_abc"), is_kept, "{origin}: {kept}");
            assert!(kept.contains("python train.py\nMemoryError"), "{kept}");
        }
    }

    #[test]
    fn what_is_not_wanted_any_more_is_taken_away_and_said_to_be_none() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &story(), "log").unwrap();
        for _ in 0..2 {
            forget(root.path()).unwrap();
        }
        assert!(!root.path().join(FILE).exists());
        assert!(read(Some(root.path()), false).unwrap_err().contains("keep_log: false"));
    }

    #[test]
    fn of_a_large_log_both_ends_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let log = format!("BEGIN\n{}END\n", "größer step 1\n".repeat(1_000_000));
        write(root.path(), &story(), &log).unwrap();
        let (_, kept) = read(Some(root.path()), true).unwrap();
        assert!(kept.len() <= HEAD + TAIL + 100, "{}", kept.len());
        assert!(kept.starts_with("BEGIN\n") && kept.ends_with("step 1\nEND\n"));
        assert_eq!(kept.matches("of this log left out here").count(), 1);
    }

    #[test]
    fn nothing_or_nonsense_is_said() {
        let root = tempfile::tempdir().unwrap();
        assert!(read(None, true).unwrap_err().contains(here::STATE_UNKNOWN));
        assert!(read(Some(root.path()), true).unwrap_err().contains("no last log yet"));
        for nonsense in ["", "{", "{}", "log\nlog", "{\"behind\":3}\nlog"] {
            fs::write(root.path().join(FILE), nonsense).unwrap();
            assert!(read(Some(root.path()), true).unwrap_err().contains("can't be read"), "{nonsense}");
        }
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_said_once() {
        let root = tempfile::tempdir().unwrap();
        let in_the_way = root.path().join("file");
        fs::write(&in_the_way, "").unwrap();
        let (wakes, queue) = mpsc::channel();
        let shelf = Shelf::start(Some(in_the_way.join("oomdoctor")), wakes).unwrap();
        for _ in 0..2 {
            shelf.keep(Kept { log: Arc::new(PastedLog::new("x")), story: story() });
        }
        drop(shelf);
        let said: Vec<Wake> = queue.try_iter().collect();
        assert!(matches!(&said[..], [Wake::Msg(Msg::Trouble(said))] if said.contains("--last")), "{said:?}");
    }
}
