//! No signal reaches the wrong process, with real ones: `sleep`s in a PID namespace of a few hundred PIDs, signaled
//! through the real kernel while they exit and their PIDs are reused. Not part of the suite: `tests/stress/pids.sh`
//! runs it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, hint, thread};

use oomdoctor::app::effect::Order;
use oomdoctor::gpu::ProcessKey;
use oomdoctor::gpu::guard::{Refusal, Signal};
use oomdoctor::gpu::running::Running;
use oomdoctor::platform::linux::kernel::Kernel;
use oomdoctor::platform::linux::procfs::Procfs;
use oomdoctor::platform::processes::{Inspection, ProcessControl};
use oomdoctor::runtime::process_control::end;
use rustix::process::{Pid, Signal as Raw, kill_process};

use crate::support::chance::Chance;
use crate::support::fake_driver::{device, devices};

/// The signal that oomdoctor sends, and a later one that shows its absence. The later one has a higher number, so a
/// pending TERM is delivered first.
const SENT: i32 = 15;
const SPARED: Raw = Raw::STKFLT;
/// The name of every process, old and new: only PID and start time distinguish them.
const CALLED: &str = "sleep 1000";

/// A process of the test, and what it was when it was listed.
struct Sleep {
    child: Child,
    key: ProcessKey,
}

impl Sleep {
    fn start() -> Sleep {
        let child = Command::new("sleep").arg("1000").stdin(device()).spawn().unwrap();
        let key = Procfs::default().stat(child.id()).unwrap().key();
        Sleep { child, key }
    }

    fn die(&mut self) {
        self.child.kill().unwrap();
    }

    /// Ends it; returns whether a TERM was there first.
    fn was_signalled(mut self) -> bool {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, SPARED).unwrap();
        match self.child.wait().unwrap().signal() {
            Some(SENT) => true,
            other => {
                assert!(other == Some(16) || other == Some(9), "it ended by {other:?}");
                false
            }
        }
    }
}

/// When the confirmed process exits, and whether its PID is reused by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Never,
    BeforeOpen,
    BeforeInspect,
    BeforeSignal,
    AfterSignal,
    /// At any moment, on another thread.
    Racing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Zombie,
    Gone,
    Reused,
}

/// Makes the process exit as planned.
fn befall(victim: &mut Sleep, fate: Fate) -> Option<Sleep> {
    victim.die();
    if fate == Fate::Zombie {
        return None;
    }
    victim.child.wait().unwrap();
    if fate == Fate::Gone {
        return None;
    }
    fs::write("/proc/sys/kernel/ns_last_pid", (victim.key.pid - 1).to_string()).unwrap();
    Some(Sleep::start())
}

/// The real kernel, with a change between two of its calls.
struct Watched<'a> {
    kernel: &'a Kernel,
    when: When,
    victim: &'a Mutex<Sleep>,
    fate: Fate,
    heir: Mutex<Option<Sleep>>,
}

impl Watched<'_> {
    fn reach(&self, point: When) {
        if self.when == point {
            *self.heir.lock().unwrap() = befall(&mut self.victim.lock().unwrap(), self.fate);
        }
    }
}

impl ProcessControl for Watched<'_> {
    type Handle = <Kernel as ProcessControl>::Handle;

    fn open(&self, pid: u32) -> io::Result<Self::Handle> {
        self.reach(When::BeforeOpen);
        self.kernel.open(pid)
    }
    fn inspect(&self, pid: u32) -> io::Result<Option<Inspection>> {
        self.reach(When::BeforeInspect);
        self.kernel.inspect(pid)
    }
    fn has_open(&self, pid: u32, cards: &[String]) -> bool {
        self.kernel.has_open(pid, cards)
    }
    fn signal(&self, handle: &Self::Handle, signal: Signal) -> io::Result<()> {
        self.reach(When::BeforeSignal);
        let sent = self.kernel.signal(handle, signal);
        self.reach(When::AfterSignal);
        sent
    }
    fn wake(&self, handle: &Self::Handle) -> io::Result<()> {
        self.kernel.wake(handle)
    }
    fn wait(&self, handle: &Self::Handle, longest: Duration) -> io::Result<bool> {
        self.kernel.wait(handle, longest)
    }
}

#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    gone: u64,
    reused: u64,
    other: u64,
    heirs: u64,
    twins: u64,
    wrong: u64,
}

fn round(kernel: &Kernel, chance: &mut Chance, victim: Sleep, tally: &mut Tally) {
    let viewer = kernel.viewer();
    let points = [
        When::Never,
        When::BeforeOpen,
        When::BeforeInspect,
        When::BeforeSignal,
        When::AfterSignal,
        When::Racing,
        When::Racing,
        When::Racing,
    ];
    let (when, fate) = (*chance.of(&points), *chance.of(&[Fate::Zombie, Fate::Gone, Fate::Reused, Fate::Reused]));
    let key = victim.key;
    let victim = Mutex::new(victim);
    let watched = Watched { kernel, when, victim: &victim, fate, heir: Mutex::new(None) };
    let order = Order {
        key,
        ran: Running { command: CALLED.into(), ..Running::default() },
        signal: Signal::Term,
        follows: None,
        cards: Vec::new(),
        grace: Duration::ZERO,
    };
    let result = if when == When::Racing {
        let (early, late) = (chance.below(300), chance.below(300));
        let together = Barrier::new(2);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                together.wait();
                spin(early);
                *watched.heir.lock().unwrap() = befall(&mut victim.lock().unwrap(), fate);
            });
            together.wait();
            spin(late);
            let result = end(&watched, &viewer, &order).map(drop);
            other.join().unwrap();
            result
        })
    } else {
        end(&watched, &viewer, &order).map(drop)
    };
    match &result {
        Ok(()) => tally.sent += 1,
        Err(Refusal::Gone(_)) => tally.gone += 1,
        Err(Refusal::Reused(_)) => tally.reused += 1,
        Err(other) => {
            eprintln!("{when:?} {fate:?}: {other}");
            tally.other += 1;
        }
    }
    if let Some(heir) = watched.heir.into_inner().unwrap() {
        let (same_pid, twin) = (heir.key.pid == key.pid, heir.key == key);
        tally.heirs += u64::from(same_pid);
        tally.twins += u64::from(twin);
        if heir.was_signalled() {
            eprintln!("wrong: {when:?} {fate:?} {key}");
            tally.wrong += 1;
        }
    }
    let mut victim = victim.into_inner().unwrap();
    let ended = match when {
        When::Never => victim.was_signalled(),
        _ => victim.child.wait().unwrap().signal() == Some(SENT),
    };
    assert!(!ended || result.is_ok(), "{when:?} {fate:?}: it got a signal that is said not to have been sent");
    assert!(when != When::Never || result.is_ok(), "nothing happened and it was refused: {result:?}");
}

/// Spins for this many µs, which is shorter than any sleep.
fn spin(micros: u64) {
    let due = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < due {
        hint::spin_loop();
    }
}

#[test]
#[ignore = "needs a PID namespace of its own: tests/stress/pids.sh"]
fn real_processes_with_reused_pids_are_never_confused() {
    let most: u32 = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    let procfs = Procfs::default();
    assert!(most <= 1000 && !procfs.in_initial_pid_namespace(), "run it with tests/stress/pids.sh");
    let rounds: u64 = env::var("ROUNDS").map_or(10_000, |text| text.parse().unwrap());
    let seed: u64 = env::var("SEED").map_or(1, |text| text.parse().unwrap());
    let kernel = Kernel::new(procfs.with_devices(devices()));
    let (mut chance, mut tally) = (Chance::new(seed), Tally::default());
    let bystanders: Vec<Sleep> = (0..20).map(|_| Sleep::start()).collect();
    // Each has run for a while before its turn, as listed processes have.
    let mut waiting: Vec<Sleep> = (0..20).map(|_| Sleep::start()).collect();
    let began = Instant::now();
    for _ in 0..rounds {
        let victim = waiting.remove(0);
        waiting.push(Sleep::start());
        round(&kernel, &mut chance, victim, &mut tally);
    }
    let hit = bystanders.into_iter().chain(waiting).map(Sleep::was_signalled).filter(|hit| *hit).count() as u64;
    tally.wrong += hit;
    let Tally { sent, gone, reused, other, heirs, twins, wrong } = tally;
    eprintln!(
        "| rounds | PIDs | PIDs given to another | of the same tick | sent | gone | reused | other | wrong | time |"
    );
    eprintln!(
        "| {rounds} | {most} | {heirs} | {twins} | {sent} | {gone} | {reused} | {other} | {wrong} | {:.0} s |",
        began.elapsed().as_secs_f64()
    );
    assert_eq!((wrong, other), (0, 0));
}
