//! Owns the tests of logs that are found on this machine: offered, listed, read.

use super::*;
use crate::knowledge::diagnosis::Oom;
use crate::source::{Kind, Looked, Source, SourceId};
use crate::units::WallTime;

fn place(kind: Kind, name: &str, oom: Option<Oom>) -> Looked {
    Looked { oom, failure: Some("PyTorch: VRAM ran out".into()), ..Looked::unread(Source::new(kind, name, name)) }
}

fn asked_to_read(session: &Session) -> Vec<SourceId> {
    let id = |effect: &Effect| if let Effect::ReadFound(id) = effect { Some(id.clone()) } else { None };
    session.effects.iter().filter_map(id).collect()
}

fn looked_for(session: &Session) -> Vec<Vec<Kind>> {
    let kinds = |effect: &Effect| if let Effect::FindLogs(kinds) = effect { Some(kinds.clone()) } else { None };
    session.effects.iter().filter_map(kinds).collect()
}

#[test]
fn one_key_reads_the_best_log_that_was_found() {
    let mut session = Session::with_holders();
    session.send(Msg::Found(
        vec![],
        Ok(vec![
            place(Kind::Tmux, "%1", Some(Oom::No)),
            place(Kind::Docker, "trainer", Some(Oom::Maybe)),
            place(Kind::Tmux, "%3", Some(Oom::Yes)),
        ]),
    ));
    assert_eq!(session.model.found_failure().unwrap().title, "%3");
    session.keys("F");
    let id: SourceId = "tmux:%3".parse().unwrap();
    assert_eq!(asked_to_read(&session), std::slice::from_ref(&id));
    session.send(Msg::FoundLog(id, Ok((torch_log(), None))));
    session.read_logs();
    assert_eq!(session.model.input.origin, "tmux:%3");
    assert!(session.model.advice.is_some());
    assert!(session.model.found_failure().is_none(), "a log is open");
}

#[test]
fn of_a_pane_the_failed_command_is_read_and_of_a_container_all() {
    for (kind, name, is_a_pane) in [(Kind::Tmux, "%3", true), (Kind::Docker, "trainer", false)] {
        let mut session = Session::with_holders();
        session.send(Msg::Found(vec![], Ok(vec![place(kind, name, Some(Oom::Yes))])));
        session.keys("F");
        session.send(Msg::FoundLog(SourceId::new(kind, name), Ok((torch_log(), None))));
        let asked = session.effects.iter().find_map(|effect| match effect {
            Effect::ReadLog { is_a_pane, .. } => Some(*is_a_pane),
            _ => None,
        });
        assert_eq!(asked, Some(is_a_pane), "{kind}");
    }
}

#[test]
fn what_is_added_to_a_pane_that_is_still_read_does_not_open_the_whole_pane() {
    let mut session = Session::with_holders();
    session.send(Msg::Found(vec![], Ok(vec![place(Kind::Tmux, "%3", Some(Oom::Yes))])));
    session.keys("F");
    session.send(Msg::FoundLog(SourceId::new(Kind::Tmux, "%3"), Ok((torch_log(), None))));
    session.send(Msg::Paste("and one line more".into()));
    session.now += Duration::from_secs(1);
    session.keys("a");
    let asked = session.effects.iter().rev().find_map(|effect| match effect {
        Effect::ReadLog { is_a_pane, text, .. } => Some((*is_a_pane, text.contains("one line more"))),
        _ => None,
    });
    assert_eq!(asked, Some((true, true)));
    session.read_logs();
    session.paste("another log");
    assert!(!session.model.input.is_a_pane, "a paste is kept whole");
}

#[test]
fn a_log_that_nobody_waits_for_any_more_is_not_opened() {
    let mut session = Session::with_holders();
    session.send(Msg::Found(
        vec![],
        Ok(vec![place(Kind::Tmux, "%1", Some(Oom::Yes)), place(Kind::Tmux, "%2", Some(Oom::Yes))]),
    ));
    session.keys("FO");
    session.press(KeyCode::Down);
    session.press(KeyCode::Enter);
    let [first, second] = asked_to_read(&session).try_into().unwrap();
    session.send(Msg::FoundLog(first, Ok(("late".into(), None))));
    assert!(session.model.input.awaited.is_none());
    session.send(Msg::FoundLog(second, Err("it is empty".into())));
    assert!(session.model.input.awaited.is_none() && session.model.notice.is_some());
}

#[test]
fn other_machines_are_asked_only_when_they_are_picked_and_one_at_a_time() {
    let mut session = Session::with_holders();
    session.send(Msg::Found(
        vec![],
        Ok(vec![place(Kind::Tmux, "%1", Some(Oom::Yes)), Looked::silent(Kind::Docker, "not running")]),
    ));
    session.keys("O");
    assert_eq!(looked_for(&session), [vec![]]);
    session.send(Msg::Found(vec![], Ok(vec![place(Kind::Tmux, "%1", Some(Oom::Yes))])));
    session.press(KeyCode::Down);
    session.press(KeyCode::Enter);
    assert_eq!(looked_for(&session).last().unwrap(), &[Kind::Slurm]);
    session.send(Msg::Found(vec![Kind::Slurm], Ok(vec![place(Kind::Slurm, "4711", Some(Oom::Yes))])));
    let titles: Vec<&str> = session.model.found.places.iter().flatten().map(|looked| looked.title.as_str()).collect();
    assert_eq!(titles, ["%1", "4711"], "what was found before stays");
}

#[test]
fn an_answer_about_one_kind_leaves_the_others_and_an_old_failure_is_not_offered() {
    let mut session = Session::with_holders();
    let ended = WallTime(noon_plus(0).0 - jiff::SignedDuration::from_hours(30));
    let old = Looked { ended_at: Some(ended), ..place(Kind::Docker, "old", Some(Oom::Yes)) };
    session.send(Msg::Found(vec![], Ok(vec![old])));
    assert!(session.model.found_failure().is_none());
    let silent = Looked::silent(Kind::Pod, "kubectl is not installed");
    session.send(Msg::Found(vec![Kind::Pod], Ok(vec![silent])));
    session.send(Msg::Found(vec![Kind::Slurm], Ok(vec![])));
    assert_eq!(session.model.found.places.as_ref().map(Vec::len), Some(2));
    session.keys("O");
    session.press(KeyCode::Enter);
    session.send(Msg::FoundLog("docker:old".parse().unwrap(), Ok((torch_log(), None))));
    assert_eq!(session.model.input.crashed_by, Some(ended), "not the moment of the key");
}
