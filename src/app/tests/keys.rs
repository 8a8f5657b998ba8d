//! Owns the tests of keys that are pressed alone or at once, and of leaving.

use super::*;

#[test]
fn a_key_that_changes_the_fixes_only_uncovers_them_where_a_page_lies_on_top() {
    for key in [KeyCode::Char('s'), KeyCode::Char('n'), KeyCode::Backspace] {
        let mut session = Session::with_log();
        session.press(KeyCode::Char('s'));
        let behind = session.model.walk.behind.len();
        session.press(KeyCode::Char('v'));
        assert!(session.model.overlay.is_some());
        session.press(key);
        assert_eq!((session.model.overlay.is_none(), session.model.walk.behind.len()), (true, behind), "{key:?}");
    }
}

#[test]
fn moving_to_a_process_and_asking_about_it_at_once_asks_and_no_more() {
    let mut session = Session::with_holders();
    let second = session.model.rows()[1].process.key().unwrap();
    session.wait(ms(500));
    [KeyCode::Char('j'), KeyCode::Char('x')].iter().for_each(|code| session.key(*code));
    session.wait(ms(200));
    let asked = session.model.question.as_ref().map(|question| &question.asked);
    assert!(matches!(asked, Some(Asked::End(victims, _)) if victims[0].key == second), "{asked:?}");
    assert_eq!(session.signals(), []);
    // A yes in the same piece is none, and what moves elsewhere asks nothing.
    for burst in
        [[KeyCode::Char('j'), KeyCode::Enter, KeyCode::Char('y')], [KeyCode::Tab, KeyCode::Tab, KeyCode::Enter]]
    {
        let mut session = Session::with_holders();
        session.wait(ms(500));
        burst.iter().for_each(|code| session.key(*code));
        session.wait(ms(1000));
        assert!(session.model.question.is_none() && session.effects.is_empty(), "{burst:?}");
    }
}

#[test]
fn ctrl_c_again_and_again_leaves_whatever_is_open() {
    let ctrl_c = |session: &mut Session| {
        session.wait(ms(50));
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        session.send(Msg::Key(key, session.now));
        session.effects.contains(&Effect::Quit)
    };
    let mut walking = Session::with_log();
    walking.press(KeyCode::Char('s'));
    assert!(!ctrl_c(&mut walking) && walking.model.question.is_some());
    assert!(ctrl_c(&mut walking));
    let mut asked = Session::with_log();
    asked.press(KeyCode::Char('s'));
    asked.model.focus = Region::Processes;
    asked.press(KeyCode::Char('x'));
    assert!(!ctrl_c(&mut asked) && asked.model.question.is_none(), "a no");
    assert!(!ctrl_c(&mut asked) && ctrl_c(&mut asked));
    assert_eq!(asked.signals(), []);
    let mut filtering = Session::with_holders();
    filtering.press(KeyCode::Char('/'));
    assert!(!ctrl_c(&mut filtering) && ctrl_c(&mut filtering));
}

#[test]
fn a_second_q_leaves_and_two_in_one_burst_do_not() {
    let mut session = Session::with_log();
    session.press(KeyCode::Char('s'));
    session.key(KeyCode::Char('q'));
    session.key(KeyCode::Char('q'));
    session.wait(ms(1000));
    assert!(session.model.question.is_none() && !session.effects.contains(&Effect::Quit));
    session.press(KeyCode::Char('q'));
    session.press(KeyCode::Char('q'));
    session.wait(ms(300));
    assert!(session.effects.contains(&Effect::Quit));
}

#[test]
fn a_file_that_grows_is_read_again_and_its_failure_is_seen() {
    let mut session = with_file("step 1\n");
    assert!(session.model.current_step().is_none());
    session.send(Msg::FileChanged(Change::Grew(4)));
    file_reads(&mut session, &format!("step 1\n{}", torch_log()));
    assert!(session.sentence().contains("(4242) has 11.2 GiB"), "{}", session.sentence());
    session.keys("x");
    session.send(Msg::FileChanged(Change::Grew(4)));
    assert!(session.effects.is_empty() && session.model.question.is_some(), "not while something is asked");
}

#[test]
fn termination_leaves_without_asking() {
    let mut session = Session::with_log();
    session.keys("x");
    session.send(Msg::Terminate);
    assert_eq!(session.effects, [Effect::Quit]);
}

#[test]
fn a_newer_schema_is_refused_by_name() {
    let mut session = Session::new();
    session.send(Msg::Header(Header { schema: 2, program: "x".into(), boot_id: None }));
    assert!(session.model.feed.down.as_ref().unwrap().contains("schema 2"));
}
