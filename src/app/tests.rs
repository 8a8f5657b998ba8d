//! What a sequence of messages makes of the program: triples of before, messages and after, and the property that no
//! sequence at all signals a process, or asks its program, that was not named, confirmed, alive and the same.

pub(crate) mod fit;
mod groups;
mod typing;

use std::sync::LazyLock;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

use groups::{launcher, reading, unlisted, works_for};

use super::last::{Kept, Story};
use super::model::{Change, Config, Pipe, Region, Seen, SinceItWorked, Source};
use super::msg::{LogRead, SignalReport};
use super::overlay::commands::Commands;
use super::overlay::report::WrittenReport;
use super::overlay::trial::FitTrial;
use super::overlay::uncopied::Uncopied;
use super::overlay::{Body, Line};
use super::question::{Asked, READ, SETTLE, SETTLE_REQUEST};
use super::walk::StepId;
use super::walk::{EndingState, Mark};
use super::*;
use crate::gpu::guard::{Refusal, Signal, Viewer};
use crate::gpu::testing::{device, noon_plus, process, snapshot};
use crate::gpu::{GpuProcess, Header, ProcessKey, Reading, Snapshot};
use crate::knowledge::FixId;
use crate::knowledge::KnowledgeBase;
use crate::knowledge::page;
use crate::log::PastedLog;
use crate::ui::picture::testing::Terminal;
use crate::units::Bytes;

/// Loaded once for all tests.
static BASE: LazyLock<KnowledgeBase> = LazyLock::new(|| KnowledgeBase::built_in().unwrap());

/// A person at a terminal: time passes between what they do.
#[derive(Clone)]
pub(crate) struct Session {
    /// What the program knows.
    pub model: Model,
    now: Duration,
    effects: Vec<Effect>,
    /// What was kept for the next start: seen apart, since every log and every step is.
    kept: Vec<Kept>,
    draws: bool,
    /// The question that was drawn last, on which size, and what could be seen of it.
    seen: Option<((u16, u16), Asked, Seen)>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn held() -> Bytes {
    Bytes::mib(11_500)
}

pub(crate) fn key_of(pid: u32) -> ProcessKey {
    process(pid, Bytes::ZERO).key().unwrap()
}

/// What the open overlay says.
fn text_on_top(session: &Session) -> String {
    let open = session.model.overlay.as_ref().unwrap();
    let Body::Text(lines) = open.overlay.body(&session.model) else { panic!("{open:?} is not read") };
    let texts = lines.into_iter().map(|line| match line {
        Line::Text(_, text) => text,
        Line::Keys(keys) => format!("{keys:?}"),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn machine(second: i64, rows: Vec<GpuProcess>) -> Snapshot {
    Snapshot { devices: vec![device(0, rows)], ..snapshot(second) }
}

/// PyTorch's message naming 4242, which holds 11 500 MiB of a 24 GiB card.
pub(crate) fn torch_log() -> String {
    "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 6.10 GiB is free. Process 4242 has 11.23 GiB memory in use. Process 5177 has 6.00 GiB memory in use. Including non-PyTorch memory, this process has 307.00 MiB memory in use. Of the allocated memory 200.00 MiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n".to_owned()
}

impl Session {
    pub(crate) fn new() -> Session {
        let config = Config {
            viewer: Viewer { uid: 1000, lineage: vec![900, 1], ..Viewer::default() },
            boot_id: Some("boot".into()),
            ..Config::default()
        };
        let mut session = Session {
            model: Model::new(config, (120, 40), noon_plus(0)),
            now: Duration::ZERO,
            effects: vec![],
            kept: vec![],
            draws: true,
            seen: None,
        };
        session.send(Msg::Header(Header { schema: 1, program: "oomdoctor".into(), boot_id: Some("boot".into()) }));
        session
    }

    /// With the process that the log names and another one on the GPU.
    pub(crate) fn with_holders() -> Session {
        let mut session = Session::new();
        session.sample(vec![process(4242, held()), process(5177, Bytes::gib(6))]);
        session.select(4242);
        session
    }

    /// As a person selects a process in the list.
    pub(crate) fn select(&mut self, pid: u32) {
        self.model.processes.selected = self.model.rows().iter().find(|row| row.id.pid == pid).map(|row| row.id);
        self.model.processes.was_selected = true;
    }

    /// The same, its log pasted and read.
    pub(crate) fn with_log() -> Session {
        let mut session = Session::with_holders();
        session.paste(&torch_log());
        session
    }

    pub(crate) fn send(&mut self, msg: Msg) {
        let cx = Cx { now: self.now, wall: noon_plus(0) };
        let effects = update(&mut self.model, msg, &cx);
        for effect in effects {
            match effect {
                Effect::Keep(kept) => self.kept.push(*kept),
                effect => self.effects.push(effect),
            }
        }
        // A terminal that keeps up draws what it is told.
        if self.draws {
            let shown = self.drawn();
            update(&mut self.model, Msg::Drawn(shown), &cx);
        }
    }

    /// What is kept for the next start, as it is read then.
    fn brought_back(&self) -> Session {
        let kept = self.kept.last().unwrap();
        let mut session = Session::new();
        let effect = update::open_last(&mut session.model, kept.log.raw().to_owned(), stored(&kept.story));
        session.effects.push(effect);
        session.read_logs();
        session
    }

    /// What the screen shows of a question.
    fn drawn(&mut self) -> Seen {
        let Some(question) = &self.model.question else { return Seen::default() };
        let size = self.model.size;
        if self.seen.as_ref().is_none_or(|(then, asked, _)| (*then, asked) != (size, &question.asked)) {
            let (_, shown) = crate::ui::view(&self.model);
            self.seen = Some((size, question.asked.clone(), shown));
        }
        self.seen.as_ref().map(|(.., shown)| shown.clone()).unwrap_or_default()
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.send(Msg::Tick);
    }

    /// The first processes were watched for 20 s without any use.
    pub(crate) fn sample(&mut self, rows: Vec<GpuProcess>) {
        if self.model.snapshot().is_none() {
            self.send(Msg::Sample(Box::new(machine(-20, rows.clone()))));
        }
        self.send(Msg::Sample(Box::new(machine(0, rows))));
    }

    /// A key at this moment.
    fn key(&mut self, code: KeyCode) {
        self.send(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE), self.now));
    }

    /// Waits until what is asked can be answered.
    pub(crate) fn read(&mut self) {
        self.wait(READ);
    }

    /// Presses a key as a person does: alone, and where something is asked, once it can be answered.
    pub(crate) fn press(&mut self, code: KeyCode) {
        let asked = self.model.question.as_ref().map(|question| &question.asked);
        let (before, after) = match (asked, code) {
            (Some(Asked::Release(..)), _) => (READ, SETTLE_REQUEST),
            (Some(_), _) => (READ, SETTLE),
            (None, KeyCode::Enter) => (gate::APART_FROM_ENTER, ms(30)),
            (None, _) => (ms(450), ms(30)),
        };
        self.wait(before);
        if before == gate::APART_FROM_ENTER
            && let Some(snapshot) = self.model.snapshot().cloned()
        {
            // Readings go on meanwhile.
            self.send(Msg::Sample(Box::new(snapshot)));
        }
        self.key(code);
        self.wait(after);
    }

    /// Keys as a console sends a paste: at once, and `end` for each line end.
    fn burst(&mut self, text: &str, end: &[KeyEvent]) {
        for character in text.chars() {
            let one = [KeyEvent::from(KeyCode::Char(character))];
            for key in if character == '\n' { end } else { &one } {
                self.send(Msg::Key(*key, self.now));
            }
            self.now += Duration::from_micros(300);
        }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        for character in keys.chars() {
            self.press(KeyCode::Char(character));
        }
    }

    /// Pastes, and reads what the program asks to be read.
    pub(crate) fn paste(&mut self, text: &str) {
        self.send(Msg::Paste(text.to_owned()));
        self.read_logs();
    }

    fn read_logs(&mut self) {
        let base = &*BASE;
        for effect in std::mem::take(&mut self.effects) {
            let (generation, text) = match effect {
                Effect::ReadLog { generation, text } => (generation, text),
                Effect::ReadLogThatWorked(text) => {
                    let run = base.run_that_worked(&PastedLog::new(text)).map_err(str::to_owned);
                    self.send(Msg::RunThatWorked(Box::new(run)));
                    continue;
                }
                other => {
                    self.effects.push(other);
                    continue;
                }
            };
            let log = PastedLog::new(text);
            let diagnosis = base.diagnose(&log, None);
            let fixes = base.leading_fixes(&diagnosis);
            let pages = page::of_matches(base, &diagnosis);
            let log = std::sync::Arc::new(log);
            self.send(Msg::LogRead(Box::new(LogRead { generation, log, diagnosis, fixes, pages, written: None })));
        }
    }

    /// What was asked for so far.
    pub(crate) fn effects(&self) -> &[Effect] {
        &self.effects
    }

    fn signals(&self) -> Vec<(u32, Signal)> {
        let signal = |effect: &Effect| match effect {
            Effect::Signal(order) => Some((order.key.pid, order.signal)),
            _ => None,
        };
        self.effects.iter().filter_map(signal).collect()
    }

    fn notice(&self) -> &str {
        self.model.notice.as_ref().map_or("", |(text, _)| text)
    }

    fn sentence(&self) -> &str {
        self.model.advice.as_ref().map_or("", |advice| &advice.verdict.sentence)
    }

    fn ending(&self) -> &EndingState {
        &self.model.endings[0].state
    }
}

#[test]
fn a_pasted_log_that_names_a_living_holder_makes_ending_it_the_first_step() {
    let session = Session::with_log();
    assert!(session.sentence().contains("(4242) has 11.2 GiB"), "{}", session.sentence());
    let step = session.model.current_step().unwrap();
    assert_eq!((step.fix.as_str(), step.target), ("end-holder", Some(key_of(4242))));
    assert_eq!(session.model.focus, Region::Steps);
}

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
fn what_is_awaited_and_whoever_comes_back_is_not_kept_waiting() {
    let mut session = Session::with_log();
    session.send(Msg::InFront(false));
    session.wait(Duration::from_secs(9));
    assert_eq!(session.model.silent_for(), None, "a reading in five seconds is no silence");
    session.send(Msg::InFront(true));
    assert_eq!(session.model.silent_for(), None, "nor is the one that was asked for just now late");
    session.wait(Duration::from_secs(3));
    assert_eq!(session.model.silent_for(), Some(Duration::from_secs(12)), "counted from the last that came");

    let mut session = Session::with_log();
    session.send(Msg::InFront(false));
    session.keys("x");
    assert_eq!(session.model.pace().as_secs(), 1, "who presses keys is there");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Sent));
    session.send(Msg::InFront(false));
    assert_eq!(session.model.pace().as_secs(), 1, "the end of a process is watched");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(5177, Bytes::gib(6))]);
    assert_eq!(session.model.pace().as_secs(), 5, "its memory is back");
}

#[test]
fn half_of_it_is_no_proof() {
    let mut session = Session::with_log();
    session.keys("x");
    session.keys("y");
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(7, Bytes::mib(5_500)), process(5177, Bytes::gib(6))]);
    assert!(matches!(session.ending(), EndingState::Ended { .. }), "{:?}", session.ending());
    session.now += Duration::from_secs(11);
    session.sample(vec![process(7, Bytes::mib(5_500)), process(5177, Bytes::gib(6))]);
    assert_eq!(*session.ending(), EndingState::NotReturned { bytes: Bytes::mib(6_000) });
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
    let selected = |session: &Session| session.model.highlighted().map(|row| row.pid);
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
    assert!(in_the_list.model.question.is_none() && in_the_list.model.highlighted().is_none());
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
    assert_eq!(session.model.highlighted().map(|row| row.pid), Some(5177), "the step's process, not the list's");
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

/// Readings over this many seconds.
fn watched(session: &mut Session, seconds: i64, rows: &[GpuProcess]) {
    for second in 0..=seconds {
        session.send(Msg::Sample(Box::new(machine(second, rows.to_vec()))));
    }
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
        assert_eq!(crate::ui::drawn(&session.model).contains("Largest idle"), session.model.highlighted().is_some());
        session.model.highlighted().map(|row| row.pid)
    };
    assert_eq!(pointed_at(&others, 1000), None);
    let with_idle = [others, vec![process(14, Bytes::gib(1)), process(15, Bytes::gib(2))]].concat();
    assert_eq!(pointed_at(&with_idle, 1000), Some(15), "the largest idle one");
    assert_eq!(pointed_at(&with_idle, 0), None, "to root they are all somebody else's");
    assert_eq!(pointed_at(&with_idle, 1001), Some(12), "it is theirs, and idle");
    let mut session = Session::new();
    watched(&mut session, 5, &with_idle);
    assert_eq!(session.model.highlighted(), None, "not watched long enough");
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
    assert_eq!((session.model.aimed_at(), session.model.highlighted()), (vec![], None));
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
fn bytes_that_two_gave_back_are_counted_once() {
    let mut session = Session::with_holders();
    session.press(KeyCode::Char(' '));
    session.press(KeyCode::Char(' '));
    session.keys("x");
    session.keys("y");
    for pid in [4242, 5177] {
        session.send(Msg::Signal(key_of(pid), SignalReport::Ended(ms(3))));
    }
    session.sample(vec![]);
    let back: Vec<Bytes> = session.model.endings.iter().map(|ending| ending.returned_since(Duration::ZERO)).collect();
    assert_eq!(back, [held(), Bytes::gib(6)]);
    let noted = |effect: &Effect| match effect {
        Effect::NoteMemory(key, bytes) => Some((key.pid, *bytes)),
        _ => None,
    };
    let noted: Vec<_> = session.effects.iter().filter_map(noted).collect();
    assert_eq!(noted, [(4242, held()), (5177, Bytes::gib(6))]);
    session.sample(vec![]);
    let again = session.effects.iter().filter(|effect| matches!(effect, Effect::NoteMemory(..))).count();
    assert_eq!(again, 2, "each is noted once");
}

#[test]
fn a_log_of_ones_own_is_not_replaced_by_the_pipe_or_an_offer() {
    let mut session = Session::with_holders();
    session.send(Msg::Stdin { text: Some("epoch 1".into()), closed: false });
    session.read_logs();
    session.paste("mine");
    session.keys("r");
    session.read_logs();
    session.send(Msg::Stdin { text: Some("epoch 1\nepoch 2".into()), closed: false });
    session.send(Msg::Offered("the demo's".into()));
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "mine");
    session.model.focus = Region::Input;
    session.keys("u");
    session.read_logs();
    assert_eq!(session.model.input.log.as_ref().unwrap().raw(), "epoch 1\nepoch 2");
}

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
fn a_key_that_changes_the_fixes_only_uncovers_them_where_a_page_lies_on_top() {
    for key in [KeyCode::Char('s'), KeyCode::Char('n'), KeyCode::Backspace] {
        let mut session = Session::with_log();
        session.press(KeyCode::Char('s'));
        let behind = session.model.walk.behind.len();
        session.press(KeyCode::Char('v'));
        assert!(session.model.overlay.is_some());
        session.press(key);
        assert_eq!((session.model.overlay.is_none(), session.model.walk.behind.len()), (true, behind), "{key:?}");
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

/// The file that was opened at the start, as it reads now.
fn file_reads(session: &mut Session, text: &str) {
    let Some(Effect::ReadFile { generation, .. }) = session.effects.pop() else { panic!("nothing is to be read") };
    let (base, log) = (&*BASE, PastedLog::new(text));
    let diagnosis = base.diagnose(&log, None);
    let (fixes, pages) = (base.leading_fixes(&diagnosis), page::of_matches(base, &diagnosis));
    let log = std::sync::Arc::new(log);
    let written = Some(session.model.wall);
    session.send(Msg::LogRead(Box::new(LogRead { generation, log, diagnosis, fixes, pages, written })));
}

fn with_file(text: &str) -> Session {
    let mut session = Session::with_holders();
    let effect = update::open_file(&mut session.model, "/jobs/slurm-1234.out".into());
    session.effects.push(effect);
    file_reads(&mut session, text);
    session
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
fn moving_to_a_process_and_asking_about_it_at_once_asks_and_no_more() {
    let mut session = Session::with_holders();
    let second = session.model.rows()[1].process.key().unwrap();
    session.wait(ms(500));
    [KeyCode::Char('j'), KeyCode::Char('x')].iter().for_each(|code| session.key(*code));
    session.wait(ms(200));
    let asked = session.model.question.as_ref().map(|question| &question.asked);
    assert!(matches!(asked, Some(Asked::End(victims, _)) if victims[0].key == second), "{asked:?}");
    assert_eq!(session.signals(), []);
    // A yes in the same piece is none, and what moves elsewhere asks nothing.
    for burst in
        [[KeyCode::Char('j'), KeyCode::Enter, KeyCode::Char('y')], [KeyCode::Tab, KeyCode::Tab, KeyCode::Enter]]
    {
        let mut session = Session::with_holders();
        session.wait(ms(500));
        burst.iter().for_each(|code| session.key(*code));
        session.wait(ms(1000));
        assert!(session.model.question.is_none() && session.effects.is_empty(), "{burst:?}");
    }
}

proptest! {
    #[test]
    fn no_burst_of_keys_takes_skips_or_leaves_anything_or_answers_what_it_asks(
        keys in prop::collection::vec(prop::char::range(' ', '~').prop_map(|c| if c == '~' { KeyCode::Enter } else if c == '!' { KeyCode::Tab } else { KeyCode::Char(c) }), 2..=3),
        region in prop_oneof![Just(Region::Processes), Just(Region::Input), Just(Region::Steps)]
    ) {
        // A letter that repeats moves more than once, as when it is held down; a head that moves acts at once.
        let mut session = Session::with_log();
        session.model.focus = region;
        let ahead = session.model.steps_ahead().len();
        session.wait(ms(500));
        keys.iter().for_each(|code| session.key(*code));
        session.wait(ms(30));
        session.wait(ms(500));
        prop_assert!(session.effects.iter().all(|effect| matches!(effect, Effect::LoadKnowledge)), "{:?}", session.effects);
        let asks = region == Region::Processes && matches!(keys.last(), Some(KeyCode::Char('x')));
        prop_assert!(session.model.question.is_none() || asks, "{:?}", session.model.question);
        prop_assert!(session.model.walk.behind.is_empty());
        prop_assert_eq!(session.model.steps_ahead().len(), ahead);
        prop_assert!(!session.model.leaving);
    }
}

#[test]
fn ctrl_c_again_and_again_leaves_whatever_is_open() {
    let ctrl_c = |session: &mut Session| {
        session.wait(ms(50));
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        session.send(Msg::Key(key, session.now));
        session.effects.contains(&Effect::Quit)
    };
    let mut walking = Session::with_log();
    walking.press(KeyCode::Char('s'));
    assert!(!ctrl_c(&mut walking) && walking.model.question.is_some());
    assert!(ctrl_c(&mut walking));
    let mut asked = Session::with_log();
    asked.press(KeyCode::Char('s'));
    asked.model.focus = Region::Processes;
    asked.press(KeyCode::Char('x'));
    assert!(!ctrl_c(&mut asked) && asked.model.question.is_none(), "a no");
    assert!(!ctrl_c(&mut asked) && ctrl_c(&mut asked));
    assert_eq!(asked.signals(), []);
    let mut filtering = Session::with_holders();
    filtering.press(KeyCode::Char('/'));
    assert!(!ctrl_c(&mut filtering) && ctrl_c(&mut filtering));
}

#[test]
fn a_second_q_leaves_and_two_in_one_burst_do_not() {
    let mut session = Session::with_log();
    session.press(KeyCode::Char('s'));
    session.key(KeyCode::Char('q'));
    session.key(KeyCode::Char('q'));
    session.wait(ms(1000));
    assert!(session.model.question.is_none() && !session.effects.contains(&Effect::Quit));
    session.press(KeyCode::Char('q'));
    session.press(KeyCode::Char('q'));
    session.wait(ms(300));
    assert!(session.effects.contains(&Effect::Quit));
}

#[test]
fn a_file_that_grows_is_read_again_and_its_failure_is_seen() {
    let mut session = with_file("step 1\n");
    assert!(session.model.current_step().is_none());
    session.send(Msg::FileChanged(Change::Grew(4)));
    file_reads(&mut session, &format!("step 1\n{}", torch_log()));
    assert!(session.sentence().contains("(4242) has 11.2 GiB"), "{}", session.sentence());
    session.keys("x");
    session.send(Msg::FileChanged(Change::Grew(4)));
    assert!(session.effects.is_empty() && session.model.question.is_some(), "not while something is asked");
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
fn a_log_that_cannot_be_read_is_said_and_makes_room_for_another() {
    let mut session = Session::new();
    let effect = update::open_file(&mut session.model, "/tmp".into());
    let Effect::ReadFile { generation, .. } = effect else { panic!() };
    session.send(Msg::Unread(generation, "/tmp can't be read: is a directory".into()));
    assert!(crate::ui::drawn(&session.model).contains("is a directory"));
    session.paste(&torch_log());
    assert!(session.model.question.is_none() && session.model.advice.is_some());
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
fn what_may_be_enough_is_tried_before_more_is_changed() {
    let mut session = Session::with_log();
    session.keys("ss");
    let mut step = session.model.current_step().unwrap().clone();
    step.may_be_enough = true;
    session.model.walk.leave(&step, Mark::Skipped);
    assert!(!session.model.walk.enough_taken(), "skipped");
    session.model.walk.leave(&step, Mark::Taken);
    advise::advise_anew(&mut session.model);
    let next = session.model.current_step().unwrap().clone();
    assert_eq!(next.fix, FixId::RUN_AGAIN);
    session.press(KeyCode::Enter);
    assert!(!session.model.walk.enough_taken(), "it was tried");
    assert_ne!(session.model.current_step().map(|step| step.fix), Some(FixId::RUN_AGAIN));
}

#[test]
fn once_the_memory_is_free_the_next_step_is_to_run_again_whatever_was_selected() {
    let mut session = Session::with_log();
    let first = offered_change(&session);
    session.model.walk.cursor = Some(first.clone());
    session.press(KeyCode::Enter);
    session.model.walk.cursor = Some(offered_change(&session));
    session.sample(vec![process(4242, held()), process(5177, Bytes::gib(6))]);
    assert_ne!(session.model.current_step().map(StepId::of), Some(first), "what is read stays");
    assert!(session.model.current_step().is_some_and(|step| step.target.is_none()), "what is read stays");
    session.sample(vec![process(5177, Bytes::gib(6))]);
    assert_eq!(session.model.current_step().map(|step| step.fix), Some(FixId::RUN_AGAIN));
}

/// The first step ahead that changes the run.
fn offered_change(session: &Session) -> StepId {
    let ahead = session.model.steps_ahead();
    ahead.into_iter().find(|step| step.target.is_none() && step.waits_for.is_none()).map(StepId::of).unwrap()
}

#[test]
fn a_second_failure_takes_back_that_a_step_may_be_enough() {
    let mut session = Session::with_log();
    let mut step = session.model.current_step().unwrap().clone();
    (step.may_be_enough, step.target) = (true, None);
    session.model.walk.leave(&step, Mark::Taken);
    assert!(session.model.walk.enough_taken());
    session.keys("e");
    assert!(!session.model.walk.enough_taken());
}

#[test]
fn the_step_a_person_reads_stays_theirs_whatever_a_reading_adds_above_it() {
    let mut session = Session::with_holders();
    let log = torch_log().replace("Process 4242", "It says 4242").replace("Process 5177", "It says 5177");
    session.sample(vec![]);
    session.paste(&log);
    session.keys("s");
    let read = session.model.current_step().unwrap().fix;
    // The same processes as before the crash, seen again and idle: terminating one becomes a fix, above the others.
    let again = || vec![process(4242, held()), process(5177, Bytes::gib(6))];
    session.sample(again());
    session.send(Msg::Sample(Box::new(machine(20, again()))));
    let ahead: Vec<FixId> = session.model.steps_ahead().iter().map(|step| step.fix).collect();
    assert!(ahead.first().is_some_and(|first| first == "end-holder"), "{ahead:?}");
    assert_eq!(session.model.current_step().unwrap().fix, read);
}

#[test]
fn a_silent_driver_is_said_with_the_age_of_the_last_reading_and_q_leaves_at_once() {
    let mut session = Session::with_holders();
    session.wait(ms(2900));
    assert_eq!(session.model.silent_for(), None);
    session.wait(ms(200));
    assert_eq!(session.model.silent_for(), Some(ms(3100)));
    session.sample(vec![]);
    assert_eq!(session.model.silent_for(), None);
    session.wait(Duration::from_secs(60));
    session.keys("q");
    assert_eq!(session.effects, [Effect::Quit]);
}

#[test]
fn leaving_asks_once_while_something_is_open() {
    let mut session = Session::with_log();
    session.keys("sq");
    assert!(matches!(&session.model.question.as_ref().unwrap().asked, Asked::Quit(_)));
    session.keys("y");
    assert_eq!(session.effects, [Effect::Quit]);
    let mut session = Session::new();
    session.send(Msg::Stdin { text: Some("epoch 1".into()), closed: false });
    session.effects.clear();
    assert_eq!(session.model.input.pipe, Pipe::Open);
    session.keys("q");
    session.keys("y");
    assert_eq!(session.effects, [Effect::Quit]);
}

#[test]
fn termination_leaves_without_asking() {
    let mut session = Session::with_log();
    session.keys("x");
    session.send(Msg::Terminate);
    assert_eq!(session.effects, [Effect::Quit]);
}

#[test]
fn a_newer_schema_is_refused_by_name() {
    let mut session = Session::new();
    session.send(Msg::Header(Header { schema: 2, program: "x".into(), boot_id: None }));
    assert!(session.model.feed.down.as_ref().unwrap().contains("schema 2"));
}

/// 5177 as an Ollama runner of this user.
fn runner(uid: u32) -> GpuProcess {
    let mut runner = process(5177, Bytes::gib(6));
    runner.recognised_as = Some("Ollama runner llama3.1:8b".into());
    runner.uid = Reading::Known(uid);
    runner
}

/// At the step that gets back the memory of this one, which the log names beside 4242.
fn at_the_step_of(row: GpuProcess) -> Session {
    let mut session = Session::new();
    session.sample(vec![process(4242, held()), row]);
    session.paste(&torch_log());
    session.keys("s");
    session
}

/// The same, its program asked after a yes.
fn asked_to_let_go(row: GpuProcess) -> Session {
    let mut session = at_the_step_of(row);
    session.press(KeyCode::Enter);
    session.keys("y");
    session
}

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

/// 4242 with a supervisor.
fn under(manager: Option<&str>) -> GpuProcess {
    let mut row = process(4242, held());
    row.managed_by = manager.map(str::to_owned);
    row
}

/// The same, ended after a question, and no longer listed; 5177 runs the same command line, and did before.
fn ended(row: GpuProcess) -> Session {
    let mut session = Session::new();
    session.sample(vec![row, process(5177, Bytes::gib(6))]);
    session.paste(&torch_log());
    session.keys("x");
    session.keys("y");
    assert_eq!(session.signals(), [(4242, Signal::Term)]);
    session.send(Msg::Signal(key_of(4242), SignalReport::Ended(ms(3))));
    session.sample(vec![process(5177, Bytes::gib(6))]);
    session
}

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

/// What can happen in the property test.
#[derive(Clone, Debug)]
enum Happens {
    Key(KeyCode),
    Wait(u64),
    /// Which rows are there now, by number in `cast`.
    Sample(Vec<usize>),
    PasteLog,
    PasteOther,
    Report(u32, SignalReport),
    Released(Result<String, String>),
    Resize(u16, u16),
}

/// Everybody who may appear: two of ours, a reused PID, and those who may never be signalled.
fn cast() -> Vec<GpuProcess> {
    let mut reused = process(4242, held());
    reused.start_ticks = Reading::Known(99);
    let mut foreign = process(11, Bytes::gib(2));
    foreign.uid = Reading::Known(1001);
    let mut unproved = process(12, Bytes::gib(2));
    unproved.proved = false;
    let mut unknown = process(13, Bytes::gib(2));
    unknown.start_ticks = Reading::Denied;
    let mut desktop = process(14, Bytes::gib(1));
    desktop.command = Reading::Known("/usr/bin/gnome-shell".into());
    let shell = process(900, Bytes::gib(1));
    // The same process as 5177, seen from where it can't be proved or belongs to another user now (setuid).
    let mut doubtful = process(5177, Bytes::gib(6));
    doubtful.proved = false;
    let mut given_away = process(5177, Bytes::gib(6));
    given_away.uid = Reading::Known(1001);
    // And as one that can be asked to unload: ours, another user's, one that can't be proved.
    let mut vague = runner(999);
    vague.proved = false;
    let ours = [process(4242, held()), process(5177, Bytes::gib(6))];
    let others = vec![reused, foreign, unproved, unknown, desktop, shell, doubtful, given_away];
    // A launcher with its workers, one of them reused and one another user's; a process that the driver does not list.
    let mut later = works_for(4100, 4101, 3);
    later.start_ticks = Reading::Known(4_100_500);
    let mut theirs = works_for(4100, 4103, 2);
    theirs.uid = Reading::Known(1001);
    let group = vec![launcher(), works_for(4100, 4101, 9), works_for(4100, 4102, 8), later, theirs];
    let newcomer = works_for(4100, 4104, 1);
    let orphan = unlisted(process(6101, Bytes::ZERO), Reading::NotAvailable);
    // Titles that count on, and a program of the same words in the place of the one before.
    let counting = [("step 1", 7), ("step 2", 7), ("step 3", 8), ("saving 3", 7)].map(|(title, image)| GpuProcess {
        command: Reading::Known(title.into()),
        image: Some(image),
        ..process(4242, held())
    });
    [ours.to_vec(), others, vec![runner(1000), runner(999), vague], group, vec![orphan, newcomer], counting.to_vec()]
        .concat()
}

fn happens() -> impl Strategy<Value = Happens> {
    let keys = prop_oneof![
        4 => Just(KeyCode::Char('x')),
        6 => Just(KeyCode::Char('y')),
        1 => Just(KeyCode::Char('n')),
        3 => Just(KeyCode::Enter),
        2 => Just(KeyCode::Tab),
        2 => Just(KeyCode::Char(' ')),
        2 => Just(KeyCode::Down),
        1 => Just(KeyCode::Esc),
        1 => Just(KeyCode::Char('s')),
        1 => Just(KeyCode::Char('/')),
        1 => Just(KeyCode::Backspace),
    ];
    let reports = prop_oneof![
        Just(SignalReport::Sent),
        Just(SignalReport::Ended(ms(5))),
        Just(SignalReport::StillThere(Some('S'))),
        Just(SignalReport::Refused(Refusal::Reused(4242))),
    ];
    prop_oneof![
        10 => keys.prop_map(Happens::Key),
        10 => prop_oneof![Just(1_u64), Just(30), Just(319), Just(320), Just(600), Just(1000)].prop_map(Happens::Wait),
        4 => prop::collection::vec(0_usize..24, 0..8).prop_map(Happens::Sample),
        3 => prop_oneof![
            Just(Happens::Sample(vec![13, 14, 15])),
            Just(Happens::Sample(vec![13, 14, 15, 19])),
            Just(Happens::Sample(vec![13, 16, 15, 17])),
        ],
        3 => (20_usize..24).prop_map(|counting| Happens::Sample(vec![counting])),
        1 => Just(Happens::PasteLog),
        1 => Just(Happens::PasteOther),
        1 => (prop_oneof![Just(4242_u32), Just(5177), Just(4100), Just(4101)], reports).prop_map(|(pid, report)| Happens::Report(pid, report)),
        1 => prop_oneof![Just(Ok("yes".to_owned())), Just(Err("no".to_owned()))].prop_map(Happens::Released),
        1 => (10_u16..200, 5_u16..60).prop_map(|(columns, rows)| Happens::Resize(columns, rows)),
    ]
}

fn happen(session: &mut Session, cast: &[GpuProcess], event: Happens) {
    match event {
        Happens::Key(code) => session.key(code),
        Happens::Wait(time) => session.wait(ms(time)),
        Happens::Sample(rows) => {
            let mut present: Vec<GpuProcess> = Vec::new();
            for row in rows {
                if present.iter().all(|other| other.pid != cast[row].pid) {
                    present.push(cast[row].clone());
                }
            }
            session.send(Msg::Sample(Box::new(reading(present))));
        }
        Happens::PasteLog => session.paste(&torch_log()),
        Happens::PasteOther => session.paste("y\nxy\n"),
        Happens::Report(pid, report) => session.send(Msg::Signal(key_of(pid), report)),
        Happens::Released(outcome) => session.send(Msg::Released(key_of(5177), outcome)),
        Happens::Resize(columns, rows) => session.send(Msg::Resize(columns, rows)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_sequence_signals_or_asks_a_process_that_was_not_named_confirmed_alive_and_the_same(
        story in prop::collection::vec(happens(), 1..60), start in 0..4
    ) {
        let mut session = match start {
            0 => at_the_step_of(runner(1000)),
            1 => Session::with_holders(),
            2 => groups::at_a_question(),
            _ => groups::at_a_question_that_others_came_after(),
        };
        let cast = cast();
        // Since when each identity has stood in an open question, and when keys came.
        let mut asked: Vec<(ProcessKey, Duration)> = Vec::new();
        let mut asked_to_let_go: Vec<(ProcessKey, Duration)> = Vec::new();
        let mut keys: Vec<(KeyCode, Duration)> = Vec::new();
        if let Some(Asked::End(victims, _)) = session.model.question.as_ref().map(|question| &question.asked) {
            asked.extend(victims.iter().map(|victim| (victim.key, session.now)));
        }
        for event in story {
            let before = session.effects.len();
            let named = match session.model.question.as_ref().map(|question| &question.asked) {
                Some(Asked::End(victims, _)) => victims.clone(),
                _ => vec![],
            };
            if let Happens::Key(code) = event {
                keys.push((code, session.now));
            }
            happen(&mut session, &cast, event);
            for effect in &session.effects[before.min(session.effects.len())..] {
                let (key, signals) = match effect {
                    Effect::Signal(order) => (&order.key, true),
                    Effect::Release(key, _) => (key, false),
                    _ => continue,
                };
                let asked = if signals { &asked } else { &asked_to_let_go };
                let since = asked.iter().find(|(named, _)| named == key).map(|(_, since)| *since);
                prop_assert!(since.is_some_and(|since| session.now - since >= READ + SETTLE), "{key} was not named long enough");
                let (last, at) = *keys.last().unwrap();
                prop_assert_eq!(last, KeyCode::Char('y'));
                let previous = keys.iter().rev().nth(1).map(|(_, previous)| *previous);
                prop_assert!(previous.is_none_or(|previous| at - previous >= READ), "y was not alone: {keys:?}");
                prop_assert!(session.now - at >= SETTLE, "a key could still have followed");
                let row = session.model.snapshot().and_then(|snapshot| snapshot.process(*key)).cloned();
                let row = row.expect("it is in the newest reading");
                if let Effect::Signal(order) = effect {
                    let victim = named.iter().find(|victim| victim.key == order.key).expect("it was named");
                    prop_assert_eq!(&order.ran, &victim.running(), "it is signalled as what was confirmed");
                    let the_same_name = Some(&order.ran.command) == row.command.known();
                    let counts_on = order.ran.image == row.image && row.command.known().is_some_and(|now| now.starts_with("step"));
                    prop_assert!(the_same_name || counts_on, "{:?} is {row:?} by now", order.ran);
                }
                prop_assert!(row.proved && (!signals || row.uid == Reading::Known(1000)));
                let may_be = [4242, 5177, 4100, 4101, 4102, 4104, 6101];
                prop_assert!(may_be.contains(&row.pid), "{} may never be signalled", row.pid);
                // Who waits for its launcher waits for one that is signalled by the same yes.
                if matches!(effect, Effect::Signal(order) if order.follows.is_some()) {
                    let first = |other: &Effect| matches!(other, Effect::Signal(order) if Some(order.key) == row.group);
                    prop_assert!(session.effects[before..].iter().any(first), "{key} waits for nobody");
                }
                prop_assert!(signals || row.recognised_as.is_some(), "{} has nobody to ask", row.pid);
            }
            let (mut open, mut open_to_let_go): (Vec<ProcessKey>, Vec<ProcessKey>) = (vec![], vec![]);
            match session.model.question.as_ref().map(|question| &question.asked) {
                Some(Asked::End(victims, _)) => open.extend(victims.iter().map(|victim| victim.key)),
                Some(Asked::Release(victim, _)) => open_to_let_go.push(victim.key),
                _ => {}
            }
            for (asked, open) in [(&mut asked, open), (&mut asked_to_let_go, open_to_let_go)] {
                asked.retain(|(named, _)| open.contains(named));
                for key in open {
                    if asked.iter().all(|(named, _)| *named != key) {
                        asked.push((key, session.now));
                    }
                }
            }
        }
        // Whatever came of it can be drawn.
        let _ = crate::ui::drawn(&session.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_drawn_bit_by_bit_is_what_would_be_drawn_as_a_whole(
        story in prop::collection::vec(happens(), 1..40), with_log in any::<bool>()
    ) {
        let mut session = if with_log { Session::with_log() } else { Session::with_holders() };
        let (cast, mut terminal) = (cast(), Terminal::default());
        for event in story {
            happen(&mut session, &cast, event);
            session.wait(ms(600));
            terminal.draw(&session.model);
            terminal.assert_whole();
        }
    }
}

#[test]
fn what_was_run_is_told_and_the_steps_are_made_in_it() {
    let mut session = Session::with_holders();
    session.paste("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_kv_cache_init: failed to allocate buffer for kv cache");
    session.press(KeyCode::Char('r'));
    session.wait(ms(500));
    session.paste("llama-server -m a.gguf \\\n  --parallel 4");
    assert!(session.model.question.is_none() && session.model.prompt.is_some(), "the paste goes where one types");
    session.press(KeyCode::Enter);
    assert_eq!(session.model.rerun().as_deref(), Some("llama-server -m a.gguf --parallel 4"));
    let own = |session: &Session, fix: &str| {
        let plan = &session.model.advice.as_ref().unwrap().plan;
        plan.iter().find(|planned| planned.fix == fix).and_then(|planned| planned.steps[0].command.clone())
    };
    assert_eq!(own(&session, "fewer-sequences").as_deref(), Some("llama-server -m a.gguf --parallel 1"));
    while session.model.current_step().is_some_and(|step| step.fix != "fewer-sequences") {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    assert_eq!(session.model.rerun().as_deref(), Some("llama-server -m a.gguf --parallel 1"));
    let next = own(&session, "kv-cache-on-cpu").unwrap();
    assert_eq!(next, "llama-server -m a.gguf --parallel 1 --no-kv-offload", "the next step builds on the one taken");
    session.press(KeyCode::Backspace);
    assert_eq!(
        own(&session, "kv-cache-on-cpu").as_deref(),
        Some("llama-server -m a.gguf --parallel 4 --no-kv-offload")
    );
}

#[test]
fn a_second_failure_is_held_against_the_first_and_only_what_was_tried_stays_behind() {
    let mut session = Session::with_log();
    let skipped = session.model.current_step().map(StepId::of).unwrap();
    session.press(KeyCode::Char('s'));
    while session.model.current_step().is_some_and(|step| step.target.is_some() || step.waits_for.is_some()) {
        session.press(KeyCode::Char('s'));
    }
    let tried = session.model.current_step().map(StepId::of).unwrap();
    session.press(KeyCode::Enter);
    assert!(session.model.walk.behind.iter().any(|behind| behind.id == tried));
    session.press(KeyCode::Char('e'));
    assert!(session.model.notice.is_some());
    session.paste(&torch_log().replace("Tried to allocate 14.00", "Tried to allocate 12.00"));
    assert!(session.model.question.is_none(), "no question about replacing");
    let said = session.model.walk.compared.clone().unwrap();
    assert!(said.starts_with("It asked for 12.0 GiB with 6.1 GiB free; before, for 14.0 GiB"), "{said}");
    assert!(session.model.compared().contains(&said));
    let behind: Vec<_> = session.model.walk.behind.iter().map(|behind| behind.id.clone()).collect();
    assert_eq!(behind, [tried], "what was skipped may be the answer this time");
    let plan = &session.model.advice.as_ref().unwrap().plan;
    assert!(session.model.walk.ahead(plan).iter().any(|step| StepId::of(step) == skipped));
    assert_eq!(session.model.notice, None, "the new error is here");
}

/// A fine-tuning run whose optimizer state did not fit.
const OPTIMIZER_LOG: &str = r#"python train.py --per_device_train_batch_size 8 --optim adamw_torch
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    trainer.train()
  File "/venv/lib/python3.11/site-packages/transformers/trainer.py", line 2240, in train
    return inner_training_loop(
  File "/venv/lib/python3.11/site-packages/torch/optim/adamw.py", line 150, in _init_group
    state["exp_avg"] = torch.zeros_like(p)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which 100.10 MiB is free. Including non-PyTorch memory, this process has 23.80 GiB memory in use. Of the allocated memory 23.20 GiB is allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.
"#;

/// A llama.cpp server whose KV cache did not fit.
const KV_LOG: &str = "$ llama-server -m a.gguf --parallel 4 -c 65536\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n";

fn offered(session: &Session) -> Vec<FixId> {
    let plan = &session.model.advice.as_ref().unwrap().plan;
    session.model.walk.ahead(plan).iter().map(|step| step.fix).collect()
}

fn select_step(session: &mut Session, fix: FixId) {
    let at = offered(session).iter().position(|offered| *offered == fix).unwrap();
    (0..at).for_each(|_| session.press(KeyCode::Down));
    assert_eq!(session.model.current_step().map(|step| step.fix), Some(fix));
}

#[test]
fn what_did_not_help_is_left_out_with_what_does_less() {
    let mut session = Session::new();
    session.paste(OPTIMIZER_LOG);
    let (more, less) = (FixId::LORA, FixId::EIGHT_BIT_OPTIMIZER);
    assert!(offered(&session).contains(&more) && offered(&session).contains(&less), "{:?}", offered(&session));
    select_step(&mut session, more);
    session.press(KeyCode::Char('n'));
    assert!(!offered(&session).contains(&more) && !offered(&session).contains(&less), "{:?}", offered(&session));
    assert!(!session.model.walk.enough_taken());
    session.press(KeyCode::Backspace);
    assert!(offered(&session).contains(&more) && offered(&session).contains(&less));
}

#[test]
fn the_step_just_taken_is_the_one_that_did_not_help() {
    let mut session = Session::new();
    session.paste(KV_LOG);
    select_step(&mut session, FixId::QUANTISED_KV_CACHE);
    session.press(KeyCode::Enter);
    let rerun = session.model.rerun().unwrap();
    session.press(KeyCode::Char('n'));
    let behind: Vec<_> = session.model.walk.behind.iter().map(|behind| (behind.id.fix, behind.mark)).collect();
    assert_eq!(behind, [(FixId::QUANTISED_KV_CACHE, Mark::DidNotHelp)]);
    assert!(!offered(&session).contains(&FixId::QUANTISED_KV_CACHE));
    assert!(session.model.rerun().as_ref() == Some(&rerun) && rerun.contains("q8_0"), "it stays changed: {rerun}");
    session.press(KeyCode::Char('n'));
    assert_eq!(session.model.walk.behind.len(), 2, "the next n is about the selected step");
    assert_eq!(session.model.rerun(), Some(rerun), "which was tried before this log");
}

#[test]
fn a_log_that_worked_is_compared_and_the_failure_stays() {
    let mut session = Session::new();
    session.press(KeyCode::Char('g'));
    assert_eq!(session.model.input.since_it_worked, SinceItWorked::Unknown, "there is no failure to compare");
    session.paste(KV_LOG);
    let failed = session.model.input.log.clone().unwrap();
    session.press(KeyCode::Char('g'));
    session.press(KeyCode::Esc);
    assert_eq!(session.model.input.since_it_worked, SinceItWorked::Unknown, "Esc cancels");
    session.press(KeyCode::Char('g'));
    session
        .paste("$ llama-server -m a.gguf --parallel 4 -c 8192\nmain: server is listening on http://127.0.0.1:8080\n");
    assert!(session.model.question.is_none(), "no question about replacing");
    let differences = session.model.input.since_it_worked.known().unwrap();
    assert!(differences.iter().any(|one| one.explains && one.before.as_deref() == Some("8192")), "{differences:?}");
    assert!(std::sync::Arc::ptr_eq(session.model.input.log.as_ref().unwrap(), &failed));
    let why = session.model.compared().join("\n");
    assert!(why.contains("8192") && why.contains("65536"), "{why}");
    session.press(KeyCode::Char('g'));
    session.paste(KV_LOG);
    assert_eq!(session.model.input.since_it_worked, SinceItWorked::Unknown, "memory ran out in that one, too");
    assert!(session.model.notice.is_some());
}

#[test]
fn somebody_elses_memory_is_waited_for_and_the_bell_rings_once() {
    let mut session = Session::new();
    let others = || GpuProcess { uid: Reading::Known(1001), ..process(77, Bytes::gib(20)) };
    session.sample(vec![others()]);
    session.paste("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 3.00 GiB is free.");
    while session.model.current_step().is_some_and(|step| step.waits_for.is_none()) {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    assert!(session.model.walk.waits_for.is_some());
    session.sample(vec![others()]);
    let rung = |session: &Session| session.effects.iter().filter(|effect| matches!(effect, Effect::Ring(_))).count();
    assert_eq!(rung(&session), 0);
    session.sample(vec![]);
    assert_eq!(rung(&session), 1);
    session.sample(vec![]);
    assert_eq!(rung(&session), 1);
}

#[test]
fn it_works_now_sums_up_what_was_done() {
    let mut session = Session::with_log();
    while session.model.current_step().is_some_and(|step| step.target.is_some()) {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    session.press(KeyCode::Char('w'));
    let text = text_on_top(&session);
    assert!(text.contains("Reported as working") && text.contains("Shut down kernels"), "{text}");
}

#[test]
fn the_run_started_again_is_watched_past_the_point_where_it_failed() {
    let mut session = Session::with_log();
    while session.model.current_step().is_some_and(|step| step.target.is_some()) {
        session.press(KeyCode::Char('s'));
    }
    session.press(KeyCode::Enter);
    assert!(session.model.walk.since.is_some());
    let mut run = process(9001, Bytes::gib(5));
    run.started_at = Reading::Known(noon_plus(60));
    session.sample(vec![process(4242, Bytes::gib(3)), run.clone()]);
    let needed = session.model.advice.as_ref().unwrap().ledger.as_ref().unwrap().needed_bytes;
    let again = session.model.walk.again.clone().unwrap();
    assert_eq!(again.key.pid, 9001, "not the one that was there before");
    assert!(again.words(needed).contains("is running with 5.0 GiB"), "{}", again.words(needed));
    run.used_bytes = Reading::Known(Bytes::gib(15));
    session.sample(vec![run]);
    let words = session.model.walk.again.clone().unwrap().words(needed);
    assert!(words.contains("past the 14.3 GiB"), "{words}");
    session.sample(vec![]);
    assert!(session.model.walk.again.clone().unwrap().words(needed).contains("has exited"));
}

#[test]
fn a_variable_that_did_not_reach_the_run_is_said() {
    let mut session = Session::new();
    session.sample(vec![]);
    session.paste("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.50 GiB memory in use. Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is reserved by PyTorch but unallocated.");
    assert_eq!(session.model.current_step().unwrap().fix, "expandable-segments");
    session.press(KeyCode::Enter);
    let mut run = process(9001, Bytes::gib(5));
    run.started_at = Reading::Known(noon_plus(60));
    session.sample(vec![run]);
    let asked = Effect::ReadEnvironment { key: key_of(9001), names: vec!["PYTORCH_CUDA_ALLOC_CONF".into()] };
    assert!(session.effects.contains(&asked));
    session.send(Msg::Environment(key_of(9001), vec![("PYTORCH_CUDA_ALLOC_CONF".into(), false)]));
    let words = session.model.walk.again.clone().unwrap().words(None);
    assert!(words.contains("PYTORCH_CUDA_ALLOC_CONF has not reached it"), "{words}");
}

#[test]
fn a_model_that_the_log_does_not_name_is_named_and_reckoned() {
    let mut session = Session::with_holders();
    session.paste("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory\nalloc_tensor_range: failed to allocate CUDA0 buffer of size 9663676416\nllama_model_load_from_file_impl: failed to load model");
    session.press(KeyCode::Char('f'));
    assert!(session.model.notice.as_ref().is_some_and(|(text, _)| text.contains("[m] sets it")));
    session.press(KeyCode::Char('m'));
    session.wait(ms(500));
    session.paste("Llama-3.1-8B Q4_K_M");
    session.press(KeyCode::Enter);
    assert_eq!(session.model.opened(), Some(&FitTrial));
    assert_eq!(session.model.trial.as_ref().unwrap().title(), "Llama-3.1-8B Q4_K_M in llama.cpp");
    session.press(KeyCode::Tab);
    let text = text_on_top(&session);
    assert!(text.contains("Llama"), "{text}");
}

#[test]
fn a_model_that_was_set_is_forgotten_with_a_log_that_names_another() {
    let log = |model: &str| format!("$ vllm serve {model}\n{}", torch_log());
    for (next, is_kept) in [
        ("Qwen/Qwen3-8B", false),
        ("someone/unheard-of-3B", false),
        ("meta-llama/Llama-3.1-8B-Instruct", true),
        ("srv/blob-one", true),
    ] {
        let mut session = Session::with_holders();
        session.paste(&log("srv/blob-one"));
        session.press(KeyCode::Char('m'));
        session.wait(ms(500));
        session.paste("Llama-3.1-8B");
        session.press(KeyCode::Enter);
        session.press(KeyCode::Esc);
        assert_eq!(session.model.input.model.as_deref(), Some("Llama-3.1-8B"));
        session.wait(ms(500));
        session.paste(&log(next).replace("14.00 GiB", "12.00 GiB"));
        session.keys("r");
        session.read_logs();
        let diagnosis = session.model.input.diagnosis.as_ref().unwrap();
        assert_eq!(diagnosis.run.model.as_deref(), Some(next), "the new log is there");
        assert_eq!(session.model.input.model.is_some(), is_kept, "{next}");
        let said = session.model.notice.as_ref().is_some_and(|(text, _)| text.contains(next));
        assert_eq!(said, !is_kept, "{next}: {:?}", session.model.notice);
    }
}

#[test]
fn the_failed_programs_own_command_line_is_changed_where_it_still_runs() {
    let mut comfy = process(1852, Bytes::gib(19));
    comfy.recognised_as = Some("ComfyUI".into());
    comfy.command = Reading::Known("python main.py --port 8188 --highvram".into());
    let mut session = Session::new();
    session.sample(vec![comfy]);
    session.paste("got prompt\n  File \"/home/ada/ComfyUI/nodes.py\", line 1521, in common_ksampler\ntorch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 22.40 GiB\nRequested               : 1.25 GiB\nDevice limit            : 23.99 GiB\nFree (according to CUDA): 0 bytes");
    let plan = &session.model.advice.as_ref().unwrap().plan;
    let low = plan.iter().find(|planned| planned.fix == "low-vram-mode").unwrap();
    let command = low.steps[0].command.as_deref().unwrap();
    assert_eq!(command, "python main.py --port 8188 --disable-smart-memory");
    assert_eq!(session.model.rerun().as_deref(), Some("python main.py --port 8188 --highvram"));
}

// ---- what is kept, and what is told to others

/// A story as the file has it.
fn stored(story: &Story) -> Story {
    serde_json::from_str(&serde_json::to_string(story).unwrap()).unwrap()
}

#[test]
fn the_last_log_comes_back_with_the_steps_and_what_was_freed() {
    let mut session = Session::with_log();
    let shown = session.kept.len();
    assert_eq!(shown, 1, "once for the log, however often it is drawn and read");
    session.keys("s");
    session.model.walk.freed_before = vec!["train.py (77) has ended: gave back 2.0 GiB".into()];
    session.sample(vec![process(4242, held())]);
    let skipped = session.model.walk.behind.clone();
    assert!(!skipped.is_empty());
    session.model.walk.since = Some(noon_plus(20));
    session.keys("s");
    let skipped = [skipped, session.model.walk.behind.split_off(1)].concat();
    let mut again = session.brought_back();
    assert_eq!(again.model.walk.since, Some(noon_plus(20)), "what starts later may be the run");
    assert_eq!(again.model.walk.behind, skipped);
    assert_eq!(again.model.input.crashed_by, session.model.input.crashed_by);
    again.keys("w");
    let text = text_on_top(&again);
    assert!(text.contains("gave back 2.0 GiB"), "{text}");
    // The next paste is another story.
    again.keys("q");
    again.paste("RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB");
    again.press(KeyCode::Char('r'));
    again.read_logs();
    assert!(again.model.walk.behind.is_empty());
}

#[test]
fn a_step_about_a_process_of_another_boot_does_not_come_back() {
    let mut session = Session::with_log();
    session.keys("s");
    let kept = session.kept.last().unwrap();
    assert!(kept.story.behind.iter().any(|behind| behind.id.target.is_some()));
    let story = Story { boot_id: Some("before".into()), ..kept.story.clone() };
    assert!(story.walk(Some(&"boot".to_owned())).behind.iter().all(|behind| behind.id.target.is_none()));
}

#[test]
fn nothing_is_kept_read_only_of_a_recording_or_where_the_person_wants_none() {
    let cases = [
        (true, true, Source::Live),
        (false, true, Source::Demo),
        (false, true, Source::Recorded),
        (false, false, Source::Live),
    ];
    for (read_only, keep_log, source) in cases {
        let mut session = Session::with_holders();
        session.model.config.read_only = read_only;
        session.model.config.keep_log = keep_log;
        session.model.config.source = source;
        session.paste(&torch_log());
        session.send(Msg::Terminate);
        assert!(session.kept.is_empty());
    }
}

#[test]
fn a_log_that_grows_is_kept_once_until_it_ends() {
    let mut session = Session::with_holders();
    let text = |n: usize| Some(format!("{}step {n}\n", torch_log()));
    for n in 0..20 {
        session.send(Msg::Stdin { text: text(n), closed: false });
        session.read_logs();
    }
    assert_eq!(session.kept.len(), 1);
    session.send(Msg::Stdin { text: text(20), closed: true });
    session.read_logs();
    assert_eq!(session.kept.len(), 2);
    assert!(session.kept[1].log.raw().ends_with("step 20\n"));
}

#[test]
fn a_log_that_still_grows_is_kept_as_it_is_when_the_person_leaves() {
    let mut session = Session::with_holders();
    for n in 0..3 {
        session.send(Msg::Stdin { text: Some(format!("{}step {n}\n", torch_log())), closed: false });
        session.read_logs();
    }
    let (model, cx) = (&mut session.model, Cx { now: session.now, wall: noon_plus(0) });
    let effects = update(model, Msg::Terminate, &cx);
    assert!(matches!(&effects[..], [Effect::Keep(kept), Effect::Quit] if kept.log.raw().ends_with("step 2\n")));
}

#[test]
fn a_report_tells_what_was_done_and_leaves_names_out() {
    let mut session = Session::with_log();
    session.model.config.names.users.insert("ada".into());
    session.keys("s");
    session.keys("W");
    let Some(Effect::WriteReport(text)) = session.effects.last() else { panic!("{:?}", session.effects) };
    assert!(text.contains("(skipped)") && text.contains("| USER |") && !text.contains("ada"), "{text}");
    session.send(Msg::Written(Ok("/state/report.md".into())));
    assert_eq!(session.model.opened(), Some(&WrittenReport { path: "/state/report.md".into() }));
    let mut empty = Session::with_holders();
    empty.keys("W");
    assert!(empty.effects.is_empty() && empty.model.notice.is_some());
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
mod pointing_and_picking {
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
        session.wait(READ);
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
}
