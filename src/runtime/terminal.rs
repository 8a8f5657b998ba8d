//! Owns the terminal's state: raw mode, alternate screen, bracketed paste, mouse and focus, on and off together, so that it
//! is restored on every way out, a panic and a signal among them.

#[cfg(all(test, unix))]
mod tests;

use std::io::{self, BufWriter, stdout};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    EnableMouseCapture,
};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};

use ratatui::layout::Rect;

use crate::app::Model;
use crate::app::layout::LARGE;
use crate::app::model::Seen;
use crate::platform::here;
use crate::ui::picture::{Pen, Shown};

/// Frames of up to this many bytes are written at once.
const FRAME: usize = 64 << 10;

/// More than the largest wall of screens has in a small font.
const MOST_COLUMNS: u16 = 1000;
const MOST_ROWS: u16 = 400;

/// The terminal in this program's modes. Dropping it restores the terminal.
pub struct Screen {
    pen: Pen<BufWriter<here::TerminalOutput>>,
    shown: Shown,
}

impl Screen {
    /// Takes the terminal over.
    pub fn take() -> io::Result<Screen> {
        let terminal = here::terminal_output()?;
        enter()?;
        Ok(Screen {
            pen: Pen::new(BufWriter::with_capacity(FRAME, terminal), here::takes_escapes()),
            shown: Shown::default(),
        })
    }

    /// Draws the model; gives what can be seen and clicked.
    pub fn draw(&mut self, model: &Model) -> io::Result<Seen> {
        let (picture, seen) = crate::ui::view(model);
        if !self.shown.is_of(picture.area()) {
            // The terminal may have moved or wrapped what it showed. It is cleared together with the next frame: an empty
            // screen would flicker.
            queue!(self.pen.terminal(), Clear(ClearType::All))?;
            self.shown.clear(picture.area());
        }
        self.shown.show(picture, &mut self.pen)?;
        io::Write::flush(self.pen.terminal())?;
        Ok(seen)
    }

    /// Goes through all that drawing takes, on a screen that just has all regions, and draws nothing.
    pub fn rehearse(&mut self, model: &mut Model) {
        let (columns, rows) = model.size;
        model.size = (columns.min(LARGE.0), rows.min(LARGE.1));
        let (picture, _) = crate::ui::view(model);
        model.size = (columns, rows);
        self.shown.rehearse(&picture, Rect::new(0, 0, columns, rows));
    }

    /// Takes the terminal again after another program used it, and forgets what was on it.
    pub fn retake(&mut self) -> io::Result<()> {
        self.shown = Shown::default();
        // A shell may have set the terminal's modes while this program was stopped by a signal that can't be handled. Raw mode is
        // believed to be on then, and would not be set again.
        let _ = disable_raw_mode();
        enter()
    }
}

/// Columns and rows, as many as are drawn on: anybody may set a terminal's size to anything, and cells cost memory.
pub fn size() -> io::Result<(u16, u16)> {
    let (columns, rows) = crossterm::terminal::size()?;
    Ok((columns.min(MOST_COLUMNS), rows.min(MOST_ROWS)))
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
    let mut farewell = Vec::new();
    if leave(&mut farewell).is_ok() {
        here::remember_terminal(farewell);
    }
    // Noted before it is done: from then on all who end the program restore the terminal.
    here::note_terminal_taken(true);
    enable_raw_mode().inspect_err(|_| here::note_terminal_taken(false))?;
    take_over(&mut stdout()).inspect_err(|_| give_back())
}

/// Restores the terminal as it was. Safe to call twice; errors are ignored, because nothing can be done about them.
pub fn give_back() {
    let _ = leave(&mut stdout());
    let _ = disable_raw_mode();
    here::note_terminal_taken(false);
}

fn take_over(terminal: &mut impl io::Write) -> io::Result<()> {
    queue!(terminal, EnterAlternateScreen, Hide)?;
    if here::MARKS_PASTES {
        queue!(terminal, EnableBracketedPaste)?;
    }
    execute!(terminal, EnableMouseCapture, EnableFocusChange)
}

/// Takes every step even if one before it fails: a step left out would leave its mode behind in the person's shell.
fn leave(terminal: &mut impl io::Write) -> io::Result<()> {
    let marks = if here::MARKS_PASTES { queue!(terminal, DisableBracketedPaste) } else { Ok(()) };
    let steps = [
        queue!(terminal, DisableFocusChange),
        queue!(terminal, DisableMouseCapture),
        marks,
        queue!(terminal, LeaveAlternateScreen),
        queue!(terminal, Show),
        terminal.flush(),
    ];
    steps.into_iter().collect()
}

/// Makes a panic restore the terminal before it prints its message.
pub fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
        // After a worker's panic the program would go on drawing on the restored terminal.
        if std::thread::current().name() != Some("main") {
            end_now();
        }
    }));
}

/// Ends the program at once; the terminal is restored already.
#[allow(clippy::exit, reason = "after a panic there is nothing left to unwind to")]
fn end_now() {
    std::process::exit(101);
}

// Windows takes some of these steps by calls, on a console that a test may not have.
