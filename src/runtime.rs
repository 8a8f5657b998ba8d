//! Owns the loop between the outside world and the app: it turns what happens into messages, hands in the time, and
//! does what `update` asks for. Draws once after all that is queued was taken in. Knows nothing of what a log means.

pub(crate) mod clipboard;
pub(crate) mod debug_log;
pub(crate) mod demo;
mod drain;
pub mod files;
pub(crate) mod follow;
pub(crate) mod journal;
pub(crate) mod keyboard;
pub(crate) mod last;
pub mod leaders;
pub(crate) mod outbox;
pub mod process_control;
pub(crate) mod reader;
pub mod terminal;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::advice::release::Release;
use crate::app::effect::Order;
use crate::app::last::Story;
use crate::app::model::{Config, Pipe};
use crate::app::update::{open_file, open_last, wait_for_pipe};
use crate::app::{Cx, Effect, Model, Msg, update};
use crate::gpu::ProcessKey;
use crate::gpu::guard::Viewer;
use crate::platform::processes::Processes;
use crate::platform::{Asked, Here, Kernel, Machine, News, Platform, Sampling, SetPace, ThisMachine};
use crate::units::WallTime;
use demo::DemoMachine;
use journal::Journal;
use last::Shelf;
use leaders::Leaders;
use process_control::follow_and_watch;
use reader::Reader;
use terminal::Screen;

pub use drain::drain;

/// No more than about thirty frames a second, however much happens: so many within so long. One that comes alone, or
/// with a few others as at the start, is drawn at once.
const BURST: usize = 4;
const BURST_TIME: Duration = Duration::from_millis(133);

/// What wakes the loop.
#[derive(Debug)]
pub enum Wake {
    /// Something for the app.
    Msg(Msg),
    /// What the system asks of the program.
    Asked(Asked),
}

impl From<News> for Wake {
    fn from(news: News) -> Wake {
        Wake::Msg(match news {
            News::Header(header) => Msg::Header(header),
            News::Snapshot(snapshot) => Msg::Sample(snapshot),
            News::Down(why) => Msg::FeedDown(why),
            News::OnBattery(is_on_battery) => Msg::OnBattery(is_on_battery),
        })
    }
}

/// Where the log comes from at the start.
#[derive(Debug)]
pub enum LogSource {
    None,
    File(PathBuf),
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
    /// Loads the knowledge, with a word about what could not be used; called on a worker, when there is a log to read.
    pub knowledge: Box<dyn FnOnce() -> reader::Loaded + Send>,
    /// The knowledge is loaded at the start, so that what is wrong with a person's own entries is said.
    pub own_knowledge: bool,
    /// The log to open.
    pub log: LogSource,
}

/// Runs the terminal program until the person leaves, or a signal ends it: then its number is given. Fails where there is
/// no terminal to draw on.
pub fn run(start: Start) -> io::Result<Option<i32>> {
    terminal::give_back_on_panic();
    Here::return_large_blocks();
    let (wakes, queue) = mpsc::channel();
    let clock = Clock { started: Instant::now() };
    // First of all, since the first reading takes longest.
    let live = start.sampling.map(|sampling| watch(sampling, wakes.clone())).transpose()?;
    // Before the terminal is taken: no signal leaves it as it is then.
    listen_to_signals(wakes.clone())?;
    let mut screen = Screen::take()?;
    let mut model = Model::new(start.config, terminal::size()?, clock.wall());
    screen.draw(&model)?;
    let control = match &live {
        Some(_) => Control::Real(Arc::new(start.kernel)),
        None => {
            let machine = Arc::new(DemoMachine::default());
            machine.play(model.config.interval, wakes.clone())?;
            Control::Demo(machine)
        }
    };
    // What comes through a pipe is searched as it comes.
    let at_once = start.own_knowledge || matches!(start.log, LogSource::Pipe(_));
    let reader = Reader::start(start.knowledge, at_once, wakes.clone())?;
    keyboard::listen(clock, wakes.clone(), reader.telling(), reader.when_touched())?;
    let unwanted = start.state.as_deref().filter(|_| !model.config.keep_log && !model.config.read_only);
    if let Some(Err(error)) = unwanted.map(last::forget) {
        let _ = wakes.send(Wake::Msg(Msg::Trouble(format!("The last log could not be removed: {error}"))));
    }
    let shelf = Shelf::start(start.state.clone(), wakes.clone())?;
    let (viewer, journal, state) = (model.config.viewer.clone(), start.journal, start.state);
    let leaders = Leaders::default();
    let mut outside = Outside { wakes, reader, viewer, control, set_pace: live, leaders, journal, state, shelf };
    let mut piped = None;
    let opening = match start.log {
        LogSource::None => None,
        LogSource::File(path) => {
            follow::follow(path.clone(), outside.wakes.clone(), outside.reader.desk())?;
            Some(open_file(&mut model, path))
        }
        LogSource::Last(story, text) => Some(open_last(&mut model, text, *story)),
        LogSource::Pipe(pipe) => {
            let ours = pipe.try_clone()?;
            piped = Some(pipe);
            reader::read_pipe(ours, outside.wakes.clone(), outside.reader.telling(), outside.reader.desk())?;
            wait_for_pipe(&mut model);
            None
        }
    };
    if let Some(effect) = opening {
        outside.act(effect);
    }
    let left = turn(&mut model, &mut screen, &queue, &mut outside, clock);
    drop(screen);
    // However we leave: the job that pipes into us must not die of a broken pipe.
    if let Some(pipe) = piped.filter(|_| model.input.pipe == Pipe::Open) {
        drain::detach(pipe);
    }
    left
}

/// Reads this machine again and again.
fn watch(sampling: Sampling, wakes: Sender<Wake>) -> io::Result<SetPace> {
    ThisMachine::watch(sampling, move |news| wakes.send(Wake::from(news)).is_ok())
}

/// Turns what the system asks into wake-ups.
fn listen_to_signals(wakes: Sender<Wake>) -> io::Result<()> {
    Here::listen_to_signals(move |asked| {
        let wake = if asked == Asked::Resized { Wake::Msg(new_size()) } else { Wake::Asked(asked) };
        wakes.send(wake).is_ok()
    })
}

/// The size of the terminal now.
fn new_size() -> Msg {
    terminal::size().map_or(Msg::Tick, |(columns, rows)| Msg::Resize(columns, rows))
}

/// The two clocks, read once a wake-up.
#[derive(Clone, Copy)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    fn wall(self) -> WallTime {
        WallTime(Timestamp::now())
    }

    fn now(self) -> Cx {
        Cx { now: self.started.elapsed(), wall: self.wall() }
    }
}

fn turn(
    model: &mut Model,
    screen: &mut Screen,
    queue: &Receiver<Wake>,
    outside: &mut Outside,
    clock: Clock,
) -> io::Result<Option<i32>> {
    // From when on the next frames may be drawn, the nearest first.
    let mut frames = [Duration::ZERO; BURST];
    let mut dirty = true;
    loop {
        let now = clock.started.elapsed();
        let frame = dirty.then_some(frames[0]);
        let due = model.wakes_at().into_iter().chain(frame).min();
        let wake = match due.map(|due| due.saturating_sub(now)) {
            Some(wait) => match queue.recv_timeout(wait) {
                Ok(wake) => wake,
                Err(RecvTimeoutError::Timeout) => Wake::Msg(Msg::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            },
            None => match queue.recv() {
                Ok(wake) => wake,
                Err(_) => return Ok(None),
            },
        };
        let mut next = Some(wake);
        while let Some(wake) = next {
            match wake {
                Wake::Msg(msg) => {
                    dirty |= match msg {
                        Msg::Tick => model.wakes_at().is_some_and(|due| due <= clock.now().now),
                        // The reading that follows shows what it says.
                        Msg::Header(_) => false,
                        _ => true,
                    };
                    for effect in update(model, msg, &clock.now()) {
                        if effect == Effect::Quit {
                            return Ok(None);
                        }
                        outside.act(effect);
                    }
                }
                Wake::Asked(Asked::Stop) if model.config.can_suspend => {
                    terminal::give_back();
                    Here::stop()?;
                    screen.retake()?;
                }
                // A new size comes as a message.
                Wake::Asked(Asked::Stop | Asked::Resized) => {}
                Wake::Asked(Asked::End(signal)) => {
                    for effect in update(model, Msg::Terminate, &clock.now()) {
                        outside.act(effect);
                    }
                    return Ok(Some(signal));
                }
                Wake::Asked(Asked::Continue) => {
                    screen.retake()?;
                    update(model, Msg::Resumed, &clock.now());
                    dirty = true;
                }
            }
            next = queue.try_recv().ok();
        }
        if let Some(set_pace) = &outside.set_pace {
            set_pace(model.pace());
        }
        let now = clock.started.elapsed();
        if dirty && now >= frames[0] {
            let shown = screen.draw(model)?;
            log::trace!("drawn in {:?}", clock.started.elapsed().saturating_sub(now));
            // What the person can read, they can answer: only from now on.
            update(model, Msg::Drawn(shown), &clock.now());
            frames.rotate_left(1);
            frames[BURST - 1] = clock.started.elapsed() + BURST_TIME;
            dirty = false;
        }
    }
}

/// Does what `update` asks for.
struct Outside {
    wakes: Sender<Wake>,
    reader: Reader,
    viewer: Viewer,
    control: Control,
    set_pace: Option<SetPace>,
    leaders: Leaders,
    journal: Journal,
    state: Option<PathBuf>,
    shelf: Shelf,
}

#[derive(Clone)]
enum Control {
    Real(Arc<Kernel>),
    /// The demo's, which are nobody's.
    Demo(Arc<DemoMachine>),
}

impl Outside {
    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::ReadLog { generation, text } => self.reader.read_text(generation, text),
            Effect::ReadFile { generation, path } => self.reader.read_file(generation, path),
            Effect::Signal(order) => self.signal(order),
            Effect::Release(key, release) => self.release(key, release),
            Effect::NoteMemory(key, bytes) => {
                if matches!(self.control, Control::Real(_)) {
                    self.journal.note_memory(key, bytes).unwrap_or_else(|error| self.unwritten(&error));
                }
            }
            Effect::ReadEnvironment { key, names } => self.read_environment(key, names),
            Effect::Ring(title) => terminal::ring(&title),
            Effect::LoadKnowledge => self.reader.load(),
            Effect::Copy(text) => match &self.control {
                Control::Demo(machine) if machine.start(&text) => {
                    let started = "in the demo it starts at once, as if pasted in the other pane";
                    drop(self.wakes.send(Wake::Msg(Msg::Copied(Ok(started)))));
                }
                _ => clipboard::copy(text, self.wakes.clone()),
            },
            Effect::Keep(kept) => self.shelf.keep(*kept),
            Effect::WriteReport(text) => outbox::write(self.state.clone(), text, self.wakes.clone()),
            Effect::Suspend => Here::ask_to_stop(),
            // The loop itself leaves.
            Effect::Quit => {}
        }
    }

    /// A process that is not ours to read, or is gone, is simply not told of.
    fn read_environment(&self, key: ProcessKey, names: Vec<String>) {
        let Control::Real(kernel) = &self.control else { return };
        let Some(variables) = kernel.are_set(key, &names) else { return };
        let _ = self.wakes.send(Wake::Msg(Msg::Environment(key, variables)));
    }

    fn unwritten(&self, error: &io::Error) {
        let _ = self.wakes.send(Wake::Msg(Msg::Trouble(not_recorded(error))));
    }

    fn release(&self, key: ProcessKey, release: Release) {
        let (control, wakes, journal) = (self.control.clone(), self.wakes.clone(), self.journal.clone());
        let spawned = thread::Builder::new().name("release".into()).spawn(move || {
            let outcome = match control {
                Control::Real(kernel) => {
                    let deed = Journal::deed(&*kernel, key, None);
                    kernel.ask(key, &release, |what| {
                        log::info!("{key:?}: {what:?}");
                        if let Err(error) = journal.note_request(&deed, &what) {
                            let _ = wakes.send(Wake::Msg(Msg::Trouble(not_recorded(&error))));
                        }
                    })
                }
                Control::Demo(machine) => machine.let_go(key),
            };
            drop(wakes.send(Wake::Msg(Msg::Released(key, outcome))));
        });
        if let Err(error) = spawned {
            let _ = self.wakes.send(Wake::Msg(Msg::Released(key, Err(format!("nothing was sent ({error})")))));
        }
    }

    fn signal(&self, order: Order) {
        let (control, viewer, wakes) = (self.control.clone(), self.viewer.clone(), self.wakes.clone());
        let (journal, leaders) = (self.journal.clone(), self.leaders.clone());
        let (key, signal) = (order.key, order.signal);
        // On this thread, and so before anybody who follows it asks.
        leaders.expect(key);
        let spawned = thread::Builder::new().name("signal".into()).spawn(move || {
            let report = |report| drop(wakes.send(Wake::Msg(Msg::Signal(key, report))));
            match control {
                Control::Real(kernel) => {
                    let deed = Journal::deed(&*kernel, key, Some(signal));
                    follow_and_watch(&*kernel, &viewer, &order, &leaders, |what| {
                        log::info!("{signal:?} to {key:?}: {what:?}");
                        if let Err(error) = journal.note(&deed, &what) {
                            let _ = wakes.send(Wake::Msg(Msg::Trouble(not_recorded(&error))));
                        }
                        report(what);
                    });
                }
                Control::Demo(machine) => follow_and_watch(&*machine, &viewer, &order, &leaders, report),
            }
        });
        if let Err(error) = spawned {
            let _ = self.wakes.send(Wake::Msg(Msg::Trouble(format!("Nothing was signalled: {error}"))));
        }
    }
}

/// It was sent all the same: the record is for later, not a condition.
pub fn not_recorded(error: &io::Error) -> String {
    format!("What was sent could not be recorded in the state folder: {error}")
}
