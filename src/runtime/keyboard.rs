//! Owns what comes from the terminal: bytes become keys, mouse events and pastes on a thread of their own, so that a
//! large paste does not stop the drawing. `sequence` knows the grammar, `decoder` what time tells.

mod decoder;
mod sequence;

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossterm::event::Event;

use decoder::Decoder;

use super::files;
use super::reader::Telling;
use super::wake::{Clock, Tell, Wake, new_size};
use crate::app::Msg;
use crate::platform::{Typed, here};

/// Whether the terminal is lent to a command, which then reads what is typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lent(Arc<(Mutex<bool>, Condvar)>);

impl Lent {
    pub(crate) fn set(&self, lent: bool) {
        *self.lock() = lent;
        self.0.1.notify_all();
    }

    pub(crate) fn is_lent(&self) -> bool {
        *self.lock()
    }

    fn wait_for_its_end(&self) {
        drop(self.0.1.wait_while(self.lock(), |lent| *lent));
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are read at once: a terminal has no more than 4 KiB of them.
const BLOCK: usize = 4 << 10;

/// Listens from now on, but not while the terminal is lent; `touched` is called at the first byte.
pub(crate) fn listen(
    clock: Clock,
    wakes: Sender<Wake>,
    telling: Telling,
    touched: impl FnOnce() + Send + 'static,
    lent: Lent,
) -> io::Result<()> {
    let mut terminal = here::input()?;
    thread::Builder::new().name("keys".into()).spawn(move || {
        // The window may have changed between the first look at its size and the moment somebody listens for that.
        wakes.tell(new_size());
        let mut touched = Some(touched);
        let mut decoder = Decoder::default();
        let mut shortening = Shortening::default();
        let mut block = vec![0; BLOCK];
        loop {
            lent.wait_for_its_end();
            let patience = decoder.due().map(|due| due.saturating_sub(clock.elapsed()));
            let typed = terminal.next(&mut block, patience, || !lent.is_lent());
            if matches!(typed, Ok(Typed::Bytes(1..) | Typed::Events(_))) {
                touched.take().into_iter().for_each(|touched| touched());
            }
            let mut events = Vec::new();
            match typed {
                Ok(Typed::Nothing) => decoder.tick(clock.elapsed(), &mut events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The terminal is gone: there is nobody left to show anything to.
                Ok(Typed::Bytes(0)) | Err(_) => {
                    wakes.tell(Msg::Terminate);
                    return;
                }
                Ok(Typed::Bytes(count)) => {
                    let bytes = block.get(..count).unwrap_or_default();
                    decoder.take(bytes, clock.elapsed(), &mut events);
                }
                Ok(Typed::Events(read)) => events.extend(read),
            }
            let now = clock.elapsed();
            let messages = events.into_iter().map(|event| shortening.message(event, now, &telling, &wakes));
            let pasting = decoder.is_pasting().then_some(Msg::Pasting);
            if !messages.chain(pasting).all(|message| wakes.tell(message)) {
                return;
            }
        }
    })?;
    Ok(())
}

/// What was pasted and is being shortened, beside the keys: after a paste of 50 MB they would wait for half a second.
#[derive(Default)]
struct Shortening(Option<thread::JoinHandle<()>>);

impl Shortening {
    /// What an event means to the app. A long paste is shortened first.
    fn message(&mut self, event: Event, now: Duration, telling: &Telling, wakes: &Sender<Wake>) -> Msg {
        match event {
            Event::Key(key) => Msg::Key(key, now),
            Event::Mouse(event) => Msg::Mouse(event, now),
            Event::Paste(text) if files::is_short(&text) && !self.is_under_way() => Msg::Paste(text),
            Event::Paste(text) => {
                self.begin(text, telling.clone(), wakes.clone());
                Msg::Pasting
            }
            Event::FocusGained => Msg::InFront(true),
            Event::FocusLost => Msg::InFront(false),
            Event::Resize(..) => new_size(),
        }
    }

    fn is_under_way(&self) -> bool {
        self.0.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Pastes come in the order in which they were made.
    fn begin(&mut self, text: String, telling: Telling, wakes: Sender<Wake>) {
        let (before, tell) = (self.0.take(), wakes.clone());
        let spawned = thread::Builder::new().name("paste".into()).spawn(move || {
            let text = files::shortened(text, |block| telling.may_matter(block));
            drop(before.map(thread::JoinHandle::join));
            wakes.tell(Msg::Paste(text));
        });
        if let Err(error) = &spawned {
            tell.trouble(format!("What was pasted could not be taken in: {error}"));
        }
        self.0 = spawned.ok();
    }
}

#[cfg(test)]
mod tests;
