//! Owns the tests of asking a program to free its memory.

use super::*;

#[test]
fn while_a_holder_is_waited_for_no_other_step_is_at_hand_by_itself() {
    let mut row = process(5177, Bytes::gib(6));
    row.managed_by = Some("slurm:81234".into());
    let mut session = at_the_step_of(row);
    session.press(KeyCode::Enter);
    assert!(matches!(session.ending(), EndingState::Elsewhere { .. }));
    assert_eq!(session.model.current_step(), None);
    let behind = session.model.walk.behind.len();
    session.press(KeyCode::Enter);
    session.keys("s");
    assert_eq!(session.model.walk.behind.len(), behind, "nothing was taken or skipped");
    session.keys("x");
    let Asked::End(victims, _) = &session.model.question.as_ref().unwrap().asked else { panic!() };
    assert_eq!(victims[0].key, key_of(5177));
    session.keys("n");
    session.press(KeyCode::Down);
    let first = session.model.steps_ahead()[0].fix;
    assert_eq!(session.model.current_step().unwrap().fix, first);
    session.sample(vec![]);
    session.model.walk.cursor = None;
    session.wait(ms(1000));
    session.sample(vec![]);
    assert!(session.model.awaited().is_none() && session.model.current_step().is_some(), "it came back");
}

impl Session {
    fn requests(&self) -> Vec<(u32, String)> {
        let request = |effect: &Effect| match effect {
            Effect::Release(key, release) => Some((key.pid, release.shown())),
            _ => None,
        };
        self.effects.iter().filter_map(request).collect()
    }
}

#[test]
fn enter_asks_y_sends_and_the_bytes_are_the_proof() {
    let mut session = at_the_step_of(runner(1000));
    session.press(KeyCode::Enter);
    let Asked::Release(victim, release) = &session.model.question.as_ref().unwrap().asked else { panic!() };
    assert_eq!((victim.key, release.asks().as_str()), (key_of(5177), "Ask Ollama to unload llama3.1:8b"));
    assert_eq!((session.requests(), session.effects.len()), (vec![], 0), "nothing is sent or copied before the yes");
    session.keys("y");
    assert_eq!(session.requests(), [(5177, "POST http://127.0.0.1:11434/api/generate".to_owned())]);
    assert_eq!(*session.ending(), EndingState::Asking);
    session.send(Msg::Released(key_of(5177), Ok("Ollama took the request".into())));
    session.sample(vec![process(4242, held()), runner(1000)]);
    assert!(matches!(session.ending(), EndingState::Asked(_)), "that it was asked proves nothing");
    session.now += ms(900);
    session.sample(vec![process(4242, held())]);
    assert!(matches!(session.ending(), EndingState::Returned { bytes, lives: false, .. } if *bytes == Bytes::gib(6)));
    assert_eq!(session.effects.last(), Some(&Effect::NoteMemory(key_of(5177), Bytes::gib(6))));
    assert_eq!(session.signals(), []);
}

#[test]
fn the_command_can_still_be_copied_instead() {
    let mut session = at_the_step_of(runner(1000));
    session.keys("c");
    assert!(matches!(&session.effects[..], [Effect::Copy(text)] if text == "ollama stop llama3.1:8b"));
}

#[test]
fn asked_in_vain_the_command_is_offered_and_its_effect_is_watched_too() {
    let mut session = asked_to_let_go(runner(1000));
    session.effects.clear();
    session.send(Msg::Released(key_of(5177), Err("nothing answers there".into())));
    assert_eq!(*session.ending(), EndingState::NotReleased("nothing answers there".into()));
    session.press(KeyCode::Enter);
    assert!(matches!(&session.effects[..], [Effect::Copy(text)] if text == "ollama stop llama3.1:8b"));
    assert!(matches!(session.ending(), EndingState::Elsewhere { .. }) && session.model.question.is_none());
    session.now += ms(900);
    session.sample(vec![process(4242, held())]);
    assert!(matches!(session.ending(), EndingState::Returned { bytes, .. } if *bytes == Bytes::gib(6)));
    assert_eq!((session.requests(), session.signals()), (vec![], vec![]));
}

#[test]
fn a_prompt_of_a_shell_that_is_answered_sends_no_request() {
    // Enter, `y` and Enter, with the pauses of somebody who reads the prompts.
    for (before_y, before_enter) in [(700, 400), (1000, 900), (2500, 1400)] {
        let mut session = at_the_step_of(runner(1000));
        session.press(KeyCode::Enter);
        session.wait(ms(before_y));
        session.key(KeyCode::Char('y'));
        session.wait(ms(before_enter));
        session.key(KeyCode::Enter);
        session.wait(Duration::from_secs(5));
        assert_eq!(session.requests(), vec![], "{before_y} ms, {before_enter} ms");
    }
    // The same behind a command: its Enter does not even ask.
    let mut session = at_the_step_of(runner(1000));
    session.key(KeyCode::Char('.'));
    session.wait(ms(2900));
    session.key(KeyCode::Enter);
    session.wait(ms(30));
    assert!(session.model.question.is_none());
}

#[test]
fn asked_in_vain_it_can_be_ended_with_its_own_question() {
    let mut session = asked_to_let_go(runner(1000));
    session.send(Msg::Released(key_of(5177), Err("nothing answers there".into())));
    session.keys("x");
    assert!(matches!(&session.model.question.as_ref().unwrap().asked, Asked::End(..)));
    session.keys("y");
    assert_eq!(session.signals(), [(5177, Signal::Term)]);
}

#[test]
fn one_that_runs_on_is_proved_by_what_it_holds_less_once_it_falls_no_further() {
    let comfy = |used: Bytes| {
        let mut row = process(5177, used);
        row.recognised_as = Some("ComfyUI".into());
        row
    };
    let mut session = asked_to_let_go(comfy(Bytes::gib(6)));
    session.send(Msg::Released(key_of(5177), Ok("ComfyUI took the request".into())));
    for (mib, settled) in [(6100, false), (4000, false), (500, false), (500, true)] {
        session.now += ms(900);
        session.sample(vec![process(4242, held()), comfy(Bytes::mib(mib))]);
        assert_eq!(matches!(session.ending(), EndingState::Returned { .. }), settled, "{mib}");
    }
    let EndingState::Returned { bytes, lives, .. } = session.ending() else { panic!() };
    assert_eq!((*bytes, *lives), (Bytes::mib(5644), true));
}

#[test]
fn one_that_takes_the_request_and_gives_nothing_back_is_said_so() {
    let mut session = asked_to_let_go(runner(1000));
    session.send(Msg::Released(key_of(5177), Ok("Ollama took the request".into())));
    session.now += Duration::from_secs(59);
    session.sample(vec![process(4242, held()), runner(1000)]);
    assert!(matches!(session.ending(), EndingState::Asked(_)));
    session.now += Duration::from_secs(1);
    session.sample(vec![process(4242, held()), runner(1000)]);
    let EndingState::NotReleased(why) = session.ending() else { panic!("{:?}", session.ending()) };
    assert!(why.contains("within 60 s"), "{why}");
    // It may yet do it.
    session.sample(vec![process(4242, held())]);
    assert!(matches!(session.ending(), EndingState::Returned { .. }));
}

#[test]
fn one_that_became_busy_while_asked_about_is_not_asked_to_release_memory() {
    let mut session = at_the_step_of(runner(1000));
    session.press(KeyCode::Enter);
    assert!(session.model.question.is_some());
    let mut busy = runner(1000);
    busy.sm_percent = Reading::Known(30);
    session.sample(vec![busy]);
    session.keys("y");
    assert_eq!(session.requests(), []);
    assert!(session.notice().contains("busy"), "{}", session.notice());
}

#[test]
fn inside_a_pod_nothing_is_signaled_and_no_release_is_requested() {
    for row in [runner(1000), process(5177, Bytes::gib(6))] {
        let mut session = Session::new();
        session.model.config.viewer.is_held_by_pod = true;
        session.sample(vec![process(4242, held()), row]);
        session.paste(&torch_log());
        assert!(session.model.steps_ahead().iter().all(|step| step.target.is_none() && step.release.is_none()));
        session.keys("x");
        session.press(KeyCode::Tab);
        session.keys("x");
        session.press(KeyCode::Enter);
        session.keys("y");
        assert!(session.model.question.is_none());
        assert_eq!((session.signals(), session.requests()), (vec![], vec![]));
    }
}

#[test]
fn nothing_is_sent_read_only_nor_for_one_that_left_or_moved_while_asked_about() {
    let mut session = at_the_step_of(runner(1000));
    session.model.config.read_only = true;
    session.press(KeyCode::Enter);
    assert!(session.model.question.is_none() && matches!(&session.effects[..], [Effect::Copy(_)]));
    let mut reused = runner(1000);
    reused.start_ticks = Reading::Known(99);
    let mut moved = runner(1000);
    moved.server_command = Some("OLLAMA_HOST=:5000 ollama serve".into());
    for (row, said) in
        [(None, "already ended"), (Some(reused), "already ended"), (Some(moved), "listens on another port")]
    {
        let mut session = at_the_step_of(runner(1000));
        session.press(KeyCode::Enter);
        session.sample(row.into_iter().collect());
        session.keys("y");
        assert_eq!(session.requests(), []);
        assert!(session.notice().contains(said), "{}", session.notice());
    }
    let mut session = at_the_step_of(runner(1000));
    session.press(KeyCode::Enter);
    session.model.config.read_only = true;
    session.keys("y");
    assert_eq!(session.requests(), []);
}

#[test]
fn a_copy_nobody_took_is_shown_to_be_selected() {
    let mut session = Session::with_log();
    session.keys("c");
    assert!(matches!(&session.effects[..], [Effect::Copy(text)] if text.contains("4242")));
    session.send(Msg::Copied(Err("the text".into())));
    assert_eq!(session.model.opened(), Some(&Uncopied { text: "the text".into() }));
}
