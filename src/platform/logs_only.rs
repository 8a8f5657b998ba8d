//! Owns what systems without the GPU half do in its place: a reading that says why there are no GPUs, processes that
//! can't be signaled, and crossterm's own reader of keys. Nothing here touches another process.

use std::convert::Infallible;
use std::io::{self, Write, stdout};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crossterm::event::{Event, poll, read};
use jiff::Timestamp;

use super::host::Machine;
use super::processes::{Inspection, Named, Note, ProcessControl, Processes};
use super::{Here, Input, News, Platform, Sampling, SetPace, Typed};
use crate::advice::release::Release;
use crate::gpu::guard::{Signal, Viewer};
use crate::gpu::{Driver, Header, ProcessKey, SCHEMA, Snapshot};
use crate::units::WallTime;

/// The driver's answer that every reading has here.
fn why() -> &'static str {
    Here::LOGS_ONLY.unwrap_or_default()
}

/// The stream's first line.
fn header() -> Header {
    Header { schema: SCHEMA, program: concat!("oomdoctor ", env!("CARGO_PKG_VERSION")).into(), boot_id: None }
}

/// The machine's own memory, and why there are no GPUs.
fn snapshot(machine: &mut Machine) -> Snapshot {
    Snapshot {
        taken_at: WallTime(Timestamp::now()),
        host: machine.host(),
        driver: Driver::Unavailable { unavailable: why().to_owned() },
        devices: Vec::new(),
        holders: Vec::new(),
        launchers: Vec::new(),
        unseen_processes: 0,
        seen_from: Here::SEEN_FROM.to_vec(),
    }
}

pub(super) fn read_once() -> Snapshot {
    snapshot(&mut Machine::new(Here::host_name()))
}

/// A reading each interval.
pub(super) fn watch(sampling: &Sampling, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<SetPace> {
    let (paces, orders) = mpsc::channel();
    let mut interval = sampling.interval;
    thread::Builder::new().name("feed".into()).spawn(move || {
        let mut machine = Machine::new(Here::host_name());
        let mut is_heard = tell(News::Header(header()));
        while is_heard {
            is_heard = tell(News::Snapshot(Box::new(snapshot(&mut machine))));
            match orders.recv_timeout(interval) {
                Ok(every) => interval = every,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })?;
    let told = std::cell::Cell::new(sampling.interval);
    Ok(Box::new(move |every| {
        if told.replace(every) != every {
            let _ = paces.send(every);
        }
    }))
}

/// The same to standard output, a line each.
pub(super) fn sample(sampling: &Sampling, count: Option<u64>) -> io::Result<()> {
    Here::check_output_open()?;
    let mut machine = Machine::new(Here::host_name());
    // Nobody sends: waiting on it is a pause that needs no sleep.
    let (_kept, pause) = mpsc::channel::<()>();
    let mut written = write_line(&header());
    let mut left = count;
    while written.is_ok() && left != Some(0) {
        written = write_line(&snapshot(&mut machine));
        left = left.map(|left| left - 1);
        if left != Some(0) {
            let _ = pause.recv_timeout(sampling.interval);
        }
    }
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn write_line(value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// The processes of a system where none is read or signaled.
#[derive(Clone, Debug, Default)]
pub struct NoProcesses;

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why())
}

impl ProcessControl for NoProcesses {
    type Handle = Infallible;

    fn open(&self, _: u32) -> io::Result<Infallible> {
        Err(unsupported())
    }

    fn inspect(&self, _: u32) -> io::Result<Option<Inspection>> {
        Err(unsupported())
    }

    fn signal(&self, handle: &Infallible, _: Signal) -> io::Result<()> {
        match *handle {}
    }

    fn wake(&self, handle: &Infallible) -> io::Result<()> {
        match *handle {}
    }

    fn wait(&self, handle: &Infallible, _: Duration) -> io::Result<bool> {
        match *handle {}
    }
}

impl Processes for NoProcesses {
    fn viewer(&self) -> Viewer {
        // Nobody's processes are this viewer's own.
        Viewer { uid: u32::MAX, ..Viewer::default() }
    }

    fn named(&self, _: u32) -> Named {
        Named::default()
    }

    fn started_at(&self, _: ProcessKey) -> Option<WallTime> {
        None
    }

    fn are_set(&self, _: ProcessKey, _: &[String]) -> Option<Vec<(String, bool)>> {
        None
    }

    fn ask(&self, _: ProcessKey, _: &Release, _: impl Fn(Note)) -> Result<String, String> {
        Err(format!("nothing was sent: {}", why()))
    }
}

/// What crossterm reads from the terminal.
pub struct Events<F> {
    /// What the system's terminals mean by an event; `None` where it is no key of its own.
    pub meant: F,
    /// Whether there is a terminal still. crossterm never says that it reached the end: it waits on, at full speed.
    pub is_there: fn() -> bool,
}

/// No more are read before they are handed on: a large paste must not look like silence.
const MOST_AT_ONCE: usize = 256;
/// So long is waited for one that may be there already. With no time at all crossterm's reader for macOS does not even
/// look at what it has read (0.29's `event/source/unix/tty.rs`, checked 2026-11-22).
const AT_ONCE: Duration = Duration::from_millis(1);
/// After so much silence the terminal is looked for.
const GLANCE: Duration = Duration::from_secs(2);

impl<F: FnMut(Event) -> Option<Event> + Send + 'static> Input for Events<F> {
    fn next(&mut self, _: &mut [u8], patience: Option<Duration>) -> io::Result<Typed> {
        let patience = patience.map_or(GLANCE, |patience| patience.min(GLANCE));
        let events = gathered(Some(patience), next_event, &mut self.meant)?;
        Ok(match events.is_empty() {
            false => Typed::Events(events),
            true if (self.is_there)() => Typed::Nothing,
            true => Typed::Bytes(0),
        })
    }
}

/// What comes next, at most so long awaited.
fn next_event(patience: Option<Duration>) -> io::Result<Option<Event>> {
    let is_there = patience.map(poll).transpose()?.unwrap_or(true);
    if is_there { read().map(Some) } else { Ok(None) }
}

/// The next event with all that are there already. Reading may be slow while the screen is drawn, and what was pasted
/// must not seem typed for that.
fn gathered(
    patience: Option<Duration>,
    next: impl Fn(Option<Duration>) -> io::Result<Option<Event>>,
    meant: &mut impl FnMut(Event) -> Option<Event>,
) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut read = next(patience)?;
    while let Some(event) = read {
        events.extend(meant(event));
        read = if events.len() < MOST_AT_ONCE { next(Some(AT_ONCE))? } else { None };
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::guard::Refusal;

    #[test]
    fn a_reading_says_why_there_are_no_gpus_and_knows_the_memory() {
        let snapshot = read_once();
        let Driver::Unavailable { unavailable } = &snapshot.driver else { panic!("{:?}", snapshot.driver) };
        assert!(unavailable.contains(Here::NAME) && unavailable.contains("Linux"), "{unavailable}");
        assert!(snapshot.devices.is_empty() && snapshot.holders.is_empty());
        assert!(snapshot.host.memory_total_bytes.value().is_some());
    }

    #[test]
    fn keys_that_are_there_together_come_together_and_a_large_paste_in_parts() {
        let there = std::cell::RefCell::new(vec![Event::FocusGained; MOST_AT_ONCE + 2]);
        // As crossterm's readers do: without any time, nothing is read.
        let next = |patience: Option<Duration>| {
            let is_looked_at = patience.is_none_or(|patience| !patience.is_zero());
            Ok(is_looked_at.then(|| there.borrow_mut().pop()).flatten())
        };
        for many in [MOST_AT_ONCE, 2, 0] {
            assert_eq!(gathered(None, next, &mut Some).unwrap().len(), many);
        }
        there.borrow_mut().extend([Event::FocusGained, Event::FocusLost]);
        let mut without_losses = |event| Some(event).filter(|event| *event != Event::FocusLost);
        assert_eq!(gathered(None, next, &mut without_losses).unwrap(), [Event::FocusGained]);
    }

    #[test]
    fn nothing_is_signaled() {
        let order = crate::app::effect::Order {
            key: ProcessKey { pid: std::process::id(), start_ticks: 1 },
            ran: crate::gpu::running::Running::unmarked("python train.py"),
            signal: Signal::Term,
            follows: None,
            grace: Duration::ZERO,
        };
        let ended = crate::runtime::process_control::end(&NoProcesses, &NoProcesses.viewer(), &order);
        assert!(matches!(ended, Err(Refusal::Failed(..))), "{ended:?}");
    }

    #[test]
    fn watching_tells_the_header_first_and_ends_when_nobody_listens() {
        let (told, news) = mpsc::channel();
        let sampling = Sampling { interval: Duration::from_millis(50), ..Sampling::default() };
        let set_pace = watch(&sampling, move |news| told.send(news).is_ok()).unwrap();
        set_pace(Duration::from_millis(1));
        assert!(matches!(news.recv().unwrap(), News::Header(_)));
        for _ in 0..2 {
            assert!(matches!(news.recv().unwrap(), News::Snapshot(_)));
        }
    }
}
