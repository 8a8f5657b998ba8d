//! Owns the tests of pastes, also those that arrive as keys, and of what is typed into a line.

use super::*;
use crate::app::model::Palette;
use crate::app::overlay::commands::Commands;

#[test]
fn an_unbracketed_paste_is_read_as_a_log_and_does_nothing_else() {
    let mut session = Session::with_holders();
    for character in format!("xyq{}", torch_log()).chars() {
        let code = if character == '\n' { KeyCode::Enter } else { KeyCode::Char(character) };
        session.key(code);
        session.now += Duration::from_micros(300);
    }
    session.wait(ms(200));
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw().trim_end(), format!("xyq{}", torch_log()).trim_end());
    assert_eq!((session.effects.len(), session.model.question.is_none()), (0, true));
}

#[test]
fn a_paste_that_arrives_as_keys_acts_on_nothing_whatever_its_line_ends_are() {
    let line_feed = KeyEvent::new(KeyCode::Enter, KeyModifiers::CONTROL);
    for end in [vec![line_feed], vec![KeyEvent::from(KeyCode::Enter)], vec![KeyEvent::from(KeyCode::Enter), line_feed]]
    {
        let mut session = Session::with_holders();
        session.burst(&format!("q\n{}", torch_log()), &end);
        session.wait(ms(200));
        session.read_logs();
        let log = session.model.input.log.as_ref().unwrap();
        assert_eq!(log.raw().trim_end(), format!("q\n{}", torch_log()).trim_end(), "{end:?}");
        assert!(!session.model.leaving && session.effects.is_empty() && session.model.question.is_none());
    }
}

#[test]
fn a_paste_that_arrives_as_keys_stays_in_the_line_that_is_typed() {
    let pasted = "python train.py \\\n  --batch-size 8\n";
    for (key, line_feeds) in [('r', true), ('r', false), ('m', false)] {
        let mut session = Session::with_holders();
        session.model.config.marks_pastes = false;
        session.paste(&torch_log());
        session.keys(&key.to_string());
        session.model.prompt.as_mut().unwrap().text.clear();
        let end = KeyEvent::new(KeyCode::Enter, if line_feeds { KeyModifiers::CONTROL } else { KeyModifiers::NONE });
        session.burst(pasted, &[end]);
        session.wait(ms(200));
        let typed = session.model.prompt.as_ref().map(|prompt| prompt.text.as_str());
        assert_eq!(typed, Some("python train.py --batch-size 8"));
        assert!(session.model.question.is_none() && session.effects.is_empty() && !session.model.leaving);
        session.press(KeyCode::Char('0'));
        session.press(KeyCode::Enter);
        assert!(session.model.prompt.is_none(), "a person's Enter submits");
    }
}

#[test]
fn a_search_takes_a_line_that_comes_at_once_and_a_log_is_still_a_log() {
    let mut session = Session::with_holders();
    session.model.config.marks_pastes = false;
    session.paste(&torch_log());
    session.model.focus = Region::Input;
    session.keys("/");
    session.burst("out of memory\n", &[KeyEvent::from(KeyCode::Enter)]);
    session.press(KeyCode::Backspace);
    assert_eq!(session.model.prompt.as_ref().unwrap().text, "out of memor");
    session.burst(&format!("{}again\n", torch_log()), &[KeyEvent::from(KeyCode::Enter)]);
    session.wait(ms(200));
    assert!(session.model.prompt.is_none());
    assert!(matches!(session.model.question.as_ref().unwrap().asked, Asked::Paste(_)));
}

#[test]
fn a_line_feed_in_the_editor_is_a_new_line() {
    let mut session = Session::with_holders();
    session.model.focus = Region::Input;
    session.press(KeyCode::Enter);
    session.burst("one\ntwo", &[KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL)]);
    session.burst("\nthree", &[KeyEvent::new(KeyCode::Enter, KeyModifiers::CONTROL)]);
    assert_eq!(session.model.input.typing.as_ref().unwrap().lines(), ["one", "two", "three"]);
}

#[test]
fn a_model_that_draws_is_told_by_its_weights() {
    let mut session = Session::with_holders();
    session.paste(&torch_log());
    session.keys("mflux.1-dev");
    session.press(KeyCode::Enter);
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.contains("The weights of FLUX.1 take about 22.2 GiB in 16 bits"), "{screen}");
    assert!(screen.contains("6.2 GiB is free: the weights alone do not fit,"), "{screen}");
}

#[test]
fn an_error_pasted_after_a_walk_can_be_said_to_be_the_second_failure() {
    let mut session = Session::with_holders();
    session.paste(&torch_log());
    session.paste(&torch_log().replace("14.00 GiB", "9.00 GiB"));
    session.read();
    assert!(crate::ui::drawn(&session.model).contains("[e] failed again"));
    session.keys("e");
    session.read_logs();
    assert!(session.model.walk.compared.is_some(), "the two failures are held beside each other");
    assert!(session.model.question.is_none());
}

#[test]
fn a_second_paste_asks_and_nothing_is_lost() {
    for (answer, expected) in [('r', "second"), ('a', "first\nsecond")] {
        let mut session = Session::with_holders();
        session.paste("first");
        session.paste("second");
        assert!(matches!(&session.model.question.as_ref().unwrap().asked, Asked::Paste(_)));
        session.keys(&answer.to_string());
        session.read_logs();
        assert_eq!(session.model.input.log.as_ref().unwrap().raw(), expected);
        session.model.focus = Region::Input;
        session.keys("u");
        session.read_logs();
        assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "first");
    }
    let mut session = Session::with_holders();
    session.paste("first");
    session.paste("second");
    session.press(KeyCode::Esc);
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "first");
}

#[test]
fn an_empty_paste_gets_a_clear_word() {
    let mut session = Session::with_holders();
    session.paste("  \n ");
    assert!(session.notice().contains("empty"));
    assert!(session.model.input.log.is_none());
}

#[test]
fn what_was_typed_while_the_terminal_was_stuck_is_no_answer() {
    let mut session = Session::with_log();
    session.keys("x");
    session.model.question = None;
    session.draws = false;
    session.keys("x");
    let typed_at = session.now + ms(800);
    session.now += Duration::from_secs(5);
    session.send(Msg::Drawn(Seen::default()));
    session.send(Msg::Key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE), typed_at));
    session.wait(ms(1000));
    assert_eq!(session.signals(), []);
    session.keys("y");
    assert_eq!(session.signals(), [(4242, Signal::Term)]);
}

#[test]
fn a_log_that_cannot_be_read_is_said_and_makes_room_for_another() {
    let mut session = Session::new();
    let effect = update::open_file(&mut session.model, "/tmp".into(), Vec::new());
    let Effect::ReadFile { generation, .. } = effect else { panic!() };
    session.send(Msg::Unread(generation, "/tmp can't be read: is a directory".into()));
    assert!(crate::ui::drawn(&session.model).contains("is a directory"));
    session.paste(&torch_log());
    assert!(session.model.question.is_none() && session.model.advice.is_some());
}

#[test]
fn with_no_log_at_hand_a_symptom_can_be_picked_and_ends_nothing() {
    let mut session = Session::with_holders();
    session.keys("o");
    for _ in 0..3 {
        session.press(KeyCode::Down);
    }
    assert!(crate::ui::drawn(&session.model).contains("▸ \"Killed\""));
    session.press(KeyCode::Enter);
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "Killed");
    assert!(session.model.question.is_none() && session.model.overlay.is_none());
}

#[test]
fn a_command_that_comes_in_one_burst_opens_the_list_with_it_and_asks_nothing() {
    let mut session = Session::with_holders();
    session.paste(&torch_log());
    let enter = [KeyEvent::from(KeyCode::Enter)];
    session.burst(":kill\n", &enter);
    session.wait(ms(200));
    let wanted = |session: &Session| session.model.opened::<Commands>().map(|list| list.wanted.clone());
    assert_eq!(wanted(&session).as_deref(), Some("kill"));
    assert!(session.model.question.is_none() && session.effects.is_empty());
    session.press(KeyCode::Esc);
    session.press(KeyCode::Char(':'));
    session.wait(ms(400));
    session.burst("theme", &enter);
    session.wait(ms(200));
    assert_eq!(wanted(&session).as_deref(), Some("theme"), "letters at once go into the open list");
}

#[test]
fn a_few_words_at_once_never_ask_about_replacing_the_log_and_neither_does_the_same_log() {
    let mut session = Session::with_holders();
    session.paste(&torch_log());
    session.burst("kill the process", &[KeyEvent::from(KeyCode::Enter)]);
    session.wait(ms(200));
    assert!(session.model.question.is_none() && session.effects.is_empty());
    session.paste(&torch_log());
    assert!(session.model.question.is_none() && session.effects.is_empty(), "the same log again");
    session.paste("another log");
    assert!(session.model.question.is_some(), "a paste that the terminal marks is still asked about");
}

#[test]
fn a_key_changes_the_theme_until_all_were_seen() {
    let mut session = Session::with_holders();
    let first = session.model.config.palette;
    let mut seen = Vec::new();
    for _ in Palette::NAMES {
        session.press(KeyCode::Char('T'));
        session.wait(ms(400));
        seen.push(session.model.config.palette);
    }
    assert_eq!(seen.last(), Some(&first));
    assert_eq!(seen.iter().filter(|palette| **palette == first).count(), 1, "{seen:?}");
}
