//! The program in a rough world: a terminal that vanishes or never keeps its size, a disk that is full, no home or one
//! that can't be written, terminals and locales that can do next to nothing.

use std::fs;
use std::io::Read;

use oomdoctor::procfs::Procfs;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::support::ends_within;
use crate::support::fake_driver::{devices, homes};
use crate::support::machine::{HELD, Machine, torch_log};
use crate::support::pty::{PATIENCE, Session, shows};

const LARGE: (u16, u16) = (120, 40);
const NOWHERE: &str = "/nonexistent/libnvidia-ml.so.1";
const END_IT: &str = "[y]";

/// The shipped program on this machine, in a shell's line after these words.
fn line(machine: &Machine, before: &str) -> String {
    let library = machine.library();
    let options = format!("--device-folder \"$DEVICES\" --interval 0.2 --nvml-library '{}'", library.display());
    format!("{before} \"$OOMDOCTOR\" {options}")
}

fn children(of: u32) -> Vec<u32> {
    let procfs = Procfs::default();
    let is_child = |pid: &u32| procfs.stat(*pid).is_ok_and(|stat| stat.parent_pid == of);
    procfs.pids().into_iter().filter(is_child).collect()
}

#[test]
fn a_terminal_that_is_closed_ends_the_program_quietly_and_its_sampler_with_it() {
    // The second one was started by something that ignores that the terminal hangs up, as nohup does.
    for before in ["exec", "trap '' HUP; exec"] {
        let mut machine = Machine::new();
        let folder = tempfile::tempdir().unwrap();
        let errors = folder.path().join("errors");
        let size = PtySize { rows: LARGE.1, cols: LARGE.0, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new("sh");
        command.args(["-c", &format!("{} 2>'{}'", line(&machine, before), errors.display())]);
        command.env("OOMDOCTOR", env!("CARGO_BIN_EXE_oomdoctor"));
        command.env("DEVICES", devices());
        command.env("TERM", "xterm-256color");
        homes().into_iter().for_each(|(name, folder)| command.env(name, folder));
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().unwrap();
        let mut screen = vt100::Parser::new(LARGE.1, LARGE.0, 0);
        let mut block = vec![0; 64 << 10];
        while !shows(screen.screen(), &[&machine.pids()[0], "GPUs and who"]) {
            let count = output.read(&mut block).unwrap();
            assert!(count > 0, "it ended\n{}", screen.screen().contents());
            screen.process(&block[..count]);
        }
        let own = child.process_id().unwrap();
        let samplers = children(own);
        assert_eq!(samplers.len(), 1, "{samplers:?}");
        // All that keeps it open.
        drop((output, pair.master));
        assert!(ends_within(own, PATIENCE), "{before}: it still runs");
        let status = child.wait().unwrap();
        assert!(status.signal().is_none() && status.exit_code() != 101, "{before}: {status}");
        assert!(ends_within(samplers[0], PATIENCE), "{before}: the sampler stayed behind");
        let said = fs::read_to_string(errors).unwrap();
        assert!(!said.contains("panicked"), "{before}: {said}");
        assert!(machine.all_live());
    }
}

#[test]
fn a_storm_of_sizes_is_survived_and_answers_nothing() {
    let mut machine = Machine::new();
    let [holder, ..] = machine.pids();
    let mut session = machine.oomdoctor_every("0.05", LARGE, &[]);
    session.wait_for_text(&[&holder]);
    session.paste(machine.log());
    session.wait_for_text(&["step 1"]);
    session.send("x");
    session.wait_for_text(&[END_IT]);
    for round in 0..500_u16 {
        let (columns, rows) = (20 + round * 37 % 181, 5 + round * 13 % 56);
        let before = session.raw().len();
        session.resize(columns, rows);
        // Too few to be a paste.
        if round < 3 {
            session.send("y");
        }
        if round % 10 == 0 {
            session.wait_for_more_output(before);
        }
    }
    assert!(session.runs() && machine.all_live(), "no y among them was an answer");
    session.resize(LARGE.0, LARGE.1);
    session.wait_for("a frame of this size", |screen| {
        let corner = screen.rows(0, LARGE.0).nth(1).and_then(|row| row.chars().last());
        matches!(corner, Some('┐' | '┓')) && shows(screen, &["step 1", &holder, HELD])
    });
    // No text has this key, so that it is not taken for one more of the burst.
    session.send("\x1b[B");
    session.send("?");
    session.wait_for_text(&["Ctrl-Z"]);
    session.send("\x1b");
    session.wait_for_no(&["Ctrl-Z"]);
    session.leave();
    assert!(machine.all_live());
}

#[test]
fn on_a_full_disk_nothing_is_lost_but_the_files_and_that_is_said() {
    let mut machine = Machine::new();
    let [(_, _), (_, state)] = homes();
    let own = state.join("oomdoctor");
    fs::create_dir_all(&own).unwrap();
    let kept = "{\"origin\":\"before\"}\nthe log of yesterday\n";
    fs::write(own.join("last.log"), kept).unwrap();
    // No file may grow by a byte; pipes and terminals are none.
    let mut session = Session::shell(LARGE, &line(&machine, "trap '' XFSZ; ulimit -f 0; exec"));
    session.wait_for_text(&[&machine.pids()[0]]);
    session.paste(machine.log());
    session.wait_for_text(&["step 1", "can't be kept for --last"]);
    session.send("x");
    session.wait_for_text(&[END_IT]);
    session.send("y");
    assert_eq!(machine.holder.ended_by(), Some(15), "a record that can't be written stops no signal");
    session.wait_for_text(&["gave back", "could not be recorded"]);
    session.send("W");
    session.wait_for_text(&["report could not be written"]);
    session.leave();
    assert_eq!(fs::read_to_string(own.join("last.log")).unwrap(), kept, "what was kept before is whole");
    let others = fs::read_dir(&own).unwrap().flatten().filter(|entry| entry.file_name() != "last.log");
    let others: Vec<_> = others.filter(|entry| entry.metadata().unwrap().len() > 0).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn without_a_home_or_with_one_that_can_not_be_written_only_the_keeping_is_missing() {
    // Root may write anywhere, and has a home without being told.
    let nobody = "if [ $(id -u) = 0 ]; then set -- setpriv --reuid=65534 --regid=65534 --clear-groups; else set --; fi";
    for (home, said) in
        [("unset HOME", "neither HOME nor XDG_STATE_HOME"), ("HOME=/; export HOME", "can't be kept for")]
    {
        let without = "unset XDG_STATE_HOME XDG_CONFIG_HOME";
        let line = format!("{nobody}; {without}; {home}; exec \"$@\" \"$OOMDOCTOR\" --nvml-library {NOWHERE}");
        let mut session = Session::shell(LARGE, &line);
        session.wait_for_text(&["/nonexistent/"]);
        session.paste(torch_log(4242, "23.99"));
        session.wait_for_text(&["step 1", "4242"]);
        if home.starts_with("unset") {
            session.send("W");
        }
        session.wait_for_text(&[said]);
        session.leave();
    }
}

#[test]
fn a_terminal_and_a_locale_that_can_do_next_to_nothing_are_drawn_on_in_ascii() {
    let machine = Machine::new();
    for before in ["TERM=linux LANG=C", "TERM=vt100 LC_ALL=de_DE.ISO-8859-1", "TERM=ansi LANG= LC_CTYPE=POSIX"] {
        let mut session = Session::shell(LARGE, &line(&machine, before));
        session.wait_for_text(&[&machine.pids()[0]]);
        session.paste(format!("größer 模型\n{}", machine.log()));
        session.wait_for_text(&["step 1", HELD]);
        session.send("?");
        session.wait_for_text(&["Ctrl-Z"]);
        session.send("?");
        session.wait_for_no(&["Ctrl-Z"]);
        assert!(session.raw().is_ascii(), "{before}");
        session.leave();
    }
}

#[test]
fn where_the_person_wants_no_log_kept_there_is_none_and_that_is_said() {
    let machine = Machine::new();
    let [(_, config), (_, state)] = homes();
    let start = |rest: &str| Session::shell(LARGE, &format!("{} {rest}", line(&machine, "exec")));
    let session = start("");
    session.wait_for_text(&[&machine.pids()[0]]);
    let paste = |mut session: Session| {
        session.paste(machine.log());
        session.wait_for_text(&["step 1"]);
        session.send("s");
        session.wait_for_text(&["step 2"]);
        session.leave();
    };
    paste(session);
    let kept = state.join("oomdoctor/last.log");
    assert!(kept.exists());
    fs::create_dir_all(config.join("oomdoctor")).unwrap();
    fs::write(config.join("oomdoctor/config.ron"), "(keep_log: false)").unwrap();
    let session = start("");
    session.wait_for_text(&[&machine.pids()[0]]);
    assert!(!kept.exists(), "what was kept is taken away");
    paste(session);
    let left = fs::read_dir(state.join("oomdoctor")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
    for rest in ["--last", "report < /dev/null"] {
        let mut session = start(rest);
        assert_eq!(session.wait_for_exit(PATIENCE).exit_code(), 2);
        assert!(session.text().contains("keep_log: false"), "{rest}: {}", session.text());
    }
}
