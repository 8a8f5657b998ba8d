//! Owns the tests of overlays: what they say, and what keys do to them.

use super::*;

#[test]
fn the_words_of_the_field_are_behind_the_help() {
    let mut session = Session::new();
    session.keys("?");
    session.press(KeyCode::Tab);
    assert!(crate::ui::drawn(&session.model).contains("still loading"));
    session.send(Msg::Glossary(std::sync::Arc::new(page::glossary(&BASE))));
    let words = crate::ui::drawn(&session.model);
    assert!(words.contains("activations") && words.contains("read on"), "{words}");
    session.press(KeyCode::End);
    assert!(crate::ui::drawn(&session.model).contains("zombie"));
    session.press(KeyCode::Tab);
    assert!(crate::ui::drawn(&session.model).contains("copy command"));
    session.press(KeyCode::Enter);
    assert!(session.model.overlay.is_none(), "Enter is about what lies on top");
}

#[test]
fn what_cannot_be_read_is_neither_asked_nor_counted_as_read() {
    let mut session = Session::with_holders();
    session.key(KeyCode::Char('x'));
    session.send(Msg::Resize(10, 5));
    session.wait(ms(30));
    session.send(Msg::Resize(120, 40));
    assert!(session.model.question.is_none(), "the key was still held back when the screen became too small");
    session.send(Msg::Resize(10, 5));
    session.paste("one");
    session.read_logs();
    session.paste("two");
    session.wait(ms(500));
    session.send(Msg::Resize(120, 40));
    session.key(KeyCode::Char('r'));
    session.wait(SETTLE);
    assert!(session.model.question.is_some(), "the question can be read only now");
    session.press(KeyCode::Char('r'));
    assert!(session.model.question.is_none());
}

#[test]
fn the_chosen_step_stays_chosen_when_the_plan_is_sorted_anew() {
    let mut session = Session::with_holders();
    session.paste("RuntimeError: CUDA out of memory. Tried to allocate 9.00 GiB (GPU 0; 24.00 GiB total capacity)");
    session.press(KeyCode::Down);
    let first = |session: &Session| session.model.advice.as_ref().unwrap().plan[0].target;
    for (notebook, runner, smallest_enough) in [(held(), Bytes::gib(6), 5177), (Bytes::gib(8), Bytes::gib(12), 4242)] {
        session.sample(vec![process(4242, notebook), process(5177, runner)]);
        assert_eq!(first(&session), Some(key_of(smallest_enough)));
        assert_eq!(session.model.current_step().unwrap().target, Some(key_of(4242)));
    }
}

#[test]
fn a_key_of_another_region_says_where_it_works_and_does_nothing() {
    let mut session = Session::with_log();
    session.model.focus = Region::Processes;
    session.keys("s");
    assert!(session.model.walk.behind.is_empty(), "nothing was skipped");
    let said = session.model.notice.as_ref().map(|(text, _)| text.clone()).unwrap_or_default();
    assert!(said.contains("is a key of the fixes"), "{said}");
    session.model.notice = None;
    session.keys("§");
    assert!(session.model.notice.is_none(), "it is no key of ours");
}

#[test]
fn steps_can_be_taken_skipped_and_taken_back() {
    let mut session = Session::with_log();
    session.keys("s");
    assert_eq!(session.model.walk.behind[0].mark, Mark::Skipped);
    assert_eq!(session.model.current_step().unwrap().target, Some(key_of(5177)));
    session.press(KeyCode::Backspace);
    assert_eq!(session.model.current_step().unwrap().target, Some(key_of(4242)));
    session.keys("ss");
    session.press(KeyCode::Enter);
    assert_eq!(session.model.walk.behind.last().unwrap().mark, Mark::Taken);
}

#[test]
fn a_log_pasted_where_a_command_is_asked_for_is_a_log() {
    let mut session = Session::with_log();
    session.keys("r");
    session.paste("python train.py \\\n  --batch 8");
    let asked = session.model.prompt.clone().unwrap();
    assert!(asked.text.contains("train.py"), "{asked:?}");
    session.paste(&torch_log().repeat(40));
    assert!(session.model.prompt.is_none());
    assert!(matches!(session.model.question.as_ref().map(|q| &q.asked), Some(Asked::Paste(_))));
}
