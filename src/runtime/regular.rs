//! Owns opening files that are named in a folder or a setting. Only a regular file is read, and only so much of it: a
//! pipe would be waited for, and a device may never end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file, or fails at once.
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened: whoever writes to a pipe would think that somebody reads it.
    check(&fs::metadata(path)?)?;
    let file = open_without_waiting(path)?;
    // Another file may have this name by now.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most so many bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {}", crate::units::Bytes(most))));
    }
    Ok(bytes)
}

/// Opens whatever is there without waiting for anybody, and without becoming a terminal's session.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn check(there: &fs::Metadata) -> io::Result<()> {
    if there.is_file() {
        return Ok(());
    }
    let kind = if there.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    Err(io::Error::new(kind, if there.is_dir() { "it is a folder" } else { "it is not a regular file" }))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn only_a_regular_file_is_read_and_only_so_much_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        assert!(read(&at("file"), 4).unwrap_err().to_string().contains("larger"));
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, target) in [("zero", "/dev/zero"), ("tty", "/dev/tty"), ("folder", "/"), ("to pipe", "pipe")] {
            std::os::unix::fs::symlink(target, at(name)).unwrap();
        }
        for name in ["pipe", "socket", "zero", "tty", "folder", "to pipe"] {
            assert!(read(&at(name), 5).is_err(), "{name}");
        }
        std::os::unix::fs::symlink("file", at("to file")).unwrap();
        assert_eq!(read(&at("to file"), 5).unwrap(), b"12345");
        assert_eq!(read(&at("none"), 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
