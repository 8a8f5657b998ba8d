//! Owns the tests of what is kept for the next start.

use super::*;
use crate::app::last::Story;

#[test]
fn the_last_log_comes_back_with_the_steps_and_what_was_freed() {
    let mut session = Session::with_log();
    let shown = session.kept.len();
    assert_eq!(shown, 1, "once for the log, however often it is drawn and read");
    session.keys("s");
    session.model.walk.freed_before = vec!["train.py (77) has ended: gave back 2.0 GiB".into()];
    session.sample(vec![process(4242, held())]);
    let skipped = session.model.walk.behind.clone();
    assert!(!skipped.is_empty());
    session.model.walk.since = Some(noon_plus(20));
    session.keys("s");
    let skipped = [skipped, session.model.walk.behind.split_off(1)].concat();
    let mut again = session.brought_back();
    assert_eq!(again.model.walk.since, Some(noon_plus(20)), "what starts later may be the run");
    assert_eq!(again.model.walk.behind, skipped);
    assert_eq!(again.model.input.crashed_by, session.model.input.crashed_by);
    again.keys("w");
    let text = text_on_top(&again);
    assert!(text.contains("gave back 2.0 GiB"), "{text}");
    // The next paste is another story.
    again.keys("q");
    again.paste("RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB");
    again.press(KeyCode::Char('r'));
    again.read_logs();
    assert!(again.model.walk.behind.is_empty());
}

#[test]
fn a_step_about_a_process_of_another_boot_does_not_come_back() {
    let mut session = Session::with_log();
    session.keys("s");
    let kept = session.kept.last().unwrap();
    assert!(kept.story.behind.iter().any(|behind| behind.id.target.is_some()));
    let story = Story { boot_id: Some("before".into()), ..kept.story.clone() };
    assert!(story.walk(Some(&"boot".to_owned())).behind.iter().all(|behind| behind.id.target.is_none()));
}

#[test]
fn nothing_is_kept_read_only_of_a_recording_or_where_the_person_wants_none() {
    let cases = [
        (true, true, Source::Live),
        (false, true, Source::Demo),
        (false, true, Source::Recorded),
        (false, false, Source::Live),
    ];
    for (read_only, keep_log, source) in cases {
        let mut session = Session::with_holders();
        session.model.config.read_only = read_only;
        session.model.config.keep_log = keep_log;
        session.model.config.source = source;
        session.paste(&torch_log());
        session.send(Msg::Terminate);
        assert!(session.kept.is_empty());
    }
}

#[test]
fn a_log_that_grows_is_kept_once_until_it_ends() {
    let mut session = Session::with_holders();
    let text = |n: usize| Some(format!("{}step {n}\n", torch_log()));
    for n in 0..20 {
        session.send(Msg::Stdin { text: text(n), closed: false });
        session.read_logs();
    }
    assert_eq!(session.kept.len(), 1);
    session.send(Msg::Stdin { text: text(20), closed: true });
    session.read_logs();
    assert_eq!(session.kept.len(), 2);
    assert!(session.kept[1].log.raw().ends_with("step 20\n"));
}

#[test]
fn a_log_that_still_grows_is_kept_as_it_is_when_the_person_leaves() {
    let mut session = Session::with_holders();
    for n in 0..3 {
        session.send(Msg::Stdin { text: Some(format!("{}step {n}\n", torch_log())), closed: false });
        session.read_logs();
    }
    let (model, cx) = (&mut session.model, Cx { now: session.now, wall: noon_plus(0) });
    let effects = update(model, Msg::Terminate, &cx);
    assert!(matches!(&effects[..], [Effect::Keep(kept), Effect::Quit] if kept.log.raw().ends_with("step 2\n")));
}

#[test]
fn a_report_tells_what_was_done_and_leaves_names_out() {
    let mut session = Session::with_log();
    session.model.config.names.users.insert("ada".into());
    session.model.config.names.own.insert("ada".into());
    session.keys("s");
    session.keys("W");
    let Some(Effect::WriteReport(text)) = session.effects.last() else { panic!("{:?}", session.effects) };
    assert!(text.contains("(skipped)") && text.contains("| USER |") && !text.contains("ada"), "{text}");
    session.send(Msg::Written(Ok("/state/report.md".into())));
    assert_eq!(session.model.opened(), Some(&WrittenReport { path: "/state/report.md".into() }));
    let mut empty = Session::with_holders();
    empty.keys("W");
    assert!(empty.effects.is_empty() && empty.model.notice.is_some());
}

#[test]
fn a_reported_success_and_what_was_seen_survive_the_next_start() {
    let story = Story { works: true, freed: vec!["a".into()], progress: Some("b".into()), ..Story::default() };
    let walk = story.walk(None);
    assert!(walk.works);
    assert_eq!(walk.freed_before, ["a", "b"]);
}
