//! Owns the loop between the outside world and the app: it turns what happens into messages, hands in the time, and
//! does what `update` asks for. Draws once after all that is queued was taken in. Knows nothing of what a log means.
//! Keeps a piped job alive after the person has left: without a reader the job would fail with a broken pipe, so a detached
//! copy of this program reads it to its end and throws it away.

pub(crate) mod allocations;
pub(crate) mod clipboard;
mod commands;
pub(crate) mod debug_log;
pub(crate) mod demo;
pub mod files;
pub(crate) mod follow;
pub(crate) mod hosts;
pub(crate) mod journal;
pub(crate) mod keyboard;
pub(crate) mod last;
pub(crate) mod outbox;
pub(crate) mod outside;
pub mod process_control;
pub(crate) mod reader;
pub(crate) mod recorder;
pub(crate) mod rotated;
mod run_again;
pub(crate) mod runs;
pub(crate) mod snapshots;
pub(crate) mod sources;
pub mod terminal;
mod unpack;
pub mod wake;

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use demo::DemoMachine;
use files::each_block;
use journal::Journal;
use keyboard::Lent;
use last::Shelf;
use outside::{Control, Outside};
use process_control::Leaders;
use reader::Reader;
pub use run_again::Runner;
use terminal::Screen;
use wake::{Clock, Tell, Wake, new_size};

use crate::app::last::Story;
use crate::app::model::{AwaitedRecord, Config, Pipe};
use crate::app::replay::Played;
use crate::app::run_again::RunAgain;
use crate::app::summary::in_one_line;
use crate::app::update::{expect, look_around, open_file, open_last, wait_for_pipe};
use crate::app::{Effect, Model, Msg, update};
use crate::platform::{Asked, Kernel, Sampling, SetPace, Started, here, machine};

/// No more than about thirty frames a second, however much happens: so many within so long. One that comes alone, or
/// with a few others as at the start, is drawn at once.
const BURST: usize = 4;
const BURST_TIME: Duration = Duration::from_millis(133);

/// The first frame waits so long for the first reading, which mostly comes sooner: nobody sees an empty screen by then.
const FIRST_FRAME: Duration = Duration::from_millis(25);

/// Failed logs are looked for so long after the first frame: the programs that this starts would hold up a busy machine's
/// terminal before it shows the frame.
const LOOKS_AROUND_AFTER: Duration = Duration::from_millis(50);

/// A session that a signal asks to end is ended if it still runs after this time.
const END_WITHIN: Duration = Duration::from_secs(5);

/// After so many readings a session has done all that it does each second: after 10 s processes are seen to be idle.
const READINGS_OF_THE_START: u64 = 12;

/// The numbers of the signals that a terminal's keys send to the command in its foreground (POSIX).
const INTERRUPT: i32 = 2;
const QUIT: i32 = 3;

/// Where the log comes from at the start.
#[derive(Debug)]
pub enum LogSource {
    None,
    /// A file, which may be a memory snapshot, with snapshots of the same run.
    File(PathBuf, Vec<PathBuf>),
    /// The log of the last time.
    Last(Box<Story>, String),
    /// A pipe that its writer may hold open for long: standard input, or a named one.
    Pipe(File),
}

/// What the program is started with.
pub struct Start {
    /// What does not change.
    pub config: Config,
    /// Where processes are looked up before they are signalled.
    pub kernel: Kernel,
    /// Where signals are recorded.
    pub journal: Journal,
    /// The state folder; `None` where no home is known.
    pub state: Option<PathBuf>,
    /// How this machine is read; `None` plays the demo.
    pub sampling: Option<Sampling>,
    /// What reads it already.
    pub(crate) sampler: Option<Box<Started>>,
    /// Loads the knowledge, with a word about what could not be used; called on a worker, when there is a log to read.
    pub knowledge: Box<dyn FnOnce() -> reader::Loaded + Send>,
    /// The knowledge is loaded at the start, so that what is wrong with a person's own entries is said.
    pub own_knowledge: bool,
    /// The log to open.
    pub log: LogSource,
    /// The recording to show.
    pub replay: Option<Played>,
    /// Failed logs are looked for on this machine where none is given.
    pub finds_logs: bool,
    /// How a recorded command is run again.
    pub runner: Runner,
    /// The other machines to watch.
    pub hosts: crate::hosts::Asked,
}

/// Runs the terminal program until the person leaves or a signal ends it, and returns the number of that signal. Fails if
/// there is no terminal to draw on.
pub fn run(start: Start) -> io::Result<Option<i32>> {
    terminal::give_back_on_panic();
    here::return_large_blocks();
    let (wakes, queue) = mpsc::channel();
    let clock = Clock::start();
    let for_hosts = start.sampling.clone();
    let live = start.sampling.map(|sampling| watch(sampling, start.sampler, wakes.clone())).transpose()?;
    // Signals are handled before the terminal is taken: otherwise one of them could leave it as it is then.
    let lifeline = Lifeline::default();
    listen_to_signals(wakes.clone(), lifeline.clone())?;
    let mut screen = Screen::take()?;
    let mut model = Model::new(start.config, terminal::size()?, clock.wall());
    let control = match &live {
        Some(_) => Control::Real(Arc::new(start.kernel)),
        None => {
            let machine = Arc::new(DemoMachine::default());
            machine.play(model.config.interval, wakes.clone())?;
            Control::Demo(machine)
        }
    };
    // A pipe is searched while it is read.
    let at_once = start.own_knowledge || matches!(start.log, LogSource::Pipe(_));
    let reader = Reader::start(start.knowledge, at_once, wakes.clone())?;
    let lent = Lent::default();
    keyboard::listen(clock, wakes.clone(), reader.telling.clone(), reader.when_touched(), lent.clone())?;
    if let Some(folder) = &start.state {
        forget_unwanted_log(&model.config, folder, &wakes);
    }
    let shelf = Shelf::start(start.state.clone(), wakes.clone())?;
    let (viewer, journal, state) = (model.config.viewer.clone(), start.journal, start.state);
    let leaders = Leaders::default();
    let options = start.runner.options.clone();
    let mut outside =
        Outside { wakes, reader, viewer, control, set_pace: live, leaders, journal, state, shelf, options };
    let is_without_log = matches!(start.log, LogSource::None) && start.replay.is_none();
    let looks_around = start.finds_logs && is_without_log && matches!(outside.control, Control::Real(_));
    lifeline.hold(open_log(start.log, &mut model, &mut outside)?);
    if let Some(sampling) = for_hosts
        && !start.hosts.is_nothing()
    {
        expect(&mut model, &start.hosts.hosts);
        let wakes = outside.wakes.clone();
        hosts::watch(&start.hosts, &sampling, move |reading| wakes.tell(Msg::Host(Box::new(reading))));
    }
    if let Some(tape) = start.replay {
        show(tape, &mut model, clock);
    }
    if outside.set_pace.is_some() {
        // While the first reading is awaited, so that it is shown sooner.
        screen.rehearse(&mut model);
    }
    let session = Session {
        model: &mut model,
        screen: &mut screen,
        outside: &mut outside,
        clock,
        is_dirty: true,
        drawn_first: None,
        looks_around,
        runner: start.runner,
        lent,
        readings: 0,
        is_started: false,
    };
    let left = session.run(&queue);
    // However the session ends, the job that writes into the pipe must not fail with a broken pipe. It comes before all that a
    // terminal which takes nothing any more would hold up.
    let job_goes_on = model.input.pipe == Pipe::Open && lifeline.hand_over();
    drop(screen);
    // One line stays where the person works: what was short, what was done, what it freed.
    if let Some(line) = in_one_line(&model) {
        let _ = writeln!(io::stderr(), "{line}");
    }
    if job_goes_on {
        let words = "oomdoctor has left; the job that is piped into it goes on. Ctrl-C here would end the job.";
        let _ = writeln!(io::stderr(), "{words}");
    }
    left
}

/// Reads this machine again and again.
fn watch(sampling: Sampling, sampler: Option<Box<Started>>, wakes: Sender<Wake>) -> io::Result<SetPace> {
    machine::watch(sampling, sampler, move |news| wakes.send(Wake::from(news)).is_ok())
}

fn listen_to_signals(wakes: Sender<Wake>, lifeline: Lifeline) -> io::Result<()> {
    here::listen_to_signals(move |asked| match asked {
        Asked::Resized => wakes.tell(new_size()),
        Asked::End(signal) => end_by(signal, &wakes, &lifeline),
        asked => wakes.send(Wake::Asked(asked)).is_ok(),
    })
}

/// Asks the session to end. One that can't, because the terminal takes nothing any more, is ended here.
fn end_by(signal: i32, wakes: &Sender<Wake>, lifeline: &Lifeline) -> bool {
    let (kept, ends) = mpsc::channel();
    let is_heard = wakes.send(Wake::End(signal, kept)).is_ok();
    if is_heard && ends.recv_timeout(END_WITHIN) == Err(RecvTimeoutError::Timeout) {
        lifeline.hand_over();
        here::end_at_once(signal);
    }
    is_heard
}

/// Removes the last log of an earlier session if the settings say that none is kept.
fn forget_unwanted_log(config: &Config, folder: &Path, wakes: &Sender<Wake>) {
    if config.keep_log || config.read_only {
        return;
    }
    if let Err(error) = last::forget(folder) {
        wakes.trouble(format!("The last log could not be removed: {error}"));
    }
}

/// Opens the log of the start. Returns the pipe if that is where it comes from.
fn open_log(source: LogSource, model: &mut Model, outside: &mut Outside) -> io::Result<Option<File>> {
    match source {
        LogSource::None => {}
        LogSource::File(path, snapshots) => {
            follow::follow(path.clone(), outside.wakes.clone(), outside.reader.desk.clone())?;
            outside.act(open_file(model, path, snapshots));
        }
        LogSource::Last(story, text) => outside.act(open_last(model, text, *story)),
        LogSource::Pipe(pipe) => {
            let copy = pipe.try_clone()?;
            let Reader { telling, desk, .. } = &outside.reader;
            reader::read_pipe(copy, outside.wakes.clone(), telling.clone(), desk.clone())?;
            wait_for_pipe(model);
            return Ok(Some(pipe));
        }
    }
    Ok(None)
}

/// Shows a recording over the log of its command, if that is open.
fn show(tape: Played, model: &mut Model, clock: Clock) {
    if model.input.file.is_some() {
        model.input.record = Some(tape.path.clone());
        let run = tape.recording.run.as_ref();
        model.input.command = run.and_then(|run| shlex::try_join(run.argv.iter().map(String::as_str)).ok());
    }
    model.awaited_record = Some(AwaitedRecord::ToShow);
    update(model, Msg::Record(Ok(Arc::new(tape))), &clock.now());
}

/// The terminal program while it runs.
struct Session<'a> {
    model: &'a mut Model,
    screen: &'a mut Screen,
    outside: &'a mut Outside,
    clock: Clock,
    /// True if the screen does not show the model as it is now.
    is_dirty: bool,
    /// When something was drawn for the first time.
    drawn_first: Option<Duration>,
    /// Failed logs are still to be looked for.
    looks_around: bool,
    runner: Runner,
    /// Whether a command has the terminal, so that nothing is drawn or taken for a key.
    lent: Lent,
    /// How many readings came so far.
    readings: u64,
    /// What only the start needed was returned.
    is_started: bool,
}

/// `Break` ends the session, with the number of the signal that ended it.
type Flow = ControlFlow<Option<i32>>;

impl Session<'_> {
    fn run(mut self, queue: &Receiver<Wake>) -> io::Result<Option<i32>> {
        // When each of the next frames may be drawn, the nearest first.
        let mut frames = [Duration::ZERO; BURST];
        loop {
            let can_draw = self.is_dirty && !self.lent.is_lent();
            let frame = can_draw.then_some(self.due(frames[0]));
            let due = self.model.wakes_at().into_iter().chain(frame).chain(self.looks_around_at()).min();
            let wait = due.map(|due| due.saturating_sub(self.clock.elapsed()));
            let mut next = next_wake(queue, wait);
            if next.is_none() {
                return Ok(None);
            }
            while let Some(wake) = next {
                if let ControlFlow::Break(signal) = self.take(wake)? {
                    return Ok(signal);
                }
                next = queue.try_recv().ok();
            }
            if let Some(set_pace) = &self.outside.set_pace {
                set_pace(self.model.pace());
            }
            if self.is_dirty && !self.lent.is_lent() && self.clock.elapsed() >= self.due(frames[0]) {
                self.draw()?;
                frames.rotate_left(1);
                frames[BURST - 1] = self.clock.elapsed() + BURST_TIME;
                self.end_start();
            }
            if self.looks_around_at().is_some_and(|due| due <= self.clock.elapsed()) {
                self.looks_around = false;
                self.look_around();
            }
        }
    }

    /// Looks for failed logs, unless the person has asked for them by now.
    fn look_around(&mut self) {
        if !self.model.found.is_looking {
            let look = look_around(self.model);
            self.outside.act(look);
            self.is_dirty = true;
        }
    }

    fn looks_around_at(&self) -> Option<Duration> {
        if self.looks_around { self.drawn_first.map(|drawn| drawn + LOOKS_AROUND_AFTER) } else { None }
    }

    /// When a frame may be drawn, of which the latest ones allow it from `frame` on.
    fn due(&self, frame: Duration) -> Duration {
        if self.readings == 0 && self.drawn_first.is_none() { FIRST_FRAME } else { frame }
    }

    fn draw(&mut self) -> io::Result<()> {
        let began = self.clock.elapsed();
        let shown = self.screen.draw(self.model)?;
        log::trace!("drawn in {:?}", self.clock.elapsed().saturating_sub(began));
        // A person can only answer what they have seen, so questions take answers from now on.
        update(self.model, Msg::Drawn(shown), &self.clock.now());
        self.is_dirty = false;
        self.drawn_first.get_or_insert(self.clock.elapsed());
        Ok(())
    }

    /// Returns what only the start needed, once a few readings were drawn.
    fn end_start(&mut self) {
        if !self.is_started && self.readings >= READINGS_OF_THE_START {
            self.is_started = true;
            here::return_what_the_start_took();
        }
    }

    fn take(&mut self, wake: Wake) -> io::Result<Flow> {
        match wake {
            Wake::Msg(Msg::RanAgain(run, outcome)) => {
                self.take_terminal_again()?;
                return Ok(self.take_message(Msg::RanAgain(run, outcome)));
            }
            Wake::Msg(msg) => return Ok(self.take_message(msg)),
            Wake::Asked(Asked::Stop) if self.lent.is_lent() => here::stop()?,
            // Ctrl-C and Ctrl-\\ are the command's; and it draws itself again after a stop.
            Wake::End(INTERRUPT | QUIT, _) | Wake::Asked(Asked::Continue) if self.lent.is_lent() => {}
            Wake::Asked(Asked::Stop) if self.model.config.can_suspend => {
                terminal::give_back();
                here::stop()?;
                self.screen.retake()?;
            }
            // A new size arrives as a message.
            Wake::Asked(Asked::Stop | Asked::Resized | Asked::End(_)) => {}
            Wake::End(signal, kept) => {
                // Dropped, it would say that the session does not end for this signal.
                std::mem::forget(kept);
                for effect in update(self.model, Msg::Terminate, &self.clock.now()) {
                    self.outside.act(effect);
                }
                return Ok(ControlFlow::Break(Some(signal)));
            }
            Wake::Asked(Asked::Continue) => {
                self.screen.retake()?;
                update(self.model, Msg::Resumed, &self.clock.now());
                self.is_dirty = true;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Runs a command in the foreground of this terminal.
    fn lend_terminal(&mut self, run: RunAgain) {
        if !self.outside.is_lent_for(&run) {
            return;
        }
        self.lent.set(true);
        terminal::give_back();
        self.runner.start(run, self.outside.wakes.clone());
    }

    fn take_terminal_again(&mut self) -> io::Result<()> {
        if self.lent.is_lent() {
            self.screen.retake()?;
            self.lent.set(false);
            update(self.model, Msg::Resumed, &self.clock.now());
            update(self.model, new_size(), &self.clock.now());
        }
        Ok(())
    }

    fn take_message(&mut self, msg: Msg) -> Flow {
        if self.lent.is_lent() && matches!(msg, Msg::Key(..) | Msg::Mouse(..) | Msg::Paste(_) | Msg::Pasting) {
            return ControlFlow::Continue(());
        }
        self.readings += u64::from(matches!(msg, Msg::Sample(_)));
        self.is_dirty |= match msg {
            Msg::Tick => self.model.wakes_at().is_some_and(|due| due <= self.clock.elapsed()),
            // The reading that follows the header shows what changed.
            Msg::Header(_) => false,
            _ => true,
        };
        for effect in update(self.model, msg, &self.clock.now()) {
            match effect {
                Effect::Quit => return ControlFlow::Break(None),
                Effect::RunAgain(run) => self.lend_terminal(*run),
                effect => self.outside.act(effect),
            }
        }
        ControlFlow::Continue(())
    }
}

/// Waits for what happens next; a wait that ends is a tick. `None` if nothing can happen any more.
fn next_wake(queue: &Receiver<Wake>, wait: Option<Duration>) -> Option<Wake> {
    let Some(wait) = wait else { return queue.recv().ok() };
    match queue.recv_timeout(wait) {
        Ok(wake) => Some(wake),
        Err(RecvTimeoutError::Timeout) => Some(Wake::Msg(Msg::Tick)),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

/// The pipe that a job writes into, which must have a reader as long as the job runs.
#[derive(Clone, Default)]
struct Lifeline(Arc<Mutex<Option<File>>>);

impl Lifeline {
    fn hold(&self, pipe: Option<File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pipe;
    }

    /// Starts a detached reader on the pipe; says whether one reads it now.
    fn hand_over(&self) -> bool {
        let pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((pipe, Ok(mut reader))) = pipe.map(|pipe| (pipe, here::detached_self())) else { return false };
        reader.arg("drain").stdin(pipe).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
    }
}

/// Copies standard input to standard output, until its writers are gone or nobody reads any more.
pub fn pass_on() -> ExitCode {
    let mut out = io::stdout();
    let copied = each_block(io::stdin().lock(), |block| out.write_all(block).and_then(|()| out.flush()).is_ok());
    // A terminal without a writer reads as an error.
    drop(copied);
    ExitCode::SUCCESS
}

/// Reads standard input to its end.
pub fn drain() -> ExitCode {
    each_block(io::stdin().lock(), |_| true).map_or(ExitCode::from(1), |()| ExitCode::SUCCESS)
}
