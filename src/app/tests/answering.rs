//! Owns the tests of answers to a question: none counts that came before the question could be read.

use super::*;

#[test]
fn keys_that_waited_in_the_queue_are_told_apart_by_when_they_were_pressed() {
    let mut session = Session::with_holders();
    let pressed = session.now;
    session.now += Duration::from_secs(5);
    session.send(Msg::Key(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE), pressed));
    session.sample(vec![process(4242, held())]);
    session.send(Msg::Key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE), pressed + ms(2)));
    session.wait(ms(1000));
    assert!(session.model.question.is_none() && session.notice().contains("\"xy\""), "{}", session.notice());
}

#[test]
fn a_screen_too_small_to_read_takes_no_answer() {
    let mut session = Session::with_log();
    session.keys("x");
    session.send(Msg::Resize(58, 12));
    session.keys("y");
    session.keys("xy");
    assert_eq!((session.signals(), session.model.question.is_none()), (vec![], true));
    session.keys("q");
    assert_eq!(session.effects, [Effect::Quit]);
}

#[test]
fn a_question_that_names_more_than_the_screen_has_room_for_takes_no_yes() {
    let rows: Vec<_> = (0..9).map(|at| process(6000 + at, Bytes::gib(1))).collect();
    let mut session = Session::new();
    session.sample(rows);
    session.select(6000);
    session.send(Msg::Resize(80, 15));
    for _ in 0..9 {
        session.press(KeyCode::Char(' '));
    }
    session.keys("x");
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.contains("Make the terminal larger") && !screen.contains("[y]"), "{screen}");
    session.keys("y");
    assert!(session.notice().contains("nothing was signalled"), "{}", session.notice());
    assert!(session.model.question.is_some() && session.signals().is_empty(), "it still asks");
    for (size, lines) in [((80, 24), 1), ((80, 40), 2)] {
        session.send(Msg::Resize(size.0, size.1));
        session.read();
        let screen = crate::ui::drawn(&session.model);
        let all = (6000..6009).all(|pid| screen.contains(&format!(" {pid} ")));
        assert!(all && screen.contains("[y] terminate"), "{lines} each: {screen}");
    }
    session.keys("y");
    assert_eq!((session.signals().len(), session.notice()), (9, ""));
}

#[test]
fn no_question_that_is_cut_takes_a_yes_whatever_it_asks() {
    let asks = |session: &mut Session| {
        session.draws = false;
        session.send(Msg::Drawn(Seen { cut: true, ..Seen::default() }));
        session.wait(ms(450));
        session.keys("y");
        (session.effects.len(), session.model.question.is_some(), session.notice().to_owned())
    };
    let mut release = at_the_step_of(runner(1000));
    release.press(KeyCode::Enter);
    assert!(matches!(release.model.question.as_ref().unwrap().asked, Asked::Release(..)));
    let word = "Make the terminal larger to read all of it; nothing was";
    assert_eq!(asks(&mut release), (0, true, format!("{word} asked.")));
    let mut force = Session::with_holders();
    force.keys("xy");
    force.send(Msg::Signal(key_of(4242), SignalReport::StillThere(Some('S'))));
    force.keys("x");
    assert!(matches!(force.model.question.as_ref().unwrap().asked, Asked::End(_, Signal::Kill)));
    force.effects.clear();
    assert_eq!(asks(&mut force), (0, true, format!("{word} signalled.")));
    force.keys("n");
    assert!(force.model.question.is_none(), "a no is always taken");
}

#[test]
fn everything_it_may_be_can_be_read_and_its_line_gone_to() {
    let mut session = Session::with_holders();
    session.paste(&format!("{}\nepoch 2\nKilled\n", torch_log()));
    session.keys("i");
    let first = crate::ui::drawn(&session.model);
    assert!(first.contains("pytorch/cuda-out-of-memory") && first.contains("Why it happens"), "{first}");
    session.press(KeyCode::PageDown);
    assert!(!crate::ui::drawn(&session.model).contains("Why it happens"), "it goes on below");
    for _ in 0..50 {
        session.press(KeyCode::Down);
    }
    session.press(KeyCode::Home);
    assert!(crate::ui::drawn(&session.model).contains("Why it happens"), "and back");
    session.press(KeyCode::Tab);
    let second = crate::ui::drawn(&session.model);
    assert!(second.contains("shell/"), "{second}");
    session.press(KeyCode::Enter);
    assert_eq!((session.model.overlay.is_none(), session.model.focus), (true, Region::Input));
    let log = crate::ui::drawn(&session.model);
    assert!(log.contains("Killed"), "{log}");
    assert!(session.effects.is_empty() && session.model.question.is_none(), "Enter took no step");
    session.keys("i");
    session.press(KeyCode::Tab);
    session.press(KeyCode::Tab);
    assert!(crate::ui::drawn(&session.model).contains("pytorch/cuda-out-of-memory"), "around the end");
}
