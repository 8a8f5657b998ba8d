//! Owns the clipboard of a terminal that may be far away: tmux's own buffer inside tmux (which by default ignores the
//! escape sequence), else the OSC 52 sequence, which most terminals take over ssh too.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::clipboard::CopyToClipboard;
use crossterm::execute;

use super::Wake;
use crate::app::Msg;

/// Terminals cut or ignore longer sequences.
const LONGEST: usize = 70_000;
/// tmux answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(2);

/// Copies, and says how; or gives the text back where nobody took it. Never waits for anybody.
pub fn copy(text: String, wakes: Sender<Wake>) {
    let say = move |outcome| drop(wakes.send(Wake::Msg(Msg::Copied(outcome))));
    if std::env::var_os("TMUX").is_none() {
        // To the terminal itself, from the thread that draws: nothing may come between the bytes.
        let sent = text.len() <= LONGEST && execute!(io::stdout(), CopyToClipboard::to_clipboard_from(&text)).is_ok();
        return say(if sent {
            Ok("through your terminal; nothing there? select it with Shift and the mouse")
        } else {
            Err(text)
        });
    }
    let spawned = thread::Builder::new().name("clipboard".into()).spawn(move || {
        say(if tmux(&text).is_ok() { Ok("tmux buffer") } else { Err(text) });
    });
    drop(spawned);
}

fn tmux(text: &str) -> io::Result<()> {
    let mut child = Command::new("tmux")
        .args(["load-buffer", "-w", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A pipe holds 64 KiB without a reader; what is longer waits for tmux, on this thread alone.
        input.write_all(text.as_bytes())?;
    }
    let due = Instant::now() + PATIENCE;
    let (_kept, pause) = mpsc::channel::<()>();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(io::Error::other("tmux refused")),
            None if Instant::now() >= due => {
                child.kill()?;
                return Err(io::Error::other("tmux does not answer"));
            }
            None => drop(pause.recv_timeout(Duration::from_millis(20))),
        }
    }
}
