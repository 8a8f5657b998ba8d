//! What ending a launcher or a server makes of its workers: who is named, who is signalled when, and who never.

use super::*;
use crate::gpu::{Holder, ProcessKind};

/// One that works for another.
pub(super) fn works_for(leader: u32, pid: u32, gib: u64) -> GpuProcess {
    let mut row = process(pid, Bytes::gib(gib));
    (row.parent_pid, row.group) = (Reading::Known(leader), Some(key_of(leader)));
    row
}

/// The same as the driver does not list it: a launcher holds nothing, of another it is not known.
pub(super) fn unlisted(row: GpuProcess, used_bytes: Reading<Bytes>) -> GpuProcess {
    GpuProcess { kind: ProcessKind::Unlisted, used_bytes, ..row }
}

pub(super) fn launcher() -> GpuProcess {
    let row = GpuProcess { parent_pid: Reading::Known(900), ..works_for(900, 4100, 0) };
    unlisted(GpuProcess { group: Some(key_of(4100)), ..row }, Reading::Known(Bytes::ZERO))
}

/// A reading of these, each where it belongs.
pub(super) fn reading(rows: Vec<GpuProcess>) -> Snapshot {
    let (unlisted, listed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.kind == ProcessKind::Unlisted);
    let (launchers, open): (Vec<_>, Vec<_>) = unlisted.into_iter().partition(|row| row.used_bytes.known().is_some());
    let holder = |process| Holder { process, devices: vec!["/dev/nvidia0".into()], gpus: vec![0] };
    Snapshot { launchers, holders: open.into_iter().map(holder).collect(), ..machine(0, listed) }
}

fn torchrun() -> Vec<GpuProcess> {
    vec![launcher(), works_for(4100, 4101, 6), works_for(4100, 4102, 5), process(5177, Bytes::gib(6))]
}

fn at_the_launcher(rows: Vec<GpuProcess>) -> Session {
    let mut session = Session::new();
    session.send(Msg::Sample(Box::new(reading(rows))));
    assert_eq!(session.model.rows()[0].process.pid, 4100, "the largest is first");
    session.select(4100);
    session
}

#[test]
fn a_protected_worker_or_server_spares_the_whole_group() {
    let refused = |name: &str, pid: u32| {
        let mut rows = torchrun();
        rows[0].command = Reading::Known("vllm serve org/m".into());
        rows[1].command = Reading::Known("VLLM::EngineCore".into());
        rows[2].command = Reading::Known("python helper.py".into());
        let mut session = at_the_launcher(rows);
        session.model.config.viewer.spared = vec![name.into()];
        session.model.processes.selected = session.model.rows().iter().find(|row| row.id.pid == pid).map(|row| row.id);
        session.keys("x");
        session.model.question.is_none() && session.notice().contains("your configuration protects it")
    };
    assert!(refused("vllm", 4100), "the server itself");
    assert!(refused("vllm", 4102), "a worker of a protected server");
    assert!(refused("helper.py", 4100), "it would take the protected worker with it");
    assert!(!refused("other.py", 4100));
}

/// The launcher and its workers are asked about.
pub(super) fn at_a_question() -> Session {
    let mut session = at_the_launcher(torchrun());
    session.keys("x");
    session
}

/// The same, and a worker joined and another was replaced while the question stands.
pub(super) fn at_a_question_that_others_came_after() -> Session {
    let mut session = at_a_question();
    let mut later = torchrun();
    later[2].start_ticks = Reading::Known(4_100_500);
    later.push(works_for(4100, 4104, 1));
    session.send(Msg::Sample(Box::new(reading(later))));
    session
}

impl Session {
    fn named(&self) -> Vec<u32> {
        match self.model.question.as_ref().map(|question| &question.asked) {
            Some(Asked::End(victims, _)) => victims.iter().map(|victim| victim.key.pid).collect(),
            _ => vec![],
        }
    }

    /// Whom, and whether at once.
    fn signalled(&self) -> Vec<(u32, bool)> {
        let signal = |effect: &Effect| match effect {
            Effect::Signal(order) => Some((order.key.pid, order.follows.is_none())),
            _ => None,
        };
        self.effects.iter().filter_map(signal).collect()
    }
}

#[test]
fn a_launcher_is_asked_about_with_its_workers_and_signalled_first() {
    let mut session = at_the_launcher(torchrun());
    session.keys("x");
    assert_eq!(session.named(), [4100, 4101, 4102]);
    assert_eq!(session.signalled(), []);
    session.keys("y");
    assert_eq!(session.signalled(), [(4100, true), (4101, false), (4102, false)]);
    for pid in [4100, 4101, 4102] {
        session.send(Msg::Signal(key_of(pid), SignalReport::Ended(ms(200))));
    }
    session.send(Msg::Sample(Box::new(reading(vec![process(5177, Bytes::gib(6))]))));
    session.send(Msg::Resize(200, 60));
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.contains("(4100) and its 2 workers have exited: freed 11.0 GiB"), "{screen}");
}

#[test]
fn who_joined_after_the_question_is_not_signalled_and_who_left_is_not_either() {
    let mut session = at_the_launcher(torchrun());
    session.keys("x");
    let mut later = torchrun();
    later[2].start_ticks = Reading::Known(99);
    later.push(works_for(4100, 4103, 1));
    session.send(Msg::Sample(Box::new(reading(later))));
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.contains("1 more works for it but gets no signal: 4103 (not asked about)."), "{screen}");
    session.keys("y");
    assert_eq!(
        session.signalled(),
        [(4100, true), (4101, false)],
        "4102 is another process by now, 4103 was not named"
    );
    assert_eq!(session.notice(), "4102 has already ended.");
}

#[test]
fn where_the_launcher_has_gone_nobody_waits_for_it() {
    let mut session = at_the_launcher(torchrun());
    session.keys("x");
    session.send(Msg::Sample(Box::new(reading(torchrun().split_off(1)))));
    session.keys("y");
    assert_eq!(session.signalled(), [(4101, true), (4102, true)]);
}

#[test]
fn where_the_launcher_is_refused_nobody_who_works_for_it_is_signalled() {
    let refused = |change: fn(&mut GpuProcess)| {
        let mut session = at_the_launcher(torchrun());
        session.keys("x");
        let mut later = torchrun();
        change(&mut later[0]);
        session.send(Msg::Sample(Box::new(reading(later))));
        session.keys("y");
        assert_eq!(session.signalled(), []);
        session.notice().to_owned()
    };
    let others = refused(|launcher| launcher.uid = Reading::Known(1001));
    assert!(others.contains("4100 belongs to") && others.ends_with("Its 2 workers were left alone, too."));
    let exec = refused(|launcher| launcher.command = Reading::Known("bash".into()));
    assert!(exec.contains("4100 calls itself bash now, so look again"), "{exec}");
}

#[test]
fn one_that_runs_another_program_by_now_is_asked_about_anew_under_its_new_name() {
    let mut session = Session::with_holders();
    session.keys("x");
    let mut later = process(4242, held());
    later.command = Reading::Known("python other.py".into());
    session.sample(vec![later]);
    session.keys("y");
    assert_eq!(session.signals(), []);
    assert!(session.notice().contains("4242 calls itself python other.py now"), "{}", session.notice());
    session.keys("xy");
    let Some(Effect::Signal(order)) = session.effects.last() else { panic!("it can be ended") };
    assert_eq!((order.key.pid, order.ran.command.as_str()), (4242, "python other.py"));
}

#[test]
fn one_whose_title_counts_on_is_ended_and_one_that_runs_another_program_is_not() {
    let called = |command: &str, image: u32| {
        let row = process(4242, held());
        GpuProcess { command: Reading::Known(command.into()), image: Some(image), ..row }
    };
    let yes_when = |later: GpuProcess| {
        let mut session = Session::with_holders();
        session.sample(vec![called("worker: step 41", 7)]);
        session.keys("x");
        session.sample(vec![later]);
        session.keys("y");
        session
    };
    let session = yes_when(called("worker: step 42", 7));
    let Some(Effect::Signal(order)) = session.effects.last() else { panic!("{}", session.notice()) };
    assert_eq!(order.ran, called("worker: step 41", 7).running(), "the signal is for what was confirmed");
    for later in [called("worker: step 42", 8), called("worker: saving", 7)] {
        let session = yes_when(later);
        assert_eq!(session.signals(), []);
        assert!(session.notice().contains("calls itself worker"), "{}", session.notice());
    }
}

#[test]
fn one_worker_is_ended_alone_and_the_question_says_whose_it_is() {
    let mut session = at_the_launcher(torchrun());
    session.press(KeyCode::Down);
    session.keys("x");
    assert_eq!(session.named(), [4101]);
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.contains("works for") && screen.contains("(4100)"), "{screen}");
    session.keys("y");
    assert_eq!(session.signalled(), [(4101, true)]);
}

#[test]
fn another_users_worker_is_left_out_and_a_launcher_of_theirs_refused() {
    let mut rows = torchrun();
    rows[1].uid = Reading::Known(1001);
    let mut session = at_the_launcher(rows.clone());
    session.keys("x");
    assert_eq!(session.named(), [4100, 4102]);
    let screen = crate::ui::drawn(&session.model);
    assert!(screen.contains("1 more works for it but gets no signal: 4101 (ada's)."), "{screen}");
    rows[0].uid = Reading::Known(1001);
    let mut session = at_the_launcher(rows);
    session.keys("x");
    assert_eq!(session.named(), [0; 0]);
    assert!(session.notice().contains("belongs to"), "{}", session.notice());
}

#[test]
fn who_stays_is_forced_after_a_second_yes_and_only_who_stayed() {
    let mut session = at_the_launcher(torchrun());
    session.keys("xy");
    session.effects.clear();
    session.send(Msg::Signal(key_of(4100), SignalReport::StillThere(Some('S'))));
    session.send(Msg::Signal(key_of(4101), SignalReport::Ended(ms(900))));
    session.send(Msg::Signal(key_of(4102), SignalReport::StillThere(Some('S'))));
    assert_eq!(session.signals(), [], "nothing is forced by itself");
    session.keys("x");
    assert!(matches!(&session.model.question.as_ref().unwrap().asked, Asked::End(_, Signal::Kill)));
    assert_eq!(session.named(), [4100, 4102]);
    session.keys("y");
    assert_eq!(session.signals(), [(4100, Signal::Kill), (4102, Signal::Kill)]);
    assert_eq!(session.signalled(), [(4100, true), (4102, true)], "what is forced ends nobody itself");
}

#[test]
fn marked_with_its_launcher_a_worker_still_waits_for_it() {
    let mut session = at_the_launcher(torchrun());
    session.press(KeyCode::Down);
    session.keys(" ");
    session.press(KeyCode::Home);
    for _ in 0..4 {
        session.press(KeyCode::Up);
    }
    session.keys(" ");
    assert_eq!(session.model.processes.marked.len(), 2);
    session.keys("x");
    assert_eq!(session.named(), [4100, 4101, 4102]);
    session.keys("y");
    assert_eq!(session.signalled(), [(4100, true), (4101, false), (4102, false)]);
}

#[test]
fn a_group_that_the_screen_can_not_name_whole_takes_no_yes_until_it_can() {
    let many = (0..60).map(|at| works_for(4100, 4200 + at, 1));
    let mut session = at_the_launcher(std::iter::once(launcher()).chain(many).collect());
    session.send(Msg::Resize(60, 15));
    session.keys("x");
    session.keys("y");
    assert_eq!((session.signalled(), session.notice().contains("larger")), (vec![], true), "{}", session.notice());
    session.send(Msg::Resize(120, 60));
    assert_eq!(session.named().len(), 61);
    session.read();
    let screen = crate::ui::drawn(&session.model);
    assert!(
        (4200..4260).all(|pid| screen.contains(&pid.to_string())) && screen.contains("[y] terminate all"),
        "{screen}"
    );
    session.send(Msg::Resize(60, 15));
    session.keys("y");
    assert_eq!(session.signalled(), [], "nobody answers what they can't read");
    session.send(Msg::Resize(120, 60));
    session.key(KeyCode::Char('y'));
    session.wait(ms(100));
    assert_eq!(session.signalled(), [], "it was not on the screen yet");
    session.keys("y");
    assert_eq!(session.signalled().len(), 61);
}

#[test]
fn who_is_not_listed_can_be_ended_and_what_comes_back_is_seen() {
    let orphan = unlisted(process(6101, Bytes::ZERO), Reading::NotAvailable);
    let mut session = Session::new();
    let mut before = reading(vec![orphan]);
    before.devices[0].memory.free_bytes = Reading::Known(Bytes::gib(9));
    before.devices[0].unaccounted_bytes = Reading::Known(Bytes::gib(11));
    session.send(Msg::Sample(Box::new(before)));
    session.select(6101);
    session.keys("x");
    assert_eq!(session.named(), [6101]);
    session.keys("y");
    assert_eq!(session.signalled(), [(6101, true)]);
    session.send(Msg::Signal(key_of(6101), SignalReport::Ended(ms(3))));
    let mut after = reading(vec![]);
    after.devices[0].memory.free_bytes = Reading::Known(Bytes::gib(20));
    session.send(Msg::Sample(Box::new(after)));
    let EndingState::Returned { bytes, .. } = session.ending() else { panic!("{:?}", session.ending()) };
    assert_eq!(*bytes, Bytes::gib(11));
}
