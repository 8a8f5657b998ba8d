//! Owns stand-ins for other programs: scripts on a path of their own, which print what was recorded from the real ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A home with programs of its own: nothing else is on the path but the shell's.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.at("bin")).unwrap();
        fs::create_dir_all(home.at("work")).unwrap();
        for name in ["sh", "cat", "sleep", "env", "touch", "mv"] {
            let there =
                ["/bin", "/usr/bin"].iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists());
            std::os::unix::fs::symlink(there.unwrap(), home.at(&format!("bin/{name}"))).unwrap();
        }
        home
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// A program that is this script of a shell; it leaves a file that says that it ran.
    pub fn program(&self, name: &str, script: &str) -> &Home {
        let path = self.at(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n{script}\n", self.at(&format!("{name}-ran")).display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    pub fn has_run(&self, name: &str) -> bool {
        self.at(&format!("{name}-ran")).exists()
    }

    pub fn says(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomdoctor"));
        command.args(arguments).env_clear().current_dir(self.at("work"));
        command.env("PATH", self.at("bin")).env("HOME", self.0.path());
        command.env("XDG_CONFIG_HOME", self.at("none")).env("XDG_STATE_HOME", self.at("state"));
        command
    }
}
