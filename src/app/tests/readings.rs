//! Owns the tests of readings: how often they come, and a driver or sampler that does not answer.

use super::*;

#[test]
fn what_is_awaited_and_whoever_comes_back_is_not_kept_waiting() {
    let mut session = Session::with_log();
    session.send(Msg::InFront(false));
    session.wait(Duration::from_secs(9));
    assert_eq!(session.model.silent_for(), None, "a reading in five seconds is no silence");
    session.send(Msg::InFront(true));
    assert_eq!(session.model.silent_for(), None, "nor is the one that was asked for just now late");
    session.wait(Duration::from_secs(3));
    assert_eq!(session.model.silent_for(), Some(Duration::from_secs(12)), "counted from the last that came");

    let mut session = Session::with_log();
    session.send(Msg::InFront(false));
    session.keys("x");
    assert_eq!(session.model.pace().as_secs(), 1, "who presses keys is there");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Sent));
    session.send(Msg::InFront(false));
    assert_eq!(session.model.pace().as_secs(), 1, "the end of a process is watched");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(5177, Bytes::gib(6))]);
    assert_eq!(session.model.pace().as_secs(), 5, "its memory is back");
}

#[test]
fn half_of_it_is_no_proof() {
    let mut session = Session::with_log();
    session.keys("x");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(7, Bytes::mib(5_500)), process(5177, Bytes::gib(6))]);
    assert!(matches!(session.ending(), EndingState::Ended { .. }), "{:?}", session.ending());
    session.now += Duration::from_secs(11);
    session.sample(vec![process(7, Bytes::mib(5_500)), process(5177, Bytes::gib(6))]);
    assert_eq!(*session.ending(), EndingState::NotReturned { bytes: Bytes::mib(6_000) });
}

#[test]
fn leaving_asks_once_while_something_is_open() {
    let mut session = Session::with_log();
    session.keys("sq");
    assert!(matches!(&session.model.question.as_ref().unwrap().asked, Asked::Quit(_)));
    session.keys("y");
    assert_eq!(session.effects, [Effect::Quit]);
    let mut session = Session::new();
    session.send(Msg::Stdin { text: Some("epoch 1".into()), closed: false });
    session.effects.clear();
    assert_eq!(session.model.input.pipe, Pipe::Open);
    session.keys("q");
    session.keys("y");
    assert_eq!(session.effects, [Effect::Quit]);
}
