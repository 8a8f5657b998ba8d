//! Owns reading `~/.ssh/config` and what it includes, for the names in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::hosts::HostName;
use crate::hosts::ssh::config::{Line, lines, nearest};
use crate::platform::{here, regular};

/// More than any such file has.
const LARGEST: u64 = 1 << 20;
/// More files than that are not read.
const MOST_FILES: usize = 64;

/// The machine of the configuration that this name was probably meant to be.
pub(super) fn meant(name: &HostName) -> Option<HostName> {
    let home = here::home()?;
    nearest(name, &known(&home)).cloned()
}

/// All machines that it names.
fn known(home: &Path) -> Vec<HostName> {
    let folder = home.join(".ssh");
    let (mut files, mut names) = (vec![folder.join("config")], Vec::new());
    let mut read = 0;
    // A file that includes itself adds to the list while it is read.
    while let Some(file) = files.get(read)
        && read < MOST_FILES
    {
        read += 1;
        let text = regular::read(file, LARGEST).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        for line in lines(&text.unwrap_or_default()) {
            match line {
                Line::Hosts(hosts) => names.extend(hosts),
                Line::Include(paths) => files.extend(paths.iter().flat_map(|path| included(path, home, &folder))),
            }
        }
        files.truncate(MOST_FILES);
    }
    names
}

/// The files that this means, where a wildcard is only in the last part, as in `config.d/*`.
fn included(path: &str, home: &Path, folder: &Path) -> Vec<PathBuf> {
    let path = match path.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => folder.join(path),
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (Some(parent), Some((before, after))) = (path.parent(), name.split_once('*')) else { return vec![path] };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten().take(MOST_FILES);
    let matching = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(before) && name.ends_with(after) && !name.starts_with('.'))
    });
    let mut files: Vec<PathBuf> = matching.map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_followed_and_a_circle_ends() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(".ssh").join(path);
        fs::create_dir_all(at("config.d")).unwrap();
        fs::write(at("config"), "Include config.d/*.conf ~/.ssh/config nowhere\nHost gpu1\n").unwrap();
        fs::write(at("config.d/lab.conf"), "Host gpu2\nHost *.lab\n").unwrap();
        fs::write(at("config.d/old"), "Host gpu3\n").unwrap();
        let mut names = known(home.path());
        names.sort();
        names.dedup();
        assert_eq!(names.iter().map(HostName::as_str).collect::<Vec<_>>(), ["gpu1", "gpu2"]);
    }
}
