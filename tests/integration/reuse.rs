//! No signal reaches the wrong process: 10,000 rounds of the shipped signal path with a kernel in which processes exit
//! and their PIDs are reused between any two calls. The delivered signals are compared with the confirmed ones.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use oomdoctor::app::effect::Order;
use oomdoctor::app::msg::SignalReport;
use oomdoctor::gpu::ProcessKey;
use oomdoctor::gpu::guard::{Refusal, Signal, Viewer};
use oomdoctor::gpu::running::Running;
use oomdoctor::platform::processes::{Inspection, ProcessControl};
use oomdoctor::runtime::process_control::Leaders;
use oomdoctor::runtime::process_control::{end_and_watch, follow_and_watch};

use crate::support::chance::Chance;

const ROUNDS: u64 = 10_000;
/// So few that a free PID is soon reused.
const PIDS: [u32; 4] = [42, 43, 44, 45];
const ROOT: u32 = 0;
const OURS: u32 = 1000;
const THEIRS: u32 = 1001;

#[derive(Clone, Debug)]
struct Process {
    key: ProcessKey,
    uid: u32,
    protected: bool,
    kernel_thread: bool,
    proved: bool,
    state: char,
    /// The program that it runs; changes with an exec.
    program: u64,
    /// Whether its title says that it is saving (else training).
    saving: bool,
    step: u64,
    /// Whether its executable distinguishes programs; else only its title does.
    marked: bool,
}

impl Process {
    /// The title contains numbers that change with the program and with each step.
    fn runs(&self) -> Running {
        let does = if self.saving { "saving" } else { "training" };
        Running {
            command: format!("{does} {} step {}", self.program, self.step),
            image: self.marked.then(|| u32::try_from(self.program).unwrap()),
            user: Some(self.uid),
        }
    }

    /// Whether it is still what was confirmed: the same program doing the same work for the same user.
    fn still_does(&self, confirmed: &Process) -> bool {
        let does = |process: &Process| (process.key, process.uid, process.program, process.saving);
        does(self) == does(confirmed)
    }

    /// Whether this process must never get a signal from this user.
    fn is_taboo(&self, user: u32) -> bool {
        ![self.uid, ROOT].contains(&user) || self.protected || self.kernel_thread || !self.proved
    }
}

/// A simulated kernel in which something may happen between any two calls.
struct Adversary {
    state: Mutex<State>,
}

struct State {
    chance: Chance,
    /// How many of ten steps change something.
    unrest: u64,
    ticks: u64,
    living: BTreeMap<u32, Process>,
    /// Every process that existed in this round.
    born: BTreeMap<ProcessKey, Process>,
    delivered: Vec<(ProcessKey, &'static str)>,
    /// The process that was inspected last, as it was then.
    looked_at: Option<Process>,
    /// The processes that the user confirmed, as they were then.
    confirmed: Vec<Process>,
}

impl State {
    fn spawn(&mut self, pid: u32) {
        // A tick is 10 ms; a kernel cannot reuse the same PID within one.
        self.ticks += 1 + self.chance.below(3);
        let rare = |chance: &mut Chance| chance.once_in(5);
        let process = Process {
            key: ProcessKey { pid, start_ticks: self.ticks },
            uid: if rare(&mut self.chance) { THEIRS } else { OURS },
            protected: rare(&mut self.chance),
            kernel_thread: rare(&mut self.chance),
            proved: !rare(&mut self.chance),
            state: *self.chance.of(&['S', 'R', 'T', 'D', 'Z']),
            program: 0,
            saving: false,
            step: 0,
            marked: !rare(&mut self.chance),
        };
        self.born.insert(process.key, process.clone());
        self.living.insert(pid, process);
    }

    /// Changes processes at random.
    fn meanwhile(&mut self) {
        while self.chance.below(10) < self.unrest {
            let pid = *self.chance.of(&PIDS);
            if self.chance.once_in(2) {
                let happens = self.chance.below(9);
                self.living.entry(pid).and_modify(|process| match happens {
                    // An exec changes the program but not the process.
                    0 | 1 => process.program += 1,
                    2 => process.saving = !process.saving,
                    3 => process.uid = if process.uid == OURS { THEIRS } else { OURS },
                    _ => process.step += 1,
                });
            } else if self.living.remove(&pid).is_none() || self.chance.below(2) == 0 {
                self.spawn(pid);
            }
        }
    }

    fn lives(&self, key: ProcessKey) -> bool {
        self.living.get(&key.pid).is_some_and(|process| process.key == key)
    }
}

impl Adversary {
    fn new(seed: u64) -> Adversary {
        let mut chance = Chance::new(seed);
        let unrest = chance.below(8);
        let (living, born, delivered) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut state =
            State { chance, unrest, ticks: 100, living, born, delivered, looked_at: None, confirmed: vec![] };
        PIDS.into_iter().for_each(|pid| state.spawn(pid));
        Adversary { state: Mutex::new(state) }
    }

    /// The state at the next call, after random changes.
    fn later(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        state.meanwhile();
        state
    }
}

impl ProcessControl for Adversary {
    /// The process that it was opened for, as with a pidfd.
    type Handle = ProcessKey;

    fn open(&self, pid: u32) -> io::Result<ProcessKey> {
        let state = self.later();
        state.living.get(&pid).map(|process| process.key).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// As the real implementation, reads several files, between which the PID may be reused, and the start time last.
    fn inspect(&self, pid: u32) -> io::Result<Option<Inspection>> {
        let owner = self.later().living.get(&pid).map(|process| process.uid);
        let (kind, proved) = {
            let state = self.later();
            let process = state.living.get(&pid);
            (process.is_some_and(|process| process.protected), process.is_some_and(|process| process.proved))
        };
        let mut state = self.later();
        let living = state.living.get(&pid).cloned();
        state.looked_at = living.map(|process| Process { uid: owner.unwrap_or(process.uid), ..process });
        Ok(state.living.get(&pid).map(|process| Inspection {
            start_ticks: process.key.start_ticks,
            runs: Some(Running { user: owner, ..process.runs() }),
            uid: owner,
            user: owner.map(|uid| uid.to_string()),
            protected: kind.then_some("it draws the desktop"),
            kernel_thread: process.kernel_thread,
            thread_of: None,
            proved,
            state: process.state,
        }))
    }

    fn has_open(&self, _: u32, _: &[String]) -> bool {
        true
    }

    fn signal(&self, handle: &ProcessKey, _: Signal) -> io::Result<()> {
        self.deliver(*handle, "signal")
    }

    fn wake(&self, handle: &ProcessKey) -> io::Result<()> {
        self.deliver(*handle, "wake")
    }

    fn wait(&self, handle: &ProcessKey, _: Duration) -> io::Result<bool> {
        Ok(!self.later().lives(*handle))
    }
}

impl Adversary {
    fn deliver(&self, handle: ProcessKey, what: &'static str) -> io::Result<()> {
        let mut state = self.later();
        if !state.lives(handle) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if what == "signal" {
            let meant = state.confirmed.iter().find(|meant| meant.key == handle);
            let is_it = meant.zip(state.looked_at.as_ref()).is_some_and(|(meant, now)| now.still_does(meant));
            assert!(is_it, "{:?} is not what was confirmed: {meant:?}", state.looked_at);
        }
        state.delivered.push((handle, what));
        Ok(())
    }
}

/// How many rounds ended in which way.
#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    gone: u64,
    reused: u64,
    changed: u64,
    /// Processes that belonged to another user by then.
    handed: u64,
    /// Signals that were sent although the title had counted on.
    counted_on: u64,
    otherwise: u64,
}

fn round(seed: u64, tally: &mut Tally) {
    let kernel = Adversary::new(seed);
    // The user selected a process, and confirmed the question.
    let meant = {
        let mut state = kernel.state.lock().unwrap();
        let pid = *state.chance.of(&PIDS);
        let meant = state.living[&pid].clone();
        state.confirmed.push(meant.clone());
        meant
    };
    let (confirmed, ran) = (meant.key, meant.runs());
    (0..3).for_each(|_| drop(kernel.later()));
    let signal = *kernel.later().chance.of(&[Signal::Term, Signal::Int, Signal::Kill]);
    let user = if kernel.later().chance.once_in(3) { ROOT } else { OURS };
    let viewer = Viewer { uid: user, lineage: vec![7], ..Viewer::default() };
    let reports = Mutex::new(Vec::new());
    let order = Order { key: confirmed, ran, signal, follows: None, cards: Vec::new(), grace: Duration::ZERO };
    let report = |what| reports.lock().unwrap().push(what);
    end_and_watch(&kernel, &viewer, &order, &Leaders::default(), report);

    let state = kernel.state.into_inner().unwrap();
    let reports = reports.into_inner().unwrap();
    for (key, what) in &state.delivered {
        assert_eq!(*key, confirmed, "seed {seed}: {what} went to another process ({reports:?})");
        assert!(!meant.is_taboo(user), "seed {seed}: {what} went to one that is never ended ({reports:?})");
    }
    let signals = state.delivered.iter().filter(|(_, what)| *what == "signal").count();
    match &reports[..] {
        [SignalReport::Refused(refusal)] => {
            assert_eq!(signals, 0, "seed {seed}: it is said that nothing was sent");
            match refusal {
                Refusal::Gone(pid) | Refusal::Reused(pid) => {
                    assert_eq!(*pid, confirmed.pid);
                    assert!(!state.lives(confirmed), "seed {seed}: it still lives and is said to have gone");
                    *(if matches!(refusal, Refusal::Gone(_)) { &mut tally.gone } else { &mut tally.reused }) += 1;
                }
                Refusal::Changed(pid, now) => {
                    assert!(*pid == confirmed.pid && *now != order.ran.command, "seed {seed}: it runs what it ran");
                    tally.changed += 1;
                }
                Refusal::OwnerChanged(pid) => {
                    let now = state.looked_at.as_ref().map(|process| process.uid);
                    assert!(*pid == confirmed.pid && now != Some(meant.uid), "seed {seed}: its owner is who it was");
                    tally.handed += 1;
                }
                // Of who was ours and became theirs, that is said first.
                Refusal::OtherUser(..) if !meant.is_taboo(user) => tally.handed += 1,
                other => {
                    assert!(meant.is_taboo(user), "seed {seed}: {other} is not so of the one that was meant");
                    tally.otherwise += 1;
                }
            }
        }
        [SignalReport::Sent, after @ ..] => {
            assert_eq!(signals, 1, "seed {seed}: it is said that one was sent");
            for what in after {
                match what {
                    SignalReport::StillThere(Some(letter)) => {
                        assert_eq!(*letter, meant.state, "seed {seed}: that is another process's state");
                    }
                    SignalReport::Ended(_) => assert!(!state.lives(confirmed), "seed {seed}: it still lives"),
                    SignalReport::StillThere(None) => {}
                    SignalReport::Sent | SignalReport::Refused(_) => panic!("seed {seed}: {reports:?}"),
                }
            }
            tally.sent += 1;
            tally.counted_on += u64::from(state.looked_at.is_some_and(|now| now.runs() != order.ran));
        }
        other => panic!("seed {seed}: {other:?}"),
    }
}

#[test]
fn ten_thousand_rounds_with_reused_pids_never_signal_the_wrong_process() {
    let mut tally = Tally::default();
    for seed in 0..ROUNDS {
        round(seed, &mut tally);
    }
    let not_sent = tally.gone + tally.reused + tally.changed + tally.handed + tally.otherwise;
    assert_eq!(tally.sent + not_sent, ROUNDS);
    // Each outcome happened often enough.
    assert!(
        tally.sent > 500
            && tally.gone > 500
            && tally.reused > 500
            && tally.changed > 200
            && tally.handed > 50
            && tally.counted_on > 200
            && tally.otherwise > 500,
        "{tally:?}"
    );
    eprintln!("{ROUNDS} rounds: {tally:?}, wrong: 0");
}

/// The user confirms a launcher and two of its workers together. The launcher gets its signal at once, the workers
/// after their time to exit by themselves.
fn group_round(seed: u64, late: &mut u64) {
    let kernel = Adversary::new(seed);
    let confirmed: Vec<(ProcessKey, Running)> = {
        let mut state = kernel.state.lock().unwrap();
        state.confirmed = PIDS[..3].iter().map(|pid| state.living[pid].clone()).collect();
        state.confirmed.iter().map(|meant| (meant.key, meant.runs())).collect()
    };
    let leaders = Leaders::default();
    let mut led = true;
    (0..3).for_each(|_| drop(kernel.later()));
    let signal = *kernel.later().chance.of(&[Signal::Term, Signal::Int]);
    let viewer = Viewer { uid: OURS, lineage: vec![7], ..Viewer::default() };
    for (at, (key, ran)) in confirmed.iter().enumerate() {
        let follows = (at > 0).then_some(confirmed[0].0);
        let order =
            Order { key: *key, ran: ran.clone(), signal, follows, cards: Vec::new(), grace: Duration::from_millis(5) };
        let reports = Mutex::new(Vec::new());
        let report = |what| reports.lock().unwrap().push(what);
        follow_and_watch(&kernel, &viewer, &order, &leaders, report);
        let sent =
            kernel.state.lock().unwrap().delivered.iter().filter(|(to, what)| to == key && *what == "signal").count();
        let reports = reports.into_inner().unwrap();
        if let (0, [SignalReport::Refused(refusal)]) = (at, &reports[..]) {
            led = matches!(refusal, Refusal::Gone(_));
        }
        assert!(led || sent == 0, "seed {seed}: {key} got a signal though its launcher was refused");
        match &reports[..] {
            [SignalReport::Sent, ..] => {
                assert_eq!(sent, 1, "seed {seed}: it is said that one was sent");
                *late += u64::from(at > 0);
            }
            _ => assert_eq!(sent, 0, "seed {seed}: {reports:?}"),
        }
        if let [SignalReport::Ended(_)] = &reports[..] {
            assert!(at > 0 && !kernel.state.lock().unwrap().lives(*key), "seed {seed}: it did not end by itself");
        }
    }
    let state = kernel.state.into_inner().unwrap();
    for (key, what) in &state.delivered {
        let named = confirmed.iter().any(|(named, _)| named == key);
        assert!(named, "seed {seed}: {what} went to {key}, which was not confirmed");
        let meant = state.confirmed.iter().find(|meant| meant.key == *key).unwrap();
        assert!(!meant.is_taboo(OURS), "seed {seed}: {what} went to one that is never ended");
    }
}

#[test]
fn ten_thousand_groups_with_reused_pids_never_signal_an_unconfirmed_process() {
    let mut late = 0;
    for seed in 0..ROUNDS {
        group_round(seed, &mut late);
    }
    assert!(late > 500, "{late} workers were signalled after their launcher");
    eprintln!("{ROUNDS} groups: {late} workers signalled after their launcher, wrong: 0");
}
