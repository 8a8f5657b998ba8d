//! Input while the program runs: growing logs, pastes without an end, keys that a slow line delivers together, signals,
//! and terminals that cannot be drawn on.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use crate::support::fake_driver::homes;
use crate::support::machine::{Machine, torch_log};
use crate::support::pty::{PATIENCE, Session, pass};

const LARGE: (u16, u16) = (120, 40);
const WIDE: (u16, u16) = (180, 40);
const NOWHERE: &str = "/nonexistent/libnvidia-ml.so.1";
const QUESTION: &str = "[y]";

fn without_a_driver() -> Session {
    let session = Session::oomdoctor(WIDE, &["--nvml-library", NOWHERE]);
    session.wait_for_text(&["/nonexistent/"]);
    session
}

#[test]
fn a_growing_log_is_read_again_by_itself_until_a_step_is_taken_and_then_on_a_key() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slurm-1234.out");
    fs::write(&path, "step 1 loss 2.0\n").unwrap();
    let more = |text: &str| {
        OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
    };
    let mut session = machine.oomdoctor(WIDE, &[path.to_str().unwrap()]);
    session.wait_for_text(&["1 line, slurm-1234.out"]);
    more(&machine.log());
    session.wait_for_text(&["▸ 1 ", "Another process uses", &machine.pids()[0], "7 lines, slurm-1234.out"]);
    session.send("\t\t");
    session.wait_for_text(&["edit command"]);
    // Sent alone, because it would be part of a burst otherwise.
    pass(Duration::from_millis(100));
    session.send("s");
    session.wait_for_text(&["(skipped)"]);
    more("and 1 more\nand 2 more\n");
    session.wait_for_text(&["slurm-1234.out has grown by 2 lines.", "[R]"]);
    session.send("R");
    session.wait_for_text(&["9 lines, slurm-1234.out", "(skipped)"]);
    fs::write(&path, "").unwrap();
    session.wait_for_text(&["begins anew"]);
    fs::remove_file(&path).unwrap();
    session.wait_for_text(&["no longer exists", "9 lines"]);
    session.send("\x03");
    session.wait_for_text(&[QUESTION]);
    session.send("\x03");
    assert!(session.wait_for_exit(PATIENCE).success());
    session.assert_given_back();
}

#[test]
fn a_paste_without_its_end_is_closed_by_silence_or_ctrl_c() {
    let mut session = without_a_driver();
    session.send("\x1b[200~CUDA out of memory. Tried to allo");
    session.wait_for_text(&["receiving a paste"]);
    session.wait_for_text(&["1 line, pasted"]);
    session.send("\x1b[200~more");
    session.wait_for_text(&["receiving a paste"]);
    session.send("\x03");
    session.wait_for_no(&["receiving a paste"]);
    session.send("\x03\x03\x03");
    session.wait_for_exit(PATIENCE);
    session.assert_given_back();
}

#[test]
fn no_reply_of_a_terminal_blocks_the_keyboard_or_answers_a_question() {
    let mut session = without_a_driver();
    for stray in
        ["\x1b[?2026;2$y", "\x1b[?", "\x1b[<", "\x1b[", "\x1bO", "\x1b]11;rgb:1e1e", "\x1bP>|", "\u{e4}", "PuTTY"]
    {
        session.send(stray);
        // Longer than the program waits for the rest of a sequence and for the end of a burst of letters.
        pass(Duration::from_millis(200));
        session.send("?");
        session.wait_for_text(&["Ctrl-Z"]);
        session.send("\x1b");
        session.wait_for_no(&["Ctrl-Z"]);
    }
    session.send("\x1b[?\x03");
    session.wait_for_exit(PATIENCE);
    session.assert_given_back();

    let mut machine = Machine::new();
    let mut session = machine.oomdoctor(LARGE, &[]);
    session.wait_for_text(&machine.pids().each_ref().map(String::as_str));
    session.send("\x1b[Hx");
    session.wait_for_text(&[QUESTION]);
    for (head, tail) in
        [("\x1b[?2026;2$", "y"), ("\x1b[?2026", ";2$y"), ("\x1b]52;c;", "y\x07"), ("\x1b", "P1$r\ry\x1b\\")]
    {
        session.send(head);
        pass(Duration::from_millis(150));
        session.send(tail);
        pass(Duration::from_millis(150));
    }
    assert!(machine.all_live());
}

#[test]
fn a_key_closes_a_paste_without_its_end() {
    let mut session = without_a_driver();
    session.send("\x1b[200~");
    session.wait_for_text(&["receiving a paste"]);
    // A byte right after others is part of the paste: nobody types that fast.
    pass(Duration::from_millis(100));
    session.send("q");
    session.wait_for_exit(PATIENCE);
    session.assert_given_back();
}

#[test]
fn keys_in_one_packet_act_where_they_cannot_do_harm() {
    let mut machine = Machine::new();
    let mut session = machine.oomdoctor(LARGE, &[]);
    session.wait_for_text(&machine.pids().each_ref().map(String::as_str));
    session.send("j?");
    session.wait_for_text(&["Ctrl-Z"]);
    session.send("\x1b");
    session.wait_for_no(&["Ctrl-Z"]);
    session.send("js");
    session.wait_for_text(&["too fast"]);
    assert!(machine.all_live() && !session.text().contains(QUESTION));
    // A movement key followed by x opens the question if no text came right before it.
    pass(Duration::from_millis(300));
    session.send("jx");
    session.wait_for_text(&[QUESTION]);
    assert!(machine.all_live());
}

#[test]
fn a_huge_paste_is_shortened_and_the_screen_says_so() {
    let mut session = without_a_driver();
    let step = "step 12345 loss 2.0312 lr 3e-4 grad_norm 0.9 xyq\n";
    session.paste(step.repeat((30 << 20) / step.len()) + &torch_log(4242, "23.99"));
    session.wait_for_text(&["▸ 1 ", "4242", "parts that say nothing of memory were left out", "lines kept of more"]);
}

#[test]
fn a_named_pipe_is_read_as_it_comes_and_can_be_left_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut session = Session::oomdoctor(LARGE, &["--nvml-library", NOWHERE, path.to_str().unwrap()]);
    session.wait_for_text(&["Waiting for the piped job"]);
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(torch_log(4242, "23.99").as_bytes()).unwrap();
    session.wait_for_text(&["▸ 1 ", "4242"]);
    session.send("\x03");
    session.wait_for_text(&[QUESTION]);
    session.send("\x03");
    assert!(session.wait_for_exit(PATIENCE).success());
}

#[test]
fn input_that_is_no_log_is_refused_in_a_sentence() {
    for (path, why) in [("/dev/zero", "device"), ("/dev/null", "device"), ("/tmp", "folder")] {
        for words in [&["diagnose", path][..], &[path]] {
            let output = Command::new(env!("CARGO_BIN_EXE_oomdoctor")).args(words).envs(homes()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(2) && said.contains(why), "{words:?}: {said}");
        }
    }
}

#[test]
fn a_harmless_signal_is_survived_and_a_fatal_one_sets_the_exit_code() {
    let ending = [
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
        (Signal::ALARM, 142),
        (Signal::VTALARM, 154),
        (Signal::PROF, 155),
        (Signal::XCPU, 152),
    ];
    for (signal, code) in ending {
        let mut session = without_a_driver();
        session.signal(Signal::USR1);
        session.signal(Signal::USR2);
        session.signal(Signal::PIPE);
        session.signal(Signal::XFSZ);
        session.send("?");
        session.wait_for_text(&["Ctrl-Z"]);
        session.signal(signal);
        assert_eq!(session.wait_for_exit(PATIENCE).exit_code(), code);
        session.assert_given_back();
    }
}

#[test]
fn a_crash_restores_the_terminal() {
    for signal in [Signal::ABORT, Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::SYS, Signal::TRAP] {
        let mut session = without_a_driver();
        session.assert_taken();
        session.signal(signal);
        assert!(session.wait_for_exit(PATIENCE).signal().is_some(), "{signal:?} ends it as it ends any program");
        session.assert_given_back();
    }
}

#[test]
fn a_dumb_terminal_gets_the_plain_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crash.log");
    fs::write(&path, torch_log(4242, "23.99")).unwrap();
    for term in ["TERM=dumb", "env -u TERM"] {
        let line = format!("{term} \"$OOMDOCTOR\" --nvml-library {NOWHERE} '{}'", path.display());
        let mut session = Session::shell(LARGE, &line);
        assert!(session.wait_for_exit(PATIENCE).success());
        let text = session.raw();
        assert!(text.contains("cannot show the full screen") && text.contains("4242"), "{text}");
        assert!(!text.contains("\x1b["), "{text:?}");
    }
}
