//! Owns where files of ours lie: the configuration (read only) and the state folder, as the XDG base directory
//! specification has them. Under sudo nothing is written into the caller's home.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where root's state goes when somebody's HOME came along through sudo.
const ROOTS_STATE: &str = "/root/.local/state";

/// The environment's say in where files lie.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `$XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`.
    pub state_home: Option<PathBuf>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// Root by way of sudo.
    pub through_sudo: bool,
}

impl Places {
    /// What this process's environment says. Relative paths don't count, as the specification demands.
    pub fn here() -> Places {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Places {
            config_home: path("XDG_CONFIG_HOME"),
            state_home: path("XDG_STATE_HOME"),
            home: path("HOME"),
            through_sudo: rustix::process::geteuid().is_root() && std::env::var_os("SUDO_UID").is_some(),
        }
    }

    /// Our folder among configurations; reading it under sudo is harmless.
    pub fn config(&self) -> Option<PathBuf> {
        let base = self.config_home.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("oomdoctor"))
    }

    /// Our folder for what is written.
    pub fn state(&self) -> Option<PathBuf> {
        let own = || self.state_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local/state")));
        let base = if self.through_sudo { Some(PathBuf::from(ROOTS_STATE)) } else { own() };
        Some(base?.join("oomdoctor"))
    }
}

/// Makes a folder that only its owner may look into, and those above it.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes a file that only its owner may read; one of that name is emptied.
pub fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Makes a file that only its owner may read; fails where there is one of that name.
pub fn new_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file to append to that only its owner may read.
pub fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn at(home: &str) -> Places {
        Places { home: Some(home.into()), ..Places::default() }
    }

    #[test]
    fn the_specifications_folders_and_their_defaults() {
        assert_eq!(at("/home/ada").config(), Some("/home/ada/.config/oomdoctor".into()));
        assert_eq!(at("/home/ada").state(), Some("/home/ada/.local/state/oomdoctor".into()));
        let moved = Places { config_home: Some("/c".into()), state_home: Some("/s".into()), ..at("/home/ada") };
        assert_eq!((moved.config(), moved.state()), (Some("/c/oomdoctor".into()), Some("/s/oomdoctor".into())));
        assert_eq!((Places::default().config(), Places::default().state()), (None, None));
    }

    #[test]
    fn under_sudo_nothing_goes_into_the_callers_home() {
        let state = Places { through_sudo: true, state_home: Some("/home/ada/s".into()), ..at("/home/ada") }.state();
        assert_eq!(state, Some("/root/.local/state/oomdoctor".into()));
    }

    #[test]
    fn what_is_written_is_its_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/oomdoctor/signals.log");
        for _ in 0..2 {
            make_folder(path.parent().unwrap()).unwrap();
            append_to(&path).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
}
