//! Recordings in the terminal program, and running a recorded command again: the command has the terminal while it runs, and
//! what became of it is seen afterwards.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, str};

use tempfile::TempDir;

use crate::support::pty::Session;

const SIZE: (u16, u16) = (120, 40);
const RECORD: &str = include_str!("../golden/recording/failed.jsonl");
const RECORD_PATH: &str = "state/oomdoctor/runs/20261123-124611-box-7544.jsonl";
const OUTPUT: &str = include_str!("../golden/recording/failed.log");

/// A home with the last log of a recorded run, whose program is a script of the test.
struct Home {
    root: TempDir,
}

impl Home {
    /// `script` is what `python train.py --batch N` does.
    fn with(script: &str) -> Home {
        let home = Home { root: tempfile::tempdir().unwrap() };
        let runs = home.at("state/oomdoctor/runs");
        fs::create_dir_all(&runs).unwrap();
        fs::create_dir_all(home.at("vision")).unwrap();
        fs::create_dir_all(home.at("bin")).unwrap();
        let python = home.at("bin/python");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = home.at("vision");
        let record = RECORD.replace("/home/ada/vision", folder.to_str().unwrap());
        let path = home.at(RECORD_PATH);
        fs::write(&path, record).unwrap();
        fs::write(path.with_extension("log"), OUTPUT).unwrap();
        let story = format!(
            "{{\"origin\":\"oomdoctor run\",\"command\":\"python train.py --batch 8\",\"record\":{path:?}}}\n{OUTPUT}"
        );
        fs::write(home.at("state/oomdoctor/last.log"), story).unwrap();
        home
    }

    fn change_record(&self, from: &str, to: &str) {
        let path = self.at(RECORD_PATH);
        let record = fs::read_to_string(&path).unwrap();
        assert!(record.contains(from));
        fs::write(path, record.replace(from, to)).unwrap();
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Starts the terminal program with these arguments.
    fn starts(&self, arguments: &str) -> Session {
        let root = self.root.path().display();
        let line = format!(
            "XDG_STATE_HOME={root}/state XDG_CONFIG_HOME={root}/none PATH={root}/bin:$PATH exec $OOMDOCTOR --device-folder $DEVICES {arguments}"
        );
        Session::shell(SIZE, &line)
    }

    /// Runs the program without a terminal.
    fn says(&self, path: &Path) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        let output = command.arg("--replay").arg(path).env("XDG_STATE_HOME", self.at("state")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), str::from_utf8(&said).unwrap().to_owned())
    }
}

/// Selects the smaller batch and says yes to running it.
fn run_again(session: &mut Session) {
    session.wait_for_text(&["recording", "smaller batch"]);
    session.send("\x1b[B");
    session.wait_for_text(&["▸ 2 Use a smaller batch", "--batch 4"]);
    session.send("a");
    let asked = session.wait_for_text(&["Run the command again?", "[y] run it"]);
    assert!(asked.contains("train.py") && asked.contains("vision"), "{asked}");
    session.send("y");
}

#[test]
fn the_command_runs_in_its_folder_with_the_terminal_and_its_success_is_seen() {
    let home = Home::with("printf 'tell me: '; read answer; echo \"$(pwd) $* $answer\" > ran; echo through");
    let mut session = home.starts("--last");
    run_again(&mut session);
    session.wait_for_text(&["tell me: "]);
    assert!(session.is_cooked(), "the terminal is the command's");
    session.send("xyzq\r");
    let screen = session.wait_for_text(&["exited with 0"]);
    session.assert_taken();
    let ran = fs::read_to_string(home.at("vision/ran")).unwrap();
    let folder = fs::canonicalize(home.at("vision")).unwrap();
    assert_eq!(ran, format!("{} train.py --batch 4 xyzq\n", folder.display()));
    assert!(screen.contains("passed the point"), "{screen}");
    session.send("\x1b");
    session.wait_for_text(&["✓"]);
}

#[test]
fn ctrl_c_ends_the_command_alone() {
    let home = Home::with("echo started; exec sleep 1000");
    let mut session = home.starts("--last");
    run_again(&mut session);
    session.wait_for_text(&["started"]);
    session.send("\x03");
    session.wait_for_text(&["FREES", "first run failed"]);
    assert!(session.runs());
    session.assert_taken();
}

#[test]
fn a_second_failure_is_the_next_log() {
    let output = OUTPUT.replace("step 300/", "step 440/");
    let home = Home::with("cat again.txt; exit 1");
    let report = home.at("report.md");
    home.change_record("\"pid\":7544", &format!("\"pid\":7544,\"options\":{{\"report\":{report:?}}}"));
    fs::write(home.at("vision/again.txt"), output).unwrap();
    let mut session = home.starts("--last");
    run_again(&mut session);
    session.wait_for_text(&["step 440; the first run failed at epoch 1, step 300"]);
    let kept = || fs::read_to_string(home.at("state/oomdoctor/last.log")).unwrap();
    session.wait_for("the kept log", |_| kept().contains("--batch 4") && kept().contains("DidNotHelp"));
    assert!(report.exists(), "the option of the first run");
}

#[test]
fn read_only_runs_nothing() {
    let home = Home::with("touch ran");
    let mut session = home.starts("--last --read-only");
    session.wait_for_text(&["smaller batch"]);
    session.send("a");
    session.wait_for_text(&["Nothing is run"]);
    assert!(!home.at("vision/ran").exists());
}

#[test]
fn a_recording_is_shown_over_its_log_and_a_bad_file_is_refused() {
    let home = Home::with("");
    let record = home.at("state/oomdoctor/runs/20261123-124611-box-7544.jsonl");
    let mut session = home.starts(&format!("--replay {}", record.display()));
    session.wait_for_text(&["14.5 → 22.9 GiB", "At the failure", "jupyter-sweep"]);
    session.send("\x1b[H");
    session.wait_for_text(&["before the failure", "nothing yet"]);
    session.send("\x1b");
    session.wait_for_text(&["FREES", "log line 34"]);

    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.jsonl");
    let (code, said) = home.says(&demo);
    assert!(code == Some(0) && said.contains("GPU 0"), "{said}");
    let bad = |name: &str, content: &[u8]| {
        let path = home.at(name);
        fs::write(&path, content).unwrap();
        path
    };
    let large = bad("large.jsonl", b"");
    fs::File::options().write(true).open(&large).unwrap().set_len(1 << 30).unwrap();
    let cut = RECORD.lines().next().unwrap().as_bytes();
    for path in [
        bad("binary", &[0, 159, 146, 150, 10, 7]),
        bad("other.json", b"{\"a\": 1}\n"),
        bad("list.json", b"[1, 2]\n"),
        bad("empty", b""),
        bad("header.jsonl", cut),
        bad("log", OUTPUT.as_bytes()),
        large,
        home.at("missing"),
        home.at("vision"),
    ] {
        let (code, said) = home.says(&path);
        assert_eq!(code, Some(2), "{} {said}", path.display());
        eprintln!("{said}");
        assert!(said.lines().count() == 1 && said.len() < 400, "{said}");
    }
    // The last line of a recording that is still written may be incomplete.
    let half = bad("half.jsonl", &RECORD.as_bytes()[..RECORD.len() - 40]);
    assert_eq!(home.says(&half).0, Some(0));
}
