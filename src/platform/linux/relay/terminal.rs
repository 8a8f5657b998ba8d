//! Owns the terminal that a command's output goes to: of the same size and modes as the real one, so that colours and
//! progress bars are what they would be. Only output goes through it, and the keys of a pager (`keys`). Other input, job
//! control and the controlling terminal stay the real ones.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use super::keys;

/// A terminal for output, and the real one that it stands for.
#[derive(Debug)]
pub(super) struct OwnTerminal {
    master: OwnedFd,
    real: OwnedFd,
    /// Where the command's end of it is.
    path: PathBuf,
}

impl OwnTerminal {
    /// One like `real`, with the end that the command writes to.
    pub(super) fn like(real: &OwnedFd) -> io::Result<(OwnTerminal, OwnedFd)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut modes = tcgetattr(real)?;
        // The real terminal makes CR LF of a line end. Done here, too, every line would get another CR.
        modes.output_modes.remove(OutputModes::OPOST);
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let path = PathBuf::from(OsString::from_vec(name.into_bytes()));
        let terminal = OwnTerminal { master, real: real.try_clone()?, path };
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
        let (last, real) = (tcgetattr(&self.master)?, self.real.try_clone()?);
        Ok(Modes { last, real, path: self.path.clone(), keys_are_awaited: false })
    }
}

/// A program that draws the whole screen switches echo and line editing off where it writes, which is not where its keys
/// come from here.
pub(super) struct Modes {
    last: Termios,
    real: OwnedFd,
    path: PathBuf,
    keys_are_awaited: bool,
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
        // A pager wants each key as it is typed. Whoever wants whole lines reads them from the real terminal.
        self.keys_are_awaited = !now.local_modes.contains(LocalModes::ICANON) && keys::are_awaited(&self.path);
        self.last = now;
    }

    /// Whether keys of the real terminal are to be typed at this one.
    pub(super) fn keys_are_awaited(&self) -> bool {
        self.keys_are_awaited
    }

    /// Keys can't be had.
    pub(super) fn await_no_keys(&mut self) {
        self.keys_are_awaited = false;
    }
}
