//! Owns opening files that are named in a folder or a setting, and replacing them. Only a regular file is read, and only
//! so much of it: a pipe would be waited for, and a device may never end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

const NOT_REGULAR: &str = "it is not a regular file";

/// Opens a regular file, or fails at once.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Checked before it is opened: opening a pipe tells its writer that somebody reads it.
    check(&fs::metadata(path)?)?;
    let file = open_without_waiting(path)?;
    // Checked again: another file may have this name by now.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Opens whatever is there without waiting for anybody, and without becoming a terminal's session.
#[cfg(unix)]
pub(super) fn open_without_waiting(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a file on disk: NUL, CON, COM1 and named pipes have the metadata of a regular file.
#[cfg(windows)]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let is_on_disk = winapi_util::file::typ(&file)?.is_disk();
    if is_on_disk { Ok(file) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_REGULAR)) }
}

/// Reads a regular file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {}", crate::units::Bytes(most))));
    }
    Ok(bytes)
}

/// Puts a new file, which only its owner may read, in the place of the one that is there: whoever reads meanwhile has the
/// old one whole. What is there and is no plain file (a link, a device) stays, and this fails.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        let why = format!("{} is no plain file", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name cannot be guessed, and the file is removed if anything fails.
    let mut new = tempfile::Builder::new().prefix(".oomdoctor-").tempfile_in(folder)?;
    write(new.as_file_mut())?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// Fails unless this is a regular file, with the reason in words.
pub(crate) fn check(there: &fs::Metadata) -> io::Result<()> {
    if there.is_file() {
        return Ok(());
    }
    let kind = if there.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    Err(io::Error::new(kind, if there.is_dir() { "it is a folder" } else { NOT_REGULAR }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_of_a_file_is_read_and_a_folder_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        assert!(read(&at("file"), 4).unwrap_err().to_string().contains("larger"));
        assert_eq!(read(&at("none"), 5).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(folder.path(), 5).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.md");
        for text in ["old", "new"] {
            replace(&path, |file| io::Write::write_all(file, text.as_bytes())).unwrap();
            assert_eq!(read(&path, 9).unwrap(), text.as_bytes());
        }
        assert!(replace(&path, |_| Err(io::Error::other("full"))).is_err());
        assert_eq!(read(&path, 9).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
