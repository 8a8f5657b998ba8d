//! Owns the demo: a recorded machine played back, and a stand-in for the kernel whose processes exist only there.
//! Signals go the same guarded way as real ones, and can reach nothing real.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::Wake;
use super::feed::parse;
use super::process_control::{Inspection, ProcessControl};
use crate::app::Msg;
use crate::gpu::guard::{Signal, Viewer};
use crate::gpu::{Device, GpuProcess, ProcessKey, Snapshot, accounts, recognise};
use crate::units::{Bytes, WallTime};

/// The recording: a sample stream. Its machine dies of memory in its ninth second.
const RECORDING: &str = include_str!("../../assets/demo.jsonl");
/// The log of the run that died.
const LOG: &str = include_str!("../../assets/demo.log");
/// How long a simulated process takes to close.
const CLOSING: Duration = Duration::from_millis(300);

/// The recorded machine, with what the person ended on it.
#[derive(Debug, Default)]
pub struct DemoMachine {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Option<Snapshot>,
    ended: BTreeSet<ProcessKey>,
}

impl DemoMachine {
    /// Who looks at it: the recorded user.
    pub fn viewer() -> Viewer {
        Viewer { uid: 1000, lineage: Vec::new(), ..Viewer::default() }
    }

    /// Plays the recording, one snapshot each interval, then goes on with the last one. The log comes with the crash.
    pub fn play(self: &Arc<Self>, interval: Duration, wakes: Sender<Wake>) -> io::Result<()> {
        let machine = Arc::clone(self);
        thread::Builder::new().name("demo".into()).spawn(move || {
            // Nobody sends: waiting on it is a pause that needs no sleep.
            let (_kept, pause) = std::sync::mpsc::channel::<()>();
            let mut snapshots: Vec<Snapshot> = Vec::new();
            for (number, line) in RECORDING.lines().enumerate() {
                match parse(line.as_bytes(), number == 0) {
                    Ok(Msg::Sample(snapshot)) => snapshots.push(*snapshot),
                    Ok(header) => drop(wakes.send(Wake::Msg(header))),
                    Err(_) => {}
                }
            }
            let last = snapshots.len().saturating_sub(1);
            let crash = snapshots.windows(2).position(|two| matches!(two, [a, b] if rows(b) < rows(a)));
            for tick in 0.. {
                let Some(recorded) = snapshots.get(tick.min(last)) else { return };
                let snapshot = machine.at_present(recorded.clone());
                let sent = wakes.send(Wake::Msg(Msg::Sample(Box::new(snapshot))));
                if crash.is_some_and(|crash| crash + 1 == tick) {
                    drop(wakes.send(Wake::Msg(Msg::Offered(LOG.to_owned()))));
                }
                if sent.is_err() {
                    return;
                }
                let _ = pause.recv_timeout(interval);
            }
        })?;
        Ok(())
    }

    /// What its program would say; nothing is sent.
    pub fn let_go(&self, key: ProcessKey) -> Result<String, String> {
        let (_kept, pause) = std::sync::mpsc::channel::<()>();
        let _ = pause.recv_timeout(CLOSING);
        self.state().ended.insert(key);
        Ok("it took the request".to_owned())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded moment as if it were now, without what was ended.
    fn at_present(&self, mut snapshot: Snapshot) -> Snapshot {
        let now = jiff::Timestamp::now();
        let shift = now.duration_since(snapshot.taken_at.0);
        snapshot.taken_at = WallTime(now);
        let mut state = self.state();
        for device in &mut snapshot.devices {
            for row in &mut device.processes {
                row.started_at =
                    row.started_at.clone().map(|then| WallTime(then.0.saturating_add(shift).unwrap_or(then.0)));
            }
            without(device, &state.ended);
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

fn rows(snapshot: &Snapshot) -> usize {
    snapshot.devices.iter().map(|device| device.processes.len()).sum()
}

/// Takes ended processes off a device; their bytes are free again.
fn without(device: &mut Device, ended: &BTreeSet<ProcessKey>) {
    let is_ended = |row: &GpuProcess| row.key().is_some_and(|key| ended.contains(&key));
    let freed = device.processes.iter().filter(|row| is_ended(row)).filter_map(|row| row.used_bytes.value());
    let freed = freed.fold(Bytes::ZERO, Bytes::plus);
    device.processes.retain(|row| !is_ended(row));
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
                called: row.command.known().cloned().unwrap_or_default(),
                uid: row.uid.value(),
                user: row.user.known().cloned(),
                protected: recognise::protected_command(row.command.known().map_or("", String::as_str)),
                kernel_thread: false,
                proved: row.proved,
                state: row.state.value()?,
            })
        }))
    }

    fn signal(&self, handle: &ProcessKey, _: Signal) -> io::Result<()> {
        self.state().ended.insert(*handle);
        Ok(())
    }

    fn wake(&self, _: &ProcessKey) -> io::Result<()> {
        Ok(())
    }

    fn wait(&self, _: &ProcessKey, longest: Duration) -> io::Result<bool> {
        let (_kept, pause) = std::sync::mpsc::channel::<()>();
        let _ = pause.recv_timeout(CLOSING.min(longest));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::effect::Order;
    use crate::gpu::Reading;
    use crate::runtime::process_control::end;

    #[test]
    fn the_recording_is_a_stream_and_its_holder_can_be_ended_for_show() {
        let mut lines = RECORDING.lines();
        assert!(matches!(parse(lines.next().unwrap().as_bytes(), true), Ok(Msg::Header(_))));
        let machine = DemoMachine::default();
        let Ok(Msg::Sample(last)) = parse(lines.next_back().unwrap().as_bytes(), false) else { panic!() };
        let before = machine.at_present((*last).clone());
        let row = before.devices[0].processes.iter().find(|row| row.pid == 4242).unwrap();
        let order = |row: &GpuProcess| Order {
            key: row.key().unwrap(),
            called: row.command.known().unwrap().clone(),
            signal: Signal::Term,
            follows: None,
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
