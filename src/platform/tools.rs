//! Owns where other programs are found: in the absolute folders of PATH. An empty or relative one means the current folder,
//! in which anybody may have put a file that is called `tmux`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders in which programs are found where PATH is not set.
const USUAL: &str = if cfg!(windows) { "" } else { "/usr/bin:/bin" };

/// The command that runs this program. Fails with `NotFound` where no folder has it.
pub(crate) fn command(program: impl AsRef<OsStr>) -> io::Result<Command> {
    let path = path();
    let mut command = Command::new(found_in(program.as_ref(), &path).ok_or(io::ErrorKind::NotFound)?);
    // What it starts in turn is found there, too.
    command.env("PATH", path);
    Ok(command)
}

/// Where this program is installed.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    found_in(program.as_ref(), &path())
}

/// PATH without what depends on the current folder.
fn path() -> OsString {
    without_relative(&env::var_os("PATH").unwrap_or_else(|| USUAL.into()))
}

fn without_relative(path: &OsStr) -> OsString {
    // What was split at the separator can be joined again.
    env::join_paths(env::split_paths(path).filter(|folder| folder.is_absolute())).unwrap_or_default()
}

fn found_in(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if Path::new(program).is_absolute() {
        return Some(program.into());
    }
    // A path that is not absolute depends on the current folder.
    if Path::new(program).components().count() != 1 {
        return None;
    }
    let mut name = program.to_owned();
    if Path::new(program).extension().is_none() {
        name.push(env::consts::EXE_SUFFIX);
    }
    env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&name))
        .find(|file| can_run(file))
}

#[cfg(unix)]
fn can_run(file: &Path) -> bool {
    use rustix::fs::{Access, access};
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(windows)]
fn can_run(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_program_is_found_in_absolute_folders_only() {
        use std::fs;
        use std::os::unix::fs::PermissionsExt;

        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (path, mode) in [("a/tmux", 0o644), ("b/tmux", 0o755), ("c/tmux", 0o755), ("c/lone", 0o755)] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), "#!/bin/sh\n").unwrap();
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(at("a/lone")).unwrap();
        // The same folder as `at("c")`, as seen from the current one.
        let up: PathBuf = env::current_dir().unwrap().iter().skip(1).map(|_| "..").collect();
        let relative = up.join(at("c").strip_prefix("/").unwrap());
        assert!(can_run(&relative.join("tmux")));
        let path = env::join_paths(["".into(), ".".into(), relative, at("a"), at("b"), at("c")]).unwrap();
        let found = |program: &str| found_in(program.as_ref(), &path);
        assert_eq!((found("tmux"), found("lone"), found("none")), (Some(at("b/tmux")), Some(at("c/lone")), None));
        assert_eq!(found(at("c/tmux").to_str().unwrap()), Some(at("c/tmux")));
        for relative in ["./tmux", "../tmux", "b/tmux", "", ".."] {
            assert_eq!(found(relative), None, "{relative}");
        }
        assert_eq!(env::split_paths(&without_relative(&path)).collect::<Vec<_>>(), [at("a"), at("b"), at("c")]);
    }
}
