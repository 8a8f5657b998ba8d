//! Owns the grammar of what a terminal sends (ECMA-48 and xterm's ctlseqs, read on 2026-11-22): where a control sequence
//! begins and ends. Whole sequences of keys and the mouse become events by terminput; replies to queries, which a program
//! before this one may have asked for, are dropped whole, so that no letter of one is taken for a key.

use crossterm::event::Event;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
/// The 8-bit form of the terminator of a string.
const STRING_TERMINATOR: u8 = 0x9c;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
/// No key's sequence is longer. More is counted as a part of the sequence, but not kept.
const LONGEST: usize = 64;
/// `ESC [ M` and three bytes.
const X10_MOUSE: usize = 6;

/// What came of a byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing yet, or the end of something that is no input.
    Nothing,
    /// A key, a click or a change of focus.
    Event(Event),
    /// The start of a bracketed paste.
    PasteBegins,
    /// The byte can't belong to what came before, which is dropped: it begins something new.
    Again,
}

/// What kind of sequence has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// A character of several bytes.
    Character,
    /// An 8-bit introducer, or a stray byte of a character.
    Introducer(u8),
    /// `ESC [` and parameters.
    Control,
    /// `ESC [ [`, a function key of Linux' console.
    ConsoleKey,
    /// `ESC [ M`, a click as raw bytes.
    X10Mouse,
    SingleShift,
    /// A string of any length: OSC, DCS, APC, PM, SOS.
    Text {
        eight_bit: bool,
    },
    /// ESC within a string: its end, if a backslash follows.
    TextEscape,
}

/// A sequence on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    state: State,
    /// Its bytes in the 7-bit form, as far as an event can be made of them.
    bytes: Vec<u8>,
}

impl Sequence {
    /// Whether more must come.
    pub(super) fn is_unfinished(&self) -> bool {
        self.state != State::Ground
    }

    /// Whether only ESC came so far, which is a key where nothing follows.
    pub(super) fn is_escape(&self) -> bool {
        self.state == State::Escape
    }

    pub(super) fn push(&mut self, byte: u8) -> Step {
        match self.state {
            State::Ground => self.begin(byte),
            State::Escape => self.after_escape(byte),
            State::Character => self.continue_character(byte),
            State::Introducer(introducer) => self.after_introducer(introducer, byte),
            State::Control => self.continue_control(byte),
            State::ConsoleKey if is_final(byte) => self.finish(byte),
            State::SingleShift if is_parameter(byte) => self.keep(byte),
            State::SingleShift if is_final(byte) => self.finish(byte),
            State::X10Mouse if byte >= b' ' => {
                if self.bytes.len() + 1 < X10_MOUSE {
                    return self.keep(byte);
                }
                self.finish(byte)
            }
            State::Text { eight_bit } => match byte {
                ESCAPE => self.enter(State::TextEscape),
                BELL => self.enter(State::Ground),
                STRING_TERMINATOR if eight_bit => self.enter(State::Ground),
                0..=0x1f => self.again(),
                _ => Step::Nothing,
            },
            State::TextEscape if byte == b'\\' => self.enter(State::Ground),
            State::TextEscape => {
                // The string was cut: this ESC begins the next sequence.
                self.bytes = vec![ESCAPE];
                self.state = State::Escape;
                self.after_escape(byte)
            }
            State::ConsoleKey | State::SingleShift | State::X10Mouse => self.again(),
        }
    }

    fn begin(&mut self, byte: u8) -> Step {
        self.bytes = vec![byte];
        match byte {
            ESCAPE => self.enter(State::Escape),
            0xc2..=0xf4 => self.enter(State::Character),
            0x8f | 0x90 | 0x9b | 0x9d | 0x9f => self.enter(State::Introducer(byte)),
            // The rest of a character whose beginning was lost.
            0x80.. => Step::Nothing,
            _ => self.event(),
        }
    }

    fn after_escape(&mut self, byte: u8) -> Step {
        match byte {
            // Two presses, or one before a sequence. Ctrl-C must not become Alt with Ctrl-C.
            ESCAPE | 0x03 => {
                self.state = if byte == ESCAPE { State::Escape } else { State::Ground };
                if byte == ESCAPE { escape_key() } else { self.begin(byte) }
            }
            b'[' => self.keep_and_enter(byte, State::Control),
            b'O' => self.keep_and_enter(byte, State::SingleShift),
            b']' | b'P' | b'_' | b'^' | b'X' => self.enter(State::Text { eight_bit: false }),
            0xc2..=0xf4 => self.keep_and_enter(byte, State::Character),
            0x80.. => self.again(),
            // Alt with this key.
            _ => self.finish(byte),
        }
    }

    /// Only what a terminal sends behind it makes a byte from 0x80 on an introducer: it may be half of a character, and
    /// what follows that is a key.
    fn after_introducer(&mut self, introducer: u8, byte: u8) -> Step {
        let (second, state, fits) = match introducer {
            0x9b => (b'[', State::Control, is_parameter(byte) || byte.is_ascii_uppercase()),
            0x8f => (b'O', State::SingleShift, byte.is_ascii_uppercase()),
            0x90 => (b'P', State::Text { eight_bit: true }, is_parameter(byte)),
            0x9d => (b']', State::Text { eight_bit: true }, byte.is_ascii_digit()),
            _ => (b'_', State::Text { eight_bit: true }, byte == b'G'),
        };
        if !fits {
            return self.again();
        }
        self.bytes = vec![ESCAPE, second];
        self.state = state;
        self.push(byte)
    }

    fn continue_character(&mut self, byte: u8) -> Step {
        if !is_continuation(byte) {
            return self.again();
        }
        let lead = self.bytes.iter().copied().find(|byte| *byte != ESCAPE).unwrap_or_default();
        let escapes = usize::from(self.bytes.first() == Some(&ESCAPE));
        if self.bytes.len() + 1 - escapes < length_of_character(lead) {
            return self.keep(byte);
        }
        self.finish(byte)
    }

    fn continue_control(&mut self, byte: u8) -> Step {
        match byte {
            _ if is_parameter(byte) => self.keep(byte),
            b'[' if self.bytes.len() == 2 => self.keep_and_enter(byte, State::ConsoleKey),
            b'M' if self.bytes.len() == 2 => self.keep_and_enter(byte, State::X10Mouse),
            _ if is_final(byte) => self.finish(byte),
            _ => self.again(),
        }
    }

    fn enter(&mut self, state: State) -> Step {
        self.state = state;
        Step::Nothing
    }

    fn keep(&mut self, byte: u8) -> Step {
        if self.bytes.len() < LONGEST {
            self.bytes.push(byte);
        }
        Step::Nothing
    }

    fn keep_and_enter(&mut self, byte: u8, state: State) -> Step {
        self.state = state;
        self.keep(byte)
    }

    fn again(&mut self) -> Step {
        self.state = State::Ground;
        Step::Again
    }

    fn finish(&mut self, byte: u8) -> Step {
        self.state = State::Ground;
        self.bytes.push(byte);
        if self.bytes == PASTE_BEGINS { Step::PasteBegins } else { self.event() }
    }

    /// The event that these bytes are, if they are one.
    fn event(&self) -> Step {
        let translated = modified_key(&self.bytes);
        let bytes = translated.as_deref().unwrap_or(&self.bytes);
        if !may_be_an_event(bytes) {
            return Step::Nothing;
        }
        let event = terminput::Event::parse_from(bytes).ok().flatten();
        let event = event.and_then(|event| terminput_crossterm::to_crossterm(event).ok());
        event.map_or(Step::Nothing, Step::Event)
    }

    /// Whether these bytes, which came after a pause, are the rest of this sequence rather than keys. A single byte is a
    /// key, unless it is what ends a reply.
    pub(super) fn is_continued_by(&self, bytes: &[u8]) -> bool {
        let Some(first) = bytes.first() else { return false };
        let several = bytes.len() > 1;
        match self.state {
            State::Ground | State::ConsoleKey | State::SingleShift => false,
            State::Escape => match first {
                b'[' => several,
                b']' | b'P' | b'_' | b'^' | b'X' => ends_a_string(bytes),
                _ => false,
            },
            State::Introducer(0x9d | 0x90 | 0x9f) => ends_a_string(bytes),
            State::Character => is_continuation(*first),
            State::X10Mouse => several && *first >= b' ',
            State::Text { eight_bit: true } if *first == STRING_TERMINATOR => true,
            State::Text { .. } => *first == BELL || several && (*first >= b' ' || bytes.starts_with(b"\x1b\\")),
            State::TextEscape => *first == b'\\',
            State::Control if self.bytes.len() == 2 && *first == b'M' => bytes.len() == X10_MOUSE - 2,
            State::Control | State::Introducer(_) => match bytes.iter().position(|byte| !is_parameter(*byte)) {
                Some(0) => self.expects(*first),
                Some(at) => bytes.get(at).is_some_and(|byte| is_final(*byte)),
                None => several,
            },
        }
    }

    /// Whether this byte ends a sequence as terminals send them with these parameters.
    fn expects(&self, byte: u8) -> bool {
        self.bytes.iter().any(u8::is_ascii_digit) && b"~RcnuytxMmS".contains(&byte)
    }

    /// What a person meant by it where nothing more came.
    pub(super) fn given_up(&self) -> Option<Event> {
        let Step::Event(event) = escape_key() else { return None };
        self.is_escape().then_some(event)
    }
}

/// Whether these are the bytes of one character.
pub(super) fn is_one_character(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|lead| length_of_character(*lead) == bytes.len())
}

/// Whether the end of a string is among these bytes.
fn ends_a_string(bytes: &[u8]) -> bool {
    bytes.contains(&BELL) || bytes.contains(&STRING_TERMINATOR) || bytes.windows(2).any(|pair| pair == b"\x1b\\")
}

fn length_of_character(lead: u8) -> usize {
    match lead {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn is_continuation(byte: u8) -> bool {
    (0x80..0xc0).contains(&byte)
}

/// A parameter or an intermediate byte.
fn is_parameter(byte: u8) -> bool {
    (0x20..0x40).contains(&byte)
}

fn is_final(byte: u8) -> bool {
    (0x40..0x7f).contains(&byte)
}

fn escape_key() -> Step {
    Step::Event(Event::Key(crossterm::event::KeyCode::Esc.into()))
}

/// xterm's modifyOtherKeys, `ESC [ 27 ; modifiers ; code ~`, in the form that terminput reads.
fn modified_key(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(b"\x1b[27;")?.strip_suffix(b"~")?;
    let (modifiers, code) = str::from_utf8(rest).ok()?.split_once(';')?;
    Some(format!("\x1b[{code};{modifiers}u").into_bytes())
}

/// Whether a whole sequence can be a key, a click or a change of focus. A reply can look like one: the position of the
/// cursor is F3 with modifiers but for its first figure.
fn may_be_an_event(bytes: &[u8]) -> bool {
    let Some(control) = bytes.strip_prefix(b"\x1b[") else { return true };
    let Some((last, parameters)) = control.split_last() else { return false };
    if parameters.starts_with(b"M") {
        return bytes.len() == X10_MOUSE;
    }
    let figures = parameters.strip_prefix(b"<").unwrap_or(parameters);
    match last {
        // terminput counts from 1, and a figure of 0 would be below none.
        b'M' | b'm' if parameters.len() > 1 => {
            let figures: Vec<&[u8]> = figures.split(|byte| *byte == b';').collect();
            figures.len() == 3
                && figures.iter().skip(1).all(|figure| figure.iter().any(|digit| (b'1'..=b'9').contains(digit)))
        }
        b'R' => parameters.is_empty() || parameters.starts_with(b"1;"),
        _ => parameters.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':' | b'[')),
    }
}
