//! Memory snapshots in the terminal program: named at the start, dropped onto the terminal, offered beside a log, refused.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::pty::{Session, pass};

const SICK: &[u8] = include_bytes!("../snapshots/sick.4.pickle");
const PROFILE: &[u8] = include_bytes!("../snapshots/jax.pprof");
const BAIT: &[u8] = include_bytes!("../snapshots/bait.pickle");
const LOG: &str = "step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 700.00 MiB is free.\n";
/// What the snapshot says of the line that asked.
const SENTENCE: &str = "`train.py:88 forward` asked for did not fit";

struct Folder(TempDir);

impl Folder {
    fn with(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, bytes) in files {
            fs::write(folder.at(name), bytes).unwrap();
        }
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn starts(&self, arguments: &str) -> Session {
        let folder = self.0.path().display();
        let home = format!("XDG_STATE_HOME={folder}/state XDG_CONFIG_HOME={folder}/none");
        Session::shell((80, 24), &format!("cd {folder}; {home} exec $OOMDOCTOR --device-folder $DEVICES {arguments}"))
    }
}

#[test]
fn snapshots_of_several_ranks_open_with_the_verdict_below() {
    let folder = Folder::with(&[("oom_rank0.pickle", SICK), ("oom_rank1.pickle", SICK)]);
    let mut session = folder.starts("oom_rank0.pickle oom_rank1.pickle");
    session.wait_for_text(&[SENTENCE, "1 of 2"]);
    session.send("\t");
    session.wait_for_text(&["by call stack", "train.py:5 main"]);
    // Two keys at once are taken for a paste.
    pass(Duration::from_millis(300));
    session.send("n");
    session.wait_for_text(&["2 of 2"]);
    session.send("\x1b");
    session.wait_for_text(&["FIXES", "expandable_segments"]);
    session.leave();
}

#[test]
fn the_earlier_part_of_a_rotated_log_that_failed_is_named() {
    let folder = Folder::with(&[("train.log", b"ready\nlistening\n"), ("train.log.1", LOG.as_bytes())]);
    let session = folder.starts("train.log");
    session.wait_for_text(&["train.log.1, an earlier part of it"]);
    session.leave();
}

#[test]
fn a_snapshot_beside_the_log_is_offered() {
    let folder = Folder::with(&[("crash.log", LOG.as_bytes()), ("oom_rank0.pickle", SICK)]);
    let mut session = folder.starts("crash.log");
    session.wait_for_text(&["oom_rank0.pickle lies beside the log"]);
    session.send("S");
    session.wait_for_text(&[SENTENCE]);
    session.send("\x1b");
    session.wait_for_no(&["[Esc] close"]);
    session.leave();
}

#[test]
fn a_profile_of_jax_opens_like_a_snapshot_with_the_parts_that_it_has() {
    let folder = Folder::with(&[("memory.prof", PROFILE)]);
    let mut session = folder.starts("memory.prof");
    session.wait_for_text(&["JAX has", "m.py:4", "CPU 0", "Stacks"]);
    session.wait_for_no(&["Segments", "Timeline"]);
    session.send("\t");
    session.wait_for_text(&["by call stack", "m.py:4"]);
    session.send("\x1b");
    session.wait_for_no(&["[Esc] close"]);
    session.leave();
}

#[test]
fn a_dropped_snapshot_is_read_and_one_that_would_run_code_is_refused() {
    let folder = Folder::with(&[("my snapshot.pickle", SICK), ("bait.pickle", BAIT)]);
    let mut session = folder.starts("");
    session.wait_for_text(&["Paste the error"]);
    session.paste(folder.at("bait.pickle").display().to_string());
    session.wait_for_text(&["this is no PyTorch memory snapshot"]);
    session.paste(format!("'{}'", folder.at("my snapshot.pickle").display()));
    session.wait_for_text(&[SENTENCE]);
    session.send("\x1b");
    session.wait_for_no(&["[Esc] close"]);
    session.leave();
}
