//! Owns reading logs off the drawing thread: a worker holds the knowledge base and turns texts and files into
//! diagnoses; another thread collects what comes through a pipe.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::allocations::{self, Place};
use super::files::{Keeper, read_all, read_file};
use super::rotated;
use super::unpack::{is_compressed, may_be_compressed};
use super::wake::{Tell, Wake};
use crate::allocations::figures::lead_with_the_first_failure;
use crate::allocations::message::as_log;
use crate::allocations::told::Filled;
use crate::app::Msg;
use crate::app::again::Progress;
use crate::app::msg::LogRead;
use crate::knowledge::allocations::add as add_snapshots;
use crate::knowledge::diagnosis::Oom;
use crate::knowledge::page;
use crate::knowledge::run::Run;
use crate::knowledge::{KnowledgeBase, Words};
use crate::log::PastedLog;
use crate::platform::{here, regular};
use crate::source::region::of_the_failure;
use crate::text::harmless;
use crate::units::WallTime;

/// The words of the knowledge base's first pass, once it is loaded.
#[derive(Clone, Default)]
pub(crate) struct Telling(Arc<OnceLock<Arc<Words>>>);

impl Telling {
    /// True if a block of a log may contain a decisive line; true for every block until the knowledge is loaded.
    pub(crate) fn may_matter(&self, block: &[u8]) -> bool {
        self.0.get().is_none_or(|words| words.stand_in(block))
    }

    /// The words of this knowledge base.
    pub(crate) fn learn(&self, base: &KnowledgeBase) {
        let _ = self.0.set(base.words());
    }
}

/// Where a log is.
pub(crate) enum Written {
    Text(String),
    /// All that a terminal's pane shows, of which only the command that failed is read.
    Pane(String),
    File(PathBuf),
}

/// What is to be read, with the generation of a log.
pub(crate) enum Job {
    /// A log with the memory snapshots of its run; one of them may be given in the log's place.
    Log { generation: u64, text: Written, snapshots: Vec<Place> },
    /// The log of a run that worked.
    Worked(String),
    /// What a log's file says from this byte on.
    Progress(PathBuf, usize),
}

/// The knowledge base, with a message about what was left out of it; or why it could not be loaded.
pub(crate) type Loaded = Result<(KnowledgeBase, Option<String>), String>;

/// The newest request. An older one that is not started yet is dropped: it may be large.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<OnDesk>>);

#[derive(Default)]
struct OnDesk {
    next: Option<Job>,
    at_work: bool,
    /// Nobody waits any more for what is being read.
    is_stopped: bool,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, OnDesk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, job: Job) {
        self.lock().next = Some(job);
    }

    fn take(&self) -> Option<Job> {
        let mut desk = self.lock();
        desk.at_work = desk.next.is_some();
        desk.is_stopped = false;
        desk.next.take()
    }

    /// Nobody waits any more for the log that is being read, or waits to be read.
    pub(crate) fn stop(&self) {
        let mut desk = self.lock();
        desk.is_stopped = true;
        desk.next.take_if(|job| matches!(job, Job::Log { .. }));
    }

    /// Whether somebody still waits for the log that is being read: a newer one replaces it.
    fn is_awaited(&self) -> bool {
        let desk = self.lock();
        !desk.is_stopped && !matches!(desk.next, Some(Job::Log { .. }))
    }

    fn done(&self) {
        self.lock().at_work = false;
    }

    /// True if nothing is being read and nothing waits to be read.
    pub(crate) fn is_clear(&self) -> bool {
        let desk = self.lock();
        desk.next.is_none() && !desk.at_work
    }
}

pub(crate) struct Reader {
    /// What is asked for and not read yet.
    pub(crate) desk: Desk,
    bell: Sender<()>,
    /// What a pipe's keeper asks.
    pub(crate) telling: Telling,
}

impl Reader {
    /// Starts the worker, which loads the knowledge at once or with the first log: watching GPUs needs none.
    pub(crate) fn start(
        knowledge: impl FnOnce() -> Loaded + Send + 'static,
        at_once: bool,
        wakes: Sender<Wake>,
    ) -> io::Result<Reader> {
        let (bell, rings) = mpsc::channel();
        let desk = Desk::default();
        let jobs = (desk.clone(), rings);
        let telling = Telling::default();
        let learnt = telling.clone();
        thread::Builder::new().name("reader".into()).spawn(move || {
            // The first ring may be for a log, which then lies on the desk.
            if !at_once && jobs.1.recv().is_err() {
                return;
            }
            match knowledge() {
                Ok((base, trouble)) => {
                    if let Some(trouble) = trouble {
                        wakes.trouble(trouble);
                    }
                    learnt.learn(&base);
                    wakes.tell(Msg::Glossary(Arc::new(page::glossary(&base))));
                    if jobs.0.is_clear() {
                        base.warm_up();
                    }
                    work(&base, &learnt, &jobs, &wakes);
                }
                Err(error) => refuse(&format!("The knowledge base could not be loaded: {error}"), &jobs, &wakes),
            }
        })?;
        Ok(Reader { desk, bell, telling })
    }

    /// Loads the knowledge at the first byte from the terminal: a paste takes longer to arrive than that,
    /// and watching GPUs needs no knowledge.
    pub(crate) fn when_touched(&self) -> impl FnOnce() + Send + 'static {
        let bell = self.bell.clone();
        move || {
            let _ = bell.send(());
        }
    }

    pub(crate) fn load(&self) {
        let _ = self.bell.send(());
    }

    /// Asks for this to be read, instead of what is asked for and not read yet.
    pub(crate) fn ask(&self, job: Job) {
        self.desk.put(job);
        let _ = self.bell.send(());
    }
}

type Jobs = (Desk, Receiver<()>);

/// Answers each request that no log can be read without the knowledge.
fn refuse(why: &str, (desk, rings): &Jobs, wakes: &Sender<Wake>) {
    let mut is_heard = wakes.tell(Msg::Trouble(why.to_owned()));
    while is_heard {
        if let Some(job) = desk.take() {
            desk.done();
            is_heard = wakes.tell(match job {
                Job::Log { generation, .. } => Msg::Unread(generation, why.to_owned()),
                Job::Worked(_) => Msg::RunThatWorked(Box::new(Err(why.to_owned()))),
                Job::Progress(..) => Msg::Trouble(why.to_owned()),
            });
        }
        if rings.recv().is_err() {
            return;
        }
    }
}

fn work(base: &KnowledgeBase, telling: &Telling, (desk, rings): &Jobs, wakes: &Sender<Wake>) {
    let mut looked_beside = None;
    loop {
        let Some(job) = desk.take() else {
            match rings.recv() {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        let mut innocent = None;
        let msg = match job {
            Job::Worked(text) => {
                let run = base.run_that_worked(&PastedLog::new(text));
                Msg::RunThatWorked(Box::new(run.map_err(str::to_owned)))
            }
            Job::Progress(path, from) => match open(&path, telling) {
                Ok((bytes, _)) => Msg::Progress(progress(base, bytes.get(from..).unwrap_or(&bytes))),
                Err(error) => Msg::Trouble(format!("{} can't be read: {error}", path.display())),
            },
            Job::Log { generation, text, snapshots } => {
                let subject = Subject::of(base, &text, &snapshots, telling, desk);
                match subject.map(|subject| read(base, generation, subject)) {
                    Ok(read) => {
                        if let Some(found) = beside(&text, &snapshots, &read) {
                            wakes.tell(found);
                        }
                        if let (Written::File(path), Oom::No) = (text, read.diagnosis.oom) {
                            innocent = Some(path);
                        }
                        Msg::LogRead(Box::new(read))
                    }
                    Err(why) => Msg::Unread(generation, why),
                }
            }
        };
        desk.done();
        if !wakes.tell(msg) {
            return;
        }
        if let Some(path) = innocent
            && let Some(part) = failed_before(base, telling, &path, desk, &mut looked_beside)
        {
            wakes.trouble(part);
        }
    }
}

/// How far a run came, by what its log says.
fn progress(base: &KnowledgeBase, text: &[u8]) -> Progress {
    let diagnosis = base.diagnose(&PastedLog::from_bytes(text.to_vec()), None);
    let Run { step, epoch, .. } = diagnosis.run;
    Progress { step, epoch, failed_again: diagnosis.oom == Oom::Yes }
}

/// Opens a log. Fails for a folder, and for a device, which may never end.
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name the log in it"));
    }
    if here::is_device(kind) {
        return Err(io::Error::other("it is a device, not a log"));
    }
    regular::open(path)
}

pub(crate) fn is_named_pipe(path: &Path) -> io::Result<bool> {
    Ok(here::is_named_pipe(std::fs::metadata(path)?.file_type()))
}

/// Opens a named pipe without waiting for its writer; `None` if the file is something else.
pub(crate) fn named_pipe(path: &Path) -> io::Result<Option<File>> {
    if is_named_pipe(path)? { here::open_named_pipe(path).map(Some) } else { Ok(None) }
}

/// A person who waits for a log gets a message after this time.
const A_MOMENT: Duration = Duration::from_secs(2);

/// A pipe that is read until its writer ends, with one message if that takes long.
pub(crate) struct Awaited<F> {
    pipe: here::Pipe,
    said: bool,
    since: Instant,
    say: F,
}

impl<F: Fn()> Awaited<F> {
    /// From now on; `say` is called after a moment, where somebody `listens`.
    pub(crate) fn new(pipe: File, listens: bool, say: F) -> Awaited<F> {
        Awaited { pipe: here::Pipe::new(pipe), said: !listens, since: Instant::now(), say }
    }
}

impl<F: Fn()> Read for Awaited<F> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = A_MOMENT.saturating_sub(self.since.elapsed());
            if !self.said && left.is_zero() {
                self.said = true;
                (self.say)();
            }
            let patience = (!self.said).then_some(left);
            if let Some(count) = self.pipe.read_within(block, patience)? {
                return Ok(count);
            }
        }
    }
}

/// A file's log, shortened where it is huge, and when it was last written.
pub(crate) fn open(path: &Path, telling: &Telling) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    read_opened(open_log(path)?, telling)
}

/// The same for a file that is open.
pub(crate) fn read_opened(file: File, telling: &Telling) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let written = written.and_then(|time| jiff::Timestamp::try_from(time).ok()).map(WallTime);
    Ok((read_file(file, |block| telling.may_matter(block))?, written))
}

/// What one reading is about: a log and what the memory snapshots of its run show.
struct Subject {
    log: PastedLog,
    written: Option<WallTime>,
    filled: Vec<Filled>,
}

impl Subject {
    /// Reads the log, which may be a memory snapshot itself: then the error that it recorded is the log.
    fn of(
        base: &KnowledgeBase,
        text: &Written,
        snapshots: &[Place],
        telling: &Telling,
        desk: &Desk,
    ) -> Result<Subject, String> {
        let filled = allocations::of_all(snapshots, &|| desk.is_awaited())?;
        let path = match text {
            Written::Text(text) => return Ok(Subject { log: PastedLog::new(text.clone()), written: None, filled }),
            Written::Pane(text) => {
                let log = PastedLog::new(of_the_failure(base, text).to_owned());
                return Ok(Subject { log, written: None, filled });
            }
            Written::File(path) => path,
        };
        if allocations::is_snapshot(path).unwrap_or(false) {
            let mut all = allocations::of_all(&[Place::File(path.clone())], &|| desk.is_awaited())?;
            all.extend(filled);
            lead_with_the_first_failure(&mut all);
            let recorded = all.first().map(|leading| as_log(leading).unwrap_or_else(|| leading.sentence.clone()));
            let log = PastedLog::new(recorded.unwrap_or_default());
            return Ok(Subject { log, written: written_at(path), filled: all });
        }
        let (bytes, written) =
            open(path, telling).map_err(|error| format!("{} can't be read: {error}", path.display()))?;
        Ok(Subject { log: PastedLog::from_bytes(bytes), written, filled })
    }
}

/// When a file was last written.
fn written_at(path: &Path) -> Option<WallTime> {
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    jiff::Timestamp::try_from(written).ok().map(WallTime)
}

fn read(base: &KnowledgeBase, generation: u64, subject: Subject) -> LogRead {
    let Subject { log, written, filled } = subject;
    let began = Instant::now();
    let mut diagnosis = base.diagnose(&log, Some(&jiff::Zoned::now()));
    add_snapshots(&mut diagnosis, filled);
    log::debug!(
        "log {generation}: {} bytes, {} lines, {} entries matched, first {:?}, read in {:?}",
        log.raw().len(),
        log.line_count(),
        diagnosis.matches.len(),
        diagnosis.matches.first().map(|found| &found.entry),
        began.elapsed()
    );
    let fixes = base.leading_fixes(&diagnosis);
    let pages = page::of_matches(base, &diagnosis);
    LogRead { generation, log: Arc::new(log), diagnosis, fixes, pages, written }
}

/// The files beside the log of a failure that look like memory snapshots of its run, where none were read with it.
fn beside(text: &Written, snapshots: &[Place], read: &LogRead) -> Option<Msg> {
    let Written::File(path) = text else { return None };
    if !snapshots.is_empty() || !read.diagnosis.allocations.is_empty() || read.diagnosis.oom == Oom::No {
        return None;
    }
    let found = allocations::beside(path);
    let files: Vec<PathBuf> = found.small.into_iter().chain(found.large).collect();
    (!files.is_empty()).then_some(Msg::SnapshotsBeside(read.generation, files))
}

/// Says which earlier part of a rotated log has the failure that the log itself does not show. A log that grows is asked
/// about once, and no further part is opened once something else waits to be read.
fn failed_before(
    base: &KnowledgeBase,
    telling: &Telling,
    path: &Path,
    desk: &Desk,
    looked_beside: &mut Option<PathBuf>,
) -> Option<String> {
    if looked_beside.as_deref() == Some(path) {
        return None;
    }
    *looked_beside = Some(path.to_owned());
    let part = rotated::with_the_failure(rotated::earlier(path), base, |part| open_unless_busy(part, telling, desk))?;
    let shown = harmless(&part.path.display().to_string()).into_owned();
    Some(format!("No failure in this log, but in {shown}, an earlier part of it: open that"))
}

/// Opens a log unless another one waits to be read.
fn open_unless_busy(path: &Path, telling: &Telling, desk: &Desk) -> io::Result<(Vec<u8>, Option<WallTime>)> {
    if desk.is_clear() { open(path, telling) } else { Err(io::ErrorKind::Interrupted.into()) }
}

/// New text is passed on no more often than this, and more rarely the more there is.
const PACE: Duration = Duration::from_millis(300);

/// Collects a pipe and passes on what there is: while the last of it is still being read, nothing new is passed
/// on, so that a slow machine does not hold it many times over.
pub(crate) fn read_pipe(input: File, wakes: Sender<Wake>, telling: Telling, desk: Desk) -> io::Result<()> {
    thread::Builder::new().name("pipe".into()).spawn(move || {
        let mut input = here::Pipe::new(input);
        let head = head_of(&mut input);
        if is_compressed(&head) {
            return read_compressed(head, input, &telling, &wakes);
        }
        let mut keeper = Keeper::new(|block: &[u8]| telling.may_matter(block));
        let mut block = vec![0; 64 << 10];
        let mut sent = Instant::now();
        let mut unsent = !head.is_empty();
        keeper.push(&head);
        loop {
            let (bytes, closed) = match next_block(&mut input, &mut block, unsent.then_some(PACE)) {
                Some(0) => (0, true),
                Some(count) => (count, false),
                None => (0, false),
            };
            keeper.push(block.get(..bytes).unwrap_or_default());
            unsent |= bytes > 0;
            let kept = keeper.kept();
            let pace = PACE + Duration::from_millis(u64::try_from(kept >> 20).unwrap_or(0) * 20);
            if closed || (unsent && sent.elapsed() >= pace && desk.is_clear()) {
                let text = PastedLog::decode(keeper.bytes());
                if !wakes.tell(Msg::Stdin { text, closed }) || closed {
                    return;
                }
                (sent, unsent) = (Instant::now(), false);
            }
        }
    })?;
    Ok(())
}

/// The first bytes of a pipe: so many that a compressed log can be told.
fn head_of(input: &mut here::Pipe) -> Vec<u8> {
    let mut head = Vec::new();
    let mut byte = [0];
    while head.is_empty() || may_be_compressed(&head) {
        match next_block(input, &mut byte, None) {
            Some(0) => break,
            Some(_) => head.extend_from_slice(&byte),
            None => {}
        }
    }
    head
}

/// Passes on a compressed log once all of it came: it was written before, so nobody waits for its next line.
fn read_compressed(head: Vec<u8>, input: here::Pipe, telling: &Telling, wakes: &Sender<Wake>) {
    let rest = Awaited { pipe: input, said: true, since: Instant::now(), say: || {} };
    let read = read_all(io::Cursor::new(head).chain(rest), |block| telling.may_matter(block));
    let (text, trouble) = match read {
        Ok(bytes) => (PastedLog::decode(bytes), None),
        Err(error) => (Some(String::new()), Some(format!("The pipe can't be read: {error}"))),
    };
    wakes.tell(Msg::Stdin { text, closed: true });
    if let Some(trouble) = trouble {
        wakes.trouble(trouble);
    }
}

/// Reads what comes; `Some(0)` at the end, `None` where nothing came in time.
fn next_block(input: &mut here::Pipe, block: &mut [u8], patience: Option<Duration>) -> Option<usize> {
    match input.read_within(block, patience) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
        Ok(count) => count,
        Err(_) => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The first text that comes through a pipe holding this.
    fn first_of_pipe(bytes: &[u8]) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let (wakes, heard) = mpsc::channel();
        read_pipe(File::open(file.path()).unwrap(), wakes, Telling::default(), Desk::default()).unwrap();
        heard.iter().find_map(|wake| match wake {
            Wake::Msg(Msg::Stdin { text, closed: true }) => text,
            _ => None,
        })
    }

    #[test]
    fn a_compressed_log_is_unpacked_on_its_way_through_a_pipe() {
        let packed = include_bytes!("../../tests/packed/crash.log.bz2");
        assert!(first_of_pipe(packed).unwrap().ends_with("CUDA out of memory. Tried to allocate 2.00 GiB\n"));
        assert_eq!(first_of_pipe(b"BZh is no magic\n").unwrap(), "BZh is no magic\n");
        assert_eq!(first_of_pipe(b"B").unwrap(), "B");
    }
}
