//! Owns the tests of the mouse, and of commands that are picked by their words.

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::*;
use crate::app::model::{Region, RowId};

fn pids(session: &Session) -> Vec<u32> {
    session.model.rows().iter().map(|row| row.id.pid).collect()
}

/// Clicks on the first place where this text is on the screen.
fn click_on(session: &mut Session, text: &str) {
    let (columns, rows) = session.model.size;
    let (picture, shown) = crate::ui::view(&session.model);
    let buffer = picture.painted();
    session.draws = false;
    session.send(Msg::Drawn(shown));
    let line = |y: u16| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let (row, column) = (0..rows)
        .find_map(|y| Some((y, line(y).split_once(text)?.0.chars().count())))
        .unwrap_or_else(|| panic!("{text} is not on the screen"));
    let kind = MouseEventKind::Down(MouseButton::Left);
    let column = u16::try_from(column).unwrap();
    let at = session.now;
    session.send(Msg::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }, at));
    session.draws = true;
}

fn three() -> Session {
    let mut session = Session::new();
    let mut rows = [(50, 3), (60, 9), (70, 5)].map(|(pid, gib)| process(pid, Bytes::gib(gib)));
    rows[1].user = Reading::Known("ada".into());
    session.sample(rows.to_vec());
    session.select(60);
    session
}

#[test]
fn processes_are_sorted_by_the_column_the_person_wants() {
    let mut session = three();
    assert_eq!(pids(&session), [60, 70, 50], "the largest first");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        session.keys("t");
        seen.insert(pids(&session));
    }
    assert!(seen.contains(&vec![50, 60, 70]), "by PID: {seen:?}");
    assert_eq!(pids(&session), [60, 70, 50], "and round again");
}

#[test]
fn nothing_jumps_while_the_person_moves_and_the_order_is_right_again_afterwards() {
    let mut session = three();
    session.press(KeyCode::Down);
    let swapped = [(50, 3), (60, 4), (70, 5)].map(|(pid, gib)| process(pid, Bytes::gib(gib)));
    session.sample(swapped.to_vec());
    assert_eq!(pids(&session), [60, 70, 50], "60 shrank under the person's hands");
    session.wait(Duration::from_secs(6));
    assert_eq!(pids(&session), [70, 60, 50]);
    assert_eq!(session.model.selected().unwrap().id.pid, 70, "the selection stays on its process");
}

#[test]
fn a_click_selects_the_row_that_stands_there() {
    let mut session = three();
    click_on(&mut session, "5.0      70");
    assert_eq!((session.model.focus, session.model.selected().unwrap().id.pid), (Region::Processes, 70));
    click_on(&mut session, "GiB▾");
    assert_eq!(pids(&session)[0], 60, "by user, ada first");
}

#[test]
fn a_click_on_a_step_selects_it_and_takes_nothing() {
    let mut session = Session::with_log();
    session.model.focus = Region::Processes;
    let second = session.model.steps_ahead()[1].title.clone();
    click_on(&mut session, &format!("2 {}", second.chars().take(12).collect::<String>()));
    assert_eq!(session.model.current_step().map(|step| step.title.clone()), Some(second));
    assert_eq!((session.model.focus, session.effects.len()), (Region::Steps, 0));
    assert!(session.model.walk.behind.is_empty());
}

#[test]
fn a_click_on_an_answer_is_heard_no_sooner_than_a_key() {
    let mut session = Session::with_log();
    session.press(KeyCode::Char('x'));
    assert!(session.model.question.is_some());
    click_on(&mut session, " y  terminate");
    session.wait(DELIBERATE);
    assert!(session.effects.iter().all(|effect| !matches!(effect, Effect::Signal(_))), "too early to be read");
    click_on(&mut session, "[y] terminate");
    session.wait(SETTLE);
    assert!(session.effects.iter().any(|effect| matches!(effect, Effect::Signal(_))));
}

#[test]
fn what_a_question_covers_can_not_be_clicked() {
    let mut session = Session::with_log();
    let selected: Option<RowId> = session.model.processes.selected;
    session.press(KeyCode::Char('x'));
    click_on(&mut session, "6.0    5177");
    assert_eq!(session.model.processes.selected, selected);
    assert!(session.model.question.is_some());
}

#[test]
fn an_action_is_found_by_its_words_and_done() {
    let mut session = Session::with_log();
    session.press(KeyCode::Char(':'));
    session.keys("paus");
    session.press(KeyCode::Enter);
    assert!(session.model.feed.paused && session.model.overlay.is_none());
    session.press(KeyCode::Char(':'));
    session.keys("filter");
    session.press(KeyCode::Enter);
    assert_eq!(session.model.focus, Region::Processes, "it belongs there");
    assert!(session.model.prompt.is_some());
}

#[test]
fn a_word_and_enter_in_the_list_of_actions_ask_about_no_signal_and_no_request() {
    for typed in ["te", "term", "terminate", "take", "ask"] {
        let mut session = Session::with_log();
        session.press(KeyCode::Char(':'));
        session.keys(typed);
        session.press(KeyCode::Enter);
        assert!(session.model.question.is_none(), "{typed}");
    }
}

#[test]
fn a_click_on_an_action_selects_it_and_a_second_one_does_it() {
    let mut session = Session::with_log();
    session.press(KeyCode::Char(':'));
    session.keys("o");
    click_on(&mut session, "zoom");
    assert!(session.model.opened::<Commands>().is_some() && !session.model.zoomed);
    click_on(&mut session, "zoom");
    assert!(session.model.zoomed && session.model.overlay.is_none());
}
