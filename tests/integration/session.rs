//! The terminal program as a user meets it: in a terminal, with keys and pastes, a driver and real processes. The tests
//! assert what is on the screen and what became of the processes. They assert words only where the contract fixes them
//! or where they are figures, PIDs and keys.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

use oomdoctor::runtime::terminal;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::api_server::{ApiServer, Reply};
use crate::support::fake_driver::{Sleeper, homes};
use crate::support::machine::{FREE, FREE_AFTERWARDS, HELD, Machine, torch_log};
use crate::support::pty::{IN_A_PTY, PATIENCE, Session, pass, shows};
use crate::support::{children_of, ends_within};

const LARGE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (180, 40);
/// Quitting takes no longer than this, whatever the driver does.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Only the question before a signal shows this key.
const END_IT: &str = "[y]";

/// Starts the program and waits until it lists the processes.
fn started(machine: &Machine, size: (u16, u16)) -> Session {
    let session = machine.oomdoctor(size, &[]);
    let [logged, second, third] = machine.pids();
    session.wait_for_text(&[&logged, &second, &third]);
    session.assert_taken();
    session
}

/// Starts the program and pastes the log that names a process.
fn with_log(machine: &Machine, size: (u16, u16)) -> Session {
    let mut session = started(machine, size);
    session.paste(machine.log());
    session.wait_for_text(&["▸ 1 "]);
    session
}

fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn free_now(session: &Session, figure: &str) {
    let spellings = [format!("{figure} free"), format!("{figure} GiB free")];
    session.wait_for(&format!("{figure} free"), |screen| spellings.iter().any(|free| shows(screen, &[free])));
}

// ---- from the paste to the freed VRAM

/// The line of the first step, if that step frees VRAM.
fn first_step(screen: &str) -> Option<&str> {
    screen.lines().find(|line| line.contains("▸ 1 "))
}

fn from_paste_to_bytes(size: (u16, u16)) {
    let mut machine = Machine::new();
    let [logged, ..] = machine.pids();
    let mut session = started(&machine, size);
    free_now(&session, FREE);
    session.paste(machine.log());
    // A frame may arrive in pieces, so the whole line must be there.
    let whole = |line: &str| line.contains(&logged) && line.contains(HELD.trim_end_matches(" GiB"));
    let screen = session.wait_for("the first step", |screen| first_step(&screen.contents()).is_some_and(whole));
    let sentence = screen.lines().find(|line| line.contains("Another process uses")).expect(&screen);
    assert!(sentence.contains(&logged), "the sentence names it: {sentence}");

    session.send("x");
    let screen = session.wait_for_text(&[END_IT, "[n]"]);
    let named = screen.lines().find(|line| line.contains("sleep 1000") && line.contains("┃ ")).expect(&screen);
    assert!(named.contains(&logged), "the question names it: {named}");
    assert!(screen.contains(&format!("{HELD} on GPU 0")), "and what it holds:\n{screen}");
    assert!(machine.all_live(), "asking ends nothing");

    session.send("y");
    assert_eq!(machine.logged.ended_by(), Some(15), "it was asked to close");
    session.wait_for_text(&["freed", HELD]);
    free_now(&session, FREE_AFTERWARDS);
    assert!(machine.second.lives() && machine.third.lives(), "nobody else was touched");
    session.leave();
    let [_, (_, state)] = homes();
    let record = fs::read_to_string(state.join("oomdoctor/signals.log")).unwrap();
    let what: Vec<&str> = ["sent", "ended", "memory-back"].into_iter().filter(|what| record.contains(what)).collect();
    assert!(what.len() == 3 && record.lines().count() == 3 && record.contains(&logged), "{record}");
}

#[test]
fn a_pasted_log_leads_to_terminating_the_named_process_and_its_vram_is_freed() {
    from_paste_to_bytes(LARGE);
}

#[test]
fn a_named_process_is_terminated_on_a_small_screen() {
    from_paste_to_bytes(SMALL);
}

#[test]
fn a_process_can_be_ended_from_the_list_without_any_log() {
    let mut machine = Machine::new();
    let [_, second, _] = machine.pids();
    let mut session = started(&machine, LARGE);
    session.send("\x1b[H\x1b[B");
    session.wait_for("the second row is selected", |screen| {
        screen.contents().lines().any(|line| line.contains('▸') && line.contains(&second))
    });
    session.send("x");
    session.wait_for_text(&[END_IT, "6.0 GiB on GPU 0"]);
    session.send("y");
    assert_eq!(machine.second.ended_by(), Some(15));
    session.wait_for_text(&["freed 6.0 GiB"]);
    assert!(machine.logged.lives() && machine.third.lives());
    session.leave();
}

#[test]
fn answering_no_leaves_the_process_running() {
    for no in ["n", "\x1b", "\x03"] {
        let mut machine = Machine::new();
        let mut session = started(&machine, LARGE);
        session.send("\x1b[Hx");
        session.wait_for_text(&[END_IT]);
        session.send(no);
        session.wait_for_no(&[END_IT]);
        session.leave();
        assert!(machine.all_live(), "{no:?}");
    }
}

// ---- keys typed by mistake

#[test]
fn a_burst_of_x_and_y_opens_no_question_and_ends_nothing() {
    let mut machine = Machine::new();
    let mut session = started(&machine, LARGE);
    session.send("xy");
    let screen = session.wait_for_text(&["\"xy\""]);
    assert!(!screen.contains(END_IT), "{screen}");
    // Keys are handled in order: once help is shown, any question that the burst opened would show, too.
    session.send("?");
    let screen = session.wait_for_text(&["Ctrl-Z"]);
    assert!(!screen.contains(END_IT), "{screen}");
    assert!(machine.all_live());
}

#[test]
fn a_y_typed_before_the_question_could_be_read_is_rejected() {
    let mut machine = Machine::new();
    let mut session = started(&machine, LARGE);
    // On a busy machine the early y may arrive late by itself; then the test tries again.
    for _ in 0..5 {
        session.send("\x1b[Hx");
        session.wait_for_text(&[")? ━"]);
        session.send("y");
        let was_early = |screen: &vt100::Screen| shows(screen, &["Read first"]);
        let was_late = |screen: &vt100::Screen| shows(screen, &["y: sending"]);
        let screen = session.wait_for("what came of y", |screen| was_early(screen) || was_late(screen));
        if screen.contains("Read first") {
            session.wait_for_text(&[END_IT]);
            assert!(machine.all_live(), "the early y ended somebody");
            session.send("n");
            session.wait_for_no(&[END_IT]);
            return session.leave();
        }
        session.send("\x1b[B");
        session.wait_for_no(&[")? ━"]);
    }
    panic!("this machine is too busy to type in time");
}

fn shows_now(session: &Session, part: &str) -> bool {
    session.look(|screen| shows(screen, &[part]))
}

#[test]
fn a_y_followed_by_other_keys_closes_the_question_without_an_answer() {
    for typed in ["yes, delete", "y\x1b[B"] {
        let mut machine = Machine::new();
        let mut session = started(&machine, LARGE);
        session.send("\x1b[Hx");
        session.wait_for_text(&[END_IT]);
        session.send(typed);
        session.wait_for_no(&[")? ━"]);
        // A signal would be visible after two more readings.
        for _ in 0..2 {
            let before = session.raw().len();
            session.wait_for_more_output(before);
        }
        assert!(machine.all_live() && !session.text().contains("Sent SIGTERM"), "{typed:?}");
    }
}

/// Lines meant for another terminal's shell. Each has an x or Enter, and later a y.
const FOR_THE_SHELL: &[&str] = &["exit\rssh ray", "exec bash; history", "vim exp/my.yaml", "x y\rxy"];

#[test]
fn text_typed_for_a_shell_ends_no_process() {
    let mut machine = Machine::new();
    let mut session = with_log(&machine, LARGE);
    for (nth, line) in FOR_THE_SHELL.iter().enumerate() {
        for key in line.chars() {
            session.send(key.to_string());
            // The test is about the rhythm of the keys.
            pass(Duration::from_millis(if nth % 2 == 0 { 110 } else { 60 }));
        }
        session.wait_for("nothing is asked any more", |screen| {
            !shows(screen, &["any other key cancels"]) && !shows(screen, &[")? ━"])
        });
        assert!(machine.all_live(), "{line}");
        session.send("\x1b");
    }
}

#[test]
fn a_paste_without_brackets_becomes_the_log_and_runs_no_command() {
    for end in ["\r", "\n", "\r\n"] {
        let mut machine = Machine::new();
        let mut session = started(&machine, LARGE);
        let log = format!("Epoch 1\nx\ny\nq\ny\nxy\n{}q\nx\ny\n", machine.log());
        session.send(log.replace('\n', end));
        let [logged, ..] = machine.pids();
        let screen = session.wait_for_text(&["15 lines", "▸ 1 ", &logged]);
        assert!(!screen.contains(END_IT), "{end:?}\n{screen}");
        assert!(session.runs() && machine.all_live(), "{end:?}");
        session.leave();
    }
}

// ---- more than one paste

#[test]
fn a_second_paste_replaces_appends_or_is_dropped() {
    let machine = Machine::new();
    let mut session = with_log(&machine, LARGE);
    session.wait_for_text(&["6 lines"]);
    let second = format!("a second run\n{}", machine.log());
    session.paste(&second);
    session.wait_for_text(&["[r]", "[a]", "7 more lines"]);
    session.send("r");
    session.wait_for_text(&["· 7 lines"]);

    session.paste("and it went on\nuntil here");
    session.wait_for_text(&["[r]", "[a]"]);
    session.send("a");
    session.wait_for_text(&["· 9 lines"]);

    session.paste("something else");
    session.wait_for_text(&["[r]", "[a]"]);
    session.send("\x1b");
    let screen = session.wait_for_no(&["[r]", "[a]"]);
    assert!(screen.contains("· 9 lines"), "{screen}");
    session.leave();
}

// ---- processes that exit early or ignore SIGTERM

#[test]
fn a_process_that_exits_during_the_question_is_reported_as_gone() {
    let mut machine = Machine::new();
    let [logged, ..] = machine.pids();
    let mut session = started(&machine, LARGE);
    session.send("\x1b[Hx");
    session.wait_for_text(&[END_IT, &logged]);
    machine.logged.end();
    free_now(&session, FREE_AFTERWARDS);
    session.send("y");
    session.wait_for(&format!("{logged} has ended"), |screen| {
        screen.contents().lines().any(|line| line.contains(&logged) && line.contains("already ended"))
            && !shows(screen, &[END_IT])
    });
    assert!(machine.second.lives() && machine.third.lives());
    session.leave();
}

#[test]
fn a_process_that_exited_since_the_last_reading_is_reported_as_ended() {
    let mut machine = Machine::new();
    let [logged, ..] = machine.pids();
    let mut session = machine.oomdoctor_every("6", LARGE, &[]);
    session.wait_for_text(&[&logged]);
    session.send("\x1b[Hx");
    session.wait_for_text(&[END_IT, &logged]);
    machine.logged.end();
    session.send("y");
    session.wait_for(&format!("{logged} has ended"), |screen| {
        screen.contents().lines().any(|line| line.contains(&logged) && line.contains("exited"))
            && !shows(screen, &[END_IT])
    });
    session.wait_for_text(&["freed", HELD]);
    assert!(machine.second.lives() && machine.third.lives());
    session.leave();
}

#[test]
fn a_process_that_ignores_sigterm_gets_sigkill_only_after_a_second_yes() {
    let mut machine = Machine::with_logged(Sleeper::deaf());
    let [logged, ..] = machine.pids();
    let mut session = started(&machine, LARGE);
    session.send("\x1b[Hx");
    session.wait_for_text(&[END_IT, &logged]);
    session.send("y");
    session.wait_for_no(&[END_IT]);
    session.wait_for_text(&["ignored SIGTERM", &logged]);
    session.wait_for_no(&[END_IT]);
    assert!(machine.all_live(), "nothing is forced, or asked about, by itself");
    session.send("x");
    session.wait_for_text(&["Send SIGKILL to", &logged, "[y]"]);
    session.send("y");
    assert_eq!(machine.logged.ended_by(), Some(9));
    session.wait_for_text(&["freed", HELD]);
    session.leave();
}

// ---- a release request to the process's own program

/// A machine on which Ollama's runner uses the VRAM, with its server. The server lists models as Ollama does and
/// answers an unload request with this status; with 200 it ends the runner first.
fn with_ollama(unloads: u16) -> (Machine, ApiServer) {
    let (hand_over, runner) = mpsc::channel::<std::process::ChildStdin>();
    let server = ApiServer::start(move |request| match request.starts_with("GET") {
        true => Reply::Says(200, r#"{"models":[{"name":"llama3.1:8b","size_vram":12027166720}]}"#),
        false => {
            if unloads == 200 {
                drop(runner.recv().unwrap());
            }
            Reply::Says(unloads, r#"{"done":true,"done_reason":"unload"}"#)
        }
    });
    let (runner, end) = Sleeper::ollama_runner(server.port, "llama3.1:8b");
    hand_over.send(end).unwrap();
    (Machine::with_logged(runner), server)
}

fn asked_to_let_go(machine: &Machine, server: &ApiServer, size: (u16, u16)) -> Session {
    let mut session = with_log(machine, size);
    session.wait_for_text(&["▸ 1 ", "unload…"]);
    session.send("\r");
    let request = format!("POST http://127.0.0.1:{}/api/generate", server.port);
    session.wait_for_text(&[END_IT, "Ask Ollama to unload llama3.1:8b?", &request, &machine.pids()[0]]);
    assert_eq!(server.heard(), Vec::<String>::new(), "nothing is sent before the yes");
    session.send("y");
    session
}

/// Asserts that these actions are recorded, in this order, and returns the record.
fn recorded(expected: &[&str]) -> String {
    let [_, (_, state)] = homes();
    let record = fs::read_to_string(state.join("oomdoctor/signals.log")).unwrap();
    let what =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["what"].as_str().unwrap().to_owned();
    assert_eq!(record.lines().map(what).collect::<Vec<_>>(), expected, "{record}");
    record
}

fn let_go(size: (u16, u16)) {
    let (mut machine, server) = with_ollama(200);
    let session = asked_to_let_go(&machine, &server, size);
    assert_eq!(server.next().request, "GET /api/ps");
    assert_eq!(server.next().request, r#"POST /api/generate {"keep_alive":0,"model":"llama3.1:8b"}"#);
    session.wait_for_text(&["freed", HELD]);
    free_now(&session, FREE_AFTERWARDS);
    assert_eq!(machine.logged.ended_by(), None, "no signal ended it");
    assert!(machine.second.lives() && machine.third.lives(), "nobody else was touched");
    session.leave();
    let record = recorded(&["asked", "answered", "asked", "answered", "memory-back"]);
    assert!(record.contains(&format!("127.0.0.1:{}/api/generate", server.port)), "{record}");
}

#[test]
fn ollama_is_asked_to_unload_the_model_and_its_vram_is_freed() {
    let_go(LARGE);
}

#[test]
fn ollama_unloads_the_model_on_a_small_screen() {
    let_go(SMALL);
}

#[test]
fn a_refused_unload_is_reported_and_the_command_is_copied_instead() {
    let (mut machine, server) = with_ollama(403);
    let mut session = asked_to_let_go(&machine, &server, LARGE);
    session.wait_for_text(&["Ollama did not unload", "(403)", "copy command", "terminate…"]);
    assert!(machine.all_live());
    let asked = server.heard().len();
    session.send("\r");
    session.wait_for_text(&["Waiting for you", "ollama stop"]);
    assert_eq!((asked, server.heard()), (2, vec![]), "it was asked once");
    session.leave();
    recorded(&["asked", "answered", "asked", "answered"]);
}

#[test]
fn read_only_and_demo_mode_send_nothing() {
    let (mut machine, server) = with_ollama(200);
    let mut session = machine.oomdoctor(LARGE, &["--read-only"]);
    session.wait_for_text(&machine.pids().each_ref().map(String::as_str));
    session.paste(machine.log());
    session.wait_for_text(&["▸ 1 ", "copy command"]);
    session.send("\r");
    session.wait_for_text(&["Waiting for you", "ollama stop"]);
    assert!(machine.all_live() && server.heard().is_empty());
    session.leave();

    let mut demo = Session::oomdoctor(LARGE, &["--demo", "--interval", "0.1"]);
    demo.wait_for_text(&["▸ 1 ", "Run it on GPU 1"]);
    for row in ["▸ 2 ", "▸ 3 "] {
        demo.send("\x1b[B");
        demo.wait_for_text(&[row]);
    }
    demo.wait_for_text(&["unload…"]);
    demo.send("\r");
    demo.wait_for_text(&["Ask Ollama to unload llama3.1:8b?", "loads it again", "Demo: nothing is sent.", END_IT]);
    demo.send("y");
    demo.wait_for_text(&["(simulated): freed"]);
    demo.leave();
    let [_, (_, state)] = homes();
    assert!(!state.join("oomdoctor/signals.log").exists());
}

// ---- a driver that hangs

/// The age shown with "driver does not answer", in seconds.
fn silent_for(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("driver does not answer")?;
    let before_unit = after.lines().next()?.split(" s").next()?;
    before_unit.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Quits while the driver hangs: that is immediate and leaves no sampler behind.
fn quits_at_once(mut session: Session) {
    let children = children_of(session.pid());
    assert!(!children.is_empty(), "there is a sampler");
    session.send("q");
    let status = session.wait_for_exit(AT_ONCE);
    assert!(status.success(), "{status}");
    session.assert_given_back();
    for child in children {
        assert!(ends_within(child, PATIENCE), "the sampler {child} stayed behind");
    }
}

#[test]
fn a_driver_that_hangs_from_the_start_is_reported_and_blocks_nothing() {
    let machine = Machine::new();
    machine.set_faults("(call: \"*\", hang: true)");
    let mut session = machine.oomdoctor(LARGE, &[]);
    session.wait_for("its age", |screen| silent_for(&screen.contents()).is_some_and(|age| age >= 3));
    session.paste(machine.log());
    session.wait_for_text(&["▸ 1 ", &machine.pids()[0]]);
    quits_at_once(session);
}

#[test]
fn a_driver_that_hangs_in_mid_run_leaves_the_last_reading_with_its_age() {
    let machine = Machine::new();
    let [logged, ..] = machine.pids();
    let session = started(&machine, SMALL);
    machine.set_faults("(call: \"*\", hang: true)");
    let screen = session.wait_for("its age", |screen| silent_for(&screen.contents()).is_some());
    assert!(screen.contains(&logged), "the last reading stays\n{screen}");
    let age = silent_for(&screen);
    session.wait_for("a higher age", |screen| silent_for(&screen.contents()) > age);
    quits_at_once(session);
}

#[test]
fn a_driver_that_recovers_is_read_again() {
    let machine = Machine::new();
    let session = started(&machine, LARGE);
    machine.set_faults("(call: \"*\", hang_ms: 1500, times: 1)");
    session.wait_for_text(&["driver does not answer"]);
    session.wait_for_no(&["driver does not answer"]);
    session.leave();
}

// ---- restoring the terminal

#[test]
fn sigterm_and_sighup_end_the_program_and_restore_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP] {
        let machine = Machine::new();
        let mut session = started(&machine, LARGE);
        session.signal(signal);
        session.wait_for_exit(PATIENCE);
        session.assert_given_back();
    }
}

#[test]
fn sigterm_ends_the_program_during_a_question_or_typing() {
    let mut machine = Machine::new();
    let mut session = started(&machine, LARGE);
    session.send("\x1b[Hx");
    session.wait_for_text(&[END_IT]);
    session.signal(Signal::TERM);
    session.wait_for_exit(PATIENCE);
    session.assert_given_back();
    assert!(machine.all_live());
}

#[test]
fn ctrl_z_restores_the_terminal_and_fg_takes_it_again() {
    let machine = Machine::new();
    let [logged, ..] = machine.pids();
    let library = machine.library().display().to_string();
    // A shell with job control, which can continue a stopped program.
    let line = format!(
        "set -m; \"$OOMDOCTOR\" --nvml-library '{library}' --interval 0.2; echo IN THE SHELL; read go; fg; echo DONE; read end"
    );
    let mut session = Session::shell(LARGE, &line);
    session.wait_for_text(&[&logged, "GPUs & processes"]);
    session.assert_taken();
    session.send("\x1a");
    session.wait_for("the shell's screen", |screen| !screen.alternate_screen() && shows(screen, &["IN THE SHELL"]));
    session.send("go\n");
    session.wait_for("its screen again", |screen| screen.alternate_screen() && shows(screen, &[&logged]));
    session.wait_for("the mouse", |screen| screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None);
    session.assert_taken();
    session.send("q");
    session.wait_for("the shell again", |screen| !screen.alternate_screen() && shows(screen, &["DONE"]));
}

#[test]
fn without_a_shell_ctrl_z_does_not_stop_the_program() {
    let machine = Machine::new();
    let mut session = started(&machine, LARGE);
    session.send("\x1a");
    session.wait_for_text(&["no shell here"]);
    session.signal(Signal::TSTP);
    session.leave();
}

/// Run by the next test, in a terminal. It panics on a thread that does not own the terminal.
#[test]
#[ignore = "run by a_panic_restores_the_terminal_before_its_message"]
fn takes_the_terminal_and_panics() {
    if std::env::var_os(IN_A_PTY).is_none() {
        return;
    }
    terminal::give_back_on_panic();
    let screen = terminal::Screen::take().unwrap();
    let _ = thread::spawn(|| panic!("something is very wrong")).join();
    drop(screen);
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    let this = std::env::current_exe().unwrap();
    let name = "session::takes_the_terminal_and_panics";
    let mut session = Session::program(LARGE, &this, &["--exact", name, "--ignored", "--nocapture"]);
    let status = session.wait_for_exit(PATIENCE);
    assert_eq!(status.exit_code(), 101, "a worker's panic ends the program: {}", session.text());
    assert!(session.raw().contains("\x1b[?1049h"), "it had the terminal");
    session.assert_given_back();
    assert!(session.text().contains("something is very wrong"), "the message is on the shell's screen");
}

#[test]
fn any_size_is_survived_and_a_usable_size_shows_everything_again() {
    let machine = Machine::new();
    let [logged, ..] = machine.pids();
    let mut session = with_log(&machine, LARGE);
    for (columns, rows) in [(3, 2), (4, 30), (200, 2), (59, 14), (61, 16), (250, 70)] {
        session.resize(columns, rows);
        // A frame of that size shows the clock in the header or a message about the size.
        let before = session.raw().len();
        session.wait_for_more_output(before);
        assert!(session.runs(), "{columns}×{rows}");
    }
    session.resize(LARGE.0, LARGE.1);
    session.wait_for("a frame of this size", |screen| {
        let corner = |row: String| matches!(row.chars().last(), Some('┐' | '┓'));
        screen.rows(0, LARGE.0).any(corner) && shows(screen, &["▸ 1 ", &logged, HELD])
    });
    session.leave();
}

#[test]
fn a_key_pressed_during_a_resize_acts_at_once() {
    let mut session = Session::oomdoctor(LARGE, &["--nvml-library", NOWHERE]);
    session.wait_for_text(&["/nonexistent/"]);
    for round in 0..25 {
        session.resize(LARGE.0 + round % 2, LARGE.1);
        session.send("?");
        session.wait_for_text(&["Ctrl-Z"]);
        session.send("?");
        // The last line is drawn last, so the whole screen has been drawn when it is there.
        session.wait_for("no help, and all of the screen", |screen| {
            shows(screen, &["? help", "q quit"]) && !screen.contents().contains("Ctrl-Z")
        });
    }
    session.leave();
}

// ---- logs from files and pipes

#[test]
fn a_file_opens_with_its_log() {
    let machine = Machine::new();
    let (_folder, path) = file("crash.log", machine.log());
    let session = machine.oomdoctor(LARGE, &[path.to_str().unwrap()]);
    session.wait_for_text(&["crash.log", "▸ 1 ", &machine.pids()[0], "Another process uses"]);
    session.leave();
}

/// A job that prints a log into the program, waits until it may continue, and then prints a megabyte: it fails if
/// nobody reads that.
struct PipedJob {
    session: Session,
    folder: TempDir,
}

const JOB: &str = "
cat crash.log
read word <go
if yes 'step 2 loss 1.9' | head -c 1000000; then echo fine >said; else echo broken >said; fi
";

impl PipedJob {
    fn start(machine: &Machine, log: &str) -> PipedJob {
        let (folder, _) = file("crash.log", log);
        fs::write(folder.path().join("job.sh"), JOB).unwrap();
        for name in ["go", "said"] {
            mknodat(CWD, folder.path().join(name), FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        let line = format!(
            "cd '{}'; sh job.sh 2>&1 | \"$OOMDOCTOR\" --interval 0.2 --nvml-library '{}'; echo \"left with $?\"",
            folder.path().display(),
            machine.driver.library().display()
        );
        PipedJob { session: Session::shell(WIDE, &line), folder }
    }

    /// Lets the job continue, and returns its last line.
    fn goes_on(&self) -> String {
        let (go, said) = (self.folder.path().join("go"), self.folder.path().join("said"));
        let (sender, word) = mpsc::channel();
        thread::spawn(move || {
            fs::write(go, "on\n").unwrap();
            let _ = sender.send(fs::read_to_string(said).unwrap());
        });
        word.recv_timeout(PATIENCE).expect("the job said nothing")
    }
}

#[test]
fn a_piped_log_is_opened_and_leaving_does_not_break_the_pipe() {
    let machine = Machine::new();
    let [logged, ..] = machine.pids();
    let mut job = PipedJob::start(&machine, &machine.log());
    job.session.wait_for_text(&["6 lines", "▸ 1 ", &logged]);
    job.session.send("q");
    job.session.wait_for_text(&["still runs", END_IT]);
    job.session.send("n");
    job.session.wait_for_no(&[END_IT]);
    job.session.send("q");
    job.session.wait_for_text(&[END_IT]);
    job.session.send("y");
    job.session.wait_for("the shell's screen", |screen| !screen.alternate_screen());
    assert_eq!(job.goes_on(), "fine\n");
    let status = job.session.wait_for_exit(PATIENCE);
    assert!(status.success() && job.session.raw().contains("left with 0"), "{status}");
    assert!(job.session.raw().contains("the job that is piped into it goes on"), "the shell waits: that is said");
    job.session.assert_given_back();
}

#[test]
fn further_lines_of_a_pipe_and_its_end_are_shown() {
    let machine = Machine::new();
    let mut job = PipedJob::start(&machine, "step 1 loss 2.0\n");
    job.session.wait_for_text(&["step 1 loss 2.0", "still open"]);
    assert_eq!(job.goes_on(), "fine\n");
    job.session.wait_for_text(&["ended", " lines"]);
    // The pipe is closed, so quitting asks nothing.
    job.session.send("q");
    job.session.wait_for_exit(PATIENCE);
    job.session.assert_given_back();
}

// ---- no driver, no terminal

const NOWHERE: &str = "/nonexistent/libnvidia-ml.so.1";

#[test]
fn without_a_driver_logs_are_still_diagnosed() {
    for size in [LARGE, SMALL] {
        let mut session = Session::oomdoctor(size, &["--nvml-library", NOWHERE]);
        session.wait_for_text(&["/nonexistent/", "RAM:"]);
        session.paste(torch_log(4242, "23.99"));
        session.wait_for_text(&["▸ 1 ", "process 4242 had 11.2 GiB"]);
        session.send("x");
        session.wait_for("x has nobody to end", |screen| {
            !shows(screen, &[END_IT]) && shows(screen, &["terminates no process"])
        });
        session.leave();
    }
}

#[test]
fn without_a_terminal_the_screen_program_prints_the_plain_report() {
    let machine = Machine::new();
    let (_folder, path) = file("crash.log", machine.log());
    let (log, library) = (path.display(), machine.driver.library());
    for (line, parts) in [
        (
            format!("\"$OOMDOCTOR\" '{log}' --device-folder \"$DEVICES\" --nvml-library '{}' | cat", library.display()),
            ["Another process", "Terminate sleep"],
        ),
        (format!("\"$OOMDOCTOR\" --nvml-library '{}' | cat", library.display()), ["PID@START_TICKS", "RTX 4090"]),
    ] {
        let mut session = Session::shell((200, 60), &line);
        let status = session.wait_for_exit(PATIENCE);
        let text = session.text();
        assert!(status.success() && parts.iter().all(|part| text.contains(part)), "{line}: {status}\n{text}");
        assert!(text.contains(&machine.pids()[0]) && !session.raw().contains("\x1b[?1049h"), "{line}\n{text}");
    }
}

// ---- logs of other machines and exited processes

#[test]
fn a_log_from_another_machine_offers_no_process() {
    let mut machine = Machine::new();
    let [_, second, _] = machine.pids();
    let mut session = started(&machine, LARGE);
    session.paste(torch_log(machine.logged.pid(), "79.10"));
    let screen = session.wait_for_text(&["another machine", "79.1 GiB", "▸ 1 "]);
    let steps = screen.split("FREES").nth(1).unwrap();
    // Where it ran, the process that the log names may be looked for; here nobody is terminated.
    assert!(!steps.contains(&second) && !shows_now(&session, "terminate…"), "no step may end one of ours\n{steps}");
    session.send("x");
    session.wait_for_text(&["terminates no process"]);
    assert!(!shows_now(&session, END_IT));
    session.send("\r");
    session.wait_for_text(&["(taken)"]);
    assert!(!shows_now(&session, END_IT) && machine.all_live());
    session.leave();
}

#[test]
fn a_named_process_that_has_exited_is_reported_as_gone() {
    let machine = Machine::new();
    let mut gone = Sleeper::start();
    gone.end();
    let mut session = started(&machine, LARGE);
    session.paste(torch_log(gone.pid(), "23.99"));
    let screen = session.wait_for_text(&["▸ 1 ", "exited since"]);
    let sentence = screen.lines().find(|line| line.contains("exited since")).unwrap();
    assert!(sentence.contains(&gone.pid().to_string()), "{sentence}");
    let steps = screen.split("FREES").nth(1).unwrap();
    assert!(!steps.contains(&gone.pid().to_string()), "nobody is asked to end it\n{steps}");
    session.leave();
}

// ---- escape sequences

/// Sets the title, clears the screen, shows the cursor, leaves the alternate screen, rings the bell, reverses text.
const EVIL: &str = "\x1b]0;pwned\x07\x1b[2J\x1b[?25h\x1b[?1049l\u{202e}\u{9b}31m";

#[test]
fn escape_sequences_in_a_process_name_are_shown_and_do_nothing() {
    let machine = Machine::with_logged(Sleeper::named(format!("ev{EVIL}il")));
    let session = with_log(&machine, LARGE);
    let screen = session.wait_for_text(&["ev·]0;pwned·"]);
    assert!(!screen.contains(['\u{202e}', '\u{9b}', '\x1b']));
    session.assert_taken();
    assert!(session.look(|screen| screen.hide_cursor()), "the cursor stays hidden");
    let deeds = session.deeds();
    assert!(deeds.titles.is_empty() && deeds.bells == 0, "{deeds:?}");
    session.leave();
}

#[test]
fn escape_sequences_in_a_log_do_nothing() {
    let machine = Machine::new();
    let log = format!("plain here\n\x1b[31;5mloud{EVIL}ly here\x1b[0m\n{}", machine.log());
    let (_folder, path) = file("e\x1b]0;pwned\x07.log", &log);
    let mut session = machine.oomdoctor(LARGE, &[path.to_str().unwrap()]);
    // What is pasted has a blank more: the same log again would be no other one.
    for (way, lines, plain) in [("opened", "· 8 lines", "plain here"), ("pasted", "· 9 lines", "plain text")] {
        if way == "pasted" {
            session.paste(format!("{log} ").replace("plain here", plain).as_bytes());
            session.wait_for_text(&["[r]", "[a]"]);
            session.send("r");
            session.wait_for_no(&["[r]", "pwned"]);
        }
        session.wait_for_text(&[lines, "▸ 1 "]);
        focus_the_log(&mut session);
        session.send("\x1b[H");
        session.wait_for_text(&[plain, "loudly here"]);
        let (quiet, loud) = session.look(|screen| (style_of(screen, plain), style_of(screen, "loudly here")));
        assert_eq!(quiet, loud, "{way}: the log's colours stay its own");
        session.assert_taken();
        assert!(session.look(|screen| screen.hide_cursor()), "{way}: the cursor stays hidden");
        let deeds = session.deeds();
        assert!(deeds.titles.is_empty() && deeds.bells == 0, "{way}: {deeds:?}");
        assert!(!session.text().contains('\u{202e}'));
    }
    session.leave();
}

/// Presses Tab until the log has the focus: its frame is the thick one.
fn focus_the_log(session: &mut Session) {
    let focused =
        |screen: &vt100::Screen| ["┌▸GPUs", "┌▸Log", "┌▸Fixes"].into_iter().find(|title| shows(screen, &[title]));
    for _ in 0..3 {
        let before = session.look(focused);
        if before == Some("┌▸Log") {
            return;
        }
        session.send("\t");
        session
            .wait_for("another region has the focus", |screen| focused(screen).is_some_and(|now| Some(now) != before));
    }
    panic!("the log never got the focus\n{}", session.text());
}

/// The colors and boldness of this text on the screen.
fn style_of(screen: &vt100::Screen, text: &str) -> (vt100::Color, vt100::Color, bool) {
    let (rows, columns) = screen.size();
    let lines: Vec<String> = screen.rows(0, columns).collect();
    let row = lines.iter().position(|line| line.contains(text)).unwrap();
    let column = lines[row].split(text).next().unwrap().chars().count();
    let (row, column) = (u16::try_from(row).unwrap(), u16::try_from(column).unwrap());
    assert!(row < rows);
    let cell = screen.cell(row, column).unwrap();
    (cell.fgcolor(), cell.bgcolor(), cell.bold())
}

// ---- input that is no log

fn opened(content: &[u8]) -> (Session, TempDir) {
    let (folder, path) = file("given.log", content);
    (Session::oomdoctor(LARGE, &[path.to_str().unwrap(), "--nvml-library", NOWHERE]), folder)
}

#[test]
fn a_binary_file_is_reported_as_one() {
    let (session, _folder) =
        opened(&[b"\x7fELF\x02\x01\x01\0".as_slice(), &[0, 1, 2, 0xff, 0xfe, 7, 27].repeat(2000)].concat());
    session.wait_for_text(&["binary file"]);
    session.leave();
}

#[test]
fn binary_data_from_a_pipe_is_reported_as_no_log() {
    let (folder, _) = file("unused", "");
    let path = folder.path().join("core");
    fs::write(&path, [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0, 1, 2, 0xff, 0xfe, 7, 27].repeat(2000)].concat())
        .unwrap();
    let line = format!("\"$OOMDOCTOR\" --nvml-library {NOWHERE} < '{}'", path.display());
    let session = Session::shell(LARGE, &line);
    session.wait_for_text(&["binary file"]);
    session.leave();
}

#[test]
fn a_broken_user_entry_is_named_and_the_built_in_ones_still_work() {
    let (folder, path) = file("crash.log", torch_log(1, "23.99"));
    let own = folder.path().join("knowledge/mine");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("broken.ron"), "(\n  title: \"x\",\n  colour: 1,\n)").unwrap();
    let knowledge = folder.path().join("knowledge");
    let arguments = [path.to_str().unwrap(), "--nvml-library", NOWHERE, "--knowledge", knowledge.to_str().unwrap()];
    let session = Session::oomdoctor(LARGE, &arguments);
    session.wait_for_text(&["mine/broken.ron:3", "asked 9.0 GiB"]);
    session.leave();
}

#[test]
fn an_empty_file_is_reported_as_empty() {
    let (session, _folder) = opened(b"");
    session.wait_for_text(&["empty"]);
    session.leave();
}

#[test]
fn a_folder_or_a_missing_file_is_reported_as_unreadable() {
    for path in ["/tmp", "/nonexistent.log"] {
        let mut session = Session::oomdoctor(LARGE, &[path, "--nvml-library", NOWHERE]);
        assert_eq!(session.wait_for_exit(PATIENCE).exit_code(), 2);
        assert!(session.text().contains(&format!("{path} can't be read")) && !session.raw().contains("\x1b[?1049h"));
    }
}

#[test]
fn an_incomplete_utf8_character_does_no_harm() {
    let log = [torch_log(4242, "23.99").as_bytes(), b"50%|\xe2\x96"].concat();
    let (session, _folder) = opened(&log);
    session.wait_for_text(&["7 lines", "▸ 1 ", "4242"]);
    session.leave();
    let mut session = Session::oomdoctor(LARGE, &["--nvml-library", NOWHERE]);
    session.wait_for_text(&["/nonexistent/"]);
    session.send(b"\xe2\x96");
    session.paste(&log);
    session.wait_for_text(&["7 lines", "▸ 1 ", "4242"]);
    session.leave();
}

#[test]
fn an_empty_paste_is_reported_as_empty() {
    let mut session = Session::oomdoctor(LARGE, &["--nvml-library", NOWHERE]);
    session.wait_for_text(&["/nonexistent/"]);
    session.paste("\n \n");
    session.wait_for_text(&["empty"]);
    session.leave();
}

#[test]
fn a_paste_of_a_megabyte_is_taken_whole() {
    let mut session = Session::oomdoctor(LARGE, &["--nvml-library", NOWHERE]);
    session.wait_for_text(&["/nonexistent/"]);
    let step = "step 12345 loss 2.0312 lr 3e-4 grad_norm 0.91 tokens/s 18231 xyq\n";
    let log = step.repeat((1 << 20) / step.len() + 1) + &torch_log(4242, "23.99");
    session.paste(&log);
    session.wait_for_text(&[&format!("· {} lines", log.lines().count()), "▸ 1 ", "4242"]);
    session.leave();
}

#[test]
fn an_empty_pipe_is_reported_as_empty() {
    let session = Session::shell(LARGE, &format!(": | \"$OOMDOCTOR\" --nvml-library {NOWHERE}"));
    session.wait_for_text(&["Nothing came"]);
    session.leave();
}

// ---- the last log, and reports

#[test]
fn the_last_log_can_be_reopened_and_a_report_is_written_to_the_state_folder() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let line = |rest: &str| {
        let (state, library) = (state.display(), machine.driver.library());
        format!(
            "XDG_STATE_HOME='{state}' \"$OOMDOCTOR\" --device-folder \"$DEVICES\" --nvml-library '{}' {rest}",
            library.display()
        )
    };
    let mut session = Session::shell(LARGE, &line("--last"));
    session.wait_for_exit(PATIENCE);
    assert!(session.text().contains("no last log yet"), "{}", session.text());

    let mut session = Session::shell(LARGE, &line(""));
    session.wait_for_text(&[&machine.pids()[0]]);
    session.paste(machine.log().replace("Traceback", "HF_TOKEN=hf_abcdEFGH12345678 Traceback"));
    session.wait_for_text(&["▸ 1 "]);
    session.send("s");
    session.wait_for_text(&["(skipped)"]);
    session.send("W");
    let screen = session.wait_for_text(&["state/oomdoctor/report-"]);
    session.send("\x1b");
    session.wait_for("the report's place is closed", |screen| !shows(screen, &["oomdoctor/report-"]));
    session.leave();
    let own = state.join("oomdoctor");
    let report = fs::read_dir(&own)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "md"));
    let text = fs::read_to_string(report.unwrap_or_else(|| panic!("{screen}"))).unwrap();
    assert!(text.contains("(skipped)") && !text.contains("hf_abcd"), "{text}");
    let kept = fs::read_to_string(own.join("last.log")).unwrap();
    for (path, mode) in [(own.join("last.log"), 0o600), (own.clone(), 0o700)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "its owner's alone");
    }
    assert!(kept.contains("hf_abcdEFGH12345678"), "the log itself is kept whole");

    let session = Session::shell(LARGE, &line("--last"));
    session.wait_for_text(&["(skipped)", "pasted "]);
    session.leave();

    let mut session = Session::shell((200, 60), &line("report < /dev/null"));
    assert!(session.wait_for_exit(PATIENCE).success());
    assert!(session.text().contains("(skipped)"), "{}", session.text());
}
