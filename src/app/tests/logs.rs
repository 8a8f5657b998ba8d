//! Owns the tests of logs that come by themselves: through a pipe, or from a file that grows.

use super::*;
use crate::app::again::Progress;
use crate::app::summary;

#[test]
fn tab_goes_through_the_regions_as_they_are_read() {
    let small = [Region::Processes, Region::Steps, Region::Input];
    for (size, order) in [((120, 40), [Region::Processes, Region::Input, Region::Steps]), ((80, 24), small)] {
        let mut session = Session::with_log();
        session.send(Msg::Resize(size.0, size.1));
        session.model.focus = Region::Processes;
        for expected in order.into_iter().chain([Region::Processes]) {
            assert_eq!(session.model.focus, expected, "{size:?}");
            session.press(KeyCode::Tab);
        }
    }
}

#[test]
fn a_log_without_a_failure_that_came_through_a_pipe_leaves_the_screen_to_the_machine_when_it_ends() {
    let ended = |acts: fn(&mut Session)| {
        let mut session = Session::with_holders();
        session.send(Msg::Resize(80, 24));
        update::wait_for_pipe(&mut session.model);
        session.send(Msg::Stdin { text: Some("epoch 1".into()), closed: false });
        session.read_logs();
        assert_eq!(session.model.focus, Region::Input, "it is watched while it comes");
        acts(&mut session);
        session.send(Msg::Stdin { text: Some("epoch 1\ndone".into()), closed: true });
        session.read_logs();
        session.model.focus
    };
    assert_eq!(ended(|_| {}), Region::Steps);
    assert_eq!(ended(|session| session.press(KeyCode::Up)), Region::Input, "somebody reads in it");
}

/// A failure in a pipe that stays open is walked from where it is read, but not away from what a person looks at.
#[test]
fn the_failure_that_comes_through_an_open_pipe_has_the_focus_unless_something_else_was_given_it() {
    for looked_at in [Region::Input, Region::Processes] {
        let mut session = Session::with_holders();
        update::wait_for_pipe(&mut session.model);
        session.send(Msg::Stdin { text: Some("epoch 1".into()), closed: false });
        session.read_logs();
        session.model.focus = looked_at;
        session.send(Msg::Stdin { text: Some(format!("epoch 1\n{}", torch_log())), closed: false });
        session.read_logs();
        assert!(session.model.advice.is_some());
        let expected = if looked_at == Region::Input { Region::Steps } else { looked_at };
        assert_eq!(session.model.focus, expected);
        session.model.focus = Region::Input;
        session.send(Msg::Stdin { text: Some(format!("epoch 1\n{}\nmore", torch_log())), closed: false });
        session.read_logs();
        assert_eq!(session.model.focus, Region::Input, "what is known already asks for no look");
    }
}

#[test]
fn harmless_keys_of_a_slow_line_act_together_and_others_are_dropped_whole() {
    let burst = |session: &mut Session, keys: &[KeyCode]| {
        session.wait(ms(500));
        keys.iter().for_each(|code| session.key(*code));
        session.wait(ms(200));
    };
    let mut session = Session::with_holders();
    let second = session.model.rows()[1].id;
    let sort = session.model.processes.sort;
    burst(&mut session, &[KeyCode::Char('j'), KeyCode::Char('t')]);
    assert_eq!((session.model.processes.selected, session.notice()), (Some(second), ""));
    assert_ne!(session.model.processes.sort, sort);
    burst(&mut session, &[KeyCode::Char('z'), KeyCode::Char('z'), KeyCode::Char('z')]);
    assert!(session.model.zoomed);
    burst(&mut session, &[KeyCode::Char('/'), KeyCode::Char('z'), KeyCode::Char('j')]);
    assert_eq!(session.model.prompt.as_ref().map(|prompt| prompt.text.as_str()), Some("zj"), "typed");
    session.press(KeyCode::Esc);
    for harm in [KeyCode::Char('x'), KeyCode::Char('q'), KeyCode::Enter, KeyCode::Char('s'), KeyCode::Char('w')] {
        let zoomed = session.model.zoomed;
        burst(&mut session, &[KeyCode::Char('z'), harm]);
        assert_eq!(session.model.zoomed, zoomed, "dropped whole with {harm:?}");
        assert!(session.notice().contains("too fast"), "{}", session.notice());
    }
    assert!(session.effects.is_empty() && session.model.question.is_none());
}

#[test]
fn a_walk_that_has_begun_is_told_that_the_file_has_grown_and_a_key_reads_it() {
    let mut session = with_file(&torch_log());
    session.model.focus = Region::Steps;
    session.press(KeyCode::Char('s'));
    session.send(Msg::FileChanged(Change::Grew(20)));
    assert!(session.effects.is_empty(), "{:?}", session.effects);
    assert_eq!(session.notice(), "slurm-1234.out has grown by 20 lines. [R] reads it.");
    session.press(KeyCode::Esc);
    session.send(Msg::FileChanged(Change::Grew(8)));
    assert_eq!(session.notice(), "", "said once; the title goes on saying it");
    assert_eq!(session.model.input.file.as_ref().unwrap().change, Some(Change::Grew(28)));
    session.press(KeyCode::Char('R'));
    file_reads(&mut session, &format!("{}and more\n", torch_log()));
    assert_eq!(session.model.walk.behind.len(), 1, "the walk goes on");
    assert_eq!(session.model.input.file.as_ref().unwrap().change, None);
}

#[test]
fn a_file_that_was_begun_anew_is_another_log_and_one_that_is_gone_stays_read() {
    let mut session = with_file(&torch_log());
    session.send(Msg::FileChanged(Change::Gone));
    assert!(session.effects.is_empty() && session.notice().contains("no longer exists"), "{}", session.notice());
    session.send(Msg::FileChanged(Change::Anew));
    file_reads(&mut session, "step 1\n");
    assert!(session.model.current_step().is_none());
    session.model.focus = Region::Input;
    session.press(KeyCode::Char('u'));
    session.read_logs();
    assert!(session.sentence().contains("(4242) has 11.2 GiB"), "the one before comes back: {}", session.sentence());
    session.send(Msg::FileChanged(Change::Grew(3)));
    assert!(session.effects.iter().all(|effect| !matches!(effect, Effect::ReadFile { .. })), "what is theirs stays");
}

#[test]
fn a_third_paste_does_not_lose_the_second() {
    let mut session = Session::with_holders();
    session.paste("first");
    session.paste("second");
    session.paste("third");
    session.keys("a");
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "first\nsecond\nthird");
}

#[test]
fn an_older_answer_does_not_replace_a_newer_log() {
    let mut session = Session::with_holders();
    session.send(Msg::Paste("first".into()));
    let first = std::mem::take(&mut session.effects);
    session.model.input.log = None;
    session.model.input.awaited = None;
    session.paste("second");
    session.effects = first;
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "second");
}

#[test]
fn typing_makes_a_log() {
    let mut session = Session::with_holders();
    session.model.focus = Region::Input;
    session.press(KeyCode::Enter);
    for character in "Killed xq".chars() {
        session.key(KeyCode::Char(character));
    }
    session.press(KeyCode::Esc);
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "Killed xq");
}

#[test]
fn what_the_logs_file_shows_after_a_reported_success_is_told_as_seen() {
    let log = format!("step 200 loss 1.25\n{}", torch_log());
    let mut session = with_file(&log);
    let failed_at = session.model.input.diagnosis.as_ref().unwrap().run.step.unwrap();
    let seen = |session: &Session| summary::walked(&session.model).freed.join("\n");
    session.model.focus = Region::Steps;
    session.press(KeyCode::Char('s'));
    session.send(Msg::FileChanged(Change::Grew(20)));
    session.press(KeyCode::Char('w'));
    let asked = |effect: &Effect| matches!(effect, Effect::ReadProgress { from, .. } if *from == log.len());
    assert!(session.effects.iter().any(asked), "{:?}", session.effects);
    assert!(!seen(&session).contains("step"), "{}", seen(&session));
    let progress = Progress { step: Some(failed_at + 12), epoch: None, failed_again: false };
    session.send(Msg::Progress(progress));
    assert!(seen(&session).contains(&format!("step {}, past step {failed_at}", failed_at + 12)), "{}", seen(&session));
    session.send(Msg::Progress(Progress { step: Some(failed_at - 1), ..progress }));
    assert!(!seen(&session).contains("past"), "{}", seen(&session));
    session.send(Msg::Progress(Progress { failed_again: true, ..progress }));
    assert!(!seen(&session).contains("past"), "a second failure is no success: {}", seen(&session));
}

#[test]
fn the_line_for_the_shell_says_what_was_short_at_first() {
    let mut session = Session::with_holders();
    session.paste(&torch_log());
    let first = session.model.walk.began_with.clone().unwrap();
    assert!(first.contains("short"), "{first}");
    session.model.advice.as_mut().unwrap().brief.what = "ENOUGH FREE NOW".into();
    let line = summary::in_one_line(&session.model).unwrap();
    assert!(line.contains(&first) && !line.contains("FREE NOW"), "{line}");
}
