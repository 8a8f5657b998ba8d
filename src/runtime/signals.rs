//! Owns the signals that others send us: asked to end, stopped and continued. The terminal is given back each time.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;

use super::Wake;
use super::terminal::{Screen, give_back};
use crate::app::Msg;
use crate::procfs::Procfs;

/// Turns signals into wake-ups.
pub fn listen(wakes: Sender<Wake>) -> io::Result<()> {
    // All that end a program which does not take them.
    let ending =
        [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, libc::SIGPWR, libc::SIGSTKFLT];
    let others = [SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2, SIGXFSZ];
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    let mut signals = Signals::new(ending.into_iter().chain(others).chain(real_time))?;
    super::terminal::give_back_on_fault();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let wake = match signal {
                SIGTSTP => Wake::Stop,
                SIGCONT => Wake::Continue,
                SIGWINCH => resized(),
                // Slurm warns the jobs of a session so (--signal); it would end us with the terminal taken. A file that may
                // not grow is an error of the writing.
                SIGUSR1 | SIGUSR2 | SIGXFSZ => continue,
                signal => Wake::End(signal),
            };
            if wakes.send(wake).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// The size of the terminal now.
pub fn resized() -> Wake {
    Wake::Msg(super::terminal::size().map_or(Msg::Tick, |(columns, rows)| Msg::Resize(columns, rows)))
}

/// Whether somebody could bring us back after a stop: our parent is in our session. Started by ssh or a terminal
/// directly, nobody could.
pub fn can_be_continued() -> bool {
    Procfs::default().shares_its_parents_session(std::process::id())
}

/// Ctrl-Z: the whole foreground job stops, as it would have without raw mode. Our own part comes back as SIGTSTP.
pub fn ask_to_stop() {
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
}

/// Gives the terminal back and stops; runs on when the shell brings us to the foreground.
pub fn stop(screen: &mut Screen) -> io::Result<()> {
    give_back();
    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
    screen.retake()
}
