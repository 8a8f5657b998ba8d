//! Plays replies of real terminals, whole, cut, and late, to the decoder: none silences the keyboard or acts as a key.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::decoder::Decoder;

/// A decoder with a clock, in milliseconds.
#[derive(Default)]
struct Terminal {
    decoder: Decoder,
    now: u64,
    events: Vec<Event>,
}

impl Terminal {
    fn passes(&mut self, milliseconds: u64) {
        let until = self.now + milliseconds;
        while let Some(due) = self.decoder.due().filter(|due| *due <= Duration::from_millis(until)) {
            self.decoder.tick(due, &mut self.events);
        }
        self.now = until;
    }

    fn sends(&mut self, bytes: &[u8]) {
        self.decoder.take(bytes, Duration::from_millis(self.now), &mut self.events);
    }

    /// The events since the last time.
    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// These reads at one moment, and silence.
fn decoded(reads: &[&[u8]]) -> Vec<Event> {
    let mut terminal = Terminal::default();
    reads.iter().for_each(|read| terminal.sends(read));
    terminal.passes(60_000);
    terminal.events()
}

fn key(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn letter(character: char) -> Event {
    key(KeyCode::Char(character))
}

fn paste(text: &str) -> Event {
    Event::Paste(text.into())
}

fn ctrl_c() -> Event {
    Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL))
}

/// What terminals send beside keys: replies to queries, as their documentation has them (xterm's ctlseqs, kitty, foot,
/// iTerm2, Windows Terminal, tmux; checked 2026-11-22).
const REPLIES: &[(&str, &[u8])] = &[
    ("DA1, xterm", b"\x1b[?64;1;2;6;9;15;16;17;18;21;22;28c"),
    ("DA1, VT102", b"\x1b[?6c"),
    ("DA1, tmux", b"\x1b[?1;2;4c"),
    ("DA2, xterm", b"\x1b[>41;370;0c"),
    ("DA2, tmux", b"\x1b[>84;0;0c"),
    ("DA3", b"\x1bP!|7E565445\x1b\\"),
    ("DSR, ready", b"\x1b[0n"),
    ("cursor position", b"\x1b[24;80R"),
    ("extended cursor position", b"\x1b[?24;80;1R"),
    ("printer", b"\x1b[?13n"),
    ("keyboard dialect", b"\x1b[?27;1;0;0n"),
    ("color scheme", b"\x1b[?997;1n"),
    ("DECRPM 2026", b"\x1b[?2026;2$y"),
    ("DECRPM 2004", b"\x1b[?2004;1$y"),
    ("DECRPM 1049", b"\x1b[?1049;4$y"),
    ("DECRPM 2048", b"\x1b[?2048;0$y"),
    ("ANSI mode", b"\x1b[4;2$y"),
    ("DECCKSR", b"\x1bP1!~1234\x1b\\"),
    ("DECRQCRA", b"\x1bP99!~FDA2\x1b\\"),
    ("DECRQSS", b"\x1bP1$r0;1;31m\x1b\\"),
    ("DECRQSS, cursor style", b"\x1bP1$r2 q\x1b\\"),
    ("DECRQSS, unknown", b"\x1bP0$r\x1b\\"),
    ("DECTABSR", b"\x1bP2$u9/17/25\x1b\\"),
    ("DECREQTPARM", b"\x1b[2;1;1;128;128;1;0x"),
    ("XTVERSION, xterm", b"\x1bP>|XTerm(390)\x1b\\"),
    ("XTVERSION, kitty", b"\x1bP>|kitty(0.42.1)\x1b\\"),
    ("XTVERSION, ended by BEL", b"\x1bP>|foot(1.25.0)\x07"),
    ("XTGETTCAP", b"\x1bP1+r544e=787465726d2d323536636f6c6f72\x1b\\"),
    ("XTGETTCAP, unknown", b"\x1bP0+r71\x1b\\"),
    ("XTSMGRAPHICS", b"\x1b[?1;0;1024S"),
    ("XTQMODKEYS", b"\x1b[>4;2m"),
    ("XTREPORTSGR", b"\x1b[0;1m"),
    ("foreground, ST", b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    ("background, BEL", b"\x1b]11;rgb:1e1e/1e1e/2e2e\x07"),
    ("cursor color", b"\x1b]12;rgb:abab/cdcd/efef\x1b\\"),
    ("palette", b"\x1b]4;1;rgb:cccc/0000/0000\x07"),
    ("clipboard", b"\x1b]52;c;eXkgcXVpdAo=\x1b\\"),
    ("clipboard, BEL", b"\x1b]52;;eXlxeHl5\x07"),
    ("current folder", b"\x1b]7;file://host/home/y\x07"),
    ("pointer shape", b"\x1b]22;text\x1b\\"),
    ("iTerm2, cell size", b"\x1b]1337;ReportCellSize=17.0;8.0;2.0\x1b\\"),
    ("iTerm2, a variable", b"\x1b]1337;ReportVariable=eQ==\x07"),
    ("kitty, colors", b"\x1b]21;foreground=rgb:ff/ff/ff\x1b\\"),
    ("kitty, notification", b"\x1b]99;i=1:p=?;p=title,body\x1b\\"),
    ("window title", b"\x1b]lmake y\x1b\\"),
    ("icon title", b"\x1b]Lyes\x1b\\"),
    ("kitty, keyboard flags", b"\x1b[?0u"),
    ("kitty, more keyboard flags", b"\x1b[?31u"),
    ("kitty, graphics", b"\x1b_Gi=31;OK\x1b\\"),
    ("kitty, graphics failed", b"\x1b_Gi=31;ENOTSUPPORTED:yes\x1b\\"),
    ("window size in cells", b"\x1b[8;24;80t"),
    ("window size in pixels", b"\x1b[4;600;800t"),
    ("cell size", b"\x1b[6;17;8t"),
    ("window state", b"\x1b[1t"),
    ("window position", b"\x1b[3;10;20t"),
    ("in-band resize", b"\x1b[48;24;80;600;800t"),
    ("privacy message", b"\x1b^y\x1b\\"),
    ("start of string", b"\x1bXy\x1b\\"),
    ("8-bit DA1", b"\x9b?64;1;2c"),
    ("8-bit DECRPM", b"\x9b?2026;2$y"),
    ("8-bit cursor position", b"\x9b24;80R"),
    ("8-bit XTVERSION", b"\x90>|XTerm(390)\x9c"),
    ("8-bit background", b"\x9d11;rgb:1e1e/1e1e/2e2e\x9c"),
    ("8-bit graphics", b"\x9fGi=31;OK\x9c"),
    ("end of a paste that never began", b"\x1b[201~"),
    ("click at no place", b"\x1b[<0;0;0M"),
    ("click by a button that there is not", b"\x1b[<255;1;1M"),
];

/// Input that is no text, and may be cut like replies.
const OTHERS: &[(&str, &[u8])] = &[
    ("focus gained", b"\x1b[I"),
    ("focus lost", b"\x1b[O"),
    ("click, SGR", b"\x1b[<0;10;20M"),
    ("release, SGR", b"\x1b[<0;10;20m"),
    ("click, urxvt", b"\x1b[32;10;20M"),
    ("click, X10", b"\x1b[M !!"),
    ("arrow", b"\x1b[A"),
    ("arrow, application", b"\x1bOA"),
    ("arrow, modified", b"\x1b[1;5A"),
    ("F5", b"\x1b[15~"),
    ("F1, console", b"\x1b[[A"),
    ("paste", b"\x1b[200~"),
    ("Ctrl-Y, modifyOtherKeys", b"\x1b[27;5;121~"),
    ("Ctrl-Y, kitty", b"\x1b[121;5u"),
    ("two-byte character", "\u{e4}".as_bytes()),
    ("a character with a C1 byte", "\u{11b}".as_bytes()),
    ("three-byte character", "\u{20ac}".as_bytes()),
    ("four-byte character", "\u{1f4a5}".as_bytes()),
];

fn is_plain_letter(event: &Event) -> bool {
    matches!(event, Event::Key(KeyEvent { code: KeyCode::Char(_) | KeyCode::Enter, .. }) | Event::Paste(_))
}

#[test]
fn no_reply_of_a_terminal_is_taken_for_a_key_however_it_is_cut_and_delayed() {
    for (name, reply) in REPLIES {
        for pause in [0, 10, 50, 150, 900] {
            for cut in 0..reply.len() {
                let (head, tail) = reply.split_at(cut);
                let mut terminal = Terminal::default();
                terminal.sends(head);
                terminal.passes(pause);
                terminal.sends(tail);
                terminal.passes(10_000);
                let events = terminal.events();
                assert!(!events.iter().any(is_plain_letter), "{name} cut at {cut}, {pause} ms: {events:?}");
                // A lone ESC is the key.
                assert!(pause >= 40 || events.is_empty(), "{name} cut at {cut}, {pause} ms: {events:?}");
            }
        }
        let mut terminal = Terminal::default();
        for byte in *reply {
            terminal.sends(&[*byte]);
            terminal.passes(30);
        }
        terminal.sends(b"q");
        assert_eq!(terminal.events(), [letter('q')], "{name}, a byte at a time");
    }
}

#[test]
fn behind_any_part_of_any_reply_a_key_and_ctrl_c_arrive() {
    for (name, reply) in REPLIES.iter().chain(OTHERS) {
        for cut in 1..=reply.len() {
            let head = &reply[..cut];
            let mut terminal = Terminal::default();
            terminal.sends(head);
            terminal.passes(110);
            terminal.events();
            terminal.sends(b"q");
            terminal.passes(190);
            assert_eq!(terminal.events().last(), Some(&letter('q')), "{name} cut at {cut}");
            for together in [true, false] {
                let mut terminal = Terminal::default();
                if together {
                    terminal.sends(&[head, b"\x03"].concat());
                } else {
                    terminal.sends(head);
                    terminal.sends(b"\x03");
                }
                assert_eq!(terminal.events().last(), Some(&ctrl_c()), "{name} cut at {cut}");
                terminal.sends(b"q");
                assert_eq!(terminal.events(), [letter('q')], "{name} cut at {cut}: nothing is left of it");
            }
        }
        let mut terminal = Terminal::default();
        terminal.sends(reply);
        terminal.passes(if *name == "paste" { 10_000 } else { 0 });
        terminal.events();
        terminal.sends(b"q");
        assert_eq!(terminal.events(), [letter('q')], "{name}");
    }
}

#[test]
fn keys_of_every_encoding_are_read_however_they_are_cut() {
    let ctrl_y = Event::Key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::CONTROL));
    let ctrl_up = Event::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::CONTROL));
    let expected = [
        ("arrow", key(KeyCode::Up)),
        ("arrow, application", key(KeyCode::Up)),
        ("arrow, modified", ctrl_up),
        ("F5", key(KeyCode::F(5))),
        ("F1, console", key(KeyCode::F(1))),
        ("Ctrl-Y, modifyOtherKeys", ctrl_y.clone()),
        ("Ctrl-Y, kitty", ctrl_y),
        ("two-byte character", letter('\u{e4}')),
        ("a character with a C1 byte", letter('\u{11b}')),
        ("four-byte character", letter('\u{1f4a5}')),
        ("focus gained", Event::FocusGained),
    ];
    for (name, event) in expected {
        let (_, bytes) = OTHERS.iter().find(|(other, _)| *other == name).unwrap();
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(decoded(&[head, tail]), std::slice::from_ref(&event), "{name} cut at {cut}");
        }
    }
    for name in ["click, SGR", "release, SGR", "click, urxvt", "click, X10"] {
        let (_, bytes) = OTHERS.iter().find(|(other, _)| *other == name).unwrap();
        assert!(matches!(decoded(&[bytes])[..], [Event::Mouse(_)]), "{name}");
    }
}

#[test]
fn keys_pastes_and_what_stands_around_them_are_told_apart_however_the_bytes_are_cut() {
    let whole = "j\x1b[A\x1b[200~CUDA out \u{e4}\r\x1b[201x\x1b[201~q\x1b[200~\x1b[201~\u{e4}".as_bytes();
    let expected =
        [letter('j'), key(KeyCode::Up), paste("CUDA out \u{e4}\r\x1b[201x"), letter('q'), paste(""), letter('\u{e4}')];
    assert_eq!(decoded(&[whole]), expected);
    for size in 1..whole.len() {
        let reads: Vec<&[u8]> = whole.chunks(size).collect();
        assert_eq!(decoded(&reads), expected, "{size} at once");
    }
}

#[test]
fn escape_alone_is_a_key_soon() {
    let mut terminal = Terminal::default();
    terminal.sends(b"\x1b");
    terminal.passes(50);
    assert_eq!(terminal.events(), [key(KeyCode::Esc)]);
    let alt = Event::Key(KeyEvent::new(KeyCode::Char('y'), KeyModifiers::ALT));
    assert_eq!(decoded(&[b"\x1by"]), [alt]);
    assert_eq!(decoded(&[b"\x1b\x1b[A"]), [key(KeyCode::Esc), key(KeyCode::Up)]);
}

#[test]
fn a_paste_without_an_end_is_ended_by_silence_by_ctrl_c_and_by_a_key() {
    assert_eq!(decoded(&[b"\x1b[200~hello"]), [paste("hello")]);
    assert_eq!(decoded(&[b"\x1b[200~hello", b"\x03"]), [paste("hello"), ctrl_c()]);
    assert_eq!(decoded(&[b"\x1b[200~hello", b"\x03\x03"]), [paste("hello"), ctrl_c(), ctrl_c()]);
    assert_eq!(decoded(&[b"\x1b[200~hello\x03"]), [paste("hello"), ctrl_c()]);
    for (begun, before) in [(&b"\x1b[200~"[..], vec![]), (b"\x1b[200~hello", vec![paste("hello")])] {
        let mut terminal = Terminal::default();
        terminal.sends(begun);
        terminal.passes(60);
        terminal.sends(b"q");
        terminal.passes(160);
        assert_eq!(terminal.events(), [before, vec![letter('q')]].concat());
    }
}

#[test]
fn a_slow_paste_is_one_paste_and_what_comes_late_is_still_no_key() {
    let log = b"y\rtorch.OutOfMemoryError: CUDA out of memory.\rx\ry\rq\r";
    for size in [1, 2, 7, 20] {
        let mut terminal = Terminal::default();
        terminal.sends(b"\x1b[200~");
        for piece in log.chunks(size) {
            terminal.passes(140);
            terminal.sends(piece);
        }
        terminal.sends(b"\x1b[201~");
        assert_eq!(terminal.events(), [paste(str::from_utf8(log).unwrap())], "{size} at once");
    }
    // Stalled for longer than a paste is waited for, and its end comes at last.
    for size in [7, 20] {
        let mut terminal = Terminal::default();
        terminal.sends(b"\x1b[200~");
        for piece in log.chunks(size) {
            terminal.sends(piece);
            terminal.passes(1500);
        }
        terminal.sends(b"\x1b[201~");
        let events = terminal.events();
        assert!(events.iter().all(|event| matches!(event, Event::Paste(_))), "{size} at once: {events:?}");
        terminal.sends(b"jk");
        assert_eq!(terminal.events(), [letter('j'), letter('k')], "the end mark came");
    }
    // Ctrl-C ends it while it still comes in.
    let mut terminal = Terminal::default();
    [&b"\x1b[200~step 1\r"[..], b"\x03", b"y\rstep 2\r", b"\x1b[31my\x1b[0m\r\x1b[201~"]
        .iter()
        .for_each(|read| terminal.sends(read));
    let events = terminal.events();
    assert_eq!(events[..2], [paste("step 1\r"), ctrl_c()]);
    assert!(events[2..].iter().all(|event| matches!(event, Event::Paste(_))), "{events:?}");
}

#[test]
fn a_start_of_a_paste_that_is_cut_still_starts_one() {
    for cut in 1.."\x1b[200~".len() {
        let (head, tail) = b"\x1b[200~y\x1b[201~".split_at(cut);
        let mut terminal = Terminal::default();
        terminal.sends(head);
        terminal.passes(300);
        terminal.sends(tail);
        let events = terminal.events();
        assert_eq!(events.last(), Some(&paste("y")), "cut at {cut}");
        assert_eq!(events.iter().filter(|event| is_plain_letter(event)).count(), 1, "cut at {cut}: {events:?}");
    }
}
