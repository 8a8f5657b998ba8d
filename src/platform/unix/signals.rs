//! Owns the signals that this program receives: those that ask it to end, stop or continue.

use std::io;
use std::thread;

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;

use super::faults::give_back_on_fault;
use crate::platform::contract::Asked;
#[cfg(target_os = "linux")]
use crate::platform::linux::more_ending_signals;
#[cfg(not(target_os = "linux"))]
use crate::platform::macos::more_ending_signals;

/// Passes on what the system asks until `tell` answers that nobody listens.
/// From now on a fault of this program restores the terminal.
pub(crate) fn listen_to_signals(tell: impl Fn(Asked) -> bool + Send + 'static) -> io::Result<()> {
    // All signals that end a program that does not handle them.
    let ending = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU];
    let others = [SIGTSTP, SIGCONT, SIGWINCH, SIGUSR1, SIGUSR2, SIGXFSZ];
    let mut signals = Signals::new(ending.into_iter().chain(others))?;
    give_back_on_fault();
    thread::Builder::new().name("signals".into()).spawn(move || {
        // To add one costs as much as there are already. Nobody sends these at the start, so the terminal is not taken later for
        // them; one that comes within that first millisecond leaves the terminal as it is then.
        for signal in more_ending_signals() {
            if let Err(error) = signals.add_signal(signal) {
                log::warn!("signal {signal} can't be handled: {error}");
            }
        }
        for signal in signals.forever() {
            let asked = match signal {
                SIGTSTP => Asked::Stop,
                SIGCONT => Asked::Continue,
                SIGWINCH => Asked::Resized,
                // Slurm warns the jobs of a session with SIGUSR1 or SIGUSR2 (--signal), which must not end this program.
                // With SIGXFSZ ignored, a file that may not grow is an error of the write.
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

/// Stops the whole foreground job, as Ctrl-Z does without raw mode. This program receives SIGTSTP itself.
pub(crate) fn ask_to_stop() {
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
}

/// Stops until the shell brings this program to the foreground.
pub(crate) fn stop() -> io::Result<()> {
    signal_hook::low_level::emulate_default_handler(SIGTSTP)
}
