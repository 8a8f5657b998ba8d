//! The sampling child as it may fail under the terminal program: killed, or with a driver in it that prints nonsense
//! where its readings stand. The screen keeps what is known, says since when and why, and recovers.

use oomdoctor::procfs::{Procfs, Stat};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::machine::Machine;
use crate::support::pty::{Session, shows};

/// Wide enough for the reason.
const SIZE: (u16, u16) = (160, 40);
/// What stands there while there is no sampler, with the age of the last reading.
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

/// Readings come again, from the one sampler there is.
fn recovers(session: &Session) {
    session.wait_for("fresh readings", |screen| shows(screen, &["every 0.2 s"]) && !shows(screen, &[DOWN]));
    let children = children(session);
    assert_eq!(children.len(), 1, "one sampler, and none that was left behind: {children:?}");
    assert_ne!(children[0].state, 'Z');
}

#[test]
fn a_sampler_that_is_killed_is_said_to_have_been_and_is_started_again() {
    let machine = Machine::new();
    let [holder, ..] = machine.pids();
    let session = started(&machine);
    for _ in 0..2 {
        let sampler = children(&session)[0].pid;
        kill_process(Pid::from_raw(sampler.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        let screen = session.wait_for_text(&[DOWN, "signal: 9"]);
        assert!(screen.contains(&holder), "the last reading stays\n{screen}");
        recovers(&session);
    }
}

#[test]
fn whatever_a_driver_prints_among_the_readings_is_said_and_got_over() {
    let megabytes = 10 << 20;
    let nonsense = [
        ("a line", "says: \"NVRM: what?\\n\"".to_owned()),
        ("half a line", "says: \"{\\\"taken_at\\\":\\\"20\"".to_owned()),
        ("no UTF-8", "says: \"\\u{fffd}\\u{fffd}\\u{1b}[2J\\n\"".to_owned()),
        ("no reading", "says: \"{\\\"devices\\\":null}\\n[[[[\\n\"".to_owned()),
        ("a huge line", format!("says: \"x\", repeated: {megabytes}")),
    ];
    let machine = Machine::new();
    let [holder, ..] = machine.pids();
    let session = started(&machine);
    for (what, says) in nonsense {
        // After some readings, so that the sampler is started again soon.
        machine.set_faults(&format!(
            "(call: \"nvmlDeviceGetUtilizationRates\", gpu: Some(0), after: 3, times: 1, {says})"
        ));
        let screen = session.wait_for(what, |screen| shows(screen, &[DOWN, "could not be understood"]));
        assert!(screen.contains(&holder), "{what}: the last reading stays\n{screen}");
        machine.set_faults("");
        recovers(&session);
    }
}
