//! The sampling child process when it fails: killed, or with a driver that prints noise into its output. The screen
//! keeps what is known, shows since when and why, and recovers.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use oomdoctor::platform::linux::procfs::{Procfs, Stat};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::fake_driver::{FakeDriver, GIB};
use crate::support::machine::Machine;
use crate::support::pty::{PATIENCE, Session, shows};

/// Wide enough for the reason to show.
const SIZE: (u16, u16) = (160, 40);
/// The header while there is no sampler, with the age of the last reading.
const DOWN: &str = "no reading for ";

fn started(machine: &Machine) -> Session {
    let session = machine.oomdoctor(SIZE, &[]);
    session.wait_for_text(&[&machine.pids()[0], "every 0.2 s"]);
    session
}

fn children(session: &Session) -> Vec<Stat> {
    let procfs = Procfs::default();
    let stats = procfs.pids().into_iter().filter_map(|pid| procfs.stat(pid).ok());
    stats.filter(|stat| stat.parent_pid == session.pid()).collect()
}

/// Waits for new readings, and asserts that there is one sampler.
fn recovers(session: &Session) {
    session.wait_for("fresh readings", |screen| shows(screen, &["every 0.2 s"]) && !shows(screen, &[DOWN]));
    let children = children(session);
    assert_eq!(children.len(), 1, "one sampler, and none that was left behind: {children:?}");
    assert_ne!(children[0].state, 'Z');
}

#[test]
fn a_killed_sampler_is_reported_and_restarted() {
    let machine = Machine::new();
    let [logged, ..] = machine.pids();
    let session = started(&machine);
    for _ in 0..2 {
        let sampler = children(&session)[0].pid;
        kill_process(Pid::from_raw(sampler.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        let screen = session.wait_for_text(&[DOWN, "signal: 9"]);
        assert!(screen.contains(&logged), "the last reading stays\n{screen}");
        recovers(&session);
    }
}

#[test]
fn readings_continue_whatever_the_driver_prints_or_forks() {
    let megabytes = 10 << 20;
    let noise = [
        ("a line", "says: \"NVRM: what?\\n\"".to_owned()),
        ("half a line", "says: \"{\\\"taken_at\\\":\\\"20\"".to_owned()),
        ("no UTF-8", "says: \"\\u{fffd}\\u{fffd}\\u{1b}[2J\\n\"".to_owned()),
        ("no reading", "says: \"{\\\"devices\\\":null}\\n[[[[\\n\"".to_owned()),
        ("a huge line", format!("says: \"x\", repeated: {megabytes}")),
        ("a lot on standard error", format!("warns: \"trouble\\n\", repeated: {}", megabytes / 8)),
        ("a fork", "forks: true".to_owned()),
    ];
    let machine = Machine::new();
    let call = "call: \"nvmlDeviceGetUtilizationRates\", gpu: Some(0)";
    let session = started(&machine);
    let sampler = children(&session)[0].pid;
    for (nth, (what, fault)) in noise.iter().enumerate() {
        let free = 20 - nth as u64;
        machine
            .driver
            .set_scenario(&format!("(gpus: [(base: {})], faults: [({call}, times: 1, {fault})])", (24 - free) * GIB));
        session
            .wait_for(what, |screen| shows(screen, &[&format!("{free}.0"), "every 0.2 s"]) && !shows(screen, &[DOWN]));
        let living: Vec<u32> = children(&session).iter().map(|child| child.pid).collect();
        assert_eq!(living, [sampler], "{what}: the same sampler");

        // The single reading of `ps`, `diagnose` and `kill` survives it, too.
        machine.set_faults(&format!("({call}, {fault})"));
        let output = machine.driver.output(&["ps"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(&machine.pids()[0]), "{what}: {output:?}");
        assert!(!said.contains("NVRM") && !said.contains("xxx"), "{what}: {said}");

        // If the driver then aborts the sampler, the screen says so.
        machine.set_faults(&format!("({call}, {fault}), (call: \"nvmlDeviceGetTemperature\", aborts: true)"));
        let output = machine.driver.output(&["ps"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("signal: 6"), "{what}: {said}");
        assert!(said.len() < 6000, "{what}: {said}");
    }
}

#[test]
fn only_the_focused_window_reads_at_full_pace_and_the_others_say_so() {
    let machine = Machine::new();
    let mut session = started(&machine);
    assert!(session.raw().contains("\x1b[?1004h"), "the terminal is asked to say so");
    session.send("\x1b[O");
    session.wait_for_text(&["every 1 s while not in front"]);
    session.send("\x1b[I");
    session.wait_for("full pace", |screen| shows(screen, &["every 0.2 s ·"]) && !shows(screen, &["in front"]));
    session.send("q");
    session.wait_for_exit(PATIENCE);
    session.assert_given_back();
}

#[test]
fn the_sampler_keeps_the_requested_pace() {
    let driver = FakeDriver::new("(gpus: [()])");
    let mut command = driver.oomdoctor(&["sampler", "--interval", "3600", "--paced", "1"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (_header, _first) = (lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
    let mut orders = child.stdin.take().unwrap();
    orders.write_all(b"0.01\n").unwrap();
    assert!(lines.nth(3).unwrap().unwrap().starts_with('{'), "four more within the hour");
    // Closing the input ends the orders, not the readings.
    drop(orders);
    assert!(lines.nth(3).unwrap().unwrap().starts_with('{'));
    child.kill().unwrap();
    child.wait().unwrap();
}
