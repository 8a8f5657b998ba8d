//! What a sequence of messages makes of the program: triples of before, messages and after, and the property that no
//! sequence at all signals a process, or asks its program, that was not named, confirmed, alive and the same.

pub(crate) mod allocations;
mod answering;
pub(crate) mod fit;
mod fixes;
mod found;
mod freeing;
mod groups;
mod keeping;
mod keys;
mod logs;
mod machines;
mod marking;
mod overlays;
mod pasting;
mod pointing;
mod readings;
mod releasing;
mod restarting;
pub(crate) mod running;
mod terminating;
mod typing;

use std::sync::LazyLock;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use proptest::prelude::*;

use groups::{launcher, reading, unlisted, works_for};

use super::last::{Kept, Story};
use super::model::{AwaitedRecord, Change, Config, Pipe, Region, Seen, SinceItWorked, Source};
use super::msg::{LogRead, SignalReport};
use super::overlay::commands::Commands;
use super::overlay::report::WrittenReport;
use super::overlay::trial::FitTrial;
use super::overlay::uncopied::Uncopied;
use super::overlay::{Body, Line};
use super::question::{Asked, DELIBERATE, READ, SETTLE, SETTLE_REQUEST};
use super::replay::Played;
use super::walk::StepId;
use super::walk::{EndingState, Mark};
use super::*;
use crate::gpu::guard::{Refusal, Signal, Viewer};
use crate::gpu::testing::{device, noon_plus, process, snapshot};
use crate::gpu::{GpuProcess, Header, ProcessKey, Reading, Snapshot};
use crate::knowledge::FixId;
use crate::knowledge::KnowledgeBase;
use crate::knowledge::allocations::add as add_snapshots;
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
            (Some(Asked::Release(..)), _) => (DELIBERATE, SETTLE_REQUEST),
            (Some(_), _) => (DELIBERATE, SETTLE),
            (None, KeyCode::Enter) => (gate::APART_FROM_ENTER, ms(30)),
            (None, _) => (ms(450), ms(30)),
        };
        self.wait(before);
        if before >= DELIBERATE
            && let Some(snapshot) = self.model.home().latest.as_deref().cloned()
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
            let (generation, text, snapshots) = match effect {
                Effect::ReadLog { generation, text, snapshots, .. } => (generation, text, snapshots),
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
            let mut diagnosis = base.diagnose(&log, None);
            add_snapshots(&mut diagnosis, snapshots.iter().map(|file| allocations::sick(file)).collect());
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

    /// As a recording that was named at the start.
    pub(crate) fn show_recording(&mut self, played: std::sync::Arc<Played>) {
        self.model.awaited_record = Some(AwaitedRecord::ToShow);
        self.send(Msg::Record(Ok(played)));
    }

    /// A click at this place of the screen as it is drawn now.
    pub(crate) fn click_at(&mut self, column: u16, row: u16) {
        let (_, seen) = crate::ui::view(&self.model);
        self.model.targets = seen.targets;
        let kind = MouseEventKind::Down(MouseButton::Left);
        self.send(Msg::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }, self.now));
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

/// Readings over this many seconds.
fn watched(session: &mut Session, seconds: i64, rows: &[GpuProcess]) {
    for second in 0..=seconds {
        session.send(Msg::Sample(Box::new(machine(second, rows.to_vec()))));
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
    let effect = update::open_file(&mut session.model, "/jobs/slurm-1234.out".into(), Vec::new());
    session.effects.push(effect);
    file_reads(&mut session, text);
    session
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
    /// Another machine with these processes, which may even say that it is this one.
    Host(bool, Vec<usize>),
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
        1 => Just(KeyCode::Char('M')),
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
        2 => (any::<bool>(), prop::collection::vec(0_usize..24, 0..8)).prop_map(|(same, rows)| Happens::Host(same, rows)),
        1 => (10_u16..200, 5_u16..60).prop_map(|(columns, rows)| Happens::Resize(columns, rows)),
    ]
}

fn happen(session: &mut Session, cast: &[GpuProcess], event: Happens) {
    match event {
        Happens::Key(code) => session.key(code),
        Happens::Wait(time) => session.wait(ms(time)),
        Happens::Sample(rows) => session.send(Msg::Sample(Box::new(reading(present(cast, rows))))),
        Happens::Host(is_same_boot, rows) => {
            let boot_id = if is_same_boot { "boot" } else { "other" };
            session.send(machines::told("gpu1", Some(boot_id), reading(present(cast, rows))));
        }
        Happens::PasteLog => session.paste(&torch_log()),
        Happens::PasteOther => session.paste("y\nxy\n"),
        Happens::Report(pid, report) => session.send(Msg::Signal(key_of(pid), report)),
        Happens::Released(outcome) => session.send(Msg::Released(key_of(5177), outcome)),
        Happens::Resize(columns, rows) => session.send(Msg::Resize(columns, rows)),
    }
}

/// Those of the cast, each PID once.
fn present(cast: &[GpuProcess], rows: Vec<usize>) -> Vec<GpuProcess> {
    let mut present: Vec<GpuProcess> = Vec::new();
    for row in rows {
        if present.iter().all(|other| other.pid != cast[row].pid) {
            present.push(cast[row].clone());
        }
    }
    present
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
                prop_assert!(session.model.hosts.away.is_none(), "{key} may be another machine's");
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

// ---- what is kept, and what is told to others

/// A story as the file has it.
fn stored(story: &Story) -> Story {
    serde_json::from_str(&serde_json::to_string(story).unwrap()).unwrap()
}
