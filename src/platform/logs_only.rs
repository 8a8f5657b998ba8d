//! Owns what stands in for reading GPUs and signaling processes on systems where this program does neither: a reading
//! that says why there are no GPUs, and processes that cannot be signaled. Nothing here touches another process.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, stdout};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use super::contract::{News, ReadLoad, Relayed, Sampling, SetPace, write_line};
use super::host::HostMemory;
#[cfg(unix)]
use super::macos as system;
use super::processes::{Inspection, Note, ProcessControl};
#[cfg(unix)]
use super::unix as here;
#[cfg(windows)]
use super::windows::{self as system, self as here};
use crate::advice::release::Release;
use crate::gpu::guard::{Signal, Viewer};
use crate::gpu::windows::WindowsReading;
use crate::gpu::{Driver, Header, ProcessKey, Snapshot, Vantage};
use crate::record::End;
use crate::record::frame::Begin;
use crate::units::WallTime;

/// The machine's own memory, and why there are no GPUs.
fn snapshot(memory: &mut HostMemory) -> Snapshot {
    Snapshot {
        taken_at: WallTime(Timestamp::now()),
        host: memory.host(),
        driver: Driver::Unavailable { unavailable: system::LOGS_ONLY.to_owned() },
        devices: Vec::new(),
        holders: Vec::new(),
        launchers: Vec::new(),
        unseen_processes: 0,
        seen_from: SEEN_FROM.to_vec(),
        windows: None,
    }
}

pub const LOGS_ONLY: Option<&str> = Some(system::LOGS_ONLY);
pub(crate) const SEEN_FROM: &[Vantage] = &[system::SEEN_FROM];

pub(crate) fn kernel(_: &Sampling, _: &[String], _: bool) -> Kernel {
    Kernel
}

pub(crate) fn above_gpu_processes(_: &Sampling) -> BTreeSet<u32> {
    BTreeSet::new()
}

pub(crate) fn read_once(_: &Sampling) -> Result<Snapshot, String> {
    Ok(snapshot(&mut HostMemory::new(here::host_name())))
}

pub(crate) fn read_twice(sampling: &Sampling) -> Result<(Snapshot, Option<Snapshot>), String> {
    read_once(sampling).map(|snapshot| (snapshot, None))
}

/// What reads this machine already at the start of the program: nothing here.
#[derive(Debug)]
pub(crate) enum Started {}

pub(crate) enum Fork {
    Program(Option<Box<Started>>),
    #[allow(dead_code, reason = "only where GPUs are read is there a sampler")]
    Sampler(io::Result<()>),
}

pub(crate) fn fork(_: &Sampling) -> Fork {
    Fork::Program(None)
}

pub(crate) fn watch(
    sampling: Sampling,
    _: Option<Box<Started>>,
    tell: impl Fn(News) -> bool + Send + 'static,
) -> io::Result<SetPace> {
    let (paces, orders) = mpsc::channel();
    let mut interval = sampling.interval;
    thread::Builder::new().name("feed".into()).spawn(move || {
        let mut memory = HostMemory::new(here::host_name());
        let mut is_heard = tell(News::Header(Header::of_boot(None)));
        while is_heard {
            is_heard = tell(News::Snapshot(Box::new(snapshot(&mut memory))));
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

/// Nothing runs here: a command's place can only be taken where its processes and signals are understood.
pub(crate) fn run_in_place(
    _: &[OsString],
    _: &[(OsString, OsString)],
    _: Option<impl io::Write + Send + 'static>,
    _: impl FnOnce(u32, bool) -> Begin,
) -> io::Result<Relayed> {
    Err(io::Error::other(system::LOGS_ONLY))
}

pub(crate) fn end_as(end: End) -> u8 {
    match end {
        End::Code(code) => u8::try_from(code & 0xff).unwrap_or(1),
        End::Signal(_) | End::Unknown => 1,
    }
}

pub(crate) fn load(_: &Sampling, _: u32) -> ReadLoad {
    Box::new(crate::record::HostMemory::default)
}

pub(crate) fn windows_processes() -> WindowsReading {
    WindowsReading::unread("Windows is asked from WSL2 only")
}

pub(crate) fn record(_: &Sampling, _: Option<u64>, _: File) -> io::Result<()> {
    Err(io::Error::other(system::LOGS_ONLY))
}

pub(crate) fn sample_as_child(_: &[OsString]) -> Option<io::Result<()>> {
    None
}

pub(crate) fn sample(sampling: &Sampling, count: Option<u64>) -> io::Result<()> {
    here::check_output_open()?;
    let mut memory = HostMemory::new(here::host_name());
    let mut is_read = write_line(&mut stdout(), &Header::of_boot(None))?;
    let mut left = count;
    while is_read && left != Some(0) {
        is_read = write_line(&mut stdout(), &snapshot(&mut memory))?;
        left = left.map(|left| left - 1);
        if left != Some(0) {
            thread::sleep(sampling.interval);
        }
    }
    Ok(())
}

pub(crate) fn boot_id() -> Option<String> {
    None
}

/// The processes of a system where none is read or signaled.
#[derive(Clone, Debug, Default)]
pub struct Kernel;

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, system::LOGS_ONLY)
}

impl ProcessControl for Kernel {
    type Handle = Infallible;

    fn open(&self, _: u32) -> io::Result<Infallible> {
        Err(unsupported())
    }

    fn inspect(&self, _: u32) -> io::Result<Option<Inspection>> {
        Err(unsupported())
    }

    fn has_open(&self, _: u32, _: &[String]) -> bool {
        false
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

impl Kernel {
    pub fn viewer(&self) -> Viewer {
        // No process belongs to this viewer.
        Viewer { uid: u32::MAX, ..Viewer::default() }
    }

    pub fn named(&self, _: u32) -> (Option<String>, String) {
        (None, String::new())
    }

    pub fn started_at(&self, _: ProcessKey) -> Option<WallTime> {
        None
    }

    pub fn are_set(&self, _: ProcessKey, _: &[String]) -> Option<Vec<(String, bool)>> {
        None
    }

    pub fn ask(&self, _: ProcessKey, _: &Release, _: impl Fn(Note)) -> Result<String, String> {
        Err(format!("nothing was sent: {}", system::LOGS_ONLY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::guard::Refusal;

    #[test]
    fn a_reading_says_why_there_are_no_gpus_and_knows_the_memory() {
        let snapshot = LogsOnly::read_once(&Sampling::default()).unwrap();
        let Driver::Unavailable { unavailable } = &snapshot.driver else { panic!("{:?}", snapshot.driver) };
        assert!(
            unavailable.to_lowercase().contains(std::env::consts::OS) && unavailable.contains("Linux"),
            "{unavailable}"
        );
        assert!(snapshot.devices.is_empty() && snapshot.holders.is_empty());
        assert!(snapshot.host.memory_total_bytes.value().is_some());
    }

    #[test]
    fn nothing_is_signaled() {
        let order = crate::app::effect::Order {
            key: ProcessKey { pid: std::process::id(), start_ticks: 1 },
            ran: crate::gpu::running::Running::unmarked("python train.py"),
            signal: Signal::Term,
            follows: None,
            cards: Vec::new(),
            grace: Duration::ZERO,
        };
        let ended = crate::runtime::process_control::end(&Kernel, &Kernel.viewer(), &order);
        assert!(matches!(ended, Err(Refusal::Failed(..))), "{ended:?}");
    }

    #[test]
    fn watching_tells_the_header_first_and_ends_when_nobody_listens() {
        let (told, news) = mpsc::channel();
        let sampling = Sampling { interval: Duration::from_millis(50), ..Sampling::default() };
        let set_pace = LogsOnly::watch(sampling, None, move |news| told.send(news).is_ok()).unwrap();
        set_pace(Duration::from_millis(1));
        assert!(matches!(news.recv().unwrap(), News::Header(_)));
        for _ in 0..2 {
            assert!(matches!(news.recv().unwrap(), News::Snapshot(_)));
        }
    }
}
