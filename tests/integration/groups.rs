//! Launchers with real workers, and processes with the driver open that it does not list: how the stream, `ps`, `kill`
//! and the screen show them, and which processes get a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use oomdoctor::gpu::{ProcessKind, Snapshot};
use oomdoctor::platform::linux::procfs::Procfs;

use crate::support::ends_within;
use crate::support::fake_driver::{FakeDriver, GIB, PATIENCE, Sleeper, device, devices};
use crate::support::pty::Session;

/// A shell named like a launcher of ranks, with two workers, each with the driver open.
struct Family {
    launcher: Child,
    workers: Vec<u32>,
    said: BufReader<ChildStdout>,
}

/// What the launcher does on SIGTERM.
const ENDS_ITS_WORKERS: &str = "kill $a $b; exit";
const LEAVES_THEM: &str = "exit";
/// The launcher waits, and runs another program (exec) when told to.
const THEN: &str = "while ! read go; do :; done; exec sh -c 'echo turned; read end'";

impl Family {
    fn start(when_asked: &str) -> Family {
        let name = devices().join("mpirun");
        if !name.exists() {
            // A link, because running a copy that was just written can fail with "text file busy".
            std::os::unix::fs::symlink("/bin/sh", &name).unwrap();
        }
        let gpu = devices().join("nvidia0");
        drop(device());
        let sleep = format!("sleep 1000 <{} >/dev/null &", gpu.display());
        let script = format!("trap '{when_asked}' TERM; {sleep} a=$!; {sleep} b=$!; echo $a; echo $b; {THEN}");
        let mut command = Command::new(&name);
        let mut launcher = command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(launcher.stdout.take().unwrap());
        let workers = said.by_ref().lines().take(2).map(|line| line.unwrap().parse().unwrap()).collect();
        Family { launcher, workers, said }
    }

    /// Makes the launcher run another program.
    fn turns(&mut self) {
        self.launcher.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut word = String::new();
        self.said.read_line(&mut word).unwrap();
        assert_eq!(word, "turned\n");
    }

    fn pid(&self) -> u32 {
        self.launcher.id()
    }

    /// The workers use 5 and 4 GiB; 2 GiB more are unattributed.
    fn driver(&self) -> FakeDriver {
        let row = |pid: u32, gib: u64| format!("(gpu: 0, pid: {pid}, bytes: Some({}))", gib * GIB);
        FakeDriver::new(&format!(
            "(gpus: [(name: \"NVIDIA GeForce RTX 4090\", total: {}, base: {})], processes: [{}, {}])",
            24 * GIB,
            2 * GIB,
            row(self.workers[0], 5),
            row(self.workers[1], 4)
        ))
    }

    fn launcher_ends(&mut self) -> bool {
        ends_within(self.pid(), PATIENCE) && self.launcher.wait().is_ok()
    }

    fn lives(&self, pid: u32) -> bool {
        Procfs::default().stat(pid).is_ok_and(|stat| stat.state != 'Z')
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
        for pid in &self.workers {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_stream_and_ps_show_which_workers_belong_to_which_launcher() {
    let family = Family::start(ENDS_ITS_WORKERS);
    let driver = family.driver();
    let snapshot = driver.snapshot();
    let [launcher] = &snapshot.launchers[..] else { panic!("{:?}", snapshot.launchers) };
    assert_eq!((launcher.pid, launcher.kind, launcher.proved), (family.pid(), ProcessKind::Unlisted, true));
    assert!(snapshot.devices[0].processes.iter().all(|row| row.group == launcher.key()));
    let below: Vec<u32> = snapshot.below(launcher.key().unwrap()).into_iter().map(|key| key.pid).collect();
    assert_eq!(below, family.workers);
    let text = said(&driver.output(&["ps"]));
    assert!(text.contains("MPI launcher, 9.0 GiB with 2 workers"), "{text}");
    assert!(text.contains(&format!("worker of {}", family.pid())), "{text}");
    let json: Snapshot = serde_json::from_slice(&driver.output(&["ps", "--json"]).stdout).unwrap();
    assert_eq!(json.launchers[0].key(), launcher.key());
}

#[test]
fn a_launcher_is_ended_with_its_workers_after_one_question_that_names_all() {
    let mut family = Family::start(ENDS_ITS_WORKERS);
    let driver = family.driver();
    let mut session = on(&driver);
    let [a, b] = [family.workers[0].to_string(), family.workers[1].to_string()];
    session.wait_for_text(&[&family.pid().to_string(), "9.0 GiB with 2 workers", &a, &b]);
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y] terminate all", &format!("{a}  5.0 GiB on GPU 0"), &format!("{b}  4.0 GiB on GPU 0")]);
    assert!(family.lives(family.pid()), "asking ends nothing");
    session.send("y");
    assert!(family.launcher_ends());
    session.wait_for_text(&["its 2 workers have exited: freed 9.0"]);
}

#[test]
fn workers_left_by_their_launcher_are_signaled_after_the_grace_time_but_not_later_ones() {
    let mut family = Family::start(LEAVES_THEM);
    let driver = family.driver();
    let mut session = on(&driver);
    session.wait_for_text(&["9.0 GiB with 2 workers"]);
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y] terminate all"]);
    let mut later = Sleeper::start();
    session.send("y");
    assert!(family.launcher_ends());
    for worker in &family.workers {
        assert!(ends_within(*worker, PATIENCE), "{worker} was named and confirmed");
    }
    session.wait_for_text(&["its 2 workers have exited: freed 9.0"]);
    assert!(later.lives());
}

#[test]
fn a_launcher_that_runs_another_program_by_now_is_not_signaled_nor_are_its_workers() {
    let mut family = Family::start(ENDS_ITS_WORKERS);
    let driver = family.driver();
    let library = driver.library();
    // The interval is so long that the list still shows the old name when the y arrives.
    let options = ["--interval", "6", "--nvml-library", library.to_str().unwrap()];
    let mut session = Session::oomdoctor((120, 40), &options);
    session.wait_for_text(&[&family.pid().to_string(), "9.0 GiB with 2 workers"]);
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y] terminate all"]);
    family.turns();
    session.send("y");
    session.wait_for_text(&["calls itself sh -c echo turned", "so it was left alone"]);
    assert!(family.workers.iter().all(|worker| family.lives(*worker)) && family.lives(family.pid()));
}

#[test]
fn kill_of_a_launcher_lists_its_workers_and_signals_only_the_launcher() {
    let mut family = Family::start(LEAVES_THEM);
    let driver = family.driver();
    let output = driver.output(&["kill", &family.pid().to_string(), "--yes"]);
    assert_eq!(output.status.code(), Some(2), "no GPU lists it");
    assert!(said(&output).contains("only its 2 workers; add --any"), "{}", said(&output));
    let output = driver.output(&["kill", &family.pid().to_string(), "--yes", "--any", "--grace", "5"]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let [a, b] = [family.workers[0], family.workers[1]];
    assert!(text.contains(&format!("{a} (5.0 GiB), {b} (4.0 GiB)")), "{text}");
    let command =
        text.lines().find_map(|line| line.split_once("to terminate all of them: oomdoctor kill --any ")).unwrap().1;
    assert!(family.launcher_ends());
    assert!(family.lives(a) && family.lives(b), "nobody but who was meant");
    let rest: Vec<&str> = command.split(' ').filter(|target| !target.starts_with(&family.pid().to_string())).collect();
    assert_eq!(rest.len(), 2, "{command}");
    let output = driver.output(&[&["kill", "--yes"], &rest[..]].concat());
    assert!(!said(&output).contains("a worker of"), "its launcher has gone");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("freed 9.0 GiB"), "{}", said(&output));
}

#[test]
fn kill_of_a_whole_group_ends_the_launcher_first() {
    for when_asked in [ENDS_ITS_WORKERS, LEAVES_THEM] {
        let mut family = Family::start(when_asked);
        let driver = family.driver();
        let mut targets: Vec<String> = family.workers.iter().map(u32::to_string).collect();
        targets.push(family.pid().to_string());
        let order: Vec<&str> =
            ["kill", "--yes", "--any", "--grace", "1"].into_iter().chain(targets.iter().map(String::as_str)).collect();
        let output = driver.output(&order);
        assert!(output.status.success(), "{}", said(&output));
        assert!(!said(&output).contains("to terminate all of them"), "all are meant: {}", said(&output));
        assert!(said(&output).contains(&format!("a worker of MPI launcher ({})", family.pid())), "{}", said(&output));
        assert!(family.launcher_ends() && !family.workers.iter().any(|pid| family.lives(*pid)));
    }
}

#[test]
fn two_jobs_of_one_shell_are_not_a_group() {
    let (one, two) = (Sleeper::start(), Sleeper::start());
    let row = |pid: u32| format!("(gpu: 0, pid: {pid}, bytes: Some({GIB}))");
    let driver = FakeDriver::new(&format!("(gpus: [()], processes: [{}, {}])", row(one.pid()), row(two.pid())));
    let snapshot = driver.snapshot();
    assert!(snapshot.devices[0].processes.iter().all(|row| row.group.is_none()) && snapshot.launchers.is_empty());
}

#[test]
fn a_process_with_the_driver_open_that_is_not_listed_is_shown_and_can_be_ended() {
    let mut unlisted = Sleeper::start();
    let pid = unlisted.pid().to_string();
    let scenario = format!("(gpus: [(name: \"NVIDIA GeForce RTX 4090\", total: {}, base: {})])", 24 * GIB, 9 * GIB);
    let driver = FakeDriver::new(&scenario);
    let text = said(&driver.output(&["ps"]));
    let line = text.lines().find(|line| line.starts_with(&format!("{pid}@"))).expect(&text);
    assert!(line.contains("sleep 1000") && line.contains("nvidia0"), "{line}");
    let mut session = on(&driver);
    session.wait_for_text(&["unattributed", &pid]);
    session.send("\x1b[Hx");
    session.wait_for_text(&["[y] terminate", &pid, "sleep 1000"]);
    session.send("y");
    assert_eq!(unlisted.ended_by(), Some(15));
}

#[test]
fn a_stopped_process_is_shown_as_stopped() {
    let unlisted = Sleeper::start();
    let pid = rustix::process::Pid::from_raw(i32::try_from(unlisted.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let driver = FakeDriver::new(&format!("(gpus: [(base: {})])", 9 * GIB));
    let snapshot = driver.sample(&[]).next_where("the stop", |now| {
        now.holders
            .iter()
            .any(|holder| holder.process.pid == unlisted.pid() && holder.process.state.value() == Some('T'))
    });
    assert!(snapshot.holders.iter().all(|holder| holder.process.proved), "a device file that is held is proof");
    let text = said(&driver.output(&["ps"]));
    assert!(text.contains("stopped (Ctrl-Z)"), "{text}");
}

/// The program with this driver, in a terminal.
fn on(driver: &FakeDriver) -> Session {
    let library: PathBuf = driver.library();
    Session::oomdoctor((120, 40), &["--interval", "0.2", "--nvml-library", library.to_str().unwrap()])
}

const _: () = assert!(PATIENCE.as_secs() > Duration::from_secs(10).as_secs());
