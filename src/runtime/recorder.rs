//! Owns recording a command: its output, as it arrives in frames, and the readings of the machine meanwhile become a
//! record. Runs in a process of its own beside the command, so whatever happens here does not touch the command.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use aho_corasick::AhoCorasick;

use super::files::Keeper;
use super::runs::{Tape, new_path, prune};
use crate::platform::{News, Sampling, SetPace, here, machine};
use crate::record::frame::{Begin, Frame, What};
use crate::record::recording::Recording;
use crate::record::rise::GLANCE;
use crate::record::scribe::Scribe;
use crate::record::{End, HostMemory, Line, Millis, Note};
use crate::units::WallTime;

/// What output about memory has in it. A line with one is a mark on the record, no verdict: programs catch such errors and
/// go on.
const TELLING: [&str; 15] = [
    "out of memory",
    "outofmemory",
    "out_of_memory",
    "cannot allocate",
    "can't allocate",
    "failed to allocate",
    "unable to allocate",
    "bad_alloc",
    "memoryerror",
    "alloc_failed",
    "not enough memory",
    "insufficient memory",
    "resource_exhausted",
    "oom-kill",
    "oomkilled",
];
/// The time between two lists of the processes, and while something happens.
const LISTS: Duration = Duration::from_secs(1);
const LISTS_AT_A_MARK: Duration = Duration::from_millis(GLANCE);
/// How long a mark makes the lists come faster.
const AFTER_A_MARK: Duration = Duration::from_secs(2);
/// Marks that are written; a program that retries for ever prints more.
const MOST_MARKS: usize = 200;
/// When lines came is known of so many moments before the end.
const MOST_STAMPS: usize = 4096;
/// The longest part of a line that is noted.
const LONGEST_LINE: usize = 400;
/// Output that waits to be looked at.
const WAITING: usize = 16;

/// How a command is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) sampling: Sampling,
    /// The state folder; `None` writes nothing.
    pub(crate) state: Option<PathBuf>,
    /// Another file than one of the state folder's.
    pub(crate) path: Option<PathBuf>,
}

/// A command that was recorded.
pub(crate) struct Recorded {
    pub(crate) begin: Begin,
    pub(crate) end: End,
    /// The output, without its middle where it was long.
    pub(crate) log: Vec<u8>,
    pub(crate) recording: Recording,
    /// The record's file.
    pub(crate) path: Option<PathBuf>,
}

/// What happens while a command runs.
enum Event {
    News(News),
    Mark(Millis, String),
    End(Millis, End),
    /// No more frames come.
    Gone,
}

/// Records until the frames end. `None` if they never began.
pub(crate) fn record(mut frames: impl Read + Send + 'static, setup: &Setup) -> Option<Recorded> {
    let Some(Frame { what: What::Begin(begin), .. }) = Frame::read(&mut frames) else { return None };
    let (events, queue) = mpsc::sync_channel(WAITING);
    let listener = events.clone();
    let listening = thread::Builder::new().name("listen".into()).spawn(move || listen(frames, &listener)).ok()?;
    let pace = if begin.samples { watch(&setup.sampling, &events) } else { None };
    drop(events);
    let (end, tape, path) = write_down(&begin, setup, &queue, pace)?;
    let heard = listening.join().ok()?;
    // Through a pipe a program keeps lines back, so when they came says nothing.
    let lines = if begin.is_prompt { heard.line_times() } else { Vec::new() };
    if let (Some(path), false) = (&path, lines.is_empty()) {
        let _ = super::runs::add(path, Note::Lines { lines: lines.clone() });
    }
    let mut recording = tape.recording().ok()?;
    recording.lines = lines;
    Some(Recorded { begin, end, log: heard.log, recording, path })
}

/// Reads the machine until nobody listens.
fn watch(sampling: &Sampling, events: &SyncSender<Event>) -> Option<SetPace> {
    let events = events.clone();
    let sampling = Sampling { interval: LISTS, glance: Some(Duration::from_millis(GLANCE)), ..sampling.clone() };
    machine::watch(sampling, None, move |news| events.send(Event::News(news)).is_ok()).ok()
}

fn write_down(
    begin: &Begin,
    setup: &Setup,
    queue: &Receiver<Event>,
    pace: Option<SetPace>,
) -> Option<(End, Tape, Option<PathBuf>)> {
    let path = path(begin, setup);
    if let (Some(path), None) = (&path, &setup.path) {
        prune(path);
    }
    let boot = machine::boot_id();
    let (mut tape, path) = match Tape::begin(path.as_deref(), boot.clone(), &begin.run) {
        Ok(tape) => (tape, path),
        Err(error) => {
            log::info!("the record can't be written: {error}");
            (Tape::begin(None, boot, &begin.run).ok()?, None)
        }
    };
    let mut scribe = Scribe::new(&begin.run);
    let mut load = begin.samples.then(|| machine::load(&setup.sampling, begin.run.pid));
    let began = Instant::now();
    let (mut next_load, mut fast_until, mut marks) = (began, None::<Instant>, 0);
    let mut end = None;
    while end.is_none() {
        let now = Instant::now();
        if let Some(load) = &mut load
            && now >= next_load
        {
            next_load = now + LISTS;
            let at = scribe.at(WallTime(jiff::Timestamp::now()));
            let line = scribe.host(at, load());
            put(&mut tape, &mut scribe, line);
        }
        if let Some(pace) = &pace
            && fast_until.is_some_and(|until| now >= until)
        {
            fast_until = None;
            pace(LISTS);
        }
        let event = match queue.recv_timeout(next_load.saturating_duration_since(now).max(Duration::from_millis(20))) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match event {
            Event::News(News::Snapshot(snapshot)) => {
                let lines = scribe.reading(&snapshot);
                put(&mut tape, &mut scribe, lines);
            }
            Event::News(News::Glance(glance)) => {
                let line = scribe.glance(&glance);
                put(&mut tape, &mut scribe, line);
            }
            Event::News(News::Peaks(told)) => {
                let at = scribe.at(WallTime(jiff::Timestamp::now()));
                put(&mut tape, &mut scribe, [Line::Note(Note::Peaks { at, peaks: told.peaks })]);
            }
            Event::News(_) => {}
            Event::Mark(at, text) => {
                if marks < MOST_MARKS {
                    marks += 1;
                    put(&mut tape, &mut scribe, [Line::Note(Note::Mark { at, text })]);
                }
                if let Some(pace) = &pace {
                    fast_until = Some(Instant::now() + AFTER_A_MARK);
                    pace(LISTS_AT_A_MARK);
                }
            }
            Event::End(at, how) => end = Some((at, how)),
            // Who passed the output on was killed.
            Event::Gone => break,
        }
    }
    let (at, end) = end.unwrap_or_else(|| (scribe.at(WallTime(jiff::Timestamp::now())), End::Unknown));
    // The kernel counts a kill before the command can end of it.
    if let Some(load) = &mut load {
        let host: HostMemory = load();
        put(&mut tape, &mut scribe, [Line::Note(Note::Host { at, host })]);
    }
    put(&mut tape, &mut scribe, [Line::Note(Note::End { at, end })]);
    Some((end, tape, path))
}

/// Where the record goes.
fn path(begin: &Begin, setup: &Setup) -> Option<PathBuf> {
    if let Some(path) = &setup.path {
        return Some(path.clone());
    }
    let state = setup.state.as_ref()?;
    new_path(state, &begin.run).inspect_err(|error| log::info!("no folder for records: {error}")).ok()
}

/// Writes lines. A full disk loses them, and nothing else.
fn put(tape: &mut Tape, scribe: &mut Scribe, lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        match tape.write(&line) {
            Ok(true) => scribe.begin_anew(),
            Ok(false) => {}
            Err(error) => log::info!("the record can't be written: {error}"),
        }
    }
}

/// The output as it was heard.
#[derive(Default)]
struct Heard {
    log: Vec<u8>,
    /// The time, and how many lines had come by then.
    stamps: VecDeque<(Millis, u64)>,
    lines: u64,
}

impl Heard {
    /// The times of lines by their number in the kept text, whose middle may be missing: counted from its end.
    fn line_times(&self) -> Vec<(Millis, u32)> {
        let kept = memchr::memchr_iter(b'\n', &self.log).count() as u64;
        let times = self.stamps.iter().filter_map(|(at, lines)| {
            let from_the_end = self.lines.saturating_sub(*lines);
            u32::try_from(kept.checked_sub(from_the_end)?).ok().map(|line| (*at, line))
        });
        times.filter(|(_, line)| *line > 0).collect()
    }
}

/// Reads frames to their end. What waits here makes nobody wait: the sender drops what is not taken.
fn listen(mut frames: impl Read, events: &SyncSender<Event>) -> Heard {
    here::be_patient();
    let Ok(telling) = AhoCorasick::builder().ascii_case_insensitive(true).build(TELLING) else {
        return Heard::default();
    };
    let mut keeper = Keeper::new(|block| telling.is_match(block));
    let mut heard = Heard::default();
    let mut has_ended = false;
    let mut line = Vec::new();
    while let Some(frame) = Frame::read(&mut frames) {
        match frame.what {
            What::Begin(_) => {}
            What::Output(bytes) => {
                keeper.push(&bytes);
                heard.lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
                if heard.stamps.back().is_none_or(|(at, _)| frame.at >= at + GLANCE) {
                    heard.stamps.push_back((frame.at, heard.lines));
                } else if let Some((_, lines)) = heard.stamps.back_mut() {
                    *lines = heard.lines;
                }
                if heard.stamps.len() > MOST_STAMPS {
                    heard.stamps.pop_front();
                }
                line.extend_from_slice(&bytes);
                if let Some(mark) = marked(&telling, &line) {
                    let _ = events.send(Event::Mark(frame.at, mark));
                    line.clear();
                }
                // A telling word may be cut by the end of a frame.
                let surplus = line.len().saturating_sub(LONGEST_LINE);
                line.drain(..surplus);
            }
            What::Missing(count) => {
                keeper.push(format!("\n… {} {}\n", crate::units::Bytes(count), crate::log::LEFT_OUT).as_bytes());
                heard.lines += 2;
                line.clear();
            }
            What::End(end) => {
                has_ended = true;
                let _ = events.send(Event::End(frame.at, end));
            }
        }
    }
    if !has_ended {
        let _ = events.send(Event::Gone);
    }
    heard.log = keeper.bytes();
    heard
}

/// The line of the last telling word.
fn marked(telling: &AhoCorasick, text: &[u8]) -> Option<String> {
    let at = telling.find_iter(text).last()?;
    let before = text.get(..at.start())?;
    let start = memchr::memrchr2(b'\n', b'\r', before).map_or(0, |at| at + 1);
    let rest = text.get(at.end()..)?;
    let end = memchr::memchr2(b'\n', b'\r', rest).map_or(text.len(), |length| at.end() + length);
    let line = text.get(start..end)?;
    let kept = line.get(..line.len().min(LONGEST_LINE))?;
    Some(String::from_utf8_lossy(kept).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Run, RunOptions};

    fn begin() -> Frame {
        begin_of(true)
    }

    fn begin_of(is_prompt: bool) -> Frame {
        let run = Run {
            started_at: WallTime(jiff::Timestamp::now()),
            argv: vec!["python".into()],
            folder: "/".into(),
            pid: std::process::id(),
            tries: None,
            environment: Vec::new(),
            options: RunOptions::default(),
        };
        Frame { at: 0, what: What::Begin(Begin { run, is_prompt, samples: false }) }
    }

    fn recorded(frames: &[Frame]) -> Option<Recorded> {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        let setup = Setup { sampling: Sampling::default(), state: None, path: None };
        record(std::io::Cursor::new(bytes), &setup)
    }

    fn output(at: Millis, text: &str) -> Frame {
        Frame { at, what: What::Output(text.as_bytes().to_vec()) }
    }

    #[test]
    fn output_marks_and_end_are_kept_with_their_times() {
        let frames = [
            begin(),
            output(100, "step 1\nstep 2\n"),
            output(900, "RuntimeError: CUDA out of mem"),
            output(901, "ory. Tried\nbye\n"),
            Frame { at: 1000, what: What::End(End::Code(1)) },
        ];
        let recorded = recorded(&frames).unwrap();
        assert_eq!(recorded.end, End::Code(1));
        assert_eq!(recorded.log, b"step 1\nstep 2\nRuntimeError: CUDA out of memory. Tried\nbye\n");
        assert_eq!(recorded.recording.marks, [(901, "RuntimeError: CUDA out of memory. Tried".into())]);
        assert_eq!(recorded.recording.lines, [(100, 2), (900, 4)]);
        assert_eq!(recorded.recording.failed_at(), Some(901));
    }

    #[test]
    fn of_lines_that_a_pipe_delayed_no_time_is_kept() {
        let frames = [begin_of(false), output(100, "step 1\n"), Frame { at: 200, what: What::End(End::Code(1)) }];
        let recorded = recorded(&frames).unwrap();
        assert_eq!((recorded.recording.line_at(200), recorded.log.as_slice()), (None, &b"step 1\n"[..]));
    }

    #[test]
    fn frames_that_stop_are_an_unknown_end_and_none_are_no_record() {
        assert_eq!(recorded(&[begin(), output(1, "x\n")]).unwrap().end, End::Unknown);
        assert!(recorded(&[]).is_none());
        assert!(recorded(&[output(1, "x\n")]).is_none());
    }

    #[test]
    fn where_output_is_missing_the_times_count_from_the_end() {
        let frames = [
            begin(),
            Frame { at: 1, what: What::Missing(5 << 30) },
            output(500, "a\nb\n"),
            output(800, "c\n"),
            Frame { at: 900, what: What::End(End::Code(1)) },
        ];
        let recorded = recorded(&frames).unwrap();
        let text = String::from_utf8(recorded.log).unwrap();
        let line = recorded.recording.line_at(700).unwrap() as usize;
        assert_eq!(text.lines().nth(line - 1), Some("b"));
    }
}
