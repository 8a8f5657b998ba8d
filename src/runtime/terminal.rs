//! Owns the terminal's state: raw mode, alternate screen, bracketed paste and mouse, on and off together, so that it
//! is given back as it was on every way out, a panic among them.

use std::io::{self, Stdout, stdout};
use std::mem::ManuallyDrop;

use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::execute;
use crossterm::style::Print;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;

use crate::app::Model;
use crate::app::model::Seen;

/// The terminal while it is ours. Dropping it gives it back.
pub struct Screen {
    /// Its own end shows the cursor and, where the terminal is gone, panics over an error that nobody can be told:
    /// `give_back` does it instead.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    /// Takes the terminal over.
    pub fn take() -> io::Result<Screen> {
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| give_back())?;
        Ok(Screen { terminal: ManuallyDrop::new(terminal) })
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    /// Draws the model; gives what can be seen and clicked.
    pub fn draw(&mut self, model: &Model) -> io::Result<Seen> {
        let mut shown = Seen::default();
        self.terminal.draw(|frame| shown = crate::ui::view(model, frame.area(), frame.buffer_mut()))?;
        Ok(shown)
    }

    /// Takes the terminal again after somebody else had it, and forgets what was on it. Not by `clear`, which asks
    /// the terminal where its cursor is: the thread that waits for keys would take the answer.
    pub fn retake(&mut self) -> io::Result<()> {
        enter()?;
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Rings the bell and sets the title. A terminal that has neither, or is gone, loses nothing.
pub fn ring(title: &str) {
    let _ = execute!(stdout(), Print('\x07'), SetTitle(title));
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, EnableMouseCapture).inspect_err(|_| give_back())
}

/// Gives the terminal back as it was. Safe to call twice; what fails here can't be helped.
pub fn give_back() {
    let _ =
        execute!(stdout(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
}

/// A panic gives the terminal back before it says what happened.
pub fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
        // A worker's panic would leave the program drawing on a terminal it no longer has.
        if std::thread::current().name() != Some("main") {
            end_now();
        }
    }));
}

/// Ends the program at once, the terminal being back already.
#[allow(clippy::exit, reason = "after a panic there is nothing left to unwind to")]
fn end_now() {
    std::process::exit(101);
}
