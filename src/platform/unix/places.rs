//! Owns where this program's files are: the settings (read only) and the state folder, by the XDG base directory
//! specification; and who owns them. Root writes nothing into another user's home, however it became root.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Root's state folder if HOME is another user's, because of sudo or `su` without `-`.
const ROOTS_STATE: &str = "/root/.local/state";

/// What the environment says about where files are.
#[derive(Clone, Debug, Default)]
struct Places {
    config_home: Option<PathBuf>,
    state_home: Option<PathBuf>,
    home: Option<PathBuf>,
    user: u32,
    /// Root by way of sudo.
    through_sudo: bool,
}

impl Places {
    /// What this process's environment says. Relative paths don't count, as the specification demands.
    fn here() -> Places {
        Places {
            config_home: absolute_path("XDG_CONFIG_HOME"),
            state_home: absolute_path("XDG_STATE_HOME"),
            home: absolute_path("HOME"),
            user: rustix::process::geteuid().as_raw(),
            through_sudo: rustix::process::geteuid().is_root() && std::env::var_os("SUDO_UID").is_some(),
        }
    }

    /// The settings folder. It is only read, so under sudo it may be the caller's.
    fn config(&self) -> Option<PathBuf> {
        let base = self.config_home.clone().or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("oomdoctor"))
    }

    /// The folder for what this program writes.
    fn state(&self) -> Option<PathBuf> {
        let own = self.state_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local/state")));
        let base = match own {
            // Root writes nothing into another user's home.
            own if self.user == 0 => {
                own.filter(|base| !self.through_sudo && is_ours(0, base)).unwrap_or_else(|| ROOTS_STATE.into())
            }
            own => own?,
        };
        Some(base.join("oomdoctor"))
    }
}

pub(crate) fn home() -> Option<PathBuf> {
    Places::here().home
}

pub(crate) fn config_folder() -> Option<PathBuf> {
    Places::here().config()
}

pub(crate) fn state_folder() -> Option<PathBuf> {
    Places::here().state()
}

/// The path in an environment variable. Relative ones do not count, as the specification demands.
fn absolute_path(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Makes a folder that only its owner may look into, and those above it. One that is somebody else's, or a link that
/// somebody else made, is refused: who owns it could read along, or put a link where a file of ours goes.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    make_folder_for(rustix::process::geteuid().as_raw(), folder)
}

fn make_folder_for(user: u32, folder: &Path) -> io::Result<()> {
    if !is_ours(user, folder) {
        return Err(refused(folder, "would lie in a folder of another user"));
    }
    fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = fs::metadata(folder)?;
            if fs::symlink_metadata(folder)?.uid() != user || there.uid() != user {
                return Err(refused(folder, "belongs to another user"));
            }
            // Whoever may write into it could put a link where a file of ours goes.
            if there.mode() & 0o022 == 0 { Ok(()) } else { fs::set_permissions(folder, Permissions::from_mode(0o700)) }
        }
        made => made,
    }
}

/// Whether a folder may be made there: the nearest one above it that exists is the user's, root's, or like /tmp for
/// everybody. One that may not be looked at is not.
fn is_ours(user: u32, folder: &Path) -> bool {
    let there = folder.ancestors().find_map(|above| match fs::metadata(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        there => Some(there),
    });
    matches!(there, Some(Ok(there)) if [user, 0].contains(&there.uid()) || there.mode() & 0o1002 == 0o1002)
}

/// Whether code may be loaded because this file names it.
pub(crate) fn may_name_a_library(settings: &Path) -> bool {
    let owner = fs::metadata(settings).map_or(u32::MAX, |there| there.uid());
    is_trusted_with_code(owner, rustix::process::geteuid().as_raw())
}

/// Root, by sudo or su, reads other people's settings, and loads nothing that somebody else names.
fn is_trusted_with_code(owner: u32, user: u32) -> bool {
    user != 0 || owner == 0
}

/// Creates a file that only its owner may read. Fails if the name is taken, also by a link.
pub(crate) fn new_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file to append to and makes it readable only for its owner. A link is not followed.
pub(crate) fn append_to_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => refused(path, "is a link"),
        // A pipe that nobody reads, or a socket.
        Some(Errno::NXIO) => refused(path, "is no plain file"),
        _ => error,
    })?;
    let there = file.metadata()?;
    if !there.is_file() {
        return Err(refused(path, "is no plain file"));
    }
    if there.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::platform::regular::replace;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn at(home: &str) -> Places {
        Places { home: Some(home.into()), user: 1000, ..Places::default() }
    }

    #[test]
    fn the_specifications_folders_and_their_defaults() {
        assert_eq!(at("/home/ada").config(), Some("/home/ada/.config/oomdoctor".into()));
        assert_eq!(at("/home/ada").state(), Some("/home/ada/.local/state/oomdoctor".into()));
        let moved = Places { config_home: Some("/c".into()), state_home: Some("/s".into()), ..at("/home/ada") };
        assert_eq!((moved.config(), moved.state()), (Some("/c/oomdoctor".into()), Some("/s/oomdoctor".into())));
        let nowhere = Places { user: 1000, ..Places::default() };
        assert_eq!((nowhere.config(), nowhere.state()), (None, None));
    }

    #[test]
    fn root_loads_no_library_that_another_users_settings_name() {
        assert!(is_trusted_with_code(1000, 1000) && is_trusted_with_code(0, 0) && is_trusted_with_code(0, 1000));
        assert!(!is_trusted_with_code(1000, 0));
    }

    #[test]
    fn under_sudo_nothing_goes_into_the_callers_home() {
        let state =
            Places { through_sudo: true, user: 0, state_home: Some("/home/ada/s".into()), ..at("/home/ada") }.state();
        assert_eq!(state, Some("/root/.local/state/oomdoctor".into()));
    }

    #[test]
    fn root_by_su_writes_nothing_into_the_home_that_came_along() {
        let home = tempfile::tempdir().unwrap();
        let as_root = |home: &Path| Places { user: 0, home: Some(home.into()), ..Places::default() }.state();
        let roots = Some(PathBuf::from("/root/.local/state/oomdoctor"));
        // Whoever runs this: where that is root, the home is made somebody's.
        if std::os::unix::fs::chown(home.path(), Some(1234), None).is_ok() || !rustix::process::geteuid().is_root() {
            assert_eq!(as_root(home.path()), roots);
        }
        assert_eq!(as_root(Path::new("/")), Some("/.local/state/oomdoctor".into()));
        assert_eq!(Places { user: 0, ..Places::default() }.state(), roots, "root's home is known without HOME");
    }

    #[test]
    fn what_is_written_is_its_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/oomdoctor/signals.log");
        for _ in 0..2 {
            make_private_folder(path.parent().unwrap()).unwrap();
            append_to_private_file(&path).unwrap();
        }
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o777)).unwrap();
        make_private_folder(path.parent().unwrap()).unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o700, "one that others may write into is closed to them");
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let root = tempfile::tempdir().unwrap();
        // Root's own would be anybody's: where root runs this, the folder is made somebody's.
        let given = std::os::unix::fs::chown(root.path(), Some(1234), None).is_ok();
        let own = if given { 1234 } else { rustix::process::geteuid().as_raw() };
        assert!(make_folder_for(own, root.path()).is_ok());
        let below = root.path().join("state/oomdoctor");
        for folder in [root.path(), &below] {
            let error = make_folder_for(own + 1, folder).unwrap_err();
            assert!(error.to_string().contains("another user"), "{error}");
        }
        assert!(!below.parent().unwrap().exists(), "nothing was made there");
        fs::set_permissions(root.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(is_ours(own + 1, &below), "such as /tmp");
    }

    #[test]
    fn what_is_appended_to_is_no_link_and_becomes_its_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let (path, link) = (root.path().join("signals.log"), root.path().join("link"));
        fs::write(&path, "before\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        symlink(&path, &link).unwrap();
        assert!(append_to_private_file(&link).unwrap_err().to_string().ends_with("is a link"));
        append_to_private_file(&path).unwrap().write_all(b"after\n").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("before\nafter\n", 0o600));
    }

    #[test]
    fn what_is_replaced_is_a_new_file_and_a_link_stays() {
        let root = tempfile::tempdir().unwrap();
        let (path, link, other) = (root.path().join("r.md"), root.path().join("link"), root.path().join("other"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&path, &other).unwrap();
        symlink(&path, &link).unwrap();
        let new = |file: &mut File| file.write_all(b"new");
        assert!(replace(&link, new).unwrap_err().to_string().ends_with("is no plain file"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        replace(&path, new).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", 0o600));
        assert_eq!(fs::read_to_string(&other).unwrap(), "old");
        assert!(replace(&path, |_| Err(io::Error::other("full"))).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3, "nothing is left beside it");
    }
}
