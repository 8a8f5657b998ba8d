//! Owns the tests of terminating processes: who is asked about, what a question names, and what the proof says.

use super::*;

#[test]
fn x_asks_y_signals_and_the_proof_follows() {
    let mut session = Session::with_log();
    session.keys("x");
    let Asked::End(victims, Signal::Term) = &session.model.question.as_ref().unwrap().asked else { panic!() };
    assert_eq!((victims.len(), victims[0].key, victims[0].held), (1, key_of(4242), Some(held())));
    assert_eq!(session.signals(), []);
    session.keys("y");
    assert_eq!(session.signals(), [(4242, Signal::Term)]);
    session.send(Msg::Signal(key_of(4242), SignalReport::Sent));
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(4242, held()), process(5177, Bytes::gib(6))]);
    assert!(matches!(session.ending(), EndingState::Ended { .. }), "the driver still lists it");
    session.now += ms(900);
    session.sample(vec![process(5177, Bytes::gib(6))]);
    let EndingState::Returned { bytes, free_now, .. } = session.ending() else { panic!("{:?}", session.ending()) };
    assert_eq!((*bytes, free_now.len()), (held(), 1));
    assert!(session.sentence().contains("has exited since"), "{}", session.sentence());
    assert_eq!(session.model.current_step().unwrap().fix, "run-again");
}

#[test]
fn a_burst_of_x_and_y_ends_nothing() {
    let mut session = Session::with_holders();
    for character in ['x', 'y'] {
        session.key(KeyCode::Char(character));
        session.now += ms(3);
    }
    session.wait(ms(1000));
    assert_eq!(session.signals(), []);
    assert!(session.model.question.is_none());
    assert!(session.notice().contains("\"xy\""), "{}", session.notice());
}

#[test]
fn x_then_a_quick_y_ends_nothing() {
    let mut session = Session::with_holders();
    session.key(KeyCode::Char('x'));
    session.wait(ms(30));
    assert!(session.model.question.is_some());
    session.wait(ms(200));
    session.key(KeyCode::Char('y'));
    session.wait(ms(1000));
    assert_eq!(session.signals(), []);
}

#[test]
fn n_escape_and_a_paste_leave_the_process_alone() {
    for leave in [KeyCode::Char('n'), KeyCode::Esc] {
        let mut session = Session::with_log();
        session.keys("x");
        session.press(leave);
        session.keys("y");
        assert_eq!((session.signals(), session.model.question.is_some()), (vec![], false));
    }
    let mut session = Session::with_log();
    session.keys("x");
    session.paste("y\n");
    session.keys("y");
    assert_eq!(session.signals(), []);
    // Also one that is too large to come at once.
    let mut session = Session::with_log();
    session.keys("x");
    session.send(Msg::Pasting);
    session.keys("y");
    assert_eq!((session.signals(), session.model.question.is_some()), (vec![], false));
}

#[test]
fn one_that_left_or_was_replaced_while_asked_about_is_not_signalled() {
    let mut other = process(4242, held());
    other.start_ticks = Reading::Known(99);
    for rows in [vec![], vec![other]] {
        let mut session = Session::with_log();
        session.keys("x");
        session.sample(rows);
        session.keys("y");
        assert_eq!(session.signals(), []);
        assert!(session.notice().contains("already ended"), "{}", session.notice());
    }
}

#[test]
fn a_survivor_is_offered_to_be_forced_and_only_asked_for_once_more() {
    let mut session = Session::with_log();
    session.keys("x");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Sent));
    session.send(Msg::Signal(key_of(4242), SignalReport::StillThere(Some('S'))));
    assert!(session.model.question.is_none(), "what is being typed must not answer a question that opens by itself");
    assert!(session.notice().contains("ignored SIGTERM"), "{}", session.notice());
    session.keys("x");
    assert!(matches!(&session.model.question.as_ref().unwrap().asked, Asked::End(_, Signal::Kill)));
    session.keys("y");
    assert_eq!(session.signals(), [(4242, Signal::Term), (4242, Signal::Kill)]);
    session.send(Msg::Signal(key_of(4242), SignalReport::StillThere(Some('D'))));
    assert_eq!(*session.ending(), EndingState::Survived(Some('D')));
}

#[test]
fn a_refusal_at_the_signal_is_shown_and_the_step_stays() {
    let mut session = Session::with_log();
    session.keys("x");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Refused(Refusal::Reused(4242))));
    assert_eq!(*session.ending(), EndingState::Refused(Refusal::Reused(4242)));
    assert_eq!(session.model.current_step().unwrap().target, Some(key_of(4242)));
}

#[test]
fn memory_that_does_not_come_back_is_said_so() {
    let mut session = Session::with_log();
    session.keys("x");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.now += Duration::from_secs(11);
    let mut thief = process(7, held());
    thief.used_bytes = Reading::Known(held());
    session.sample(vec![thief, process(5177, Bytes::gib(6))]);
    assert_eq!(*session.ending(), EndingState::NotReturned { bytes: Bytes::ZERO });
}

#[test]
fn readings_are_rarer_while_nobody_looks_and_the_screen_says_so() {
    let mut session = Session::with_holders();
    let seconds = |session: &Session| session.model.pace().as_secs();
    assert_eq!(seconds(&session), 1);
    for (in_front, on_battery, wanted, said) in [
        (false, false, 5, "every 5 s while not in front"),
        (false, true, 10, "every 10 s on battery, not in front"),
        (true, true, 2, "every 2 s on battery"),
        (true, false, 1, "every 1 s"),
    ] {
        session.send(Msg::InFront(in_front));
        session.send(Msg::OnBattery(on_battery));
        assert_eq!(seconds(&session), wanted);
        let screen = crate::ui::drawn(&session.model);
        assert!(screen.contains(&format!("{said} · ")), "{screen}");
    }
    session.model.config.interval = Duration::from_secs(60);
    session.send(Msg::InFront(false));
    assert_eq!(seconds(&session), 60, "what a person asked for is never made more frequent");
}

#[test]
fn one_that_was_marked_and_is_no_longer_proved_is_not_asked_about() {
    let mut session = Session::with_holders();
    session.press(KeyCode::Char(' '));
    let mut unproved = process(4242, held());
    unproved.proved = false;
    session.sample(vec![unproved, process(5177, Bytes::gib(6))]);
    session.keys("x");
    assert!(session.model.question.is_none());
    assert!(session.notice().contains("can't be proved"), "{}", session.notice());
}

#[test]
fn read_only_takes_no_step_that_ends_something() {
    let mut session = Session::with_log();
    session.model.config.read_only = true;
    session.keys("x");
    assert!(session.model.question.is_none());
    assert!(session.notice().contains("--read-only"), "{}", session.notice());
}

#[test]
fn nothing_is_asked_about_what_may_not_be_ended() {
    let mut foreign = process(4242, held());
    foreign.uid = Reading::Known(1001);
    foreign.user = Reading::Known("bob".into());
    let mut unproved = process(4242, held());
    unproved.proved = false;
    let mut desktop = process(4242, held());
    desktop.command = Reading::Known("/usr/lib/xorg/Xorg :0".into());
    for (row, said) in [(foreign, "belongs to bob"), (unproved, "can't be proved"), (desktop, "left alone")] {
        let mut session = Session::new();
        session.sample(vec![row]);
        session.press(KeyCode::Down);
        session.keys("x");
        assert!(session.model.question.is_none());
        assert!(session.notice().contains(said), "{}", session.notice());
    }
}

#[test]
fn a_recording_another_boot_and_read_only_have_no_kill() {
    let cases: [fn(&mut Model); 3] = [
        |model| model.config.source = Source::Recorded,
        |model| model.config.boot_id = Some("another".into()),
        |model| model.config.read_only = true,
    ];
    for change in cases {
        let mut session = Session::with_holders();
        change(&mut session.model);
        session.keys("x");
        assert!(session.model.question.is_none());
        assert!(session.notice().contains("nothing"), "{}", session.notice());
    }
}

#[test]
fn marked_processes_are_ended_together() {
    let mut session = Session::with_holders();
    session.press(KeyCode::Char(' '));
    session.press(KeyCode::Char(' '));
    assert_eq!(session.model.marked_bytes(), held().plus(Bytes::gib(6)));
    session.keys("x");
    session.keys("y");
    assert_eq!(session.signals(), [(4242, Signal::Term), (5177, Signal::Term)]);
    assert!(session.model.processes.marked.is_empty());
}

#[test]
fn the_selection_stays_on_its_process_and_never_moves_to_another_by_itself() {
    let mut session = Session::with_holders();
    session.press(KeyCode::Down);
    let selected = |session: &Session| session.model.pointed_at().map(|row| row.pid);
    assert_eq!(selected(&session), Some(5177));
    session.sample(vec![process(4242, held()), process(5177, Bytes::gib(20))]);
    assert_eq!(selected(&session), Some(5177), "sorted anew");
    session.sample(vec![process(4242, held())]);
    assert_eq!(selected(&session), None, "it has left");
    session.keys("x");
    assert!(session.model.question.is_none() && session.notice().contains("selected"), "{}", session.notice());
    session.sample(vec![process(4242, held()), process(5177, Bytes::gib(20))]);
    assert_eq!(selected(&session), None, "not until the person moves");
    let reused = GpuProcess { start_ticks: Reading::Known(99), ..process(5177, Bytes::gib(20)) };
    session.select(5177);
    session.sample(vec![process(4242, held()), reused]);
    assert_eq!(selected(&session), None, "another process has its PID");
    session.press(KeyCode::Down);
    assert!(selected(&session).is_some());
}

/// Ends what is selected, which leaves with the next reading.
fn after_a_kill(mut session: Session) -> Session {
    session.keys("xy");
    assert_eq!(session.signals(), [(4242, Signal::Term)]);
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(5177, Bytes::gib(6))]);
    session
}

#[test]
fn a_second_x_after_a_kill_asks_about_no_other_process_unseen() {
    let mut in_the_list = after_a_kill(Session::with_holders());
    in_the_list.keys("x");
    assert!(in_the_list.model.question.is_none() && in_the_list.model.pointed_at().is_none());
    let log = torch_log().replace("Tried to allocate 14.00 GiB", "Tried to allocate 22.00 GiB");
    let mut in_the_steps = Session::with_holders();
    in_the_steps.paste(&log);
    let mut in_the_steps = after_a_kill(in_the_steps);
    if in_the_steps.model.aimed_at() == [key_of(5177)] {
        in_the_steps.key(KeyCode::Char('x'));
        in_the_steps.wait(ms(30));
        assert!(in_the_steps.model.question.is_none(), "it was highlighted just now");
        assert!(in_the_steps.notice().contains("ook again"), "{}", in_the_steps.notice());
    }
}

#[test]
fn a_step_whose_process_changes_by_itself_is_asked_about_only_once_it_can_have_been_seen() {
    let mut session = Session::with_holders();
    session.paste("RuntimeError: CUDA out of memory. Tried to allocate 9.00 GiB (GPU 0; 24.00 GiB total capacity)");
    let aimed = session.model.aimed_at();
    assert_eq!(aimed, [key_of(5177)]);
    assert_eq!(session.model.pointed_at().map(|row| row.pid), Some(5177), "the step's process, not the list's");
    session.sample(vec![process(4242, Bytes::gib(8)), process(5177, Bytes::gib(12))]);
    assert_eq!(session.model.aimed_at(), [key_of(4242)]);
    session.key(KeyCode::Char('x'));
    session.wait(ms(30));
    assert!(session.model.question.is_none(), "meant for the one before, perhaps");
    session.wait(model::UNSEEN);
    session.keys("x");
    assert!(
        matches!(&session.model.question.as_ref().unwrap().asked, Asked::End(victims, _) if victims[0].key.pid == 4242)
    );
}

#[test]
fn only_an_idle_process_of_ones_own_is_ever_selected_or_pointed_at_unasked() {
    let mut busy = process(11, Bytes::gib(9));
    busy.sm_percent = Reading::Known(97);
    let mut theirs = process(12, Bytes::gib(8));
    (theirs.uid, theirs.user) = (Reading::Known(1001), Reading::Known("ada".into()));
    let mut unknown = process(13, Bytes::gib(7));
    (unknown.sm_percent, unknown.cpu_ticks) = (Reading::Unsupported, Reading::Denied);
    let others = vec![busy, theirs, unknown];
    let pointed_at = |rows: &[GpuProcess], uid: u32| {
        let mut session = Session::new();
        session.model.config.viewer.uid = uid;
        watched(&mut session, 20, rows);
        assert_eq!(crate::ui::drawn(&session.model).contains("largest idle"), session.model.pointed_at().is_some());
        session.model.pointed_at().map(|row| row.pid)
    };
    assert_eq!(pointed_at(&others, 1000), None);
    let with_idle = [others, vec![process(14, Bytes::gib(1)), process(15, Bytes::gib(2))]].concat();
    assert_eq!(pointed_at(&with_idle, 1000), Some(15), "the largest idle one");
    assert_eq!(pointed_at(&with_idle, 0), None, "to root they are all somebody else's");
    assert_eq!(pointed_at(&with_idle, 1001), Some(12), "it is theirs, and idle");
    let mut session = Session::new();
    watched(&mut session, 5, &with_idle);
    assert_eq!(session.model.pointed_at(), None, "not watched long enough");
}

#[test]
fn what_the_filter_hides_is_neither_marked_nor_selected_nor_asked_about() {
    let mut session = Session::with_holders();
    let mut other = process(5177, Bytes::gib(6));
    other.command = Reading::Known("ollama runner".into());
    session.sample(vec![process(4242, held()), other]);
    session.keys("  ");
    assert_eq!(session.model.processes.marked.len(), 2);
    session.keys("/ollama");
    session.press(KeyCode::Enter);
    assert_eq!(session.model.processes.marked.iter().map(|key| key.pid).collect::<Vec<_>>(), [5177]);
    session.keys("x");
    let Asked::End(victims, _) = &session.model.question.as_ref().unwrap().asked else { panic!() };
    assert_eq!(victims.iter().map(|victim| victim.key.pid).collect::<Vec<_>>(), [5177]);
    session.press(KeyCode::Esc);
    session.keys(" ");
    session.select(5177);
    session.keys("/train");
    session.press(KeyCode::Enter);
    assert_eq!((session.model.aimed_at(), session.model.pointed_at()), (vec![], None));
    session.press(KeyCode::Esc);
    assert!(session.model.processes.marked.is_empty(), "a mark that was dropped does not come back");
}

/// The lines within the dialog's frame.
fn dialog(session: &Session) -> Vec<String> {
    let screen = crate::ui::drawn(&session.model);
    let mut lines = screen.lines().skip_while(|line| !line.contains("? ━"));
    let title = lines.next().unwrap_or_default();
    let left = title.chars().take_while(|sign| *sign != '?').collect::<String>();
    let left = left.chars().count() - left.chars().rev().take_while(|sign| *sign != '┏').count();
    let lines = lines.take_while(|line| line.chars().nth(left - 1) == Some('┃'));
    lines.map(|line| line.chars().skip(left + 1).take_while(|sign| *sign != '┃').collect()).collect()
}

/// As root, at the question about this process.
fn root_asks_about(row: GpuProcess) -> Session {
    let mut session = Session::new();
    session.model.config.viewer.uid = 0;
    let pid = row.pid;
    watched(&mut session, 20, &[row]);
    session.select(pid);
    session.model.focus = Region::Processes;
    session.keys("x");
    session.read();
    session
}

#[test]
fn another_users_process_is_named_as_theirs_first_and_needs_its_pid() {
    let mut theirs = process(4242, held());
    (theirs.uid, theirs.user) = (Reading::Known(1001), Reading::Known("ada".into()));
    let mut session = root_asks_about(theirs.clone());
    let lines = dialog(&session);
    assert!(lines[0].starts_with("OWNED BY ada, not you"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("[y]")) && lines.iter().any(|line| line.contains("Type 4242")));
    session.keys("y");
    assert!(session.model.question.is_none() && session.signals().is_empty(), "y is no answer");
    session.wait(ms(1000));
    session.keys("x");
    session.read();
    for digit in "4242".chars() {
        session.key(KeyCode::Char(digit));
        session.wait(ms(150));
    }
    assert!(dialog(&session).iter().any(|line| line.contains("4242_")), "{:?}", dialog(&session));
    session.key(KeyCode::Enter);
    session.wait(SETTLE);
    assert_eq!(session.signals(), [(4242, Signal::Term)]);
    let mut wrong = root_asks_about(theirs.clone());
    for key in [KeyCode::Char('4'), KeyCode::Enter] {
        wrong.key(key);
        wrong.wait(ms(500));
    }
    assert!(wrong.model.question.is_none() && wrong.signals().is_empty());
    // Two of them at once can't both be confirmed by one PID.
    let two = [theirs.clone(), GpuProcess { start_ticks: Reading::Known(4343), pid: 4343, ..theirs }];
    let mut both = root_asks_about(process(7, Bytes::gib(1)));
    both.press(KeyCode::Esc);
    both.sample(two.to_vec());
    both.model.processes.marked = two.iter().filter_map(GpuProcess::key).collect();
    both.keys("x");
    assert!(both.model.question.is_none() && both.notice().contains("one at a time"), "{}", both.notice());
}

#[test]
fn the_dialog_says_first_that_a_process_is_busy_and_always_whether_it_works() {
    let with = |sm: Reading<u32>, uid: u32| {
        let mut row = process(4242, held());
        (row.sm_percent, row.uid) = (sm, Reading::Known(uid));
        dialog(&root_asks_about(row))
    };
    let busy = with(Reading::Known(97), 0);
    assert!(busy[0].starts_with("BUSY: 97 % GPU"), "{busy:?}");
    assert!(busy.iter().any(|line| line.contains("busy: 97 % GPU")), "{busy:?}");
    let idle = with(Reading::Known(0), 0);
    assert!(idle[0].starts_with("4242") && idle.iter().any(|line| line.contains("idle ≥ 20 s")), "{idle:?}");
    let theirs_and_busy = with(Reading::Known(97), 1001);
    assert!(theirs_and_busy[0].starts_with("OWNED BY") && theirs_and_busy[1].starts_with("BUSY"));
    let mut unknown = process(4242, held());
    (unknown.sm_percent, unknown.cpu_ticks, unknown.uid) = (Reading::Unsupported, Reading::Denied, Reading::Known(0));
    let unknown = dialog(&root_asks_about(unknown));
    assert!(unknown.iter().any(|line| line.contains("not known yet")), "{unknown:?}");
}

#[test]
fn the_dialog_loses_neither_script_nor_arguments() {
    let command = "/home/ada/miniconda3/envs/sweeps-of-november/bin/python3 -u /data/experiments/vision/train_detector.py --config configs/very/deep/folder/detr.yaml --batch 8";
    let mut row = process(4242, held());
    (row.command, row.uid) = (Reading::Known(command.into()), Reading::Known(0));
    let text: String =
        dialog(&root_asks_about(row)).iter().map(|line| line.trim_end_matches(['┃', ' ', '│'])).collect();
    for part in ["train_detector.py", "detr.yaml", "--batch 8"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn enter_never_asks_about_a_signal_and_copies_the_command() {
    for region in [Region::Processes, Region::Steps] {
        let mut session = Session::with_log();
        session.model.focus = region;
        session.press(KeyCode::Enter);
        assert!(session.model.question.is_none(), "{region:?}");
        assert_eq!(session.effects, [Effect::Copy("oomdoctor kill 4242@4242000".into())], "{region:?}");
        session.send(Msg::Copied(Ok("OSC 52")));
        assert!(session.notice().contains("[x] terminate"), "{}", session.notice());
        assert_eq!(session.model.aimed_at(), [key_of(4242)], "copying is not doing: the step stays");
    }
}

#[test]
fn the_footer_names_whom_x_is_about_and_offers_nothing_that_does_nothing() {
    let footer = |session: &Session| crate::ui::drawn(&session.model).lines().last().unwrap_or_default().to_owned();
    let mut session = Session::with_log();
    assert!(footer(&session).contains("x terminate train.py 4242"), "{}", footer(&session));
    session.send(Msg::Resize(60, 15));
    assert!(footer(&session).contains("x terminate train.py 4242"), "{}", footer(&session));
    session.send(Msg::Resize(120, 40));
    session.model.focus = Region::Input;
    assert!(!footer(&session).contains("terminate"), "{}", footer(&session));
    session.keys("x");
    assert!(session.model.question.is_none());
    for source in [Source::Recorded, Source::Live] {
        let mut session = Session::with_holders();
        session.model.config.source = source;
        assert_eq!(footer(&session).contains("terminate"), source == Source::Live, "{}", footer(&session));
    }
    let mut nothing = Session::new();
    nothing.send(Msg::FeedDown("no driver".into()));
    for word in ["terminate", "mark", "filter", "sort", "copy command"] {
        assert!(!footer(&nothing).contains(word), "{}", footer(&nothing));
    }
}

#[test]
fn pastes_of_every_line_end_become_the_same_log() {
    for end in ["\n", "\r\n", "\r"] {
        let mut session = Session::with_holders();
        session.paste(&torch_log().replace('\n', end));
        assert_eq!(session.model.input.log.as_ref().unwrap().line_count(), 4, "{end:?}");
        assert!(session.model.advice.is_some());
    }
}
