//! A terminal to run the program in: a pty, a thread that feeds its output to a terminal emulator, and waiting for text
//! on the screen. Nothing waits by sleeping: a wait ends with the expected output, or fails with the screen as it is at
//! the deadline.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use vt100::{MouseProtocolMode, Parser, Screen};

use super::fake_driver::{devices, homes};

/// How long anything may take whose duration is not tested; it takes far less.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Set for programs in one of these terminals.
pub const IN_A_PTY: &str = "OOMDOCTOR_TEST_IN_A_PTY";
/// The two bits of a terminal's local modes that make it "cooked": line editing and echo (termios.h).
const ICANON_AND_ECHO: u64 = 0o2 | 0o10;

/// What the program did to the terminal besides drawing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Window titles it set.
    pub titles: Vec<String>,
    /// What it put on the clipboard.
    pub copied: Vec<String>,
    /// How often it rang the bell.
    pub bells: usize,
    /// Replies to what it asked the terminal, not sent yet.
    answers: Vec<u8>,
}

impl vt100::Callbacks for Deeds {
    fn audible_bell(&mut self, _: &mut Screen) {
        self.bells += 1;
    }
    fn set_window_icon_name(&mut self, _: &mut Screen, name: &[u8]) {
        self.titles.push(String::from_utf8_lossy(name).into_owned());
    }
    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        self.titles.push(String::from_utf8_lossy(title).into_owned());
    }
    fn copy_to_clipboard(&mut self, _: &mut Screen, _: &[u8], data: &[u8]) {
        self.copied.push(String::from_utf8_lossy(data).into_owned());
    }
    fn unhandled_csi(&mut self, screen: &mut Screen, prefix: Option<u8>, _: Option<u8>, params: &[&[u16]], last: char) {
        // Every terminal answers a request for the cursor's position.
        if (prefix, params, last) == (None, &[&[6][..]][..], 'n') {
            let (row, column) = screen.cursor_position();
            self.answers.extend(format!("\x1b[{};{}R", row + 1, column + 1).bytes());
        }
    }
}

struct Emulator {
    parser: Parser<Deeds>,
    /// All output, for what the emulator does not record.
    raw: Vec<u8>,
    /// Every process on the terminal has exited, so no more output follows.
    closed: bool,
}

/// The emulator, and a signal at each change.
struct Shared {
    emulator: Mutex<Emulator>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Emulator> {
        self.emulator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command in its own terminal; killed on drop.
pub struct Session {
    master: Box<dyn MasterPty + Send>,
    keyboard: Arc<Mutex<Box<dyn Write + Send>>>,
    child: Box<dyn Child + Send + Sync>,
    shared: Arc<Shared>,
    cooked: bool,
}

impl Session {
    /// Runs the shipped program in a terminal of this many columns and rows.
    pub fn oomdoctor(size: (u16, u16), arguments: &[&str]) -> Session {
        let devices = devices();
        let devices = ["--device-folder", devices.to_str().unwrap()];
        Session::program(size, Path::new(env!("CARGO_BIN_EXE_oomdoctor")), &[arguments, &devices].concat())
    }

    pub fn program(size: (u16, u16), program: &Path, arguments: &[&str]) -> Session {
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        Session::start(size, command)
    }

    /// Runs a shell's command line; `$OOMDOCTOR` is the shipped program, `$DEVICES` the folder for `--device-folder`.
    pub fn shell(size: (u16, u16), line: &str) -> Session {
        let mut command = CommandBuilder::new("sh");
        command.args(["-c", line]);
        command.env("OOMDOCTOR", env!("CARGO_BIN_EXE_oomdoctor"));
        command.env("DEVICES", devices());
        Session::start(size, command)
    }

    fn start((cols, rows): (u16, u16), mut command: CommandBuilder) -> Session {
        command.env("LANG", "C.UTF-8");
        command.env("TERM", "xterm-256color");
        command.env(IN_A_PTY, "1");
        command.cwd(env!("CARGO_MANIFEST_DIR"));
        for (name, folder) in homes() {
            command.env(name, folder);
        }
        // Nothing listens there: a request through the proxy would fail.
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
            command.env(name, "http://127.0.0.1:9");
        }
        let told = ["KUBERNETES_SERVICE_HOST", "SUDO_UID"];
        for name in ["TMUX", "LC_ALL", "LC_CTYPE", "NO_COLOR", "OOMDOCTOR_NVML_LIBRARY"].into_iter().chain(told) {
            command.env_remove(name);
        }
        let pair = native_pty_system().openpty(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
        let cooked = is_cooked(&*pair.master);
        let output = pair.master.try_clone_reader().unwrap();
        let keyboard = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let parser = Parser::new_with_callbacks(rows, cols, 0, Deeds::default());
        let emulator = Mutex::new(Emulator { parser, raw: Vec::new(), closed: false });
        let shared = Arc::new(Shared { emulator, changed: Condvar::new() });
        feed(output, Arc::clone(&shared), Arc::clone(&keyboard));
        Session { master: pair.master, keyboard, child, shared, cooked }
    }

    /// Waits until the screen is as wanted and returns its text; fails with the screen after `PATIENCE`.
    #[track_caller]
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Screen) -> bool) -> String {
        self.wait_within(PATIENCE, what, wanted)
    }

    /// Waits as `wait_for` does, with another deadline.
    #[track_caller]
    pub fn wait_within(&self, patience: Duration, what: &str, wanted: impl Fn(&Screen) -> bool) -> String {
        let due = Instant::now() + patience;
        let mut emulator = self.shared.lock();
        loop {
            let screen = emulator.parser.screen();
            if wanted(screen) {
                return screen.contents();
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || emulator.closed {
                let why = if emulator.closed { "the program ended" } else { "time is over" };
                panic!("{why}, never seen: {what}\n{}", screen.contents());
            }
            emulator = self.wait_for_change(emulator, left);
        }
    }

    /// Waits until all of these are on the screen.
    #[track_caller]
    pub fn wait_for_text(&self, parts: &[&str]) -> String {
        self.wait_for(&format!("{parts:?}"), |screen| shows(screen, parts))
    }

    /// Waits until none of these is on the screen.
    #[track_caller]
    pub fn wait_for_no(&self, parts: &[&str]) -> String {
        self.wait_for(&format!("none of {parts:?}"), |screen| {
            parts.iter().all(|part| !screen.contents().contains(part))
        })
    }

    /// Waits until the program has exited (true) or this text is on the screen (false).
    #[track_caller]
    pub fn ends_or_shows(&self, part: &str) -> bool {
        let due = Instant::now() + PATIENCE;
        let mut emulator = self.shared.lock();
        loop {
            if emulator.closed || shows(emulator.parser.screen(), &[part]) {
                return emulator.closed;
            }
            let left = due.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "neither the end nor {part}\n{}", emulator.parser.screen().contents());
            emulator = self.wait_for_change(emulator, left);
        }
    }

    /// Waits until the output has more than this many bytes (see [`Session::raw`]).
    #[track_caller]
    pub fn wait_for_more_output(&self, than: usize) {
        let due = Instant::now() + PATIENCE;
        let mut emulator = self.shared.lock();
        while emulator.raw.len() <= than {
            let left = due.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !emulator.closed, "nothing more came out");
            emulator = self.wait_for_change(emulator, left);
        }
    }

    fn wait_for_change<'a>(
        &'a self,
        emulator: MutexGuard<'a, Emulator>,
        longest: Duration,
    ) -> MutexGuard<'a, Emulator> {
        self.shared.changed.wait_timeout(emulator, longest).unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn text(&self) -> String {
        self.shared.lock().parser.screen().contents()
    }

    pub fn look<T>(&self, at: impl FnOnce(&Screen) -> T) -> T {
        at(self.shared.lock().parser.screen())
    }

    /// What the program has done to the terminal besides drawing.
    pub fn deeds(&self) -> Deeds {
        self.shared.lock().parser.callbacks().clone()
    }

    /// All output of the terminal so far.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().raw).into_owned()
    }

    /// Types these bytes, in one write.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let mut keyboard = self.keyboard.lock().unwrap();
        keyboard.write_all(bytes.as_ref()).unwrap();
        keyboard.flush().unwrap();
    }

    /// Pastes as a terminal with bracketed paste does: line ends become CR.
    pub fn paste(&mut self, text: impl AsRef<[u8]>) {
        let text: Vec<u8> = text.as_ref().iter().map(|byte| if *byte == b'\n' { b'\r' } else { *byte }).collect();
        self.send([b"\x1b[200~", &text[..], b"\x1b[201~"].concat());
    }

    /// Changes the terminal's size.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.shared.lock().parser.screen_mut().set_size(rows, cols);
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// Changes the terminal's size, but not the emulator's.
    pub fn resize_without_emulator(&mut self, cols: u16, rows: u16) {
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// The PID of the program or of the shell.
    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.rustix_pid(), signal).unwrap();
    }

    fn rustix_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap()
    }

    /// Waits until the child exits within `patience`, and for the last of its output.
    #[track_caller]
    pub fn wait_for_exit(&mut self, patience: Duration) -> ExitStatus {
        assert!(
            crate::support::ends_within(self.pid(), patience),
            "it still runs after {} s\n{}",
            patience.as_secs_f32(),
            self.text()
        );
        let status = self.child.wait().unwrap();
        let mut emulator = self.shared.lock();
        let due = Instant::now() + PATIENCE;
        while !emulator.closed && Instant::now() < due {
            let left = due.saturating_duration_since(Instant::now());
            emulator = self.wait_for_change(emulator, left);
        }
        status
    }

    /// Whether the child still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Whether the terminal edits lines and echoes.
    pub fn is_cooked(&self) -> bool {
        is_cooked(&*self.master)
    }

    /// Quits, answers the question that may come, and checks the terminal.
    pub fn leave(mut self) {
        self.send("q");
        if !self.ends_or_shows("[y]") {
            self.send("y");
        }
        let status = self.wait_for_exit(PATIENCE);
        assert!(status.success(), "{status}");
        self.assert_given_back();
    }

    /// Fails if the terminal is not restored for a shell.
    #[track_caller]
    pub fn assert_given_back(&self) {
        self.look(|screen| {
            assert!(!screen.alternate_screen(), "still in the alternate screen");
            assert!(!screen.bracketed_paste(), "bracketed paste is still on");
            assert_eq!(screen.mouse_protocol_mode(), MouseProtocolMode::None, "the mouse is still captured");
            assert!(!screen.hide_cursor(), "the cursor is still hidden");
        });
        let raw = self.raw();
        assert!(raw.rfind("\x1b[?1004h") <= raw.rfind("\x1b[?1004l"), "it still says who is in front");
        assert_eq!(self.is_cooked(), self.cooked, "the terminal's modes are not what they were");
    }

    /// Fails if the program does not own the terminal.
    #[track_caller]
    pub fn assert_taken(&self) {
        self.look(|screen| {
            assert!(screen.alternate_screen() && screen.bracketed_paste(), "the terminal was not taken");
            assert_ne!(screen.mouse_protocol_mode(), MouseProtocolMode::None, "the mouse was not captured");
        });
        assert!(self.cooked && !self.is_cooked(), "the terminal is not in raw mode");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.runs() {
            let _ = kill_process(self.rustix_pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Waits where the test is about the passing of time.
pub fn pass(time: Duration) {
    let (_kept, nobody): (_, Receiver<()>) = mpsc::channel();
    let _ = nobody.recv_timeout(time);
}

/// Whether all of these are on the screen.
pub fn shows(screen: &Screen, parts: &[&str]) -> bool {
    let text = screen.contents();
    parts.iter().all(|part| text.contains(part))
}

fn is_cooked(master: &dyn MasterPty) -> bool {
    let modes = u64::from(master.get_termios().unwrap().local_flags.bits());
    modes & ICANON_AND_ECHO == ICANON_AND_ECHO
}

fn feed(mut output: Box<dyn Read + Send>, shared: Arc<Shared>, keyboard: Arc<Mutex<Box<dyn Write + Send>>>) {
    thread::spawn(move || {
        let mut block = vec![0; 64 << 10];
        loop {
            // Reading fails once the terminal's last process has exited.
            let count = output.read(&mut block).unwrap_or(0);
            let mut emulator = shared.lock();
            emulator.parser.process(&block[..count]);
            emulator.raw.extend_from_slice(&block[..count]);
            emulator.closed = count == 0;
            let answers = std::mem::take(&mut emulator.parser.callbacks_mut().answers);
            shared.changed.notify_all();
            drop(emulator);
            if count == 0 {
                return;
            }
            if let (Ok(mut keyboard), false) = (keyboard.lock(), answers.is_empty()) {
                let _ = keyboard.write_all(&answers);
            }
        }
    });
}
