//! The program under bad conditions: a terminal that is closed or resized without end, a full disk, no writable home,
//! minimal terminals and locales.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::fake_driver::{devices, homes};
use crate::support::machine::{HELD, Machine, torch_log};
use crate::support::pty::{PATIENCE, Session, shows};
use crate::support::{children_of, ends_within};

const LARGE: (u16, u16) = (120, 40);
const NOWHERE: &str = "/nonexistent/libnvidia-ml.so.1";
const END_IT: &str = "[y]";

/// A shell's command line: `before`, then the shipped program on this machine.
fn line(machine: &Machine, before: &str) -> String {
    let library = machine.library();
    let options = format!("--device-folder \"$DEVICES\" --interval 0.2 --nvml-library '{}'", library.display());
    format!("{before} \"$OOMDOCTOR\" {options}")
}

#[test]
fn closing_the_terminal_ends_the_program_and_its_sampler() {
    // The second shell ignores SIGHUP, as nohup does.
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
        while !shows(screen.screen(), &[&machine.pids()[0], "GPUs & processes"]) {
            let count = output.read(&mut block).unwrap();
            assert!(count > 0, "it ended\n{}", screen.screen().contents());
            screen.process(&block[..count]);
        }
        let own = child.process_id().unwrap();
        let samplers = children_of(own);
        assert_eq!(samplers.len(), 1, "{samplers:?}");
        // Dropping both closes the terminal.
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
fn a_signal_ends_the_program_also_when_its_terminal_takes_nothing_any_more() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 400, ws_col: 1000, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap();
    let path = Path::new(path.to_str().unwrap());
    let open = |flags: OFlags| {
        let flags = flags.bits().cast_signed();
        fs::File::options().read(true).write(true).custom_flags(flags).open(path).unwrap()
    };
    let mut filler = open(OFlags::NOCTTY | OFlags::NONBLOCK);
    // The kernel makes room once more when it hands on what was written.
    let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while poll(&mut [PollFd::new(&filler, PollFlags::OUT)], Some(&moment)).unwrap() == 1 {
        let _ = filler.write(b"x");
    }
    let terminal = open(OFlags::NOCTTY);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
    command.arg("--demo").env("TERM", "xterm-256color").envs(homes());
    command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let is_raw = || !tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ICANON);
    let began = Instant::now();
    while !is_raw() {
        assert!(began.elapsed() < PATIENCE, "it does not take the terminal");
        std::thread::yield_now();
    }
    // The first frame is larger than all that the kernel keeps. A kernel that does not name where a process waits lets the
    // signal come before that.
    let waits_at = format!("/proc/{}/wchan", child.id());
    let began = Instant::now();
    let is_stuck = || fs::read_to_string(&waits_at).is_ok_and(|place| place == "wait_woken");
    while !is_stuck() && began.elapsed() < PATIENCE / 8 {
        std::thread::yield_now();
    }
    let was_stuck = is_stuck();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(ends_within(child.id(), PATIENCE), "it still runs");
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(15) || !was_stuck && status.code() == Some(143), "{status}");
    assert!(!is_raw(), "the shell gets the terminal as it was");
}

/// The first sampler is a copy of the program, the ones after it are started anew.
#[test]
fn a_sampler_that_was_killed_is_followed_by_others() {
    let mut machine = Machine::new();
    let [logged, ..] = machine.pids();
    let session = machine.oomdoctor_every("0.05", LARGE, &[]);
    session.wait_for_text(&[&logged]);
    let mut killed = Vec::new();
    for _ in 0..2 {
        let [sampler] = children_of(session.pid())[..] else { panic!("{:?}", children_of(session.pid())) };
        assert!(!killed.contains(&sampler));
        let pid = Pid::from_raw(i32::try_from(sampler).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        session.wait_for_text(&["no reading"]);
        session.wait_for_no(&["no reading"]);
        killed.push(sampler);
    }
    session.leave();
    assert!(machine.all_live());
}

#[test]
fn many_resizes_answer_no_question() {
    let mut machine = Machine::new();
    let [logged, ..] = machine.pids();
    let mut session = machine.oomdoctor_every("0.05", LARGE, &[]);
    session.wait_for_text(&[&logged]);
    session.paste(machine.log());
    session.wait_for_text(&["▸ 1 "]);
    session.send("\t\x1b[Hx");
    session.wait_for_text(&[END_IT]);
    for round in 0..500_u16 {
        let (columns, rows) = (20 + round * 37 % 181, 5 + round * 13 % 56);
        let before = session.raw().len();
        session.resize(columns, rows);
        // Single letters: more of them would be taken for a paste.
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
        let corner = |row: String| matches!(row.chars().last(), Some('┐' | '┓'));
        screen.rows(0, LARGE.0).any(corner) && shows(screen, &["▸ 1 ", &logged, HELD])
    });
    // An arrow key is never part of a paste, so it ends the burst of letters.
    session.send("\x1b[B");
    session.send("?");
    session.wait_for_text(&["Ctrl-Z"]);
    session.send("\x1b");
    session.wait_for_no(&["Ctrl-Z"]);
    session.leave();
    assert!(machine.all_live());
}

#[test]
fn an_absurdly_large_terminal_costs_no_more_than_a_large_one() {
    let machine = Machine::new();
    let mut session = machine.oomdoctor(LARGE, &[]);
    session.wait_for_text(&[&machine.pids()[0]]);
    // The emulator of the test keeps its size.
    let before = session.raw().len();
    session.resize_without_emulator(65535, 65535);
    session.wait_for_more_output(before + 6000);
    let status = fs::read_to_string(format!("/proc/{}/status", session.pid())).unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse::<u64>().ok());
    assert!(peak.unwrap() < 300 << 10, "{peak:?} KiB");
    session.resize(LARGE.0, LARGE.1);
    session.wait_for_text(&[&machine.pids()[0]]);
    session.leave();
}

#[test]
fn on_a_full_disk_only_the_files_are_missing_and_the_screen_says_so() {
    let mut machine = Machine::new();
    let [(_, _), (_, state)] = homes();
    let own = state.join("oomdoctor");
    fs::create_dir_all(&own).unwrap();
    let kept = "{\"origin\":\"before\"}\nthe log of yesterday\n";
    fs::write(own.join("last.log"), kept).unwrap();
    // The limit applies to files only, not to pipes and terminals.
    let mut session = Session::shell(LARGE, &line(&machine, "trap '' XFSZ; ulimit -f 0; exec"));
    session.wait_for_text(&[&machine.pids()[0]]);
    session.paste(machine.log());
    session.wait_for_text(&["▸ 1 ", "can't be saved for --last"]);
    session.send("\t\x1b[Hx");
    session.wait_for_text(&[END_IT]);
    session.send("y");
    assert_eq!(machine.logged.ended_by(), Some(15), "a record that can't be written stops no signal");
    session.wait_for_text(&["freed", "could not be recorded"]);
    session.send("W");
    session.wait_for_text(&["report could not be written"]);
    session.leave();
    assert_eq!(fs::read_to_string(own.join("last.log")).unwrap(), kept, "what was kept before is whole");
    let others = fs::read_dir(&own).unwrap().flatten().filter(|entry| entry.file_name() != "last.log");
    let others: Vec<_> = others.filter(|entry| entry.metadata().unwrap().len() > 0).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn without_a_writable_home_only_the_last_log_is_not_kept() {
    // Root may write anywhere and has a home without HOME.
    let nobody = "if [ $(id -u) = 0 ]; then set -- setpriv --reuid=65534 --regid=65534 --clear-groups; else set --; fi";
    for (home, said) in
        [("unset HOME", "neither HOME nor XDG_STATE_HOME"), ("HOME=/; export HOME", "can't be saved for")]
    {
        let without = "unset XDG_STATE_HOME XDG_CONFIG_HOME";
        let line = format!("{nobody}; {without}; {home}; exec \"$@\" \"$OOMDOCTOR\" --nvml-library {NOWHERE}");
        let mut session = Session::shell(LARGE, &line);
        session.wait_for_text(&["/nonexistent/"]);
        session.paste(torch_log(4242, "23.99"));
        session.wait_for_text(&["▸ 1 ", "4242"]);
        if home.starts_with("unset") {
            session.send("W");
        }
        session.wait_for_text(&[said]);
        session.leave();
    }
}

#[test]
fn a_minimal_terminal_and_locale_are_drawn_in_ascii() {
    let machine = Machine::new();
    for before in ["TERM=linux LANG=C", "TERM=vt100 LC_ALL=de_DE.ISO-8859-1", "TERM=ansi LANG= LC_CTYPE=POSIX"] {
        let mut session = Session::shell(LARGE, &line(&machine, before));
        session.wait_for_text(&[&machine.pids()[0]]);
        session.paste(format!("größer 模型\n{}", machine.log()));
        session.wait_for_text(&["> 1 ", HELD]);
        session.send("?");
        session.wait_for_text(&["Ctrl-Z"]);
        session.send("?");
        session.wait_for_no(&["Ctrl-Z"]);
        assert!(session.raw().is_ascii(), "{before}");
        session.leave();
    }
}

#[test]
fn with_log_keeping_turned_off_no_log_is_kept_and_the_screen_says_so() {
    let machine = Machine::new();
    let [(_, config), (_, state)] = homes();
    let start = |rest: &str| Session::shell(LARGE, &format!("{} {rest}", line(&machine, "exec")));
    let session = start("");
    session.wait_for_text(&[&machine.pids()[0]]);
    let paste = |mut session: Session| {
        session.paste(machine.log());
        session.wait_for_text(&["▸ 1 "]);
        session.send("s");
        session.wait_for_text(&["(skipped)"]);
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

#[test]
fn an_unwritable_answer_is_an_error_unless_the_reader_has_left() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("crash.log");
    fs::write(&log, torch_log(4242, "23.99")).unwrap();
    let library = machine.library();
    let commands = [
        "diagnose \"$LOG\"",
        "report --no-live \"$LOG\"",
        "\"$LOG\"",
        "ps --device-folder \"$DEVICES\" --nvml-library \"$LIBRARY\"",
        "sample --count 1 --device-folder \"$DEVICES\" --nvml-library \"$LIBRARY\"",
        "fit --nvml-library /nonexistent",
        "kb list",
        "kb show pytorch/cuda-out-of-memory",
        "completions bash",
        "man",
        "--help",
        "--version",
    ];
    for command in commands {
        for (output, code, said) in
            [("> /dev/full", 2, true), (">&-", 2, true), ("| true", 0, false), ("> /dev/null", 0, false)]
        {
            // Exit code 1 is an answer ("not found"), so it counts as 0 here.
            let line = format!(
                "{{ \"$OOMDOCTOR\" {command}; code=$?; test $code = 1 && code=0; echo \"ended $code\" >&2; }} {output}"
            );
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).env("OOMDOCTOR", env!("CARGO_BIN_EXE_oomdoctor"));
            shell
                .env("LOG", &log)
                .env("LIBRARY", &library)
                .env("DEVICES", devices())
                .envs(homes())
                .stdin(Stdio::null());
            let errors = String::from_utf8(shell.output().unwrap().stderr).unwrap();
            let (words, ended) = errors.trim_end().rsplit_once("ended ").unwrap();
            assert_eq!(ended, code.to_string(), "{command} {output}: {errors}");
            let lines =
                words.lines().filter(|line| line.contains("written") && line.starts_with("oomdoctor: ")).count();
            assert_eq!(lines, usize::from(said), "{command} {output}: {errors}");
        }
    }
}

#[test]
fn pipes_and_devices_in_place_of_settings_entries_and_models_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = at("crash.log");
    fs::write(&log, torch_log(4242, "23.99")).unwrap();
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let odd = [at("pipe"), at("socket"), "/dev/zero".into(), "/dev/tty".into(), "/dev/stdin".into()];
    // The program must exit by itself: the timeout fails the test.
    let run = |words: &[&str]| {
        let mut command = assert_cmd::Command::new("sh");
        // A shell, because `assert_cmd` would connect a pipe to the standard input.
        command.args(["-c", "exec \"$@\" < /dev/null", "sh", env!("CARGO_BIN_EXE_oomdoctor")]).args(words);
        command.env("XDG_CONFIG_HOME", folder.path()).env("XDG_STATE_HOME", at("state"));
        command.timeout(PATIENCE).output().unwrap()
    };
    let refused = |what: &str, named: &str, words: &[&str]| {
        let output = run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{what} {words:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(named), "{what} {words:?}: {said}");
    };
    let (own, entries) = (at("oomdoctor"), at("entries"));
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(&entries).unwrap();
    let log = log.to_str().unwrap();
    for target in &odd {
        let what = target.display().to_string();
        let place = |link: PathBuf| {
            symlink(target, &link).unwrap();
            link
        };
        let config = place(own.join("config.ron"));
        refused(&what, "config.ron", &["diagnose", "--no-live", log]);
        refused(&what, "config.ron", &["ps"]);
        fs::remove_file(config).unwrap();
        let entry = place(entries.join("mine.ron"));
        refused(&what, "mine.ron", &["--knowledge", entries.to_str().unwrap(), "diagnose", "--no-live", log]);
        refused(&what, "mine.ron", &["kb", "check", entries.to_str().unwrap()]);
        fs::remove_file(entry).unwrap();
        refused(&what, &what, &["fit", target.to_str().unwrap()]);
        let model = at("model");
        fs::create_dir_all(&model).unwrap();
        let header = place(model.join("config.json"));
        refused(&what, "config.json", &["fit", model.to_str().unwrap()]);
        fs::remove_file(header).unwrap();
        fs::create_dir_all(at("state/oomdoctor")).unwrap();
        let last = place(at("state/oomdoctor/last.log"));
        refused(&what, "last.log", &["report"]);
        fs::remove_file(last).unwrap();
    }
    fs::write(own.join("config.ron"), " ".repeat(2 << 20)).unwrap();
    refused("a huge one", "config.ron", &["ps"]);
    fs::remove_file(own.join("config.ron")).unwrap();
    // Symbolic links that form a loop or leave the folder.
    symlink(&entries, entries.join("loop")).unwrap();
    symlink(folder.path(), entries.join("up")).unwrap();
    fs::remove_file(at("pipe")).unwrap();
    let output = run(&["--knowledge", entries.to_str().unwrap(), "kb", "list"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_log_from_a_process_substitution_is_read() {
    let line = format!("exec 3<<'END'\n{}END\n\"$OOMDOCTOR\" diagnose --no-live /dev/fd/3", torch_log(4242, "23.99"));
    let output = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("OOMDOCTOR", env!("CARGO_BIN_EXE_oomdoctor")).envs(homes());
        String::from_utf8(shell.stdin(Stdio::null()).output().unwrap().stdout).unwrap()
    };
    assert!(output(&line).contains("4242"));
    let piped = format!(
        "printf %s '{}' | \"$OOMDOCTOR\" diagnose --no-live /dev/stdin",
        torch_log(4242, "23.99").replace('\'', "")
    );
    assert!(output(&piped).contains("4242"));
}
