//! Owns the tests of other machines: their table, one on the screen, and that nothing is ended there.

use super::*;
use crate::hosts::{Allotment, Given, HostReading, OwnProgram, Through, Unavailable};

/// A machine that was read.
pub(super) fn told(name: &str, boot_id: Option<&str>, snapshot: Snapshot) -> Msg {
    let name = name.parse().unwrap();
    let unread = HostReading::unavailable(name, Through::Ssh, Unavailable::new("not yet"));
    let boot_id = boot_id.map(str::to_owned);
    Msg::Host(Box::new(HostReading { boot_id, seen: Ok((Box::new(snapshot), None)), ..unread }))
}

fn down(name: &str) -> Msg {
    let why = Unavailable::new("Connection refused");
    Msg::Host(Box::new(HostReading::unavailable(name.parse().unwrap(), Through::Ssh, why)))
}

impl Session {
    /// As it is started with `--host gpu1`.
    fn expect(&mut self) {
        update::expect(&mut self.model, &["gpu1".parse().unwrap()]);
    }
}

/// The rows of the table.
fn rows(session: &Session) -> Vec<String> {
    let open = session.model.overlay.as_ref().unwrap();
    let Body::List { items, .. } = open.overlay.body(&session.model) else { panic!("{open:?} is no list") };
    items.into_iter().map(|item| item.words).collect()
}

fn pids(session: &Session) -> Vec<u32> {
    session.model.rows().iter().map(|row| row.id.pid).collect()
}

/// This machine with 4242 and 5177, and gpu1 on the screen with 77.
fn at_gpu1() -> Session {
    let mut session = Session::with_holders();
    session.expect();
    session.send(told("gpu1", Some("other"), machine(0, vec![process(77, Bytes::gib(20))])));
    session.read();
    session.press(KeyCode::Down);
    session.press(KeyCode::Enter);
    session
}

#[test]
fn the_table_has_each_machine_once_and_the_reason_where_one_is_not_read() {
    let mut session = Session::new();
    session.expect();
    session.sample(vec![]);
    session.send(told("gpu1", Some("other"), machine(0, vec![process(77, Bytes::gib(20))])));
    session.send(told("big", Some("other"), machine(0, vec![])));
    session.send(down("gpu2"));
    let rows = rows(&session);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[1].starts_with("gpu1") && rows[2].starts_with("gpu2"), "{rows:?}");
    assert!(rows[2].contains("Connection refused"), "{rows:?}");
}

#[test]
fn a_machine_that_went_down_keeps_its_last_reading() {
    let mut session = at_gpu1();
    session.send(down("gpu1"));
    assert_eq!(pids(&session), [77]);
    assert!(session.model.feed.down.as_ref().unwrap().contains("Connection refused"));
}

#[test]
fn a_machine_takes_the_screen_and_this_one_comes_back_as_it_is_by_then() {
    let mut session = at_gpu1();
    assert_eq!(pids(&session), [77]);
    assert!(!crate::ui::drawn(&session.model).contains(" you "), "its users have numbers of their own");
    session.sample(vec![process(4242, held())]);
    assert_eq!(pids(&session), [77], "this machine is read on behind it");
    session.send(told("gpu1", Some("other"), machine(1, vec![process(78, Bytes::gib(2))])));
    assert_eq!(pids(&session), [78]);
    session.keys("M");
    session.read();
    session.press(KeyCode::Enter);
    assert_eq!(pids(&session), [4242]);
    assert!(session.model.hosts.away.is_none());
}

#[test]
fn nothing_is_ended_on_another_machine_even_if_it_says_that_it_is_this_one() {
    for boot_id in ["other", "boot"] {
        let mut session = Session::with_holders();
        session.expect();
        session.send(told("gpu1", Some(boot_id), machine(0, vec![process(4242, Bytes::gib(20))])));
        session.read();
        session.press(KeyCode::Down);
        session.press(KeyCode::Enter);
        session.paste(&torch_log());
        session.model.focus = Region::Processes;
        session.select(4242);
        session.read();
        session.keys("x");
        assert!(session.model.question.is_none(), "{boot_id}");
        session.press(KeyCode::Enter);
        let copied = session.effects.iter().rev().find_map(|effect| match effect {
            Effect::Copy(text) => Some(text.clone()),
            _ => None,
        });
        assert_eq!(copied.unwrap(), format!("ssh -t gpu1 oomdoctor kill {}", key_of(4242)), "{boot_id}");
        let offers = session.model.advice.as_ref().unwrap().plan.iter().any(|step| step.target.is_some());
        assert!(!offers, "no fix is about a process that is another machine's");
    }
}

#[test]
fn where_oomdoctor_was_only_lent_no_command_is_copied_and_the_reason_is_said() {
    let mut session = at_gpu1();
    let Msg::Host(mut reading) = told("gpu1", Some("other"), machine(1, vec![process(77, Bytes::gib(20))])) else {
        panic!("a machine is told")
    };
    reading.program = OwnProgram::Lent;
    session.send(Msg::Host(reading));
    session.model.focus = Region::Processes;
    session.select(77);
    session.press(KeyCode::Enter);
    assert!(!session.effects.iter().any(|effect| matches!(effect, Effect::Copy(_))));
    assert!(session.notice().contains("install"), "{}", session.notice());
}

#[test]
fn what_was_marked_on_this_machine_is_not_marked_on_another_one() {
    let mut session = Session::with_holders();
    session.model.focus = Region::Processes;
    session.keys(" ");
    assert!(!session.model.processes.marked.is_empty());
    session.expect();
    session.send(told("gpu1", Some("other"), machine(0, vec![process(4242, Bytes::gib(20))])));
    session.read();
    session.press(KeyCode::Down);
    session.press(KeyCode::Enter);
    assert!(session.model.processes.marked.is_empty());
}

#[test]
fn a_log_with_the_prefix_of_a_machine_leads_to_that_machine_and_the_name_of_a_device_does_not() {
    let with_prefix = |prefix: &str| {
        let mut session = Session::new();
        session.sample(vec![]);
        session.send(told("gpu1", Some("other"), machine(0, vec![process(77, Bytes::gib(20))])));
        let lines: String = torch_log().lines().map(|line| format!("{prefix}{line}\n")).collect();
        session.paste(&lines);
        session
    };
    let names_it = |session: &Session| session.model.under_the_verdict(76).iter().any(|line| line.contains("gpu1"));
    let mut session = with_prefix("gpu1: ");
    assert!(names_it(&session), "{:?}", session.model.under_the_verdict(76));
    session.keys("M");
    session.read();
    session.press(KeyCode::Enter);
    assert_eq!(pids(&session), [77], "it is the selected one");
    assert!(!names_it(&session), "it is on the screen");
    assert!(!names_it(&with_prefix("GPU1: ")));
    assert!(!names_it(&with_prefix("gpu2: ")));
}

/// A machine on which nobody uses the GPU, which counts as unused after it was watched for a while.
fn unused(session: &mut Session, name: &str) {
    for second in [0, 30] {
        session.send(told(name, Some(name), machine(second, vec![])));
    }
}

#[test]
fn a_machine_with_room_is_offered_beside_the_fixes_until_it_goes_down_or_did_not_help() {
    let mut session = Session::with_log();
    let offered = |session: &Session| {
        let plan = &session.model.advice.as_ref().unwrap().plan;
        plan.iter().find(|planned| planned.fix == FixId::USE_OTHER_MACHINE).cloned()
    };
    assert!(offered(&session).is_none());
    unused(&mut session, "gpu2");
    let step = offered(&session).unwrap();
    assert!(step.steps[0].command.as_ref().unwrap().starts_with("ssh -t gpu2 "), "{step:?}");
    assert!(session.sentence().contains("gpu2"), "{}", session.sentence());
    session.send(down("gpu2"));
    assert!(offered(&session).is_none(), "it may be gone");
    unused(&mut session, "gpu2");
    session.model.focus = Region::Steps;
    session.keys("n");
    session.sample(vec![process(4242, held())]);
    assert!(offered(&session).is_none());
}

#[test]
fn the_machine_on_the_screen_is_not_offered_as_another_one() {
    let mut session = Session::with_log();
    session.expect();
    unused(&mut session, "gpu1");
    update::hosts::open(&mut session.model, Some(&"gpu1".parse().unwrap()));
    let plan = &session.model.advice.as_ref().unwrap().plan;
    assert!(plan.iter().all(|planned| planned.fix != FixId::USE_OTHER_MACHINE), "{plan:?}");
}

#[test]
fn the_table_is_sorted_by_the_next_column_and_a_reading_moves_no_row() {
    let mut session = Session::new();
    session.sample(vec![]);
    session.send(told("full", Some("full"), machine(0, vec![process(7, Bytes::gib(20))])));
    session.send(told("free", Some("free"), machine(0, vec![])));
    session.send(down("gone"));
    session.keys("M");
    let first_word = |row: &String| row.split(' ').next().unwrap_or_default().to_owned();
    let names = |session: &Session| rows(session)[1..].iter().map(first_word).collect::<Vec<_>>();
    assert_eq!(names(&session), ["full", "free", "gone"]);
    session.keys("t");
    assert_eq!(names(&session), ["free", "full", "gone"], "what is unknown comes last");
    session.send(told("free", Some("free"), machine(1, vec![process(8, Bytes::gib(22))])));
    assert_eq!(names(&session), ["free", "full", "gone"]);
    session.press(KeyCode::Down);
    session.press(KeyCode::Enter);
    assert_eq!(pids(&session), [8], "the row that is selected is opened");
}

#[test]
fn a_node_has_its_schedulers_words_and_the_selected_machine_its_whole_reason() {
    let mut session = Session::new();
    session.sample(vec![]);
    let given = Given { source: "slurm:4711".into(), devices: vec!["3".into()], ..Given::default() };
    let allotment = Allotment { gpus: Some(8), given: Some(5), given_to: vec![given], ..Allotment::default() };
    let why = Unavailable { why: "so long ".repeat(20), what_to_do: Some("the END of it".into()) };
    let node = HostReading::unavailable("gpu9".parse().unwrap(), Through::Slurm, why);
    session.send(Msg::Host(Box::new(HostReading { allotment: Some(allotment), ..node })));
    session.keys("M");
    assert!(rows(&session)[1].contains("5 of 8"), "{:?}", rows(&session));
    let is_told = |session: &Session| {
        let screen = crate::ui::drawn(&session.model);
        ["END", "slurm:4711"].map(|part| screen.contains(part))
    };
    assert_eq!(is_told(&session), [false, false], "this machine is selected");
    session.press(KeyCode::Down);
    assert_eq!(is_told(&session), [true, true], "{}", crate::ui::drawn(&session.model));
}
