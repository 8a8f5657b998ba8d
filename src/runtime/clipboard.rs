//! Owns the clipboard of a terminal that may be far away: the system's own program where every machine has one and the
//! person sits at it, tmux's own buffer inside tmux (which by default ignores the escape sequence), else the OSC 52
//! sequence, which most terminals take over ssh too.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use crossterm::clipboard::CopyToClipboard;
use crossterm::execute;

use super::wake::{Tell, Wake};
use crate::app::Msg;
use crate::platform::{here, tools, variable};

/// Terminals cut or ignore longer sequences.
const LONGEST: usize = 70_000;
/// The message if it is unknown whether the terminal took the text. Terminals on a Mac use Option where others use Shift.
const THROUGH_TERMINAL: &str = "through your terminal; nothing there? select it with Shift (Mac: Option) and the mouse";
/// Clipboard programs answer at once or not at all.
const PATIENCE: Duration = Duration::from_secs(2);

/// Copies the text and reports how, or returns the text if nothing took it. Never blocks.
pub(crate) fn copy(text: String, wakes: Sender<Wake>) {
    let is_remote = ["SSH_CONNECTION", "SSH_TTY"].into_iter().any(|name| variable(name).is_some());
    let Some((how, command, bytes)) = program(&text, is_remote, variable("TMUX").is_some()) else {
        // To the terminal itself, from the thread that draws: nothing may come between the bytes.
        let sent = text.len() <= LONGEST && execute!(io::stdout(), CopyToClipboard::to_clipboard_from(&text)).is_ok();
        wakes.tell(Msg::Copied(if sent { Ok(THROUGH_TERMINAL) } else { Err(text) }));
        return;
    };
    let spawned = thread::Builder::new().name("clipboard".into()).spawn(move || {
        wakes.tell(Msg::Copied(if fed(command, &bytes).is_ok() { Ok(how) } else { Err(text) }));
    });
    drop(spawned);
}

/// The program that reads the text on its standard input, and how to name it; `None` if the terminal takes the text. Over
/// ssh the system's own clipboard is not the person's.
fn program(text: &str, is_remote: bool, in_tmux: bool) -> Option<(&'static str, Command, Vec<u8>)> {
    if !is_remote && let Some((command, bytes)) = here::clipboard(text) {
        return Some(("clipboard", command, bytes));
    }
    if !in_tmux {
        return None;
    }
    let mut command = tools::command("tmux").ok()?;
    command.args(["load-buffer", "-w", "-"]);
    Some(("tmux buffer", command, text.as_bytes().to_vec()))
}

/// Starts the program and writes the text to it.
fn fed(mut command: Command, bytes: &[u8]) -> io::Result<()> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A pipe holds 64 KiB without a reader; what is longer waits for the program, on this thread alone.
        input.write_all(bytes)?;
    }
    let due = Instant::now() + PATIENCE;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(io::Error::other("it refused")),
            None if Instant::now() >= due => {
                child.kill()?;
                return Err(io::Error::other("it does not answer"));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_program_takes_it_here_and_the_terminal_from_far_away() {
        let told = |is_remote, in_tmux| program("text", is_remote, in_tmux).map(|(how, ..)| how);
        let here = here::clipboard("text").map(|_| "clipboard");
        let tmux = tools::found("tmux").map(|_| "tmux buffer");
        assert_eq!((told(true, false), told(true, true)), (None, tmux));
        assert_eq!((told(false, false), told(false, true)), (here, here.or(tmux)));
    }

    /// `sort` reads its standard input on every system, and refuses a file that is not there.
    #[test]
    fn a_program_is_fed_to_its_end_and_one_that_refuses_is_told() {
        fed(Command::new("sort"), "text ü".as_bytes()).unwrap();
        let mut refuses = Command::new("sort");
        refuses.arg("no such file");
        assert!(fed(refuses, b"").is_err());
    }
}
