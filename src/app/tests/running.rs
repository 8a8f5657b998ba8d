//! Owns the tests of running a recorded command again: what is shown, what refuses, what becomes of the fix, and that
//! nothing is run that was not shown whole and confirmed.

use std::sync::Arc;

use super::*;
use crate::app::replay::tests::failed_run;
use crate::app::run_again::RunAgain;
use crate::record::recording::Recording;
use crate::record::{End, Run};

/// The log of the recorded run, opened as `--last` opens it, beside the process that it names.
pub(crate) fn after_a_recorded_run() -> Session {
    opened_on_a_recorded_run(Session::with_holders())
}

/// The same on another machine.
pub(crate) fn opened_on_a_recorded_run(mut session: Session) -> Session {
    let played = failed_run();
    let story = Story {
        origin: "oomdoctor run".into(),
        command: Some("python train.py --batch 8".into()),
        record: Some(played.path.clone()),
        ..Story::default()
    };
    let effect = update::open_last(&mut session.model, played.output.clone().unwrap(), story);
    session.effects.push(effect);
    session.read_logs();
    session.effects.clear();
    session
}

/// The same, with the fix selected that changes the command.
pub(crate) fn at_a_change() -> Session {
    at_the_change(after_a_recorded_run())
}

pub(crate) fn at_the_change(mut session: Session) -> Session {
    while session.model.current_step().unwrap().fix != "smaller-batch" {
        session.press(KeyCode::Char('s'));
    }
    session
}

/// Answers the request for the recording.
pub(crate) fn read_record(session: &mut Session, played: Arc<Played>) {
    assert!(matches!(session.effects.pop(), Some(Effect::ReadRecord(path)) if path == played.path));
    session.send(Msg::Record(Ok(played)));
}

/// Another command, as a person types it.
fn with_command(session: &mut Session, line: &str) {
    session.model.input.command = Some(line.to_owned());
    advise::advise_anew(&mut session.model);
}

fn asked(session: &Session) -> Option<&RunAgain> {
    match session.model.question.as_ref().map(|question| &question.asked) {
        Some(Asked::RunAgain(run)) => Some(run),
        _ => None,
    }
}

fn runs(session: &Session) -> Vec<&RunAgain> {
    session
        .effects
        .iter()
        .filter_map(|effect| if let Effect::RunAgain(run) = effect { Some(run.as_ref()) } else { None })
        .collect()
}

/// The recorded run with other facts about it.
fn recorded(change: impl FnOnce(&mut Run)) -> Arc<Played> {
    let mut played = Arc::try_unwrap(failed_run()).unwrap();
    change(played.recording.run.as_mut().unwrap());
    Arc::new(played)
}

#[test]
fn the_changed_command_is_shown_and_run_in_its_folder_after_a_yes() {
    let mut session = at_a_change();
    session.keys("a");
    assert!(session.model.question.is_none(), "the folder is in the recording");
    read_record(&mut session, failed_run());
    let run = asked(&session).unwrap().clone();
    assert_eq!(run.argv, ["python", "train.py", "--batch", "4"]);
    assert_eq!(run.folder, std::path::Path::new("/home/ada/vision"));
    let (was, same): (Vec<_>, Vec<_>) = run.arguments().into_iter().partition(|argument| argument.is_new);
    assert_eq!((was.len(), same.len(), was[0].was.as_deref()), (1, 3, Some("8")));
    session.keys("y");
    assert_eq!(runs(&session), [&run]);
    assert_eq!(run.tries.fix, "smaller-batch");
}

/// At the change, its recording read.
pub(crate) fn at_the_question(played: Arc<Played>) -> Session {
    let mut session = at_a_change();
    session.keys("a");
    read_record(&mut session, played);
    session
}

#[test]
fn nothing_is_run_where_it_would_not_be_the_same_command() {
    let refused = |mut session: Session| {
        session.keys("a");
        let record = session.effects.iter().any(|effect| matches!(effect, Effect::ReadRecord(_)));
        assert!(session.model.question.is_none() && !record && !session.notice().is_empty(), "{:?}", session.effects);
        session.notice().to_owned()
    };
    let mut read_only = at_a_change();
    read_only.model.config.read_only = true;
    assert!(refused(read_only).contains("--read-only"));
    let mut pasted = at_a_change();
    pasted.model.input.record = None;
    assert!(refused(pasted).contains("oomdoctor run"));
    let ranked = |name: &str| recorded(|run| run.environment.push((name.into(), "1".into())));
    for played in [
        ranked("RANK"),
        ranked("LOCAL_RANK"),
        ranked("SLURM_JOB_ID"),
        recorded(|run| run.folder = String::new()),
        recorded(|run| run.folder = "/home/ada/\u{202e}x".into()),
        Arc::new(Played {
            recording: Recording::parse(include_str!("../../../assets/demo.jsonl")).unwrap(),
            ..Arc::try_unwrap(failed_run()).unwrap()
        }),
    ] {
        let session = at_the_question(played);
        assert!(session.model.question.is_none() && !session.notice().is_empty(), "{:?}", session.model.question);
    }
    for line in
        ["cd x && python train.py --batch 8", "python train.py --batch $B", "python train.py > log", "python 'x"]
    {
        let mut session = at_a_change();
        with_command(&mut session, line);
        session.keys("a");
        read_record(&mut session, failed_run());
        assert!(session.model.question.is_none() && !session.notice().is_empty(), "{line}");
    }
}

#[test]
fn the_gpus_that_the_failed_run_was_given_stay_unless_a_fix_names_others() {
    let session = at_the_question(recorded(|run| run.environment.push(("CUDA_VISIBLE_DEVICES".into(), "1".into()))));
    assert_eq!(asked(&session).unwrap().argv, ["env", "CUDA_VISIBLE_DEVICES=1", "python", "train.py", "--batch", "4"]);
}

#[test]
fn a_paste_a_key_and_a_screen_too_small_for_all_of_it_are_no_answers() {
    let mut session = at_the_question(failed_run());
    session.send(Msg::Paste("y".into()));
    assert!(asked(&session).is_none() && runs(&session).is_empty());
    let mut session = at_the_question(failed_run());
    session.read();
    session.key(KeyCode::Char('y'));
    session.wait(SETTLE / 2);
    session.key(KeyCode::Char('e'));
    session.wait(ms(1000));
    assert!(session.model.question.is_none() && runs(&session).is_empty());
    let many = recorded(|_| {});
    let mut session = at_a_change();
    with_command(
        &mut session,
        &format!("python train.py --batch 8 {}", "--an-option-of-some-length 12345 ".repeat(40)),
    );
    session.keys("a");
    read_record(&mut session, many);
    session.send(Msg::Resize(60, 15));
    session.keys("y");
    assert!(runs(&session).is_empty() && asked(&session).is_some());
    session.send(Msg::Resize(200, 60));
    session.keys("y");
    assert_eq!(runs(&session).len(), 1);
}

/// The run that was confirmed ended like this.
pub(crate) fn ran(session: &mut Session, end: End, after: Option<Arc<Played>>) -> RunAgain {
    session.keys("y");
    let run = runs(session).pop().unwrap().clone();
    session.effects.clear();
    session.send(Msg::RanAgain(Box::new(run.clone()), Ok((end, after))));
    run
}

/// Whether the change is marked, and how.
fn marked(session: &Session) -> Option<Mark> {
    session.model.walk.behind.iter().find(|behind| behind.id.fix == "smaller-batch").map(|behind| behind.mark)
}

/// The recording of another run, which ended so and whose output counts to this step.
pub(crate) fn another(end: End, steps: u64, ran_out: bool) -> Arc<Played> {
    let played = Arc::try_unwrap(failed_run()).unwrap();
    let mut recording = played.recording;
    recording.end = Some((9000, end));
    if !ran_out {
        recording.said = None;
        recording.marks.clear();
    }
    let first = played.output.unwrap();
    let crash = first.split_once("Traceback").unwrap().1;
    let lines: String = (1..=steps).map(|step| format!("epoch 1/12   step {step}0/2110   loss 2.100\n")).collect();
    let output = ran_out.then(|| format!("{lines}Traceback{crash}"));
    Arc::new(Played { path: "/state/runs/second.jsonl".into(), recording, output })
}

#[test]
fn a_run_that_succeeds_marks_its_fix_and_tells_what_was_seen() {
    let mut session = at_the_question(failed_run());
    ran(&mut session, End::Code(0), Some(another(End::Code(0), 60, false)));
    assert_eq!(marked(&session), Some(Mark::Taken));
    assert!(session.model.walk.works && text_on_top(&session).contains("exited with 0"));
    assert!(!text_on_top(&session).contains("Only reported\nThe job works"), "it was seen");
    let kept = session.kept.last().unwrap();
    assert!(
        kept.story.freed.iter().any(|seen| seen.contains("--batch 4") && seen.contains("exited with 0")),
        "{:?}",
        kept.story
    );
}

#[test]
fn a_run_that_fails_again_is_the_next_log_and_its_fix_did_not_help() {
    let mut session = at_the_question(failed_run());
    ran(&mut session, End::Code(1), Some(another(End::Code(1), 60, true)));
    session.read_logs();
    assert!(session.model.input.log.as_ref().unwrap().raw().contains("step 600/"));
    assert_eq!(session.model.input.command.as_deref(), Some("python train.py --batch 4"));
    assert_eq!(session.model.input.record.as_deref(), Some("/state/runs/second.jsonl".as_ref()));
    assert_eq!(marked(&session), Some(Mark::DidNotHelp));
    assert!(session.model.walk.compared.is_some(), "it is compared with the first failure");
    let seen = &session.model.walk.freed_before;
    assert!(
        seen.iter().any(|seen| seen.contains("step 600") && seen.contains("failed at epoch 1, step 300")),
        "{seen:?}"
    );
    assert_eq!(session.model.rerun().as_deref(), Some("python train.py --batch 4"));
}

#[test]
fn a_run_that_fails_for_another_reason_says_nothing_about_the_fix() {
    for (end, after) in [(End::Code(2), Some(another(End::Code(2), 0, false))), (End::Code(127), None)] {
        let mut session = at_the_question(failed_run());
        let log = session.model.input.log.clone();
        // As long as it did not run longer than the first one.
        let after = after.map(|played| {
            let mut played = Arc::try_unwrap(played).unwrap();
            played.recording.end = Some((300, end));
            Arc::new(played)
        });
        ran(&mut session, end, after);
        assert_eq!((marked(&session), session.model.walk.works), (None, false), "{}", session.notice());
        assert!(Arc::ptr_eq(&log.unwrap(), session.model.input.log.as_ref().unwrap()));
        assert!(session.notice().contains("exited with"), "{}", session.notice());
    }
    let mut session = at_the_question(failed_run());
    session.keys("y");
    let run = runs(&session).pop().unwrap().clone();
    session.send(Msg::RanAgain(Box::new(run), Err("no such folder".into())));
    assert!(session.notice().contains("no such folder") && marked(&session).is_none());
}

#[test]
fn in_the_demo_the_job_starts_again_for_show() {
    let mut session = Session::new();
    session.model.config.source = Source::Demo;
    session.sample(vec![process(4242, held()), process(5177, Bytes::gib(6))]);
    session.paste(&(torch_log() + "$ python train.py --batch 8\n"));
    session.model.input.command = Some("python train.py --batch 8".into());
    session.model.focus = Region::Steps;
    session.effects.clear();
    session.keys("a");
    assert!(asked(&session).is_some(), "{}", session.notice());
    assert!(crate::ui::drawn(&session.model).contains("Demo: nothing is run"));
    session.keys("y");
    assert_eq!(runs(&session).len(), 1, "the demo's machine takes it");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_sequence_runs_a_command_that_was_not_shown_whole_and_confirmed(
        story in prop::collection::vec(happening(), 1..40), arguments in 0_usize..60
    ) {
        let mut session = at_a_change();
        let more = "--name 'a value' ".repeat(arguments);
        with_command(&mut session, format!("python train.py --batch 8 {more}").trim());
        // Since when each command has stood whole in an open question, and when keys came.
        let mut whole: Option<(RunAgain, Duration)> = None;
        let mut keys: Vec<(KeyCode, Duration)> = Vec::new();
        for event in story {
            let before = session.effects.len();
            match event {
                Event::Key(code) => {
                    keys.push((code, session.now));
                    session.key(code);
                }
                Event::Wait(time) => session.wait(ms(time)),
                Event::Paste(text) => session.send(Msg::Paste(text.to_owned())),
                Event::Resize(columns, rows) => session.send(Msg::Resize(columns, rows)),
                Event::Record => session.send(Msg::Record(Ok(failed_run()))),
            }
            for effect in session.effects.get(before..).unwrap_or_default() {
                let Effect::RunAgain(run) = effect else { continue };
                let shown = whole.as_ref().filter(|(shown, _)| shown == run.as_ref());
                let since = shown.map(|(_, since)| *since);
                prop_assert!(since.is_some_and(|since| session.now - since >= READ + SETTLE), "not shown long enough");
                let (last, at) = *keys.last().unwrap();
                prop_assert_eq!(last, KeyCode::Char('y'));
                prop_assert!(session.now - at >= SETTLE, "a key could still have followed");
            }
            let open = asked(&session).cloned();
            let screen = open.as_ref().map(|_| crate::ui::drawn(&session.model));
            let is_whole = open.as_ref().zip(screen.as_ref()).is_some_and(|(run, screen)| shows_all(screen, run));
            whole = match (open, whole.take()) {
                (Some(run), Some((shown, since))) if is_whole && shown == run => Some((shown, since)),
                (Some(run), _) if is_whole => Some((run, session.now)),
                _ => None,
            };
        }
    }
}

/// Whether every argument stands on the screen, in order and not cut.
fn shows_all(screen: &str, run: &RunAgain) -> bool {
    let inside = screen.lines().filter_map(|line| line.split(['┃', '|']).nth(1));
    let text: String = inside.flat_map(str::chars).filter(|c| !c.is_whitespace() && *c != '+').collect();
    let wanted: String = run.arguments().into_iter().map(|argument| argument.text).collect();
    text.contains(&wanted.chars().filter(|c| !c.is_whitespace() && *c != '+').collect::<String>())
}

#[derive(Clone, Debug)]
enum Event {
    Key(KeyCode),
    Wait(u64),
    Paste(&'static str),
    Resize(u16, u16),
    Record,
}

fn happening() -> impl Strategy<Value = Event> {
    let keys = prop_oneof![
        5 => Just('a'), 6 => Just('y'), 1 => Just('n'), 1 => Just('x'), 1 => Just('C'), 1 => Just('v'),
    ];
    prop_oneof![
        8 => keys.prop_map(|letter| Event::Key(KeyCode::Char(letter))),
        1 => prop_oneof![Just(KeyCode::Esc), Just(KeyCode::Enter), Just(KeyCode::Down)].prop_map(Event::Key),
        10 => prop_oneof![Just(1_u64), Just(30), Just(319), Just(320), Just(600), Just(1000)].prop_map(Event::Wait),
        1 => prop_oneof![Just("y"), Just("y\ny\n")].prop_map(Event::Paste),
        2 => (10_u16..200, 5_u16..60).prop_map(|(columns, rows)| Event::Resize(columns, rows)),
        4 => Just(Event::Record),
    ]
}
