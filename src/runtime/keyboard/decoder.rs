//! Owns what the terminal's bytes mean as they come, with their time: sequences that are never finished, and pastes whose
//! end mark gets lost. Whatever came before, Ctrl-C is Ctrl-C, and a key that is pressed later is that key.

use std::time::Duration;

use crossterm::event::Event;
use memchr::memmem;

use super::sequence::{Sequence, Step, is_one_character};
use crate::app::gate::ALONE;

const PASTE_ENDS: &[u8] = b"\x1b[201~";
const ESCAPE: u8 = 0x1b;
const CTRL_C: u8 = 0x03;
/// ESC is the key where nothing follows within so long.
const ESCAPE_ALONE: Duration = Duration::from_millis(40);
/// An unfinished sequence is dropped after so much silence.
const UNFINISHED: Duration = Duration::from_millis(100);
/// How long after that its rest may still come.
const LATE: Duration = Duration::from_secs(1);
/// A paste that is silent for so long is over: its end mark was lost.
const PASTE_SILENCE: Duration = Duration::from_secs(1);
/// A byte that comes by itself during a paste, with so much silence behind it, was typed.
const TYPED: Duration = Duration::from_millis(150);
/// How long after a paste without an end mark the rest of it may still come.
const REST_OF_PASTE: Duration = Duration::from_secs(5);
/// No key has a longer sequence, so more at once after such a paste is the rest of it.
const LONGEST_KEY: usize = 12;

/// Bytes on their way to being events. All times are on one clock that does not go back.
#[derive(Default)]
pub(super) struct Decoder {
    sequence: Sequence,
    /// When the last byte came.
    last: Duration,
    /// A sequence that was dropped because its rest did not come, and when.
    dropped: Option<(Sequence, Duration)>,
    paste: Option<Paste>,
    /// When the last paste ended without its end mark.
    cut_paste: Option<Duration>,
}

/// A paste that is coming in.
struct Paste {
    text: Vec<u8>,
    /// Its last byte came by itself and may be a key.
    lone: bool,
}

impl Decoder {
    /// Whether a paste is coming in.
    pub(super) fn is_pasting(&self) -> bool {
        self.paste.is_some()
    }

    /// When `tick` will have something to say.
    pub(super) fn due(&self) -> Option<Duration> {
        match &self.paste {
            Some(Paste { lone: true, .. }) => Some(self.last + TYPED),
            Some(_) => Some(self.last + PASTE_SILENCE),
            None if self.sequence.is_escape() => Some(self.last + ESCAPE_ALONE),
            None => self.sequence.is_unfinished().then_some(self.last + UNFINISHED),
        }
    }

    /// Time has passed and nothing came.
    pub(super) fn tick(&mut self, now: Duration, events: &mut Vec<Event>) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        if let Some(paste) = &mut self.paste {
            let typed = if paste.lone { paste.text.pop() } else { None };
            self.cut_paste = Some(now);
            self.end_paste(typed.is_some(), events);
            self.last = now;
            typed.into_iter().for_each(|byte| self.push(byte, events));
            return;
        }
        let sequence = std::mem::take(&mut self.sequence);
        events.extend(sequence.given_up());
        self.dropped = Some((sequence, now));
    }

    /// Takes what was read at once.
    pub(super) fn take(&mut self, mut bytes: &[u8], now: Duration, events: &mut Vec<Event>) {
        self.tick(now, events);
        let apart = now.saturating_sub(self.last) >= ALONE;
        self.last = now;
        if let Some((dropped, at)) = self.dropped.take()
            && now.saturating_sub(at) < LATE
            && dropped.is_continued_by(bytes)
        {
            self.sequence = dropped;
        }
        if self.is_rest_of_paste(bytes, now) {
            self.paste = Some(Paste { text: Vec::new(), lone: false });
        }
        if bytes.iter().all(|byte| *byte == CTRL_C) && self.paste.is_some() {
            // A person's, who waits in vain for the paste to end.
            self.cut_paste = Some(now);
            self.end_paste(true, events);
        }
        let alone = bytes.len() == 1 && apart;
        while let Some((byte, rest)) = bytes.split_first() {
            if self.paste.is_some() {
                bytes = self.add_to_paste(bytes, alone, now, events);
                continue;
            }
            bytes = rest;
            self.push(*byte, events);
        }
    }

    /// Takes a byte that is not in a paste.
    fn push(&mut self, byte: u8, events: &mut Vec<Event>) {
        let mut step = self.sequence.push(byte);
        if step == Step::Again {
            step = self.sequence.push(byte);
        }
        match step {
            Step::Nothing | Step::Again => {}
            Step::Event(event) => events.push(event),
            Step::PasteBegins => self.paste = Some(Paste { text: Vec::new(), lone: false }),
        }
    }

    /// Takes bytes of a paste and gives those behind its end.
    fn add_to_paste<'a>(&mut self, bytes: &'a [u8], alone: bool, now: Duration, events: &mut Vec<Event>) -> &'a [u8] {
        let Some(Paste { text, lone }) = &mut self.paste else { return bytes };
        *lone = alone;
        let from = text.len().saturating_sub(PASTE_ENDS.len() - 1);
        text.extend_from_slice(bytes);
        if let Some(end) = memmem::find(text.get(from..).unwrap_or_default(), PASTE_ENDS) {
            let left = text.len() - (from + end + PASTE_ENDS.len());
            text.truncate(from + end);
            self.cut_paste = None;
            self.end_paste(false, events);
            return bytes.get(bytes.len() - left..).unwrap_or_default();
        }
        // Terminals take control characters out of a paste, so this one was typed behind it.
        if text.pop_if(|last| *last == CTRL_C).is_some() {
            self.cut_paste = Some(now);
            self.end_paste(true, events);
            return bytes.get(bytes.len() - 1..).unwrap_or_default();
        }
        &[]
    }

    /// The paste is over, with or without its end mark. Where a key ended it, an empty one is not worth a word.
    fn end_paste(&mut self, by_key: bool, events: &mut Vec<Event>) {
        let Some(Paste { text, .. }) = self.paste.take() else { return };
        if by_key && text.is_empty() {
            return;
        }
        let text = String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
        events.push(Event::Paste(text));
    }

    /// Whether this is more of a paste that was taken to have ended: what comes at once and is no key that is
    /// pressed or held down.
    fn is_rest_of_paste(&mut self, bytes: &[u8], now: Duration) -> bool {
        let Some(ended) = self.cut_paste.take_if(|ended| {
            self.paste.is_none() && !self.sequence.is_unfinished() && { now.saturating_sub(*ended) < REST_OF_PASTE }
        }) else {
            return false;
        };
        let held = bytes.iter().all(|byte| Some(byte) == bytes.first());
        let key = bytes.first() == Some(&ESCAPE) && bytes.len() <= LONGEST_KEY;
        let is_rest = !held && !key && !is_one_character(bytes);
        if !is_rest && bytes != PASTE_ENDS {
            self.cut_paste = Some(ended);
        }
        is_rest
    }
}
