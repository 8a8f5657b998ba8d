//! Owns the demo: a recorded machine played back, and a stand-in for the kernel whose processes exist only there.
//! Signals go the same guarded way as real ones, and can reach nothing real. A command that starts the recorded run again
//! is taken as started in the other pane: the run starts again, and goes on where the GPU has room for it.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::wake::{Tell, Wake};
use crate::app::Msg;
use crate::app::replay::Played;
use crate::gpu::guard::{Signal, Viewer};
use crate::gpu::{Device, GpuProcess, ProcessKey, Reading, Snapshot, accounts, recognise};
use crate::hosts::{HostName, HostReading, Through, people};
use crate::knowledge::diagnosis::Oom;
use crate::platform::News;
use crate::platform::processes::{Inspection, ProcessControl};
use crate::record::recording::Recording;
use crate::record::{End, Run, RunOptions};
use crate::source::{Kind, Looked, Source};
use crate::units::{Bytes, WallTime};

/// The recording: a sample stream. Its machine dies of memory in its ninth second.
const RECORDING: &str = include_str!("../../assets/demo.jsonl");

/// A recording of another machine, which shows the same from beginning to end. Nothing is asked for it.
const OTHER: (&str, &str) = ("gpu2", include_str!("../../assets/demo_gpu2.jsonl"));
/// Whose processes are one's own.
const USER: &str = "ada";

/// The log of the run that died.
const LOG: &str = include_str!("../../assets/demo.log");
/// The memory snapshot of that failure, which `tests/snapshots/make.py` makes.
pub(crate) const SNAPSHOT: &[u8] = include_bytes!("../../assets/demo.pickle");
pub(crate) const SNAPSHOT_NAME: &str = "oom_pid8731.pickle (demo)";
/// How long a simulated process takes to close.
const CLOSING: Duration = Duration::from_millis(300);
/// The run that dies in the recording.
const RUN: u32 = 8731;
/// The VRAM it needs, and what it needs with a smaller batch.
const NEEDS: (Bytes, Bytes) = (Bytes(8500 << 20), Bytes(5400 << 20));
/// The VRAM it starts with, and its growth per second.
const GROWTH: (Bytes, Bytes) = (Bytes(900 << 20), Bytes(1400 << 20));

/// The recorded machine, without the processes that the person ended.
#[derive(Debug, Default)]
pub(crate) struct DemoMachine {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Option<Snapshot>,
    ended: BTreeSet<ProcessKey>,
    /// The recorded run's row, to make another one of.
    recorded: Option<GpuProcess>,
    again: Option<Again>,
}

/// The run, started again by the person.
#[derive(Clone, Debug)]
struct Again {
    row: GpuProcess,
    device: u32,
    began: WallTime,
    needs: Bytes,
}

impl Again {
    /// The VRAM it uses by then.
    fn holds(&self, now: &WallTime) -> Bytes {
        let seconds = u64::try_from(now.0.duration_since(self.began.0).as_secs()).unwrap_or(0);
        Bytes(GROWTH.0.0.saturating_add(GROWTH.1.0.saturating_mul(seconds))).min(self.needs)
    }
}

impl DemoMachine {
    /// Who looks at it: the recorded user.
    pub(crate) fn viewer() -> Viewer {
        Viewer { uid: 1000, lineage: Vec::new(), ..Viewer::default() }
    }

    /// Plays the recording, one snapshot each interval, then goes on with the last one. The log comes with the crash.
    pub(crate) fn play(self: &Arc<Self>, interval: Duration, wakes: Sender<Wake>) -> io::Result<()> {
        let machine = Arc::clone(self);
        thread::Builder::new().name("demo".into()).spawn(move || {
            let mut snapshots: Vec<Snapshot> = Vec::new();
            for (number, line) in RECORDING.lines().enumerate() {
                match News::parse(line.as_bytes(), number == 0) {
                    Ok(News::Snapshot(snapshot)) => snapshots.push(*snapshot),
                    Ok(header) => {
                        let _ = wakes.send(Wake::from(header));
                    }
                    Err(_) => {}
                }
            }
            machine.state().recorded = snapshots.iter().find_map(|snapshot| row_of(snapshot, RUN).cloned());
            let last = snapshots.len().saturating_sub(1);
            let crash = snapshots.windows(2).position(|two| matches!(two, [a, b] if rows(b) < rows(a)));
            for tick in 0.. {
                let Some(recorded) = snapshots.get(tick.min(last)) else { return };
                let snapshot = machine.at_present(recorded.clone());
                if machine.has_died_again(&snapshot) {
                    let died = "Demo: the run ran out of memory again. Free more VRAM, or pick a fix that needs less.";
                    wakes.trouble(died);
                }
                if let Some(other) = other_machine() {
                    wakes.tell(Msg::Host(Box::new(other)));
                }
                let is_heard = wakes.tell(Msg::Sample(Box::new(snapshot)));
                if let Some(crash) = crash.filter(|crash| crash + 1 == tick) {
                    wakes.tell(Msg::Record(record_until(crash).map(Arc::new)));
                    wakes.tell(Msg::Offered(LOG.to_owned()));
                }
                if !is_heard {
                    return;
                }
                thread::sleep(interval);
            }
        })?;
        Ok(())
    }

    /// Where the demo's log lies.
    pub(crate) fn place() -> Looked {
        let title = "tmux pane main:0.1 of the demo";
        let failure = Some("PyTorch: CUDA out of memory".to_owned());
        Looked { oom: Some(Oom::Yes), failure, ..Looked::unread(Source::new(Kind::Tmux, "%1", title)) }
    }

    pub(crate) fn log() -> &'static str {
        LOG
    }

    /// Answers as the process's program would; nothing is sent.
    pub(crate) fn let_go(&self, key: ProcessKey) -> Result<String, String> {
        thread::sleep(CLOSING);
        self.state().ended.insert(key);
        Ok("it took the request".to_owned())
    }

    /// Takes a command as if typed in the other pane. True if it starts the recorded run again.
    pub(crate) fn start(&self, command: &str) -> bool {
        let mut state = self.state();
        // One that starts it on another machine changes nothing here.
        if state.again.is_some() || command.contains('\n') || command.starts_with("ssh ") {
            return false;
        }
        let Some(script) = command.find("train.py") else { return false };
        let Some((mut row, now)) = state.recorded.clone().zip(state.now.as_ref()) else { return false };
        let arguments = command.get(script..).unwrap_or_default().trim();
        let known = row.command.known().map_or("", String::as_str);
        let needs = if known.ends_with(arguments) { NEEDS.0 } else { NEEDS.1 };
        let mut devices = now.devices.iter();
        let named = devices.find(|device| device.uuid.known().is_some_and(|uuid| command.contains(uuid.as_str())));
        let device = named.map_or(0, |device| device.index);
        let began = WallTime(jiff::Timestamp::now());
        row.pid = RUN + 389;
        row.started_at = Reading::Known(began);
        row.start_ticks = row.start_ticks.map(|ticks| ticks + 90_000);
        row.command = row.command.map(|line| line.split("train.py").next().unwrap_or_default().to_owned() + arguments);
        state.again = Some(Again { row, device, began, needs });
        true
    }

    /// True if the run that was started again has run out of memory; it is removed then.
    fn has_died_again(&self, snapshot: &Snapshot) -> bool {
        let mut state = self.state();
        let Some(again) = &state.again else { return false };
        let device = snapshot.devices.iter().find(|device| device.index == again.device);
        let ended = has_ended(&again.row, &state.ended);
        let full = device.and_then(|device| device.memory.free_bytes.value()) == Some(Bytes::ZERO);
        if ended || full {
            state.again = None;
        }
        full && !ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded moment as if it were now, without what was ended.
    fn at_present(&self, snapshot: Snapshot) -> Snapshot {
        let mut snapshot = as_if_now(snapshot);
        let mut state = self.state();
        for device in &mut snapshot.devices {
            without(device, &state.ended);
            if let Some(again) = &state.again
                && again.device == device.index
                && !has_ended(&again.row, &state.ended)
            {
                with(device, again, &snapshot.taken_at);
            }
        }
        state.now = Some(snapshot.clone());
        snapshot
    }

    fn row(&self, pid: u32) -> Option<GpuProcess> {
        let state = self.state();
        let mut rows = state.now.as_ref()?.devices.iter().flat_map(|device| &device.processes);
        rows.find(|row| row.pid == pid && row.key().is_some_and(|key| !state.ended.contains(&key))).cloned()
    }
}

/// A recorded reading with its times moved to now.
fn as_if_now(mut snapshot: Snapshot) -> Snapshot {
    let now = jiff::Timestamp::now();
    let shift = now.duration_since(snapshot.taken_at.0);
    snapshot.taken_at = WallTime(now);
    for row in snapshot.devices.iter_mut().flat_map(|device| &mut device.processes) {
        row.started_at = row.started_at.clone().map(|then| WallTime(then.0.saturating_add(shift).unwrap_or(then.0)));
    }
    snapshot
}

/// The other machine as it is at every moment of the demo, as if it had been reached.
fn other_machine() -> Option<HostReading> {
    let (name, recording) = OTHER;
    let (header, reading) = recording.split_once('\n')?;
    let Ok(News::Header(header)) = News::parse(header.as_bytes(), true) else { return None };
    let Ok(News::Snapshot(snapshot)) = News::parse(reading.trim_end().as_bytes(), false) else { return None };
    let seen = Ok((Box::new(as_if_now(*snapshot)), None));
    let reading = HostReading::new(name.parse::<HostName>().ok()?, Through::Ssh, seen);
    Some(people::with_short_commands(HostReading { boot_id: header.boot_id, ..reading }, USER))
}

fn row_of(snapshot: &Snapshot, pid: u32) -> Option<&GpuProcess> {
    snapshot.devices.iter().flat_map(|device| &device.processes).find(|row| row.pid == pid)
}

/// The record of the run that dies after this reading, as `oomdoctor run` would have written it.
fn record_until(crash: usize) -> Result<Played, String> {
    let lines: String = RECORDING.split_inclusive('\n').take(crash + 2).collect();
    let mut recording = Recording::parse(&lines)?;
    let command = LOG.lines().next().unwrap_or_default().trim_start_matches("$ ");
    recording.run = recording.began().map(|started_at| Run {
        started_at,
        argv: command.split(' ').map(str::to_owned).collect(),
        folder: "~/vision".to_owned(),
        pid: RUN,
        tries: None,
        environment: Vec::new(),
        options: RunOptions::default(),
    });
    // Its lines came every two seconds, the traceback at the end.
    recording.lines = vec![(1000, 1), (2000, 2), (4000, 3), (6000, 4), (recording.length(), 16)];
    recording.end = Some((recording.length(), End::Code(1)));
    Ok(Played { path: "the demo".into(), recording, output: Some(LOG.to_owned()) })
}

fn rows(snapshot: &Snapshot) -> usize {
    snapshot.devices.iter().map(|device| device.processes.len()).sum()
}

fn has_ended(row: &GpuProcess, ended: &BTreeSet<ProcessKey>) -> bool {
    row.key().is_some_and(|key| ended.contains(&key))
}

/// Puts the run that was started again on its device.
fn with(device: &mut Device, again: &Again, now: &WallTime) {
    let memory = &mut device.memory;
    let holds = again.holds(now);
    device.processes.push(GpuProcess { used_bytes: Reading::Known(holds), ..again.row.clone() });
    memory.used_bytes = memory.used_bytes.clone().map(|used| used.plus(holds));
    memory.free_bytes = memory.free_bytes.clone().map(|free| free.less(holds));
    device.utilization_percent = again.row.sm_percent.clone();
}

/// Removes ended processes from a device and counts their VRAM as free.
fn without(device: &mut Device, ended: &BTreeSet<ProcessKey>) {
    let gone = device.processes.iter().filter(|row| has_ended(row, ended));
    let freed = gone.filter_map(|row| row.used_bytes.value()).fold(Bytes::ZERO, Bytes::plus);
    device.processes.retain(|row| !has_ended(row, ended));
    let memory = &mut device.memory;
    memory.used_bytes = memory.used_bytes.clone().map(|used| used.less(freed));
    memory.free_bytes = memory.free_bytes.clone().map(|free| free.plus(freed));
    device.unaccounted_bytes = accounts::unaccounted(&memory.used_bytes, &device.processes).0;
}

impl ProcessControl for DemoMachine {
    type Handle = ProcessKey;

    fn open(&self, pid: u32) -> io::Result<ProcessKey> {
        Ok(self.row(pid).and_then(|row| row.key()).ok_or(io::ErrorKind::NotFound)?)
    }

    fn inspect(&self, pid: u32) -> io::Result<Option<Inspection>> {
        Ok(self.row(pid).and_then(|row| {
            Some(Inspection {
                start_ticks: row.start_ticks.value()?,
                runs: Some(row.running()),
                uid: row.uid.value(),
                user: row.user.known().cloned(),
                protected: recognise::protected_command(row.command.known().map_or("", String::as_str)),
                kernel_thread: false,
                thread_of: None,
                proved: row.proved,
                state: row.state.value()?,
            })
        }))
    }

    fn has_open(&self, pid: u32, _: &[String]) -> bool {
        self.row(pid).is_some()
    }

    fn signal(&self, handle: &ProcessKey, _: Signal) -> io::Result<()> {
        self.state().ended.insert(*handle);
        Ok(())
    }

    fn wake(&self, _: &ProcessKey) -> io::Result<()> {
        Ok(())
    }

    fn wait(&self, _: &ProcessKey, longest: Duration) -> io::Result<bool> {
        thread::sleep(CLOSING.min(longest));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::effect::Order;
    use crate::runtime::process_control::end;

    /// The machine at the recording's end, and that moment.
    fn after_the_crash() -> (DemoMachine, Snapshot) {
        let read = |line: &str| match News::parse(line.as_bytes(), false) {
            Ok(News::Snapshot(snapshot)) => *snapshot,
            _ => panic!("no reading: {line}"),
        };
        let machine = DemoMachine::default();
        machine.state().recorded = row_of(&read(RECORDING.lines().nth(1).unwrap()), RUN).cloned();
        let last = read(RECORDING.lines().next_back().unwrap());
        machine.at_present(last.clone());
        (machine, last)
    }

    /// Lets the run that was started again grow to what it takes.
    fn grown(machine: &DemoMachine, last: &Snapshot) -> Snapshot {
        let mut state = machine.state();
        let again = state.again.as_mut().unwrap();
        again.began = WallTime(again.began.0 - Duration::from_secs(60));
        drop(state);
        machine.at_present(last.clone())
    }

    #[test]
    fn the_other_machine_has_room_for_the_run_and_nothing_of_it_happens_here() {
        let other = other_machine().unwrap();
        let seen = other.snapshot().unwrap();
        let has_room =
            |device: &Device| device.processes.is_empty() && device.memory.free_bytes.value() > Some(NEEDS.0);
        assert!(other.boot_id.is_some() && seen.devices.iter().any(has_room), "{seen:?}");
        assert!(seen.everybody().all(|process| !process.command.known().unwrap().contains("--")), "other people's");
        let (machine, _) = after_the_crash();
        assert!(!machine.start("ssh -t gpu2 'python train.py --batch 8'"));
    }

    #[test]
    fn the_run_comes_back_where_there_is_room_and_dies_again_where_there_is_none() {
        let (machine, last) = after_the_crash();
        assert!(!machine.start("ollama stop llama3.1:8b"));
        assert!(machine.start("python train.py --batch 8"));
        assert!(!machine.start("python train.py --batch 8"), "it runs already");
        assert!(machine.has_died_again(&grown(&machine, &last)), "nobody made room");
        assert!(machine.start("python train.py --batch 4"));
        let smaller = grown(&machine, &last);
        assert!(!machine.has_died_again(&smaller), "a smaller batch takes less");
        assert_eq!(row_of(&smaller, RUN + 389).unwrap().used_bytes, Reading::Known(NEEDS.1));

        let (machine, last) = after_the_crash();
        machine.state().ended.extend(row_of(&last, 4242).unwrap().key());
        assert!(machine.start("python train.py --batch 8"));
        let there = grown(&machine, &last);
        assert!(!machine.has_died_again(&there), "the kernel has gone");
        let memory = &there.devices[0].memory;
        let sum = memory.used_bytes.value().unwrap().plus(memory.free_bytes.value().unwrap());
        assert_eq!(sum.plus(memory.reserved_bytes.value().unwrap()), memory.total_bytes.value().unwrap());

        let (machine, last) = after_the_crash();
        let other = last.devices[1].uuid.known().unwrap();
        assert!(machine.start(&format!("CUDA_VISIBLE_DEVICES={other} python train.py --batch 8")));
        let there = grown(&machine, &last);
        assert!(!machine.has_died_again(&there));
        assert_eq!(there.devices[1].processes[0].pid, RUN + 389);
    }

    #[test]
    fn the_record_of_the_run_ends_with_its_failure() {
        let played = record_until(6).unwrap();
        let replay = crate::app::replay::Replay::new(Arc::new(played));
        assert_eq!(replay.recording().failed_at(), Some(replay.recording().length()));
        assert!(replay.rise.is_some_and(|rise| rise.gpu == 0));
        assert!(
            replay.recording().run.as_ref().is_some_and(|run| run.argv.first().is_some_and(|name| name == "python"))
        );
    }

    #[test]
    fn the_recording_is_a_stream_and_its_holder_can_be_ended_for_show() {
        let recording = RECORDING;
        let mut lines = recording.lines();
        assert!(matches!(News::parse(lines.next().unwrap().as_bytes(), true), Ok(News::Header(_))));
        let machine = DemoMachine::default();
        let Ok(News::Snapshot(last)) = News::parse(lines.next_back().unwrap().as_bytes(), false) else { panic!() };
        let before = machine.at_present((*last).clone());
        let row = before.devices[0].processes.iter().find(|row| row.pid == 4242).unwrap();
        let order = |row: &GpuProcess| Order {
            key: row.key().unwrap(),
            ran: row.running(),
            signal: Signal::Term,
            follows: None,
            cards: Vec::new(),
            grace: Duration::ZERO,
        };
        assert!(end(&machine, &DemoMachine::viewer(), &order(row)).is_ok());
        let after = machine.at_present(*last);
        let free = |snapshot: &Snapshot| snapshot.devices[0].memory.free_bytes.value().unwrap();
        assert_eq!(free(&after), free(&before).plus(row.used_bytes.value().unwrap()));
        assert_eq!(after.find(row.key().unwrap()), None);
        assert!(matches!(row.started_at, Reading::Known(then) if then < before.taken_at));
        let xorg = before.devices[0].processes.iter().find(|row| row.pid == 1203).unwrap();
        assert!(end(&machine, &DemoMachine::viewer(), &order(xorg)).is_err());
    }
}
