//! Owns the terminal that a command's output goes to: of the same size and modes as the real one, so that colours and
//! progress bars are what they would be. Only output goes through it. Input, job control and the controlling terminal stay
//! the real ones.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

/// A terminal for output, and the real one that it stands for.
#[derive(Debug)]
pub(super) struct OwnTerminal {
    master: OwnedFd,
    real: OwnedFd,
}

impl OwnTerminal {
    /// One like `real`, with the end that the command writes to.
    pub(super) fn like(real: &OwnedFd) -> io::Result<(OwnTerminal, OwnedFd)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut modes = tcgetattr(real)?;
        // The real terminal makes CR LF of a line end. Done here, too, every line would get another CR.
        modes.output_modes.remove(OutputModes::OPOST);
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let terminal = OwnTerminal { master, real: real.try_clone()? };
        terminal.take_size();
        Ok((terminal, slave))
    }

    /// What the command writes is read there.
    pub(super) fn reader(&self) -> io::Result<OwnedFd> {
        self.master.try_clone()
    }

    /// Takes over the size of the real terminal.
    pub(super) fn take_size(&self) {
        if let Ok(size) = tcgetwinsize(&self.real) {
            let _ = tcsetwinsize(&self.master, size);
        }
    }

    /// Whether it has the size of the real terminal.
    pub(super) fn has_the_size(&self) -> bool {
        let sizes = [&self.real, &self.master].map(|terminal| tcgetwinsize(terminal).ok());
        let [real, own] = sizes.map(|size| size.map(|size| (size.ws_row, size.ws_col)));
        real == own
    }

    /// What is passed on of the modes that the command sets.
    pub(super) fn modes(&self) -> io::Result<Modes> {
        Ok(Modes { last: tcgetattr(&self.master)?, real: self.real.try_clone()? })
    }
}

/// A program that draws the whole screen switches echo and line editing off where it writes, which is not where its keys
/// come from here.
pub(super) struct Modes {
    last: Termios,
    real: OwnedFd,
}

impl Modes {
    /// Sets the input modes on the real terminal that were set on this one since.
    pub(super) fn follow(&mut self, terminal: &OwnedFd) {
        let Ok(now) = tcgetattr(terminal) else { return };
        if (now.local_modes, now.input_modes) == (self.last.local_modes, self.last.input_modes) {
            return;
        }
        if let Ok(mut real) = tcgetattr(&self.real) {
            (real.local_modes, real.input_modes) = (now.local_modes, now.input_modes);
            real.special_codes = now.special_codes.clone();
            let _ = tcsetattr(&self.real, OptionalActions::Now, &real);
        }
        self.last = now;
    }
}
