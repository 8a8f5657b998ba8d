//! Owns what comes from the terminal: bytes become keys, mouse events and pastes on a thread of their own, so that a
//! large paste does not stop the drawing. A paste is told here, since its end mark can get lost on the way.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use crossterm::event::Event;
use memchr::memmem;
use rustix::event::{PollFd, PollFlags, poll};

use super::reader::Telling;
use super::{Clock, Wake, files};
use crate::app::Msg;
use crate::probe::pace::timespec;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// A paste that says nothing for so long has ended, its end mark being lost.
const PATIENCE: Duration = Duration::from_secs(2);
const ESCAPE: u8 = 0x1b;
const CTRL_C: u8 = 0x03;

/// Listens from now on; `touched` is called at the first byte.
pub fn listen(
    clock: Clock,
    wakes: Sender<Wake>,
    telling: Telling,
    touched: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let stdin = io::stdin();
    let mut terminal =
        if stdin.is_terminal() { stdin.as_fd().try_clone_to_owned().map(File::from)? } else { File::open("/dev/tty")? };
    thread::Builder::new().name("keys".into()).spawn(move || {
        // The window may have changed between the first look at its size and the moment somebody listens for that.
        let _ = wakes.send(super::signals::resized());
        let mut touched = Some(touched);
        let mut decoder = Decoder::default();
        let mut shortening = Shortening::default();
        let mut block = vec![0; 64 << 10];
        loop {
            let patience = decoder.paste.is_some().then_some(PATIENCE).map(timespec);
            let mut events = Vec::new();
            match poll(&mut [PollFd::new(&terminal, PollFlags::IN)], patience.as_ref()) {
                Ok(0) => events.extend(decoder.end_paste()),
                Err(rustix::io::Errno::INTR) => continue,
                _ => match terminal.read(&mut block) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    // The terminal is gone: there is nobody left to show anything to.
                    Ok(0) | Err(_) => {
                        let _ = wakes.send(Wake::Msg(Msg::Terminate));
                        return;
                    }
                    Ok(count) => {
                        if let Some(touched) = touched.take() {
                            touched();
                        }
                        let more = count == block.len();
                        decoder.take(block.get(..count).unwrap_or_default(), more, &mut events);
                    }
                },
            }
            let now = clock.now().now;
            let messages = events.into_iter().filter_map(|event| match event {
                Event::Key(key) => Some(Msg::Key(key, now)),
                Event::Mouse(event) => Some(Msg::Mouse(event, now)),
                Event::Paste(text) if files::is_short(&text) && !shortening.is_under_way() => Some(Msg::Paste(text)),
                Event::Paste(text) => {
                    shortening.begin(text, telling.clone(), wakes.clone());
                    Some(Msg::Pasting)
                }
                Event::FocusGained => Some(Msg::InFront(true)),
                Event::FocusLost => Some(Msg::InFront(false)),
                Event::Resize(..) => None,
            });
            let pasting = decoder.paste.is_some().then_some(Msg::Pasting);
            for message in messages.chain(pasting) {
                if wakes.send(Wake::Msg(message)).is_err() {
                    return;
                }
            }
        }
    })?;
    Ok(())
}

/// What was pasted and is being shortened, beside the keys: after a paste of 50 MB they would wait for half a second.
#[derive(Default)]
struct Shortening(Option<thread::JoinHandle<()>>);

impl Shortening {
    fn is_under_way(&self) -> bool {
        self.0.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Pastes come in the order in which they were made.
    fn begin(&mut self, text: String, telling: Telling, wakes: Sender<Wake>) {
        let (before, tell) = (self.0.take(), wakes.clone());
        let spawned = thread::Builder::new().name("paste".into()).spawn(move || {
            let text = files::shortened(text, |block| telling.may_matter(block));
            drop(before.map(thread::JoinHandle::join));
            let _ = wakes.send(Wake::Msg(Msg::Paste(text)));
        });
        let lost = |error: &io::Error| {
            drop(tell.send(Wake::Msg(Msg::Trouble(format!("What was pasted could not be taken in: {error}")))));
        };
        self.0 = spawned.inspect_err(lost).ok();
    }
}

/// Bytes on their way to being events.
#[derive(Default)]
struct Decoder {
    /// The beginning of a key's bytes.
    sequence: Vec<u8>,
    /// What came of a paste so far.
    paste: Option<Vec<u8>>,
}

impl Decoder {
    /// Takes what was read at once; `more` waits to be read.
    fn take(&mut self, mut bytes: &[u8], more: bool, events: &mut Vec<Event>) {
        if bytes == [CTRL_C] {
            // By itself it is a person's, who waits in vain for the paste to end.
            events.extend(self.end_paste());
        }
        while let Some((byte, rest)) = bytes.split_first() {
            if let Some(text) = &mut self.paste {
                let from = text.len().saturating_sub(PASTE_ENDS.len() - 1);
                text.extend_from_slice(bytes);
                let Some(end) = memmem::find(text.get(from..).unwrap_or_default(), PASTE_ENDS) else { return };
                let behind = text.split_off(from + end);
                let left = behind.len() - PASTE_ENDS.len();
                bytes = bytes.get(bytes.len() - left..).unwrap_or_default();
                events.extend(self.end_paste());
                continue;
            }
            bytes = rest;
            self.sequence.push(*byte);
            if self.sequence == PASTE_BEGINS {
                self.sequence.clear();
                self.paste = Some(Vec::new());
                continue;
            }
            // Alone it is the Esc key, else the beginning of another.
            if self.sequence == [ESCAPE] && (more || !rest.is_empty()) {
                continue;
            }
            match terminput::Event::parse_from(&self.sequence) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    self.sequence.clear();
                    events.extend(terminput_crossterm::to_crossterm(event).ok());
                }
                Err(_) => self.sequence.clear(),
            }
        }
    }

    /// The paste is over, with or without its end mark.
    fn end_paste(&mut self) -> Option<Event> {
        let text = self.paste.take()?;
        let text = String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
        Some(Event::Paste(text))
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

    fn decoded(pieces: &[&[u8]]) -> (Vec<Event>, Decoder) {
        let (mut events, mut decoder) = (Vec::new(), Decoder::default());
        for piece in pieces {
            decoder.take(piece, false, &mut events);
        }
        (events, decoder)
    }

    fn key(code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn paste(text: &str) -> Event {
        Event::Paste(text.into())
    }

    fn ctrl_c() -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL))
    }

    #[test]
    fn keys_pastes_and_what_stands_around_them_are_told_apart_however_the_bytes_are_cut() {
        let whole = "j\x1b[A\x1b[200~CUDA out \u{e4}\r\x1b[201x\x1b[201~q\x1b[200~\x1b[201~\u{e4}".as_bytes();
        let expected = [
            key(KeyCode::Char('j')),
            key(KeyCode::Up),
            paste("CUDA out \u{e4}\r\x1b[201x"),
            key(KeyCode::Char('q')),
            paste(""),
            key(KeyCode::Char('\u{e4}')),
        ];
        assert_eq!(decoded(&[whole]).0, expected);
        for size in 1..whole.len() {
            let (mut events, mut decoder) = (Vec::new(), Decoder::default());
            for piece in whole.chunks(size) {
                decoder.take(piece, true, &mut events);
            }
            assert_eq!(events, expected, "{size} at once");
        }
    }

    #[test]
    fn escape_alone_is_a_key() {
        assert_eq!(decoded(&[b"\x1b"]).0, [key(KeyCode::Esc)]);
        let alt = Event::Key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::ALT));
        assert_eq!(decoded(&[b"\x1by"]).0, [alt]);
    }

    #[test]
    fn a_paste_without_an_end_is_ended_by_silence_or_ctrl_c() {
        let (events, mut decoder) = decoded(&[b"\x1b[200~hello"]);
        assert_eq!(events, []);
        assert_eq!(decoder.end_paste(), Some(paste("hello")));
        assert_eq!(decoded(&[b"\x1b[200~hello", b"\x03"]).0, [paste("hello"), ctrl_c()]);
        assert_eq!(decoded(&[b"\x03"]).0, [ctrl_c()]);
    }
}
