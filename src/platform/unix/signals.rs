//! Owns the signals that others send us: asked to end, stopped and continued.

use std::io;
use std::thread;

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;

use super::faults::give_back_on_fault;
use crate::platform::contract::Asked;

/// Tells of signals until `tell` answers that nobody listens; `more` are the system's own that would end this program.
pub(crate) fn listen(more: impl Iterator<Item = i32>, tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
    // All that end a program which does not take them.
    let ending = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU];
    let others = [SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2, SIGXFSZ];
    let mut signals = Signals::new(ending.into_iter().chain(others).chain(more))?;
    give_back_on_fault();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let asked = match signal {
                SIGTSTP => Asked::Stop,
                SIGCONT => Asked::Continue,
                SIGWINCH => Asked::Resized,
                // Slurm warns the jobs of a session so (--signal); it would end us with the terminal taken. A file that may
                // not grow is an error of the writing.
                SIGUSR1 | SIGUSR2 | SIGXFSZ => continue,
                signal => Asked::End(signal),
            };
            if !tell(asked) {
                return;
            }
        }
    })?;
    Ok(())
}

/// Ctrl-Z: the whole foreground job stops, as it would have without raw mode. Our own part comes back as SIGTSTP.
pub(crate) fn ask_to_stop() {
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
}

/// Stops; runs on when the shell brings us to the foreground.
pub(crate) fn stop() -> io::Result<()> {
    signal_hook::low_level::emulate_default_handler(SIGTSTP)
}
