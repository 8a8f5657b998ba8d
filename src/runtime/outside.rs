//! Owns doing what `update` asks for.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use super::allocations::Place;
use super::demo::{self, DemoMachine};
use super::journal::Journal;
use super::last::Shelf;
use super::process_control::Leaders;
use super::process_control::follow_and_watch;
use super::reader::{Job, Reader, Written};
use super::wake::{Tell, Wake};
use super::{allocations, clipboard, outbox, runs, sources, terminal};
use crate::advice::release::Release;
use crate::app::effect::Order;
use crate::app::run_again::RunAgain;
use crate::app::{Effect, Msg};
use crate::gpu::ProcessKey;
use crate::gpu::guard::Viewer;
use crate::platform::{Kernel, SetPace, here};
use crate::source::{Kind, SourceId};
use crate::text::harmless_lines;

/// Everything outside the app that an effect can reach.
pub(super) struct Outside {
    pub wakes: Sender<Wake>,
    pub reader: Reader,
    pub viewer: Viewer,
    pub control: Control,
    pub set_pace: Option<SetPace>,
    pub leaders: Leaders,
    pub journal: Journal,
    pub state: Option<PathBuf>,
    pub shelf: Shelf,
    /// The options that this program was given.
    pub options: Vec<OsString>,
}

#[derive(Clone)]
pub(super) enum Control {
    Real(Arc<Kernel>),
    /// The demo's processes, which exist nowhere else.
    Demo(Arc<DemoMachine>),
}

impl Outside {
    pub(super) fn act(&mut self, effect: Effect) {
        match effect {
            Effect::ReadLogThatWorked(text) => self.reader.ask(Job::Worked(text)),
            Effect::ReadProgress { path, from } => self.reader.ask(Job::Progress(path, from)),
            Effect::ReadLog { generation, text, snapshots, is_a_pane } => {
                self.offer_demos_snapshot(generation, &text, &snapshots);
                let snapshots = self.places(snapshots);
                let text = if is_a_pane { Written::Pane(text) } else { Written::Text(text) };
                self.reader.ask(Job::Log { generation, text, snapshots });
            }
            Effect::ReadFile { generation, path, snapshots } => {
                let snapshots = self.places(snapshots);
                self.reader.ask(Job::Log { generation, text: Written::File(path), snapshots });
            }
            Effect::StopReading => self.reader.desk.stop(),
            Effect::LookAtPaths { text, paths } => self.look_at(text, paths),
            Effect::Signal(order) => self.signal(order),
            Effect::Release(key, release) => self.release(key, release),
            Effect::NoteMemory(key, bytes) => {
                if matches!(self.control, Control::Real(_))
                    && let Err(error) = self.journal.note_memory(key, bytes)
                {
                    self.wakes.trouble(not_recorded(&error));
                }
            }
            Effect::ReadEnvironment { key, names } => self.read_environment(key, names),
            Effect::Ring(title) => terminal::ring(&title),
            Effect::LoadKnowledge => self.reader.load(),
            Effect::Copy(text) => match &self.control {
                Control::Demo(machine) if machine.start(&text) => {
                    let started = "in the demo it starts at once, as if pasted in the other pane";
                    self.wakes.tell(Msg::Copied(Ok(started)));
                }
                // What is copied is what the screen shows.
                _ => clipboard::copy(harmless_lines(&text), self.wakes.clone()),
            },
            Effect::Keep(kept) => self.shelf.keep(*kept),
            Effect::WriteReport(text) => {
                let text = if matches!(self.control, Control::Demo(_)) { outbox::of_the_demo(&text) } else { text };
                outbox::write(self.state.clone(), text, self.wakes.clone());
            }
            Effect::FindLogs(kinds) => self.find_logs(kinds),
            Effect::ReadFound(id) => self.read_found(id),
            Effect::ReadRecord(path) => self.read_record(path),
            Effect::Suspend => here::ask_to_stop(),
            // The loop itself ends the session, and lends the terminal.
            Effect::Quit | Effect::RunAgain(_) => {}
        }
    }

    /// The demo's snapshot is offered with its log, like one that lies beside a log.
    fn offer_demos_snapshot(&self, generation: u64, text: &str, snapshots: &[PathBuf]) {
        if matches!(self.control, Control::Demo(_)) && snapshots.is_empty() && text == DemoMachine::log() {
            self.wakes.tell(Msg::SnapshotsBeside(generation, vec![demo::SNAPSHOT_NAME.into()]));
        }
    }

    fn places(&self, snapshots: Vec<PathBuf>) -> Vec<Place> {
        let is_demo = matches!(self.control, Control::Demo(_));
        let mut places = Vec::new();
        for path in snapshots {
            let is_of_the_demo = is_demo && path == Path::new(demo::SNAPSHOT_NAME);
            places.push(if is_of_the_demo { Place::Demo } else { Place::File(path) });
        }
        places
    }

    /// In a process of its own, so that nothing of it stays in memory; the demo has one log.
    fn find_logs(&self, kinds: Vec<Kind>) {
        let wakes = self.wakes.clone();
        if matches!(self.control, Control::Demo(_)) {
            wakes.tell(Msg::Found(kinds, Ok(vec![DemoMachine::place()])));
            return;
        }
        let (options, asked) = (self.options.clone(), kinds.clone());
        let spawned = thread::Builder::new().name("find".into()).spawn(move || {
            let found = sources::find_in_child(&options, &kinds);
            wakes.tell(Msg::Found(kinds, found));
        });
        if let Err(error) = spawned {
            self.wakes.tell(Msg::Found(asked, Err(error.to_string())));
        }
    }

    /// On a thread of its own: a network's file system may hang.
    fn look_at(&self, text: String, paths: Vec<PathBuf>) {
        let (wakes, pasted) = (self.wakes.clone(), text.clone());
        let spawned = thread::Builder::new().name("dropped".into()).spawn(move || {
            wakes.tell(Msg::Dropped(text, allocations::look_at(paths)));
        });
        if spawned.is_err() {
            self.wakes.tell(Msg::Dropped(pasted, None));
        }
    }

    fn read_found(&self, id: SourceId) {
        let wakes = self.wakes.clone();
        if matches!(self.control, Control::Demo(_)) {
            wakes.tell(Msg::FoundLog(id, Ok((DemoMachine::log().to_owned(), None))));
            return;
        }
        let (telling, name) = (self.reader.telling.clone(), id.clone());
        let spawned = thread::Builder::new().name("found".into()).spawn(move || {
            wakes.tell(Msg::FoundLog(id.clone(), sources::read_text(&id, &telling)));
        });
        if let Err(error) = spawned {
            self.wakes.tell(Msg::FoundLog(name, Err(error.to_string())));
        }
    }

    fn read_record(&self, path: PathBuf) {
        let wakes = self.wakes.clone();
        let spawned = thread::Builder::new().name("record".into()).spawn(move || {
            wakes.tell(Msg::Record(runs::open(&path).map(Arc::new)));
        });
        if let Err(error) = spawned {
            self.wakes.tell(Msg::Record(Err(error.to_string())));
        }
    }

    /// Runs a command again, where the terminal is its own; in the demo the recorded job starts again. True if the terminal
    /// has to be lent.
    pub(super) fn is_lent_for(&self, run: &RunAgain) -> bool {
        let Control::Demo(machine) = &self.control else { return true };
        let started = "Demo: the job runs again, simulated.";
        let word =
            if machine.start(&run.line()) { started } else { "Demo: the job runs already, or nothing starts it." };
        self.wakes.tell(Msg::Trouble(word.to_owned()));
        false
    }

    /// Reports nothing about a process that may not be read or has exited.
    fn read_environment(&self, key: ProcessKey, names: Vec<String>) {
        let Control::Real(kernel) = &self.control else { return };
        let Some(variables) = kernel.are_set(key, &names) else { return };
        self.wakes.tell(Msg::Environment(key, variables));
    }

    fn release(&self, key: ProcessKey, release: Release) {
        let (control, wakes, journal) = (self.control.clone(), self.wakes.clone(), self.journal.clone());
        let spawned = thread::Builder::new().name("release".into()).spawn(move || {
            let outcome = match control {
                Control::Real(kernel) => {
                    let deed = Journal::deed(&kernel, key, None);
                    kernel.ask(key, &release, |what| {
                        log::info!("{key:?}: {what:?}");
                        if let Err(error) = journal.note_request(&deed, &what) {
                            wakes.trouble(not_recorded(&error));
                        }
                    })
                }
                Control::Demo(machine) => machine.let_go(key),
            };
            wakes.tell(Msg::Released(key, outcome));
        });
        if let Err(error) = spawned {
            self.wakes.tell(Msg::Released(key, Err(format!("nothing was sent ({error})"))));
        }
    }

    fn signal(&self, order: Order) {
        let (control, viewer, wakes) = (self.control.clone(), self.viewer.clone(), self.wakes.clone());
        let (journal, leaders) = (self.journal.clone(), self.leaders.clone());
        let (key, signal) = (order.key, order.signal);
        // On this thread, so that it happens before a process that follows this one asks.
        leaders.expect(key);
        let spawned = thread::Builder::new().name("signal".into()).spawn(move || match control {
            Control::Real(kernel) => {
                let deed = Journal::deed(&kernel, key, Some(signal));
                follow_and_watch(&*kernel, &viewer, &order, &leaders, |what| {
                    log::info!("{signal:?} to {key:?}: {what:?}");
                    if let Err(error) = journal.note(&deed, &what) {
                        wakes.trouble(not_recorded(&error));
                    }
                    wakes.tell(Msg::Signal(key, what));
                });
            }
            Control::Demo(machine) => follow_and_watch(&*machine, &viewer, &order, &leaders, |what| {
                wakes.tell(Msg::Signal(key, what));
            }),
        });
        if let Err(error) = spawned {
            self.wakes.trouble(format!("Nothing was signalled: {error}"));
        }
    }
}

/// The message for a signal or request that was sent but could not be recorded: a record is no condition for sending.
pub(crate) fn not_recorded(error: &io::Error) -> String {
    format!("What was sent could not be recorded in the state folder: {error}")
}
