//! Owns the tests of supervisors: who restarts a terminated process.

use super::*;

impl Session {
    fn started_again(&self) -> Option<(u32, String)> {
        let again = self.model.endings[0].again.as_ref()?;
        Some((again.pid, again.supervisor.as_ref().map(ToString::to_string).unwrap_or_default()))
    }
}

#[test]
fn what_a_supervisor_runs_is_stopped_by_its_command_and_watched() {
    let mut session = Session::new();
    session.sample(vec![under(Some("slurm:81234"))]);
    session.paste(&torch_log());
    session.press(KeyCode::Enter);
    assert_eq!((session.signals(), &session.model.question), (vec![], &None));
    assert_eq!(session.effects, [Effect::Copy("scancel 81234".into())]);
    assert!(matches!(session.ending(), EndingState::Elsewhere { command } if command == "scancel 81234"));
    session.sample(vec![]);
    assert!(matches!(session.ending(), EndingState::Returned { bytes, .. } if *bytes == held()));
}

#[test]
fn the_question_knows_who_may_start_it_again() {
    let mut session = Session::new();
    session.sample(vec![under(Some("service:comfy.service"))]);
    session.paste(&torch_log());
    session.keys("x");
    let Asked::End(victims, _) = &session.model.question.as_ref().unwrap().asked else { panic!() };
    let caution = victims[0].supervisor.as_ref().map(|supervisor| supervisor.caution());
    assert_eq!(caution.unwrap(), "systemd (comfy.service) may start it again: stop the unit instead.");
}

#[test]
fn one_that_is_started_again_is_said_with_who_runs_it() {
    let mut session = ended(under(Some("service:comfy.service")));
    assert_eq!(session.started_again(), None, "5177 was there before");
    session.now += ms(4000);
    let mut again = under(Some("service:comfy.service"));
    (again.pid, again.start_ticks) = (5180, Reading::Known(5_180_000));
    session.sample(vec![process(5177, Bytes::gib(6)), again]);
    assert_eq!(session.started_again(), Some((5180, "systemd (comfy.service)".into())));
    // A name that people know is enough: an engine's new runner listens at another port.
    let mut engine = under(None);
    engine.recognised_as = Some("llama-server (gemma)".into());
    let mut session = ended(engine.clone());
    (engine.pid, engine.start_ticks) = (5181, Reading::Known(5_181_000));
    engine.command = Reading::Known("llama-server -m gemma.gguf --port 40001".into());
    session.sample(vec![engine]);
    assert_eq!(session.started_again(), Some((5181, String::new())));
}

#[test]
fn who_is_another_users_another_program_on_another_card_or_later_was_not_started_again() {
    let again = process(5180, held());
    let mut foreign = again.clone();
    foreign.user = Reading::Known("bob".into());
    let mut other = again.clone();
    other.command = Reading::Known("python eval.py".into());
    let mut nameless = again.clone();
    nameless.start_ticks = Reading::Denied;
    for row in [foreign, other, nameless] {
        let mut session = ended(under(None));
        session.sample(vec![row]);
        assert_eq!(session.started_again(), None);
    }
    let mut session = ended(under(None));
    let elsewhere = Snapshot { devices: vec![device(0, vec![]), device(1, vec![again.clone()])], ..snapshot(1) };
    session.send(Msg::Sample(Box::new(elsewhere)));
    assert_eq!(session.started_again(), None, "on another card");
    let mut session = ended(under(None));
    session.now += ms(31_000);
    session.sample(vec![again.clone()]);
    assert_eq!(session.started_again(), None, "half a minute later");
    let mut session = ended(under(None));
    session.now += ms(29_000);
    session.sample(vec![again]);
    assert_eq!(session.started_again(), Some((5180, String::new())));
}

#[test]
fn one_that_was_started_while_the_other_still_ran_did_not_take_its_place() {
    let mut session = Session::new();
    session.sample(vec![under(Some("slurm:81234"))]);
    session.paste(&torch_log());
    session.press(KeyCode::Enter);
    session.sample(vec![under(Some("slurm:81234")), process(5180, Bytes::gib(1))]);
    session.sample(vec![process(5180, Bytes::gib(1))]);
    assert!(session.model.endings[0].is_over());
    assert_eq!(session.started_again(), None);
}

#[test]
fn another_users_ollama_is_neither_asked_nor_ended_for_the_person() {
    for uid in [1000, 0] {
        let mut session = Session::new();
        session.model.config.viewer.uid = uid;
        session.sample(vec![process(4242, held()), runner(999)]);
        session.paste(&torch_log());
        let steps = session.model.steps_ahead();
        assert!(steps.iter().any(|step| step.fix == "ask-owner"), "{steps:?}");
        let targets: Vec<u32> = steps.iter().filter_map(|step| Some(step.target?.pid)).collect();
        // To root both are other users'.
        assert_eq!(targets, if uid == 0 { vec![] } else { vec![4242] });
        assert!(steps.iter().all(|step| step.release.is_none()), "{steps:?}");
    }
}
